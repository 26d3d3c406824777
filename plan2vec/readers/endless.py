"""A guard against HDF5 files whose rows of variable length never end.

libhdf5 walks a damaged heap of such rows for ever, and nothing in the same process can stop it. So a small process of its own
reads them first, and is stopped when it makes no progress.
"""

import os
import select
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from plan2vec.readers.reading import shown

STALLED = 30.0  # seconds without progress
PROBE = """
import sys, h5py
def touch(name, data):
    if isinstance(data, h5py.Dataset) and data.dtype.kind == "O":
        for first in range(0, len(data), 64):
            data[first : first + 64]
            print(".", end="", flush=True)
with h5py.File(sys.argv[1], "r") as file:
    print(".", end="", flush=True)
    file.visititems(touch)
"""


@lru_cache(8)
def require_sound(path: Path, size: int) -> None:
    """Reads all rows of variable length in another process; a ValueError if that ends badly or never."""
    if os.name != "posix":
        return
    command = [sys.executable, "-c", PROBE, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as probe:
        assert probe.stdout is not None
        try:
            while select.select([probe.stdout], [], [], STALLED)[0]:
                if not os.read(probe.stdout.fileno(), 4096):
                    break
            else:
                raise ValueError(f"{shown(path)} cannot be read as HDF5 (its rows never end); is the file complete?")
        finally:
            probe.kill()
    if probe.returncode < 0 and probe.returncode != -9:
        raise ValueError(f"{shown(path)} cannot be read as HDF5 (its rows crash the reader); is the file complete?")
