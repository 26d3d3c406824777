"""Distances from vectors [..., dim] to vectors [..., dim], broadcast against each other, in steps: [...].

| name       | distance from a to b                                       | symmetric | guarantee   |
|------------|------------------------------------------------------------|-----------|-------------|
| "lp"       | (sum_i |b_i - a_i|^p)^(1/p); p = inf: max_i |b_i - a_i|    | yes       | metric      |
| "max-relu" | max_i max(b_i - a_i, 0)                                    | no        | quasimetric |
| "mrn"      | l2 of the first half + max-relu of the second half         | no        | quasimetric |
| "squared"  | sum_i (b_i - a_i)^2                                        | yes       | semimetric  |

All are never negative and zero from a vector to itself; twice the vectors give 2^degree the distance (degree 1, of
squared 2). Metrics and quasimetrics keep the triangle inequality whatever the vectors; metrics and semimetrics are
symmetric, and zero between equal vectors only. At equal vectors the gradient is zero. A new head is a subclass of
`Head` with a `forward`, and a line in `config.HEADS`."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from plan2vec.config import HEADS

NUMBERS_AT_ONCE = 2**22  # differences held while all pairs are computed: 16 MB of float32


class Head(nn.Module):
    """A distance from the first vector to the second, and what it promises."""

    symmetric: bool  # the way back is as long as the way there, for all vectors
    guarantee: Literal["metric", "quasimetric", "semimetric"]  # a semimetric promises no triangle inequality
    degree: int = 1  # twice the vectors are 2^degree the distance
    min_dim: int = 1  # fewest coordinates it can work with

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim < self.min_dim:
            raise ValueError(f"{type(self).__name__} needs vectors of at least {self.min_dim} coordinates, "
                             f"but dim is {dim}")
        self.dim = dim

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """[..., dim], [..., dim] -> [...]: from each first vector to its second."""
        raise NotImplementedError

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """[n, dim], [m, dim] -> [n, m]: from every first vector to every second."""
        blocks = [self(rows[:, None], second) for rows in _blocks(first, second)]
        return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


class LpHead(Head):
    """The l^p distance, a metric; norm_order p from 1 to math.inf. The paper's head, and the one for 2-d maps."""

    symmetric, guarantee = True, "metric"

    def __init__(self, dim: int, norm_order: float = 2.0) -> None:
        super().__init__(dim)
        if not norm_order >= 1:
            raise ValueError("norm_order must be at least 1 (below it the triangle inequality fails), "
                             f"but is {norm_order}")
        self.norm_order = float(norm_order)
        self.needs_scaling = 2 < self.norm_order < math.inf  # else 0.001^20 would be 0 in float32

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        difference = second - first
        if not self.needs_scaling:
            return torch.linalg.vector_norm(difference, self.norm_order, dim=-1)
        largest = difference.detach().abs().amax(-1, keepdim=True)  # [..., 1]
        largest = torch.where(largest > 0, largest, 1)
        return largest.squeeze(-1) * torch.linalg.vector_norm(difference / largest, self.norm_order, dim=-1)

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """[n, dim], [m, dim] -> [n, m], not by inner products: near zero they lose half the digits."""
        if self.needs_scaling or first.is_cuda:  # torch's kernel for a GPU gives a whole block of threads to every pair
            return super().pairwise(first, second)
        return torch.cdist(first, second, self.norm_order, compute_mode="donot_use_mm_for_euclid_dist")


class MaxReluHead(Head):
    """The largest rise of any coordinate from first to second: going up costs, going down is free. A pseudo
    quasimetric: the distance from a to b is zero wherever b is nowhere above a. Every quasimetric on n points fits
    exactly into n coordinates: give point x the coordinates d(x_1, x), ..., d(x_n, x)."""

    symmetric, guarantee = False, "quasimetric"

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return (second - first).amax(-1).relu()

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """[n, dim], [m, dim] -> [n, m]. Keeps n x m numbers for the gradient; of equal rises one gets all of it."""
        with torch.no_grad():  # [n, m] coordinates
            steepest = torch.cat([(second - rows[:, None]).argmax(-1) for rows in _blocks(first, second)])
        return (second.gather(1, steepest.T).T - first.gather(1, steepest)).relu()


class MRNHead(Head):
    """Metric residual network: l2 distance of the first dim - dim // 2 coordinates plus MaxReluHead of the rest. It is
    a pseudo quasimetric: vectors that agree in the first part can be at distance zero in one direction."""

    symmetric, guarantee = False, "quasimetric"
    min_dim = 2

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.sizes = [dim - dim // 2, dim // 2]  # coordinates of the two parts
        self.metric = LpHead(self.sizes[0])
        self.residual = MaxReluHead(self.sizes[1])

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        (a, rest_a), (b, rest_b) = first.split(self.sizes, -1), second.split(self.sizes, -1)
        return self.metric(a, b) + self.residual(rest_a, rest_b)

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        (a, rest_a), (b, rest_b) = first.split(self.sizes, -1), second.split(self.sizes, -1)
        return self.metric.pairwise(a, b) + self.residual.pairwise(rest_a, rest_b)


class SquaredHead(Head):
    """The squared l2 distance: the vectors' l2 distance is the root of the steps. Roots of path lengths fit into l2 far
    better than the lengths themselves (those of every tree do exactly), so on sparse graphs of many loops, a city's
    streets say, a greedy walk meets fewer wrong turns."""

    symmetric, guarantee = True, "semimetric"
    degree = 2

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return (second - first).square().sum(-1)

    def pairwise(self, first: Tensor, second: Tensor) -> Tensor:
        """[n, dim], [m, dim] -> [n, m] by inner products about their middle: right to 1e-6 of the largest."""
        middle = torch.cat((first, second)).detach().mean(0) if len(first) + len(second) else 0
        first, second = first - middle, second - middle
        return (first.square().sum(1)[:, None] + second.square().sum(1) - 2 * first @ second.T).relu()


def make_head(name: str, norm_order: float, dim: int) -> Head:
    """A head for vectors of `dim` coordinates; norm_order (1 to math.inf) is read by "lp" only."""
    if name not in HEADS:
        raise ValueError(f"head must be one of {', '.join(HEADS)}, but is {name!r}")
    make = globals()[HEADS[name][0]]
    return make(dim, norm_order) if make is LpHead else make(dim)


def _blocks(first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
    """Rows of `first`, few enough for their differences to all of `second` to fit in NUMBERS_AT_ONCE."""
    return first.split(max(1, NUMBERS_AT_ONCE // max(1, second.numel())))
