"""How long a fit will take and how much memory it needs, from a few timed updates before it starts."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from plan2vec import local_metric
from plan2vec.config import DEFAULTS, QUICK, Config, EmbeddingConfig, setting, with_settings
from plan2vec.data import Sequences
from plan2vec.embedding.network import build_embedding, taught_part
from plan2vec.embedding.value_iteration import Walks
from plan2vec.graph.neighbors import TILE, numbers_at_once
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.processes import in_shares
from plan2vec.learning.training import duration
from plan2vec.local_metric import build_local_metric, last_updates, pair_distances
from plan2vec.readers.messages import available_memory
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

    def __str__(self) -> str:
        return f"about {duration(self.seconds)} and {self.bytes / 1e9:.1f} GB of memory"


@dataclass(frozen=True)
class Seconds:
    """Of the parts of a fit, by what they grow with."""

    updates: float
    pairs: float  # of frames that are compared
    search: float  # from goals over all edges

    @property
    def total(self) -> float:
        return self.updates + self.pairs + self.search


def estimate_fit(sequences: Sequences, config: Config, device: torch.device) -> Estimate:
    """From the time of one forward and backward pass of each stage's batch, and the memory that they took."""
    seconds = measure(sequences.frames, sequences.num_frames, config, device)
    faster = faster_ways(sequences, config, device, seconds) if seconds.total > LONG else ()
    return Estimate(seconds.total, needed_bytes(sequences, config, device), faster)


def measure(frames: np.ndarray, n: int, config: Config, device: torch.device) -> Seconds:
    """Updates x the time of one, and the search between them, for n frames like these."""
    images = FrameTensors(frames, device)
    metric = build_local_metric(frames[:64], config.encoder, config.local_metric).to(device)
    embedding, seen = taught_part(build_embedding(frames[:64], config).to(device), FrameTensors(frames[:64], device))
    local, block = config.local_metric, config.embedding
    num_local = local.num_updates + last_updates(local).num_updates
    at_once = images.at_once_in_training(metric)
    updates, search = num_local * _time_update(metric.embed, images, 2 * local.batch_size, at_once), 0.0
    if local.architecture == "stacked":
        num_pairs = round((2 + local.far_weight) * local.batch_size)
        updates += num_local * _time_update(lambda x: metric(x, x), images, num_pairs, None)
    if config.variant == "value-iteration":
        updates += _time_walks(config.value_iteration.num_updates, Walks(), embedding, seen, n)
    else:
        num_rows = min(n, block.goals_per_update + block.nodes_per_update)
        at_once = seen.at_once_in_training(embedding)
        updates += block.num_updates * _time_update(embedding, seen, num_rows, at_once)
        search = search_seconds(block, num_edges(n, config), device)
    # the largest batch that is not learned from, so that its memory is measured too
    num = local_metric.NUM_JUDGED // max(1, local_metric.NUM_JUDGED // min(local_metric.PAIRS_AT_ONCE, images.at_once))
    numbers = np.arange(num) % len(images)
    pair_distances(metric, images, numbers, numbers)
    return Seconds(updates, _time_tiles(n, local.dim, device), search)


def num_edges(n: int, config: Config) -> int:
    return n * min(config.closures.max_neighbors, n)


def search_seconds(block: EmbeddingConfig, num_edges: int, device: torch.device) -> float:
    """Of Dijkstra on one core; what a GPU takes (`plan2vec bench shortest-distances`) is too little to count."""
    return 0.0 if device.type == "cuda" else block.num_rounds * block.goals_per_round * num_edges * SECONDS_PER_EDGE


def faster_ways(sequences: Sequences, config: Config, device: torch.device, now: Seconds) -> tuple[str, ...]:
    """At most three options that save a good part of the time, the fastest first."""
    n, frames, local, block = sequences.num_frames, sequences.frames[:1024], config.local_metric, config.embedding
    ways = {"--every 2": now.updates + now.pairs / 4 + now.search / 2}
    if config.variant == "amortized":
        few = f"--local-metric.num-updates {local.num_updates // 2} --embedding.num-updates {block.num_updates // 2}"
        ways[few] = now.updates / 2 + now.pairs + now.search
    if config.view == "fixed" and all(setting(config, name) == DEFAULTS[name] for name in QUICK):
        ways["--quick"] = measure(frames, n, with_settings(config, QUICK), device).total
    if frames.ndim == 4 and (side := min(frames.shape[1:3]) // 2) >= 32:
        ways[f"--size {side}"] = measure(np.ascontiguousarray(frames[:, ::2, ::2]), n, config, device).total
    saving = sorted((seconds, way) for way, seconds in ways.items() if seconds < WORTH * now.total)
    return tuple(f"{way}: about {duration(seconds)}" for seconds, way in saving[:3])


def needed_bytes(sequences: Sequences, config: Config, device: torch.device) -> float:
    """The most a fit will hold, after its updates were timed: theirs, or the graph's; and the run's memory map."""
    n = sequences.num_frames
    graph = 3 * 4 * min(TILE * n, numbers_at_once(device)) + 4 * n * config.embedding.goals_per_round
    graph += EDGE_BYTES * num_edges(n, config)
    return max(peak_bytes(), resident_bytes() + graph) + sequences.frames.nbytes


def refuse_too_much(estimate: Estimate) -> None:
    there = available_memory() + resident_bytes()
    if estimate.bytes > there:
        raise ValueError(f"the fit needs about {estimate.bytes / 1e9:.1f} GB of memory, but {there / 1e9:.1f} GB are "
                         "available; give a smaller --size, --every 2 or fewer --closures.max-neighbors")


def peak_bytes() -> float:
    found = _kilobytes("VmHWM")
    if found is not None:
        return 1024 * found
    import resource  # macOS, which counts bytes

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def resident_bytes() -> float:
    """The memory that this process holds now, or has held where that is not known."""
    found = _kilobytes("VmRSS")
    return peak_bytes() if found is None else 1024 * found


def _kilobytes(name: str) -> int | None:
    """A number that Linux keeps of this process; None elsewhere."""
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


def _time_walks(num_updates: int, walks: Walks, embedding: nn.Module, images: FrameTensors, n: int) -> float:
    """Seconds of value iteration: its updates, and the encoding of all n frames per round."""
    size = walks.rollouts_per_update * (walks.hops + 2)
    update = _time_update(embedding, images, size, images.at_once_in_training(embedding))
    return num_updates * update * 4 / 3 + walks.num_rounds * n / size * update / 3


def _time_update(network: Callable[[Tensor], Tensor], images: FrameTensors, size: int, at_once: int | None,
                 repeats: int = 3) -> float:
    """Seconds of one forward and backward pass, the best of a few; memory stays bounded as in training."""
    numbers = np.arange(size) % len(images)
    times: list[float] = []
    while len(times) < repeats and sum(times) < ENOUGH:
        began = time.perf_counter()
        loss = in_shares(size, lambda part: network(images(numbers[part])), at_once).square().mean()
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
