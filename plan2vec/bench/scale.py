"""Claim: the time of a fit grows about as the number of frames does, up to a million on one GPU, and the map stays right.

Command: plan2vec bench scale        Cost: on a GPU minutes; on two CPU cores use --sizes 10000 30000 100000 (an hour)
Expected: 1,000,000 frames of 64 x 64 on one H200 in 5 minutes or less, memory_gb 16 or less, spearman_true and success_graph 0.95 or
more; exponent of time in frames 1.15 or less from 10,000 to 1,000,000

One world of many rooms (plan2vec/domains/rooms.py): a longer recording explores more of it at the same density, 2,500 frames a room, so
1,000,000 frames are 20 x 20 rooms. Frames are written to a file as they are drawn and memory-mapped. Settings are the defaults, but
for the encoder (medium), the closures (within 1.2 steps; tested by common neighbours alone: the other test leaves out true ones too, and
then a walk ends beside its goal and not at it), the map (64 dimensions, squared head, Huber's loss: many rooms are many loops,
as streets are; slope 1) and the updates, of which a larger world takes more; they stand in the rows. The exponent is that of all sizes
measured on one machine. Not yet right at 1,000,000 frames (commit 4a9ed7a): after 1,265 updates the local metric takes some of the 400
rooms for others, a quarter of the closures is false, and half of the walks go astray.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from plan2vec.bench.fit import BRIEF, COLUMNS, fit_rows
from plan2vec.bench.measuring import Options, fitted_exponent, number_table, size_figure, stopwatch
from plan2vec.config import Config
from plan2vec.domains import rooms
from plan2vec.experiments.rows import Row, markdown, select

NAME, TITLE = "scale", "From ten thousand frames to a million"
DIM, ENCODER = 64, "medium"  # of the map, whose head is squared: path lengths through many rooms, as through streets, fit into no l2 space
RADIUS, COMMON_REACH = 1.4, 0.65  # steps within which frames are joined, and share of them within which two others must be near both
UPDATES, ROUNDS = 8000, 30  # of the embedding; updates in the smallest world
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)


def run(options: Options) -> Iterator[list[Row]]:
    for size in options.choose_sizes(SIZES, (100, 200)):
        with tempfile.TemporaryDirectory() as folder:
            with stopwatch(options.device) as watch:
                sequences = rooms.simulate(size, options.seed, Path(folder) / "frames.npy")
            config = BRIEF if options.smoke else settings(size, options.seed)
            rows = fit_rows(options, NAME, "rooms", sequences, config)
        more = {
            "simulate": watch.seconds,
            "updates_local": config.local_metric.num_updates,
            "updates_embedding": config.embedding.num_updates,
        }
        yield rows + options.rows(NAME, "rooms", "plan2vec", more, watch.seconds, frames=sequences.num_frames)


def settings(size: int, seed: int) -> Config:
    """The defaults, with more to learn where there is more of the world: the embedding's updates grow as its width does, those of the
    local metric faster, since all rooms must be told apart from all others."""
    config = Config(seed=seed)
    columns, rows = rooms.world_size(size)
    width = max(1.0, (columns * rows) ** 0.5 / 2)  # of the smallest world of this benchmark
    local = replace(config.local_metric, num_updates=round(config.local_metric.num_updates * width**1.5))
    embedding = replace(config.embedding, loss="huber", slope=1.0, num_updates=round(UPDATES * width), num_rounds=ROUNDS)
    closures = replace(config.closures, support="common", common_reach=COMMON_REACH)
    return replace(
        config, dim=DIM, head="squared", encoder=ENCODER, radius=RADIUS, local_metric=local, closures=closures, embedding=embedding
    )


def table(rows: list[Row]) -> list[str]:
    rows = sorted(rows, key=lambda row: row["setting"]["frames"])
    lines = number_table(rows, ("simulate", *COLUMNS, "updates_local", "updates_embedding"), ("frames",))
    return [*lines, *markdown(["machine", "from frames", "to frames", "exponent"], exponents(rows))]


def exponents(rows: list[Row]) -> list[list[str]]:
    """The power of frames that time grows with, on every machine that took the time of two sizes or more."""
    found: dict[str, dict[int, float]] = {}
    for row in select(rows, metric="total"):
        found.setdefault(row["setting"]["machine"], {})[row["setting"]["frames"]] = float(row["value"])
    return [
        [machine, f"{min(seconds):,}", f"{max(seconds):,}", f"{fitted_exponent(list(seconds), list(seconds.values())):.2f}"]
        for machine, seconds in found.items() if len(seconds) > 1
    ]  # fmt: skip


def draw(rows: list[Row]) -> Figure:
    return size_figure(rows, ("total", "memory_gb"))
