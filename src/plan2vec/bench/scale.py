"""Claim: the time of a fit grows no faster than its frames, up to a million on one GPU, and the map stays right.

Expected: 1,000,000 frames of 64 x 64 on one H200 in 5 minutes or less, memory_gb 16 or less, spearman_true and
success_graph 0.95 or more; exponent of time in frames 1.15 or less from 10,000 to 1,000,000

One world of 4 x 4 rooms of 20 x 20 steps (plan2vec/domains/rooms.py), recorded for longer and longer. Frames are
written to a file as they are drawn and memory-mapped. Encoder, closures, map and updates are not the defaults
(`settings_for` below); the rows were made with common neighbours within 1 step. The world asks for 24,000 updates
however few frames there are, so the exponent of the whole fit is far below 1; that of the graph stage stands beside it.

Worlds that grow with the recording are harder. At a million frames the graph was right, but greedy walks got stuck:
success_graph 0.245 in 20 x 20 rooms (rows docs/results/bench-scale-400-rooms.jsonl) and 0.578 in 10 x 10 larger ones
(rows docs/results/bench-scale-growing-world.jsonl). Most likely one network cannot know so many rooms to a step.
"""

import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path

from matplotlib.ticker import LogLocator

from plan2vec.bench.fit_speed import COLUMNS, fit_rows
from plan2vec.bench.measuring import choose_sizes, number_table, speed_rows, stopwatch
from plan2vec.config import DEFAULTS, ClosureConfig, Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.domains import rooms
from plan2vec.results.comparisons import Figures, curve, legend_below, panels
from plan2vec.results.experiment import Experiment, Settings
from plan2vec.results.rows import Arrays, Groups, Row, fitted_exponent, in_order, markdown, select

# of the map, whose head is squared: path lengths through many rooms, as through streets, fit into no l2 space; the
# default (l1, 32-d) was tried up to 20,000 vectors only (`reproduce contenders`)
DIM, ENCODER = 64, "medium"
RADIUS = 1.6  # steps within which frames are joined
MOST_NEIGHBORS = 80  # of a frame that is no hub
LOCAL_POWER = 0.65  # of the number of frames, that the local metric's updates grow with
UPDATES, ROUNDS = 24_000, 30  # of the embedding
MANY_FRAMES, POWER = 100_000, 0.3  # beyond so many frames its updates grow with this power of theirs
WORLD = (4, 4)  # columns and rows of rooms
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
DRAWN = {"total": "whole fit, seconds", "memory_gb": "peak of main memory, GB"}


def run(settings: Settings) -> Groups:
    for seed, size in product(settings.seeds, choose_sizes(settings, SIZES, (100, 200))):
        config = replace(settings.size.config, seed=seed) if settings.size.is_smoke else settings_for(size, seed)
        with tempfile.TemporaryDirectory() as folder:
            with stopwatch(settings.device) as watch:
                sequences = rooms.simulate(size, seed, Path(folder) / "frames.npy", WORLD)
            more = {"simulate": watch.seconds, "updates_local": config.local_metric.num_updates,
                    "updates_embedding": config.embedding.num_updates}
            assert sequences.domain is not None
            yield speed_rows(settings, seed, sequences.domain, "plan2vec", more, watch.seconds, frames=len(sequences))
            yield from fit_rows(settings, sequences.domain, sequences, config)


def settings_for(size: int, seed: int) -> Config:
    """The defaults, with more updates where there are more frames; few the local metric would learn by heart."""
    local = round(DEFAULTS["local_metric.num_updates"] * max(1.0, size / SIZES[0]) ** LOCAL_POWER)
    updates = round(UPDATES * max(1.0, size / MANY_FRAMES) ** POWER)
    closures = ClosureConfig(support="close-common", max_neighbors=MOST_NEIGHBORS, neighbors="hubs")
    return Config(dim=DIM, head="squared", encoder=ENCODER, radius=RADIUS, seed=seed, closures=closures,
                  local_metric=LocalMetricConfig(num_updates=local),
                  embedding=EmbeddingConfig(loss="slope", num_updates=updates, num_rounds=ROUNDS))


def table(rows: list[Row]) -> list[str]:
    rows = sorted(rows, key=lambda row: row["setting"]["frames"])
    lines = number_table(rows, ("simulate", *COLUMNS, "updates_local", "updates_embedding"))
    exponents = []  # of stage time against frame count, on every machine that timed two sizes or more
    for stage, machine in product(("total", "graph"), in_order(rows, "machine")):
        part = select(rows, metric=stage, machine=machine)
        sizes = [row["setting"]["frames"] for row in part]
        exponent = fitted_exponent(sizes, [row["value"] for row in part])
        if exponent is not None:
            exponents.append([machine, stage, f"{min(sizes):,}", f"{max(sizes):,}", f"{exponent:.2f}"])
    return [*lines, *markdown(["machine", "time of", "from frames", "to frames", "exponent"], exponents)]


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    """Seconds and memory against frames, all axes logarithmic, a curve per machine."""
    figure, axes = panels(2)
    for ax, (metric, words) in zip(axes, DRAWN.items(), strict=True):
        for look, machine in enumerate(in_order(rows, "machine")):
            curve(ax, rows, "frames", look, f"plan2vec, {machine}", 1, machine=machine, metric=metric)
        ax.set(xscale="log", yscale="log", xlabel="frames", title=words)
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter="{x:g}", minor_formatter="")
        low, high = ax.get_ylim()
        ax.set_ylim(low / 1.3, high * 1.3)  # three names or more, also where the values span less than a power of ten
        ax.grid(color="0.9")
    legend_below(figure, axes[0], 3, fontsize=8)
    return {"": figure}


BENCHMARK = Experiment("bench-scale", "From ten thousand frames to a million", __doc__, run, table, draw)
