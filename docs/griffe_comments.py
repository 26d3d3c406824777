"""A Griffe extension: the comments behind, or above, the fields of a class become a table in the reference.

Our settings are documented by such comments, one line each (`plan2vec COMMAND --help` reads them too).
"""

import re
from pathlib import Path
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Adds the fields of a class, with their comments and defaults, to its docstring."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        lines = Path(cls.filepath).read_text().splitlines()
        fields = []
        for name, attribute in cls.attributes.items():
            if attribute.is_alias or attribute.docstring or attribute.annotation is None or not attribute.lineno:
                continue
            text = comment_of(lines, attribute.lineno - 1, (attribute.endlineno or attribute.lineno) - 1)
            fields.append(f"    {name}: {text}{default_of(str(attribute.value or ''))}".rstrip())
        if fields:
            text = cls.docstring.value if cls.docstring else ""
            cls.docstring = griffe.Docstring("\n".join([text, "", "Attributes:", *fields]), parent=cls)


def comment_of(lines: list[str], first: int, last: int) -> str:
    """What is said above line `first`, on lines of their own, and behind line `last`."""
    above: list[str] = []
    while first > 0 and lines[first - 1].strip().startswith("# "):
        first -= 1
        above.insert(0, lines[first].strip()[2:])
    behind = re.search(r"  # (?!noqa|type:)(.*)$", lines[last])
    return " ".join(above + ([behind[1]] if behind else []))


def default_of(value: str) -> str:
    """The default, where it says something that the comment does not."""
    return "" if value in ("", "None", "NOT_GIVEN", "()", "''") or "field(" in value else f" (default `{value}`)"
