"""What `--help` prints, made from the comments beside the settings: those of single stages with `--help-all` only."""

import dataclasses
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

WIDTH = 100  # columns
INDENT = 26  # of the explanations
WORDS: dict[Any, str] = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


def comments_of(settings: type) -> dict[str, str]:
    """What the comments behind, or above, the fields of a dataclass and of those that it extends say."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in "\n".join(inspect.getsource(one) for one in settings.__mro__[:-1]).splitlines():
        text = line.strip()
        field = re.match(r"(\w+): [^#]*?(?:  # (.*))?$", text)
        if text.startswith("#"):
            above.append(text[1:].strip())
            continue
        if field and line.startswith("    ") and not line.startswith("     "):
            found[field[1]] = " ".join([*above, field[2] or ""]).strip()
        above = []
    return found


def options_of(settings: type, prefix: str = "", stage: str = "") -> Iterator[tuple[str, str, str]]:
    """(flag, such as --dim INT, explanation, its stage or "") of every field of a dataclass, of nested ones too."""
    hints, comments = get_type_hints(settings, include_extras=True), comments_of(settings)
    is_own = lambda field: field.name in settings.__annotations__ or plain_type(hints[field.name])[1]  # noqa: E731
    for field in sorted(dataclasses.fields(settings), key=is_own, reverse=True):  # shared with other commands: last
        kind, is_positional = plain_type(hints[field.name])
        if dataclasses.is_dataclass(kind):
            nameless = field.name in ("config", "reading")
            name = "" if nameless else f"{field.name.replace('_', '-')}."
            yield from options_of(kind, prefix + name, stage if nameless else field.name)  # type: ignore[arg-type]
        else:
            flag = field.name.upper() if is_positional else f"--{prefix}{field.name.replace('_', '-')}{value_of(kind)}"
            yield flag, comments[field.name] + default_of(field, is_positional), stage


def plain_type(hint: Any) -> tuple[Any, bool]:
    """The type without its annotations and without None, and whether it is typed without a flag."""
    is_positional = "Positional" in repr(hint)
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    return hint, is_positional


def value_of(kind: Any) -> str:
    if kind is bool:
        return ""
    if get_origin(kind) is Literal:
        return " {" + ",".join(map(str, get_args(kind))) + "}"
    return " NAME ..." if get_origin(kind) is tuple else f" {WORDS[kind]}"


def default_of(field: dataclasses.Field, is_positional: bool) -> str:
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        return "" if is_positional else " (required)"
    return "" if field.default in (None, False, ()) else f" (default {field.default})"


def command_help(name: str, command: type, full: bool = False) -> str:
    options = list(options_of(command))
    positional = " ".join(flag for flag, _, _ in options if not flag.startswith("--"))
    lines = [f"usage: plan2vec {name} {positional}".rstrip() + " [OPTIONS]", "",
             inspect.cleandoc(command.__doc__ or ""), ""]
    shown = [option for option in options if full or not option[2]]
    for _, of_stage in groupby(shown, key=itemgetter(2)):
        lines += [*(line for flag, text, _ in of_stage for line in option_lines(flag, text)), ""]
    if hidden := len(options) - len(shown):
        lines.append(f"{hidden} settings of single stages are not shown: plan2vec {name} --help-all")
    return "\n".join(lines).rstrip()


def option_lines(flag: str, text: str) -> list[str]:
    flag, indent = f"  {flag}", " " * INDENT
    lines = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent) or [""]
    return [flag + lines[0][len(flag) :], *lines[1:]] if len(flag) < INDENT - 1 else [flag, *lines]


def program_help(commands: dict[str, type]) -> str:
    listed = [option_lines(name, inspect.cleandoc(command.__doc__ or "")) for name, command in commands.items()]
    return "\n".join([
        "usage: plan2vec COMMAND [OPTIONS]", "", "Recordings in, metric map and planner out.", "",
        *(line for lines in listed for line in lines), "", *option_lines("--version", "print the version"),
        *option_lines("COMMAND --help", "the options of one command"), "",
        "Answers go to standard output, everything else to standard error. Exit code 0: it worked, and no path is an",
        "answer too; 2: a mistake in what was typed or given, with one line that says which."])
