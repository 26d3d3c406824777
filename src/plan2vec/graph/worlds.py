"""Which recordings of a moving camera show one world. Two worlds may have some things alike: a lamp, a green corner.

A camera that walks where another walked sees the same for long, side by side with it. A lamp stays in sight for a few
frames only, whoever passes. So closures between two recordings count only if once, frame beside frame, the two look
alike for `SHARED` frames (of short recordings: a tenth of the shorter one), or if a third one connects them so."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from plan2vec.graph.neighbors import NearPairs

SHARED, OF_SHORT = 15, 0.1  # frames, and share of the shorter recording
CELL = 3  # frames: closures in one cell, or in two that touch, follow each other


def in_one_world(pairs: NearPairs, run: np.ndarray) -> np.ndarray:
    """(m,) bool: of these closures, those between frames of one world. `run` (n,): the recording of each frame."""
    ends, runs = (pairs.first, pairs.second), (run[pairs.first], run[pairs.second])
    stretch = stretches(*(end + 3 * CELL * of for end, of in zip(ends, runs, strict=True)))  # no two runs touch
    extent = np.min([extents(end, stretch) for end in ends], axis=0)
    shorter = np.minimum(*(np.bincount(run)[of] for of in runs))
    strong = extent >= np.minimum(SHARED, OF_SHORT * shorter)
    world = parts(runs[0][strong], runs[1][strong], int(run.max(initial=0)) + 1)
    return world[runs[0]] == world[runs[1]]


def stretches(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(m,) numbers closures such that those that follow each other on both sides have the same."""
    width = int(second.max(initial=0)) // CELL + 2
    cell, which = np.unique(first // CELL * width + second // CELL, return_inverse=True)
    touching = []
    for offset in (1, width - 1, width, width + 1):
        place = np.minimum(np.searchsorted(cell, cell + offset), len(cell) - 1)
        here = np.flatnonzero(cell[place] == cell + offset)
        touching.append((here, place[here]))
    return parts(*(np.concatenate(side) for side in zip(*touching, strict=True)), len(cell))[which]


def extents(end: np.ndarray, stretch: np.ndarray) -> np.ndarray:
    """(m,) from the first frame to the last of the stretch that each closure belongs to."""
    first, last = np.full(len(end), np.iinfo(np.int64).max), np.zeros(len(end), np.int64)
    np.minimum.at(first, stretch, end)
    np.maximum.at(last, stretch, end)
    return (last - first)[stretch]


def parts(first: np.ndarray, second: np.ndarray, n: int) -> np.ndarray:
    """(n,) the connected part that each of n nodes belongs to."""
    return connected_components(coo_array((np.ones(len(first)), (first, second)), shape=(n, n)), directed=False)[1]
