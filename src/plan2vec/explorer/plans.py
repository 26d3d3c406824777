"""The exact shortest path by scipy: in pure Python it takes many seconds on a large graph."""

import math

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.planner import Plan


def exact_plan(graph: csr_array, start: int, goal: int, limit: float = math.inf) -> Plan:
    """The shortest path, and what Dijkstra's search from start to goal would expand and touch.

    `limit`: steps of some path that is known, beyond which nothing needs to be searched.
    """
    lengths, before = dijkstra(graph, indices=start, limit=limit, return_predecessors=True)
    length = float(lengths[goal])
    expanded = lengths < length
    touched = returned_by(graph, expanded)
    if math.isinf(length):
        reason = "no path leads from start to goal on the graph"
        return Plan(start, goal, "dijkstra", None, None, int(expanded.sum()), len(touched), reason, touched)
    nodes = [goal]
    while nodes[-1] != start:
        nodes.append(int(before[nodes[-1]]))
    return Plan(start, goal, "dijkstra", nodes[::-1], length, int(expanded.sum()), len(touched), "", touched)


def returned_by(graph: csr_array, expanded: np.ndarray) -> frozenset[int]:
    """Frames that a search gets to see when it asks for the neighbours of the expanded ones, (n,) bool."""
    seen = np.zeros(graph.shape[0], bool)
    seen[graph.indices[np.repeat(expanded, np.diff(graph.indptr))]] = True
    return frozenset(np.flatnonzero(seen).tolist())
