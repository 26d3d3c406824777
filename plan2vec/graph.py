"""Stage 2b: recorded transitions and believed loop closures become one sparse matrix of step lengths.

The graph is a `scipy.sparse.csr_array`: graph[i, j] is the length, in steps, of the hop from frame i to frame j; a
missing entry is a missing edge. Never densify it: zero-length edges vanish.
"""

import numpy as np
from scipy.sparse import csr_array

from plan2vec.data import transitions
from plan2vec.neighbors import NearPairs


def build_graph(sequence: np.ndarray, closures: NearPairs, step_length: np.ndarray | None, directed: bool, usable: np.ndarray) -> csr_array:
    """Transitions of usable frames weigh 1 (or their step length over its median), closures their local distance.

    `directed`: transitions lead forward only. A closure says that two frames show (almost) the same place, which has no
    direction, so it leads both ways.
    """
    n = len(sequence)
    start = transitions(sequence)
    start = start[usable[start] & usable[start + 1]]
    weight = transition_weights(start, step_length)
    rows = [start, closures.first, closures.second]
    columns = [start + 1, closures.second, closures.first]
    values = [weight, closures.distance, closures.distance]
    if not directed:
        rows, columns, values = [*rows, start + 1], [*columns, start], [*values, weight]
    row, column, value = np.concatenate(rows), np.concatenate(columns), np.concatenate(values).astype(np.float32)
    order = np.lexsort((column, row))
    row, column, value = row[order], column[order], value[order]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=n)))).astype(np.int32)
    return csr_array((value, column.astype(np.int32), indptr), shape=(n, n))  # by hand: no conversion of scipy's can lose a zero


def transition_weights(start: np.ndarray, step_length: np.ndarray | None) -> np.ndarray:
    """(m,) weights of the transitions i -> i + 1 in steps."""
    if step_length is None:
        return np.ones(len(start), np.float32)
    length = np.asarray(step_length, np.float64)[start]
    return (length / np.median(length)).astype(np.float32)


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
