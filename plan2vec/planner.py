"""Stage 5: plans between frames. Greedy and lookahead walk the metric map, A* searches with it, Dijkstra without it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from scipy.sparse import csr_array

from plan2vec.search import ball, best_first, path_length

Method = Literal["greedy", "lookahead", "astar", "dijkstra"]
METHODS: tuple[str, ...] = get_args(Method)
Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (m,) frames, (m,) goals -> (m,) learned steps between them


@dataclass(frozen=True)
class Plan:
    """An answer of the planner; no path is an answer too."""

    start: int  # frame number; -1: the image is not on the map
    goal: int
    method: str
    nodes: list[int] | None  # start, ..., goal; None: no path found
    length: float | None  # steps
    num_expanded: int  # times the neighbours of a frame were asked for
    num_touched: int  # distinct frames returned by these queries
    reason: str = ""  # why there is no path
    touched: frozenset[int] = field(default=frozenset(), compare=False, repr=False)  # the frames that num_touched counts, for pictures

    @property
    def hops(self) -> int | None:
        return None if self.nodes is None else len(self.nodes) - 1


def make_plan(graph: csr_array, distance: Distance, start: int, goal: int, method: str, lookahead: int = 3, memory: bool = False) -> Plan:
    """Plan from frame to frame by one of METHODS; `memory` keeps greedy and lookahead from choosing a frame twice."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, but is {method!r}")
    if method in ("greedy", "lookahead"):
        depth = lookahead if method == "lookahead" else 1
        return _walk_one(graph, lambda nodes: distance(nodes, np.full(len(nodes), goal)), start, goal, method, depth, memory)
    heuristic = (lambda nodes: distance(nodes, np.full(len(nodes), goal))) if method == "astar" else None
    path = best_first(graph, start, goal, heuristic)
    length = path.length if path.nodes is not None else None
    reason = "" if path.nodes is not None else "no path leads from start to goal on the graph"
    return Plan(start, goal, method, path.nodes, length, path.num_expanded, path.num_touched, reason, path.touched)


def hop_lengths(graph: csr_array, nodes: list[int]) -> list[float]:
    """Steps of every hop of a path on the graph; they add up to the plan's length."""
    lengths = []
    for node, following in pairwise(nodes):
        row = slice(graph.indptr[node], graph.indptr[node + 1])
        lengths.append(float(graph.data[row][graph.indices[row] == following].min()))
    return lengths


def _walk_one(
    graph: csr_array, to_goal: Callable[[np.ndarray], np.ndarray], start: int, goal: int, method: str, depth: int, memory: bool
) -> Plan:
    """Again and again to the frame of the `depth`-hop ball that D puts nearest to the goal (the paper's k-step plan-ahead)."""
    nodes, visited = [start], {start}
    touched: set[int] = set()
    num_expanded = 0
    while nodes[-1] != goal:
        around = ball(graph, nodes[-1], depth)
        num_expanded += around.num_expanded
        touched.update(around.nodes[len(around.nodes) - around.num_touched :].tolist())  # its first node only if a query returned it
        choices = np.arange(1, len(around.nodes))
        if memory:
            choices = choices[[node not in visited for node in around.nodes[1:].tolist()]]
        if not len(choices):
            return _stuck(start, goal, method, num_expanded, touched, f"stuck at frame {nodes[-1]}: every neighbour was visited")
        place = choices[np.argmin(to_goal(around.nodes[choices]))]
        if np.any(around.nodes[choices] == goal):
            place = choices[around.nodes[choices] == goal][0]
        hops = around.hops_to(int(place))[1:]
        if hops[-1] in visited:  # without memory the walk would go round forever
            return _stuck(start, goal, method, num_expanded, touched, f"{method} goes in a circle at frame {hops[-1]}")
        nodes += hops
        visited.update(hops if memory else hops[-1:])  # frames passed on the way chose nothing yet
    return Plan(start, goal, method, nodes, path_length(graph, nodes), num_expanded, len(touched), "", frozenset(touched))


def _stuck(start: int, goal: int, method: str, num_expanded: int, touched: set[int], reason: str) -> Plan:
    reason += "; try lookahead, astar or dijkstra"
    return Plan(start, goal, method, None, None, num_expanded, len(touched), reason, frozenset(touched))


@dataclass(frozen=True)
class Walks:
    """Many walks at once: column e of `nodes` is a walk; entries after its last hop are -1."""

    nodes: np.ndarray  # (max_hops + 1, num_walks)
    arrived: np.ndarray  # (num_walks,) bool


def walk_many(
    graph: csr_array, distance: Distance, starts: np.ndarray, goals: np.ndarray, max_hops: np.ndarray, epsilon: float, memory: bool,
    has_arrived: Callable[[np.ndarray, np.ndarray], np.ndarray], rng: np.random.Generator,
) -> Walks:  # fmt: skip
    """Greedy 1-step walks, all at once: hop to the neighbour with the least D to the goal, with probability epsilon to a random one.

    has_arrived(nodes, goals) is asked before the first hop and after each.
    """
    trace = np.full((int(max_hops.max(initial=0)) + 1, len(starts)), -1, np.int64)
    trace[0] = starts
    arrived = has_arrived(starts, goals)
    walking = np.flatnonzero(~arrived & (max_hops > 0))
    for hop in range(1, len(trace)):
        if not len(walking):
            break
        here = trace[hop - 1, walking]
        allowed = _unvisited(graph, trace[:hop, walking]) if memory else None
        following = _next_nodes(graph, distance, here, goals[walking], epsilon, allowed, rng)
        trace[hop, walking] = following
        walking = walking[following >= 0]
        arrived[walking] = has_arrived(trace[hop, walking], goals[walking])
        walking = walking[~arrived[walking] & (max_hops[walking] > hop)]
    return Walks(trace, arrived)


def _next_nodes(
    graph: csr_array, distance: Distance, here: np.ndarray, goals: np.ndarray, epsilon: float, allowed: np.ndarray | None,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """(m,) the greedy (or random) neighbour of each node; -1 where there is none."""
    owner, neighbor = neighbor_lists(graph, here)
    score = distance(neighbor, goals[owner]).astype(np.float64)
    score[neighbor == goals[owner]] = -1.0  # the goal itself is recognized
    random = rng.random(len(here)) < epsilon
    score[random[owner]] = rng.random(np.count_nonzero(random[owner]))
    if allowed is not None:
        score[~allowed] = np.inf
    least = np.full(len(here), np.inf)
    np.minimum.at(least, owner, score)
    best = np.flatnonzero((score == least[owner]) & (score < np.inf))[::-1]
    following = np.full(len(here), -1)
    following[owner[best]] = neighbor[best]  # reversed, so that the first of equals stays
    return following


def neighbor_lists(graph: csr_array, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All neighbours of the nodes, end to end: (owner, neighbor), where owner is the place in `nodes`."""
    counts = np.diff(graph.indptr)[nodes]
    owner = np.repeat(np.arange(len(nodes)), counts)
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, graph.indices[graph.indptr[nodes][owner] + offset].astype(np.int64)


def _unvisited(graph: csr_array, trace: np.ndarray) -> np.ndarray:
    """(number of neighbours,) bool: the neighbour does not stand in its walk's trace (hops, m)."""
    owner, neighbor = neighbor_lists(graph, trace[-1])
    n = graph.shape[0]
    visited = (trace + np.arange(trace.shape[1]) * n).ravel()
    return ~np.isin(owner * n + neighbor, visited)
