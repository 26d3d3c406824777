"""Time-contrastive embedding (InfoNCE): pulls successive frames together, pushes all others of the batch apart.

The strongest simple competitor: no graph, no search. The similarity is -|z - z'|^2 / temperature, so l2 between vectors
is what was trained. Its optimum is the log-density of where the recording goes next. For a random walk that is the
squared distance within a sequence's reach; beyond it, only the network's smoothness orders the frames."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plan2vec.baselines import Scorer, VectorScorer
from plan2vec.data import frames_left, transitions
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import make_encoder
from plan2vec.learning.frame_tensors import Array, FrameTensors
from plan2vec.learning.gradient_loop import Journal, train
from plan2vec.learning.random_streams import Stream, rng_at


@dataclass(frozen=True)
class ContrastiveConfig:
    num_updates: int = 800  # gradient updates; far more of them tell recordings apart instead of places
    batch_size: int = 512  # positive pairs per update; every other frame of the batch is a negative
    learning_rate: float = 1e-3  # Adam, at its highest
    mean_gap: float = 4.0  # steps to a positive on average: geometric, cut off at the sequence's end
    temperature: float = 1.0  # squared distance at which a similarity falls by a factor e


def train_contrastive(frames: np.ndarray, sequence: np.ndarray, encoder: str, dim: int, config: ContrastiveConfig,
                      seed: int, device: torch.device, journal: Journal = Journal()) -> Scorer:
    torch.manual_seed(seed)
    network = make_encoder(encoder, frames, dim).to(device)
    images, futures = FrameTensors(frames, device), Futures(sequence)

    def draw(update: int) -> tuple[Array, ...]:
        rng = rng_at(seed, Stream.CONTRASTIVE, update)
        return (np.concatenate(futures.draw(config.batch_size, config.mean_gap, rng)),)

    def loss(numbers: Array) -> Tensor:
        a, b = network(images(numbers)).chunk(2)  # vectors of frames, and of their partners: each must find its own
        scores = -torch.cdist(a, b).square() / config.temperature  # [b, b]
        same = torch.arange(len(a), device=scores.device)
        return (F.cross_entropy(scores, same) + F.cross_entropy(scores.T, same)) / 2

    train(network, Step(draw, loss, images), config.num_updates, config.learning_rate, "contrastive", journal)
    return VectorScorer(network, device)


class Futures:
    def __init__(self, sequence: np.ndarray):
        self.starts = transitions(sequence)  # frames that have a later one
        self.num_left = frames_left(sequence)[self.starts]  # frames that follow, at least 1

    def draw(self, num: int, mean_gap: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(num,), (num,): frames, and a later one of the same sequence each; gaps have geometric chance."""
        place, stay = rng.integers(len(self.starts), size=num), 1 - 1 / mean_gap
        covered = 1 - stay ** self.num_left[place]  # chance that an uncut gap ends inside the sequence
        gap = 1 + np.floor(np.log1p(-rng.random(num) * covered) / np.log(stay)) if stay > 0 else np.ones(num)
        gap = np.minimum(gap, self.num_left[place]).astype(np.int64)
        return self.starts[place], self.starts[place] + gap
