"""Claim: shortest distances from many sources are free on a GPU: 50 times scipy or more, a good part of memory speed.

Expected: on a GPU times_scipy 50 or more at 10,000 and at 100,000 nodes; largest_difference below 0.001 steps

A graph of about 50 neighbours a node on a flat sheet, as many sources as goals in a round of a fit. scipy: Dijkstra in
this process, from a part of the sources, its time scaled to all. plan2vec: what the first round of a fit calls; on a
GPU the graph is there already and the distances stay there. torch: the same on a GPU without the kernels. Bytes = edges
x sources x sweeps x 4; the kernels skip most of them, so they may seem faster than a plain copy.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from plan2vec.bench.measuring import Benchmark, Options, best_of, number_table, size_figure, stopwatch
from plan2vec.bench.sheets import joined, places
from plan2vec.results.rows import Groups
from plan2vec.search.gpu_graph import DeviceGraph
from plan2vec.search.gpu_search import DeviceSearch, distances_from_on, relaxed
from plan2vec.search.shortest_paths import distances_from, hop_counts

NUM_SCIPY = 32  # sources that scipy is timed on
COLUMNS = ("seconds_all", "ms_per_source", "times_scipy", "largest_difference", "sweeps", "gb_per_second",
           "copy_gb_per_second")


def run(options: Options) -> Groups:
    for size in options.choose_sizes((10_000, 100_000), (500,)):
        graph = joined(places(size, np.random.default_rng(options.seed)))
        num_sources = min(options.choose(256, 16), size)
        sources = np.random.default_rng(options.seed + 1).choice(size, num_sources, replace=False)
        yield from measure(options, graph, sources)


def measure(options: Options, graph: csr_array, sources: np.ndarray) -> Groups:
    setting = {"nodes": graph.shape[0], "edges": graph.nnz, "sources": len(sources)}
    some = sources[:NUM_SCIPY]
    with stopwatch(options.device) as watch:
        exact = distances_from(graph, some)
    scipy_seconds = watch.seconds * len(sources) / len(some)
    yield options.rows("sheet", "scipy", timing(scipy_seconds, len(sources)), watch.seconds, **setting)
    for search in methods(options.device, graph).values():
        search(some)  # compiles what is compiled
    for method, search in methods(options.device, graph).items():
        with stopwatch(options.device) as watch:
            ours = search(sources)
        difference = np.abs(np.asarray(ours[: len(some)].cpu()) - exact)[np.isfinite(exact)].max()
        numbers = timing(watch.seconds, len(sources))
        numbers |= {"times_scipy": scipy_seconds / watch.seconds, "largest_difference": difference}
        if options.device.type == "cuda":
            numbers |= bandwidth(options.device, graph, sources, watch.seconds)
        yield options.rows("sheet", method, numbers, watch.seconds, **setting)


def methods(device: torch.device, graph: csr_array) -> dict[str, Callable[[np.ndarray], Tensor]]:
    """Searches that have done nothing yet but to upload the graph."""
    if device.type != "cuda":
        return {"plan2vec": lambda sources: torch.from_numpy(distances_from_on(device, graph, sources))}
    uploaded = DeviceGraph.of(graph, device)
    return {"plan2vec": DeviceSearch(uploaded).distances_from, "torch": partial(relaxed, uploaded)}


def timing(seconds: float, num_sources: int) -> dict[str, float]:
    return {"seconds_all": seconds, "ms_per_source": 1e3 * seconds / num_sources}


def bandwidth(device: torch.device, graph: csr_array, sources: np.ndarray, seconds: float) -> dict[str, float]:
    hops = hop_counts(graph, sources[:4])
    sweeps = float(hops[np.isfinite(hops)].max()) + 1
    block = torch.empty(2**28, device=device)  # 1 GB
    copied = best_of(5, device, block.clone)
    return {"sweeps": sweeps, "gb_per_second": graph.nnz * len(sources) * sweeps * 4 / seconds / 1e9,
            "copy_gb_per_second": 2 * block.nbytes / copied / 1e9}


BENCHMARK = Benchmark("shortest-distances", "Shortest distances from many sources", __doc__, run,
                      partial(number_table, columns=COLUMNS, settings=("nodes", "edges", "sources")),
                      partial(size_figure, metrics=("ms_per_source",), size="nodes"))
