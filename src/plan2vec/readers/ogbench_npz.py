"""OGBench's data sets: one .npz file with `observations`, `actions` and `terminals`; qpos, qvel, ... are ignored.

    frame number   0 1 2 3 4 | 5 6 7 8 9
    terminals      0 0 0 0 1 | 0 0 0 0 1      1 at the last frame of an episode, after whose action nothing is recorded

Observations are vectors (n, d), or images (n, h, w, c) of the visual environments. No part of an observation is taken
for the truth: the state of the simulator is not read."""

import zipfile
from pathlib import Path

import numpy as np

from plan2vec.data import Sequences
from plan2vec.readers import npz
from plan2vec.readers.folders import why_not_a_file
from plan2vec.readers.kept_frames import to_sequences
from plan2vec.readers.refusals import Reading

NAME = "OGBench data set"
EXPECTED = npz.EXPECTED  # said once
FIELDS = ("observations", "actions", "terminals")


def recognizes(path: Path) -> bool:
    if path.suffix.lower() != ".npz" or why_not_a_file(path) is not None:
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {f"{name}.npy" for name in FIELDS} <= set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False  # what is no archive is npz's to complain about


def read(path: Path, reading: Reading) -> Sequences:
    with npz.open_plainly(path):
        arrays, _ = npz.load_members(path, FIELDS, reading)
    observations, actions, terminals = (np.asanyarray(arrays[name]) for name in FIELDS)
    kind = "frames" if observations.dtype == np.uint8 and observations.ndim > 2 else "observations"
    source, num = reading.source, len(observations) if observations.ndim else 0
    if terminals.shape != (num,) or terminals.dtype.kind not in "biuf" or not np.isin(terminals, (0, 1)).all():
        raise ValueError(f"{source}: terminals must hold a zero or one for each observation, one at the last of an "
                         f"episode, but came as {terminals.dtype} {terminals.shape} with {num or 'no'} observations")
    sequence = np.cumsum(np.append(0, terminals[:-1])).astype(np.int64)
    return to_sequences(reading, {kind: observations, "sequence": sequence, "action": actions})
