"""Claim: plans cost well under a millisecond a hop, and for thousands of pairs at once two CPU cores hop more than
20,000 times a second.

Command: plan2vec bench plan        Cost: a minute on two CPU cores
Expected: greedy hops_per_second 20,000 or more, ms_per_hop below 1, at 100,000 frames

Plans are made on the CPU, whatever the device. The map is made, not fitted: an open square of the given number of
frames, about 50 neighbours each, 8-d vectors whose distance is the true one with some noise. Tasks are random pairs.
One: model.plan, a pair at a time; many: model.plan_many. Dijkstra, in Python, only with a small number of tasks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from plan2vec.bench.measuring import Options, number_table, size_figure, stopwatch
from plan2vec.bench.sheets import joined, lift, places
from plan2vec.config import Config
from plan2vec.data import make_sequences
from plan2vec.embedding.train import build_embedding
from plan2vec.local_metric import build_local_metric
from plan2vec.model import Model
from plan2vec.results.rows import Row

NAME, TITLE = "plan", "Plans"
NOISE = 0.005  # steps, of every coordinate of the map
COLUMNS = ("ms_per_hop", "hops_per_second", "success", "hops_per_plan", "expanded_per_hop")


@dataclass(frozen=True)
class Task:
    method: str
    num_one: int  # plans made one at a time
    num_many: int  # plans made at once


TASKS = (Task("greedy", 100, 4000), Task("lookahead", 20, 400), Task("astar", 20, 200), Task("dijkstra", 2, 0))
TINY_TASKS = tuple(Task(task.method, 2, min(5, task.num_many)) for task in TASKS)


def run(options: Options) -> Iterator[list[Row]]:
    for size in options.choose_sizes((10_000, 100_000), (500,)):
        model = make_model(size, options.seed)
        model.plan(0, 1)  # what is computed once
        for task in options.choose(TASKS, TINY_TASKS):
            starts, goals = np.random.default_rng(options.seed + 1).integers(
                size, size=(2, max(task.num_one, task.num_many))
            )
            for kind, num in (("one", task.num_one), ("many", task.num_many)):
                if num:
                    yield measure(options, model, task.method, kind, starts[:num], goals[:num])


def make_model(size: int, seed: int) -> Model:
    """A map of an open square, in the shape of a fitted one."""
    rng, config = np.random.default_rng(seed), Config()
    position = places(size, rng)
    vectors, graph = lift(position, config.dim, NOISE, rng), joined(position)
    sequences = make_sequences(vectors, np.arange(size) // 10)
    metric = build_local_metric(vectors, config.encoder, config.local_metric)
    embedding = build_embedding(vectors, config.encoder, config.dim, config.head, config.norm_order)
    return Model(sequences, config, metric, None, graph, 1.28, "made, not fitted", embedding, vectors, {})


def measure(options: Options, model: Model, method: str, kind: str, starts: np.ndarray, goals: np.ndarray) -> list[Row]:
    with stopwatch(options.device) as watch:
        if kind == "one":
            plans = [
                model.plan(start, goal, method) for start, goal in zip(starts.tolist(), goals.tolist(), strict=True)
            ]
        else:
            plans = model.plan_many(starts, goals, method)
    found = [plan.hops for plan in plans if plan.hops is not None]
    num_hops = max(1, sum(found))
    numbers = {
        "ms_per_hop": 1e3 * watch.seconds / num_hops,
        "hops_per_second": num_hops / watch.seconds,
        "success": len(found) / len(plans),
        "hops_per_plan": num_hops / max(1, len(found)),
        "expanded_per_hop": sum(plan.num_expanded for plan in plans) / num_hops,
    }
    return options.rows(
        NAME, "sheet", f"{method}, {kind}", numbers, watch.seconds, frames=len(model.vectors), plans=len(plans)
    )


def table(rows: list[Row]) -> list[str]:
    return number_table(rows, COLUMNS, ("frames", "plans"))


def draw(rows: list[Row]) -> Figure:
    return size_figure(rows, ("ms_per_hop",))
