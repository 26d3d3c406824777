"""One room and one seed: its recordings, its local metric and its graphs, each made once, and walks on them.

Two sets are recorded. The *large* one (1,000 rollouts) teaches the local metric. The *small* one (100 other rollouts) is what
the paper's Table 1 plans on. Positions are read by the walks' success rule and by nothing else.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.baselines import Judge, pair_distance
from plan2vec.config import Config
from plan2vec.data import Sequences, SuccessRule
from plan2vec.device_search import distances_from_on
from plan2vec.domains import find_domain
from plan2vec.domains.maze import ROOMS, simulate
from plan2vec.embedding import Embedding, EmbeddingConfig
from plan2vec.encoder import FrameTensors, encode
from plan2vec.evaluation import Truth, closure_numbers, graph_numbers, rank_agreement, straight_line, truth_of
from plan2vec.experiments.rows import Case, Row, Stamp, case_key, make_rows
from plan2vec.local_metric import LocalMetric, LocalMetricConfig, train_local_metric
from plan2vec.pipeline import join_frames, train_map
from plan2vec.planner import Distance, walk_many
from plan2vec.training import Journal, rng_at
from plan2vec.value_iteration import ValueIterationConfig

FRESH = 1000  # added to the seed of the small set, so that no seed records the same twice
WALKS = 60  # stage number of the walks' random numbers
Stage = TypeVar("Stage")
Product = TypeVar("Product")
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True)
class Size:
    """How large an experiment is."""

    num_rollouts: int = 1000  # of 10 frames, in the large set
    graph_rollouts: int = 100  # in the small set
    stacked_rollouts: int = 1000  # of the large set, joined where the local metric is a stacked one, which scores every pair anew
    episodes: int = 2000  # walks a seed
    max_updates: int | None = None  # no training takes more; None: as configured
    max_batch: int | None = None
    config: Config = field(default_factory=Config)

    @property
    def is_smoke(self) -> bool:
        return self.max_updates is not None

    def shorten(self, stage: Stage) -> Stage:
        """A stage's configuration with at most `max_updates` updates of at most `max_batch` samples."""
        limits = {"num_updates": self.max_updates, "batch_size": self.max_batch}
        known = {name: limit for name, limit in limits.items() if limit is not None and hasattr(stage, name)}
        return replace(stage, **{name: min(getattr(stage, name), limit) for name, limit in known.items()})  # type: ignore[type-var]


