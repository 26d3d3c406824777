"""One writer per run folder: whoever changes a run holds its lock, and whoever comes second is told by whom."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = ".plan2vec-lock"
WAIT = 10.0  # seconds that a short change, a strike or a report, waits for another
_held: set[Path] = set()  # by this process: a fit also writes its report


@contextmanager
def changing_run(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of a run folder. After `wait` seconds a ValueError says which process holds it."""
    path = folder.resolve() / FILE
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
