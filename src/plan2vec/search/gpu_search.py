"""Shortest distances from many sources on a GPU, where thousands of relaxations at once beat one clever queue.

Every node takes the least of (distance of a node before it + edge), all sources at once, until nothing changes, by
kernels that skip nodes with nothing new (`gpu_kernel`). Where Triton cannot compile them, Dijkstra does it on the CPU.
The numbers are the same up to rounding.
"""

import importlib.util
import os
import shutil
import sysconfig
import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from plan2vec.learning.processes import concatenated, size
from plan2vec.search.gpu_graph import DeviceGraph
from plan2vec.search.shortest_paths import choose_workers, distances_from

DISTANCES_AT_ONCE = 2**31  # nodes x sources that the kernels work on at once: 8 GB
NUM_LANDMARKS = 8  # whose distances tell which sources lie near each other: a tile of the kernels


def distances_from_on(device: torch.device, graph: csr_array, sources: np.ndarray) -> np.ndarray:
    """`distances_from` where it is fastest: on a GPU, else Dijkstra in as many processes as pay; sources are shared."""
    if device.type == "cuda":
        return DeviceSearch(DeviceGraph.of(graph, device)).shared_distances_from(sources).cpu().numpy()
    return concatenated(_shares(sources), lambda some: distances_from(graph, some, choose_workers(graph, len(some))))


def _shares(sources: np.ndarray) -> list[np.ndarray]:
    return np.array_split(sources, min(size(), len(sources)))


@dataclass(frozen=True)
class DeviceSearch:
    """Searches one graph again and again, as a fit does: what does not depend on the sources is found once."""

    graph: DeviceGraph

    def shared_distances_from(self, sources: np.ndarray) -> Tensor:
        """`distances_from`, of which each process finds a share."""
        if size() == 1:
            return self.distances_from(sources)
        shared = concatenated(_shares(sources), lambda some: self.distances_from(some).cpu().numpy())
        return torch.from_numpy(shared).to(self.graph.device)

    def distances_from(self, sources: np.ndarray) -> Tensor:
        """[len(sources), n] float32 on the device: steps from each source to every node; inf where no path leads."""
        if self.graph.device.type != "cuda" or not can_compile():
            graph = self.graph.on_host
            return torch.from_numpy(distances_from(graph, sources, choose_workers(graph, len(sources)))).to(
                self.graph.device)
        from plan2vec.search.gpu_kernel import Tuning, tile_distances

        tile, graph = Tuning().tile, self.graph
        order = torch.from_numpy(self.order(sources, tile)).to(graph.device)
        source = torch.from_numpy(np.asarray(sources, np.int64)).to(graph.device)
        distance = torch.empty(len(sources), graph.num_nodes, device=graph.device)
        for part in order.split(max(1, DISTANCES_AT_ONCE // graph.num_nodes // tile) * tile):
            distance[part] = tile_distances(graph, source[part])
        return distance

    def order(self, sources: np.ndarray, tile: int) -> np.ndarray:
        """(s,) numbers of the sources, each `tile` of them near each other: their waves then arrive together."""
        if len(sources) <= tile:
            return np.arange(len(sources))
        columns = torch.from_numpy(np.asarray(sources, np.int64)).to(self.graph.device)
        distance = self.landmark_distances[:, columns].T.cpu().numpy()
        far = 2 * distance.max(initial=0, where=np.isfinite(distance)) + 1
        return near_together(np.where(np.isfinite(distance), distance, far), np.arange(len(sources)), tile)

    @cached_property
    def landmark_distances(self) -> Tensor:
        """[landmarks, n] steps from a few nodes that have edges, evenly spread over the recordings."""
        from plan2vec.search.gpu_kernel import tile_distances

        joined = self.graph.indptr.diff().nonzero()[:, 0]
        last, device = max(0, len(joined) - 1), self.graph.device
        spread = torch.linspace(0, last, NUM_LANDMARKS, dtype=torch.float64, device=device).long()
        return tile_distances(self.graph, joined[spread] if len(joined) else spread)


@cache
def can_compile() -> bool:
    """Whether Triton, the C compiler that it calls and Python's headers are there; says once what is missing."""
    compilers = os.environ.get("CC"), shutil.which("cc"), shutil.which("gcc"), shutil.which("clang")
    scheme = sysconfig.get_default_scheme().replace("posix_local", "posix_prefix")  # Debian's own has no headers
    headers = Path(sysconfig.get_path("include", scheme), "Python.h")
    found = {"Triton": importlib.util.find_spec("triton"), "a C compiler": any(compilers), "Python.h": headers.exists()}
    missing = [name for name, it in found.items() if not it]
    if missing:
        warnings.warn(f"shortest distances take longer on this GPU: its kernels need {', '.join(missing)}; install it",
                      stacklevel=2)
    return not missing


def near_together(points: np.ndarray, numbers: np.ndarray, size: int) -> np.ndarray:
    """The numbers (m,), each `size` of them near each other in `points` (n, k): halved along the longest side."""
    if len(numbers) <= size:
        return numbers
    sides = np.ptp(points[numbers], axis=0)
    ordered = numbers[np.argsort(points[numbers, sides.argmax()], kind="stable")]
    half = -(-len(numbers) // size) // 2 * size
    return np.concatenate([near_together(points, part, size) for part in (ordered[:half], ordered[half:])])
