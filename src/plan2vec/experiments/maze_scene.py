"""One room and one seed: its recordings, its local metric and its graphs, each made once, and walks on them.

Two sets are recorded. The *large* one (1,000 rollouts) teaches the local metric. The *small* one (100 other rollouts)
is what the paper's Table 1 plans on. Positions are read by scores, and by the oracle, whose graph is of true
neighbours.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.baselines import Judge
from plan2vec.baselines.registry import Map
from plan2vec.config import Config
from plan2vec.data import Sequences, SuccessRule
from plan2vec.domains import find_domain
from plan2vec.domains.maze import ROOMS, simulate
from plan2vec.evaluation import Truth, closure_numbers, graph_numbers, rank_agreement, straight_line, truth_of
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import near_pairs
from plan2vec.learning.random_streams import rng_at
from plan2vec.learning.training import Journal
from plan2vec.local_metric import LocalMetric, train_local_metric
from plan2vec.pipeline import join_frames, train_map
from plan2vec.planner import Distance, walk_many
from plan2vec.results.rows import Case, Row, make_rows
from plan2vec.results.settings import Settings, Size, timed
from plan2vec.search.gpu_search import distances_from_on

FRESH = 1000  # added to the seed of the small set, so that no seed records the same twice
WALKS = 60  # stage number of the walks' random numbers
TRULY_NEAR = 0.03  # metres within which the oracle joins frames: the mean length of a step


@dataclass(frozen=True)
class Site:
    """Frames and their graph: where walks take place."""

    sequences: Sequences
    graph: csr_array
    radius: float  # steps within which frames were joined
    report: str
    seconds: float  # that joining them took
    seed: int
    episodes: int
    name: str = ""  # small | large | oracle: those that a scene keeps

    @property
    def frames(self) -> np.ndarray:
        return self.sequences.frames

    @cached_property
    def truth(self) -> Truth:
        truth = truth_of(self.sequences)
        assert truth is not None
        return truth

    @cached_property
    def rule(self) -> SuccessRule:
        domain = find_domain(self.sequences.domain)
        assert domain is not None
        return replace(domain.success, episodes=self.episodes)

    @cached_property
    def tasks(self) -> np.ndarray:
        """(2, episodes) random starts and goals, the same for every method."""
        return rng_at(self.seed, WALKS).integers(len(self.frames), size=(2, self.episodes))

    @property
    def max_hops(self) -> int:
        assert self.rule.max_hops is not None
        return self.rule.max_hops

    def success(self, distance: Distance, graph: csr_array | None = None, max_hops: int | None = None) -> float:
        """Share of the greedy walks that arrive, by the rule of Table 1: no memory, epsilon 0.05, 50 hops, within 0.02
        m.
        """
        position, radius = self.truth.position, self.rule.radius
        starts, goals = self.tasks
        walks = walk_many(
            self.graph if graph is None else graph, distance, starts, goals,
            np.full(self.episodes, max_hops or self.max_hops), self.rule.epsilon, self.rule.memory, lambda nodes,
            ends: straight_line(position[nodes], position[ends]) < radius, rng_at(self.seed, WALKS, 1)
        )
        return float(walks.arrived.mean())

    def agreement(self, distance: Distance) -> float | None:
        """Rank correlation of a distance with the true way around the walls, over 20,000 random pairs of a frame and a
        task's goal.
        """
        rng = rng_at(self.seed, WALKS, 2)
        first, second = rng.integers(len(self.frames), size=20_000), rng.choice(self.tasks[1], 20_000)
        return rank_agreement(distance(first, second), self.truth.between(first, second))

    def exact_distance(self, device: torch.device) -> Distance:
        """Distance on the graph itself, to the goals of the tasks only."""
        return self._looked_up(lambda goals: distances_from_on(device, self.graph.T.tocsr(), goals))

    def random_distance(self) -> Distance:
        """An independent random score a frame and goal of the tasks: a judge without any sense, but always of the same
        opinion.
        """
        rng = rng_at(self.seed, WALKS, 3)
        return self._looked_up(lambda goals: rng.random((len(goals), len(self.frames)), np.float32))

    def _looked_up(self, table_of: Callable[[np.ndarray], np.ndarray]) -> Distance:
        """D from all frames to the goals of the tasks, out of a table (goals, frames)."""
        goals, place = np.unique(self.tasks[1], return_inverse=True)
        number = np.full(len(self.frames), -1)
        number[self.tasks[1]] = place
        table = table_of(goals)
        return lambda nodes, asked: table[number[asked], nodes]

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """What the graph is like: degree, parts, false closures."""
        parts = graph_numbers(self.graph)
        closures = closure_numbers(self.graph, self.sequences.sequence, self.truth, None, 0)
        return {
            "radius": self.radius, "degree": self.graph.nnz / len(self.frames),
            "num_components": parts["num_components"], "largest_component_share": parts["largest_component_share"],
            "false_edge_share": closures["false_edge_share"]
        }


class MazeScene:
    """One room and one seed. Every product is made when it is first asked for."""

    def __init__(self, room: str, seed: int, size: Size, device: torch.device):
        self.room, self.seed, self.size, self.device = room, seed, size, device
        self.config = replace(size.config, seed=seed)
        self.maps: dict[tuple[str, Config], Map] = {}
        self.baselines: dict[str, Judge] = {}  # trained on the large set

    @cached_property
    def recordings(self) -> Sequences:
        return simulate(self.room, self.size.num_rollouts, seed=self.seed)

    @cached_property
    def timed_metric(self) -> tuple[LocalMetric, float]:
        """The local metric of the large set, and the seconds it took."""
        return timed(lambda: self.train_metric(self.recordings, self.config)[0])

    @property
    def metric(self) -> LocalMetric:
        return self.timed_metric[0]

    def train_metric(self, sequences: Sequences, config: Config) -> tuple[LocalMetric, float | None]:
        return train_local_metric(
            sequences.frames, sequences.sequence, config.encoder, config.max_gap, config.local_metric, config.seed,
            self.device
        )

    @cached_property
    def fresh(self) -> Sequences:
        return simulate(self.room, self.size.graph_rollouts, seed=self.seed + FRESH)

    @cached_property
    def small(self) -> Site:
        """The 1,000 fresh frames that Table 1 plans on."""
        return self.join(self.fresh, self.metric, self.config, "small")

    @cached_property
    def oracle(self) -> Site:
        """The same frames, joined by recorded steps and where their true places are near."""
        assert self.fresh.position is not None
        every, nobody_left_out = np.ones(self.fresh.num_frames, bool), self.fresh.num_frames
        pairs = near_pairs(self.fresh.position / TRULY_NEAR, 1.0, nobody_left_out, self.device)
        graph = build_graph(self.fresh.sequence, pairs, None, False, every)
        return Site(self.fresh, graph, 1.0, "", 0.0, self.seed, self.size.episodes, "oracle")

    @cached_property
    def large(self) -> Site:
        """The 10,000 frames that the local metric learned from, planned on themselves."""
        return self.join(self.recordings, self.metric, self.config, "large")

    def join(self, sequences: Sequences, metric: LocalMetric, config: Config, name: str = "") -> Site:
        """Stage 2 on some recordings."""
        everything = np.ones(sequences.num_frames, bool)
        built, seconds = timed(join_frames, sequences.without_truth(), metric, config, self.device, everything)
        return Site(sequences, built.graph, built.radius, built.report, seconds, self.seed, self.size.episodes, name)

    def train_map(self, site: Site, config: Config) -> Map:
        """Stage 4 on a site; on those that the scene keeps, once a configuration."""
        known = self.maps.get((site.name, config)) if site.name else None
        if known is None:
            known = Map(train_map(site.frames, site.graph, config, self.device, Journal()), self.device)
            if site.name:
                self.maps[site.name, config] = known
        return known

    def lacks(self, settings: Settings, experiment: str, setting: dict, method: str) -> bool:
        return settings.lacks(Case(experiment, self.room, setting, method, self.seed))

    def rows(
        self, settings: Settings, experiment: str, setting: dict, method: str, metrics: dict[str, Any], seconds: float
    ) -> list[Row]:
        return make_rows(Case(experiment, self.room, setting, method, self.seed), metrics, seconds, settings.stamp)

    def shared_rows(self, settings: Settings, experiment: str, site: Site, frames: str) -> list[Row]:
        """What all methods of a scene share: the graph, and the time of local metric and graph."""
        setting = {"frames": frames}
        return self.rows(settings, experiment, setting, "graph", site.numbers, self.timed_metric[1] + site.seconds)


def first_rollouts(sequences: Sequences, num: int) -> Sequences:
    """The first so many rollouts, so that smaller sets are parts of larger ones."""
    kept = np.searchsorted(sequences.sequence, num)
    assert sequences.position is not None and sequences.action is not None
    return replace(
        sequences, frames=sequences.frames[:kept], sequence=sequences.sequence[:kept],
        position=sequences.position[:kept], action=sequences.action[:kept]
    )


def maze_scenes(settings: Settings, rooms: tuple[str, ...] = tuple(ROOMS)) -> Iterator["MazeScene"]:
    """The chosen rooms and seeds."""
    return (maze_scene(room, seed, settings.size, settings.device) for room, seed in settings.scenes(rooms))


@lru_cache(maxsize=32)
def maze_scene(room: str, seed: int, size: Size, device: torch.device) -> MazeScene:
    """The scene, shared by all experiments of a process."""
    return MazeScene(room, seed, size, device)
