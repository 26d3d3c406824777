"""What planners look at before they choose: neighbours of many frames at once, and all within a few hops, by arrays."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array


@dataclass(frozen=True)
class Balls:
    """The nodes within some hops of each of m starts: k in all, ball after ball, each in breadth-first order."""

    owner: np.ndarray  # (k,) which start, ascending
    nodes: np.ndarray  # (k,) int64 node numbers; the first of a ball is its start
    parents: np.ndarray  # (k,) indices into these arrays: where each was reached from; -1 for starts
    num_expanded: np.ndarray  # (m,) nodes whose neighbours were asked for
    start_touched: np.ndarray  # (m,) bool: one of these queries returned the start; all others always come back

    def hops_to(self, index: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """The ways by the fewest hops to `nodes[index]`, hop after hop: (which of them, the nodes entered)."""
        hops, which = [], np.arange(len(index))
        while len(index):
            ahead = self.parents[index] >= 0
            which, index = which[ahead], index[ahead]
            hops.append((which, self.nodes[index]))
            index = self.parents[index]
        return hops[::-1]


def neighbor_entries(graph: csr_array, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The stored edges that leave the nodes, end to end: (owner, entry) are indices into `nodes` and graph.data."""
    begin = graph.indptr[nodes].astype(np.int64)
    counts = graph.indptr[nodes + 1] - begin
    owner = np.repeat(np.arange(len(nodes)), counts)
    return owner, np.arange(len(owner)) + np.repeat(begin - (np.cumsum(counts) - counts), counts)


def neighbor_lists(graph: csr_array, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All neighbours of the nodes, end to end: (owner, neighbor)."""
    owner, entry = neighbor_entries(graph, nodes)
    return owner, graph.indices[entry].astype(np.int64)


def is_neighbor(graph: csr_array, nodes: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """(m,) bool: the goal is the node itself or one hop away."""
    return (nodes == goals) | np.isfinite(edge_lengths(graph, nodes, goals))


def edge_lengths(graph: csr_array, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(m,) float64 steps of the edges from `first` (m,) to `second` (m,); inf where there is none."""
    owner, entry = neighbor_entries(graph, first)
    taken = graph.indices[entry] == second[owner]
    length = np.full(len(first), np.inf)
    np.minimum.at(length, owner[taken], graph.data[entry[taken]])
    return length


def balls(graph: csr_array, starts: np.ndarray, depth: int) -> Balls:
    """Breadth-first search from all starts at once: every node at most `depth` hops away, whatever the edges weigh."""
    if depth < 0:
        raise ValueError(f"depth must be a number of hops, 0 or more, but is {depth}")
    starts = np.asarray(starts, np.int64)
    n, m = graph.shape[0], len(starts)
    owners, nodes, parents = [np.arange(m)], [starts], [np.full(m, -1)]
    key = owners[0] * n + starts  # of every node found, sorted after the first round
    start_touched, num_expanded, num_before = np.zeros(m, bool), np.zeros(m, np.int64), 0
    for _ in range(min(depth, n)):  # no path is longer
        asked, neighbor = neighbor_lists(graph, nodes[-1])
        owner = owners[-1][asked]
        num_expanded += np.bincount(owners[-1], minlength=m)
        start_touched[owner[neighbor == starts[owner]]] = True
        num_known = len(key)
        key, index = np.unique(np.concatenate((key, owner * n + neighbor)), return_index=True)
        found = np.sort(index[index >= num_known]) - num_known
        parents.append(num_before + asked[found])
        num_before += len(nodes[-1])
        owners.append(owner[found])
        nodes.append(neighbor[found])
    owner, node, parent = (np.concatenate(levels) for levels in (owners, nodes, parents))
    order = np.argsort(owner, kind="stable")  # level after level becomes ball after ball
    parent, index = parent[order], np.argsort(order)
    return Balls(owner[order], node[order], np.where(parent >= 0, index[parent], -1), num_expanded, start_touched)
