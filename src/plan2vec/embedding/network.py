"""The metric map as a network: images to vectors, whose head distance is a number of steps."""

import numpy as np
import torch
from torch import Tensor, nn

from plan2vec.config import Config, head_of
from plan2vec.embedding.heads import Head, make_head
from plan2vec.learning.encoders import ENCODERS, VIEWS, Encoder, make_encoder, mlp, standardization
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.learning.frozen import FROZEN
from plan2vec.learning.gradient_loop import Journal

WIDE = 512, 3  # of an MLP from vectors to the map: numbers in a hidden layer, and such layers


class Embedding(nn.Module):
    """Images -> vectors whose head distance is a number of steps."""

    scale: Tensor

    def __init__(self, encoder: "Encoder | OnMetric", head: Head):
        super().__init__()
        self.encoder, self.head = encoder, head
        self.register_buffer("scale", torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        """[b, ...] -> [b, dim]; the scale keeps the network's own outputs near 1 (every head is homogeneous)."""
        return self.scale * self.encoder(images)

    @property
    def unit(self) -> float:
        """Steps that distance 1 between outputs of the network stands for."""
        return float(self.scale) ** self.head.degree


class OnMetric(nn.Module):
    """A small network on the vectors of a trained local metric, which know views already."""

    def __init__(self, metric: Encoder, network: Encoder):
        super().__init__()
        self.metric, self.network = metric.requires_grad_(False), network

    def forward(self, images: Tensor) -> Tensor:
        return self.network(self.metric(images))


def build_embedding(frames: np.ndarray, config: Config, metric: Encoder | None = None) -> Embedding:
    """An untrained map by encoder and head of the settings; of views or frozen features on top of the metric's."""
    head, dim = make_head(head_of(config), config.norm_order, config.dim), config.local_metric.dim
    if frames.ndim == 2 and config.encoder in ENCODERS:  # a map of places is sharper than what a local metric learns
        return Embedding(Encoder(mlp(frames.shape[1], config.dim, *WIDE), *standardization(frames)), head)
    if config.encoder != FROZEN and (config.encoder != VIEWS or frames.ndim != 4):
        return Embedding(make_encoder(config.encoder, frames, config.dim), head)
    network = Encoder(mlp(dim, config.dim, *WIDE), torch.zeros(dim), torch.ones(dim))
    return Embedding(OnMetric(metric or make_encoder(config.encoder, frames, dim), network), head)


def taught_part(embedding: Embedding, images: FrameTensors) -> tuple[Embedding, FrameTensors]:
    """What of a map learns, and what it sees: all of it and the frames, or the network on the metric's vectors."""
    if not isinstance(embedding.encoder, OnMetric):
        return embedding, images
    part = Embedding(embedding.encoder.network, embedding.head)
    part.scale = embedding.scale  # one tensor for both
    return part, FrameTensors(encode(embedding.encoder.metric, images), images.device)


def map_vectors(embedding: Embedding, images: FrameTensors, journal: Journal = Journal()) -> np.ndarray:
    """(n, dim) vectors of all frames, in steps."""
    return float(embedding.scale) * encode(embedding.encoder, images)
