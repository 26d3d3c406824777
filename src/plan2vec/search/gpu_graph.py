"""The graph on a GPU, uploaded once and searched often: the arrays of a `csr_array` as tensors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor


@dataclass(frozen=True)
class DeviceGraph:
    """Edges from node i lead to indices[indptr[i] : indptr[i + 1]]; the same slice of `weights` holds their lengths."""

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
    def mean_weight(self) -> float:
        return float(self.weights.sum(dtype=torch.float64)) / max(1, len(self.weights))

    @cached_property
    def on_host(self) -> csr_array:
        arrays = (array.cpu().numpy() for array in (self.weights, self.indices, self.indptr))
        return csr_array(tuple(arrays), shape=(self.num_nodes, self.num_nodes))

    @cached_property
    def reversed(self) -> "DeviceGraph":
        """Every edge the other way round."""
        row = torch.arange(self.num_nodes, dtype=torch.int32, device=self.device).repeat_interleave(self.indptr.diff())
        order = torch.sort(self.indices, stable=True).indices
        degree = torch.bincount(self.indices, minlength=self.num_nodes)
        indptr = torch.cat((torch.zeros_like(degree[:1]), degree.cumsum(0)))
        return DeviceGraph(indptr, row[order], self.weights[order])
