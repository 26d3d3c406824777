"""How long a fit will take and how much memory it needs, from a few timed updates before it starts."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from plan2vec import local_metric
from plan2vec.config import Config, EmbeddingConfig
from plan2vec.data import Sequences
from plan2vec.embedding.arrivals import phases_for
from plan2vec.embedding.network import build_embedding, taught_part
from plan2vec.embedding.train import FIRST_PHASE
from plan2vec.embedding.value_iteration import Walks
from plan2vec.graph.neighbors import TILE, numbers_at_once
from plan2vec.learning.augmentation import augment, augmentation_of, draw_changes
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.frozen import FROZEN, network_input
from plan2vec.learning.gradient_loop import duration
from plan2vec.learning.processes import in_shares
from plan2vec.local_metric import build_local_metric, pair_distances
from plan2vec.readers.refusals import available_memory
from plan2vec.search.shortest_paths import SECONDS_PER_EDGE

LONG = 300.0  # seconds from which on faster ways are named
WORTH = 0.75  # share of the time that a faster way takes at most
EDGE_BYTES = 150  # that the tests of a candidate for an edge take, measured on 20,000 frames (tests/memory_table.py)
ENOUGH = 2.0  # seconds after which an update is not timed again


@dataclass(frozen=True)
class Estimate:
    seconds: float
    bytes: float
    faster: tuple[str, ...] = ()  # options and how long a fit with them takes
    further: float = 0.0  # seconds more, at the most, where the map is hard to learn

    def __str__(self) -> str:
        longest = duration(self.seconds + self.further)
        most = f", up to {longest} where the map is hard to learn," if self.further else ""
        return f"about {duration(self.seconds)}{most} and {self.bytes / 1e9:.1f} GB of memory"


class Seconds(NamedTuple):
    """Of the parts of a fit, by what they grow with."""

    updates: float
    pairs: float  # of frames that are compared
    search: float  # from goals over all edges; with the features of a frozen encoder
    further: float = 0.0  # of updates that are made only where the first ones are not enough

    @property
    def total(self) -> float:
        return self.updates + self.pairs + self.search


def estimate_fit(sequences: Sequences, config: Config, device: torch.device) -> Estimate:
    """From the time of one forward and backward pass of each stage's batch, and the memory that they took."""
    seconds = measure(sequences.frames, sequences.num_frames, config, device)
    faster = faster_ways(sequences, config, device, seconds) if seconds.total > LONG else ()
    return Estimate(seconds.total, needed_bytes(sequences, config, device), faster, seconds.further)


def measure(frames: np.ndarray, n: int, config: Config, device: torch.device) -> Seconds:
    """Updates x the time of one, and the search between them, for n frames like these."""
    began = time.perf_counter()
    some = network_input(frames[:64], config.encoder, device)
    search = (time.perf_counter() - began) * n / len(some) if config.encoder == FROZEN else 0.0  # its features
    images = some if config.encoder == FROZEN else FrameTensors(frames, device)
    metric = build_local_metric(frames[:64], config.encoder, config.local_metric).to(device)
    embedding, seen = taught_part(build_embedding(frames[:64], config).to(device), some)
    local, block = config.local_metric, config.embedding
    num_first = local.num_updates or local_metric.FEW_UPDATES
    num_local, num_map = num_first + num_first // 4, block.num_updates or FIRST_PHASE
    further = 0.0 if local.num_updates or config.view == "moving" else local_metric.MANY_UPDATES / num_first - 1
    at_once, change, size = images.at_once_in_training(metric), augmentation_of(local), 2 * local.batch_size
    drawn = draw_changes(change, images, size, np.random.default_rng(0))
    embed = lambda batch: metric.embed(augment(batch, change, drawn, slice(len(batch))))  # noqa: E731
    updates = num_local * _time_update(embed, images, size, at_once)
    if local.architecture != "siamese":
        num_pairs = round((2 + local.far_weight) * local.batch_size)
        updates += num_local * _time_update(lambda x: metric(x, x), images, num_pairs, None)
    at_once, further = seen.at_once_in_training(embedding), further * updates
    if config.variant == "value-iteration":  # its updates, and the encoding of all frames per round
        walks = Walks()
        size = walks.rollouts_per_update * (walks.hops + 2)
        update = _time_update(embedding, seen, size, at_once)
        updates += num_map * update * 4 / 3 + walks.num_rounds * n / size * update / 3
    else:
        update = _time_update(embedding, seen, min(n, block.goals_per_update + block.nodes_per_update), at_once)
        updates += num_map * update
        search += search_seconds(block, num_map, n * min(config.closures.max_neighbors, n), device)
        further += 0.0 if block.num_updates else FIRST_PHASE * (2 ** phases_for(seen) - 2) * update
    # the largest batch that is not learned from, so that its memory is measured too
    num = local_metric.NUM_JUDGED // max(1, local_metric.NUM_JUDGED // min(local_metric.PAIRS_AT_ONCE, images.at_once))
    numbers = np.arange(num) % len(images)
    pair_distances(metric, images, numbers, numbers)
    rows = min(TILE, n)  # all-pairs distances: one tile, timed, times their number
    points = torch.randn(rows, local.dim, device=device)
    began = time.perf_counter()
    float((points @ points.T).clamp_(min=0).sqrt_().sum())
    return Seconds(updates, (time.perf_counter() - began) * 3 * (n / rows) ** 2, search, further)


