"""A Griffe extension: the comment behind, or above, a field of a class becomes its description in the reference.

Our settings are documented by such comments, one line each (`plan2vec COMMAND --help` reads them too).
"""

import re
from pathlib import Path
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Gives attributes of classes that have no docstring the comment they have."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        lines = Path(cls.filepath).read_text().splitlines()
        for attribute in cls.attributes.values():
            if not attribute.is_alias and attribute.docstring is None and attribute.lineno:
                text = comment_of(lines, attribute.lineno - 1, (attribute.endlineno or attribute.lineno) - 1)
                if text:
                    attribute.docstring = griffe.Docstring(text, parent=attribute)


def comment_of(lines: list[str], first: int, last: int) -> str:
    """What is said above line `first`, on lines of their own, and behind line `last`."""
    above: list[str] = []
    while first > 0 and lines[first - 1].strip().startswith("# "):
        first -= 1
        above.insert(0, lines[first].strip()[2:])
    behind = re.search(r"  # (?!noqa|type:)(.*)$", lines[last])
    return " ".join(above + ([behind[1]] if behind else []))
