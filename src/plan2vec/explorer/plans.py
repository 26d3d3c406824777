"""The exact shortest path by scipy: in pure Python it takes many seconds on a large graph."""

import math

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.planner import Plan, plan_of
from plan2vec.search.shortest_paths import Path


def exact_plan(graph: csr_array, start: int, goal: int, limit: float = math.inf) -> Plan:
    """The shortest path, and what Dijkstra's search expands and touches. `limit`: steps of some path that is known."""
    lengths, before = dijkstra(graph, indices=start, limit=limit, return_predecessors=True)
    length = float(lengths[goal])
    expanded = lengths < length  # (n,) bool
    touched = frozenset(np.unique(graph.indices[np.repeat(expanded, np.diff(graph.indptr))]).tolist())
    nodes = [goal]
    while nodes[-1] != start and math.isfinite(length):
        nodes.append(int(before[nodes[-1]]))
    found = nodes[::-1] if math.isfinite(length) else None
    return plan_of(Path(found, length, int(expanded.sum()), len(touched), touched), start, goal, "dijkstra")
