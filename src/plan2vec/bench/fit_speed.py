"""Claim: recordings become graph, map and planner in seconds on a GPU, in minutes on two CPU cores, stage by stage.

Expected: C-Maze, 10,000 frames: success 0.99 or more in 10 s on a GPU; 100,000 vectors in 10 minutes on two cores

`c-maze` the demo's 10,000 frames of 64 x 64, default settings, in memory.
`vectors` 100,000 observations of 8 numbers from a world of many rooms (where the block is, a code of the room), too.
`total` seconds without simulation and scorecard. `--sizes MAZE VECTORS` gives other frame counts; 0 leaves one out."""

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from plan2vec.bench.measuring import choose_sizes, forget_peak, number_table, peak_memory, speed_rows, stopwatch
from plan2vec.config import Config
from plan2vec.data import Sequences
from plan2vec.domains import rooms
from plan2vec.domains.maze import simulate
from plan2vec.evaluation import evaluate
from plan2vec.pipeline import fit
from plan2vec.results.experiment import Experiment, Settings
from plan2vec.results.rows import Groups

STAGES = ("local_metric", "graph", "embedding", "vectors")
COLUMNS = ("total", *STAGES, "evaluate", "memory_gb", "success", "success_graph", "spearman_true", "embedding_error",
           "false_edge_share")


def run(settings: Settings) -> Groups:
    sizes = choose_sizes(settings, (10_000, 100_000), (200, 400))
    for seed, (domain, size) in product(settings.seeds, zip(("c-maze", "vectors"), sizes, strict=False)):
        if size:
            made = simulate(domain, size // 10, seed=seed) if domain == "c-maze" else simulate_vectors(size, seed)
            yield from fit_rows(settings, domain, made, replace(settings.size.config, seed=seed))


def simulate_vectors(size: int, seed: int) -> Sequences:
    """What a robot might know of itself in a world of rooms, 0 to 1: where it is in its room, which room, its code."""
    seen = rooms.simulate_positions(size, seed)
    assert seen.position is not None
    room = rooms.room_of(seen.position)
    local = seen.position / rooms.ROOM - room
    column, row = (room[:, k, None] / rooms.MOST_ROOMS for k in (0, 1))
    codes = np.random.default_rng(rooms.WORLD_SEED).uniform(size=(rooms.MOST_ROOMS, rooms.MOST_ROOMS, 4))
    frames = np.concatenate((local, column, row, codes[room[:, 0], room[:, 1]]), axis=1).astype(np.float32)
    return Sequences(frames, seen.sequence, position=seen.position, domain=seen.domain, source="simulated vectors")


def fit_rows(settings: Settings, domain: str, sequences: Sequences, config: Config) -> Groups:
    """Rows of one fit: seconds by stage and memory as soon as they are known, then the scorecard."""
    forget_peak()
    with stopwatch(settings.device) as watch:
        model = fit(sequences, config, device=str(settings.device))
    rows = partial(speed_rows, settings, config.seed, domain, "plan2vec", seconds=watch.seconds, frames=len(sequences))
    yield rows({"total": watch.seconds, "memory_gb": peak_memory()} | {name: model.seconds[name] for name in STAGES})
    card: dict[str, Any] = evaluate(model, costs=False)
    yield rows({name: card[name] for name in COLUMNS if name in card} | {"evaluate": card["seconds"]["evaluate"]})


BENCHMARK = Experiment("bench-fit", "A whole fit, stage by stage", __doc__, run, partial(number_table, columns=COLUMNS))
