"""Minari datasets: `minari:ID`, or the folder of one. Its HDF5 file is read as it lies on the disk.

ID/data/metadata.json     ID/data/main_data.hdf5: episode_0/observations (n + 1, ...), episode_0/actions (n, a), episode_1/...

Observations that are dicts come side by side in sorted order, without `desired_goal` (the task, not the place);
`achieved_goal` is also the position, for evaluation.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.data import Sequences
from plan2vec.readers.episodes import Episode, Rows, read_episodes
from plan2vec.readers.folders import natural_key
from plan2vec.readers.hdf5 import flat_entries, import_h5py, member, open_hdf5, recorded_beside, require_array
from plan2vec.readers.reading import Reading, shown

NAME = "Minari"
EXPECTED = "minari:ID"
PREFIX = "minari:"
MAIN_FILE = "main_data.hdf5"
TASK, PLACE = "desired_goal", "achieved_goal"


def recognizes(path: Path) -> bool:
    return str(path).startswith(PREFIX) or (os.path.isdir(path) and _main_file(path) is not None)


def read(path: Path, reading: Reading) -> Sequences:
    source = shown(path)
    with open_hdf5(data_file(path), source) as opened:
        return read_episodes(reading, source, list(_episodes(opened, source)))


def data_file(path: Path) -> Path:
    """The HDF5 file of a dataset, by its ID or its folder."""
    folder = datasets_folder() / str(path)[len(PREFIX) :] if str(path).startswith(PREFIX) else path
    file = _main_file(folder)
    if file is None:
        raise ValueError(_why_missing(shown(path), folder))
    return file


def datasets_folder() -> Path:
    """Where the minari package keeps its datasets."""
    return Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")


def _main_file(folder: Path) -> Path | None:
    for place in (folder / "data" / MAIN_FILE, folder / MAIN_FILE):
        if os.path.exists(place):
            return place
    return None


def _why_missing(source: str, folder: Path) -> str:
    if os.path.isdir(folder / "data"):
        return f"{source}: no {MAIN_FILE} in {shown(folder)}; only HDF5 can be read, so store the dataset again with data_format='hdf5'"
    name = source.removeprefix(PREFIX)
    return f"{source} is not on this machine ({shown(folder)}); get it with `minari download {name}`, or set MINARI_DATASETS_PATH"


def _episodes(file: Any, source: str) -> Iterator[Episode]:
    h5py = import_h5py()
    names = sorted((name for name in file if isinstance(member(file, name, source), h5py.Group)), key=natural_key)
    for number, name in enumerate(names):
        beside = recorded_beside(file[name], {"action": "actions"}, source)
        entries = _observed(file[name], source)
        place = entries.get(PLACE)
        if place is not None and place.is_vector():
            beside["position"] = np.asarray(place.data[()])
        yield Episode(number, shown(name), {key: rows for key, rows in entries.items() if key != TASK}, beside)


def _observed(group: Any, source: str) -> dict[str, Rows]:
    if isinstance(member(group, "observations", source), import_h5py().Group):
        return flat_entries(group["observations"], source)
    array = require_array(group, "observations", source)
    return {} if array is None else {"observations": Rows(array, 0, len(array))}
