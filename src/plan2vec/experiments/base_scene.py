"""What every experiment stands on: a scene (one domain and one seed), the sites it plans on, and rows about both.

A scene makes each product when it is first asked for, and once: recordings, local metric, graphs, maps, baselines. It
calls the stages of `pipeline.learn`, on other frames or with other settings than a fit would. A site is some frames
with their graph: walks take place there. Ground truth is read by the sites' scores alone."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from plan2vec.baselines import Scorer, VectorScorer
from plan2vec.baselines.registry import baseline_trainers
from plan2vec.config import DEFAULTS, WALKED_UPDATES, Config, by_settings, setting, settle, with_settings
from plan2vec.data import RECORDED, Sequences, SuccessRule
from plan2vec.embedding.train import Teaching, train_map
from plan2vec.evaluation import graph_numbers
from plan2vec.graph.join import join_frames, share_refused
from plan2vec.graph.neighbors import usearch_installed
from plan2vec.learning.augmentation import Augmentation
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.random_streams import rng_at
from plan2vec.learning.recorded_pairs import draw_judged, recorded_pairs
from plan2vec.local_metric import LocalMetric, TrainedMetric, local_vectors, pair_distances, train_local_metric
from plan2vec.planner import Distance, walk_many
from plan2vec.results.experiment import Experiment, Settings, timed
from plan2vec.results.rows import Case, Groups, Row, make_rows, part_of, save_arrays
from plan2vec.search.gpu_search import distances_from_on
from plan2vec.validity import straight_line

SMOKE_WALKS: dict[str, Any] = {"num_rounds": 2, "rollouts": 8, "rollouts_per_update": 4, "hops": 6}
# what a method gave: numbers; arrays for pictures; and by a further entry of the setting, by its value, more numbers
Found = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Site:
    scene: Any
    frames: np.ndarray
    graph: csr_array
    radius: float = 0.0  # steps within which frames were joined
    seconds: float = 0.0  # that joining them took
    name: str = ""  # of a site whose maps the scene keeps
    position: Any = None  # (n, 2) where the nodes truly are, if scores ask for it
    sequences: Any = None  # the recordings that these frames are

    def share_arrived(self, distance: Distance, tasks: np.ndarray, rule: SuccessRule, max_hops: np.ndarray,
                      rng: np.random.Generator, graph: csr_array | None = None) -> float:
        """Share of the greedy walks (2, m) from start to goal that arrive by the rule."""
        away, graph = self.straight_distance(), self.graph if graph is None else graph
        _, arrived = walk_many(graph, distance, tasks[0], tasks[1], max_hops, rule.epsilon, rule.memory,
                               lambda nodes, ends: away(nodes, ends) < rule.radius, rng)
        return float(arrived.mean())

    def exact_distance_to(self, goals: np.ndarray) -> Distance:
        """Distance on the graph itself, to these goals only."""
        return self.looked_up(goals, lambda ends: distances_from_on(self.scene.device, self.graph.T.tocsr(), ends))

    def looked_up(self, goals: np.ndarray, table_of: Callable[[np.ndarray], np.ndarray]) -> Distance:
        """D from all frames to the goals, out of a table (distinct goals, frames)."""
        distinct = np.unique(goals)
        table = table_of(distinct)
        return lambda nodes, asked: table[np.searchsorted(distinct, asked), nodes]

    def straight_distance(self) -> Distance:
        """Between the true places."""
        return lambda nodes, goals: straight_line(self.position[nodes], self.position[goals])


class Scene:
    """Subclasses say what is recorded; `config` is settled here."""

    recordings: Any  # `Sequences`, of each subclass
    smallest = -1  # place among the domains of the one that a smoke run takes
    site_kind = Site

    def __init__(self, domain: str, seed: int, settings: Settings, config: Config | None = None):
        self.domain, self.seed, self.size, self.device = domain, seed, settings.size, settings.device
        self.config = settled(replace(config or settings.size.config, seed=seed))
        self.maps: dict[tuple[str, Config, Teaching], VectorScorer] = {}
        self.baselines: dict[str, Scorer] = {}
        self.labels: dict[str, str] = {}  # entries of the setting of all its rows

    @classmethod
    def chosen(cls, settings: Settings, domains: tuple[str, ...]) -> Iterator[Self]:
        """Of the chosen domains and seeds; all experiments of a process share them."""
        common = Settings(size=settings.size, device=settings.device, street_graph=settings.street_graph)
        return (shared(cls, *case, common) for case in settings.scenes(domains, domains[cls.smallest]))

    @cached_property
    def timed_metric(self) -> tuple[TrainedMetric, float]:
        return timed(self.train_metric, self.recordings, self.config)

    @property
    def metric(self) -> LocalMetric:
        return self.timed_metric[0].metric

    def train_metric(self, recorded: Sequences, config: Config, usable: np.ndarray | None = None,
                     change: Augmentation | None = None) -> TrainedMetric:
        recorded, images = recorded.without_truth(), self.images(recorded.frames)
        refused = partial(share_refused, recorded, self.searched(recorded, config), images, usable)
        return train_local_metric(recorded, config, images, usable, refused, change=change)

    @property
    def walked_config(self) -> Config:
        stage = replace(self.config.embedding, num_updates=WALKED_UPDATES)
        return replace(self.config, variant="value-iteration", embedding=self.size.shorten(stage))

    def join(self, recorded: Sequences, metric: LocalMetric, config: Config, name: str = "") -> Any:
        """The site, of the scene's kind, that stage 2 makes of recordings."""
        config, images = self.searched(recorded, config), self.images(recorded.frames)
        built, seconds = timed(join_frames, recorded.without_truth(), TrainedMetric(metric), config, images)
        return self.site_kind(scene=self, frames=recorded.frames, graph=built.graph, radius=built.radius,
                              seconds=seconds, name=name, position=recorded.position, sequences=recorded)

    def searched(self, recorded: Sequences, config: Config) -> Config:
        """With how neighbours are searched for in so many frames."""
        return settle(config, recorded, self.device.type, usearch_installed())

    @cached_property
    def site(self) -> Any:
        return self.join(self.recordings, self.metric, self.config, "all")

    def train_map(self, site: Site, config: Config, teaching: Teaching = Teaching()) -> VectorScorer:
        """Stage 4 on a site; on a named site once per configuration and teaching."""
        if self.size.is_smoke:
            teaching = replace(teaching, walks=replace(teaching.walks, **SMOKE_WALKS))
        known = self.maps.get((site.name, config, teaching)) if site.name else None
        learned = known or VectorScorer(
            train_map(self.images(site.frames), site.graph, config, teaching=teaching), self.device)
        if site.name:
            self.maps[site.name, config, teaching] = learned
        return learned

    def baseline(self, method: str, dim: int = 8) -> Any:
        """A `Scorer`, trained on the recordings, whichever graph it walks on, and once."""
        if method not in self.baselines:
            trainers = baseline_trainers(self.recordings, lambda: self.metric, self.config.encoder, dim,
                                         self.size.shorten, self.seed, self.device)
            self.baselines[method] = trainers[method]()
        return self.baselines[method]

    def accuracies(self, metric: LocalMetric, parts: dict[str, np.ndarray], cut_off: float, max_gap: int,
                   truly_far: Callable[[np.ndarray, np.ndarray], np.ndarray], *stream: int) -> Found:
        """Share of pairs on the right side of `cut_off` x `max_gap` steps; cleaned: of random ones the truly far."""
        found: Found = {}
        for name, usable in parts.items():
            pairs, rng = recorded_pairs(self.recordings, usable, max_gap), rng_at(self.seed, *stream)
            first, second, is_near = draw_judged(pairs, 10 * self.size.episodes, rng)
            scores = pair_distances(metric, self.images(self.recordings.frames), first, second)
            right, clean = (scores < cut_off * max_gap) == is_near, is_near | truly_far(first, second)
            found |= {f"{name}_accuracy": right.mean(), f"{name}_accuracy_cleaned": right[clean].mean()}
        return found

    def images(self, frames: np.ndarray) -> FrameTensors:
        return FrameTensors(frames, self.device)

    def local_vectors(self, frames: np.ndarray) -> np.ndarray:
        return local_vectors(self.metric, self.images(frames))

    def lacking(self, settings: Settings, methods: Iterable[str], **setting: Any) -> list[str]:
        """The chosen ones of the methods that are still to be run."""
        case = {"domain": self.domain, "seed": self.seed} | self.labels | setting
        return [m for m in settings.chosen("methods", methods) if settings.lacks(method=m, **case)]

    def measured(self, settings: Settings, methods: Iterable[str], measure: Callable[..., Found],
                 **setting: Any) -> Groups:
        """A group of rows per method that is still to be run: of what `measure(scene, method, **setting)` finds."""
        for method in self.lacking(settings, methods, **setting):
            found, seconds = timed(measure, self, method, **setting)
            yield self.rows(settings, method, found, seconds, **setting)

    def rows(self, settings: Settings, method: str, found: Found, seconds: float, **setting: Any) -> list[Row]:
        """A row per number; those by a further entry of the setting come after. Arrays are kept for pictures."""
        case = Case(settings.experiment, self.domain, self.labels | setting, method, self.seed)
        arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
        curves = {name: value for name, value in found.items() if isinstance(value, dict)}
        if arrays:
            save_arrays(settings.arrays, settings.experiment, part_of(vars(case)), **arrays)
        numbers = {name: value for name, value in found.items() if name not in arrays | curves}
        rows = make_rows(case, numbers, seconds, settings.stamp)
        for name, numbers_at in curves.items():
            for place, numbers in numbers_at.items():
                at = replace(case, setting=case.setting | {name: place})
                rows += make_rows(at, numbers, 0.0 if rows else seconds, settings.stamp)  # the time counts once
        return rows


