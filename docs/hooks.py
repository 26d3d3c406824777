"""What mkdocs does while it builds: the README becomes the start page, the commands' help part of the reference."""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
MARK = "<!-- the help of every command -->"
HOME = "https://github.com/plan2vec/plan2vec"


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """The README, with its links to pages and pictures of this site leading to them."""
    text = (ROOT / "README.md").read_text()
    text = re.sub(rf"{HOME}/blob/main/docs/|https://raw\.githubusercontent\.com/plan2vec/plan2vec/main/docs/", "", text)
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = markdown.replace("](results)", f"]({HOME}/tree/main/docs/results)")  # a folder is no page
    return markdown.replace(MARK, commands_help()) if MARK in markdown else markdown


def commands_help() -> str:
    """One section per command, as `plan2vec COMMAND --help` prints it."""
    sys.path.insert(0, str(ROOT / "src"))
    from plan2vec.commands.arguments import COMMANDS, asked_help

    return "\n\n".join(f"### plan2vec {name}\n\n```text\n{asked_help([name, '--help'])}\n```" for name in COMMANDS)
