"""Processed StreetLearn folders: panoramas of a street network, and walks from view to view.

coords.npy                  object array of {"lat": , "lng": } dicts in degrees, one per view (or numbers (n, 2))
trajs.npy                   object array of lists of view numbers, one per walk (or whole numbers (k, length))
view_512/chunk_0000.npy     fixed-width byte strings, one JPEG each: views in order, continued from chunk to chunk

Object arrays are pickles, so they are opened only where the user trusts them. Frames are gray unless colour is asked
for, as in the paper. Positions are metres east and north of the mean view, for evaluation; step lengths are metres."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.data import Sequences, transitions
from plan2vec.domains.streets import PREFIX
from plan2vec.readers.kept_frames import build, decode_all, kept_frames, taken, usual_layout
from plan2vec.readers.npz import load_array, open_plainly
from plan2vec.readers.picture_to_frame import frame_shape, open_picture
from plan2vec.readers.refusals import Reading, shown

NAME = "processed StreetLearn folder"
EXPECTED = "a processed StreetLearn folder (with --trust-pickle)"
VIEWS = "view_512"
DOMAIN = f"{PREFIX}learn"  # the success rule of streets holds; ways along the streets are not known
EARTH = 6_371_000.0  # metres, radius


def recognizes(path: Path) -> bool:
    return os.path.isdir(path) and os.path.exists(path / "coords.npy") and os.path.exists(path / "trajs.npy")


def read(path: Path, reading: Reading) -> Sequences:
    """One sequence per walk; a walk breaks where a view cannot be read."""
    reading.require_no_rate()
    coords = _coordinates(_load(path, "coords.npy", reading), f"{reading.source}/coords.npy")
    walks = _walks(_load(path, "trajs.npy", reading), len(coords), f"{reading.source}/trajs.npy")
    stored = _stored_images(path, len(coords))
    walks = [walk[kept_frames(reading.options, len(walk))] for walk in walks]
    visited = np.unique(np.concatenate(walks)).tolist()
    images, names = [stored[view] for view in visited], [f"view {view}" for view in visited]
    open_view = lambda image: open_picture(io.BytesIO(bytes(image[0][image[1]])))  # noqa: E731
    size, _ = usual_layout(reading, open_view, images, names, "views")
    frames, places, _, problems = decode_all(reading, open_view, images, names, frame_shape(size, 1, reading.options))
    reading.leave_out(problems, len(visited), "views", "repair or remove them")
    number = np.full(len(coords), -1)  # of each view's frame; -1: none
    number[np.array(visited)[places]] = np.arange(len(places))
    # a walk breaks where a view cannot be read, so that no step leaps over it
    parts = [part for walk in walks for part in np.split(walk, np.flatnonzero(number[walk] < 0))]
    parts = [readable for part in parts if len(readable := part[number[part] >= 0])]
    view, sequence = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    middle = coords.mean(axis=0)
    north, east = (np.radians(coords - middle) * EARTH).T  # degrees of longitude shrink with the cosine of the latitude
    position = np.stack([east * np.cos(np.radians(middle[0])), north], axis=1)[view]
    step_length, first = np.full(len(view), np.nan), transitions(sequence)
    step_length[first] = np.linalg.norm(position[first + 1] - position[first], axis=1)
    frames = taken(frames, number[view])
    return build(reading, frames, sequence, size, position=position, step_length=step_length, domain=DOMAIN)


def _load(folder: Path, name: str, reading: Reading) -> Any:
    with open_plainly(folder / name, "is the file complete?", folder), open(folder / name, "rb") as opened:
        return load_array(opened, shown(folder / name), reading)


def _coordinates(content: Any, source: str) -> np.ndarray:
    """(n, 2) latitudes and longitudes in degrees."""
    content = np.asarray(content)
    if content.dtype.hasobject:
        pairs = [[one.get(key) if isinstance(one, dict) else None for key in ("lat", "lng")] for one in content.ravel()]
        for view, pair in enumerate(pairs):
            if not all(isinstance(number, (float, int, np.number)) for number in pair):
                raise ValueError(f"{source}: expected a dict of numbers `lat` and `lng` per view, not so view {view}")
        content = np.array(pairs, np.float64)
    if content.ndim != 2 or content.shape[1] != 2 or content.dtype.kind not in "fiu":
        raise ValueError(f"{source}: needs {{lat, lng}} dicts or numbers (n, 2), not {content.dtype} {content.shape}")
    if len(wrong := np.flatnonzero(~(np.abs(content) <= (90, 180)).all(axis=1))):
        raise ValueError(f"{source}: view {wrong[0]} must have a latitude within 90 and a longitude within 180 degrees")
    return content.astype(np.float64)


def _walks(content: Any, num_views: int, source: str) -> list[np.ndarray]:
    walks = []
    for number, row in enumerate(content if isinstance(content, np.ndarray) and content.ndim else ()):
        is_list = isinstance(row, (list, tuple, np.ndarray))
        if not is_list or not all(isinstance(view, (int, np.integer)) for view in row):
            raise ValueError(f"{source}: expected a list of view numbers for every walk, but walk {number} is none")
        if outside := [view for view in row if not 0 <= view < num_views]:
            raise ValueError(f"{source}: walk {number} names view {outside[0]}, beyond the last, {num_views - 1}")
        walks.append(np.array(row, np.int64))
    if not any(len(walk) for walk in walks):
        raise ValueError(f"{source}: expected an array of lists of view numbers, one per walk, but it holds no walk")
    return [walk for walk in walks if len(walk)]


def _stored_images(folder: Path, num_views: int) -> list[tuple[np.ndarray, int]]:
    """The chunk of each view, and its row there."""
    stored = list[tuple[np.ndarray, int]]()
    for file in sorted((folder / VIEWS).glob("chunk_*.npy")):
        with open_plainly(file, "is the file complete, and does it hold bytes?", folder):
            chunk = np.lib.format.open_memmap(file, mode="r")
        if chunk.dtype.kind != "S" or chunk.ndim != 1:
            raise ValueError(f"{shown(file)}: expected byte strings (n,), one JPEG each, but came as {chunk.dtype} "
                             f"{chunk.shape}")
        stored += [(chunk, row) for row in range(len(chunk))]
    if len(stored) != num_views:
        raise ValueError(f"{shown(folder / VIEWS)}: {len(stored)} images for {num_views} views of coords.npy; "
                         "is a chunk missing?")
    return stored
