"""Stage 2b: recorded transitions and believed loop closures become one sparse matrix of step lengths.

graph[i, j] is the length, in steps, of the hop from frame i to frame j; a missing entry is a missing edge. Never
densify it: zero-length edges vanish."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from plan2vec.data import transitions
from plan2vec.graph.neighbors import NearPairs


@dataclass(frozen=True)
class BuiltGraph:
    """The graph, and how its closures were chosen."""

    graph: csr_array
    radius: float = 0.0  # local distance within which frames were joined; moving camera: the limit of a run's mean
    report: str = "given"  # one line for the user
    estimated_false: float | None = None  # share of the closures that is false, as estimated; None: no estimate
    confidence: csr_array | None = None  # (n, n) of closures i < j, above 0 to 1; None: all alike
    directed: bool = False  # hops follow time; else every hop leads both ways
    reversibility: float | None = None  # share of the recorded steps that were ever undone; None: not measured
    repeated: float | None = None  # share of them that were ever repeated
    flow: float | None = None  # how alike look-alikes move on, 0 to 1


def build_graph(sequence: np.ndarray, closures: NearPairs, step_length: np.ndarray | None = None,
                directed: bool = False, usable: np.ndarray | None = None,
                still_since: np.ndarray | None = None) -> csr_array:
    """Transitions of usable frames weigh 1 (or their step length over its median), closures their local distance.

    `directed`: transitions lead forward only. A closure says that two frames show (almost) the same place, which has no
    direction, so it leads both ways. `still_since` (n,): steps between frames in which nothing moved weigh 0, and the
    first of them also has the step out of there, so that a walk need not pass them all."""
    n = len(sequence)
    still_since = np.arange(n) if still_since is None else still_since
    usable = np.ones(n, bool) if usable is None else usable
    end = transitions(sequence, usable) + 1
    weight = transition_weights(end - 1, step_length)
    weight[still_since[end - 1] == still_since[end]] = 0
    leaves = (still_since[end - 1] != end - 1) & (still_since[end] == end) & usable[still_since[end - 1]]
    start = np.concatenate((end - 1, still_since[end - 1][leaves]))
    end, weight = np.concatenate((end, end[leaves])), np.concatenate((weight, weight[leaves]))
    parts = [(start, end, weight), (end, start, weight)][: 1 if directed else 2]
    parts += [closures.arrays, (closures.second, closures.first, closures.distance)]
    rows, columns, values = zip(*parts, strict=True)
    row, column = (np.concatenate(ends, dtype=np.int32, casting="same_kind") for ends in (rows, columns))
    return graph_of_edges(row, column, np.concatenate(values), n)


def graph_of_edges(row: np.ndarray, column: np.ndarray, value: np.ndarray, n: int) -> csr_array:
    """The graph of n frames with these entries; of duplicates the first counts (scipy would add them up)."""
    ends = (row.astype(np.int32, copy=False), column.astype(np.int32, copy=False))
    edges = coo_array((value.astype(np.float32, copy=False), ends), shape=(n, n))
    edges.has_canonical_format = True  # else what is given twice would be added up
    graph = edges.tocsc().tocsr()  # two counting sorts, by column and then by row; both are stable
    is_first = np.ones(graph.nnz, bool)
    is_first[1:] = np.diff(graph.indices) != 0
    is_first[graph.indptr[:-1][np.diff(graph.indptr) > 0]] = True
    return graph if is_first.all() else select_edges(graph, is_first)


def transition_weights(start: np.ndarray, step_length: np.ndarray | None) -> np.ndarray:
    """(m,) weights of the transitions i -> i + 1 in steps."""
    if step_length is None:
        return np.ones(len(start), np.float32)
    length = np.asarray(step_length, np.float64)[start]
    return (length / np.median(length)).astype(np.float32)


def places(graph: csr_array, sequence: np.ndarray) -> np.ndarray:
    """(n,) the first frame of the pause that each frame belongs to; its own number where it moved."""
    row, column = edge_rows(graph), graph.indices
    still = (column == row + 1) & (graph.data == 0) & (sequence[row] == sequence[column])
    first = np.arange(graph.shape[0])
    for number in column[still]:  # in order, so the place of the frame before is known
        first[number] = first[number - 1]
    return first


def join_equal(graph: csr_array, sequence: np.ndarray, place: np.ndarray) -> csr_array:
    """The graph of places (m, m): frames with the same number in `place` (n,), 0 to m - 1, are one node.

    Of several edges between two places a recorded transition counts, else the shortest closure."""
    row, column = place[edge_rows(graph)], place[graph.indices]
    order = np.lexsort((graph.data, closure_entries(graph, sequence)))
    order = order[row[order] != column[order]]
    return graph_of_edges(row[order], column[order], graph.data[order], int(place.max()) + 1)


def edge_rows(graph: csr_array) -> np.ndarray:
    """(nnz,) row of every stored entry, in the order of graph.indices."""
    return np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))


def select_edges(graph: csr_array, kept: np.ndarray) -> csr_array:
    """The graph with the entries `kept` (nnz,) bool only; edges of length zero stay edges."""
    indptr = np.concatenate(([0], np.cumsum(kept)))[graph.indptr]
    return csr_array((graph.data[kept], graph.indices[kept], indptr.astype(graph.indptr.dtype)), shape=graph.shape)


def closure_entries(graph: csr_array, sequence: np.ndarray) -> np.ndarray:
    """(nnz,) bool: the entry is a loop closure, no recorded transition (in either direction)."""
    row, column = edge_rows(graph), graph.indices
    return ~((sequence[row] == sequence[column]) & (np.abs(row - column) == 1))


def joined_nodes(graph: csr_array) -> np.ndarray:
    """(m,) nodes that have an edge."""
    return np.flatnonzero(np.diff(graph.indptr) + np.bincount(graph.indices, minlength=graph.shape[0]))
