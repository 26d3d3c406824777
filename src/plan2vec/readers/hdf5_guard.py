"""A guard against HDF5 files whose rows of variable length never end, or claim gigabytes.

libhdf5 walks a damaged heap of such rows for ever, and nothing in the same process can stop it. So another process
reads them first, under an alarm that is set anew for every few rows. It follows no links."""

import os
import signal
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

STALLED = 30  # seconds without progress
TOO_MUCH = 3  # the exit code for rows that claim too much
PROBE = """
import os, resource, signal, sys
from contextlib import suppress
path, stalled, too_much = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
signal.alarm(stalled)
import h5py
damaged = suppress(OSError, LookupError, RuntimeError, ValueError, TypeError, MemoryError, AttributeError)

def peak():
    with suppress(OSError, LookupError, ValueError), open("/proc/self/status") as status:  # of this process alone
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # begins with what the process that started this one had

most = peak() + 1_000_000  # kilobytes

def walk(group, depth):
    names = []
    with damaged:
        names = list(group)
    for name in names:
        with damaged:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            inner = group[name]
            if isinstance(inner, h5py.Group) and depth < 8:
                walk(inner, depth + 1)
            elif isinstance(inner, h5py.Dataset) and inner.dtype.kind == "O" and inner.ndim and not inner.is_virtual:
                touch(inner)

def touch(data):
    for first in range(0, len(data), 64):
        signal.alarm(stalled)
        with damaged:
            data[first : first + 64]
            continue
        for row in range(first, min(first + 64, len(data))):  # one of them is damaged: look at each
            with damaged:
                data[row]
        if peak() > most:
            os._exit(too_much)

with damaged, h5py.File(path, "r") as file:
    walk(file, 0)
if peak() > most:
    os._exit(too_much)
"""


@lru_cache(8)
def require_sound(path: Path, changed: int) -> None:
    """Refuses a file whose rows never end, crash or flood the memory; once per time of change (ns)."""
    if os.name != "posix":
        return
    command = [sys.executable, "-c", PROBE, str(path), str(STALLED), str(TOO_MUCH)]
    code = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    if code == TOO_MUCH:
        raise ValueError("rows that claim gigabytes")
    if code < 0:  # ended by a signal
        raise ValueError("rows that never end" if code == -signal.SIGALRM else "rows that crash the reader")
