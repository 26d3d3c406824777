"""Stage 2: the recorded steps, and the loop closures that can be believed, as one graph.

local metric -> near pairs -> believed closures -> graph
                neighbors     closures             build
                              closures_moving (moving camera)"""

from dataclasses import replace

import numpy as np
from scipy.sparse import eye_array

from plan2vec.config import Config
from plan2vec.data import Sequences, equal_frames
from plan2vec.graph.build import BuiltGraph, build_graph
from plan2vec.graph.closures import MAX_RADIUS, Closures, choose_closures
from plan2vec.graph.direction import find_direction
from plan2vec.graph.join_moving import join_views
from plan2vec.graph.jumps import cut_after, jumps_by_chance, price_risk, soon_by_chance
from plan2vec.graph.neighbors import NearPairs, near_pairs
from plan2vec.graph.suspicious import lone_share
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.gradient_loop import Journal
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.recorded_pairs import recorded_pairs
from plan2vec.local_metric import LocalMetric, StackedMetric, TrainedMetric, local_vectors, pair_distances
from plan2vec.search.shortest_paths import connected_parts

ALL_PAIRS_BELOW = 2000  # frames up to which a stacked metric scores all pairs


def join_frames(recorded: Sequences, trained: TrainedMetric, config: Config, images: FrameTensors,
                usable: np.ndarray | None = None, journal: Journal = Journal()) -> BuiltGraph:
    """The graph of the usable frames. Where one stood still only the first frame gets closures."""
    usable = np.ones(recorded.num_frames, bool) if usable is None else usable
    vectors = local_vectors(trained.metric, images)
    jumps, sequence = jumps_by_chance(recorded.sequence, vectors, config.max_gap, usable), recorded.sequence
    if len(jumps):
        recorded = replace(recorded, sequence=cut_after(sequence, jumps))
        journal.say(f"{len(jumps):,} recorded jumps are left out: where they lead is chance, so no plan can use them")
    if config.view == "moving" and recorded.frames.ndim == 4:
        built = join_views(recorded, trained, vectors, config, images, usable)
    else:  # a fixed camera's pictures, or vectors: a frame shows all that there is to see
        built, chosen = believe_states(recorded, trained.metric, vectors, config, images, usable, journal)
        if chosen is not None:
            labels, still_since = recorded.sequence, recorded.still_since
            graph = build_graph(labels, chosen.pairs, recorded.step_length, False, usable, still_since)
            lone = lone_share(graph, labels, rng_at(config.seed, Stream.LONE_CLOSURES))
            built = replace(built, graph=graph, radius=chosen.radius, report=chosen.reason, estimated_false=lone)
    if len(jumps):
        soon, near = soon_by_chance(sequence, jumps, config.max_gap), built.graph.astype(bool) + eye_array(len(usable))
        built = replace(built, graph=price_risk(built.graph, (near @ soon) / near.sum(axis=1)))
    journal.say(built.report)
    num_parts = len(np.unique(connected_parts(built.graph)[1][usable]))  # no edge leads to a frame that is not usable
    if num_parts > 1:  # no failure, but the user should know, and know what to do
        journal.say(f"warning: the graph has {num_parts} parts that never meet; plans exist inside each. "
                    "Remedy: record sequences that overlap, in both directions")
    return built


def believe_states(recorded: Sequences, metric: LocalMetric, vectors: np.ndarray, config: Config, images: FrameTensors,
                   usable: np.ndarray, journal: Journal = Journal()) -> tuple[BuiltGraph, Closures | None]:
    """Which way hops lead, and the closures that are believed; None where the graph is directed and so has its own."""
    joinable = usable & (recorded.still_since == np.arange(recorded.num_frames))
    first = recorded_pairs(recorded, usable, 1).first[0]
    steps = pair_distances(metric, images, first, first + 1)
    reach = config.radius or max(float(np.quantile(steps, 0.95)), MAX_RADIUS * config.max_gap)
    candidates = candidate_pairs(metric, images, vectors, np.flatnonzero(joinable), reach, config)
    built = find_direction(recorded, vectors, candidates, usable, config, journal)
    if built.directed:
        return built, None
    distinct, which = equal_frames(recorded.frames, np.flatnonzero(joinable))
    duplicates = np.full(len(joinable), -1)  # the first of the joinable frames that each of them equals
    duplicates[joinable] = distinct[which]
    return built, choose_closures(candidates, steps, recorded.sequence, duplicates, config, images.device)


def share_refused(recorded: Sequences, config: Config, images: FrameTensors, usable: np.ndarray | None,
                  metric: LocalMetric) -> float:
    """Share of the pairs that a local metric puts near and the tests of closures refuse: the worse the metric, the
    more. 0 where nothing tells: with a moving camera, in a sparse recording, where the graph is directed."""
    if config.view == "moving":
        return 0.0
    usable = np.ones(recorded.num_frames, bool) if usable is None else usable
    chosen = believe_states(recorded, metric, local_vectors(metric, images), config, images, usable)[1]
    return chosen.refused if chosen else 0.0


def candidate_pairs(metric: LocalMetric, images: FrameTensors, vectors: np.ndarray, numbers: np.ndarray, reach: float,
                    config: Config) -> NearPairs:
    """Pairs of the numbered frames within `reach` steps, by `local_vectors`; a stacked metric re-scores the nearest."""
    closures, stacked = config.closures, isinstance(metric, StackedMetric)
    within = np.inf if stacked else reach
    most = len(numbers) if stacked and len(numbers) < ALL_PAIRS_BELOW else closures.max_neighbors
    found = near_pairs(vectors[numbers], within, most, images.device, closures.neighbors or "exact").renumbered(numbers)
    if not stacked:
        return found
    there = pair_distances(metric, images, found.first, found.second)
    back = pair_distances(metric, images, found.second, found.first)
    scored = replace(found, distance=(there + back) / 2)  # the network is not symmetric by itself
    return scored.select(scored.distance <= reach)
