"""Detours: what an episode took, over the shortest way between its ends on the graph without this episode.

Its first and last frame are placed at the nearest frames of other episodes, by the local metric. So the way leads over
what others recorded, and over closures between them. Where the graph has several parts some ends cannot be joined.
"""

import numpy as np
from scipy.sparse import csr_array

from plan2vec.datasets.findings import Finding, fence
from plan2vec.datasets.prints import Episodes
from plan2vec.graph.build import edge_rows
from plan2vec.model import Model
from plan2vec.search.shortest_paths import distances_from

NUM_PLACES = 5  # nearest frames at which an end is placed
LEAST_RANGE = 0.15  # of the logarithm: less than this factor of 1.6 beyond the others is never a detour


def find_detours(model: Model, episodes: Episodes) -> tuple[list[Finding], int]:
    """The findings, and how many episodes could be judged."""
    way = ways_without(model.graph, model.local_vectors, episodes)
    moves = episodes.change > episodes.still_below
    taken = np.array([np.count_nonzero(moves[episodes.part(k)]) for k in range(episodes.num)])
    known = np.flatnonzero(np.isfinite(way) & (way > 0) & (taken > 0))
    ratio = taken / np.where(way > 0, way, np.inf)
    if len(known) < 4:
        return [], len(known)
    limit = float(np.exp(fence(np.log(ratio[known]), LEAST_RANGE)[1]))
    found = []
    for k in known[ratio[known] > limit]:
        words = f"{taken[k]} steps for a way of {way[k]:.1f} on the map of the other episodes "
        words += f"({ratio[k]:.1f} times as long; others up to {limit:.1f})"
        last = int(episodes.length[k]) - 1
        found.append(Finding(int(episodes.label[k]), "detour", 0, last, words, float(ratio[k] / limit)))
    return found, len(known)


def ways_without(graph: csr_array, vectors: np.ndarray, episodes: Episodes) -> np.ndarray:
    """(e,) steps of the shortest way from each episode's first to its last frame that enters no other frame of it."""
    row, n = edge_rows(graph), graph.shape[0]
    way = np.empty(episodes.num)
    for k in range(episodes.num):
        own = episodes.number == k
        start, end = (np.linalg.norm(vectors - vectors[frame], axis=1)
                      for frame in (episodes.first[k], episodes.stop[k] - 1))
        start[own], end[own] = np.inf, np.inf
        near_start, near_end = (np.argsort(far)[:NUM_PLACES] for far in (start, end))
        data = np.where(own[row] | own[graph.indices], np.inf, graph.data)
        placed = csr_array(  # the graph with one node more: the first frame, which leads to where it is placed
            (np.append(data, start[near_start]), np.append(graph.indices, near_start),
             np.append(graph.indptr, len(data) + NUM_PLACES)), shape=(n + 1, n + 1))
        way[k] = (distances_from(placed, np.array([n]))[0, near_end] + end[near_end]).min()
    return way
