"""Losses of the local metric: what the distances of near and far pairs should be."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def far_distance_loss(distance: Tensor, far: Tensor, max_gap: int, loss: str) -> Tensor:
    """Far pairs lie at 2 x max_gap (regression, the paper's) or beyond it (hinge, the authors' later choice)."""
    missing = 2.0 * max_gap - distance
    if loss == "hinge":
        missing = missing.clamp(min=0)
    error = F.smooth_l1_loss(missing, torch.zeros_like(missing), reduction="none")
    return (error * far).sum() / far.sum().clamp(min=1)


class AllFarPairs(torch.autograd.Function):
    """`far_distance_loss` of all distances between vectors [n, d], where far [n, n] is symmetric. It finds loss and
    gradient together, in half as many passes over n x n numbers as torch would."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, far: Tensor, max_gap: int, loss: str) -> Tensor:
        distance, num_far = all_distances(vectors), far.sum(dtype=vectors.dtype).clamp(min=1)
        missing = 2.0 * max_gap - distance
        if loss == "hinge":
            missing.clamp_(min=0)
        pull = missing.clamp(-1, 1).mul_(far)  # by how much the loss, of a far pair, falls as the distance grows
        error = torch.dot(missing.sub_(pull, alpha=0.5).view(-1), pull.view(-1)) / num_far
        force = pull.div_(distance)  # on vectors[i] - vectors[j]
        gradient = torch.addcmul(force @ vectors, vectors, force.sum(1, keepdim=True), value=-1).mul_(2 / num_far)
        ctx.save_for_backward(gradient)
        return error

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return outer[0] * gradient, None, None, None


def nce_loss(near: Tensor, negatives: Tensor, far: Tensor) -> Tensor:
    """Equation 4 with similarity S = -d: near [b], negatives [b, k], far [b, k] says which negatives count."""
    scores = torch.cat((-near[:, None], (-negatives).masked_fill(~far, -torch.inf)), dim=1)
    return (torch.logsumexp(scores, dim=1) + near).mean()


def safe_norm(difference: Tensor) -> Tensor:
    """l2 norm over the last axis whose gradient at 0 is 0 instead of NaN."""
    return difference.square().sum(-1).clamp(min=1e-12).sqrt()


def all_distances(vectors: Tensor) -> Tensor:
    """[n, d] -> [n, n] l2 distances by one matrix product; exact enough for far pairs, which is what it is used for."""
    square = vectors.square().sum(1)
    return torch.addmm(square, vectors, vectors.T, alpha=-2).add(square[:, None]).clamp(min=1e-8).sqrt()
