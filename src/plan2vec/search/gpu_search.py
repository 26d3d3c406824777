"""Shortest distances from many sources on a GPU, where thousands of relaxations at once beat one clever queue.

Every node takes the least of (distance of a node before it + edge) until nothing changes, by kernels that skip nodes
with nothing new (`gpu_kernel`); where Triton cannot compile them, Dijkstra on the CPU. Equal up to rounding.
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
from plan2vec.search.shortest_paths import choose_workers, distances_from

DISTANCES_AT_ONCE = 2**31  # nodes x sources that the kernels work on at once: 8 GB
NUM_LANDMARKS = 8  # whose distances tell which sources lie near each other: a tile of the kernels


def distances_from_on(device: torch.device, graph: csr_array, sources: np.ndarray) -> np.ndarray:
    """`distances_from` where it is fastest: on a GPU, else Dijkstra in as many processes as pay; sources are shared."""
    if device.type == "cuda":
        return DeviceGraph.of(graph, device).shared_distances_from(sources).cpu().numpy()
    return concatenated(_shares(sources), lambda some: distances_from(graph, some, choose_workers(graph, len(some))))


def _shares(sources: np.ndarray) -> list[np.ndarray]:
    return np.array_split(sources, min(size(), len(sources)))


@dataclass(frozen=True)
class DeviceGraph:
    """A `csr_array` as tensors, uploaded once and searched again and again, as a fit does."""

    indptr: Tensor  # [n + 1] int64
    indices: Tensor  # [m] int32
    weights: Tensor  # [m] float32, steps

    @classmethod
    def of(cls, graph: csr_array, device: torch.device) -> "DeviceGraph":
        arrays = graph.indptr.astype(np.int64), graph.indices.astype(np.int32), graph.data.astype(np.float32)
        return cls(*(torch.from_numpy(array).to(device) for array in arrays))

    @property
    def device(self) -> torch.device:
        return self.indptr.device

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def on_host(self) -> csr_array:
        arrays = (array.cpu().numpy() for array in (self.weights, self.indices, self.indptr))
        return csr_array(tuple(arrays), shape=(self.num_nodes, self.num_nodes))

    def shared_distances_from(self, sources: np.ndarray) -> Tensor:
        """`distances_from`, of which each process finds a share."""
        if size() == 1:
            return self.distances_from(sources)
        shared = concatenated(_shares(sources), lambda some: self.distances_from(some).cpu().numpy())
        return torch.from_numpy(shared).to(self.device)

    def distances_from(self, sources: np.ndarray) -> Tensor:
        """[len(sources), n] float32 on the device: steps from each source to every node; inf where no path leads."""
        if self.device.type != "cuda" or not can_compile():
            found = distances_from(self.on_host, sources, choose_workers(self.on_host, len(sources)))
            return torch.from_numpy(found).to(self.device)
        from plan2vec.search.gpu_kernel import Tuning, tile_distances

        tile, source = Tuning().tile, torch.from_numpy(np.asarray(sources, np.int64)).to(self.device)
        distance = torch.empty(len(sources), self.num_nodes, device=self.device)
        order = np.arange(len(source))
        if len(source) > tile:  # each tile of them near each other: their waves then arrive together
            away = self.landmark_distances[:, source].T.cpu().numpy()
            far = 2 * away.max(initial=0, where=np.isfinite(away)) + 1
            order = near_together(np.where(np.isfinite(away), away, far), order, tile)
        at_once = max(1, DISTANCES_AT_ONCE // self.num_nodes // tile) * tile
        for part in torch.from_numpy(order).to(self.device).split(at_once):
            distance[part] = tile_distances(self, source[part])
        return distance

    @cached_property
    def landmark_distances(self) -> Tensor:
        """[landmarks, n] steps from a few nodes that have edges, evenly spread over the recordings."""
        from plan2vec.search.gpu_kernel import tile_distances

        joined = self.indptr.diff().nonzero()[:, 0]
        last = max(0, len(joined) - 1)
        spread = torch.linspace(0, last, NUM_LANDMARKS, dtype=torch.float64, device=self.device).long()
        return tile_distances(self, joined[spread] if len(joined) else spread)


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
