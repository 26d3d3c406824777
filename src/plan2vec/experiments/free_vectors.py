"""Vectors of the nodes of a graph that no network has to find in their pictures: what a head and a loss can do at best.
"""

import math

import numpy as np
import torch
from torch import Tensor

from plan2vec.embedding.classical_scaling import landmark_vectors
from plan2vec.embedding.heads import Head
from plan2vec.embedding.losses import distance_loss

LEARNING_RATE = 0.02  # Adam, at first; falls to 0


def fit_free(lengths: np.ndarray, head: Head, loss: str, num_updates: int) -> Tensor:
    """[n, dim] vectors whose distances are the path lengths (n, n). Start: classical scaling; every update sees all."""
    target, mean = torch.from_numpy(lengths), float(lengths.mean())
    vectors = torch.from_numpy(
        landmark_vectors(lengths, np.arange(len(lengths)), head.dim, head.degree)
    ).requires_grad_()
    optimizer = torch.optim.Adam([vectors], lr=LEARNING_RATE)
    for update in range(num_updates):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * update / num_updates))
        optimizer.zero_grad()
        distance_loss(head.pairwise(vectors, vectors), target, loss, mean).backward()
        optimizer.step()
    return vectors.detach()
