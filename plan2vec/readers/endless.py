"""A guard against HDF5 files whose rows of variable length never end.

libhdf5 walks a damaged heap of such rows for ever, and nothing in the same process can stop it. So a small process of its own
reads them first, under an alarm that is set anew for every few rows.
"""

import os
import signal
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

STALLED = 30  # seconds without progress
PROBE = """
import signal, sys
signal.alarm(int(sys.argv[2]))
import h5py
def touch(name, data):
    if isinstance(data, h5py.Dataset) and data.dtype.kind == "O":
        for first in range(0, len(data), 64):
            signal.alarm(int(sys.argv[2]))
            data[first : first + 64]
with h5py.File(sys.argv[1], "r") as file:
    file.visititems(touch)
"""


@lru_cache(8)
def require_sound(path: Path, size: int) -> None:
    """Reads all rows of variable length in another process; a ValueError if that never ends, or crashes."""
    if os.name != "posix":
        return
    command = [sys.executable, "-c", PROBE, str(path), str(STALLED)]
    code = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    if code < 0:  # ended by a signal
        raise ValueError("rows that never end" if code == -signal.SIGALRM else "rows that crash the reader")
