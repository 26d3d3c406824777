"""Small arrays that figures need beside the rows: one compressed file per part of a picture."""

from pathlib import Path

import numpy as np

from plan2vec.files import replacing

Arrays = dict[str, dict[str, np.ndarray]]  # part -> name -> array


def save_arrays(folder: Path, experiment: str, part: str, **arrays: np.ndarray) -> None:
    with replacing(folder / f"{experiment}--{part}.npz") as temporary:
        np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]


def read_arrays(folder: Path, experiment: str) -> Arrays:
    """All parts that were saved for an experiment."""
    found = {}
    for path in sorted(folder.glob(f"{experiment}--*.npz")):
        with np.load(path, allow_pickle=False) as file:
            found[path.stem.split("--", 1)[1]] = {name: file[name] for name in file.files}
    return found
