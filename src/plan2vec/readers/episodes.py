"""Recordings as episodes of named arrays (HDF5, Minari, LeRobot): which array is the frame, and what goes along."""

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from plan2vec.data import Sequences
from plan2vec.readers.kept_frames import FrameStore, build, kept_frames
from plan2vec.readers.picture_to_frame import BROKEN_PICTURE, LARGEST_PICTURE, open_picture
from plan2vec.readers.refusals import Reading, first_line, require_memory, shown

BATCH_BYTES = 32_000_000  # of an array, read at once
BATCH_ROWS = 64  # encoded pictures, whose bytes are not known before
LARGEST_VECTOR = 4096  # numbers per frame; longer ones are no observations
JPEG_START = b"\xff\xd8\xff"


@dataclass(frozen=True)
class Rows:
    """Rows first..last - 1 of an array in memory or in a file."""

    data: Any  # numpy array, h5py dataset, or column of encoded pictures
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def take(self, kept: np.ndarray) -> Iterator[np.ndarray]:
        """The kept rows in batches, read in one stretch each."""
        row_bytes = max(1, math.prod(self.data.shape[1:]) * self.data.dtype.itemsize)
        span = max(1, BATCH_BYTES // row_bytes) if self.data.dtype.kind != "O" else BATCH_ROWS
        while len(kept):
            here = kept[kept < kept[0] + span]
            yield np.asarray(self.data[self.first + int(here[0]) : self.first + int(here[-1]) + 1])[here - here[0]]
            kept = kept[len(here) :]

    def is_picture(self) -> bool:
        """uint8 (n, h, w) or (n, h, w, c), or encoded images."""
        return (self.data.dtype == np.uint8 and len(self.data.shape) in (3, 4)) or self.is_encoded()

    def is_encoded(self) -> bool:
        """The bytes of one image file per row."""
        if not self.data.shape:  # a column of a parquet file
            return True
        num_axes, dtype = len(self.data.shape) if len(self) else 0, self.data.dtype
        if num_axes == 1 and dtype.kind == "O":
            return isinstance(self.data[self.first], (bytes, np.ndarray))
        return num_axes == 2 and dtype == np.uint8 and np.asarray(self.data[self.first])[:3].tobytes() == JPEG_START

    def is_vector(self) -> bool:
        """One number, or a short vector of them, per row."""
        shape = self.data.shape
        short = len(shape) == 1 or (len(shape) == 2 and shape[1] <= LARGEST_VECTOR)
        return self.data.dtype.kind in "fiub" and short and not self.is_encoded()


@dataclass(frozen=True)
class Episode:
    """One sequence: what was observed, by name, and what was recorded beside it; one row per frame."""

    label: int
    name: str  # for messages
    entries: dict[str, Rows]
    beside: dict[str, np.ndarray] = field(default_factory=dict)  # action, position, time


def choose_camera(source: str, cameras: list[str], others: list[str], asked: str | None) -> str | None:
    """The camera asked for, or one of the others; else the only camera; else None."""
    choices = ", ".join(map(shown, cameras if asked is None else [*cameras, *others])) or "nothing"
    if asked is not None and asked not in (*cameras, *others):
        raise ValueError(f"{source} has no camera {shown(asked)}; choose with --camera from {choices}")
    if asked is None and len(cameras) > 1:
        raise ValueError(f"{source} has {len(cameras)} cameras; choose one with --camera from {choices}")
    return asked or (cameras[0] if cameras else None)


def _choose_entries(entries: dict[str, Rows], camera: str | None, source: str, vectors_first: bool) -> list[str]:
    """The names of the arrays that make a frame: one picture, or vectors to be laid side by side in sorted order."""
    pictures = sorted(name for name, rows in entries.items() if rows.is_picture())
    vectors = sorted(name for name, rows in entries.items() if rows.is_vector())
    if camera is None and vectors and (vectors_first or not pictures):
        return vectors
    if (chosen := choose_camera(source, pictures, vectors, camera)) is None:
        found = ", ".join(map(shown, entries)) or "nothing"
        raise ValueError(f"{source} holds no observations: expected uint8 pictures or vectors, but one has {found}")
    return [chosen]


def read_episodes(reading: Reading, episodes: list[Episode], vectors_first: bool = False) -> Sequences:
    """Frames of all episodes; one that does not fit the first is skipped and counted."""
    if not episodes:
        raise ValueError(f"{reading.source} holds no episodes; is it complete?")
    first = next((episode for episode in episodes if episode.entries), episodes[0])
    if "time" not in first.beside:
        reading.require_no_rate()
    keys = _choose_entries(first.entries, reading.options.camera, reading.source, vectors_first)
    shows_pictures = first.entries[keys[0]].is_picture()
    vectors, store, labels, beside, problems = list[np.ndarray](), FrameStore(reading.options), [], [], []
    add = partial(_add_pictures, store) if shows_pictures else partial(_add_vectors, vectors, reading.source)
    with reading.journal.bar("episodes", len(episodes)) as advance:
        for number, episode in enumerate(episodes):
            try:
                entries, kept, along = _kept(reading, episode, keys)
                add(entries, kept)
                labels.append(np.full(len(kept), episode.label))
                beside.append(along)
            except BROKEN_PICTURE as error:
                problems.append((episode.name, first_line(error)))
            advance(number + 1)
    reading.leave_out(problems, len(episodes), "episodes", "repair or remove them")
    recorded: dict[str, Any] = {name: np.concatenate([one[name] for one in beside])  # what all have, in equal width
                                for name, values in beside[0].items()
                                if all(name in one and one[name].shape[1] == values.shape[1] for one in beside)}
    if "time" in recorded:
        recorded["time"] = recorded["time"][:, 0]
    frames = store.finish() if shows_pictures else np.concatenate(vectors)
    return build(reading, frames, np.concatenate(labels).astype(np.int64), store.size, **recorded)


def _kept(reading: Reading, episode: Episode, keys: list[str]) -> tuple[list[Rows], np.ndarray, dict[str, np.ndarray]]:
    """The arrays of an episode, the rows that are kept, what goes along; a ValueError says why it cannot be used."""
    if missing := [key for key in keys if key not in episode.entries]:
        raise ValueError(f"no {missing[0]}")
    entries = [episode.entries[key] for key in keys]
    num_frames, *others = sorted({len(rows) for rows in entries})
    if others:
        raise ValueError(f"its observations have {' and '.join(map(str, [num_frames, *others]))} rows")
    along = {name: _padded(values, num_frames) for name, values in episode.beside.items()}
    if "time" not in along and reading.options.rate is not None:
        raise ValueError("no time in it")
    kept = kept_frames(reading.options, num_frames, along["time"][:, 0] if "time" in along else None)
    return entries, kept, {name: values[kept] for name, values in along.items()}


def _padded(values: np.ndarray, num_frames: int) -> np.ndarray:
    """(n, k) float; where the last frame has no action of its own, NaN."""
    values = np.asarray(values, np.float64).reshape(len(values), -1)
    if len(values) not in (num_frames, num_frames - 1):
        raise ValueError(f"{len(values)} rows beside {num_frames} frames")
    return np.concatenate((values, np.full((num_frames - len(values), values.shape[1]), np.nan)))


def _add_vectors(vectors: list[np.ndarray], source: str, entries: list[Rows], kept: np.ndarray) -> None:
    """The kept rows of an episode, its arrays side by side."""
    columns, width = sum(math.prod(rows.data.shape[1:]) for rows in entries), vectors[0].shape[1] if vectors else None
    if not all(rows.is_vector() for rows in entries) or width not in (None, columns):
        raise ValueError(f"its observations have {columns} numbers per frame, not {width}")
    require_memory(source, 2 * sum(one.nbytes for one in vectors) + 16 * columns * len(kept))  # read, and then joined
    with np.errstate(over="ignore"):
        parts = [np.concatenate([part.reshape(len(part), -1).astype(np.float32) for part in rows.take(kept)])
                 for rows in entries]
    vectors.append(np.concatenate(parts, axis=1))


def _add_pictures(store: FrameStore, entries: list[Rows], kept: np.ndarray) -> None:
    """The kept pictures of an episode, all or none; the first of all decides on size and channels."""
    rows, num_before = entries[0], store.num_frames
    if not rows.is_picture():
        raise ValueError("no pictures in it")
    encoded, shape = rows.is_encoded(), rows.data.shape[1:]
    if not encoded and not 0 < math.prod(shape[:2]) <= LARGEST_PICTURE:
        raise ValueError(f"pictures of shape {shape}")
    try:
        for row in chain.from_iterable(rows.take(kept)):
            if encoded:
                content = row if isinstance(row, bytes) else np.asarray(row, np.uint8).tobytes()
                row = np.asarray(open_picture(io.BytesIO(content))[0])
            is_first = row.ndim == 3 and row.shape[0] < row.shape[2]  # the smaller axis is the channels
            store.add_picture(np.moveaxis(row, 0, 2) if is_first else np.atleast_3d(row))
    except BROKEN_PICTURE:
        store.drop_after(num_before)
        raise