def search_seconds(block: EmbeddingConfig, num_updates: int, num_edges: int, device: torch.device) -> float:
    """Of Dijkstra on one core; what a GPU takes is too little to count."""
    num_rounds = -(-num_updates // block.updates_per_round)
    return 0.0 if device.type == "cuda" else num_rounds * block.goals_per_round * num_edges * SECONDS_PER_EDGE


def faster_ways(sequences: Sequences, config: Config, device: torch.device, now: Seconds) -> tuple[str, ...]:
    """Options that save a good part of the time, the fastest first."""
    n, frames = sequences.num_frames, sequences.frames[:1024]
    ways = {"--every 2": now.updates + now.pairs / 4 + now.search / 2}
    if frames.ndim == 4 and (side := min(frames.shape[1:3]) // 2) >= 32:
        ways[f"--size {side}"] = measure(np.ascontiguousarray(frames[:, ::2, ::2]), n, config, device).total
    saving = sorted((seconds, way) for way, seconds in ways.items() if seconds < WORTH * now.total)
    return tuple(f"{way}: about {duration(seconds)}" for seconds, way in saving)


def needed_bytes(sequences: Sequences, config: Config, device: torch.device) -> float:
    """The most a fit will hold, after its updates were timed: theirs, or the graph's; and the run's memory map."""
    n = sequences.num_frames
    graph = 3 * 4 * min(TILE * n, numbers_at_once(device)) + 4 * n * config.embedding.goals_per_round
    graph += EDGE_BYTES * n * min(config.closures.max_neighbors, n)
    return max(memory("VmHWM"), memory("VmRSS") + graph) + sequences.frames.nbytes


def refuse_too_much(estimate: Estimate) -> None:
    if estimate.bytes > (there := available_memory() + memory("VmRSS")):
        raise ValueError(f"the fit needs about {estimate.bytes / 1e9:.1f} GB of memory, but {there / 1e9:.1f} GB are "
                         "available; give a smaller --size, --every 2 or fewer --closures.max-neighbors")


def memory(name: str) -> float:
    """Bytes that Linux keeps count of for this process, by its own name (VmHWM: the peak); elsewhere the peak."""
    try:
        return 1024 * int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0])
    except (OSError, IndexError):
        import resource  # macOS, which counts bytes

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _time_update(network: Callable[[Tensor], Tensor], images: FrameTensors, size: int, at_once: int | None) -> float:
    """Seconds of one forward and backward pass, the best of a few; memory stays bounded as in training."""
    numbers = np.arange(size) % len(images)
    times: list[float] = []
    while len(times) < 3 and sum(times) < ENOUGH:
        began = time.perf_counter()
        loss = in_shares(size, lambda part: network(images(numbers[part])), at_once).square().mean()
        loss.backward()
        loss.item()
        times.append(time.perf_counter() - began)
    return min(times)
