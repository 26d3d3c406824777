"""Files that are either whole or not there: written beside their place, flushed, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it takes the place of `path` when the block ends well, and is removed when not."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp{path.suffix}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files that a killed process left behind."""
    for leftover in folder.glob("**/.*.tmp*"):
        leftover.unlink(missing_ok=True)
