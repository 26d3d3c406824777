"""One part of a city and one seed, and walks by Table 2's rules.

Four passes of short random walks see every view four times. *Clean* recordings show a view by the same image at every
visit, as StreetLearn does: frames equal to the last pixel are one node, so a node is a view. In *noisy* ones no two
visits are alike and each is a node of its own. What a node truly shows, and the street network, are read by success
rules, agreement and pictures alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.sparse.csgraph import dijkstra

from plan2vec.config import Config
from plan2vec.data import Sequences, SuccessRule, equal_frames
from plan2vec.domains import streets as city
from plan2vec.embedding.train import Teaching
from plan2vec.evaluation import Episodes, allowed_hops, rank_agreement
from plan2vec.experiments.base_scene import Found, Scene, Site, degree_and_parts, some_frames
from plan2vec.graph.build import closure_entries, edge_rows, join_equal
from plan2vec.learning.augmentation import Augmentation
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.local_metric import NEAR, LocalMetric
from plan2vec.planner import Distance
from plan2vec.results.comparisons import Figures
from plan2vec.results.experiment import Settings
from plan2vec.results.rows import Arrays, Row, in_order, parts_of, pictured, select
from plan2vec.search.shortest_paths import shortest_plans

TITLES = {"street-tiny": "Tiny", "street-small": "Small", "street-medium": "Medium", "street-large": "Large"}
DOMAINS = tuple(TITLES)
NETWORKS = {"manhattan": "Manhattan panorama graph, rendered city", "generated": "generated city, rendered"}
PASSES = 4
FALSE_BEYOND = 3 * city.STEP  # metres along the streets beyond which a closure is false
NOISY_UPDATES = dict(zip(DOMAINS, (600, 1000, 1400, 2000), strict=True))  # of the local metric, of visits that differ
FLAT_UPDATES = 2000  # of a map to look at


class Rule(NamedTuple):
    """Which goals are drawn, and when a walk arrives: within two steps of the goal."""

    reach: int  # hops of the street network within which goals lie
    walk: SuccessRule


# by metric: PROTOCOL's (2 x the hops of the graph's shortest path + 10), and that of the authors' code
RULES = {"success": Rule(50, SuccessRule(radius=2 * city.STEP, epsilon=0.05, hops_factor=2)),
         "success_near": Rule(15, SuccessRule(radius=2 * city.STEP, epsilon=0.05, max_hops=20))}
# For visits that differ: frames changed at random as visits are. Otherwise the networks tell visits apart, not views:
# other visits of a view are far pairs to the local metric.
NOISY_CHANGE = Augmentation(jitter=0.09, brightness=0.3, noise=0.05)
NOISY_TEACHING = Teaching(augmentation=replace(NOISY_CHANGE, jitter=0.03))
FLAT_TEACHING = Teaching(guided=0.4)  # no folds


def as_flat(config: Config, dim: int = 2, norm_order: float = 2.0) -> Config:
    """For maps to look at: an l^p distance."""
    num_updates = min(FLAT_UPDATES, config.embedding.num_updates or FLAT_UPDATES)
    embedding = replace(config.embedding, num_updates=num_updates, loss="sammon")
    return replace(config, dim=dim, head="lp", norm_order=norm_order, embedding=embedding)


@dataclass(frozen=True, kw_only=True)
class StreetSite(Site):
    view: np.ndarray  # (n,) what a node truly shows
    closure: np.ndarray  # (nnz,) bool

    def tasks(self, rule: Rule) -> np.ndarray:
        """(2, episodes) random starts, and goals that lie within the rule's reach; the same for every method."""
        rng = rng_at(self.scene.seed, Stream.STREET_TASKS, rule.reach)
        drawn = rng.integers(len(self.view), size=(2, 200 * self.scene.size.episodes))
        return drawn[:, self.within_reach(rule, *self.view[drawn])]

    def within_reach(self, rule: Rule, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """The first pairs of views, as many as there are episodes, whose goal lies within the rule's reach."""
        hops = self.scene.hops[starts, goals]
        return np.flatnonzero((hops > 0) & (hops <= rule.reach))[: self.scene.size.episodes]

    def allowed_hops(self, rule: Rule, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """(m,) hops that a walk may take; none where the graph has no path, which so counts as a failure."""
        if rule.walk.max_hops is not None:
            return np.full(len(starts), rule.walk.max_hops)
        _, hops, _ = shortest_plans(self.graph, starts, goals)
        return allowed_hops(Episodes(starts, goals, hops, hops), rule.walk)

    def success(self, distance: Distance, rule: Rule) -> float:
        """Share of the greedy walks without memory that come within two steps of the goal."""
        tasks, rng = self.tasks(rule), rng_at(self.scene.seed, Stream.STREET_TASKS, rule.reach, 1)
        return self.share_arrived(distance, tasks, rule.walk, self.allowed_hops(rule, *tasks), rng)

    def scores(self, distance: Distance) -> Found:
        found: Found = {metric: self.success(distance, rule) for metric, rule in RULES.items()}
        return found | {"spearman_true": self.agreement(distance)}

    def agreement(self, distance: Distance) -> float | None:
        """Rank correlation of a distance with the true way along the streets, over 20,000 random pairs."""
        first, second = rng_at(self.scene.seed, Stream.STREET_TASKS, 2).integers(len(self.view), size=(2, 20_000))
        return rank_agreement(distance(first, second), self.scene.metres[self.view[first], self.view[second]])

    def exact_distance(self) -> Distance:
        return self.exact_distance_to(np.arange(len(self.view)))

    @cached_property
    def numbers(self) -> Found:
        """What the graph is like: closures, false ones among them, and links of the network that it misses."""
        edges = self.view[edge_rows(self.graph)], self.view[self.graph.indices]
        joined = np.zeros((self.scene.streets.num_views,) * 2, bool)
        joined[edges] = True
        false = self.scene.metres[edges][self.closure] > FALSE_BEYOND
        return {"radius": self.radius, **degree_and_parts(self.graph), "num_nodes": len(self.view),
                "num_closures": np.count_nonzero(self.closure) // 2, "num_false": np.count_nonzero(false) // 2,
                "false_edge_share": false.mean() if len(false) else 0.0,
                "missed_link_share": np.mean(~joined[tuple(self.scene.streets.links.T)])}


class StreetScene(Scene):
    smallest = 0

    def __init__(self, domain: str, seed: int, settings: Settings):
        super().__init__(domain, seed, settings)
        path, longer = settings.street_graph, replace(self.config.local_metric, num_updates=NOISY_UPDATES[domain])
        noisy = replace(self.config, encoder="medium", local_metric=longer), NOISY_TEACHING
        self.noisy_config, self.noisy_teaching = (self.config, Teaching()) if self.size.is_smoke else noisy
        self.labels = {"network": "generated" if path is None else "manhattan"}
        # the seeds share the city; walks and networks differ
        self.streets = city.read_network(path, domain) if path else city.generate_city(domain, seed=0)
        self.walks = city.walk_streets(self.streets, PASSES, seed=seed)
        self.visited = np.concatenate(self.walks)  # (frames,) the view that a frame truly shows

    @cached_property
    def metres(self) -> np.ndarray:
        """(views, views) along the streets: what only evaluation may know."""
        return city.street_distance(self.streets)

    @cached_property
    def hops(self) -> np.ndarray:
        """(views, views) fewest links, for evaluation too."""
        return np.asarray(dijkstra(city.street_graph(self.streets), unweighted=True))

    @cached_property
    def recordings(self) -> Sequences:
        return city.record(self.streets, self.walks, city.ViewConfig())

    @cached_property
    def noisy(self) -> Sequences:
        return city.record(self.streets, self.walks, city.NOISY, self.seed)

    @cached_property
    def site(self) -> StreetSite:
        return self.nodes_of(self.recordings, self.visited, self.metric, self.config, "views")

    def visits_site(self, frames: slice = slice(None)) -> StreetSite:
        recorded, change = some_frames(self.noisy, frames), None if self.size.is_smoke else NOISY_CHANGE
        metric = self.train_metric(recorded, self.noisy_config, change=change).metric
        return self.nodes_of(recorded, self.visited[frames], metric, self.noisy_config)

    @cached_property
    def true_site(self) -> StreetSite:
        """The street network itself, in steps of its median link: no pictures, no learned graph."""
        graph, num = city.street_graph(self.streets), self.streets.num_views
        graph = (graph / np.median(graph.data)).astype(np.float32)
        return StreetSite(scene=self, frames=np.zeros((num, 0), np.uint8), graph=graph, view=np.arange(num),
                          position=self.streets.xy, closure=np.zeros(graph.nnz, bool))

    def nodes_of(self, sequences: Sequences, visited: np.ndarray, metric: LocalMetric, config: Config,
                 name: str = "") -> StreetSite:
        """Frames that are equal to the last pixel become one node."""
        joined = self.join(sequences, metric, config, name)
        kept, place = equal_frames(sequences.frames)
        graph = join_equal(joined.graph, sequences.sequence, place)
        recorded = ~closure_entries(joined.graph, sequences.sequence)
        pairs = place[edge_rows(joined.graph)[recorded]] * len(kept) + place[joined.graph.indices[recorded]]
        closure = ~np.isin(edge_rows(graph) * len(kept) + graph.indices, pairs)
        nodes = {"frames": sequences.frames[kept], "graph": graph, "position": joined.position[kept]}
        return StreetSite(**vars(joined) | nodes, view=visited[kept], closure=closure)

    def metric_accuracies(self) -> Found:
        """Of the local metric: on held-out sequences, on all pairs as in the paper, without truly near "far" pairs."""
        view = self.visited
        found = self.accuracies(self.metric, {"train": np.ones(len(view), bool)}, NEAR, 1,
                                lambda first, second: self.hops[view[first], view[second]] > 1, Stream.STREET_TASKS, 3)
        return found | {"test_accuracy": self.timed_metric[0].accuracy}


def part_figures(rows: list[Row], arrays: Arrays, figure_of: Callable[..., Figure], block: str = "") -> Figures:
    """A figure per network and part of the city, where arrays of its first seed are at hand: by rows and arrays."""
    for (network, domain), part in parts_of(rows, network=NETWORKS, domain=DOMAINS):
        if known := pictured(select(part, block=block) if block else part, arrays):
            figure = figure_of(part, known)
            latents = f"; latents: {block}, seed {min(in_order(part, 'seed'))}" if block else ""
            figure.suptitle(f"{TITLES[domain]}, {NETWORKS[network]}{latents}", fontsize=11)
            yield "-".join(filter(None, (network, domain, block.replace(" ", "-")))), figure