SMOKE = Size(
    num_rollouts=10, graph_rollouts=8, stacked_rollouts=3, episodes=50, max_updates=6, max_batch=8,
    config=Config(
        local_metric=LocalMetricConfig(num_updates=30, batch_size=24),
        embedding=EmbeddingConfig(num_updates=12, goals_per_update=16, nodes_per_update=48, goals_per_round=32),
        value_iteration=ValueIterationConfig(num_updates=8, num_rounds=2, rollouts=8, rollouts_per_update=4, hops=6),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """What to run; empty selections mean all that the experiment has."""

    seeds: tuple[int, ...] = (0,)
    rooms: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    size: Size = Size()
    device: torch.device = field(default_factory=partial(torch.device, "cpu"))
    arrays: Path = Path("arrays")  # folder of the small arrays that figures need
    stamp: Stamp = field(default_factory=partial(Stamp, "unknown", "unknown"))
    finished: frozenset[str] = frozenset()  # cases that are not run again

    def chosen(self, kind: str, known: tuple[str, ...]) -> tuple[str, ...]:
        """The selected rooms, methods or blocks among those that the experiment has."""
        asked = getattr(self, kind)
        return tuple(name for name in known if not asked or name in asked)

    def lacks(self, experiment: str, scene: "Scenario", setting: dict, method: str) -> bool:
        """The case is still to be run."""
        return case_key(Case(experiment, scene.room, setting, method, scene.seed)) not in self.finished

    def scenarios(self, rooms: tuple[str, ...] = tuple(ROOMS)) -> Iterator["Scenario"]:
        """All chosen rooms, seed by seed; a smoke run takes one room unless it is told which."""
        if self.size.is_smoke and not self.rooms:
            rooms = rooms[-1:]
        for seed in self.seeds:
            for room in self.chosen("rooms", rooms):
                yield scenario(room, seed, self.size, self.device)


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
    name: str = ""  # small | large: those that a scenario keeps

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
        """Share of the greedy walks that arrive, by the rule of Table 1: no memory, epsilon 0.05, 50 hops, within 0.02 m."""
        position, radius = self.truth.position, self.rule.radius
        starts, goals = self.tasks
        walks = walk_many(
            self.graph if graph is None else graph, distance, starts, goals, np.full(self.episodes, max_hops or self.max_hops),
            self.rule.epsilon, self.rule.memory, lambda nodes, ends: straight_line(position[nodes], position[ends]) < radius,
            rng_at(self.seed, WALKS, 1),
        )  # fmt: skip
        return float(walks.arrived.mean())

    def agreement(self, distance: Distance) -> float | None:
        """Rank correlation of a distance with the true way around the walls, over 20,000 random pairs of a frame and a task's goal."""
        rng = rng_at(self.seed, WALKS, 2)
        first, second = rng.integers(len(self.frames), size=20_000), rng.choice(self.tasks[1], 20_000)
        return rank_agreement(distance(first, second), self.truth.between(first, second))

    def exact_distance(self, device: torch.device) -> Distance:
        """Distance on the graph itself, to the goals of the tasks only."""
        goals, place = np.unique(self.tasks[1], return_inverse=True)
        number = np.full(len(self.frames), -1)
        number[self.tasks[1]] = place
        lengths = distances_from_on(device, self.graph.T.tocsr(), goals)
        return lambda nodes, asked: lengths[number[asked], nodes]

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """What the graph is like: degree, parts, false closures."""
        parts = graph_numbers(self.graph)
        closures = closure_numbers(self.graph, self.sequences.sequence, self.truth, None, 0)
        return {
            "radius": self.radius, "degree": self.graph.nnz / len(self.frames), "num_components": parts["num_components"],
            "largest_component_share": parts["largest_component_share"], "false_edge_share": closures["false_edge_share"],
        }  # fmt: skip


class Scenario:
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
            sequences.frames, sequences.sequence, config.encoder, config.max_gap, config.local_metric, config.seed, self.device
        )

    @cached_property
    def small(self) -> Site:
        """The 1,000 fresh frames that Table 1 plans on."""
        return self.join(simulate(self.room, self.size.graph_rollouts, seed=self.seed + FRESH), self.metric, self.config, "small")

    @cached_property
    def large(self) -> Site:
        """The 10,000 frames that the local metric learned from, planned on themselves."""
        return self.join(self.recordings, self.metric, self.config, "large")

    def join(self, sequences: Sequences, metric: LocalMetric, config: Config, name: str = "") -> Site:
        """Stage 2 on some recordings."""
        everything = np.ones(sequences.num_frames, bool)
        built, seconds = timed(join_frames, sequences.without_truth(), metric, config, self.device, everything)
        return Site(sequences, built.graph, built.radius, built.report, seconds, self.seed, self.size.episodes, name)

    def train_map(self, site: Site, config: Config) -> "Map":
        """Stage 4 on a site; on the two that the scenario keeps, once a configuration."""
        known = self.maps.get((site.name, config)) if site.name else None
        if known is None:
            known = Map(train_map(site.frames, site.graph, config, self.device, Journal()), self.device)
            if site.name:
                self.maps[site.name, config] = known
        return known

    def rows(self, settings: Settings, experiment: str, setting: dict, method: str, metrics: dict[str, Any], seconds: float) -> list[Row]:
        return make_rows(Case(experiment, self.room, setting, method, self.seed), metrics, seconds, settings.stamp)

    def shared_rows(self, settings: Settings, experiment: str, site: Site, frames: str) -> list[Row]:
        """What all methods of a scenario share: the graph, and the time of local metric and graph."""
        setting = {"frames": frames}
        return self.rows(settings, experiment, setting, "graph", site.numbers, self.timed_metric[1] + site.seconds)


def first_rollouts(sequences: Sequences, num: int) -> Sequences:
    """The first so many rollouts, so that smaller sets are parts of larger ones."""
    kept = np.searchsorted(sequences.sequence, num)
    assert sequences.position is not None and sequences.action is not None
    return replace(
        sequences, frames=sequences.frames[:kept], sequence=sequences.sequence[:kept], position=sequences.position[:kept],
        action=sequences.action[:kept],
    )  # fmt: skip


@lru_cache(maxsize=32)
def scenario(room: str, seed: int, size: Size, device: torch.device) -> Scenario:
    """The scenario, shared by all experiments of a process."""
    return Scenario(room, seed, size, device)


@dataclass(frozen=True)
class Map:
    """A learned embedding as a judge of distances, on the frames it was fitted to or on others."""

    embedding: Embedding
    device: torch.device

    def vectors(self, frames: np.ndarray) -> np.ndarray:
        return float(self.embedding.scale) * encode(self.embedding.encoder, FrameTensors(frames, self.device))

    def on(self, frames: np.ndarray) -> Distance:
        vectors = torch.from_numpy(self.vectors(frames)).to(self.device)
        return pair_distance(vectors, vectors, self.embedding.head)


def timed(make: Callable[Arguments, Product], *args: Arguments.args, **kwargs: Arguments.kwargs) -> tuple[Product, float]:
    """What a function gives, and the seconds it took."""
    began = perf_counter()
    product = make(*args, **kwargs)
    return product, perf_counter() - began
