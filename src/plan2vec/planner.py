"""Stage 5: plans between frames. Greedy and lookahead walk by the map's distance D; A* searches by it.

`make_plans` answers a user, by every method. `walk_many` scores and teaches: greedy walks, with random hops."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from plan2vec.data import slices
from plan2vec.search.balls import Balls, balls, edge_lengths, neighbor_lists
from plan2vec.search.shortest_paths import Path, best_first, checked_nodes

METHODS = ("greedy", "lookahead", "astar", "dijkstra")
WALKS_AT_ONCE = 4096  # that look one hop ahead
NODES_AT_ONCE = 2**26  # frames x walks whose visits are marked: 2 x 64 MB
Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (m,) frames, (m,) goals -> (m,) learned steps between them


@dataclass(frozen=True)
class Plan:
    """An answer of the planner; no path is an answer too."""

    start: int  # frame number; -1: the image is not on the map
    goal: int  # likewise
    method: str  # that made it, one of METHODS
    nodes: list[int] | None  # start, ..., goal; None: no path found
    length: float | None  # steps
    num_expanded: int  # times the neighbours of a frame were asked for
    num_touched: int  # distinct frames returned by these queries
    reason: str = ""  # why there is no path
    touched: frozenset[int] = field(default=frozenset(), compare=False, repr=False)  # what num_touched counts

    def __repr__(self) -> str:
        ends = f"Plan from {self.start} to {self.goal} by {self.method}"
        if self.nodes is None:
            return f"{ends}: no path\n  {self.reason}"
        shown = self.nodes if len(self.nodes) <= 12 else [*self.nodes[:6], "...", *self.nodes[-5:]]
        hops = f"{self.hops} hop{'' if self.hops == 1 else 's'}"
        return f"{ends}: {hops}, {self.length:.1f} steps, {self.num_expanded} expanded\n  {' '.join(map(str, shown))}"

    @property
    def hops(self) -> int | None:
        """Edges of the path; a hop may be longer or shorter than a step. None: no path."""
        return None if self.nodes is None else len(self.nodes) - 1


def make_plan(graph: csr_array, distance: Distance, start: int, goal: int, method: str, lookahead: int = 3,
              memory: bool = False, heuristic_weight: float = 1.0) -> Plan:
    tasks = np.array([start]), np.array([goal])
    return make_plans(graph, distance, *tasks, method, lookahead, memory, heuristic_weight)[0]


def make_plans(graph: csr_array, distance: Distance, starts: np.ndarray, goals: np.ndarray, method: str,
               lookahead: int = 3, memory: bool = False, heuristic_weight: float = 1.0) -> list[Plan]:
    """Plans from each start to the goal beside it by one of METHODS: as one at a time, many times faster. `memory`
    keeps greedy and lookahead from choosing a frame twice. `heuristic_weight` above 1 makes A* trust D more than the
    steps so far: fewer nodes touched, plans at most so much longer."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, but is {method!r}")
    starts, goals = checked_nodes(graph, starts), checked_nodes(graph, goals)
    tasks = list(zip(starts.tolist(), goals.tolist(), strict=True))
    if method in ("greedy", "lookahead"):
        depth = lookahead if method == "lookahead" else 1  # balls grow as a room's area does: with its square
        at_once = max(1, min(WALKS_AT_ONCE // max(1, depth) ** 2, NODES_AT_ONCE // graph.shape[0]))
        return [plan for part in slices(len(starts), at_once)
                for plan in _walk_all(graph, distance, starts[part], goals[part], method, depth, memory)]
    to = lambda goal: lambda nodes: distance(nodes, np.full(len(nodes), goal))  # noqa: E731
    heuristic = (lambda goal: None) if method == "dijkstra" else to
    return [plan_of(best_first(graph, start, goal, heuristic(goal), heuristic_weight), start, goal, method)
            for start, goal in tasks]


def plan_of(path: Path, start: int, goal: int, method: str) -> Plan:
    """A search's path as an answer of the planner."""
    is_none = path.nodes is None
    return Plan(start, goal, method, path.nodes, None if is_none else path.length, path.num_expanded, path.num_touched,
                "no path leads from start to goal on the graph" if is_none else "", path.touched)


def hop_lengths(graph: csr_array, nodes: list[int]) -> list[float]:
    """Steps of every hop of a path on the graph; they add up to the plan's length."""
    return edge_lengths(graph, np.array(nodes[:-1], np.int64), np.array(nodes[1:], np.int64)).tolist()


def _walk_all(graph: csr_array, distance: Distance, starts: np.ndarray, goals: np.ndarray, method: str, depth: int,
              memory: bool) -> list[Plan]:
    """Again and again to the frame of the `depth`-hop ball that D puts nearest the goal: k-step plan-ahead."""
    everyone, here = np.arange(len(starts)), starts.copy()
    visited, touched = (np.zeros((len(starts), graph.shape[0]), bool) for _ in range(2))
    visited[everyone, starts] = True
    trace, reasons = [(everyone, starts)], [""] * len(starts)  # (walks, frames entered) per hop; why a walk ended
    num_expanded, going = np.zeros(len(starts), np.int64), everyone[starts != goals]
    while len(going):
        around = balls(graph, here[going], depth)
        walk, is_start = going[around.owner], around.parents < 0
        returned = ~is_start | around.start_touched[around.owner]
        touched[walk[returned], around.nodes[returned]] = True
        num_expanded[going] += around.num_expanded
        allowed = ~is_start & ~visited[walk, around.nodes] if memory else ~is_start
        chosen = _nearest(around, goals[going], distance, allowed)
        for which in going[chosen < 0].tolist():
            reasons[which] = f"stuck at frame {here[which]}: every neighbour was visited"
        going, chosen = going[chosen >= 0], chosen[chosen >= 0]
        circling = visited[going, around.nodes[chosen]]  # without memory these walks would go round forever
        for which, frame in zip(going[circling].tolist(), around.nodes[chosen[circling]].tolist(), strict=True):
            reasons[which] = f"{method} goes in a circle at frame {frame}"
        going, chosen = going[~circling], chosen[~circling]
        passed = [(going[which], frames) for which, frames in around.hops_to(chosen)]
        for which, frames in passed if memory else passed[-1:]:  # without memory only the chosen frame counts
            visited[which, frames] = True
        trace += passed
        here[going] = around.nodes[chosen]
        going = going[here[going] != goals[going]]
    plans, other = [], "lookahead, " if method == "greedy" else ""
    for which, (nodes, length) in enumerate(_paths(graph, trace)):
        answers = frozenset(np.flatnonzero(touched[which]).tolist())
        reason = f"{reasons[which]}; try {other}astar or dijkstra" if reasons[which] else ""
        plans.append(Plan(int(starts[which]), int(goals[which]), method, None if reason else nodes,
                          None if reason else length, int(num_expanded[which]), len(answers), reason, answers))
    return plans


def _paths(graph: csr_array, trace: list[tuple[np.ndarray, np.ndarray]]) -> list[tuple[list[int], float]]:
    """Of each walk its frames, in their order, and its length in steps."""
    walk, frame = (np.concatenate(parts) for parts in zip(*trace, strict=True))
    order = np.argsort(walk, kind="stable")
    walk, frame = walk[order], frame[order]
    hop = np.flatnonzero(walk[1:] == walk[:-1])
    length = np.bincount(walk[hop], edge_lengths(graph, frame[hop], frame[hop + 1]), minlength=walk[-1] + 1)
    nodes = np.split(frame, np.flatnonzero(np.diff(walk)) + 1)
    return [(part.tolist(), steps) for part, steps in zip(nodes, length.tolist(), strict=True)]


def _nearest(around: Balls, goals: np.ndarray, distance: Distance, allowed: np.ndarray) -> np.ndarray:
    """(m,) index of each ball's allowed frame that D puts nearest the goal, the goal itself first; -1: none."""
    index = np.flatnonzero(allowed)
    owner, nodes = around.owner[index], around.nodes[index]
    score = distance(nodes, goals[owner]).astype(np.float64)
    score[nodes == goals[owner]] = -1.0
    best = _least_of_each(owner, score, len(goals))
    return np.where(best >= 0, index[best], -1) if len(index) else best


def _least_of_each(owner: np.ndarray, score: np.ndarray, num: int) -> np.ndarray:
    """(num,) index of each owner's first least score; -1 where it has none. `owner` is ascending."""
    best = np.full(num, -1)
    if len(owner):
        is_first = np.diff(owner, prepend=-1) != 0
        least = np.minimum.reduceat(score, np.flatnonzero(is_first))
        winners = np.flatnonzero(score == least[np.cumsum(is_first) - 1])[::-1]
        best[owner[winners]] = winners  # reversed, so that the first of equals stays
    return best


def walk_many(graph: csr_array, distance: Distance, starts: np.ndarray, goals: np.ndarray, max_hops: np.ndarray,
              epsilon: float, memory: bool, has_arrived: Callable[[np.ndarray, np.ndarray], np.ndarray],
              rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Greedy walks, all at once: hop to the neighbour of least D to the goal, with probability epsilon to a random one.
    has_arrived(nodes, goals) is asked before the first hop and after each. Returns (max_hops + 1, m) the nodes of each
    walk in a column, -1 after its last hop, and (m,) bool: which arrived."""
    trace = np.full((int(max_hops.max(initial=0)) + 1, len(starts)), -1, np.int64)
    trace[0], arrived = starts, has_arrived(starts, goals)
    walking = np.flatnonzero(~arrived & (max_hops > 0))
    for hop in range(1, len(trace)):
        if not len(walking):
            break
        following = _next_nodes(graph, distance, trace[:hop, walking], goals[walking], epsilon, memory, rng)
        trace[hop, walking] = following
        walking = walking[following >= 0]
        arrived[walking] = has_arrived(trace[hop, walking], goals[walking])
        walking = walking[~arrived[walking] & (max_hops[walking] > hop)]
    return trace, arrived


def _next_nodes(graph: csr_array, distance: Distance, trace: np.ndarray, goals: np.ndarray, epsilon: float,
                memory: bool, rng: np.random.Generator) -> np.ndarray:
    """(m,) the greedy (or random) neighbour of the last node of each walk's trace (hops, m); -1 where there is none."""
    here = trace[-1]
    owner, neighbor = neighbor_lists(graph, here)
    score = distance(neighbor, goals[owner]).astype(np.float64)
    score[neighbor == goals[owner]] = -1.0  # the goal itself is recognized
    random = rng.random(len(here)) < epsilon
    score[random[owner]] = rng.random(np.count_nonzero(random[owner]))
    if memory:
        n = graph.shape[0]
        score[np.isin(owner * n + neighbor, trace + np.arange(len(here)) * n)] = np.inf
    best = _least_of_each(owner, score, len(here))
    return np.where((best >= 0) & (score[best] < np.inf), neighbor[best], -1) if len(neighbor) else best
