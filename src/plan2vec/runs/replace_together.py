"""Several files of a run folder replaced together: all of them or none, wherever the process is killed.

The new files are written into a folder `.plan2vec-replacing-...` inside the run folder. When all of them are there it
is renamed to `.plan2vec-replacement`: this one rename is the moment the change happens. Then the files are moved to
their places. A kill before the rename leaves a folder that the next replacement removes. After it, whoever opens the
run calls `finish_replacement` first, which moves the rest: only the names in `REPLACED`, and nothing through a link.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from plan2vec.files import own_folder

UNFINISHED, FINISHED, DISCARDED = ".plan2vec-replacing-", ".plan2vec-replacement", ".plan2vec-discarded-"
REPLACED = ("data.json", "frames.npy", "features.npy", "index.npz", "graph.npz", "embedding.safetensors", "vectors.npy",
            "metrics.jsonl", "manifest.json")
OUTDATED = ("scorecard.json", "report.html")  # they describe the old files


@contextmanager
def replacing_together(folder: Path) -> Iterator[Path]:
    """An empty folder to write new files to; they take their places in `folder` when the block ends well."""
    own_folder(folder, FINISHED)  # refuses a link there
    finish_replacement(folder)
    for leftover in folder.glob(f"{UNFINISHED}*"):  # of killed processes; one that still lives fails at its rename
        with suppress(FileNotFoundError):
            os.rename(leftover, folder / f"{DISCARDED}{leftover.name.removeprefix(UNFINISHED)}")
    for discarded in folder.glob(f"{DISCARDED}*"):
        if not discarded.is_symlink():
            shutil.rmtree(discarded, ignore_errors=True)
    staged = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
    try:
        yield staged
        os.rename(staged, folder / FINISHED)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    finish_replacement(folder)


def finish_replacement(folder: Path) -> None:
    """Finish a replacement whose files are all written. The caller has seen that `folder` is a run (`run.is_run`)."""
    finished = folder / FINISHED
    if finished.is_symlink() or not finished.is_dir():
        return
    for name in OUTDATED:
        (folder / name).unlink(missing_ok=True)
    for name in REPLACED:
        with suppress(FileNotFoundError):  # not replaced, or another process that opened the run moved it
            os.replace(finished / name, folder / name)
    with suppress(OSError):  # another process removed it, or a person put a file there
        finished.rmdir()
