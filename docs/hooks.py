"""What mkdocs does while it builds: puts the help of every command into the page that asks for it."""

import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
MARK = "<!-- the help of every command -->"
ROWS = "](https://github.com/plan2vec/plan2vec/tree/main/docs/results)"


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = markdown.replace("](results)", ROWS)  # a folder is no page
    return markdown.replace(MARK, commands_help()) if MARK in markdown else markdown


def commands_help() -> str:
    """One section per command, as `plan2vec COMMAND --help` prints it."""
    sys.path.insert(0, str(SOURCE))
    from plan2vec.commands.arguments import COMMANDS, asked_help

    return "\n\n".join(f"### plan2vec {name}\n\n```text\n{asked_help([name, '--help'])}\n```" for name in COMMANDS)
