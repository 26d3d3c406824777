"""Shortest distances from many sources on a GPU, where thousands of relaxations at once beat one clever queue.

Bellman-Ford: every node takes the least of (distance of a node before it + edge), all sources at once, until nothing
changes. As many sweeps as the shortest path with the most hops has edges; the numbers equal scipy's up to rounding.
"""

from itertools import pairwise

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.processes import concatenated, size
from plan2vec.search import choose_workers, distances_from

NUMBERS_AT_ONCE = 2**28  # edges x sources relaxed in one operation: 1 GB of float32


def distances_from_on(device: torch.device, graph: csr_array, sources: np.ndarray) -> np.ndarray:
    """`search.distances_from` where it is fastest: relaxed on a GPU, else Dijkstra in as many processes as pay; sources are shared."""

    def search(some: np.ndarray) -> np.ndarray:
        if device.type == "cuda":
            return relaxed_distances(graph, some, device)
        return distances_from(graph, some, choose_workers(graph, len(some)))

    return concatenated(np.array_split(sources, min(size(), len(sources))), search)


@torch.no_grad()
def relaxed_distances(graph: csr_array, sources: np.ndarray, device: torch.device) -> np.ndarray:
    """(len(sources), n) float32: steps from each source to every node; inf where no path leads."""
    before = graph.T.tocsr()  # row v: the nodes that lead to v
    weight = torch.from_numpy(before.data.astype(np.float32)).to(device)[:, None]
    node = torch.from_numpy(before.indices.astype(np.int64)).to(device)
    degree = torch.from_numpy(np.diff(before.indptr).astype(np.int64)).to(device)
    blocks = _row_blocks(before.indptr, max(1, NUMBERS_AT_ONCE // len(sources)))
    distance = torch.full((graph.shape[0], len(sources)), torch.inf, device=device)
    distance[torch.from_numpy(np.asarray(sources)).to(device), torch.arange(len(sources), device=device)] = 0
    changed = True
    while changed:
        total = _finite_sum(distance)
        for rows, edges in blocks:
            offered = distance[node[edges]] + weight[edges]  # [edges, sources]
            least = torch.segment_reduce(offered, "min", lengths=degree[rows], axis=0, initial=torch.inf)
            distance[rows] = torch.minimum(distance[rows], least)
        changed = _finite_sum(distance) != total
    return distance.T.contiguous().cpu().numpy()


def _row_blocks(indptr: np.ndarray, edges_at_once: int) -> list[tuple[slice, slice]]:
    """Rows in blocks of about so many edges: [(rows, their edges)]."""
    limits = [0]
    while limits[-1] < len(indptr) - 1:
        last = int(np.searchsorted(indptr, indptr[limits[-1]] + edges_at_once, side="right")) - 1
        limits.append(max(last, limits[-1] + 1))
    return [(slice(a, b), slice(int(indptr[a]), int(indptr[b]))) for a, b in pairwise(limits)]


def _finite_sum(distance: torch.Tensor) -> tuple[float, int]:
    """Falls with every improvement: how it is known that nothing changed any more."""
    finite = distance.isfinite()
    return float(distance.masked_fill(~finite, 0).sum(dtype=torch.float64)), int(finite.sum())
