"""The paper's way to train the map, for comparison: one pair of frames a sample, both encoded for it alone, 32 pairs an
update.

Its distances are given to it: shortest distances to as many goals as a fit searches from, found before its clock
starts.
"""

import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from plan2vec.bench.measuring import Options, stopwatch, wait_for
from plan2vec.config import EmbeddingConfig
from plan2vec.embedding.losses import distance_loss
from plan2vec.embedding.train import Embedding, build_embedding, mean_length
from plan2vec.learning.captured import Step
from plan2vec.learning.frame_tensors import Array, FrameTensors, on_device
from plan2vec.learning.random_streams import rng_at
from plan2vec.learning.training import Journal, train
from plan2vec.search.gpu_search import distances_from_on

PAIRS_PER_UPDATE, LEARNING_RATE = 32, 3e-4  # the paper's batch; the rate of `--preset paper`
NUM_CHECKS = 20  # times that the error is measured while it trains
NUM_CHECKED = 32  # sources, and frames from each, that it is measured on
PAIR_STREAM, CHECK_STREAM = 90, 91  # of random numbers


@dataclass(frozen=True)
class Trained:
    """What came of it."""

    seconds: float  # until the wanted error, or all that were allowed
    reached: bool
    error: float  # the last one measured
    num_updates: int
    ms_per_update: float


@dataclass(frozen=True)
class Mark:
    """What was measured on the way."""

    num_updates: int
    seconds: float  # of training
    error: float


class _ReachedError(Exception):
    """The wanted error, before all updates were made."""


def train_pairs(
    options: Options, frames: np.ndarray, graph: csr_array, network: str, dim: int, wanted: float, limit: float
) -> Trained:
    """Train until the error is `wanted`, or for about `limit` seconds. Measuring the error is not timed."""
    torch.manual_seed(options.seed)
    embedding = build_embedding(frames, network, dim, "lp", 2.0).to(options.device)
    embedding.scale.fill_(mean_length(graph, options.seed, options.device))
    images = FrameTensors(frames, options.device)
    goals = rng_at(options.seed, PAIR_STREAM).choice(
        len(frames), min(EmbeddingConfig().goals_per_round * 2, len(frames)), replace=False
    )
    targets, unit = distances_from_on(options.device, graph, goals), float(embedding.scale)
    check = Check(options, embedding, images, graph)
    marks: list[Mark] = []
    clock = [0.0, time.perf_counter()]

    def draw(update: int) -> tuple[Array, ...]:
        if update % check_every == 0 and update:
            wait_for(options.device)
            clock[0] += time.perf_counter() - clock[1]
            marks.append(Mark(update, clock[0], check.error()))
            if marks[-1].error <= wanted:
                raise _ReachedError
            embedding.train()
            clock[1] = time.perf_counter()
        rng = rng_at(options.seed, PAIR_STREAM, update)
        row, node = rng.integers(len(goals), size=PAIRS_PER_UPDATE), rng.integers(len(frames), size=PAIRS_PER_UPDATE)
        return node, goals[row], targets[row, node]

    def loss(node: Array, goal: Array, target: Array) -> Tensor:
        distance = embedding.head(embedding(images(node)), embedding(images(goal)))
        return distance_loss(distance, on_device(target, options.device), "sammon", unit)

    step, untrained, check_every = Step(draw, loss, images), deepcopy(embedding.state_dict()), 10**9
    # to capture an update takes far longer than to replay it
    tried = options.choose(1000 if options.device.type == "cuda" else 10, 2)
    # libraries choose their algorithms, which is not timed
    train(embedding, step, 2, LEARNING_RATE, "pairs", Journal())
    with stopwatch(options.device) as watch:
        train(embedding, step, tried, LEARNING_RATE, "pairs", Journal())
    embedding.load_state_dict(untrained)
    num_updates = max(NUM_CHECKS, int(limit / watch.seconds * tried))
    check_every = max(1, num_updates // NUM_CHECKS)
    clock[:] = [0.0, time.perf_counter()]
    with suppress(_ReachedError):
        train(embedding, step, num_updates, LEARNING_RATE, "pairs", Journal())
        wait_for(options.device)
        marks.append(Mark(num_updates, clock[0] + time.perf_counter() - clock[1], check.error()))
    last = marks[-1]
    return Trained(
        last.seconds, last.error <= wanted, last.error, last.num_updates, 1e3 * last.seconds / last.num_updates
    )


class Check:
    """The mean relative error on the same pairs every time."""

    def __init__(self, options: Options, embedding: Embedding, images: FrameTensors, graph: csr_array):
        rng = rng_at(options.seed, CHECK_STREAM)
        self.embedding, self.images = embedding, images
        self.sources = rng.choice(len(images), min(NUM_CHECKED, len(images)), replace=False)
        self.ends = rng.integers(len(images), size=(len(self.sources), NUM_CHECKED))
        lengths = distances_from_on(options.device, graph, self.sources)
        self.exact = np.take_along_axis(lengths, self.ends, axis=1)

    @torch.no_grad()
    def error(self) -> float:
        self.embedding.eval()
        first, second = self.embedding(self.images(self.sources)), self.embedding(self.images(self.ends.ravel()))
        learned = self.embedding.head(first[:, None], second.unflatten(0, self.ends.shape)).cpu().numpy()
        known = np.isfinite(self.exact) & (self.exact > 0)
        return float((np.abs(learned - self.exact)[known] / self.exact[known]).mean())
