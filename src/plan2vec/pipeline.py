"""plan2vec in one screen: recordings in, graph, metric map and planner out. Start reading here.

recordings -> local metric -> graph            -> shortest distances -> metric map       -> plans
              local_metric    graph/join          search/               embedding/train     model, planner
                              graph/closures      embedding/targets
                              graph/closures_moving (moving camera)"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.config import Config, keep_decisions, settle
from plan2vec.data import Sequences, make_sequences, training_frames
from plan2vec.embedding.network import Embedding, map_vectors
from plan2vec.embedding.train import train_map
from plan2vec.graph.direction import given_graph
from plan2vec.graph.join import join_frames, share_refused
from plan2vec.graph.neighbors import usearch_installed
from plan2vec.learning.frame_tensors import FrameTensors, choose_device
from plan2vec.learning.frozen import network_input
from plan2vec.learning.gradient_loop import Journal
from plan2vec.learning.processes import first_does, is_first
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.local_metric import LocalMetric, TrainedMetric, train_local_metric
from plan2vec.model import Learned, Model
from plan2vec.readers import read
from plan2vec.runs.folder import is_run, read_config, recorded_features
from plan2vec.runs.resume import open_run, writing

Recordings = Sequences | str | Path | np.ndarray | list[np.ndarray]
Make = Callable[..., Any]  # (name of the product, the stage's function, its arguments) -> the product


def make_anew(name: str, stage: Callable, *arguments: Any) -> Any:
    return stage(*arguments)


def learn(recorded: Sequences, config: Config, images: FrameTensors, make: Make = make_anew) -> Learned:
    """The method. `config` is settled, `images` are the recorded frames on the device; no stage ever sees a position.

    `make` calls a stage; `Run.make` also saves its product, or loads it if the file is there already."""
    usable = training_frames(recorded.sequence, config.holdout, rng_at(config.seed, Stream.HOLDOUT))
    refused = partial(share_refused, recorded, config, images, usable)
    trained = make("local_metric", train_local_metric, recorded, config, images, usable, refused)
    built = make("graph", join_frames, recorded, trained, config, images, usable)
    config = replace(config, directed=built.directed)
    embedding = make("embedding", train_map, images, built.graph, config, trained.metric)
    vectors = make("vectors", map_vectors, embedding, images)
    return Learned(trained, built, embedding, vectors)


def settled_for(recordings: Sequences, config: Config, folder: Path | None, device: torch.device) -> Config:
    """The settled configuration; what a run folder has decided already stays as it was decided there."""
    if folder and is_run(folder) and (folder / "config.json").exists():
        config = keep_decisions(config, read_config(folder))
    return settle(config, recordings, device.type, usearch_installed())


def as_sequences(recordings: Recordings) -> Sequences:
    """Sequences from a file or folder, one array of frames, or a list with one per sequence."""
    if isinstance(recordings, str | Path):
        return read(Path(recordings))
    if isinstance(recordings, list | tuple):
        labels = np.repeat(np.arange(len(recordings)), [len(part) for part in recordings])
        return make_sequences(np.concatenate([np.asarray(part) for part in recordings]), labels)
    return make_sequences(recordings) if isinstance(recordings, np.ndarray) else recordings


def fit(recordings: Recordings, config: Config = Config(), out: str | Path | None = None, device: str = "auto",
        show_progress: bool = False, checkpoint_seconds: float = 10.0, *, local_metric: LocalMetric | None = None,
        graph: csr_array | None = None, embedding: Embedding | None = None) -> Model:
    """Fit graph and metric map to recordings. With `out` every product is kept there, and an interrupted fit continues.

    `recordings`: `Sequences`, a file or folder, one array of frames (one sequence), or a list of arrays (one each).
    `config`: what is not given there is decided from the recordings. `device`: auto, cpu, cuda or mps. `show_progress`:
    to standard error; without it the logger "plan2vec" has the same lines. `checkpoint_seconds`: between checkpoints.
    `local_metric`, `graph` and `embedding` replace a stage: what is given is used, and only the rest is learned.
    Returns the `Model`: graph, metric map and planner."""
    recordings = as_sequences(recordings)
    n = recordings.num_frames
    if graph is not None and graph.shape != (n, n):
        raise ValueError(f"graph must be square with one row per frame, ({n}, {n}), but has shape {graph.shape}")
    target, folder = choose_device(device), Path(out) if out is not None else None
    journal = Journal(folder, show_progress, checkpoint_seconds, logs=True) if is_first() else Journal()
    given = {"local_metric": None if local_metric is None else TrainedMetric(local_metric),
             "graph": None if graph is None else given_graph(graph, config), "embedding": embedding}
    with writing(folder):
        run = open_run(folder, recordings, settled_for(recordings, config, folder, target), journal, given)
        recorded = run.sequences.without_truth()
        features = recorded_features(folder, recorded.frames, run.config.encoder, target)
        images = network_input(recorded.frames, run.config.encoder, target, features=features)
        learned = learn(recorded, run.config, images, run.make)
        first_does(run.finish)
    model = Model(run.sequences, run.config, learned, run.seconds(), folder)
    model.features = features
    return model
