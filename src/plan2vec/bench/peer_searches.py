"""Plans for the same tasks by scipy, by networkx and along the map, each task alone."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.bench.measuring import Options, stopwatch
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.planner import Distance, make_plan
from plan2vec.search.shortest_paths import path_length

METHODS = ("scipy, Dijkstra", "networkx, Dijkstra both ways", "plan2vec, greedy", "plan2vec, A*")
NUM_TASKS = 20
Planner = Callable[[int, int], list[int] | None]  # start, goal -> nodes


def time_searches(graph: csr_array, distance: Distance, options: Options) -> dict[str, dict[str, Any]]:
    """Of every method: milliseconds per plan, the mean of its lengths over the shortest, the share of tasks it solves."""
    rng = rng_at(options.seed, Stream.PEER_TASKS)
    tasks = rng.integers(graph.shape[0], size=(options.choose(NUM_TASKS, 3), 2)).tolist()
    shortest = {(start, goal): dijkstra(graph, indices=start)[goal] for start, goal in tasks}
    shortest = {task: length for task, length in shortest.items() if 0 < length < np.inf}
    answers = {}
    for method, plan in planners(graph, distance).items():
        with stopwatch(options.device) as watch:
            found = [plan(start, goal) for start, goal in shortest]
        plans = zip(found, shortest.values(), strict=True)
        ratios = [path_length(graph, nodes) / length for nodes, length in plans if nodes is not None]
        num_tasks = max(1, len(shortest))
        answers[method] = {"ms_per_plan": 1e3 * watch.seconds / num_tasks, "found": len(ratios) / num_tasks,
                           "length_ratio": float(np.mean(ratios)) if ratios else None}
    return answers


def planners(graph: csr_array, distance: Distance) -> dict[str, Planner]:
    """networkx only where it is installed."""
    known: dict[str, Planner] = {
        METHODS[0]: lambda start, goal: scipy_path(graph, start, goal),
        METHODS[2]: lambda start, goal: make_plan(graph, distance, start, goal, "greedy").nodes,
        METHODS[3]: lambda start, goal: make_plan(graph, distance, start, goal, "astar").nodes,
    }
    if importlib.util.find_spec("networkx") is not None:
        import networkx

        copied = networkx.from_scipy_sparse_array(graph, create_using=networkx.DiGraph)
        known[METHODS[1]] = lambda start, goal: networkx.bidirectional_dijkstra(copied, start, goal)[1]
    return known


def scipy_path(graph: csr_array, start: int, goal: int) -> list[int]:
    """The nodes of the shortest path, from scipy's tree of all of them."""
    before = dijkstra(graph, indices=start, return_predecessors=True)[1]
    nodes = [goal]
    while before[nodes[-1]] >= 0:
        nodes.append(int(before[nodes[-1]]))
    return nodes[::-1]
