"""HDF5 files in the layouts of D4RL and robomimic.

D4RL        observations (n, d) or (n, h, w, c), terminals (n,), timeouts (n,), actions (n, a), infos/qpos, infos/goal
robomimic   data/demo_0/obs/KEY (n, ...), data/demo_0/actions (n, a), data/demo_1/...
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from plan2vec.data import Sequences
from plan2vec.readers.endless import require_sound
from plan2vec.readers.episodes import Episode, Rows, read_episodes
from plan2vec.readers.folders import natural_key, why_not_a_file
from plan2vec.readers.reading import Reading, first_line, require_memory, shown

NAME = "HDF5"
EXPECTED = "an .hdf5 file (D4RL, robomimic)"
SUFFIXES = (".hdf5", ".h5", ".hdf")
UNREADABLE = (
    OSError, LookupError, RuntimeError, TypeError, MemoryError, ArithmeticError, AttributeError, NotImplementedError
)
LARGEST_RATIO = 1100  # a compressed array holds at most about this many times its bytes in the file
DEEPEST = 6  # groups inside groups; a file can hold loops


def recognizes(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and os.path.exists(path) and not os.path.isdir(path)


def read(path: Path, reading: Reading) -> Sequences:
    source = shown(path)
    with open_hdf5(path, source) as file:
        if isinstance(member(file, "data", source), import_h5py().Group):
            return read_episodes(reading, source, list(_demonstrations(file["data"], source)), vectors_first=True)
        return read_episodes(reading, source, _d4rl_episodes(file, source))


@contextmanager
def open_hdf5(path: Path, source: str) -> Iterator[Any]:
    """An open file; whatever h5py finds wrong in it becomes one ValueError that names the source."""
    h5py = import_h5py()
    if problem := why_not_a_file(path):
        raise ValueError(f"{source} cannot be opened ({problem}); give a plain file that you may read")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (*UNREADABLE, ValueError) as error:
        if str(error).startswith(source):
            raise
        raise ValueError(f"{source} cannot be read as HDF5 ({first_line(error)}); is the file complete?") from None


def import_h5py() -> ModuleType:
    try:
        import h5py
    except ModuleNotFoundError:
        raise ValueError("reading HDF5 needs the extra [formats]: pip install 'plan2vec[formats]'") from None
    return h5py


def _demonstrations(data: Any, source: str) -> Iterator[Episode]:
    """robomimic: one group an episode."""
    h5py = import_h5py()
    names = sorted((name for name in data if isinstance(member(data, name, source), h5py.Group)), key=natural_key)
    for number, name in enumerate(names):
        observed = member(data[name], "obs", source)
        entries = flat_entries(observed, source) if isinstance(observed, h5py.Group) else {}
        yield Episode(number, shown(name), entries, recorded_beside(data[name], {"action": "actions"}, source))


def _d4rl_episodes(file: Any, source: str) -> list[Episode]:
    """One flat array, cut after every terminal and timeout."""
    observed = require_array(file, "observations", source)
    if observed is None:
        names = ", ".join(shown(name) for name in list(file)[:8])
        raise ValueError(
            f"{source}: expected `observations` (D4RL) or `data/demo_0/obs` (robomimic), but the file holds {names or 'nothing'}"
        )
    num_frames = len(observed)
    beside = recorded_beside(file, {"action": "actions"}, source)
    if file.get("infos/goal") is not None and (
        qpos := require_array(file, "infos/qpos", source)
    ) is not None and qpos.ndim == 2:
        beside["position"] = qpos[:, :2]  # D4RL's mazes: the body's place comes first
    for name, values in beside.items():
        if len(values) != num_frames:
            raise ValueError(
                f"{source}: {name} has {len(values)} rows for {num_frames} observations; is the file complete?"
            )
    ends = np.zeros(num_frames, bool)
    for name in ("terminals", "timeouts"):
        flags = require_array(file, name, source)
        if flags is not None and flags.shape != (num_frames,):
            raise ValueError(
                f"{source}: {name} has shape {flags.shape} for {num_frames} observations; is the file complete?"
            )
        ends |= np.asarray(flags, bool) if flags is not None else False
    bounds = np.unique(np.concatenate(((0,), np.flatnonzero(ends) + 1, (num_frames,))))
    return [
        Episode(number, f"episode {number}", {"observations": Rows(observed, first, last)},
                {name: values[first:last] for name, values in beside.items()})
        for number, (first, last) in enumerate(pairwise(bounds.tolist()))
    ]


def recorded_beside(group: Any, names: dict[str, str], source: str) -> dict[str, np.ndarray]:
    """Numbers recorded beside the frames, where the group has them."""
    found = {}
    for ours, theirs in names.items():
        values = require_array(group, theirs, source)
        if values is not None and values.dtype.kind in "fiub" and values.ndim in (1, 2):
            require_memory(f"{source}: {theirs}", values.size * values.dtype.itemsize)
            found[ours] = values[()]
    return found


def flat_entries(group: Any, source: str, prefix: str = "", depth: int = 0) -> dict[str, Rows]:
    """All arrays of a group and of groups inside it, by path."""
    h5py = import_h5py()
    entries: dict[str, Rows] = {}
    for name in group:
        inner = member(group, name, source)
        if isinstance(inner, h5py.Group) and depth < DEEPEST:
            entries |= flat_entries(inner, source, f"{prefix}{name}/", depth + 1)
        elif isinstance(inner, h5py.Dataset) and inner.ndim > 0:
            array = require_array(group, name, source)
            entries[f"{prefix}{name}"] = Rows(array, 0, len(array))
    return entries


def member(group: Any, name: str, source: str) -> Any:
    """What a group holds under a name, None if nothing; other files are never opened."""
    if isinstance(group.get(name, getlink=True), import_h5py().ExternalLink):
        raise ValueError(f"{source}: {shown(name)} lies in other files; copy it into one")
    return group.get(name)


def require_array(group: Any, name: str, source: str) -> Any:
    """An array of the file, None if it is not there; refuses one that claims more than it holds, or that lies in other
    files.
    """
    array = member(group, name, source)
    if not isinstance(array, import_h5py().Dataset) or array.ndim == 0:
        return None
    if array.is_virtual or array.external:
        raise ValueError(f"{source}: {shown(name)} lies in other files; copy it into one")
    if array.dtype.kind == "O":
        require_sound(Path(array.file.filename), os.stat(array.file.filename).st_mtime_ns)
    claimed = int(np.prod([int(side) for side in array.shape], dtype=object)) * max(1, array.dtype.itemsize)
    chunk = int(np.prod(array.chunks, dtype=object)) * max(1, array.dtype.itemsize) if array.chunks else 0
    require_memory(f"{source}: a block of {shown(name)}", chunk)
    if claimed > LARGEST_RATIO * array.id.get_storage_size() + 1_000_000:
        raise ValueError(
            f"{source}: {shown(name)} claims {claimed / 1e6:,.0f} MB, far more than is in the file; is it complete?"
        )
    return array
