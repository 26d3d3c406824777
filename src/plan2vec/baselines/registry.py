"""What walks are led by, by name: a learned map, or one of the baselines, on any frames."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from plan2vec.baselines import Scorer, pair_distance
from plan2vec.baselines.contrastive import ContrastiveConfig, train_contrastive
from plan2vec.baselines.untrained import MetricScorer, pixel_scorer, random_scorer
from plan2vec.baselines.vae import VAEConfig, train_vae
from plan2vec.data import Sequences
from plan2vec.embedding.network import Embedding, map_vectors
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.local_metric import LocalMetric
from plan2vec.planner import Distance

Trainers = dict[str, Callable[[], Scorer]]


@dataclass(frozen=True)
class Map:
    """A learned embedding as a scorer, on the frames it was fitted to or on others."""

    embedding: Embedding
    device: torch.device

    def vectors(self, frames: np.ndarray) -> np.ndarray:
        return map_vectors(self.embedding, FrameTensors(frames, self.device))

    def on(self, frames: np.ndarray) -> Distance:
        vectors = torch.from_numpy(self.vectors(frames))  # on the host: searches ask many small questions
        return pair_distance(vectors, vectors, self.embedding.head)


def baseline_trainers(recordings: Sequences, metric: Callable[[], LocalMetric], encoder: str, dim: int,
                      shorten: Callable[[Any], Any], seed: int, device: torch.device) -> Trainers:
    """Baselines by name, each trained on the recordings when called; the VAE 2-d is the paper's.

    `shorten` gives a stage's configuration with as many updates as there is time for.
    """
    frames, sequence, nce = recordings.frames, recordings.sequence, ContrastiveConfig()
    return {"SPTM": lambda: MetricScorer(metric(), device), "pixels": lambda: pixel_scorer(device),
            "VAE 2-d": lambda: train_vae(frames, "resnet18", 2, shorten(VAEConfig()), seed, device),
            f"VAE {dim}-d": lambda: train_vae(frames, encoder, dim, shorten(VAEConfig()), seed, device),
            "contrastive": lambda: train_contrastive(frames, sequence, encoder, dim, shorten(nce), seed, device),
            "random network": lambda: random_scorer(frames, encoder, dim, seed, device)}
