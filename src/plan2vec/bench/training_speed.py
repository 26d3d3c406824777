"""Benchmarks of the networks: frames to vectors, an update of each stage, and the paper's way to train the map."""

import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from plan2vec.bench.measuring import Benchmark, Options, best_of, number_table, stopwatch, wait_for
from plan2vec.config import Config, settle
from plan2vec.data import Sequences
from plan2vec.domains import rooms
from plan2vec.domains.maze import simulate
from plan2vec.embedding.losses import distance_loss
from plan2vec.embedding.network import Embedding, build_embedding
from plan2vec.embedding.targets import mean_length
from plan2vec.embedding.train import train_map
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import near_pairs
from plan2vec.learning.captured import NUM_BEFORE, Step
from plan2vec.learning.encoders import make_encoder
from plan2vec.learning.frame_tensors import Array, FrameTensors, encode, on_device
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.training import Journal, train
from plan2vec.local_metric import last_updates, train_local_metric
from plan2vec.results.rows import Groups, Row
from plan2vec.search.gpu_search import distances_from_on

ENCODERS = ("small", "medium", "resnet18")
MEDIAN_STEP, RADIUS = 0.03, 1.28  # metres; steps
PAIRS_PER_UPDATE, LEARNING_RATE = 32, 3e-4  # the paper's batch; the rate of `--preset paper`
NUM_GOALS = 512  # that pairs are drawn of: as many as a fit searches from
NUM_CHECKS = 20  # times that the error is measured while pairs are trained
NUM_CHECKED = 32  # sources, and frames from each, that it is measured on


def time_encoding(options: Options) -> Groups:
    """Claim: turning frames into vectors costs what the network's forward pass costs; reading hides behind it.

    Expected: share_of_bare (frames per second of `encode` over those of the bare forward pass) 0.8 or more

    What a fit calls is `encode`: uint8 frames in, float32 vectors out, in order. Bare: the same network, in the same
    batches of 1,024, on float images that are on the device already.
    """
    (size,) = options.choose_sizes((20_000,) if options.device.type == "cuda" else (4_000,), (400,))
    frames = rooms.simulate(size, options.seed).frames
    images = FrameTensors(frames, options.device)
    for name in options.choose(ENCODERS, ENCODERS[:1]):
        encoder = make_encoder(name, frames, 8).to(options.device).eval()
        bare = best_of(3, options.device, partial(forward, encoder, [images(numbers) for numbers in images.batches()]))
        seconds = best_of(3, options.device, partial(encode, encoder, images))
        numbers = {"frames_per_second": size / seconds, "bare_frames_per_second": size / bare,
                   "share_of_bare": bare / seconds}
        yield options.rows("rooms", name, numbers, seconds, frames=size)


@torch.no_grad()
def forward(encoder: nn.Module, batches: list[Tensor]) -> None:
    for images in batches:
        encoder(images)


def time_metric_updates(options: Options) -> Groups:
    """Claim: an update of the local metric takes little more than the bare network, forth and back, at the same batch.

    Expected: ratio at most 1.3 on a GPU

    An update: draw 256 recorded steps, encode their 512 frames, all 512 x 512 distances, the loss, its gradient, Adam.
    Measured as the slope of a training's time in the number of its updates: what happens once does not count. Bare: the
    same encoder on 512 images, a mean square as loss, no optimizer; on a GPU captured and replayed as an update is.
    """
    sequences = c_maze(options)
    config = fixed_view(options, sequences)

    def make_updates(num_updates: int) -> int:
        stage = replace(config.local_metric, num_updates=num_updates)
        images = FrameTensors(sequences.frames, options.device)
        train_local_metric(sequences, replace(config, local_metric=stage), images)
        return num_updates + last_updates(stage).num_updates

    network = make_encoder(config.encoder, sequences.frames, config.local_metric.dim)
    yield compare(options, sequences.frames, network, 2 * config.local_metric.batch_size, make_updates)


