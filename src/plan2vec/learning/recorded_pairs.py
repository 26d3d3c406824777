"""Pairs of frames for the local metric to learn from: recorded close in time, or not. Positions are never asked."""

from dataclasses import dataclass

import numpy as np

from plan2vec.data import Sequences, frames_ahead, is_still, near_in_time


@dataclass(frozen=True)
class Pairs:
    """Recorded pairs to learn from: i and i + gap, for each i in `first[gap - 1]`; something moved between them."""

    first: tuple[np.ndarray, ...]
    sequence: np.ndarray
    frames: np.ndarray  # (m,) frame numbers that may be used

    @property
    def max_gap(self) -> int:
        return len(self.first)


def recorded_pairs(recorded: Sequences, usable: np.ndarray, max_gap: int) -> Pairs:
    """Neighbour pairs of the usable frames; pairs between which nothing moved are left out."""
    frames, sequence, still_since = recorded.frames, recorded.sequence, recorded.still_since
    first = []
    for gap in range(1, max_gap + 1):
        start = frames_ahead(sequence, gap)
        start = start[usable[start] & usable[start + gap] & (still_since[start] != still_since[start + gap])]
        if gap > 1:  # there and back again; equal frames one step apart stand still, so they are out already
            start = start[~is_still(frames, start, start + gap)]
        first.append(start)
    return Pairs(tuple(first), sequence, np.flatnonzero(usable))


def draw_neighbors(pairs: Pairs, num: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(first, gap): frame numbers whose partner is `gap` frames later; every gap is equally likely."""
    gaps = [gap for gap, first in enumerate(pairs.first, 1) if len(first)]
    gap = rng.choice(gaps, num)
    first = np.empty(num, np.int64)
    for g in gaps:
        first[gap == g] = rng.choice(pairs.first[g - 1], np.count_nonzero(gap == g))
    return first, gap


def draw_far(pairs: Pairs, first: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random partners, far unless they meet by chance; those recorded within 2 x max_gap are drawn once more."""
    second = rng.choice(pairs.frames, len(first))
    close = near_in_time(pairs.sequence, first, second, 2 * pairs.max_gap + 1)
    second[close] = rng.choice(pairs.frames, np.count_nonzero(close))
    return first, second


def spaced_times(sequence: np.ndarray, pause: int) -> np.ndarray:
    """(n,) frame numbers with a pause between sequences: frames of two differ by more than this."""
    return np.arange(len(sequence)) + pause * np.cumsum(np.diff(sequence, prepend=sequence[:1]) != 0)


def draw_judged(pairs: Pairs, num: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(num,) first, (num,) second, (num,) bool: pairs to judge, and whether they were recorded as near."""
    first, gap = draw_neighbors(pairs, num // 4, rng)
    far_first, far_second = draw_far(pairs, rng.choice(pairs.frames, num // 2), rng)
    a, b = np.concatenate((first, first, far_first)), np.concatenate((first, first + gap, far_second))
    return a, b, np.arange(len(a)) < 2 * len(first)
