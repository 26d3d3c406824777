"""Claim: on a CPU usearch finds near pairs as well as the exact search does, in large recordings faster; on a GPU the
exact search takes seconds for a million frames.

Expected: recall of usearch 0.99 or more; on two CPU cores it is the faster from 20,000 frames on; 1,000,000 frames in
20 s on an H200

Vectors of 32 numbers, as the local metric gives them: a flat sheet with noise, about 50 others within 1.28 steps,
candidates within 1.7. Memory is the peak of the process beyond what it held before.
"""

from functools import partial

import numpy as np

from plan2vec.bench.measuring import Benchmark, Options, forget_peak, number_table, peak_memory, size_figure, stopwatch
from plan2vec.bench.sheets import lift, places
from plan2vec.config import Neighbors
from plan2vec.graph.neighbors import near_pairs, usearch_installed
from plan2vec.results.rows import Groups, Row

WITHIN, MOST = 1.7, 200
CPU_EXACT_MOST = 100_000  # frames up to which the exact search is timed on a CPU


def run(options: Options) -> Groups:
    on_gpu = options.device.type == "cuda"
    usual = (10_000, 100_000, 1_000_000) if on_gpu else (10_000, 20_000, 30_000, 100_000)
    for size in options.choose_sizes(usual, (2_000,)):
        rng = np.random.default_rng(options.seed)
        vectors = lift(places(size, rng), 32, 0.05, rng)
        if on_gpu or size <= CPU_EXACT_MOST:
            yield measure(options, vectors, "exact", "exact, by tiles")
        if not on_gpu and usearch_installed():
            yield measure(options, vectors, "approximate", "usearch")


def measure(options: Options, vectors: np.ndarray, search: Neighbors, method: str) -> list[Row]:
    forget_peak()
    before = peak_memory()
    with stopwatch(options.device) as watch:
        found = near_pairs(vectors, WITHIN, MOST, options.device, search)
    after = peak_memory()
    memory = after - before if before is not None and after is not None else None
    recall = 1.0 if found.recall is None else found.recall
    numbers = {"search_seconds": watch.seconds, "recall": recall, "memory_gb": memory, "pairs": len(found)}
    return options.rows("sheet", method, numbers, watch.seconds, frames=len(vectors))


BENCHMARK = Benchmark("neighbors", "Near pairs of frames", __doc__, run,
                      partial(number_table, columns=("search_seconds", "recall", "memory_gb", "pairs"),
                              settings=("frames",)), partial(size_figure, metrics=("search_seconds", "memory_gb")))
