"""Claim: the time of a fit grows no faster than its frames, up to a million on one GPU, and the map stays right.

Expected: 1,000,000 frames of 64 x 64 on one H200 in 5 minutes or less, memory_gb 16 or less, spearman_true and
success_graph 0.95 or more; exponent of time in frames 1.15 or less from 10,000 to 1,000,000

One world of 4 x 4 rooms of 20 x 20 steps (plan2vec/domains/rooms.py), recorded for longer and longer. Frames are
written to a file as they are drawn and memory-mapped. Settings are the defaults but for `--closures.neighbors hubs`.
Rows without `method_version` had settings of their own: a squared head in 64 dimensions, the medium encoder, 24,000
updates and more. The exponent of the graph stage stands beside that of the whole fit. Versions
since 8 join twice and learn in up to five phases, so they are slower; no row has their times yet."""

import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path

from matplotlib.ticker import LogLocator

from plan2vec.bench.fit_speed import COLUMNS, fit_rows
from plan2vec.bench.measuring import choose_sizes, number_table, speed_rows, stopwatch
from plan2vec.config import ClosureConfig
from plan2vec.domains import rooms
from plan2vec.results.comparisons import Figures, curve, legend_below, panels
from plan2vec.results.experiment import Experiment, Settings
from plan2vec.results.rows import Arrays, Groups, Row, fitted_exponent, in_order, markdown, select

HUBS = ClosureConfig(max_neighbors=80, neighbors="hubs")  # else all neighbours of a frame are its equals
WORLD = (4, 4)  # columns and rows of rooms
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
DRAWN = {"total": "whole fit, seconds", "memory_gb": "peak of main memory, GB"}


def run(settings: Settings) -> Groups:
    for seed, size in product(settings.seeds, choose_sizes(settings, SIZES, (100, 200))):
        config = replace(settings.size.config, seed=seed, closures=HUBS)
        with tempfile.TemporaryDirectory() as folder:
            with stopwatch(settings.device) as watch:
                sequences = rooms.simulate(size, seed, Path(folder) / "frames.npy", WORLD)
            assert sequences.domain is not None
            yield speed_rows(settings, seed, sequences.domain, "plan2vec", {"simulate": watch.seconds}, watch.seconds,
                             frames=len(sequences))
            yield from fit_rows(settings, sequences.domain, sequences, config)


def table(rows: list[Row]) -> list[str]:
    rows = sorted(rows, key=lambda row: row["setting"]["frames"])
    exponents = []  # of stage time against frame count, on every machine that timed two sizes or more
    for stage, machine in product(("total", "graph"), in_order(rows, "machine")):
        part = select(rows, metric=stage, machine=machine)
        sizes = [row["setting"]["frames"] for row in part]
        exponent = fitted_exponent(sizes, [row["value"] for row in part])
        if exponent is not None:
            exponents.append([machine, stage, f"{min(sizes):,}", f"{max(sizes):,}", f"{exponent:.2f}"])
    found = markdown(["machine", "time of", "from frames", "to frames", "exponent"], exponents)
    return [*number_table(rows, ("simulate", *COLUMNS)), *found]


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
    yield "", figure


BENCHMARK = Experiment("bench-scale", "From ten thousand frames to a million", __doc__, run, table, draw)
