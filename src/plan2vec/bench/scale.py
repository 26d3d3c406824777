"""Claim: the time of a fit grows no faster than its frames, up to a million on one GPU, and the map stays right.

Command: plan2vec bench scale        Cost: 10 minutes on an H200; too much for two CPU cores
Expected: 1,000,000 frames of 64 x 64 on one H200 in 5 minutes or less, memory_gb 16 or less, spearman_true and
success_graph 0.95 or more; exponent of time in frames 1.15 or less from 10,000 to 1,000,000

One world of 4 x 4 rooms of 20 x 20 steps (plan2vec/domains/rooms.py), recorded for longer and longer: 1.6 frames a
square step at 10,000 and 156 at 1,000,000. Frames are written to a file as they are drawn and memory-mapped. Settings
are the defaults, but for the encoder (medium), the closures (within 1.6 steps, up to 80 hubs a frame, so that a walk
has long hops to choose from however dense the recording is; tested by two common neighbours within 1.1 steps, in the
rows below still within 1, which regions that the metric half confuses seldom have), the map (64 dimensions, squared
head, Huber's loss: many rooms are many loops, as streets are; slope 1) and the updates, of which this world asks for
24,000 however few frames there are; they stand in the rows. So the small sizes spend most of their time on the world,
not on their frames, and the exponent is far below 1; that of the graph stage alone stands beside it. 10,000 frames are
few for so large a world: fewer walks arrive.

A harder task failed before: worlds that grow with the recording, at the same density. 1,000,000 frames of 20 x 20 rooms
of 10 x 10 steps gave the right graph and walks that got stuck, success_graph 0.245 (commit 4eb74d4, 242 s,
spearman_true 0.998; rows docs/results/bench-scale-400-rooms.jsonl); of 10 x 10 rooms of 20 x 20 steps, with false
closures in 0.7 % of the edges, 0.578 (commit 14c6d28, 287 s, 17.1 GB, spearman_true 0.989, and 1.0, 1.0 and 0.997 for
10,000, 30,000 and 100,000 frames in 1, 4 and 12 rooms, commit 9f6bd36; time grew with the power 0.65 of the frames;
rows docs/results/bench-scale-growing-world.jsonl). What is too much there is most likely the number of rooms that one
network must know to a step, not the number of frames.
"""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from plan2vec.bench.fit_speed import COLUMNS, fit_rows
from plan2vec.bench.measuring import Benchmark, Options, fitted_exponent, number_table, size_figure, stopwatch
from plan2vec.config import DEFAULTS, ClosureConfig, Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.domains import rooms
from plan2vec.results.rows import Row, in_order, markdown, select

# of the map, whose head is squared: path lengths through many rooms, as through streets, fit into no l2 space
DIM, ENCODER = 64, "medium"
RADIUS = 1.6  # steps within which frames are joined
MOST_NEIGHBORS = 80  # of a frame that is no hub
LOCAL_POWER = 0.65  # of the number of frames, that the local metric's updates grow with
UPDATES, ROUNDS = 24_000, 30  # of the embedding
MANY_FRAMES, POWER = 100_000, 0.3  # beyond so many frames its updates grow with this power of theirs
WORLD = (4, 4)  # columns and rows of rooms
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)


def run(options: Options) -> Iterator[list[Row]]:
    for size in options.choose_sizes(SIZES, (100, 200)):
        config = options.config() if options.smoke else settings(size, options.seed)
        with tempfile.TemporaryDirectory() as folder:
            with stopwatch(options.device) as watch:
                sequences = rooms.simulate(size, options.seed, Path(folder) / "frames.npy", WORLD)
            more = {"simulate": watch.seconds, "updates_local": config.local_metric.num_updates,
                    "updates_embedding": config.embedding.num_updates}
            assert sequences.domain is not None
            yield options.rows(sequences.domain, "plan2vec", more, watch.seconds, frames=sequences.num_frames)
            yield from fit_rows(options, sequences.domain, sequences, config)


def settings(size: int, seed: int) -> Config:
    """The defaults, with more updates where there are more frames; few the local metric would learn by heart."""
    local = round(DEFAULTS["local_metric.num_updates"] * max(1.0, size / SIZES[0]) ** LOCAL_POWER)
    updates = round(UPDATES * max(1.0, size / MANY_FRAMES) ** POWER)
    return Config(
        dim=DIM, head="squared", encoder=ENCODER, radius=RADIUS, seed=seed,
        local_metric=LocalMetricConfig(num_updates=local),
        closures=ClosureConfig(support="close-common", max_neighbors=MOST_NEIGHBORS, neighbors="hubs"),
        embedding=EmbeddingConfig(loss="huber", slope=1.0, num_updates=updates, num_rounds=ROUNDS)
    )


def table(rows: list[Row]) -> list[str]:
    rows = sorted(rows, key=lambda row: row["setting"]["frames"])
    lines = number_table(rows, ("simulate", *COLUMNS, "updates_local", "updates_embedding"), ("frames",))
    exponents = [line for stage in ("total", "graph") for line in stage_exponents(rows, stage)]
    return [*lines, *markdown(["machine", "time of", "from frames", "to frames", "exponent"], exponents)]


def stage_exponents(rows: list[Row], stage: str) -> list[list[str]]:
    """Exponent of stage time against frame count, on every machine that timed two sizes or more."""
    lines = []
    for machine in in_order(rows, "machine"):
        part = select(rows, metric=stage, machine=machine)
        sizes = [row["setting"]["frames"] for row in part]
        exponent = fitted_exponent(sizes, [float(row["value"]) for row in part])
        if exponent is not None:
            lines.append([machine, stage, f"{min(sizes):,}", f"{max(sizes):,}", f"{exponent:.2f}"])
    return lines


BENCHMARK = Benchmark(
    "scale", "From ten thousand frames to a million", __doc__, run, table,
    partial(size_figure, metrics=("total", "memory_gb"))
)
