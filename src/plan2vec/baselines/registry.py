"""What walks are led by: a learned map, or one of the baselines, on any frames."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from plan2vec.baselines import Judge, pair_distance
from plan2vec.baselines.contrastive import ContrastiveConfig, train_contrastive
from plan2vec.baselines.pixels import train_pixels
from plan2vec.baselines.random import train_random
from plan2vec.baselines.sptm import train_sptm
from plan2vec.baselines.vae import VAEConfig, train_vae
from plan2vec.data import Sequences
from plan2vec.embedding.network import Embedding
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.local_metric import LocalMetric
from plan2vec.planner import Distance
from plan2vec.results.settings import Size


@dataclass(frozen=True)
class Map:
    """A learned embedding as a judge of distances, on the frames it was fitted to or on others."""

    embedding: Embedding
    device: torch.device

    def vectors(self, frames: np.ndarray) -> np.ndarray:
        return float(self.embedding.scale) * encode(self.embedding.encoder, FrameTensors(frames, self.device))

    def on(self, frames: np.ndarray) -> Distance:
        vectors = torch.from_numpy(self.vectors(frames))  # on the host: searches ask many small questions
        return pair_distance(vectors, vectors, self.embedding.head)


def baseline_trainers(
    recordings: Sequences, metric: Callable[[], LocalMetric], encoder: str, size: Size, seed: int, device: torch.device
) -> dict[str, Callable[[], Judge]]:
    """Baselines by name, each trained on the recordings when called; the VAE 2-d is the paper's."""
    frames, sequence, shorten = recordings.frames, recordings.sequence, size.shorten
    return {
        "SPTM": lambda: train_sptm(metric(), device),
        "VAE 2-d": lambda: train_vae(frames, "resnet18", 2, shorten(VAEConfig()), seed, device),
        "VAE 8-d": lambda: train_vae(frames, encoder, 8, shorten(VAEConfig()), seed, device),
        "contrastive": lambda: train_contrastive(
            frames, sequence, encoder, 8, shorten(ContrastiveConfig()), seed, device
        ), "random network": lambda: train_random(frames, encoder, 8, seed, device),
        "pixels": lambda: train_pixels(device)
    }
