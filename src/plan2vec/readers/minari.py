"""Minari datasets: `minari:ID`, or the folder of one. Its HDF5 file is read as it lies on the disk.

ID/data/metadata.json   ID/data/main_data.hdf5: episode_0/observations (n + 1, ...), episode_0/actions (n, a), ...

Observations that are dicts are laid side by side in sorted order, without `desired_goal` (the task, not the place);
`achieved_goal` is also the position, for evaluation."""

import os
from pathlib import Path

import numpy as np

from plan2vec.data import Sequences
from plan2vec.readers.episodes import Episode, Rows, read_episodes
from plan2vec.readers.folders import OUTSIDE, leads_outside
from plan2vec.readers.hdf5 import flat_entries, groups_of, inner_group, open_hdf5, recorded_actions, require_array
from plan2vec.readers.refusals import Reading, shown

NAME = "Minari"
EXPECTED = "minari:ID"
PREFIX = "minari:"
MAIN_FILE = "main_data.hdf5"
TASK, PLACE = "desired_goal", "achieved_goal"


def recognizes(path: Path) -> bool:
    return str(path).startswith(PREFIX) or (os.path.isdir(path) and _main_file(path) is not None)


def read(path: Path, reading: Reading) -> Sequences:
    source, episodes = reading.source, []
    with open_hdf5(data_file(path), source) as file:
        for number, (name, group) in enumerate(groups_of(file, source)):
            beside, array = recorded_actions(group, source), require_array(group, "observations", source)
            entries = flat_entries(inner_group(group, "observations", source), source)
            if array is not None:
                entries = {"observations": Rows(array, 0, len(array))}
            if (place := entries.get(PLACE)) is not None and place.is_vector():
                beside["position"] = np.asarray(place.data[()])
            observed = {key: rows for key, rows in entries.items() if key != TASK}
            episodes.append(Episode(number, shown(name), observed, beside))
        return read_episodes(reading, episodes)


def data_file(path: Path) -> Path:
    source, root = shown(path), path
    if str(path).startswith(PREFIX):
        root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")
        path = root / str(path)[len(PREFIX) :]
    file = _main_file(path)
    if file is None and os.path.isdir(path / "data"):
        raise ValueError(f"{source}: no {MAIN_FILE} in {shown(path)}; only HDF5 can be read, "
                         "so store the dataset again with data_format='hdf5'")
    if file is None:
        raise ValueError(f"{source} is not on this machine ({shown(path)}); get it with "
                         f"`minari download {source.removeprefix(PREFIX)}`, or set MINARI_DATASETS_PATH")
    if leads_outside(path, root) or leads_outside(file, path):
        raise ValueError(f"{source} cannot be opened ({OUTSIDE} {shown(root)}); copy the dataset into it")
    return file


def _main_file(folder: Path) -> Path | None:
    return next((file for file in (folder / "data" / MAIN_FILE, folder / MAIN_FILE) if os.path.exists(file)), None)
