"""How a run folder is changed: by one writer at a time, and several files together, all of them or none.

Whoever changes a run holds its lock, and whoever comes second is told by whom. New files that belong together are
written into a folder `.plan2vec-replacing-...` inside the run folder. When all of them are there it is renamed to
`.plan2vec-replacement`: this one rename is the moment the change happens. Then the files are moved to their places. A
kill before the rename leaves a folder that the next replacement removes. After it, whoever opens the run calls
`finish_replacement` first, which moves the rest: only the names in `REPLACED`, and nothing through a link."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from plan2vec.files import own_folder

LOCK = ".plan2vec-lock"
WAIT = 10.0  # seconds that a short change, a strike or a report, waits for another
_held: set[Path] = set()  # by this process: a fit also writes its report
UNFINISHED, FINISHED, DISCARDED = ".plan2vec-replacing-", ".plan2vec-replacement", ".plan2vec-discarded-"
REPLACED = ("data.json", "frames.npy", "features.npy", "index.npz", "graph.npz", "embedding.safetensors", "vectors.npy",
            "metrics.jsonl", "manifest.json")
OUTDATED = ("scorecard.json", "report.html")  # they describe the old files


@contextmanager
def changing_run(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of a run folder. After `wait` seconds a ValueError says which process holds it."""
    path = folder.resolve() / LOCK
    if path in _held or sys.platform == "win32":  # no such lock there; docs/safety.md says so
        yield
        return
    import fcntl

    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        until = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    owner = os.pread(lock, 100, 0).decode(errors="replace") or "another process"
                    raise ValueError(f"{folder} is being changed by {owner}; wait for it or stop it") from None
                time.sleep(0.05)
        os.truncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()}".encode(), 0)
        _held.add(path)
        yield
    finally:
        _held.discard(path)
        os.close(lock)  # which gives it up


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
    if (finished := folder / FINISHED).is_symlink() or not finished.is_dir():
        return
    for name in OUTDATED:
        (folder / name).unlink(missing_ok=True)
    for name in REPLACED:
        with suppress(FileNotFoundError):  # not replaced, or another process that opened the run moved it
            os.replace(finished / name, folder / name)
    with suppress(OSError):  # another process removed it, or a person put a file there
        finished.rmdir()
