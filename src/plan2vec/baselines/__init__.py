"""What the metric map is compared with: one file per baseline, which gives a `Scorer`.

A scorer is put on some frames (those of a graph, seen in training or not) and answers D between their numbers, as the
map does. So every baseline walks the same graph by the same planner. Features of the frames are computed once. Isomap
knows the frames of its own graph only, and gives D at once.

    scorer = train_contrastive(frames, sequence, "small", 8, ContrastiveConfig(), seed=0, device=device)
    distance = scorer.on(graph_frames)           # planner.Distance: (m,) frame numbers, (m,) goal numbers -> (m,)"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from plan2vec.embedding.heads import LpHead
from plan2vec.embedding.network import Embedding
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.planner import Distance

NUMBERS_AT_ONCE = 2**24  # features gathered for a block of pairs: 64 MB of float32


class Scorer(Protocol):
    def on(self, frames: np.ndarray) -> Distance:
        """D between numbers of *these* frames."""


@dataclass(frozen=True)
class VectorScorer:
    """D between the vectors that a network gives to frames: of a learned map by its head, else l2."""

    encoder: nn.Module
    device: torch.device

    def vectors(self, frames: np.ndarray) -> np.ndarray:
        return encode(self.encoder, FrameTensors(frames, self.device))

    def on(self, frames: np.ndarray) -> Distance:
        vectors = torch.from_numpy(self.vectors(frames))
        if isinstance(self.encoder, Embedding):  # on the host: searches ask many small questions
            return pair_distance(vectors, vectors, self.encoder.head)
        return l2_distance(vectors.to(self.device))


def l2_distance(vectors: Tensor) -> Distance:
    """D = |v - v'| between rows of [n, d]."""
    return pair_distance(vectors, vectors, LpHead(vectors.shape[1]))


def pair_distance(frame_features: Tensor, goal_features: Tensor, between: Callable[..., Tensor]) -> Distance:
    """D from features [n, f] of every frame, as frame and as goal; `between` maps two [m, f] to [m], block by block."""
    size = max(1, NUMBERS_AT_ONCE // frame_features.shape[1])

    @torch.no_grad()
    def distance(frames: np.ndarray, goals: np.ndarray) -> np.ndarray:
        numbers = torch.from_numpy(np.stack((frames, goals))).to(frame_features.device)  # [2, m]
        blocks = [between(frame_features[a], goal_features[b]) for a, b in numbers.split(size, dim=1)]
        return torch.cat(blocks).float().cpu().numpy()

    return distance