def time_map_updates(options: Options) -> Groups:
    """Claim: an update of the embedding takes little more than the bare network, forth and back, at the same batch.

    Expected: ratio at most 1.3 on a GPU

    An update: draw 128 goals and 256 nodes, encode their 384 frames, all 128 x 256 distances against the shortest
    paths, the loss, its gradient, Adam. Measured and compared as an update of the local metric; the searches are in
    `bench shortest-distances`. The graph joins true positions.
    """
    sequences = c_maze(options)
    config = fixed_view(options, sequences)
    assert sequences.position is not None
    pairs = near_pairs((sequences.position / MEDIAN_STEP).astype(np.float32), RADIUS, 200, torch.device("cpu"))
    pairs = pairs.select(pairs.second - pairs.first > 1)
    graph = build_graph(sequences.sequence, pairs, None, False, np.ones(sequences.num_frames, bool))

    def make_updates(num_updates: int) -> int:
        stage = replace(config.embedding, num_updates=num_updates)
        train_map(FrameTensors(sequences.frames, options.device), graph, replace(config, embedding=stage))
        return num_updates

    network = make_encoder(config.encoder, sequences.frames, config.dim)
    batch = config.embedding.goals_per_update + config.embedding.nodes_per_update
    yield compare(options, sequences.frames, network, batch, make_updates)


