"""Claim: on a CPU the exact search of near pairs is the faster in small recordings, and usearch, which finds the same,
in large ones; on a GPU the exact one takes seconds for a million frames.

Command: plan2vec bench neighbors        Cost: two minutes on two CPU cores, half a minute on a GPU
Expected: recall of usearch 0.99 or more; on two CPU cores it is the faster from 20,000 frames on; 1,000,000 frames in
20 s on an H200

Vectors of 32 numbers, as the local metric gives them: a flat sheet with noise, about 50 others within 1.28 steps,
candidates within 1.7. Seconds hold all that a fit does to find its candidates; memory is the peak of the process beyond
what it held before.
"""

import importlib.util
from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

from plan2vec.bench.measuring import Options, forget_peak, number_table, peak_memory, size_figure, stopwatch
from plan2vec.bench.sheets import lift, places
from plan2vec.graph.neighbors import near_pairs
from plan2vec.results.rows import Row

NAME, TITLE = "neighbors", "Near pairs of frames"
WITHIN, MOST = 1.7, 200
CPU_EXACT_MOST = 100_000  # frames up to which the exact search is timed on a CPU
COLUMNS = ("search_seconds", "recall", "memory_gb", "pairs")


def run(options: Options) -> Iterator[list[Row]]:
    on_gpu = options.device.type == "cuda"
    sizes = options.choose_sizes(
        (10_000, 100_000, 1_000_000) if on_gpu else (10_000, 20_000, 30_000, 100_000), (2_000,)
    )
    for size in sizes:
        rng = np.random.default_rng(options.seed)
        vectors = lift(places(size, rng), 32, 0.05, rng)
        if on_gpu or size <= CPU_EXACT_MOST:
            yield measure(options, vectors, "exact", "exact, by tiles")
        if not on_gpu and importlib.util.find_spec("usearch") is not None:
            yield measure(options, vectors, "approximate", "usearch")


def measure(options: Options, vectors: np.ndarray, search: str, method: str) -> list[Row]:
    forget_peak()
    before = peak_memory()
    with stopwatch(options.device) as watch:
        found = near_pairs(vectors, WITHIN, MOST, options.device, search)  # type: ignore[arg-type]
    after = peak_memory()
    memory = after - before if before is not None and after is not None else None
    numbers = {
        "search_seconds": watch.seconds,
        "recall": 1.0 if found.recall is None else found.recall,
        "memory_gb": memory,
        "pairs": len(found),
    }
    return options.rows(NAME, "sheet", method, numbers, watch.seconds, frames=len(vectors))


def table(rows: list[Row]) -> list[str]:
    return number_table(rows, COLUMNS, ("frames",))


def draw(rows: list[Row]) -> Figure:
    return size_figure(rows, ("search_seconds", "memory_gb"))
