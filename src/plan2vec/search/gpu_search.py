"""Shortest distances from many sources on a GPU, where thousands of relaxations at once beat one clever queue.

Every node takes the least of (distance of a node before it + edge) until nothing changes, by kernels that skip nodes
with nothing new (`gpu_kernel`); where Triton cannot compile them, Dijkstra on the CPU. Equal up to rounding."""

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
from plan2vec.search.shortest_paths import distances_from

DISTANCES_AT_ONCE = 2**31  # nodes x sources that the kernels work on at once: 8 GB
NUM_LANDMARKS = 8  # whose distances tell which sources lie near each other: a tile of the kernels


def distances_from_on(device: torch.device, graph: csr_array, sources: np.ndarray) -> np.ndarray:
    """`distances_from` where it is fastest: on a GPU, else Dijkstra in as many processes as pay; sources are shared."""
    return DeviceGraph(graph, device).shared_distances_from(sources).cpu().numpy()


@dataclass(frozen=True)
class DeviceGraph:
    """A graph that is uploaded to a GPU once and searched there again and again, as a fit does."""

    graph: csr_array
    device: torch.device

    @cached_property
    def arrays(self) -> tuple[Tensor, ...]:
        """indptr [n + 1] int64, indices [m] int32 and weights [m] float32 (steps) on the device."""
        graph = self.graph
        arrays = graph.indptr.astype(np.int64), graph.indices.astype(np.int32), graph.data.astype(np.float32)
        return tuple(torch.from_numpy(array).to(self.device) for array in arrays)

    def shared_distances_from(self, sources: np.ndarray) -> Tensor:
        """`distances_from`, of which each process finds a share."""
        if size() == 1:
            return self.distances_from(sources)
        shares = np.array_split(sources, min(size(), len(sources)))
        shared = concatenated(shares, lambda some: self.distances_from(some).cpu().numpy())
        return torch.from_numpy(shared).to(self.device)

    def distances_from(self, sources: np.ndarray) -> Tensor:
        """[len(sources), n] float32 on the device: steps from each source to every node; inf where no path leads."""
        num_nodes = self.graph.shape[0]
        if self.device.type != "cuda" or not can_compile():
            return torch.from_numpy(distances_from(self.graph, sources)).to(self.device)
        from plan2vec.search.gpu_kernel import Tuning, tile_distances

        tile, source = Tuning().tile, torch.from_numpy(np.asarray(sources, np.int64)).to(self.device)
        distance = torch.empty(len(sources), num_nodes, device=self.device)
        order = np.arange(len(source))
        if len(source) > tile:  # each tile of them near each other: their waves then arrive together
            away = self.landmark_distances[:, source].T.cpu().numpy()
            far = 2 * away.max(initial=0, where=np.isfinite(away)) + 1
            order = near_together(np.where(np.isfinite(away), away, far), order, tile)
        at_once = max(1, DISTANCES_AT_ONCE // num_nodes // tile) * tile
        for part in torch.from_numpy(order).to(self.device).split(at_once):
            distance[part] = tile_distances(self, source[part])
        return distance

    @cached_property
    def landmark_distances(self) -> Tensor:
        """[landmarks, n] steps from a few nodes that have edges, evenly spread over the recordings."""
        from plan2vec.search.gpu_kernel import tile_distances

        joined = np.flatnonzero(np.diff(self.graph.indptr))
        spread = np.linspace(0, max(0, len(joined) - 1), NUM_LANDMARKS).astype(np.int64)
        return tile_distances(self, torch.from_numpy(joined[spread] if len(joined) else spread).to(self.device))


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
    longest = np.ptp(points[numbers], axis=0).argmax()
    ordered = numbers[np.argsort(points[numbers, longest], kind="stable")]
    half = -(-len(numbers) // size) // 2 * size
    return np.concatenate([near_together(points, part, size) for part in (ordered[:half], ordered[half:])])
