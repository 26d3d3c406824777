"""The rope and one seed: greedy plans on its graph, and how good they truly are.

The simulator's state is read by the scores alone (`rope.TrueMoves`), never by what is trained."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.baselines import VectorScorer, l2_distance
from plan2vec.data import Sequences
from plan2vec.domains import rope
from plan2vec.experiments.base_scene import Found, Scene, degree_and_parts, mean_or_none
from plan2vec.graph.build import build_graph, closure_entries, edge_rows
from plan2vec.graph.neighbors import NearPairs, near_pairs
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.planner import Distance, walk_many
from plan2vec.results.experiment import timed
from plan2vec.search.gpu_search import distances_from_on
from plan2vec.search.shortest_paths import connected_parts, shortest_plans

CUT_OFF = 1.4  # times `max_gap`: a pair beyond it counts as far (paper)
NUM_GOALS = 100  # different goals of the tasks
MAX_HOPS = 200  # of a plan
MAX_NEIGHBORS = 200  # nearest frames of a frame among which a baseline's closest pairs are looked for


class RopeScene(Scene):
    @cached_property
    def recordings(self) -> Sequences:
        return rope.simulate(self.size.rope_sequences, self.size.rope_drags, self.seed)

    @cached_property
    def moves(self) -> rope.TrueMoves:
        return rope.true_moves(self.recordings)

    @cached_property
    def timed_map(self) -> tuple[VectorScorer, float]:
        return timed(self.train_map, self.site, self.config)

    @cached_property
    def learned(self) -> Distance:
        return self.timed_map[0].on(self.recordings.frames)

    @cached_property
    def tasks(self) -> "Tasks":
        return draw_tasks(self.moves, self.size.episodes, self.device, rng_at(self.seed, Stream.ROPE_TASKS))


def baseline_way(scene: RopeScene, name: str) -> tuple[csr_array, Distance]:
    """A baseline's graph, and l2 between its vectors: of pixels, the local metric (SPTM), or a network of the map's
    size. The graph has the recorded transitions, and as many closest pairs as the scene's graph has closures."""
    sequence, frames, dim = scene.recordings.sequence, scene.recordings.frames, scene.config.dim
    vectors = scene.local_vectors(frames) if name == "SPTM" else scene.baseline(
        f"VAE {dim}-d" if name == "VAE" else name, dim).vectors(frames)
    num_closures = int(np.count_nonzero(closure_entries(scene.site.graph, sequence))) // 2
    pairs = closest_pairs(vectors, num_closures, sequence, scene.device)
    graph = build_graph(sequence, pairs, None, False, np.ones(len(sequence), bool))
    return graph, l2_distance(torch.from_numpy(vectors).to(scene.device))


def closest_pairs(vectors: np.ndarray, num: int, sequence: np.ndarray, device: torch.device) -> NearPairs:
    """The `num` pairs of least l2 distance without recorded steps, among the 200 nearest of each frame."""
    found = near_pairs(vectors, np.inf, MAX_NEIGHBORS, device)
    found = found.select((sequence[found.first] != sequence[found.second]) | (found.second - found.first >= 2))
    return found.select(np.sort(np.argsort(found.distance, kind="stable")[:num]))


class Tasks(NamedTuple):
    """Starts and goals that are no local move apart, the same for every method."""

    starts: np.ndarray  # (m,)
    goals: np.ndarray  # (m,)
    fewest: np.ndarray  # (m,) true local moves from start to goal; inf: none lead there


def draw_tasks(moves: rope.TrueMoves, num: int, device: torch.device, rng: np.random.Generator) -> Tasks:
    """`num` random pairs, less those that are a local move apart from the beginning."""
    n = len(moves.position)
    goals, starts = np.resize(rng.choice(n, min(NUM_GOALS, n), replace=False), num), rng.integers(n, size=num)
    apart = ~moves.are_local(starts, goals)
    starts, goals = starts[apart], goals[apart]
    ends, place = np.unique(goals, return_inverse=True)
    return Tasks(starts, goals, distances_from_on(device, moves.graph(), ends)[place, starts])


def greedy_plans(graph: csr_array, distance: Distance, tasks: Tasks) -> np.ndarray:
    """(hops + 1, m) frames of memoryless plans, -1 after the end: at the goal, or before a frame comes again."""
    num_hops, rng = np.full(len(tasks.starts), MAX_HOPS), rng_at(0, Stream.ROPE_TASKS)
    nodes, _ = walk_many(graph, distance, tasks.starts, tasks.goals, num_hops, 0.0, False, np.equal, rng)
    for walk in nodes.T:
        again = np.setdiff1d(np.arange(len(walk)), np.unique(walk, return_index=True)[1])
        if len(again):
            walk[again[0] :] = -1
    return nodes[: np.flatnonzero((nodes >= 0).any(axis=1))[-1] + 1]


def plan_ends(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) hops of each plan, (m,) its last frame."""
    hops = (nodes >= 0).sum(axis=0) - 1
    return hops, nodes[hops, np.arange(len(hops))]


def plan_scores(moves: rope.TrueMoves, tasks: Tasks, nodes: np.ndarray) -> dict[str, float | None]:
    """What plans are truly worth, by the simulator's state; `rope_table` says what each score is."""
    hops, last = plan_ends(nodes)
    local, step = np.ones(nodes[1:].shape, bool), nodes[1:] >= 0
    local[step] = moves.are_local(nodes[:-1][step], nodes[1:][step])
    reached = moves.are_local(last, tasks.goals)
    counted = reached & np.isfinite(tasks.fewest)
    ratio = (hops + (last != tasks.goals))[counted] / tasks.fewest[counted]
    return {"goal_reached": float(reached.mean()), "local_step_share": mean_or_none(local[step]),
            "valid_plans": float((reached & local.all(axis=0)).mean()), "length_ratio": mean_or_none(ratio)}


def cost_scores(graph: csr_array, sequence: np.ndarray, tasks: Tasks, nodes: np.ndarray) -> dict[str, float | None]:
    """What plans cost, and for how many tasks the graph has one."""
    hops, last = plan_ends(nodes)
    expanded, part = hops + (last != tasks.goals), connected_parts(graph)[1]
    joined, across = part[tasks.starts] == part[tasks.goals], sequence[tasks.starts] != sequence[tasks.goals]
    shortest = shortest_plans(graph, tasks.starts, tasks.goals)[1][joined]
    return {"expanded_per_step": float(expanded[joined].sum() / shortest.sum()) if shortest.sum() else None,
            "cross_sequence_plans": mean_or_none(joined[across])}


def graph_scores(graph: csr_array, sequence: np.ndarray, moves: rope.TrueMoves) -> Found:
    """What a graph is like: `false_edge_share` is the share of its closures that are no local moves."""
    closure = closure_entries(graph, sequence) & (edge_rows(graph) < graph.indices)
    local = moves.are_local(edge_rows(graph)[closure], graph.indices[closure])
    return degree_and_parts(graph) | {"false_edge_share": float(1 - local.mean()) if len(local) else None}
