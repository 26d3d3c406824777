"""The baselines by name, and those that learn nothing of their own: pixels, untrained network, local metric (SPTM)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from plan2vec.baselines import Scorer, VectorScorer, l2_distance
from plan2vec.baselines.contrastive import ContrastiveConfig, train_contrastive
from plan2vec.baselines.vae import VAEConfig, train_vae
from plan2vec.data import Sequences
from plan2vec.learning.encoders import make_encoder
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.local_metric import LocalMetric, SiameseMetric, local_vectors, pair_distances
from plan2vec.planner import Distance


def random_scorer(frames: np.ndarray, encoder: str, dim: int, seed: int, device: torch.device) -> Scorer:
    """What the encoder's shape alone knows: a random projection of the pixels. The paper's "Random" row is about what
    independent random scores give, one per frame and goal (3-5 %); this walks better, being continuous."""
    torch.manual_seed(seed)
    return VectorScorer(make_encoder(encoder, frames, dim).to(device), device)


@dataclass(frozen=True)
class MetricScorer:
    """The local metric as distance to the goal, in steps (Savinov et al., 2018; the paper's "SPTM (1-step)"). Beyond
    about two steps it only says "far", so a greedy walker is blind until it is near."""

    metric: LocalMetric  # a Siamese one has vectors, a stacked one scores every pair anew
    device: torch.device

    def on(self, frames: np.ndarray) -> Distance:
        images = FrameTensors(frames, self.device)
        if isinstance(self.metric, SiameseMetric):
            return l2_distance(torch.from_numpy(local_vectors(self.metric, images)).to(self.device))
        return lambda first, second: pair_distances(self.metric, images, first, second)


def baseline_trainers(recordings: Sequences, metric: Callable[[], LocalMetric], encoder: str, dim: int,
                      shorten: Callable[..., Any], seed: int, device: torch.device) -> dict[str, Callable[[], Scorer]]:
    """Baselines, each trained on the recordings when called; `shorten` cuts a stage's updates; VAE 2-d is the paper's.
    *pixels* is l2 in 0..1: beyond a moving block's own size, where it overlaps its goal, all distances are alike."""
    frames, sequence, nce = recordings.frames, recordings.sequence, ContrastiveConfig()
    return {"SPTM": lambda: MetricScorer(metric(), device), "pixels": lambda: VectorScorer(nn.Flatten(), device),
            "VAE 2-d": lambda: train_vae(frames, "resnet18", 2, shorten(VAEConfig()), seed, device),
            f"VAE {dim}-d": lambda: train_vae(frames, encoder, dim, shorten(VAEConfig()), seed, device),
            "contrastive": lambda: train_contrastive(frames, sequence, encoder, dim, shorten(nce), seed, device),
            "random network": lambda: random_scorer(frames, encoder, dim, seed, device)}
