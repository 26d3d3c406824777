"""The scorecard: how good graph, map and plans are. Ground truth is used here and in pictures, never before."""

import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec import validity
from plan2vec.data import Sequences, SuccessRule, split_sequences
from plan2vec.domains import find_domain
from plan2vec.graph.build import edge_rows, places
from plan2vec.graph.join import candidate_pairs, join_frames
from plan2vec.graph.join_moving import score_views
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.recorded_pairs import recorded_pairs
from plan2vec.local_metric import local_vectors
from plan2vec.model import Model
from plan2vec.planner import Distance, Plan, make_plans, walk_many
from plan2vec.search.balls import is_neighbor
from plan2vec.search.gpu_search import DeviceGraph
from plan2vec.search.shortest_paths import connected_parts, distances_from, shortest_plans
from plan2vec.version import __version__

NUM_GOALS, NUM_COST_PLANS = 64, 16  # goals of the episodes that need exact distances; plans whose cost is counted
REACH = 1.7  # `max_gap`s: pairs that the local metric puts nearer are candidates for closures
NUM_RANKED = 4000  # frames, at most, whose candidates for closures are ranked


@dataclass(frozen=True)
class Episodes:
    """Random tasks, and what an exact planner needs for them."""

    starts: np.ndarray  # (m,)
    goals: np.ndarray  # (m,)
    length: np.ndarray  # (m,) steps of the shortest path; inf: none
    hops: np.ndarray  # (m,) its hops


def scorecard(graph: csr_array, sequence: np.ndarray, distance: Distance, seed: int,
              truth: validity.Truth | None = None, rule: SuccessRule = SuccessRule(), false_beyond: float | None = None,
              min_gap: int = 0, device: torch.device = torch.device("cpu"), costs: bool = True) -> dict[str, object]:
    """The numbers that follow from graph, map and truth. `costs`: plans are made one by one, which takes long."""
    rng = np.random.default_rng(seed)
    episodes = draw_episodes(graph, sequence, rule.episodes, rng)
    card = graph_numbers(graph) | map_numbers(graph, distance, rng, graph.shape[0], device)
    card |= plan_numbers(graph, distance, episodes, rule, rng)
    card |= cost_numbers(graph, distance, episodes) if costs else {}
    if truth is None:
        return card | {"loop_closures": int(np.count_nonzero(validity.counted_closures(graph, sequence, min_gap)))}
    card |= truth_numbers(graph, sequence, distance, truth, episodes, rule, rng)
    return card | validity.closure_numbers(graph, sequence, truth, false_beyond, min_gap)


def graph_numbers(graph: csr_array) -> dict[str, object]:
    num_parts, part = connected_parts(graph)
    both_ways = (graph != graph.T).nnz == 0
    num_edges = int(np.count_nonzero(graph.indices > edge_rows(graph))) if both_ways else graph.nnz
    return {"num_frames": graph.shape[0], "num_edges": num_edges, "num_components": num_parts,
            "largest_component_share": float(np.mean(part == 0))}


def map_numbers(graph: csr_array, distance: Distance, rng: np.random.Generator, num_frames: int,
                device: torch.device = torch.device("cpu")) -> dict[str, object]:
    """How well D agrees with the graph, on pairs from sources drawn anew, of the first `num_frames` frames."""
    sources = rng.choice(num_frames, min(NUM_GOALS, num_frames), replace=False)
    search = DeviceGraph(graph, device).distances_from  # not `distances_from_on`, which all processes must call
    ends = rng.integers(num_frames, size=(len(sources), 400))
    exact = np.take_along_axis(search(sources).cpu().numpy(), ends, axis=1).ravel()
    learned = distance(np.repeat(sources, ends.shape[1]), ends.ravel())
    known = np.isfinite(exact) & (exact > 0)
    if known.sum() < 3:
        return {"embedding_error": None, "spearman_graph": None}
    error = np.abs(learned[known] - exact[known]) / exact[known]
    return {"embedding_error": float(error.mean()), "spearman_graph": rank_agreement(learned[known], exact[known])}


