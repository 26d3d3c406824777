"""Stage 2 for a moving camera: recorded steps, and the closures that `closures_moving.py` believes, as one graph."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from plan2vec.config import Config
from plan2vec.data import Sequences, frames_ahead, transitions
from plan2vec.graph.build import BuiltGraph, build_graph, transition_weights
from plan2vec.graph.closures_moving import (
    MIN_LASTING,
    MIN_RECOGNIZED,
    Scored,
    believe,
    describe,
    recorded_hops,
    score_runs,
    share_lasting,
)
from plan2vec.graph.direction import ALIKE, measure_direction, steps_that_moved
from plan2vec.graph.neighbors import NearPairs
from plan2vec.graph.worlds import in_one_world
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.recorded_pairs import recorded_pairs
from plan2vec.local_metric import LocalMetric, TrainedMetric, local_vectors


def join_views(recorded: Sequences, trained: TrainedMetric, vectors: np.ndarray, config: Config, images: FrameTensors,
               usable: np.ndarray) -> BuiltGraph:
    """The graph of a moving camera's views: much is out of sight, so closures need evidence beyond one pair.

    `vectors` (n, d): the local metric's."""
    sequence, max_gap = recorded.sequence, config.max_gap
    numbers, run, steps, scored = score_views(recorded, trained.metric, vectors, config, images, usable)
    limit, max_false = (max_gap, config.closures.max_false) if config.radius is None else (config.radius, 1.0)
    limit = limit if trained.recognized is None or trained.recognized >= MIN_RECOGNIZED else -np.inf
    believed = believe(scored, steps, limit, max_false, len(numbers))
    lasting = share_lasting(vectors[numbers], run, believed.pairs, max_gap)
    if lasting < MIN_LASTING and config.radius is None:
        believed = believe(scored, steps, -np.inf, max_false, len(numbers))
    together = in_one_world(believed.pairs, run)
    believed = believed.select(together)
    hops = recorded_hops(run, steps_before(recorded, usable)[numbers], max_gap)
    hops, again = hops.renumbered(numbers), believed.pairs.renumbered(numbers)
    first, second, length = (np.concatenate(parts) for parts in zip(again.arrays, hops.arrays, strict=True))
    pairs = NearPairs(first, second, length)
    graph = build_graph(sequence, pairs, recorded.step_length, bool(config.directed), usable, recorded.still_since)
    confidence = csr_array((believed.confidence.astype(np.float32), (again.first, again.second)), shape=graph.shape)
    moved = steps_that_moved(recorded, recorded_pairs(recorded, usable, 1).first[0], usable)
    near = replace(again, distance=again.distance * ALIKE)  # views look alike within a step: nearer ones are rare
    seen = measure_direction(near, moved, rng_at(config.seed, Stream.DIRECTION))
    report = describe(believed, scored, trained.recognized, lasting, int((~together).sum()))
    return BuiltGraph(graph, believed.threshold, report, believed.estimated_false if len(again) else None, confidence,
                      bool(config.directed), seen.undone, seen.repeated)


def score_views(recorded: Sequences, metric: LocalMetric, vectors: np.ndarray, config: Config, images: FrameTensors,
                usable: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, Scored]:
    """(m,) the frames that moved, (m,) which run each belongs to, distances by steps apart, and the candidates."""
    sequence, still_since, settings = recorded.sequence, recorded.still_since, config.closures
    numbers = np.flatnonzero(usable & (still_since == np.arange(len(still_since))))
    run = np.cumsum(~usable | (np.diff(sequence, prepend=sequence[0]) != 0))[numbers]  # recorded without a gap
    vectors = vectors[numbers]
    mirrored = local_vectors(metric, images.pictures, lambda some: some.flip(3))[numbers]  # that nobody has ever seen
    search = settings.neighbors or "exact"
    scored = score_runs(vectors, mirrored, run, config.max_gap, settings.max_neighbors, images.device, search)
    return numbers, run, median_distances(vectors, run, 2 * config.max_gap), scored


def steps_before(recorded: Sequences, usable: np.ndarray) -> np.ndarray:
    """(n,) how many steps were recorded before each frame; standing still is none."""
    start, clock = transitions(recorded.sequence, usable), np.zeros(recorded.num_frames)
    moved = recorded.still_since[start] != recorded.still_since[start + 1]
    clock[start + 1] = transition_weights(start, recorded.step_length) * moved
    return np.cumsum(clock)


def median_distances(vectors: np.ndarray, run: np.ndarray, max_gap: int) -> np.ndarray:
    """(max_gap + 1,) the median local distance of frames 0, 1, ... recorded steps apart; as far as runs are long."""
    starts = [(frames_ahead(run, gap), gap) for gap in range(1, max_gap + 1)]
    between = [np.linalg.norm(vectors[start + gap] - vectors[start], axis=1) for start, gap in starts]
    return np.array([0.0, *(float(np.median(distance)) for distance in between if len(distance))])
