"""The metric map as a network: images to vectors, whose head distance is a number of steps."""

import numpy as np
import torch
from torch import Tensor, nn

from plan2vec.config import Config
from plan2vec.embedding.heads import Head, make_head
from plan2vec.learning.encoders import Encoder, make_encoder
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.learning.training import Journal


class Embedding(nn.Module):
    """Images -> vectors whose head distance is a number of steps."""

    scale: Tensor

    def __init__(self, encoder: Encoder, head: Head):
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.register_buffer("scale", torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        """[b, ...] -> [b, dim]; the scale keeps the network's own outputs near 1 (every head is homogeneous)."""
        return self.scale * self.encoder(images)

    def set_unit(self, steps: float) -> None:
        """Outputs of the network at distance 1 are so many steps apart."""
        self.scale.fill_(steps ** (1 / self.head.degree))

    @property
    def unit(self) -> float:
        """Steps that distance 1 between outputs of the network stands for."""
        return float(self.scale) ** self.head.degree


def build_embedding(frames: np.ndarray, config: Config) -> Embedding:
    return Embedding(make_encoder(config.encoder, frames, config.dim),
                     make_head(config.head, config.norm_order, config.dim))


def map_vectors(embedding: Embedding, images: FrameTensors, journal: Journal = Journal()) -> np.ndarray:
    """(n, dim) vectors of all frames, in steps."""
    return float(embedding.scale) * encode(embedding.encoder, images)