def rank_agreement(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's correlation; None where one side is constant."""
    from scipy.stats import spearmanr  # takes a quarter of the program's start, so only where it is needed

    return float(spearmanr(first, second).statistic) if np.ptp(first) > 0 and np.ptp(second) > 0 else None


def draw_episodes(graph: csr_array, sequence: np.ndarray, num: int, rng: np.random.Generator) -> Episodes:
    """Random starts and goals; goals repeat so that exact distances stay cheap."""
    frames = np.unique(places(graph, sequence))  # standing still is no task of its own
    num_goals = min(NUM_GOALS, num, len(frames))
    goals, starts = np.resize(rng.choice(frames, num_goals, replace=False), num), rng.choice(frames, num)
    return Episodes(starts, goals, *shortest_plans(graph, starts, goals)[:2])


def allowed_hops(episodes: Episodes, rule: SuccessRule) -> np.ndarray:
    """(m,) hops a walker may take: the rule's, or its factor x the shortest + 10 (0 where no path exists)."""
    if rule.max_hops is not None:
        return np.full(len(episodes.starts), rule.max_hops)
    allowed = rule.hops_factor * np.nan_to_num(episodes.hops, posinf=0) + 10
    return np.where(np.isfinite(episodes.hops), allowed, 0).astype(np.int64)


def plan_numbers(graph: csr_array, distance: Distance, episodes: Episodes, rule: SuccessRule,
                 rng: np.random.Generator) -> dict[str, object]:
    """Greedy walks to the goal's neighbourhood."""
    allowed = allowed_hops(episodes, replace(rule, max_hops=None))
    near = lambda nodes, goals: is_neighbor(graph, nodes, goals)  # noqa: E731
    _, arrived = walk_many(graph, distance, episodes.starts, episodes.goals, allowed, 0.0, False, near, rng)
    connected = np.isfinite(episodes.length)
    return {"success_graph": float(arrived[connected].mean()) if connected.any() else None}


def cost_numbers(graph: csr_array, distance: Distance, episodes: Episodes) -> dict[str, object]:
    """Of the first episodes with a path of some length: path_ratio of greedy plans that arrive; costs per hop. A cost
    per hop is nodes over hops of the *shortest* path, failures included."""
    chosen = np.flatnonzero(np.isfinite(episodes.hops) & (episodes.hops >= 2))[:NUM_COST_PLANS]
    starts, goals, hops = episodes.starts[chosen], episodes.goals[chosen], episodes.hops[chosen].sum()
    tasks = zip(starts.tolist(), goals.tolist(), distances_from(graph, starts), strict=True)
    plans = {"dijkstra": [dijkstra_cost(graph, *task) for task in tasks]}
    plans |= {method: make_plans(graph, distance, starts, goals, method) for method in ("astar", "greedy")}
    pairs = zip(plans["greedy"], episodes.length[chosen], strict=True)
    ratios = [plan.length / shortest for plan, shortest in pairs if plan.length is not None and shortest > 0]
    per_hop = lambda counts: float(np.sum(counts) / hops) if hops else None  # noqa: E731
    return {"path_ratio": float(np.mean(ratios)) if ratios else None,
            "touched_per_step": {method: per_hop([plan.num_touched for plan in plans[method]]) for method in plans},
            "expanded_per_step": {method: per_hop([plan.num_expanded for plan in plans[method]]) for method in plans}}


def dijkstra_cost(graph: csr_array, start: int, goal: int, length: np.ndarray | None = None) -> Plan:
    """What Dijkstra would expand and touch, from all distances (n,): in pure Python the search itself takes seconds."""
    length = distances_from(graph, np.array([start]))[0] if length is None else length
    expanded, is_touched = length < length[goal], np.zeros(graph.shape[0], bool)
    is_touched[graph.indices[np.repeat(expanded, np.diff(graph.indptr))]] = True
    return Plan(start, goal, "dijkstra", None, float(length[goal]), int(expanded.sum()), int(is_touched.sum()))


def truth_numbers(graph: csr_array, sequence: np.ndarray, distance: Distance, truth: validity.Truth, episodes: Episodes,
                  rule: SuccessRule, rng: np.random.Generator) -> dict[str, object]:
    """Success by the domain's rule, and the rank agreement of D with true distance."""
    if rule.max_hops is not None:  # no exact distances needed, so starts and goals can all differ
        starts, goals = rng.integers(graph.shape[0], size=(2, rule.episodes))
        episodes = Episodes(starts, goals, np.empty(0), np.empty(0))
    radius = rule.radius if rule.radius is not None else 3 * float(np.median(validity.true_steps(sequence, truth)))
    near = lambda nodes, goals: truth.straight_between(nodes, goals) < radius  # noqa: E731
    _, arrived = walk_many(graph, distance, episodes.starts, episodes.goals, allowed_hops(episodes, rule), rule.epsilon,
                           rule.memory, near, rng)
    drawn = rng.integers(graph.shape[0], size=(2, 20_000))
    judged = (*drawn, truth.between(*drawn)) if truth.knows_ways else validity.walking_pairs(sequence, truth, rng)
    first, second, away = judged
    return {"success": float(arrived.mean()), "success_radius": radius,
            "spearman_true": rank_agreement(distance(first, second), away) if len(away) > 2 else None}


def evaluate(model: Model, rule: SuccessRule | None = None, false_beyond: float | None = None,
             min_gap: int | None = None, costs: bool = True) -> dict[str, object]:
    """The scorecard of a fitted `model`; held-out sequences have theirs, on a graph of their own, under "holdout".

    `rule`: when a plan counts as a success; None: the domain's. `false_beyond`: true distance above which a closure
    is false; None: seven median steps, in a simulated domain three of the longest. `min_gap`: closures inside a
    sequence count from this many frames on; None: 20, in a simulated domain 0. `costs`: also count what planners expand
    and judge plans by the truth, which takes longest. Returns name -> number; the reference says what each means."""
    began = time.perf_counter()
    sequences, config, rule = model.sequences, model.config, rule or default_rule(model.sequences)
    min_gap = (0 if find_domain(sequences.domain) else validity.SOON) if min_gap is None else min_gap
    kept, held_out = split_sequences(sequences.sequence, config.holdout, rng_at(config.seed, Stream.HOLDOUT))
    card = _score_frames(model, model.graph, kept, rule, false_beyond, min_gap, costs)
    card |= candidate_numbers(model, kept) if costs else {}
    card |= {"local_accuracy": model.local_accuracy, "reversibility": model.reversibility,
             "repeated": model.built.repeated, "flow": model.built.flow,
             "recognized": model.trained.recognized if config.view == "moving" else None,  # else nothing follows
             "estimated_false_closures": model.built.estimated_false, "directed": model.directed, "view": config.view}
    if config.holdout > 0:
        card["holdout"] = None  # where no step was held out, in a short recording
        recorded = sequences.without_truth()
        if len(recorded_pairs(recorded, held_out, 1).first[0]):
            graph = join_frames(recorded, model.trained, model.found_config, model.images(), held_out).graph
            card["holdout"] = _score_frames(model, graph, held_out, rule, false_beyond, min_gap, costs)
    seconds = model.seconds | {"evaluate": round(time.perf_counter() - began, 3)}
    return card | {"radius": model.radius, "seconds": seconds | {"total": round(sum(seconds.values()), 3)},
                   "device": str(model.device), "seed": config.seed, "version": __version__}


def default_rule(sequences: Sequences) -> SuccessRule:
    domain = find_domain(sequences.domain)
    return domain.success if domain else SuccessRule()


def truth_of(sequences: Sequences) -> validity.Truth | None:
    """Positions with the domain's geodesic where it is known."""
    if sequences.position is None:
        return None
    domain = find_domain(sequences.domain)
    straight = (domain.straight if domain else None) or validity.straight_line
    geodesic = (domain.geodesic if domain else None) or straight
    return validity.Truth(sequences.position, geodesic, straight, sequences.heading, sequences.label, bool(domain))


def candidate_numbers(model: Model, chosen: np.ndarray) -> dict[str, object]:
    """How well the mean of a run of views, else the local distance, tells true from false candidates for closures."""
    metric, config, sequences, truth = model.local_metric, model.config, model.sequences, truth_of(model.sequences)
    if truth is None:
        return {}
    numbers = np.flatnonzero(chosen)
    if config.view == "moving" and len(numbers) <= NUM_RANKED:
        numbers, _, _, scored = score_views(sequences.without_truth(), metric, model.local_vectors, config,
                                            model.images(), chosen)
        pairs, confidence = scored.pairs, -scored.means[0]
    else:
        numbers = np.sort(np.random.default_rng(config.seed).permutation(numbers)[:NUM_RANKED])
        images = FrameTensors(model.images().frames[numbers], model.device)
        reach, every = REACH * config.max_gap, np.arange(len(numbers))
        pairs = candidate_pairs(metric, images, local_vectors(metric, images), every, reach, config)
        confidence = -pairs.distance
    pairs = pairs.renumbered(numbers)
    return validity.ranking_numbers(pairs.first, pairs.second, confidence, sequences.sequence, truth)


def _score_frames(model: Model, graph: csr_array, chosen: np.ndarray, rule: SuccessRule, false_beyond: float | None,
                  min_gap: int, costs: bool) -> dict[str, object]:
    """The scorecard of the chosen frames (n,) bool alone."""
    numbers, truth = np.flatnonzero(chosen), truth_of(model.sequences)
    truth = None if truth is None else truth.of(numbers)
    distance = lambda first, second: model.distance_between(numbers[first], numbers[second])  # noqa: E731
    graph = graph if chosen.all() else graph[numbers][:, numbers]
    sequence, seed, label = model.sequences.sequence[numbers], model.config.seed, model.sequences.label
    card = scorecard(graph, sequence, distance, seed, truth, rule, false_beyond, min_gap, model.device, costs)
    if truth is not None and costs:
        card |= validity.validity_numbers(graph, sequence, distance, truth, np.random.default_rng(seed))
    return card if label is None else card | validity.label_numbers(graph, sequence, label[numbers], min_gap)
