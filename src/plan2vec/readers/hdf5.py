"""HDF5 files in the layouts of D4RL and robomimic. Links inside a file are not followed: they can lead out of it.

D4RL        observations (n, d) or (n, h, w, c), terminals (n,), timeouts (n,), actions (n, a), infos/qpos, infos/goal
robomimic   data/demo_0/obs/KEY (n, ...), data/demo_0/actions (n, a), data/demo_1/..."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.data import Sequences
from plan2vec.readers.episodes import Episode, Rows, read_episodes
from plan2vec.readers.folders import is_file_of, natural_key, require_file
from plan2vec.readers.hdf5_guard import require_sound
from plan2vec.readers.refusals import DAMAGED, Reading, import_extra, refusing, require_memory, shown

NAME = "HDF5"
EXPECTED = "an .hdf5 file (D4RL, robomimic)"
LARGEST_RATIO = 1100  # a compressed array holds at most about this many times its bytes in the file
DEEPEST = 6  # groups inside groups; a file can hold loops


def recognizes(path: Path) -> bool:
    return is_file_of(path, (".hdf5", ".h5", ".hdf"))


def read(path: Path, reading: Reading) -> Sequences:
    source = reading.source
    with open_hdf5(path, source) as file:
        if (data := inner_group(file, "data", source)) is None:
            return read_episodes(reading, _d4rl_episodes(file, source))
        episodes = [Episode(number, shown(name), flat_entries(inner_group(demonstration, "obs", source), source),
                            recorded_actions(demonstration, source))
                    for number, (name, demonstration) in enumerate(groups_of(data, source))]
        return read_episodes(reading, episodes, vectors_first=True)


@contextmanager
def open_hdf5(path: Path, source: str) -> Iterator[Any]:
    """An open file; whatever h5py finds wrong in it becomes one ValueError that names the source."""
    h5py = import_extra("h5py")
    require_file(path, source)
    clear = refusing(source, (*DAMAGED, ValueError), "cannot be read as HDF5", "is the file complete?")
    with clear, h5py.File(path, "r") as file:
        yield file


def _d4rl_episodes(file: Any, source: str) -> list[Episode]:
    """One flat array, cut after every terminal and timeout."""
    if (observed := require_array(file, "observations", source)) is None:
        found = ", ".join(shown(name) for name in list(file)[:8]) or "nothing"
        raise ValueError(f"{source}: expected `observations` (D4RL) or `data/demo_0/obs` (robomimic), but has {found}")
    num_frames, beside = len(observed), recorded_actions(file, source)
    qpos = None if member(file, "infos/goal", source) is None else require_array(file, "infos/qpos", source)
    if qpos is not None and qpos.ndim == 2:
        beside["position"] = qpos[:, :2]  # D4RL's mazes: the body's place comes first
    beyond = f"for {num_frames} observations; is the file complete?"
    for name, values in beside.items():
        if len(values) != num_frames:
            raise ValueError(f"{source}: {name} has {len(values)} rows {beyond}")
    ends = np.zeros(num_frames, bool)
    for name in ("terminals", "timeouts"):
        if (flags := require_array(file, name, source)) is not None:
            if flags.shape != (num_frames,):
                raise ValueError(f"{source}: {name} has shape {flags.shape} {beyond}")
            ends |= np.asarray(flags, bool)
    bounds = np.unique(np.concatenate(((0,), np.flatnonzero(ends) + 1, (num_frames,)))).tolist()
    return [Episode(number, f"episode {number}", {"observations": Rows(observed, first, last)},
                    {name: values[first:last] for name, values in beside.items()})
            for number, (first, last) in enumerate(pairwise(bounds))]


def recorded_actions(group: Any, source: str) -> dict[str, np.ndarray]:
    values = require_array(group, "actions", source)
    if values is None or values.dtype.kind not in "fiub" or values.ndim not in (1, 2):
        return {}
    require_memory(f"{source}: actions", values.size * values.dtype.itemsize)
    return {"action": values[()]}


def groups_of(group: Any, source: str) -> list[tuple[str, Any]]:
    """(name, group) of the groups inside a group, naturally sorted."""
    inner = [(name, inner_group(group, name, source)) for name in sorted(group, key=natural_key)]
    return [(name, one) for name, one in inner if one is not None]


def inner_group(group: Any, name: str, source: str) -> Any:
    inner = member(group, name, source)
    return inner if isinstance(inner, import_extra("h5py").Group) else None


def flat_entries(group: Any, source: str, prefix: str = "", depth: int = 0) -> dict[str, Rows]:
    """All arrays of a group and of groups inside it, by path; none where there is no group."""
    entries: dict[str, Rows] = {}
    for name in group or ():
        if (inner := inner_group(group, name, source)) is not None and depth < DEEPEST:
            entries |= flat_entries(inner, source, f"{prefix}{name}/", depth + 1)
        elif (array := require_array(group, name, source)) is not None:
            entries[f"{prefix}{name}"] = Rows(array, 0, len(array))
    return entries


def member(group: Any, path: str, source: str) -> Any:
    """What a group holds under a path, None if nothing; refuses external and soft links anywhere on the path."""
    h5py = import_extra("h5py")
    for name in path.split("/"):
        link = group.get(name, getlink=True) if isinstance(group, h5py.Group) else None
        if isinstance(link, h5py.ExternalLink):
            raise ValueError(f"{source}: {shown(path)} lies in other files; copy it into one")
        if isinstance(link, h5py.SoftLink):
            raise ValueError(f"{source}: {shown(path)} is a link to {shown(link.path)}, not followed; copy it instead")
        group = None if link is None else group.get(name)
    return group


def require_array(group: Any, name: str, source: str) -> Any:
    """An array of the file, None if there is none; refuses one in other files, or that claims more than it holds."""
    array = member(group, name, source)
    if not isinstance(array, import_extra("h5py").Dataset) or array.ndim == 0:
        return None
    if array.is_virtual or array.external:
        raise ValueError(f"{source}: {shown(name)} lies in other files; copy it into one")
    if array.dtype.kind == "O":
        require_sound(Path(array.file.filename), os.stat(array.file.filename).st_mtime_ns)
    claimed, block = (math.prod(map(int, shape)) * max(1, array.dtype.itemsize)
                      for shape in (array.shape, array.chunks or (0,)))
    require_memory(f"{source}: a block of {shown(name)}", block)
    if claimed > LARGEST_RATIO * array.id.get_storage_size() + 1_000_000:
        raise ValueError(f"{source}: {shown(name)} claims {claimed / 1e6:,.0f} MB, but holds less; is it complete?")
    return array