def c_maze(options: Options) -> Sequences:
    """The demo's frames; of a smoke run few, in a sixteenth of the pixels."""
    (size,) = options.choose_sizes((10_000,), (300,))
    seen = simulate("c-maze", size // 10, seed=options.seed)
    return replace(seen, frames=np.ascontiguousarray(seen.frames[:, ::4, ::4])) if options.smoke else seen


def fixed_view(options: Options, sequences: Sequences) -> Config:
    """The settings of a fit; the few pixels of a smoke run are not asked whether the camera moves."""
    return settle(replace(options.config(), view="fixed"), sequences, options.device.type)


def compare(options: Options, frames: np.ndarray, network: nn.Module, batch: int,
            make_updates: Callable[[int], int]) -> list[Row]:
    """Rows of one stage: an update of `batch` frames against the bare network at the same batch."""
    few, many = options.choose((50, 1050) if options.device.type == "cuda" else (20, 120), (2, 6))
    update = seconds_per_update(options.device, make_updates, few, many)
    bare = bare_seconds(options, frames, network, batch)
    numbers = {"ms_per_update": 1e3 * update, "bare_ms": 1e3 * bare, "ratio": update / bare,
               "frames_per_second": batch / update}
    return options.rows("c-maze", "plan2vec", numbers, update, batch=batch, frames=len(frames))


def seconds_per_update(device: torch.device, make_updates: Callable[[int], int], few: int, many: int) -> float:
    """The slope of a training's time in its updates, so that what it does once does not count. `make_updates` takes a
    number of updates and gives how many it made in all."""
    make_updates(few)
    times, counts = [], []
    for num_updates in (few, many):
        with stopwatch(device) as watch:
            counts.append(make_updates(num_updates))
        times.append(watch.seconds)
    return (times[1] - times[0]) / (counts[1] - counts[0])


def bare_seconds(options: Options, frames: np.ndarray, network: nn.Module, batch: int) -> float:
    """Seconds of one forward and backward pass of the network alone, on images that lie ready; on a GPU replayed."""
    network.to(options.device).train()
    images = FrameTensors(frames, options.device)(np.arange(batch) % len(frames))
    repeats = options.choose(20, 2)

    def make_pass() -> None:
        network.zero_grad(set_to_none=True)
        network(images).square().mean().backward()

    once = replayed(make_pass) if options.device.type == "cuda" else make_pass
    return best_of(3, options.device, lambda: [once() for _ in range(repeats)]) / repeats


def replayed(work: Callable[[], None]) -> Callable[[], None]:
    """The same work on a GPU without Python's part in it."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(NUM_BEFORE):
            work()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


STEP_COLUMNS = ("ms_per_update", "bare_ms", "ratio", "frames_per_second")
step_table = partial(number_table, columns=STEP_COLUMNS, settings=("batch", "frames"))
encode_table = partial(number_table, columns=("frames_per_second", "bare_frames_per_second", "share_of_bare"),
                       settings=("frames",))
ENCODE = Benchmark("encode", "Frames to vectors", time_encoding.__doc__, time_encoding, encode_table, None)
LOCAL_METRIC = Benchmark("local-metric", "A training step of the local metric", time_metric_updates.__doc__,
                         time_metric_updates, step_table, None)
EMBEDDING = Benchmark("embedding", "A training step of the embedding", time_map_updates.__doc__, time_map_updates,
                      step_table, None)


class PairTraining(NamedTuple):
    num_updates: int
    seconds: float  # until the wanted error, or all that were allowed
    error: float  # the last one measured
    reached: bool

    @property
    def ms_per_update(self) -> float:
        return 1e3 * self.seconds / self.num_updates


class _ReachedError(Exception):
    """The wanted error, before all updates were made."""


def train_pairs(options: Options, frames: np.ndarray, graph: csr_array, config: Config, wanted: float,
                limit: float) -> PairTraining:
    """The paper's way to train the map: one pair per sample, both frames encoded for it alone, 32 pairs per update.
    Trains until the error is `wanted`, or for about `limit` seconds. Neither measuring the error nor the search of
    shortest distances is timed."""
    torch.manual_seed(options.seed)
    embedding, images = build_embedding(frames, config).to(options.device), FrameTensors(frames, options.device)
    embedding.set_unit(mean_length(graph, options.seed, options.device))
    goals = rng_at(options.seed, Stream.PEER_PAIRS).choice(len(frames), min(NUM_GOALS, len(frames)), replace=False)
    targets, unit = distances_from_on(options.device, graph, goals), embedding.unit
    error_now, clock, measured = error_meter(options, embedding, images, graph), [0.0, 0.0], list[PairTraining]()

    def check(num_updates: int) -> None:
        wait_for(options.device)
        clock[0] += time.perf_counter() - clock[1]
        error = error_now()
        measured.append(PairTraining(num_updates, clock[0], error, error <= wanted))
        if error <= wanted:
            raise _ReachedError
        embedding.train()
        clock[1] = time.perf_counter()

    def draw(update: int) -> tuple[Array, ...]:
        if update and update % check_every == 0:
            check(update)
        rng = rng_at(options.seed, Stream.PEER_PAIRS, update)
        row, node = rng.integers(len(goals), size=PAIRS_PER_UPDATE), rng.integers(len(frames), size=PAIRS_PER_UPDATE)
        return node, goals[row], targets[row, node]

    def loss(node: Array, goal: Array, target: Array) -> Tensor:
        distance = embedding.head(embedding(images(node)), embedding(images(goal)))
        return distance_loss(distance, on_device(target, options.device), "sammon", unit)

    step, untrained, check_every = Step(draw, loss, images), deepcopy(embedding.state_dict()), 10**9
    # to capture an update takes far longer than to replay it
    tried = options.choose(1000 if options.device.type == "cuda" else 10, 2)
    train(embedding, step, 2, LEARNING_RATE, "pairs", Journal())  # libraries choose their algorithms: not timed
    with stopwatch(options.device) as watch:
        train(embedding, step, tried, LEARNING_RATE, "pairs", Journal())
    embedding.load_state_dict(untrained)
    num_updates = max(NUM_CHECKS, int(limit / watch.seconds * tried))
    check_every = max(1, num_updates // NUM_CHECKS)
    clock[:] = [0.0, time.perf_counter()]
    with suppress(_ReachedError):
        train(embedding, step, num_updates, LEARNING_RATE, "pairs", Journal())
        check(num_updates)
    return measured[-1]


def error_meter(options: Options, embedding: Embedding, images: FrameTensors, graph: csr_array) -> Callable[[], float]:
    """Measures the mean relative error, on the same pairs every time."""
    rng = rng_at(options.seed, Stream.PEER_CHECK)
    sources = rng.choice(len(images), min(NUM_CHECKED, len(images)), replace=False)
    ends = rng.integers(len(images), size=(len(sources), NUM_CHECKED))
    exact = np.take_along_axis(distances_from_on(options.device, graph, sources), ends, axis=1)
    known = np.isfinite(exact) & (exact > 0)

    @torch.no_grad()
    def error_now() -> float:
        embedding.eval()
        first, second = embedding(images(sources)), embedding(images(ends.ravel()))
        learned = embedding.head(first[:, None], second.unflatten(0, ends.shape)).cpu().numpy()
        return float((np.abs(learned - exact)[known] / exact[known]).mean())

    return error_now
