"""Several files of a folder replaced together: all of them or none, wherever the process is killed.

The new files are written into a folder of their own, `growing-...`, inside the folder they are for. When all of them are
there it is renamed to `grown`: this one rename is the moment the change happens. Then the files are moved to their places.
A kill before the rename leaves the old files, and a `growing-...` that the next replacement removes. A kill after it leaves
some files unmoved: whoever opens the folder calls `settle` first, which moves the rest.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UNFINISHED, FINISHED = "growing-", "grown"


@contextmanager
def replacing_together(folder: Path) -> Iterator[Path]:
    """An empty folder to write new files to; they take their places in `folder` when the block ends well."""
    settle(folder)
    _discard_unfinished(folder)
    staged = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
    try:
        yield staged
        os.rename(staged, folder / FINISHED)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    settle(folder)


def settle(folder: Path, outdated: tuple[str, ...] = ("scorecard.json", "report.html")) -> None:
    """Finish a replacement whose files are all written; what `outdated` names describes the old ones and is removed."""
    finished = folder / FINISHED
    if not finished.is_dir():
        return
    for name in outdated:
        (folder / name).unlink(missing_ok=True)
    for path in sorted(finished.iterdir()):
        with suppress(FileNotFoundError):  # another process that opened the folder moved it
            os.replace(path, folder / path.name)
    with suppress(FileNotFoundError):
        finished.rmdir()


def _discard_unfinished(folder: Path) -> None:
    """Remove what killed processes left. Renamed first: a process that still lives fails at its rename, and never half succeeds."""
    for leftover in folder.glob(f"{UNFINISHED}*"):
        discarded = leftover.with_name(f"discarded-{leftover.name}")
        with suppress(FileNotFoundError):
            os.rename(leftover, discarded)
    for discarded in folder.glob(f"discarded-{UNFINISHED}*"):
        shutil.rmtree(discarded, ignore_errors=True)
