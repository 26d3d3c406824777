"""How long a fit will take and how much memory it needs, from a few timed updates before it starts."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from plan2vec.config import Config, EmbeddingConfig
from plan2vec.data import Sequences
from plan2vec.embedding.value_iteration import Walks
from plan2vec.graph.neighbors import TILE
from plan2vec.learning.encoders import make_encoder
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.local_metric import build_local_metric, last_updates
from plan2vec.search.shortest_paths import SECONDS_PER_EDGE

BASE_BYTES = 5e8  # Python, torch and their libraries


@dataclass(frozen=True)
class Estimate:
    seconds: float
    bytes: float

    def __str__(self) -> str:
        time_words = f"{self.seconds:.0f} s" if self.seconds < 90 else f"{self.seconds / 60:.1f} minutes"
        return f"about {time_words} and {self.bytes / 1e9:.1f} GB of memory"


def estimate_fit(sequences: Sequences, config: Config, device: torch.device) -> Estimate:
    """Updates x the time of one forward and backward pass of each stage's batch, and the search between them."""
    frames, n = sequences.frames, sequences.num_frames
    images = FrameTensors(frames, device)
    metric = build_local_metric(frames[:64], config.encoder, config.local_metric).to(device)
    embedding = make_encoder(config.encoder, frames[:64], config.dim).to(device)
    local, block = config.local_metric, config.embedding
    num_local = local.num_updates + last_updates(local).num_updates
    seconds = num_local * _time_update(lambda x: metric.embed(x), images, 2 * local.batch_size)
    if local.architecture == "stacked":
        seconds += num_local * _time_update(
            lambda x: metric(x, x), images, round((2 + local.far_weight) * local.batch_size)
        )
    num_edges = n * min(config.closures.max_neighbors, n)
    seconds += _time_tiles(n, local.dim, device)
    if config.variant == "value-iteration":
        seconds += _time_walks(config.value_iteration.num_updates, Walks(), embedding, images)
    else:
        seconds += block.num_updates * _time_update(embedding, images, block.goals_per_update + block.nodes_per_update)
        seconds += search_seconds(block, num_edges, device)
    memory = BASE_BYTES + frames.nbytes + 3 * 4 * TILE * n + 4 * n * block.goals_per_round + 40 * num_edges
    return Estimate(seconds, memory)


def search_seconds(block: EmbeddingConfig, num_edges: int, device: torch.device) -> float:
    """Of Dijkstra on one core; what a GPU takes (`plan2vec bench shortest-distances`) is too little to count."""
    return 0.0 if device.type == "cuda" else block.num_rounds * block.goals_per_round * num_edges * SECONDS_PER_EDGE


def _time_walks(num_updates: int, walks: Walks, embedding: nn.Module, images: FrameTensors) -> float:
    """Seconds of value iteration: its updates, and the encoding of all frames per round."""
    size = walks.rollouts_per_update * (walks.hops + 2)
    update = _time_update(embedding, images, size)
    return num_updates * update * 4 / 3 + walks.num_rounds * len(images) / size * update / 3


def _time_update(network, images: FrameTensors, size: int, repeats: int = 3) -> float:
    """Seconds of one forward and backward pass, the best of a few."""
    numbers = np.arange(size) % len(images)
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        loss = network(images(numbers)).square().mean()
        loss.backward()
        loss.item()
        times.append(time.perf_counter() - began)
    return min(times)


def _time_tiles(n: int, dim: int, device: torch.device) -> float:
    """Seconds of the all-pairs distances: one tile, timed, times their number."""
    rows = min(TILE, n)
    points = torch.randn(rows, dim, device=device)
    began = time.perf_counter()
    float((points @ points.T).clamp_(min=0).sqrt_().sum())
    return (time.perf_counter() - began) * 3 * (n / rows) ** 2
