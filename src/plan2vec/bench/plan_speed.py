"""Claim: greedy plans cost well under 1 ms per hop, A* one or two; for many pairs at once greedy is ten times faster.

Expected: greedy hops_per_second 20,000 or more, ms_per_hop below 1, at 100,000 frames

Plans are made on the CPU, whatever the device. The map is made, not fitted: an open square of the given number of
frames, about 50 neighbours each, 8-d vectors whose distance is the true one with some noise. Tasks are random pairs.
One: model.plan, a pair at a time; many: model.plan_many. Dijkstra, in Python, only with a small number of tasks.
"""

from functools import partial

import numpy as np

from plan2vec.bench.measuring import Benchmark, Options, number_table, size_figure, stopwatch
from plan2vec.bench.sheets import RADIUS, joined, lift, places
from plan2vec.config import Config, settle
from plan2vec.data import make_sequences
from plan2vec.embedding.network import build_embedding
from plan2vec.graph.build import BuiltGraph
from plan2vec.local_metric import TrainedMetric, build_local_metric
from plan2vec.model import Learned, Model
from plan2vec.planner import Method
from plan2vec.results.rows import Groups, Row

DIM, NOISE = 8, 0.005  # of the map; steps, of each of its coordinates
COLUMNS = ("ms_per_hop", "hops_per_second", "success", "hops_per_plan", "expanded_per_hop")
TASKS: dict[Method, tuple[int, int]] = {  # plans made one at a time, plans made at once
    "greedy": (100, 4000), "lookahead": (20, 400), "astar": (20, 200), "dijkstra": (2, 0)}


def run(options: Options) -> Groups:
    for size in options.choose_sizes((10_000, 100_000), (500,)):
        model = make_model(size, options.seed)
        model.plan(0, 1)  # what is computed once
        for method, (one, many) in TASKS.items():
            one, many = options.choose((one, many), (2, min(5, many)))
            tasks = np.random.default_rng(options.seed + 1).integers(size, size=(2, max(one, many)))
            yield measure(options, model, method, "one", tasks[:, :one])
            if many:
                yield measure(options, model, method, "many", tasks[:, :many])


def make_model(size: int, seed: int) -> Model:
    """A map of an open square, in the shape of a fitted one."""
    rng = np.random.default_rng(seed)
    position = places(size, rng)
    vectors, graph = lift(position, DIM, NOISE, rng), joined(position)
    sequences = make_sequences(vectors, np.arange(size) // 10)
    config = settle(Config(dim=DIM, seed=seed), sequences)
    metric = TrainedMetric(build_local_metric(vectors, config.encoder, config.local_metric))
    built = BuiltGraph(graph, RADIUS, "made, not fitted")
    return Model(sequences, config, Learned(metric, built, build_embedding(vectors, config), vectors))


def measure(options: Options, model: Model, method: Method, kind: str, tasks: np.ndarray) -> list[Row]:
    with stopwatch(options.device) as watch:
        if kind == "one":
            plans = [model.plan(start, goal, method) for start, goal in tasks.T.tolist()]
        else:
            plans = model.plan_many(tasks[0], tasks[1], method)
    found = [plan.hops for plan in plans if plan.hops is not None]
    num_hops = max(1, sum(found))
    numbers = {"ms_per_hop": 1e3 * watch.seconds / num_hops, "hops_per_second": num_hops / watch.seconds,
               "success": len(found) / len(plans), "hops_per_plan": num_hops / max(1, len(found)),
               "expanded_per_hop": sum(plan.num_expanded for plan in plans) / num_hops}
    setting = {"frames": len(model.vectors), "plans": len(plans)}
    return options.rows("sheet", f"{method}, {kind}", numbers, watch.seconds, **setting)


BENCHMARK = Benchmark("plan", "Plans", __doc__, run,
                      partial(number_table, columns=COLUMNS, settings=("frames", "plans")),
                      partial(size_figure, metrics=("ms_per_hop",)))
