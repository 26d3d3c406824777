"""Recordings from files: `read(path)` finds the reader of the format. One file a format."""

from pathlib import Path

from plan2vec.data import Sequences
from plan2vec.readers.npz import read_npz


def read(path: str | Path) -> Sequences:
    """Recordings from a path; a ValueError says what was expected where it cannot be read."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist; expected an .npz file with `frames` (or `observations`) and `sequence`")
    if path.suffix != ".npz" or path.is_dir():
        raise ValueError(f"{path} is no .npz file; expected one with `frames` (or `observations`) and `sequence`")
    return read_npz(path)
