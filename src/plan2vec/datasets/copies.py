"""Copies among episodes, and between two recordings: frames that equal each other one after the other.

The most similar frame of another episode votes for a pair of episodes and a shift in time. The pair is a copy where the
frames laid over each other are equal, but for what a codec changes. Frames in which nothing moves prove nothing: only
those count that differ from the one counted before.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from plan2vec.datasets.findings import Finding, frames_words
from plan2vec.datasets.prints import Episodes, difference, nearest_of

COPIED_SHARE = 0.75  # of the frames that count must be equal
LEAST_OVERLAP = 0.5  # of the shorter episode
LEAST_COUNTED = 5  # frames


def find_copies(episodes: Episodes, place: np.ndarray, near: np.ndarray, limit: float) -> Iterator[Finding]:
    """Episodes that repeat another; the shorter or later one is the copy. `place`, `near`: of `compare_all`."""
    for first, second, shift in _alike(episodes, episodes, place, near, limit):
        keep, copy = sorted((first, second), key=lambda k: (-episodes.length[k], k))
        shift = shift if (first, second) == (copy, keep) else -shift
        yield _copy(episodes, copy, episodes, keep, shift, "duplicate", "episode")


def find_leaks(episodes: Episodes, known: Episodes, source: str, limit: float) -> list[Finding]:
    """Episodes that another recording holds too."""
    if episodes.grid != known.grid:
        raise ValueError(f"{source} has frames of another shape; read both with the same --size and --camera")
    place, near = nearest_of(episodes.prints, known.prints)
    found = _alike(episodes, known, place, near, limit)
    return [_copy(episodes, copy, known, keep, shift, "leak", f"{source}, episode") for copy, keep, shift in found]


def _alike(episodes: Episodes, known: Episodes, place: np.ndarray, near: np.ndarray,
           limit: float) -> list[tuple[int, int, int]]:
    """(episode, known one, shift): frame i of the episode is frame i + shift of the other. Each pair once."""
    i = np.flatnonzero(near <= limit)
    pairs = np.stack((episodes.number[i], known.number[place[i]], known.index[place[i]] - episodes.index[i]), axis=1)
    if known is episodes:
        turned = pairs[:, 0] > pairs[:, 1]
        pairs[turned] = pairs[turned][:, [1, 0, 2]] * (1, 1, -1)
    votes: dict[tuple[int, int], Counter[int]] = {}
    for first, second, shift in pairs.tolist():
        votes.setdefault((first, second), Counter())[shift] += 1
    best = {pair: counted.most_common(1)[0][0] for pair, counted in sorted(votes.items())
            if counted.total() >= LEAST_COUNTED}
    return [(*pair, shift) for pair, shift in best.items() if _is_copy(episodes, known, (*pair, shift), limit)]


def _is_copy(episodes: Episodes, known: Episodes, pair: tuple[int, int, int], limit: float) -> bool:
    mine, theirs = _overlap(episodes, known, pair)
    if len(mine) < LEAST_OVERLAP * min(episodes.length[pair[0]], known.length[pair[1]]):
        return False
    counted = [0]
    for k in range(1, len(mine)):
        if difference(episodes.prints[mine[k]], episodes.prints[mine[counted[-1]]]) > 2 * limit:
            counted.append(k)
    equal = difference(episodes.prints[mine[counted]], known.prints[theirs[counted]]) <= limit
    return len(counted) >= LEAST_COUNTED and bool(equal.mean() >= COPIED_SHARE)


def _overlap(episodes: Episodes, known: Episodes, pair: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Frames of the first and, beside each, of the second."""
    first, second, shift = pair
    index = np.arange(max(0, -shift), min(episodes.length[first], known.length[second] - shift))
    return episodes.first[first] + index, known.first[second] + index + shift


def _copy(episodes: Episodes, copy: int, known: Episodes, keep: int, shift: int, kind: str, whose: str) -> Finding:
    mine, theirs = _overlap(episodes, known, (copy, keep, shift))
    first, last = int(episodes.index[mine[0]]), int(episodes.index[mine[-1]])
    away = float(np.median(difference(episodes.prints[mine], known.prints[theirs]))) / max(episodes.step, 1e-9)
    also = frames_words(first + shift, last + shift)
    words = f"{frames_words(first, last)} repeat {also} of {whose} {known.label[keep]} ({away:.2f} steps apart)"
    other = int(known.label[keep]), first + shift
    return Finding(int(episodes.label[copy]), kind, first, last, words, 1 + 9 / (1 + 10 * away), other)
