"""How answers are printed: a table for people, one JSON object for programs; everything else goes to standard error."""

import json
import math
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from plan2vec.verdict import Verdict

CONSOLE = Console(highlight=False, markup=False)  # brackets in names of files are no markup


def clean(value: Any) -> Any:
    """Numbers that JSON can hold: NaN and infinity become null."""
    if isinstance(value, dict):
        return {name: clean(one) for name, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_answer(answer: dict, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer, allow_nan=False))
        return
    table = Table(show_header=False, box=None)
    for name, value in answer.items():
        if value is not None and value not in ("", [], {}):  # nothing to say
            table.add_row(name, _words(value))
    CONSOLE.print(table)


def print_scorecard(card: dict, as_json: bool, verbose: bool) -> None:
    """The verdict at the end; every number before it if `verbose`. Programs get one object with both."""
    verdict = Verdict(**card["verdict"])
    if as_json or verbose:
        print_answer(card if as_json else {name: value for name, value in card.items() if name != "verdict"}, as_json)
    print(verdict, file=sys.stderr if as_json else sys.stdout)


def _words(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    return str(value) if not isinstance(value, list) else " ".join(_words(one) for one in value)


def say(text: str) -> None:
    print(text, file=sys.stderr)


def print_tables(answer: dict[str, Any], as_json: bool) -> None:
    if as_json or "tables" not in answer:
        print_answer(answer, as_json)
        return
    for name, lines in answer["tables"].items():
        print("\n".join([f"## {name}", "", *lines]))
    say(f"rows, tables and figures: {answer['out']}")
