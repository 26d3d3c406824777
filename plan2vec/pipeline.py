"""plan2vec in one screen: recordings in, graph, metric map and planner out. Start reading here.

recordings -> local metric -> near pairs -> graph -> shortest distances -> embedding -> vectors -> plans
              local_metric    neighbors     graph    search               embedding    model      planner
                                            closures
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.closures import ClosureConfig, choose_closures
from plan2vec.config import Config, follow_view
from plan2vec.data import Sequences, equal_frames, split_sequences
from plan2vec.embedding import Embedding, train_embedding
from plan2vec.encoder import FrameTensors, choose_device, encode
from plan2vec.graph import build_graph
from plan2vec.local_metric import LocalMetric, StackedMetric, local_vectors, pair_distances, recorded_pairs, train_local_metric
from plan2vec.model import Model
from plan2vec.neighbors import NearPairs, near_pairs
from plan2vec.processes import is_first
from plan2vec.run import (
    BuiltGraph,
    load_embedding,
    load_graph,
    load_local_metric,
    load_vectors,
    open_run,
    save_embedding_of,
    save_graph_of,
    save_local_metric,
    save_vectors,
)  # fmt: skip
from plan2vec.search import connected_parts
from plan2vec.strike import drop_struck, read_judged
from plan2vec.training import Journal, rng_at
from plan2vec.value_iteration import train_value_iteration

ALL_PAIRS_BELOW = 2000  # frames up to which a stacked metric scores all pairs


def fit(
    sequences: Sequences,
    config: Config = Config(),
    out: str | Path | None = None,
    device: str = "auto",
    show_progress: bool = False,
    checkpoint_seconds: float = 10.0,
) -> Model:
    """Fit graph and metric map to recordings. With `out` every product is kept there, and an interrupted fit continues."""
    folder, target = (Path(out) if out is not None else None), choose_device(device)
    journal = Journal(folder, show_progress, checkpoint_seconds) if is_first() else Journal()
    config = follow_view(config, sequences)
    run, sequences = open_run(folder, sequences, config, journal)
    recorded = sequences.without_truth()  # no stage below ever sees a position
    frames, sequence = recorded.frames, recorded.sequence
    images, usable = FrameTensors(frames, target), training_frames(sequence, config)  # the images serve all stages

    metric, accuracy = run.product(
        "local_metric.safetensors",
        lambda: train_local_metric(frames, sequence, config.encoder, config.max_gap, config.local_metric, config.seed, target, journal,
                                   usable, recorded.stretch, images),
        save_local_metric, lambda path: load_local_metric(path, frames, config, target),
    )  # fmt: skip
    built = run.product(
        "graph.npz", lambda: join_frames(recorded, metric, config, target, usable, images), save_graph_of(sequence), load_graph
    )
    struck = read_judged(folder).struck
    built = replace(built, graph=drop_struck(built.graph, sequence, struck))
    journal.say(built.report)
    warn_about_parts(built, usable, journal)
    embedding = run.product(
        "embedding.safetensors",
        lambda: train_map(frames, built.graph, config, target, journal, images),
        save_embedding_of(struck), lambda path: load_embedding(path, frames, config, target),
    )  # fmt: skip
    vectors = run.product("vectors.npy", lambda: float(embedding.scale) * encode(embedding.encoder, images), save_vectors, load_vectors)
    return Model(sequences, config, metric, accuracy, built.graph, built.radius, built.report, embedding, vectors, run.seconds(), folder)


def train_map(
    frames: np.ndarray, graph: csr_array, config: Config, device: torch.device, journal: Journal, images: FrameTensors | None = None
) -> Embedding:
    """Stage 4, by the configured variant."""
    shape = (config.encoder, config.dim, config.head, config.norm_order)
    if config.variant == "value-iteration":
        return train_value_iteration(frames, graph, *shape, config.value_iteration, config.seed, device, journal, images)
    return train_embedding(frames, graph, *shape, config.embedding, config.seed, device, journal, images=images)


def training_frames(sequence: np.ndarray, config: Config) -> np.ndarray:
    """(n,) bool: frames that may be trained on; the rest is held out."""
    kept, held_out = split_sequences(sequence, config.holdout, rng_at(config.seed, 20))
    if config.holdout > 0 and not held_out.any():
        raise ValueError(f"--holdout {config.holdout} leaves nothing out of {len(sequence)} frames in one sequence; record more or drop it")
    return kept


def join_frames(
    sequences: Sequences, metric: LocalMetric, config: Config, device: torch.device, usable: np.ndarray, images: FrameTensors | None = None
) -> BuiltGraph:
    """Stage 2: the recorded transitions and the loop closures that can be believed, as one graph."""
    images = FrameTensors(sequences.frames, device) if images is None else images
    stretch = sequences.stretch
    apart = usable & (stretch == np.arange(len(stretch)))  # a place where one stood still is joined by its first frame only
    first = recorded_pairs(sequences.frames, sequences.sequence, usable, 1, stretch).first[0]
    steps = pair_distances(metric, images, first, first + 1)
    reach = config.radius or max(float(np.quantile(steps, 0.95)), config.closures.max_radius * config.max_gap)
    candidates = candidate_pairs(metric, images, np.flatnonzero(apart), reach, config.closures)
    kind = first_equal(sequences.frames, apart)
    closures = choose_closures(candidates, steps, sequences.sequence, kind, config.radius, config.max_gap, config.closures, device)
    graph = build_graph(sequences.sequence, closures.pairs, sequences.step_length, config.directed, usable, stretch)
    return BuiltGraph(graph, closures.radius, closures.reason)


def first_equal(frames: np.ndarray, joined: np.ndarray) -> np.ndarray:
    """(n,) the first of the joined frames that equals a joined one to the last pixel; -1 for the others."""
    numbers = np.flatnonzero(joined)
    first, which = equal_frames(frames, numbers)
    kind = np.full(len(frames), -1)
    kind[numbers] = first[which]
    return kind


def candidate_pairs(metric: LocalMetric, images: FrameTensors, numbers: np.ndarray, reach: float, config: ClosureConfig) -> NearPairs:
    """Pairs of the numbered frames within `reach` steps. A stacked metric re-scores the nearest by its Siamese companion."""
    vectors = local_vectors(metric, images)[numbers]
    stacked = isinstance(metric, StackedMetric)
    within = np.inf if stacked else reach
    most = len(numbers) if stacked and len(numbers) < ALL_PAIRS_BELOW else config.max_neighbors
    found = near_pairs(vectors, within, most, images.device, config.search, config.prefer)
    found = replace(found, first=numbers[found.first], second=numbers[found.second])
    if not stacked:
        return found
    there, back = (pair_distances(metric, images, *ends) for ends in ((found.first, found.second), (found.second, found.first)))
    scored = replace(found, distance=(there + back) / 2)  # the network is not symmetric by itself
    return scored.select(scored.distance <= reach)


def warn_about_parts(built: BuiltGraph, usable: np.ndarray, journal: Journal) -> None:
    """A map of several parts is no failure, but the user should know, and know what to do."""
    _, part = connected_parts(built.graph)
    num_parts = len(np.unique(part[usable]))  # no edge leads to a frame that is not usable
    if num_parts > 1:
        journal.say(
            f"warning: the graph has {num_parts} parts that never meet; plans exist inside each. "
            f"Remedy: record sequences that overlap, or raise --radius (now {built.radius:.2f} steps) or --max-gap"
        )
