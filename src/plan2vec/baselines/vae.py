"""Variational autoencoder: the mean of a frame's code as its vector, l2 between vectors (the paper's VAE row).

Images: Bernoulli likelihood per pixel (BCE) and the KL to a standard normal, both summed over a frame. Vectors: a
Gaussian likelihood of the standardized observation, whose variance is learned with the rest."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plan2vec.baselines import VectorScorer
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import make_encoder, mlp
from plan2vec.learning.frame_tensors import Array, FrameTensors, as_images, on_device
from plan2vec.learning.gradient_loop import Journal, train
from plan2vec.learning.random_streams import Stream, rng_at


@dataclass(frozen=True)
class VAEConfig:
    num_updates: int = 2000  # gradient updates
    batch_size: int = 256  # frames per update
    learning_rate: float = 1e-3  # Adam, at its highest
    beta: float = 1.0  # weight of the KL term


class Decoder(nn.Module):
    """Code [b, dim] -> image logits [b, c, h, w]: doubled four times, cut to size, added to the mean image's logits. So
    it need not learn what never changes. Without the mean image it finds small moving things late or never."""

    def __init__(self, dim: int, mean_image: Tensor):
        super().__init__()
        channels, self.height, self.width = mean_image.shape
        self.background = nn.Parameter(torch.logit(mean_image, eps=1e-3))
        self.rows, self.columns = math.ceil(self.height / 16), math.ceil(self.width / 16)
        cells = 64 * self.rows * self.columns
        self.start = nn.Sequential(nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, cells), nn.ReLU())
        layers: list[nn.Module] = []
        for wide, out in pairwise((64, 64, 32, 16, channels)):
            layers += [nn.ConvTranspose2d(wide, out, 4, stride=2, padding=1), nn.ReLU()]
        self.doubling = nn.Sequential(*layers[:-1])

    def forward(self, code: Tensor) -> Tensor:
        drawn = self.doubling(self.start(code).unflatten(1, (64, self.rows, self.columns)))
        return drawn[:, :, : self.height, : self.width] + self.background


class VAE(nn.Module):
    def __init__(self, frames: np.ndarray, encoder: str, dim: int):
        super().__init__()
        self.encoder = make_encoder(encoder, frames, 2 * dim)
        self.log_variance = nn.Parameter(torch.zeros(()))  # of vector observations
        some = torch.from_numpy(np.array(frames[:: max(1, len(frames) // 2000)]))  # at most 4,000
        self.decoder = Decoder(dim, as_images(some).mean(0)) if frames.ndim == 4 else mlp(dim, frames.shape[1])

    def forward(self, images: Tensor) -> Tensor:
        """[b, ...] -> [b, dim]: the mean of the code."""
        return self.encoder(images).chunk(2, dim=1)[0]

    def loss(self, images: Tensor, noise: Tensor, beta: float) -> Tensor:
        """Negative evidence lower bound of a frame, on average; noise [b, dim] is standard normal."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        code = mean + torch.exp(log_variance / 2) * noise
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        decoded = self.decoder(code)  # misfit: [b] negative log-likelihood of each frame, up to a constant
        if images.ndim == 4:
            misfit = F.binary_cross_entropy_with_logits(decoded, images, reduction="none").sum((1, 2, 3))
        else:
            observed = (images - self.encoder.mean) / self.encoder.deviation
            misfit = ((observed - decoded).square() / self.log_variance.exp() + self.log_variance).sum(1) / 2
        return (misfit + beta * divergence).mean()


def train_vae(frames: np.ndarray, encoder: str, dim: int, config: VAEConfig, seed: int, device: torch.device,
              journal: Journal = Journal()) -> VectorScorer:
    torch.manual_seed(seed)
    vae, images = VAE(frames, encoder, dim).to(device), FrameTensors(frames, device)

    def draw(update: int) -> tuple[Array, ...]:
        rng = rng_at(seed, Stream.VAE, update)
        noise = rng.standard_normal((config.batch_size, dim), np.float32)
        return noise, rng.integers(len(frames), size=config.batch_size)

    def loss(noise: Array, numbers: Array) -> Tensor:
        return vae.loss(images(numbers), on_device(noise, device), config.beta)

    train(vae, Step(draw, loss, images), config.num_updates, config.learning_rate, "vae", journal)
    return VectorScorer(vae, device)
