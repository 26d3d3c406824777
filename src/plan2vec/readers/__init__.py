"""Recordings from files: `read(path)` finds the reader of the format in FORMATS, the only list of formats.

A format is a module with `NAME` (for `plan2vec inspect`), `EXPECTED` (what a user can give, for the refusal of an
unknown path), `recognizes(path) -> bool` and `read(path, reading) -> Sequences`. To add one, write the module and put
it into FORMATS; the first that recognizes a path reads it. `describe` says what was read (`plan2vec inspect`)."""

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image

from plan2vec.config import ReadOptions
from plan2vec.data import Sequences, transitions
from plan2vec.learning.gradient_loop import Journal
from plan2vec.readers import hdf5, image_folders, lerobot, minari, npz, ogbench_npz, pickled, streetlearn, video
from plan2vec.readers.folders import why_not_a_file
from plan2vec.readers.refusals import Reading, shown

FORMATS = (ogbench_npz, npz, pickled, hdf5, minari, lerobot, streetlearn, video, image_folders)


class ReadWarning(UserWarning):
    """Recordings were read, but not all of them, or not as they are."""


def find_format(path: str | Path) -> ModuleType:
    path = Path(path)
    if known := next((known for known in FORMATS if known.recognizes(path)), None):
        return known
    expected = ", ".join(dict.fromkeys(known.EXPECTED for known in FORMATS))
    raise ValueError(f"{shown(path)}: {why_not_a_file(path) or 'of no known kind'}; expected {expected}")


def read(path: str | Path, options: ReadOptions = ReadOptions(), show_progress: bool = False) -> Sequences:
    """Recordings from a path; a ValueError says why they cannot be read, a ReadWarning what was left out.

    `path`: a file or folder of any known format, which its content tells. `options`: size, colour, every n-th frame,
    crop, camera. Returns `Sequences`, whose `options` prepare later images likewise."""
    reading = Reading(shown(Path(path)), options, Journal(show_progress=show_progress))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries, about single files; what matters is in the notes
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        sequences = find_format(path).read(Path(path), reading)
    for note in reading.notes:
        warnings.warn(f"{sequences.source}: {note}", ReadWarning, stacklevel=2)
    return sequences


def describe(sequences: Sequences, format_name: str, warnings: list[str]) -> dict[str, Any]:
    """What was read: sizes in pixels, lengths in frames, rate in frames per second. Programs read these names."""
    lengths = np.unique(sequences.sequence, return_counts=True)[1]
    shape, size, is_image = sequences.frame_shape, sequences.source_size, len(sequences.frame_shape) == 3
    return {
        "source": sequences.source, "format": format_name,
        "num_sequences": len(lengths), "num_frames": sequences.num_frames,
        "lengths": {"shortest": int(lengths.min()), "median": float(np.median(lengths)), "longest": int(lengths.max())},
        "kind": "images" if is_image else "vectors", "frame_shape": list(shape),
        "channels": shape[2] if is_image else None,
        "source_size": list(size) if size is not None else None,  # (width, height)
        "rate": recorded_rate(sequences),
        "position": 0 if sequences.position is None else sequences.position.shape[1],
        "action": 0 if sequences.action is None else sequences.action.shape[1],
        "step_length": sequences.step_length is not None, "time": sequences.time is not None, "warnings": warnings}


def recorded_rate(sequences: Sequences) -> float | None:
    """Frames per second, where the time of frames is known."""
    if sequences.time is None:
        return None
    seconds = float(np.median(np.diff(sequences.time)[transitions(sequences.sequence)]))
    return round(1 / seconds, 3) if seconds > 0 else None
