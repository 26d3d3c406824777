"""Closures that a person should look at first: the doubtful ones, then those that most shortest paths run through.

A false closure is a short cut, so most shortest paths use it; a true one in a narrow place is used as often.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.graph.build import closure_entries, edge_rows, select_edges
from plan2vec.search.shortest_paths import distances_from

NUM_TRIED, EDGES_TRIED = 300, 2**28  # closures that are left out on trial, and edges of all the graphs without them
BESIDE = 2  # frames beside both ends of a closure whose closures are left out with it
LONE = 7.0  # steps: ends that are farther apart without their closure are joined by nothing else
SOON = 10  # frames of one sequence nearer in time than this cannot be joined by a worm-hole worth a look


def suspicious_closures(
    graph: csr_array, sequence: np.ndarray, num: int, rng: np.random.Generator, num_sources: int = 32,
    confidence: csr_array | None = None,
) -> list[dict]:
    """[{first, second, distance, confidence, paths}]: the least confident first, of equals the most used first.

    `paths` is the share of shortest paths from `num_sources` random frames that use the closure. A closure without a
    known `confidence` (n, n) has None; it is listed after the others, and only if a path uses it.
    """
    sources = rng.choice(graph.shape[0], min(num_sources, graph.shape[0]), replace=False)
    uses = count_path_uses(graph, sources)
    row, column = edge_rows(graph), graph.indices
    closure = closure_entries(graph, sequence) & ~((sequence[row] == sequence[column]) & (np.abs(row - column) < SOON))
    low, high = np.minimum(row, column)[closure], np.maximum(row, column)[closure]
    key, where = np.unique(low.astype(np.int64) * graph.shape[0] + high, return_inverse=True)
    total = np.bincount(where, uses[closure], len(key))
    distance = np.zeros(len(key))
    distance[where] = graph.data[closure]
    first, second, num_paths = key // graph.shape[0], key % graph.shape[0], len(sources) * graph.shape[0]
    sure = np.zeros(len(key)) if confidence is None or not len(key) else np.asarray(confidence[first, second]).ravel()
    known = sure > 0  # a missing entry is an unknown confidence
    order = np.lexsort((-total, np.where(known, sure, np.inf)))
    return [
        {"first": int(first[k]), "second": int(second[k]), "distance": round(float(distance[k]), 3),
         "confidence": round(float(sure[k]), 3) if known[k] else None, "paths": round(float(total[k] / num_paths), 5)}
        for k in order[(known | (total > 0))[order]][:num]
    ]


def lone_share(graph: csr_array, sequence: np.ndarray, rng: np.random.Generator) -> float | None:
    """Share of the closures, of some drawn at random, whose ends nothing else joins within a few steps: false ones, and
    true ones where a place was seen only twice. Where recordings are dense a true closure never stands alone.
    """
    row, column = edge_rows(graph), graph.indices
    is_closure = closure_entries(graph, sequence)
    closures = np.flatnonzero(is_closure & (row < column))
    if not len(closures):
        return None
    tried = rng.choice(closures, min(len(closures), NUM_TRIED, max(20, EDGES_TRIED // graph.nnz)), replace=False)
    neighbors = lambda frame: column[graph.indptr[frame] : graph.indptr[frame + 1]]  # noqa: E731
    num_lone = 0
    for first, second in zip(row[tried], column[tried], strict=True):
        beside_first, beside_second = (np.arange(end - BESIDE, end + BESIDE + 1) for end in (first, second))
        if len(np.setdiff1d(np.intersect1d(neighbors(first), neighbors(second)), (*beside_first, *beside_second))):
            continue  # another frame is near both
        there = np.isin(row, beside_first) & np.isin(column, beside_second)
        back = np.isin(row, beside_second) & np.isin(column, beside_first)
        rest = select_edges(graph, ~(is_closure & (there | back)))
        num_lone += not dijkstra(rest, indices=first, limit=LONE)[second] <= LONE
    return num_lone / len(tried)


def count_path_uses(graph: csr_array, sources: np.ndarray) -> np.ndarray:
    """(nnz,) how many shortest paths from the sources to all frames run over each stored edge."""
    n = graph.shape[0]
    uses = np.zeros(graph.nnz, np.int64)
    _, before = distances_from(graph, sources, predecessors=True)
    entry = csr_array((np.arange(1, graph.nnz + 1), graph.indices, graph.indptr), shape=graph.shape)
    for tree in before:
        walker = np.flatnonzero(tree >= 0)
        while len(walker):
            previous = tree[walker]
            edges, times = np.unique(previous.astype(np.int64) * n + walker, return_counts=True)
            uses[np.asarray(entry[edges // n, edges % n]).ravel() - 1] += times
            walker = previous[tree[previous] >= 0]
    return uses
