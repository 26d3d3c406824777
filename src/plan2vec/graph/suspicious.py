"""Closures that a person should look at first: the doubtful ones, then those that most shortest paths run through.

A false closure is a short cut, so most shortest paths use it; a true one in a narrow place is used as often."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.data import near_in_time
from plan2vec.graph.build import closure_entries, edge_rows, select_edges
from plan2vec.search.shortest_paths import paths_from

NUM_TRIED, EDGES_TRIED = 300, 2**28  # closures that are left out on trial, and edges of all the graphs without them
BESIDE = 2  # frames beside both ends of a closure whose closures are left out with it
LONE = 7.0  # steps: ends that are farther apart without their closure are joined by nothing else
SOON = 10  # frames of one sequence nearer in time than this cannot be joined by a worm-hole worth a look


def suspicious_closures(graph: csr_array, sequence: np.ndarray, num: int, rng: np.random.Generator,
                        num_sources: int = 32, confidence: csr_array | None = None) -> list[dict]:
    """[{first, second, distance, confidence, paths}]: the least confident first, of equals the most used first.

    `paths` is the share of shortest paths from `num_sources` random frames that use the closure. A closure without a
    known `confidence` (n, n) has None; it is listed after the others, and only if a path uses it."""
    n = graph.shape[0]
    sources = rng.choice(n, min(num_sources, n), replace=False)
    uses, edges = count_path_uses(graph, sources), numbered(graph)
    used = np.flatnonzero(uses)
    doubted = np.empty((2, 0), np.int64) if confidence is None else _least_sure(confidence, sequence, num)
    ends = np.hstack((np.stack((edge_rows(graph)[used], graph.indices[used])), doubted))
    first, second = np.divmod(np.unique(ends.min(axis=0).astype(np.int64) * n + ends.max(axis=0)), n)
    there, back = edge_between(edges, first, second), edge_between(edges, second, first)
    apart = ~near_in_time(sequence, first, second, SOON)
    chosen = apart & (np.maximum(there, back) >= 0)  # some confidences are of struck ones
    first, second, there, back = first[chosen], second[chosen], there[chosen], back[chosen]
    total = np.where(there < 0, 0, uses[there]) + np.where(back < 0, 0, uses[back])
    distance = graph.data[np.where(back < 0, there, back)]
    sure = np.asarray(confidence[first, second]).ravel() if confidence is not None and len(first) else 0 * distance
    known = sure > 0  # a missing entry is an unknown confidence
    order = np.lexsort((-total, np.where(known, sure, np.inf)))
    return [{"first": int(first[k]), "second": int(second[k]), "distance": round(float(distance[k]), 3),
             "confidence": round(float(sure[k]), 3) if known[k] else None,
             "paths": round(float(total[k] / (len(sources) * n)), 5)} for k in order[:num]]


def _least_sure(confidence: csr_array, sequence: np.ndarray, num: int) -> np.ndarray:
    """(2, m) the ends of the `num` least confident closures, and of those that are as confident as the last of them."""
    ends = np.stack((edge_rows(confidence), confidence.indices)).astype(np.int64)
    chosen = (confidence.data > 0) & ~near_in_time(sequence, ends[0], ends[1], SOON)
    ends, sure = ends[:, chosen], confidence.data[chosen]
    return ends[:, sure <= np.partition(sure, num - 1)[num - 1]] if len(sure) > num else ends


def numbered(graph: csr_array) -> csr_array:
    """The graph with the number of each stored edge, from 1 on, as its value."""
    return csr_array((np.arange(1, graph.nnz + 1), graph.indices, graph.indptr), shape=graph.shape)


def edge_between(edges: csr_array, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(m,) which stored edge of a `numbered` graph leads from each first frame to its second; -1 where none does."""
    return np.asarray(edges[first, second]).ravel() - 1 if len(first) else np.empty(0, np.int64)


def lone_share(graph: csr_array, sequence: np.ndarray, rng: np.random.Generator) -> float | None:
    """Share of the closures, of some drawn at random, whose ends nothing else joins within a few steps: false ones, and
    true ones where a place was seen only twice. Where recordings are dense a true closure never stands alone."""
    row, column, is_closure = edge_rows(graph), graph.indices, closure_entries(graph, sequence)
    closures = np.flatnonzero(is_closure & (row < column))
    if not len(closures):
        return None
    tried = rng.choice(closures, min(len(closures), NUM_TRIED, max(20, EDGES_TRIED // graph.nnz)), replace=False)
    neighbors = lambda frame: column[graph.indptr[frame] : graph.indptr[frame + 1]]  # noqa: E731
    num_lone = 0
    for first, second in zip(row[tried], column[tried], strict=True):
        near_first, near_second = (np.arange(end - BESIDE, end + BESIDE + 1) for end in (first, second))
        if len(np.setdiff1d(np.intersect1d(neighbors(first), neighbors(second)), (*near_first, *near_second))):
            continue  # another frame is near both
        there, back = (np.isin(row, some) & np.isin(column, other)
                       for some, other in ((near_first, near_second), (near_second, near_first)))
        rest = select_edges(graph, ~(is_closure & (there | back)))
        num_lone += not dijkstra(rest, indices=first, limit=LONE)[second] <= LONE
    return num_lone / len(tried)


def count_path_uses(graph: csr_array, sources: np.ndarray) -> np.ndarray:
    """(nnz,) how many shortest paths from the sources to all frames run over each stored edge."""
    n, edges, uses = graph.shape[0], numbered(graph), np.zeros(graph.nnz, np.int64)
    for tree in paths_from(graph, sources)[1]:
        walker = np.flatnonzero(tree >= 0)
        while len(walker):
            previous = tree[walker]
            hops, times = np.unique(previous.astype(np.int64) * n + walker, return_counts=True)
            uses[edge_between(edges, hops // n, hops % n)] += times
            walker = previous[tree[previous] >= 0]
    return uses
