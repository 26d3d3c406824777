"""The scorecard: how good graph, map and plans are. Ground truth is used here and in pictures, never before."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import spearmanr

from plan2vec.data import Sequences, SuccessRule, split_sequences, training_frames, transitions
from plan2vec.domains import find_domain
from plan2vec.graph.build import closure_entries, edge_rows, places
from plan2vec.graph.direction import each_pair_once
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.recorded_pairs import recorded_pairs
from plan2vec.planner import Distance, Plan, make_plans, walk_many
from plan2vec.search.balls import neighbor_lists
from plan2vec.search.shortest_paths import choose_workers, connected_parts, distances_from
from plan2vec.version import __version__

if TYPE_CHECKING:
    import torch

    from plan2vec.model import Model

NUM_GOALS = 64  # goals of the episodes that need exact distances
NUM_COST_PLANS = 16  # plans whose cost is counted
EDGES_AT_ONCE = 2**18  # closures whose true distances are looked at together
MIN_TRUE_STEP = 1e-9  # recorded steps shorter than this did not move


def straight_line(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The true distance where a domain knows no better."""
    return np.linalg.norm(first - second, axis=-1)


@dataclass(frozen=True)
class Truth:
    """What only evaluation may know."""

    position: np.ndarray  # (n, k)
    distance: Callable[[np.ndarray, np.ndarray], np.ndarray]  # true distance between positions (m, k), (m, k) -> (m,)
    straight: Callable[[np.ndarray, np.ndarray], np.ndarray] = straight_line  # walls ignored: of steps and of arriving

    def between(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return self.distance(self.position[first], self.position[second])


@dataclass(frozen=True)
class Episodes:
    """Random tasks, and what an exact planner needs for them."""

    starts: np.ndarray  # (m,)
    goals: np.ndarray  # (m,)
    length: np.ndarray  # (m,) steps of the shortest path; inf: none
    hops: np.ndarray  # (m,) its hops


def scorecard(
    graph: csr_array, sequence: np.ndarray, distance: Distance, seed: int, truth: Truth | None = None,
    rule: SuccessRule = SuccessRule(), false_beyond: float | None = None, min_gap: int = 0,
    device: torch.device | None = None, costs: bool = True
) -> dict[str, object]:
    """The numbers that follow from graph, map and truth; names and units as the documentation lists them.

    Without `costs` no plan is made one by one to count what it touches, which takes long in a large graph.
    """
    rng = np.random.default_rng(seed)
    episodes = draw_episodes(graph, sequence, rule.episodes, rng)
    card = graph_numbers(graph) | map_numbers(graph, distance, rng, graph.shape[0], device)
    card |= plan_numbers(graph, distance, episodes, rule, rng)
    card |= cost_numbers(graph, distance, episodes) if costs else {}
    if truth is None:
        return card | {"loop_closures": int(np.count_nonzero(counted_closures(graph, sequence, min_gap)))}
    card |= truth_numbers(graph, sequence, distance, truth, episodes, rule, rng)
    return card | closure_numbers(graph, sequence, truth, false_beyond, min_gap)


def graph_numbers(graph: csr_array) -> dict[str, object]:
    num_parts, part = connected_parts(graph)
    both_ways = (graph != graph.T).nnz == 0
    return {
        "num_frames": graph.shape[0],
        "num_edges": int(np.count_nonzero(graph.indices > edge_rows(graph))) if both_ways else graph.nnz,
        "num_components": num_parts,
        "largest_component_share": float(np.mean(part == 0)),
    }


def map_numbers(graph: csr_array, distance: Distance, rng: np.random.Generator, num_frames: int,
                device: torch.device | None = None) -> dict[str, object]:
    """How well D agrees with the graph, on pairs from sources drawn anew, of the first `num_frames` frames."""
    sources = rng.choice(num_frames, min(NUM_GOALS, num_frames), replace=False)
    if device is not None and device.type == "cuda":  # not `distances_from_on`, which all processes must call
        from plan2vec.search.gpu_graph import DeviceGraph
        from plan2vec.search.gpu_search import DeviceSearch

        lengths = DeviceSearch(DeviceGraph.of(graph, device)).distances_from(sources).cpu().numpy()
    else:
        lengths = distances_from(graph, sources, choose_workers(graph, len(sources)))
    ends = rng.integers(num_frames, size=(len(sources), 400))
    exact = np.take_along_axis(lengths, ends, axis=1).ravel()
    learned = distance(np.repeat(sources, ends.shape[1]), ends.ravel())
    known = np.isfinite(exact) & (exact > 0)
    if known.sum() < 3:
        return {"embedding_error": None, "spearman_graph": None}
    error = np.abs(learned[known] - exact[known]) / exact[known]
    return {"embedding_error": float(error.mean()), "spearman_graph": rank_agreement(learned[known], exact[known])}


def rank_agreement(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's correlation; None where one side is constant."""
    return float(spearmanr(first, second).statistic) if np.ptp(first) > 0 and np.ptp(second) > 0 else None


def draw_episodes(graph: csr_array, sequence: np.ndarray, num: int, rng: np.random.Generator) -> Episodes:
    """Random starts and goals; goals repeat so that exact distances stay cheap."""
    frames = np.unique(places(graph, sequence))  # standing still is no task of its own
    num_goals = min(NUM_GOALS, num, len(frames))
    drawn = rng.choice(frames, num_goals, replace=False)
    backward = graph.T.tocsr()
    length, onward = distances_from(backward, drawn, choose_workers(graph, num_goals), predecessors=True)
    goal = np.arange(num) % num_goals
    starts = rng.choice(frames, num)
    hops, walking, node = np.zeros(num, np.int64), np.arange(num), starts
    while len(walking):  # each along its goal's tree: `onward` names the next node, and is negative at the end
        node = onward[goal[walking], node]
        walking, node = walking[node >= 0], node[node >= 0]
        hops[walking] += 1
    hops = np.where(np.isfinite(length[goal, starts]), hops, np.inf)
    return Episodes(starts, drawn[goal], length[goal, starts], hops.astype(np.float32))


def allowed_hops(episodes: Episodes, rule: SuccessRule) -> np.ndarray:
    """(m,) hops a walker may take: the rule's, or its factor x the shortest + 10 (0 where no path exists)."""
    if rule.max_hops is not None:
        return np.full(len(episodes.starts), rule.max_hops)
    allowed = rule.hops_factor * np.nan_to_num(episodes.hops, posinf=0) + 10
    return np.where(np.isfinite(episodes.hops), allowed, 0).astype(np.int64)


def plan_numbers(graph: csr_array, distance: Distance, episodes: Episodes, rule: SuccessRule,
                 rng: np.random.Generator) -> dict[str, object]:
    """Greedy walks to the goal's neighbourhood, no memory."""
    rule = replace(rule, max_hops=None, epsilon=0.0, memory=False)
    walks = walk_many(graph, distance, episodes.starts, episodes.goals, allowed_hops(episodes, rule), 0.0, False,
                      lambda nodes, goals: is_neighbor(graph, nodes, goals), rng)
    connected = np.isfinite(episodes.length)
    return {"success_graph": float(walks.arrived[connected].mean()) if connected.any() else None}


def cost_numbers(graph: csr_array, distance: Distance, episodes: Episodes) -> dict[str, object]:
    """Of the first episodes with a path of some length: path_ratio of greedy plans that arrive; costs per hop.

    A cost per hop is nodes over hops of the *shortest* path, failures included.
    """
    chosen = np.flatnonzero(np.isfinite(episodes.hops) & (episodes.hops >= 2))[:NUM_COST_PLANS]
    starts, goals, hops = episodes.starts[chosen], episodes.goals[chosen], episodes.hops[chosen].sum()
    lengths = distances_from(graph, starts, choose_workers(graph, len(starts)))
    tasks = zip(starts.tolist(), goals.tolist(), lengths, strict=True)
    plans = {"dijkstra": [dijkstra_cost(graph, *task) for task in tasks]}
    plans |= {method: make_plans(graph, distance, starts, goals, method) for method in ("astar", "greedy")}
    pairs = zip(plans["greedy"], episodes.length[chosen], strict=True)
    ratios = [plan.length / shortest for plan, shortest in pairs if plan.length is not None and shortest > 0]
    touched = {method: np.sum([plan.num_touched for plan in some]) for method, some in plans.items()}
    expanded = {method: np.sum([plan.num_expanded for plan in some]) for method, some in plans.items()}
    return {
        "path_ratio": float(np.mean(ratios)) if ratios else None,
        "touched_per_step": {method: float(num / hops) if hops else None for method, num in touched.items()},
        "expanded_per_step": {method: float(num / hops) if hops else None for method, num in expanded.items()},
    }


def is_neighbor(graph: csr_array, nodes: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """(m,) bool: the goal is the node itself or one hop away."""
    owner, neighbor = neighbor_lists(graph, nodes)
    hit = np.zeros(len(nodes), bool)
    hit[owner[neighbor == goals[owner]]] = True
    return hit | (nodes == goals)


def dijkstra_cost(graph: csr_array, start: int, goal: int, length: np.ndarray | None = None) -> Plan:
    """What Dijkstra would expand and touch, from all distances (n,): in pure Python the search itself takes seconds."""
    length = distances_from(graph, np.array([start]))[0] if length is None else length
    expanded = length < length[goal]
    is_touched = np.zeros(graph.shape[0], bool)
    is_touched[graph.indices[np.repeat(expanded, np.diff(graph.indptr))]] = True
    return Plan(start, goal, "dijkstra", None, float(length[goal]), int(expanded.sum()), int(is_touched.sum()))


def truth_numbers(graph: csr_array, sequence: np.ndarray, distance: Distance, truth: Truth, episodes: Episodes,
                  rule: SuccessRule, rng: np.random.Generator) -> dict[str, object]:
    """Success by the domain's rule, and the rank agreement of D with true distance."""
    if rule.max_hops is not None:  # no exact distances needed, so starts and goals can all differ
        starts, goals = rng.integers(graph.shape[0], size=(2, rule.episodes))
        episodes = Episodes(starts, goals, np.empty(0), np.empty(0))
    radius = rule.radius if rule.radius is not None else 3 * float(np.median(true_steps(sequence, truth)))
    arrived = lambda nodes, goals: truth.straight(truth.position[nodes], truth.position[goals]) < radius  # noqa: E731
    walks = walk_many(graph, distance, episodes.starts, episodes.goals, allowed_hops(episodes, rule), rule.epsilon,
                      rule.memory, arrived, rng)
    first, second = rng.integers(graph.shape[0], size=(2, 20_000))
    return {
        "success": float(walks.arrived.mean()),
        "success_radius": radius,
        "spearman_true": rank_agreement(distance(first, second), truth.between(first, second)),
    }


def closure_numbers(graph: csr_array, sequence: np.ndarray, truth: Truth, false_beyond: float | None,
                    min_gap: int) -> dict[str, object]:
    """Loop closures, and the share whose ends are truly farther apart than `false_beyond`."""
    counted = counted_closures(graph, sequence, min_gap)
    if false_beyond is None:
        false_beyond = 3 * float(true_steps(sequence, truth).max())
    first, second = edge_rows(graph)[counted], graph.indices[counted]
    parts = (slice(begin, begin + EDGES_AT_ONCE) for begin in range(0, len(first), EDGES_AT_ONCE))
    num_false = sum(int(np.count_nonzero(truth.between(first[part], second[part]) > false_beyond)) for part in parts)
    return {"false_edge_share": num_false / max(1, len(first)), "loop_closures": len(first),
            "false_beyond": false_beyond}


def counted_closures(graph: csr_array, sequence: np.ndarray, min_gap: int) -> np.ndarray:
    """(nnz,) bool: closures, each pair once, without those of one sequence less than `min_gap` frames apart."""
    row, column = edge_rows(graph), graph.indices
    close_in_time = (sequence[row] == sequence[column]) & (np.abs(row - column) < min_gap)
    return closure_entries(graph, sequence) & each_pair_once(graph) & ~close_in_time


def true_steps(sequence: np.ndarray, truth: Truth) -> np.ndarray:
    """True lengths of the recorded steps that moved."""
    start = transitions(sequence)
    steps = truth.straight(truth.position[start], truth.position[start + 1])
    return steps[steps > MIN_TRUE_STEP] if (steps > MIN_TRUE_STEP).any() else np.ones(1)


def evaluate(model: Model, rule: SuccessRule | None = None, false_beyond: float | None = None, min_gap: int = 0,
             costs: bool = True) -> dict[str, object]:
    """The scorecard of a fitted `model`; held-out sequences have theirs, on a graph of their own, under "holdout".

    `rule`: when a plan counts as a success; None: the domain's. `false_beyond`: true distance above which a closure
    is false; None: three times the longest recorded step. `min_gap`: closures inside a sequence count from this many
    frames on. `costs`: also count what planners expand, which takes longest. Returns name -> number; the reference
    says what each means.
    """
    from plan2vec.graph.join import join_frames
    from plan2vec.learning.frame_tensors import FrameTensors

    began = time.perf_counter()
    sequences, config = model.sequences, model.config
    rule = rule or default_rule(sequences)
    kept = training_frames(sequences.sequence, config.holdout, rng_at(config.seed, Stream.HOLDOUT))
    card = _score_frames(model, model.graph, kept, rule, false_beyond, min_gap, costs)
    card |= {"local_accuracy": model.local_accuracy, "reversibility": model.reversibility}
    if config.holdout > 0:
        held_out = split_sequences(sequences.sequence, config.holdout, rng_at(config.seed, Stream.HOLDOUT))[1]
        card["holdout"] = None  # where no step was held out, in a short recording
        recorded = sequences.without_truth()
        if len(recorded_pairs(recorded, held_out, 1).first[0]):
            images = FrameTensors(recorded.frames, model.device)
            graph = join_frames(recorded, model.local_metric, model.found_config, images, held_out).graph
            card["holdout"] = _score_frames(model, graph, held_out, rule, false_beyond, min_gap, costs)
    seconds = model.seconds | {"evaluate": round(time.perf_counter() - began, 3)}
    return card | {"radius": model.radius, "seconds": seconds | {"total": round(sum(seconds.values()), 3)},
                   "device": str(model.device), "seed": config.seed, "version": __version__}


def default_rule(sequences: Sequences) -> SuccessRule:
    """The domain's rule, else the general one."""
    domain = find_domain(sequences.domain)
    return domain.success if domain else SuccessRule()


def truth_of(sequences: Sequences) -> Truth | None:
    """Positions with the domain's geodesic where it is known."""
    if sequences.position is None:
        return None
    domain = find_domain(sequences.domain)
    if domain is None:
        return Truth(sequences.position, straight_line)
    straight = domain.straight or straight_line
    return Truth(sequences.position, domain.geodesic or straight, straight)


def _score_frames(model: Model, graph: csr_array, chosen: np.ndarray, rule: SuccessRule, false_beyond: float | None,
                  min_gap: int, costs: bool) -> dict[str, object]:
    """The scorecard of the chosen frames (n,) bool alone."""
    numbers = np.flatnonzero(chosen)
    truth = truth_of(model.sequences)
    if truth is not None:
        truth = replace(truth, position=truth.position[numbers])
    distance = lambda first, second: model.distance_between(numbers[first], numbers[second])  # noqa: E731
    graph = graph if chosen.all() else graph[numbers][:, numbers]
    return scorecard(graph, model.sequences.sequence[numbers], distance, model.config.seed, truth, rule, false_beyond,
                     min_gap, model.device, costs)
