"""One room and one seed.

Two sets are recorded. The *large* one (1,000 rollouts) teaches the local metric. The *small* one (100 other rollouts)
is what the paper's Table 1 plans on. The oracle's graph is of true neighbours."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from plan2vec.data import Sequences
from plan2vec.domains.maze import SUCCESS, simulate
from plan2vec.evaluation import rank_agreement, truth_of
from plan2vec.experiments.base_scene import Found, Scene, Site, degree_and_parts, some_frames
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import near_pairs
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.planner import Distance
from plan2vec.validity import Truth, closure_numbers

ROOM_TITLES = {"open": "Open", "table": "Table", "c-maze": "C-Maze"}
DOMAINS = tuple(ROOM_TITLES)
FRESH = 1000  # added to the seed of the small set, so that no seed records the same twice
TRULY_NEAR = 0.03  # metres within which the oracle joins frames: the mean length of a step
HOPS = SUCCESS.max_hops or 0  # of a walk


@dataclass(frozen=True, kw_only=True)
class MazeSite(Site):
    """Frames of a room; their maps are kept where the name is small, large or oracle."""

    @cached_property
    def truth(self) -> Truth:
        truth = truth_of(self.sequences)
        assert truth is not None
        return truth

    @cached_property
    def tasks(self) -> np.ndarray:
        """(2, episodes) random starts and goals, the same for every method."""
        return rng_at(self.scene.seed, Stream.ROOM_TASKS).integers(len(self.frames), size=(2, self.scene.size.episodes))

    def success(self, distance: Distance, graph: csr_array | None = None, max_hops: int = HOPS) -> float:
        """Share of the greedy walks that arrive by Table 1's rule: no memory, epsilon 0.05, 50 hops, within 0.02 m."""
        hops, rng = np.full(self.tasks.shape[1], max_hops), rng_at(self.scene.seed, Stream.ROOM_TASKS, 1)
        return self.share_arrived(distance, self.tasks, SUCCESS, hops, rng, graph)

    def agreement(self, distance: Distance) -> float | None:
        """Rank correlation with the true way around the walls, over 20,000 pairs of a frame and a task's goal."""
        rng = rng_at(self.scene.seed, Stream.ROOM_TASKS, 2)
        first, second = rng.integers(len(self.frames), size=20_000), rng.choice(self.tasks[1], 20_000)
        return rank_agreement(distance(first, second), self.truth.between(first, second))

    def scores(self, distance: Distance) -> Found:
        return {"success": self.success(distance), "spearman_true": self.agreement(distance)}

    def exact_distance(self) -> Distance:
        return self.exact_distance_to(self.tasks[1])

    def random_distance(self) -> Distance:
        """A random score per frame and goal of the tasks: without sense, but always the same."""
        rng = rng_at(self.scene.seed, Stream.ROOM_TASKS, 3)
        return self.looked_up(self.tasks[1], lambda goals: rng.random((len(goals), len(self.frames)), np.float32))

    @cached_property
    def numbers(self) -> Found:
        closures = closure_numbers(self.graph, self.sequences.sequence, self.truth, None, 0)
        return {"radius": self.radius, **degree_and_parts(self.graph), "false_edge_share": closures["false_edge_share"]}


class MazeScene(Scene):
    site_kind = MazeSite

    @cached_property
    def recordings(self) -> Sequences:
        return simulate(self.domain, self.size.num_rollouts, seed=self.seed)

    @cached_property
    def fresh(self) -> Sequences:
        return simulate(self.domain, self.size.graph_rollouts, seed=self.seed + FRESH)

    @cached_property
    def small(self) -> MazeSite:
        """The 1,000 fresh frames that Table 1 plans on."""
        return self.join(self.fresh, self.metric, self.config, "small")

    @cached_property
    def large(self) -> MazeSite:
        """The 10,000 frames that the local metric learned from, planned on themselves."""
        return self.join(self.recordings, self.metric, self.config, "large")

    @cached_property
    def oracle(self) -> MazeSite:
        """The fresh frames, joined by recorded steps and where their true places are near."""
        fresh, place = self.fresh, np.asarray(self.fresh.position)
        pairs = near_pairs(place / TRULY_NEAR, 1.0, fresh.num_frames, self.device)
        graph = build_graph(fresh.sequence, pairs, None, False, np.ones(fresh.num_frames, bool))
        return MazeSite(scene=self, frames=fresh.frames, graph=graph, radius=1.0, name="oracle", position=place,
                        sequences=fresh)


def first_rollouts(sequences: Sequences, num: int) -> Sequences:
    """The first so many rollouts, so that smaller sets are parts of larger ones."""
    return some_frames(sequences, slice(int(np.searchsorted(sequences.sequence, num))))
