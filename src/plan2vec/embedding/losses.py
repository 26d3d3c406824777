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
    """
    known = target < torch.inf
    path = torch.where(known, target, 0)
    error = (distance - path).abs() * known
    if kind in ("sammon", "huber"):
        inner = error if kind == "sammon" else error.clamp(max=BEYOND)
        error = inner * (2 * error - inner) / mean  # over the mean path, so that losses of all kinds are of one size
    error = error / path.clamp(min=1)
    return error.sum() / known.sum().clamp(min=1)
