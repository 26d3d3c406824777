"""How far learned distances are from the lengths of paths: what the embedding is trained to make small."""

import torch
from torch import Tensor

BEYOND = 3.0  # steps of error from where on Huber's loss grows no faster than the error


def distance_loss(distance: Tensor, target: Tensor, kind: str, mean: float) -> Tensor:
    """Mean error over pairs with a path; errors are taken over at least one step.

    | kind     | of an error e of a path                | in training                                                |
    |----------|----------------------------------------|------------------------------------------------------------|
    | relative | abs(e) / path                          | never fails, forgives the few large errors that trap walks |
    | sammon   | e^2 / path                             | punishes them; one update of a squared head can undo a map |
    | huber    | e^2 / path, linear beyond 3 steps of e | punishes them, and no single update can do much harm       |
    | slope    | as huber, and `slope_loss` beside it   | neighbours keep their order: for worlds of many rooms      |
    | absolute | abs(e) / mean path                     | near and far alike                                         |
    """
    known = target < torch.inf
    path = torch.where(known, target, 0)
    error = (distance - path).abs() * known
    if kind in ("sammon", "huber", "slope"):
        inner = error if kind == "sammon" else error.clamp(max=BEYOND)
        error = inner * (2 * error - inner) / mean  # over the mean path, so that losses of all kinds are of one size
    error = error / (mean if kind == "absolute" else path.clamp(min=1))
    return error.sum() / known.sum().clamp(min=1)


def slope_loss(distance: Tensor, target: Tensor, mean: float) -> Tensor:
    """Error of how D [nodes, goals] changes over an edge, over the mean path: what traps a walk that has far to go is a
    neighbour that is nearer and seems farther. The last half of the nodes are neighbours of the first half.
    """
    half = len(distance) // 2
    known = target < torch.inf
    error = distance - torch.where(known, target, 0)
    both = known[:half] & known[len(known) - half :]
    change = (error[:half] - error[len(error) - half :]).abs() * both
    return change.sum() / both.sum().clamp(min=1) / mean
