"""tutorial.ipynb from tutorial.md, without outputs: python docs/make_notebook.py"""

import json
import re
from pathlib import Path

DOCS = Path(__file__).parent
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.M | re.S)


def notebook(markdown: str) -> str:
    """Python blocks become cells, shell blocks cells of `!` lines, and everything between them text."""
    cells, end = [], 0
    for block in BLOCK.finditer(markdown):
        cells.append(text_cell(markdown[end : block.start()]))
        lines = block[2].rstrip("\n").splitlines()
        cells.append(code_cell("\n".join(f"!{line}" for line in lines) if block[1] == "sh" else "\n".join(lines)))
        end = block.end()
    cells.append(text_cell(markdown[end:]))
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 4}, indent=1) + "\n"


def text_cell(text: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip("\n").splitlines(keepends=True)}


def code_cell(code: str) -> dict:
    source = code.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


if __name__ == "__main__":
    (DOCS / "tutorial.ipynb").write_text(notebook((DOCS / "tutorial.md").read_text()))
