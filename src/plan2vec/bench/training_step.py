"""What `bench local-metric` and `bench embedding` share: an update of a stage against the bare network at the same
batch.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from plan2vec.bench.measuring import Options, best_of, seconds_per_update
from plan2vec.data import Sequences
from plan2vec.domains.maze import simulate
from plan2vec.learning.captured import NUM_BEFORE
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.results.rows import Row

COLUMNS = ("ms_per_update", "bare_ms", "ratio", "frames_per_second")


def recordings(options: Options) -> Sequences:
    """The demo's frames; of a smoke run few, in a sixteenth of the pixels."""
    (size,) = options.choose_sizes((10_000,), (300,))
    sequences = simulate("c-maze", size // 10, seed=options.seed)
    return replace(
        sequences, frames=np.ascontiguousarray(sequences.frames[:, ::4, ::4])
    ) if options.smoke else sequences


def compare(
    options: Options, name: str, frames: np.ndarray, network: nn.Module, batch: int,
    train: Callable[[int], float | None]
) -> list[Row]:
    """Rows of one stage: `train` makes so many updates of `batch` frames each; `network` is what it trains."""
    few, many = options.choose((50, 1050) if options.device.type == "cuda" else (20, 120), (2, 6))
    update = seconds_per_update(options.device, train, few, many)
    bare = bare_seconds(options, frames, network, batch)
    numbers = {
        "ms_per_update": 1e3 * update, "bare_ms": 1e3 * bare, "ratio": update / bare,
        "frames_per_second": batch / update
    }
    return options.rows(name, "c-maze", "plan2vec", numbers, update, batch=batch, frames=len(frames))


def bare_seconds(options: Options, frames: np.ndarray, network: nn.Module, batch: int) -> float:
    """Seconds of one forward and backward pass of the network alone, on images that lie ready; on a GPU captured and
    replayed too.
    """
    network.to(options.device).train()
    images = FrameTensors(frames, options.device)(np.arange(batch) % len(frames))
    repeats = options.choose(20, 2)

    def make_pass() -> None:
        network.zero_grad(set_to_none=True)
        network(images).square().mean().backward()

    once = replayed(make_pass) if options.device.type == "cuda" else make_pass

    def passes() -> None:
        for _ in range(repeats):
            once()

    return best_of(3, options.device, passes) / repeats


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
