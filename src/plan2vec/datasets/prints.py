"""Episodes as an audit compares them: small prints of their frames, without a map.

A print is a picture's gray in 16 rows of blocks, or a vector in units of its median step. Camera noise and video codecs
hardly change a mean over a block. The difference of two prints is the root of their mean squared difference."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from plan2vec.data import Sequences, chunks, transitions

ROWS, MOST_COLUMNS = 16, 64  # of the blocks of a picture
QUERIES_AT_ONCE = 256  # frames compared with all others at once
JOINED_BY = (1, 2)  # steps by which another episode may join two frames
STILL, MOST_STILL = 0.1, 0.25  # of the median step: below this nothing moves; at most, where the camera is noisy
NOISE_FACTOR = 1.3  # a still camera's frames differ by up to this many deviations of its noise


@dataclass(frozen=True)
class Episodes:
    """n frames in e episodes."""

    label: np.ndarray  # (e,) the number of each episode, as the recording has it
    first: np.ndarray  # (e,) its first frame
    stop: np.ndarray  # (e,) the frame after its last
    prints: np.ndarray  # (n, cells) float32
    grid: tuple[int, int]  # rows and columns of the cells; (1, d) of vectors
    change: np.ndarray  # (n,) difference of each frame's print and the next one's; 0 at an episode's end

    @property
    def num(self) -> int:
        return len(self.label)

    @property
    def length(self) -> np.ndarray:
        """(e,) frames."""
        return self.stop - self.first

    @cached_property
    def number(self) -> np.ndarray:
        """(n,) which of the e episodes a frame belongs to."""
        return np.repeat(np.arange(self.num), self.length)

    @cached_property
    def index(self) -> np.ndarray:
        """(n,) frames since the start of the episode."""
        return np.arange(len(self.prints)) - self.first[self.number]

    @cached_property
    def step(self) -> float:
        """What the median step that moves anything changes."""
        moved = self.change[self.change > 0]
        return float(np.median(moved)) if len(moved) else 0.0

    @cached_property
    def still_below(self) -> float:
        """Frames that differ by less show the same. Most blocks of a picture stay as they are, but for the noise."""
        inner = transitions(self.number)[:: max(1, len(self.number) // 2000)]
        noise = 1.48 * float(np.median(np.abs(self.prints[inner + 1] - self.prints[inner])))
        return float(np.clip(NOISE_FACTOR * noise, STILL * self.step, MOST_STILL * self.step))

    def part(self, number: int) -> slice:
        return slice(int(self.first[number]), int(self.stop[number]))


def episodes_of(sequences: Sequences) -> Episodes:
    first = np.flatnonzero(np.diff(sequences.sequence, prepend=sequences.sequence[0] - 1))
    stop = np.append(first[1:], sequences.num_frames)
    prints, grid = _picture_prints(sequences) if sequences.frames.dtype == np.uint8 else _vector_prints(sequences)
    change = np.append(difference(prints[1:], prints[:-1]), 0).astype(np.float32)
    change[stop - 1] = 0
    return Episodes(sequences.sequence[first], first, stop, prints, grid, change)


def _picture_prints(sequences: Sequences) -> tuple[np.ndarray, tuple[int, int]]:
    height, width = sequences.frame_shape[:2]
    grid = min(ROWS, height), min(MOST_COLUMNS, width, max(1, round(ROWS * width / height)))
    prints = np.empty((sequences.num_frames, *grid), np.float32)
    for part in chunks(sequences.frames, sequences.num_frames):
        sums = sequences.frames[part].mean(axis=-1, dtype=np.float32)
        for axis, (num, size) in enumerate(zip(grid, (height, width), strict=True), 1):
            starts = np.arange(num) * size // num
            shape = [-1 if k == axis else 1 for k in range(3)]
            sums = np.add.reduceat(sums, starts, axis) / np.diff(starts, append=size).reshape(shape)
        prints[part] = sums
    return prints.reshape(len(prints), -1), grid


def _vector_prints(sequences: Sequences) -> tuple[np.ndarray, tuple[int, int]]:
    start, vectors = transitions(sequences.sequence), sequences.frames.astype(np.float32)
    unit = np.median(np.abs(vectors[start + 1] - vectors[start]), axis=0)
    return vectors / np.maximum(unit, 0.01 * (vectors.std(axis=0) + np.finfo(np.float32).tiny)), (1, vectors.shape[1])


def difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(...,) of prints (..., cells)."""
    return np.sqrt(np.square(first - second).mean(axis=-1))


def compare_all(episodes: Episodes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every frame with all frames of other episodes. (n,) the most similar one, its difference, and for the step to the
    next frame: how much more two frames differ that another episode joins in one or two steps."""
    prints, number, n = episodes.prints, episodes.number, len(episodes.prints)
    square, breaks = np.square(prints).sum(axis=1), [number[gap:] != number[:-gap] for gap in JOINED_BY]
    place, near, unjoined = np.empty(n, np.int64), np.empty(n, np.float32), np.zeros(n, np.float32)
    for first in range(0, n, QUERIES_AT_ONCE):
        rows = slice(first, min(n, first + QUERIES_AT_ONCE + 1))  # one more, for the last step
        apart = square[rows, None] + square - 2 * (prints[rows] @ prints.T)  # (rows, n)
        np.sqrt(np.maximum(apart, 0, out=apart) / prints.shape[1], out=apart)
        apart[number[rows, None] == number] = np.inf
        num, best = min(QUERIES_AT_ONCE, len(apart)), apart.min(axis=1)
        place[first : first + num], near[first : first + num] = apart[:num].argmin(axis=1), best[:num]
        pairs = np.full(len(apart) - 1, np.inf, np.float32)
        for gap, is_break in zip(JOINED_BY, breaks, strict=True):
            both = apart[:-1, :-gap] + apart[1:, gap:]
            both[:, is_break] = np.inf
            pairs = np.minimum(pairs, both.min(axis=1))
        unjoined[first : first + len(pairs)] = pairs - best[:-1] - best[1:]
    unjoined[episodes.stop - 1] = 0
    return place, near, np.nan_to_num(unjoined, posinf=0.0)


def nearest_of(asked: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(q,) for each asked print the most similar of the known ones, and their difference."""
    square, place = np.square(known).sum(axis=1), np.empty(len(asked), np.int64)
    for first in range(0, len(asked), QUERIES_AT_ONCE):
        part = slice(first, first + QUERIES_AT_ONCE)
        place[part] = (square - 2 * (asked[part] @ known.T)).argmin(axis=1)
    return place, difference(asked, known[place])
