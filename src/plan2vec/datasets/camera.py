"""Whether the camera stood elsewhere in an episode: its usual view is laid over those of the episodes around it.

Cameras are moved between sessions, too. So an episode is compared with those recorded before it and with those after
it, and the better match counts: what begins with an episode and stays is no finding.
"""

import numpy as np

from plan2vec.data import Sequences
from plan2vec.datasets.findings import Finding, fence
from plan2vec.datasets.prints import Episodes

NEIGHBORS = 3  # episodes before and after
REACH = 0.1  # of the side: the largest shift that is tried
MOST_DIFFERENCE = 20.0  # gray levels: what moves in the scene counts no more than this
LEAST_RANGE = 0.004  # of the side: a quarter of a pixel of 64
MOST_LEFT = 0.8  # of the difference between two views, once they are shifted over each other: else it is no shift
MOST_FRAMES = 200  # of an episode, for its usual view


def find_shifts(episodes: Episodes, sequences: Sequences) -> list[Finding]:
    """Episodes whose whole view lies elsewhere; the light does not matter."""
    views = np.stack([usual_view(sequences.frames[episodes.part(k)]) for k in range(episodes.num)])
    level = views.mean(axis=(1, 2), keepdims=True)
    views *= np.median(level) / np.maximum(level, 1)
    side = max(views.shape[1:])
    shifts = np.stack([_shift_of(views, k) for k in range(episodes.num)])
    length = np.linalg.norm(shifts, axis=1)
    limit = fence(length, LEAST_RANGE * side)[1]
    found = []
    for k in np.flatnonzero(length > limit):
        down, right = shifts[k]
        words = f"all frames are shifted, {abs(right):.1f} pixels to the {'right' if right > 0 else 'left'} and "
        words += f"{abs(down):.1f} {'down' if down > 0 else 'up'}: the camera moved (others less than {limit:.1f})"
        found.append(Finding(int(episodes.label[k]), "off-map", 0, int(episodes.length[k]) - 1, words,
                             float(length[k] / limit)))
    return found


def usual_view(frames: np.ndarray) -> np.ndarray:
    """(height, width) the median gray of every pixel."""
    chosen = frames[:: -(-len(frames) // MOST_FRAMES)]
    return np.median(chosen.mean(axis=-1, dtype=np.float32), axis=0)


def _shift_of(views: np.ndarray, number: int) -> np.ndarray:
    """(2,) pixels down and right, against the episodes before or after, whichever match better."""
    before, after = views[max(0, number - NEIGHBORS) : number], views[number + 1 : number + 1 + NEIGHBORS]
    sides = [side for side in (before, after) if len(side) == NEIGHBORS] or [np.delete(views, number, axis=0)]
    matches = [measured_shift(views[number], np.median(side, axis=0)) for side in sides]
    shift, left, unmoved = min(matches, key=lambda match: match[1])
    return shift if left <= MOST_LEFT * unmoved else np.zeros(2)


def measured_shift(view: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, float, float]:
    """(2,) pixels down and right by which the view lies from the reference; how much they differ then, and unmoved.
    Whole shifts are tried, a parabola lies between."""
    reach = [max(1, round(REACH * size)) for size in view.shape]
    inner = reference[reach[0] : -reach[0], reach[1] : -reach[1]]
    cost = np.empty((2 * reach[0] + 1, 2 * reach[1] + 1))
    for down, right in np.ndindex(cost.shape):
        moved = view[down : down + inner.shape[0], right : right + inner.shape[1]]
        cost[down, right] = np.minimum(np.abs(moved - inner), MOST_DIFFERENCE).mean()
    best = np.unravel_index(int(cost.argmin()), cost.shape)
    lines = cost[:, best[1]], cost[best[0]]
    shift = np.array([place - far + _vertex(line, int(place))
                      for place, far, line in zip(best, reach, lines, strict=True)])
    return shift, float(cost.min()), float(cost[reach[0], reach[1]])


def _vertex(line: np.ndarray, place: int) -> float:
    """How far from the least value the parabola through it and its neighbours has its own."""
    if not 0 < place < len(line) - 1:
        return 0.0
    bend = line[place - 1] - 2 * line[place] + line[place + 1]
    return float((line[place - 1] - line[place + 1]) / (2 * bend)) if bend > 0 else 0.0
