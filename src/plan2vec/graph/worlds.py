"""Which recordings of a moving camera show one world. Two worlds may have some things alike: a lamp, a green corner.

A camera that walks where another walked sees the same for long, side by side with it. A lamp stays in sight for a few
frames only, whoever passes. So closures between two recordings count only if once, frame beside frame, the two look
alike for `SHARED` frames (of short recordings: a tenth of the shorter one), or if a third one connects them so."""

import numpy as np
from scipy import ndimage

from plan2vec.graph.build import graph_of_edges
from plan2vec.graph.neighbors import NearPairs
from plan2vec.search.shortest_paths import connected_parts

SHARED, OF_SHORT = 15, 0.1  # frames, and share of the shorter recording
CELL = 3  # frames: closures in one cell, or in two that touch, follow each other


def in_one_world(pairs: NearPairs, run: np.ndarray) -> np.ndarray:
    """(m,) bool: of these closures, those between frames of one world. `run` (n,): the recording of each frame."""
    if not len(pairs):
        return np.empty(0, bool)
    ends, runs = np.stack((pairs.first, pairs.second)), run[np.stack((pairs.first, pairs.second))]
    stretch = stretches(*(ends + 3 * CELL * runs))  # so that no two recordings touch
    which = np.arange(stretch.max() + 1)
    extent = [ndimage.maximum(end, stretch, which) - ndimage.minimum(end, stretch, which) for end in ends]
    strong = np.minimum(*extent)[stretch] >= np.minimum(SHARED, OF_SHORT * np.bincount(run)[runs].min(axis=0))
    joined = graph_of_edges(runs[0, strong], runs[1, strong], np.ones(strong.sum()), int(run.max()) + 1)
    world = connected_parts(joined)[1]
    return world[runs[0]] == world[runs[1]]


def stretches(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(m,) numbers closures such that those that follow each other on both sides have the same."""
    width = int(second.max()) // CELL + 2
    cell, which = np.unique(first // CELL * width + second // CELL, return_inverse=True)
    beside = np.concatenate([cell + offset for offset in (1, width - 1, width, width + 1)])
    place = np.minimum(np.searchsorted(cell, beside), len(cell) - 1)
    touches = np.flatnonzero(cell[place] == beside)
    follow = graph_of_edges(touches % len(cell), place[touches], np.ones(len(touches)), len(cell))
    return connected_parts(follow)[1][which]
