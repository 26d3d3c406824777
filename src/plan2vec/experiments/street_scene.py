"""One part of a city and one seed: network, walks, recordings, local metric and graphs, each made once; and walks by
Table 2's rules.

Four passes of short random walks see every view four times. *Clean* recordings show a view by the same image at every
visit, as StreetLearn does: frames equal to the last pixel are one node, so a node is a view. In *noisy* ones no two
visits are alike and each is a node of its own. What a node truly shows, and the street network, are read by success
rules, agreement and pictures alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.baselines import Judge
from plan2vec.baselines.registry import Map, baseline_trainers
from plan2vec.config import ClosureConfig, Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import Sequences, equal_frames
from plan2vec.domains.streets import (
    NOISY,
    STEP,
    Streets,
    ViewConfig,
    record,
    street_distance,
    street_graph,
    street_network,
    walk_streets,
)
from plan2vec.evaluation import graph_numbers, rank_agreement, straight_line
from plan2vec.graph.build import closure_entries, edge_rows, join_equal
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.random_streams import rng_at
from plan2vec.learning.training import Journal
from plan2vec.local_metric import NEAR, LocalMetric, draw_judged, pair_distances, recorded_pairs, train_local_metric
from plan2vec.pipeline import join_frames, train_map
from plan2vec.planner import Distance, walk_many
from plan2vec.results.rows import Case, Row, make_rows
from plan2vec.results.settings import Settings, Size, timed
from plan2vec.search.gpu_search import distances_from_on
from plan2vec.search.shortest_paths import hop_counts

DOMAINS = ("street-tiny", "street-small", "street-medium", "street-large")
TITLES = {"street-tiny": "Tiny", "street-small": "Small", "street-medium": "Medium", "street-large": "Large"}
NETWORKS = {"manhattan": "Manhattan panorama graph, rendered city", "generated": "generated city, rendered"}
NUM_UPDATES = {"street-tiny": 1500, "street-small": 3000, "street-medium": 4000, "street-large": 5500}  # of the map
# of the local metric
METRIC_UPDATES = {"street-tiny": 300, "street-small": 500, "street-medium": 700, "street-large": 1000}
# goals, and nodes, of an update of the map
BLOCK = {"street-tiny": 128, "street-small": 256, "street-medium": 512, "street-large": 768}
WALKS = 70  # stage number of the walks' random numbers
PASSES = 4
FALSE_BEYOND = 3 * STEP  # metres along the streets beyond which a closure is false


@dataclass(frozen=True)
class Rule:
    """Which goals are drawn, and how many hops a walk may take."""

    reach: int  # hops of the street network within which goals lie
    max_hops: int | None  # None: 2 x the hops of the graph's shortest path + 10
    epsilon: float = 0.05  # probability of a random hop
    radius: float = 2 * STEP  # metres from the goal that count as arrived


# by metric: PROTOCOL's, and that of the authors' code
RULES = {"success": Rule(50, None), "success_near": Rule(15, 20)}


def street_config(domain: str, seed: int, encoder: str = "medium") -> Config:
    """Settings for streets, found on the real network (docs/streets.md): roots of path lengths fit into l2, path
    lengths do not.

    What traps a walk is a large error, however few there are: relative errors forgive them, Huber's loss does not
    (Table 2, `free`).
    """
    return Config(
        dim=64, head="squared", encoder=encoder, view="moving", seed=seed,
        local_metric=LocalMetricConfig(num_updates=METRIC_UPDATES[domain], batch_size=128),
        closures=ClosureConfig(min_degree=8.0, look_alikes=0.0),  # a view's visits and those of its two neighbours
        embedding=EmbeddingConfig(loss="huber", num_updates=NUM_UPDATES[domain], num_rounds=1, goals_per_round=10_000,
                                  goals_per_update=BLOCK[domain], nodes_per_update=BLOCK[domain]),
    )


def as_flat(config: Config, dim: int = 2, norm_order: float = 2.0) -> Config:
    """For maps to look at: an l^p distance, and no folds."""
    embedding = replace(config.embedding, num_updates=min(2000, config.embedding.num_updates), loss="sammon", guide=0.4)
    return replace(config, dim=dim, head="lp", norm_order=norm_order, embedding=embedding)


def as_noisy(config: Config) -> Config:
    """For visits that differ: frames changed at random as visits are.

    Otherwise the networks tell visits apart, not views: other visits of a view are far pairs to the local metric.
    """
    changes: dict[str, Any] = {"brightness": 0.3, "noise": 0.05}
    metric = replace(config.local_metric, num_updates=2 * config.local_metric.num_updates, shift=3, **changes)
    return replace(config, local_metric=metric, embedding=replace(config.embedding, shift=1, **changes))


class StreetTruth:
    """What only evaluation may know."""

    def __init__(self, streets: Streets):
        self.streets = streets

    @cached_property
    def metres(self) -> np.ndarray:
        """(views, views) along the streets."""
        return street_distance(self.streets)

    @cached_property
    def hops(self) -> np.ndarray:
        """(views, views) fewest links."""
        return np.asarray(dijkstra(street_graph(self.streets), unweighted=True))


@dataclass(frozen=True)
class StreetSite:
    """Nodes and their graph: where walks take place."""

    frames: np.ndarray  # (n, height, width, channels) of every node
    view: np.ndarray  # (n,) what a node truly shows
    graph: csr_array
    closure: np.ndarray  # (nnz,) bool
    truth: StreetTruth
    radius: float  # steps within which frames were joined
    seconds: float  # that joining them took
    seed: int
    episodes: int

    @property
    def position(self) -> np.ndarray:
        return self.truth.streets.xy[self.view]

    def tasks(self, rule: Rule) -> np.ndarray:
        """(2, episodes) random starts, and goals that lie within the rule's reach; the same for every method."""
        rng = rng_at(self.seed, WALKS, rule.reach)
        starts, goals = rng.integers(len(self.view), size=(2, 200 * self.episodes))
        hops = self.truth.hops[self.view[starts], self.view[goals]]
        known = np.flatnonzero((hops > 0) & (hops <= rule.reach))[: self.episodes]
        return np.stack((starts[known], goals[known]))

    def allowed_hops(self, rule: Rule, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """(m,) hops that a walk may take; none where the graph has no path, which so counts as a failure."""
        if rule.max_hops is not None:
            return np.full(len(starts), rule.max_hops)
        drawn, which = np.unique(goals, return_inverse=True)
        hops = hop_counts(self.graph.T.tocsr(), drawn)[which, starts]
        return np.where(np.isfinite(hops), 2 * np.nan_to_num(hops, posinf=0) + 10, 0).astype(np.int64)

    def success(self, distance: Distance, rule: Rule) -> float:
        """Share of the greedy walks without memory that come within two steps of the goal."""
        starts, goals = self.tasks(rule)
        position = self.position
        walks = walk_many(
            self.graph, distance, starts, goals, self.allowed_hops(rule, starts, goals), rule.epsilon, False,
            lambda nodes, ends: straight_line(position[nodes], position[ends]) < rule.radius,
            rng_at(self.seed, WALKS, rule.reach, 1)
        )
        return float(walks.arrived.mean())

    def scores(self, distance: Distance) -> dict[str, float | None]:
        """Success by both rules, and agreement."""
        return {
            metric: self.success(distance, rule) for metric, rule in RULES.items()
        } | {"spearman_true": self.agreement(distance)}

    def agreement(self, distance: Distance) -> float | None:
        """Rank correlation of a distance with the true way along the streets, over 20,000 random pairs."""
        first, second = rng_at(self.seed, WALKS, 2).integers(len(self.view), size=(2, 20_000))
        return rank_agreement(distance(first, second), self.truth.metres[self.view[first], self.view[second]])

    def exact_distance(self, device: torch.device) -> Distance:
        """Distance on the graph itself."""
        lengths = distances_from_on(device, self.graph.T.tocsr(), np.arange(len(self.view)))
        return lambda nodes, goals: lengths[goals, nodes]

    def gps_distance(self) -> Distance:
        return lambda nodes, goals: straight_line(self.position[nodes], self.position[goals])

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """What the graph is like: closures, false ones among them, and links of the network that it misses."""
        parts = graph_numbers(self.graph)
        first, second = self.view[edge_rows(self.graph)], self.view[self.graph.indices]
        joined = np.zeros((self.truth.streets.num_views,) * 2, bool)
        joined[first, second] = True
        false = self.truth.metres[first, second][self.closure] > FALSE_BEYOND
        return {
            "num_nodes": len(self.view), "radius": self.radius, "degree": self.graph.nnz / len(self.view),
            "num_components": parts["num_components"], "largest_component_share": parts["largest_component_share"],
            "num_closures": np.count_nonzero(self.closure) // 2, "num_false": np.count_nonzero(false) // 2,
            "false_edge_share": false.mean() if len(false) else 0.0,
            "missed_link_share": np.mean(~joined[tuple(self.truth.streets.links.T)]),
        }


class StreetScene:
    """One part of a city and one seed. Every product is made when it is first asked for."""

    def __init__(
        self, domain: str, seed: int, size: Size, device: torch.device, network_path: Path | None,
        encoder: str = "medium"
    ):
        self.domain, self.seed, self.size, self.device, self.network_path = domain, seed, size, device, network_path
        self.network = "generated" if network_path is None else "manhattan"
        # the seeds share the city; walks and networks differ
        self.streets = street_network(domain, network_path, seed=0)
        self.truth = StreetTruth(self.streets)
        self.config = replace(size.config, seed=seed) if size.is_smoke else street_config(domain, seed, encoder)
        self.noisy_config = self.config if size.is_smoke else as_noisy(self.config)
        self.maps: dict[tuple[str, Config], Map] = {}
        self.baselines: dict[str, Judge] = {}

    def with_encoder(self, encoder: str) -> "StreetScene":
        """The same walks, both networks of another kind."""
        return StreetScene(self.domain, self.seed, self.size, self.device, self.network_path, encoder)

    @cached_property
    def walks(self) -> list[np.ndarray]:
        return walk_streets(self.streets, PASSES, seed=self.seed)

    @cached_property
    def recordings(self) -> Sequences:
        """Clean: a view looks the same at every visit."""
        return record(self.streets, self.walks, ViewConfig())

    @cached_property
    def visited(self) -> np.ndarray:
        """(frames,) the view that a frame truly shows."""
        return np.concatenate(self.walks)

    @cached_property
    def noisy(self) -> Sequences:
        """The same walks, no two visits alike."""
        return record(self.streets, self.walks, NOISY, self.seed)

    @cached_property
    def timed_metric(self) -> tuple[tuple[LocalMetric, float | None], float]:
        """The local metric of the clean recordings with its held-out accuracy, and the seconds it took."""
        return timed(self.train_metric, self.recordings, self.config)

    @property
    def metric(self) -> LocalMetric:
        return self.timed_metric[0][0]

    def train_metric(self, sequences: Sequences, config: Config) -> tuple[LocalMetric, float | None]:
        return train_local_metric(
            sequences.frames, sequences.sequence, config.encoder, config.max_gap, config.local_metric, config.seed,
            self.device
        )

    @cached_property
    def site(self) -> StreetSite:
        """The graph of views."""
        return self.join(self.recordings, self.visited, self.metric, self.config)

    @cached_property
    def true_site(self) -> StreetSite:
        """The street network itself, in steps of its median link: no pictures, no learned graph."""
        graph = street_graph(self.streets)
        graph = csr_array(
            ((graph.data / np.median(graph.data)).astype(np.float32), graph.indices, graph.indptr), shape=graph.shape
        )
        num, edges = self.streets.num_views, graph.nnz
        no_frames = np.zeros((num, 0), np.uint8)
        return StreetSite(
            no_frames, np.arange(num), graph, np.zeros(edges, bool), self.truth, 0.0, 0.0, self.seed, self.size.episodes
        )

    def join(self, sequences: Sequences, visited: np.ndarray, metric: LocalMetric, config: Config) -> StreetSite:
        """Stage 2 on some recordings; frames that are equal to the last pixel become one node."""
        (graph, closure, kept, radius), seconds = timed(self._join, sequences, metric, config)
        view, frames = visited[kept], sequences.frames[kept]
        return StreetSite(frames, view, graph, closure, self.truth, radius, seconds, self.seed, self.size.episodes)

    def _join(
        self, sequences: Sequences, metric: LocalMetric, config: Config
    ) -> tuple[csr_array, np.ndarray, np.ndarray, float]:
        everything = np.ones(sequences.num_frames, bool)
        built = join_frames(sequences.without_truth(), metric, config, self.device, everything)
        kept, place = equal_frames(sequences.frames)
        graph = join_equal(built.graph, sequences.sequence, place)
        recorded = ~closure_entries(built.graph, sequences.sequence)
        pairs = place[edge_rows(built.graph)[recorded]] * len(kept) + place[built.graph.indices[recorded]]
        closure = ~np.isin(edge_rows(graph) * len(kept) + graph.indices, pairs)
        return graph, closure, kept, built.radius

    def train_map(self, site: StreetSite, config: Config, name: str = "") -> Map:
        """Stage 4 on a site; once a name and configuration where it is named."""
        if (name, config) not in self.maps or not name:
            self.maps[name, config] = Map(
                train_map(site.frames, site.graph, config, self.device, Journal()), self.device
            )
        return self.maps[name, config]

    def baseline(self, method: str) -> Judge:
        """Trained on the clean recordings, once a scene."""
        if method not in self.baselines:
            trainers = baseline_trainers(
                self.recordings, lambda: self.metric, self.config.encoder, self.size.shorten, self.seed, self.device
            )
            self.baselines[method] = trainers[method]()
        return self.baselines[method]

    def accuracies(self) -> dict[str, float | None]:
        """Of the local metric: on sequences held out at first, on all pairs as in the paper, and without truly near
        "far" pairs.
        """
        frames, sequence, view = self.recordings.frames, self.recordings.sequence, self.visited
        pairs = recorded_pairs(frames, sequence, np.ones(len(view), bool), 1)
        first, second, is_near = draw_judged(pairs, 10 * self.size.episodes, rng_at(self.seed, WALKS, 3))
        right = (pair_distances(self.metric, FrameTensors(frames, self.device), first, second) < NEAR) == is_near
        truly_far = self.truth.hops[view[first], view[second]] > 1
        return {
            "test_accuracy": self.timed_metric[0][1], "train_accuracy": right.mean(),
            "train_accuracy_cleaned": right[is_near | truly_far].mean(),
        }

    def setting(self, **more: Any) -> dict[str, Any]:
        return {"network": self.network} | more

    def lacks(self, settings: Settings, experiment: str, setting: dict, method: str) -> bool:
        return settings.lacks(Case(experiment, self.domain, setting, method, self.seed))

    def rows(
        self, settings: Settings, experiment: str, setting: dict, method: str, metrics: dict[str, Any], seconds: float
    ) -> list[Row]:
        return make_rows(Case(experiment, self.domain, setting, method, self.seed), metrics, seconds, settings.stamp)


def street_scenes(settings: Settings, domains: tuple[str, ...] = DOMAINS) -> Iterator[StreetScene]:
    """The chosen parts and seeds; a smoke run takes the smallest unless it is told which."""
    known = domains[:1] if settings.size.is_smoke and not settings.domains else domains
    for domain, seed in settings.scenes(known):
        yield street_scene(domain, seed, settings.size, settings.device, settings.street_graph)


@lru_cache(maxsize=32)
def street_scene(domain: str, seed: int, size: Size, device: torch.device, network_path: Path | None) -> StreetScene:
    """The scene, shared by all experiments of a process."""
    return StreetScene(domain, seed, size, device, network_path)