shared: Callable[..., Any] = lru_cache(maxsize=64)(lambda kind, *given: kind(*given))


@dataclass(frozen=True)
class SceneExperiment(Experiment):
    """Rows of what `groups(scene, method)`, or `(scene, method, block)`, finds in every scene that is chosen."""

    kind: type[Scene] = Scene

    def run(self, settings: Settings) -> Groups:
        settings = replace(settings, experiment=self.name)
        cases = [{"block": block} for block in settings.chosen("blocks", self.blocks)] if self.blocks else [{}]
        for scene, case in product(self.kind.chosen(settings, tuple(self.domains)), cases):
            yield from scene.measured(settings, self.methods, self.groups, **case)


def settled(config: Config) -> Config:
    """What is not given is decided as for a camera that does not move, without a look at the recordings."""
    decided = DEFAULTS | by_settings(config) | {"view": "fixed"}
    return with_settings(config, {name: value for name, value in decided.items() if setting(config, name) is None})


def some_frames(sequences: Sequences, numbers: np.ndarray | slice) -> Sequences:
    """A part of recordings that cuts no sequence."""
    recorded = {name: getattr(sequences, name) for name in ("frames", "sequence", *RECORDED)}
    return replace(sequences, **{name: values[numbers] for name, values in recorded.items() if values is not None})


def degree_and_parts(graph: csr_array) -> Found:
    parts = graph_numbers(graph)
    return {"degree": graph.nnz / graph.shape[0], "num_components": parts["num_components"],
            "largest_component_share": parts["largest_component_share"]}


def mean_or_none(sample: np.ndarray) -> float | None:
    return float(sample.mean()) if len(sample) else None
