"""Shortest distances to learn from, searched round by round: what a metric map is taught.

A round has new random goals, and for each the shortest distance from every frame. It is a function of its number alone,
so a killed run continues in it. On a CPU child processes search the next round while the map learns from this one."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from plan2vec.config import EmbeddingConfig
from plan2vec.graph.build import joined_nodes
from plan2vec.learning.processes import size
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.search.gpu_search import DeviceGraph, distances_from_on
from plan2vec.search.shortest_paths import choose_workers

BEYOND = 3.0  # steps of error from where on Huber's loss grows no faster than the error


def distance_loss(distance: Tensor, target: Tensor, kind: str, mean: float) -> Tensor:
    """Mean error over pairs with a path; errors are taken over at least one step.

    | kind     | of an error e of a path                | in training                                                |
    |----------|----------------------------------------|------------------------------------------------------------|
    | relative | abs(e) / path                          | never fails, forgives the few large errors that trap walks |
    | sammon   | e^2 / path                             | punishes them; one update of a squared head can undo a map |
    | huber    | e^2 / path, linear beyond 3 steps of e | punishes them, and no single update can do much harm       |
    """
    known = target < torch.inf
    path = torch.where(known, target, 0)
    error = (distance - path).abs() * known
    if kind in ("sammon", "huber"):
        inner = error if kind == "sammon" else error.clamp(max=BEYOND)
        error = inner * (2 * error - inner) / mean  # over the mean path, so that losses of all kinds are of one size
    error = error / path.clamp(min=1)
    return error.sum() / known.sum().clamp(min=1)


@dataclass(frozen=True)
class Round:
    """Planned distances to learn from for a while: targets[k, v] is the length from frame v to goals[k]; inf: none."""

    goals: np.ndarray  # (r,)
    targets: Tensor  # [r, n] float32, steps, where the network is

    @cached_property
    def nodes_with_all_paths(self) -> np.ndarray | None:
        """(m,) nodes with a path, where each has one to every goal, as on a graph of one part; else None."""
        known = self.targets.isfinite()
        return np.flatnonzero(known[0].cpu().numpy()) if bool((known == known[0]).all()) else None

    def nodes_with_a_path(self, rows: np.ndarray) -> np.ndarray:
        """(m,) nodes that have a path to one of these goals."""
        if self.nodes_with_all_paths is not None:
            return self.nodes_with_all_paths
        known = self.targets[torch.from_numpy(rows).to(self.targets.device)].isfinite()
        return np.flatnonzero(known.any(dim=0).cpu().numpy())


def mean_length(graph: csr_array, seed: int, device: torch.device) -> float:
    """Mean finite distance to a few goals: the natural scale of the targets."""
    lengths = distances_from_on(device, graph, rng_at(seed, Stream.MAP_SCALE).choice(joined_nodes(graph), 8))
    return float(lengths[np.isfinite(lengths) & (lengths > 0)].mean())


class Rounds:
    def __init__(self, graph: csr_array, config: EmbeddingConfig, seed: int, device: torch.device,
                 allowed: np.ndarray | None = None, num_updates: int = 0):
        """For updates 0 to `num_updates` - 1: searches beside training end with the last of them."""
        self.config, self.seed, self.device, self.allowed = config, seed, device, allowed
        self.backward = DeviceGraph(graph.T.tocsr(), device)  # from a goal: rows hold distances *to* it
        self.reachable, self.last = joined_nodes(graph), (num_updates - 1) // config.updates_per_round
        self.number, self.current = -1, Round(np.empty(0, np.int64), torch.empty(0))
        self.searched_beside: dict[int, Future[Round]] = {}
        num_workers = choose_workers(graph, config.goals_per_round)
        self.takes_child_processes = size() == 1 and device.type == "cpu" and num_workers > 1

    def at(self, number: int) -> Round:
        """The round of this number; `allowed` [g, v] hides the tasks that may not be learned from."""
        if number != self.number:
            found = self.searched_beside.pop(number).result() if number in self.searched_beside else self.search(number)
            if self.takes_child_processes and number < self.last:  # they work beside training
                waiting = ThreadPoolExecutor(1)
                self.searched_beside = {number + 1: waiting.submit(self.search, number + 1)}
                waiting.shutdown(wait=False)
            if self.allowed is not None:
                allowed = torch.from_numpy(self.allowed[found.goals]).to(self.device)
                found = Round(found.goals, found.targets.masked_fill(~allowed, torch.inf))
            self.number, self.current = number, found
        return self.current

    def search(self, number: int) -> Round:
        rng = rng_at(self.seed, Stream.MAP_GOALS, number)
        goals = rng.choice(self.reachable, min(self.config.goals_per_round, len(self.reachable)), replace=False)
        return Round(goals, self.backward.shared_distances_from(goals))
