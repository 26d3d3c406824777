"""Recordings from files: `read(path)` finds the reader of the format. One file a format.

A format is a module with `NAME`, `EXPECTED`, `recognizes(path) -> bool` and `read(path, reading) -> Sequences`.
To add one, write the module and put it into FORMATS; the first that recognizes a path reads it.
"""

import os
import warnings
from pathlib import Path
from typing import Protocol

from PIL import Image

from plan2vec.config import ReadOptions
from plan2vec.data import Sequences
from plan2vec.learning.training import Journal
from plan2vec.readers import hdf5, images, lerobot, minari, npz, ogbench, pickled, streetlearn, video
from plan2vec.readers.reading import Reading, first_line, shown


class Format(Protocol):
    """What the modules of FORMATS have."""

    NAME: str  # for `plan2vec inspect`
    EXPECTED: str  # for messages: what a user can give

    def recognizes(self, path: Path) -> bool: ...

    def read(self, path: Path, reading: Reading) -> Sequences: ...


FORMATS: tuple[Format, ...] = (ogbench, npz, pickled, hdf5, minari, lerobot, streetlearn, video, images)


class ReadWarning(UserWarning):
    """Recordings were read, but not all of them, or not as they are."""


def find_format(path: str | Path) -> Format:
    """The format of a path, or a ValueError that says what was expected."""
    path = Path(path)
    for known in FORMATS:
        if known.recognizes(path):
            return known
    try:
        os.stat(path)
        problem = "is of no known kind"
    except FileNotFoundError:
        problem = "does not exist"
    except (OSError, ValueError) as error:
        problem = f"cannot be looked at ({(getattr(error, 'strerror', None) or first_line(error)).lower()})"
    raise ValueError(
        f"{shown(path)} {problem}; expected {', '.join(dict.fromkeys(known.EXPECTED for known in FORMATS))}"
    )


def read(path: str | Path, options: ReadOptions = ReadOptions(), show_progress: bool = False) -> Sequences:
    """Recordings from a path; a ValueError says what was expected where they cannot be read, a ReadWarning what was
    left out.
    """
    reading = Reading(options, Journal(show_progress=show_progress))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries, about single files; what matters is in the notes
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        sequences = find_format(path).read(Path(path), reading)
    for note in reading.notes:
        warnings.warn(f"{sequences.source}: {note}", ReadWarning, stacklevel=2)
    return sequences
