"""Recordings that come as episodes of named arrays (HDF5, Minari, LeRobot): which array is the frame, and what goes
along.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plan2vec.config import parse_crop
from plan2vec.data import Sequences
from plan2vec.readers.parquet import EncodedColumn
from plan2vec.readers.preparation import BROKEN_PICTURE, LARGEST_PICTURE, array_to_frame, frame_shape, open_picture
from plan2vec.readers.reading import FrameStore, Reading, build, first_line, kept_frames, name_some, require_memory

BATCH_BYTES = 32_000_000  # of an array, read at once
BATCH_ROWS = 64  # encoded pictures, whose bytes are not known before
LARGEST_VECTOR = 4096  # numbers a frame; longer ones are no observations
JPEG_START = b"\xff\xd8\xff"


@dataclass(frozen=True)
class Rows:
    """Rows first..last - 1 of an array in memory or in a file."""

    data: Any  # numpy array or h5py dataset
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def take(self, kept: np.ndarray) -> Iterator[np.ndarray]:
        """The kept rows in batches, read in one stretch each."""
        row_bytes = max(1, int(np.prod(self.data.shape[1:])) * max(1, self.data.dtype.itemsize))
        span = max(1, BATCH_BYTES // row_bytes) if self.data.dtype.kind != "O" else BATCH_ROWS
        while len(kept):
            here = kept[kept < kept[0] + span]
            stretch = self.data[self.first + int(here[0]) : self.first + int(here[-1]) + 1]
            yield np.asarray(stretch)[here - here[0]]
            kept = kept[len(here) :]

    def is_picture(self) -> bool:
        """uint8 (n, h, w) or (n, h, w, c), or encoded images: bytes a row."""
        if self.data.dtype == np.uint8 and len(self.data.shape) in (3, 4):
            return True
        return self.is_encoded()

    def is_encoded(self) -> bool:
        if isinstance(self.data, EncodedColumn):
            return True
        if self.data.dtype.kind == "O":
            return len(self.data.shape) == 1 and len(self) > 0 and isinstance(
                self.data[self.first], (bytes, np.ndarray)
            )
        flat = self.data.dtype == np.uint8 and len(self.data.shape) == 2 and len(self) > 0
        return flat and np.asarray(self.data[self.first])[:3].tobytes() == JPEG_START

    def is_vector(self) -> bool:
        shape = self.data.shape
        short = len(shape) == 1 or (len(shape) == 2 and shape[1] <= LARGEST_VECTOR)
        return self.data.dtype.kind in "fiub" and short and not self.is_encoded()


@dataclass(frozen=True)
class Episode:
    """One sequence: what was observed, by name, and what was recorded beside it, a row a frame."""

    label: int
    name: str  # for messages
    entries: dict[str, Rows]
    beside: dict[str, np.ndarray] = field(default_factory=dict)  # action, position, time


def whole(array: np.ndarray) -> Rows:
    return Rows(array, 0, len(array))


def choose_entries(entries: dict[str, Rows], camera: str | None, source: str, vectors_first: bool) -> list[str]:
    """The names of the arrays that make a frame: one picture, or vectors to be laid side by side in sorted order."""
    pictures = sorted(name for name, rows in entries.items() if rows.is_picture())
    vectors = sorted(name for name, rows in entries.items() if rows.is_vector() and not rows.is_picture())
    if camera is not None:
        if camera not in (*pictures, *vectors):
            raise ValueError(f"{source} has no camera {camera}; choose with --camera from {', '.join([*pictures, *vectors]) or 'nothing'}")
        return [camera]
    if vectors and (vectors_first or not pictures):
        return vectors
    if len(pictures) > 1:
        raise ValueError(f"{source} has {len(pictures)} cameras; choose one with --camera from {', '.join(pictures)}")
    if not pictures:
        found = ", ".join(entries) or "nothing"
        raise ValueError(
            f"{source} holds no observations: expected uint8 pictures or vectors of numbers, but an episode has {found}"
        )
    return pictures


def read_episodes(reading: Reading, source: str, episodes: list[Episode], vectors_first: bool = False) -> Sequences:
    """Frames of all episodes; one that does not fit the first is skipped and counted."""
    if not episodes:
        raise ValueError(f"{source} holds no episodes; is it complete?")
    first = next((episode for episode in episodes if episode.entries), episodes[0])
    if "time" not in first.beside:
        reading.require_no_rate(source)
    keys = choose_entries(first.entries, reading.options.camera, source, vectors_first)
    collect: Pictures | Vectors = (Pictures if first.entries[keys[0]].is_picture() else Vectors)(reading, source)
    labels, beside, problems = [], [], []
    with reading.journal.bar("episodes", len(episodes)) as advance:
        for number, episode in enumerate(episodes):
            try:
                kept = _kept(reading, episode, keys)
                along = {
                    name: _padded(rows, len(episode.entries[keys[0]]))[kept] for name, rows in episode.beside.items()
                }
                collect.add([episode.entries[key] for key in keys], kept)
                labels.append(np.full(len(kept), episode.label))
                beside.append(along)
            except (*BROKEN_PICTURE, NotImplementedError) as error:
                problems.append((episode.name, first_line(error)))
            advance(number + 1)
    if 2 * len(problems) > len(episodes):
        raise ValueError(
            f"{source}: {len(problems)} of {len(episodes)} episodes cannot be read: {name_some(problems)}; repair or remove them"
        )
    reading.note_skipped(problems, len(episodes), "episodes")
    return build(
        reading, source, collect.finish(), np.concatenate(labels).astype(np.int64), collect.size, **_joined(beside)
    )


def _kept(reading: Reading, episode: Episode, keys: list[str]) -> np.ndarray:
    """The rows of an episode that are kept; a ValueError says why it cannot be used."""
    missing = [key for key in keys if key not in episode.entries]
    if missing:
        raise ValueError(f"no {missing[0]}")
    lengths = {len(episode.entries[key]) for key in keys}
    if len(lengths) > 1:
        raise ValueError(f"its observations have {' and '.join(map(str, sorted(lengths)))} rows")
    time = episode.beside.get("time")
    if time is None and reading.options.rate is not None:
        raise ValueError("no time in it")
    num_frames = lengths.pop()
    return kept_frames(reading.options, num_frames, None if time is None else _padded(time, num_frames)[:, 0])


def _padded(values: np.ndarray, num_frames: int) -> np.ndarray:
    """(n, k) float; where the last frame has no action of its own, NaN."""
    values = np.asarray(values, np.float64).reshape(len(values), -1)
    if len(values) not in (num_frames, num_frames - 1):
        raise ValueError(f"{len(values)} rows beside {num_frames} frames")
    return np.concatenate((values, np.full((num_frames - len(values), values.shape[1]), np.nan)))


def _joined(beside: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """What all episodes have, in equal width."""
    joined: dict[str, Any] = {}
    for name in beside[0]:
        if all(name in one and one[name].shape[1] == beside[0][name].shape[1] for one in beside):
            joined[name] = np.concatenate([one[name] for one in beside])
    if "time" in joined:
        joined["time"] = joined["time"][:, 0]
    return joined


class Vectors:
    """Vectors of all episodes."""

    size = None

    def __init__(self, reading: Reading, source: str):
        self.source, self.num_bytes = source, 0
        self.parts: list[np.ndarray] = []
        self.width: int | None = None

    def add(self, entries: list[Rows], kept: np.ndarray) -> None:
        columns = sum(int(np.prod(rows.data.shape[1:])) for rows in entries)
        if not all(rows.is_vector() for rows in entries) or self.width not in (None, columns):
            raise ValueError(f"its observations have {columns} numbers a frame, not {self.width}")
        require_memory(self.source, self.num_bytes + 16 * columns * len(kept))  # read, and once more joined
        with np.errstate(over="ignore"):
            parts = [
                np.concatenate([part.reshape(len(part), -1).astype(np.float32) for part in rows.take(kept)])
                for rows in entries
            ]
        self.width, self.num_bytes = columns, self.num_bytes + 8 * columns * len(kept)
        self.parts.append(np.concatenate(parts, axis=1))

    def finish(self) -> np.ndarray:
        return np.concatenate(self.parts)


class Pictures:
    """Pictures of all episodes, prepared into a store; the first decides on size and channels."""

    def __init__(self, reading: Reading, source: str):
        self.options, self.box = reading.options, parse_crop(reading.options.crop)
        self.store: FrameStore | None = None
        self.size: tuple[int, int] | None = None

    def add(self, entries: list[Rows], kept: np.ndarray) -> None:
        num_before = self.store.num_frames if self.store else 0
        try:
            for picture in pictures_of(entries[0], kept):
                if self.store is None:
                    self.size = (picture.shape[1], picture.shape[0])
                    self.store = FrameStore(frame_shape(self.size, picture.shape[2], self.options))
                self.store.add(array_to_frame(picture, self.store.shape, self.box))
        except BROKEN_PICTURE:
            if self.store:
                self.store.drop_after(num_before)
            raise

    def finish(self) -> np.ndarray:
        return self.store.finish() if self.store else np.empty((0, 1, 1, 1), np.uint8)


def pictures_of(rows: Rows, kept: np.ndarray) -> Iterator[np.ndarray]:
    """Pictures (h, w, c), decoded where they are encoded."""
    if not rows.is_picture():
        raise ValueError("no pictures in it")
    encoded = rows.is_encoded()
    shape = rows.data.shape[1:]
    if not encoded and not 0 < int(np.prod(shape[:2])) <= LARGEST_PICTURE:
        raise ValueError(f"pictures of shape {shape}")
    for batch in rows.take(kept):
        for row in batch:
            if encoded:
                row = np.asarray(
                    open_picture(io.BytesIO(row if isinstance(row, bytes) else np.asarray(row, np.uint8).tobytes()))[0]
                )
            yield _channels_last(row)


def _channels_last(picture: np.ndarray) -> np.ndarray:
    if picture.ndim == 2:
        return picture[..., None]
    # the smaller axis is the channels
    return picture.transpose(1, 2, 0) if picture.shape[0] < picture.shape[2] else picture
