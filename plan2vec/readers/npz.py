"""The plain format: one .npz file.

frames        uint8 (n, h, w), (n, h, w, c) or (n, c, h, w)   or   observations  float (n, d)
sequence      int (n,), equal labels contiguous; missing: one sequence
position (n, k), action (n, a), step_length (n,), time (n,)   optional; other keys are ignored
domain        the name of the simulator the frames come from; optional
"""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.data import Sequences, make_sequences
from plan2vec.files import replacing

UNREADABLE = (OSError, ValueError, EOFError, LookupError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)  # what zips can raise
OPTIONAL = ("position", "action", "step_length", "time")


def read_npz(path: Path) -> Sequences:
    """Recordings of one .npz file; nothing pickled is ever opened."""
    try:
        with open(path, "rb") as opened:  # np.load leaves a file it opened itself open when it cannot read it
            file = np.load(opened, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("a bare array, not an archive of named arrays")
            wanted = ("frames", "observations", "sequence", "domain", *OPTIONAL)
            arrays = {name: file[name] for name in wanted if name in file.files}
            names = list(file.files)
        if damaged := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
            raise ValueError(f"{damaged[0]} is no array")
    except UNREADABLE as error:
        what = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} cannot be read as .npz ({what}); is the file complete, and does it hold plain arrays only?") from None
    return _to_sequences(path, arrays, names)


def _to_sequences(path: Path, arrays: dict[str, np.ndarray], names: list[str]) -> Sequences:
    given = [name for name in ("frames", "observations") if name in arrays]
    if len(given) != 1:
        raise ValueError(f"{path}: expected exactly one of `frames` and `observations`, but the file holds {', '.join(names) or 'nothing'}")
    frames = arrays[given[0]]
    wanted_dimensions = (3, 4) if given[0] == "frames" else (2,)
    if frames.ndim not in wanted_dimensions:
        raise ValueError(f"{path}: {given[0]} must have {' or '.join(map(str, wanted_dimensions))} axes, but has shape {frames.shape}")
    domain = str(arrays["domain"]) if "domain" in arrays else None
    recorded = {name: _numbers(path, name, arrays[name]) for name in OPTIONAL if name in arrays}
    try:
        return make_sequences(frames, arrays.get("sequence"), domain=domain, source=str(path), **recorded)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _numbers(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{path}: {name} must hold numbers, but its dtype is {values.dtype}")
    return values


def write_npz(path: Path, sequences: Sequences) -> None:
    """Recordings as one .npz file that `read_npz` reads back."""
    key = "frames" if sequences.frames.dtype == np.uint8 else "observations"
    arrays: dict[str, Any] = {key: sequences.frames, "sequence": sequences.sequence}
    arrays |= {name: getattr(sequences, name) for name in OPTIONAL if getattr(sequences, name) is not None}
    if sequences.domain is not None:
        arrays["domain"] = np.array(sequences.domain)
    with replacing(path) as temporary:
        np.savez_compressed(temporary, **arrays)
