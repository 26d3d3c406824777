"""Stage 2: the recorded steps, and the loop closures that can be believed, as one graph.

local metric -> near pairs -> believed closures -> graph
                neighbors     closures             build
                              evidence (moving camera)
"""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from plan2vec.config import Config
from plan2vec.data import Sequences, equal_frames
from plan2vec.graph.build import BuiltGraph, build_graph
from plan2vec.graph.closures import MAX_RADIUS, choose_closures
from plan2vec.graph.evidence import HALF_RUN, MIN_RECOGNIZED, Believed, Scored, believe, score_runs, widen
from plan2vec.graph.neighbors import NearPairs, near_pairs
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.recorded_pairs import recorded_pairs
from plan2vec.learning.training import Journal
from plan2vec.local_metric import (
    LocalMetric,
    StackedMetric,
    TrainedMetric,
    local_vectors,
    mirrored_vectors,
    pair_distances,
)
from plan2vec.search.shortest_paths import connected_parts

ALL_PAIRS_BELOW = 2000  # frames up to which a stacked metric scores all pairs


def join_frames(
    recorded: Sequences, trained: TrainedMetric, config: Config, images: FrameTensors, usable: np.ndarray | None = None,
    journal: Journal = Journal(),
) -> BuiltGraph:
    """The graph of the usable frames. Where one stood still only the first frame gets closures."""
    usable = np.ones(recorded.num_frames, bool) if usable is None else usable
    sequence, still_since, metric = recorded.sequence, recorded.still_since, trained.metric
    joinable = usable & (still_since == np.arange(len(still_since)))
    if config.view == "moving" and images.frames.ndim == 4:
        built = join_views(recorded, trained, config, images, usable)
        journal.say(built.report)
        warn_about_parts(built, usable, journal)
        return built
    first = recorded_pairs(recorded, usable, 1).first[0]
    steps = pair_distances(metric, images, first, first + 1)
    reach = config.radius or max(float(np.quantile(steps, 0.95)), MAX_RADIUS * config.max_gap)
    candidates = candidate_pairs(metric, images, np.flatnonzero(joinable), reach, config)
    chosen = choose_closures(
        candidates, steps, sequence, first_duplicates(recorded.frames, joinable), config, images.device
    )
    graph = build_graph(sequence, chosen.pairs, recorded.step_length, config.directed, usable, still_since)
    built = BuiltGraph(graph, chosen.radius, chosen.reason)
    journal.say(built.report)
    warn_about_parts(built, usable, journal)
    return built


def join_views(
    recorded: Sequences, trained: TrainedMetric, config: Config, images: FrameTensors, usable: np.ndarray
) -> BuiltGraph:
    """The graph of a moving camera's views, whose closures are believed by evidence."""
    sequence, still_since, max_gap = recorded.sequence, recorded.still_since, config.max_gap
    numbers = np.flatnonzero(usable & (still_since == np.arange(len(still_since))))
    run = np.cumsum(~usable | (np.diff(sequence, prepend=sequence[0]) != 0))[numbers]  # recorded without a gap
    vectors = local_vectors(trained.metric, images)[numbers]
    mirrored = mirrored_vectors(trained.metric, images)[numbers]
    steps = median_distances(vectors, run, 2 * max_gap)
    scored = score_runs(vectors, mirrored, run, max_gap, config.closures.max_neighbors, images.device)
    limit, max_false = (max_gap, config.closures.max_false) if config.radius is None else (config.radius, 1.0)
    limit = limit if trained.recognized is None or trained.recognized >= MIN_RECOGNIZED else 0.0
    believed = believe(scored, steps, limit, max_false, len(numbers))
    report = describe(believed, scored, trained.recognized)
    share = believed.estimated_false if len(believed.pairs) else None
    believed = widen(believed, run, max_gap)
    pairs = replace(believed.pairs, first=numbers[believed.pairs.first], second=numbers[believed.pairs.second])
    graph = build_graph(sequence, pairs, recorded.step_length, config.directed, usable, still_since)
    ends, n = (pairs.first.astype(np.int32), pairs.second.astype(np.int32)), recorded.num_frames
    confidence = csr_array((believed.confidence.astype(np.float32), ends), shape=(n, n))
    return BuiltGraph(graph, believed.threshold, report, share, confidence)


def median_distances(vectors: np.ndarray, run: np.ndarray, max_gap: int) -> np.ndarray:
    """(max_gap + 1,) the median local distance of frames 0, 1, ... recorded steps apart; as far as runs are long."""
    gaps = [np.flatnonzero(run[gap:] == run[:-gap]) for gap in range(1, max_gap + 1)]
    between = [np.linalg.norm(vectors[start + gap] - vectors[start], axis=1) for gap, start in enumerate(gaps, 1)]
    return np.array([0.0, *(float(np.median(distance)) for distance in between if len(distance))])


def describe(believed: Believed, scored: Scored, recognized: float | None) -> str:
    """One line for the user: how closures were chosen."""
    if recognized is not None and recognized < MIN_RECOGNIZED:
        return (f"no closures: the local metric takes only {recognized:.0%} of recorded steps it has not seen for "
                f"neighbours (at least {MIN_RECOGNIZED:.0%} needed), so it cannot say which places were seen again")
    return (f"{len(believed.pairs):,} closures of {len(scored.first):,} candidates, by runs of {2 * HALF_RUN + 1} "
            f"frames within {believed.threshold:.2f} steps; about {believed.estimated_false:.2%} of them may be false")


def first_duplicates(frames: np.ndarray, joinable: np.ndarray) -> np.ndarray:
    """(n,) the first of the joinable frames that a joinable frame equals to the last pixel; -1 for the others."""
    numbers = np.flatnonzero(joinable)
    first, which = equal_frames(frames, numbers)
    duplicate = np.full(len(frames), -1)
    duplicate[numbers] = first[which]
    return duplicate


def candidate_pairs(
    metric: LocalMetric, images: FrameTensors, numbers: np.ndarray, reach: float, config: Config
) -> NearPairs:
    """Pairs of the numbered frames within `reach` steps. A stacked metric re-scores a Siamese one's nearest."""
    vectors, closures = local_vectors(metric, images)[numbers], config.closures
    stacked = isinstance(metric, StackedMetric)
    within = np.inf if stacked else reach
    most = len(numbers) if stacked and len(numbers) < ALL_PAIRS_BELOW else closures.max_neighbors
    found = near_pairs(vectors, within, most, images.device, closures.neighbors or "exact")
    found = replace(found, first=numbers[found.first], second=numbers[found.second])
    if not stacked:
        return found
    there = pair_distances(metric, images, found.first, found.second)
    back = pair_distances(metric, images, found.second, found.first)
    scored = replace(found, distance=(there + back) / 2)  # the network is not symmetric by itself
    return scored.select(scored.distance <= reach)


def warn_about_parts(built: BuiltGraph, usable: np.ndarray, journal: Journal) -> None:
    """A map of several parts is no failure, but the user should know, and know what to do."""
    _, part = connected_parts(built.graph)
    num_parts = len(np.unique(part[usable]))  # no edge leads to a frame that is not usable
    if num_parts > 1:
        journal.say(
            f"warning: the graph has {num_parts} parts that never meet; plans exist inside each. "
            "Remedy: record sequences that overlap, in both directions"
        )
