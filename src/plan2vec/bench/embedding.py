"""Claim: an update of the embedding takes little more than the bare network's forward and backward pass at the same
batch.

Command: plan2vec bench embedding        Cost: a minute on two CPU cores, seconds on a GPU
Expected: ratio at most 1.3 on a GPU

An update: draw 128 goals and 256 nodes, encode their 384 frames, all 128 x 256 distances against the shortest paths,
the loss, its gradient, Adam. Measured as the slope of a training's time in the number of its updates; the searches, as
many however long one trains, are in `bench shortest-distances`. The graph joins true positions. Bare: the same encoder
on 384 images, a mean square, no optimizer; on a GPU captured and replayed as an update is.
"""

from collections.abc import Iterator

import numpy as np
import torch
from matplotlib.figure import Figure

from plan2vec.bench.measuring import Options, bar_figure, number_table
from plan2vec.bench.training_step import COLUMNS, compare, recordings
from plan2vec.config import Config, EmbeddingConfig
from plan2vec.embedding.train import train_embedding
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import near_pairs
from plan2vec.learning.encoders import make_encoder
from plan2vec.results.rows import Row

NAME, TITLE = "embedding", "A training step of the embedding"
MEDIAN_STEP, RADIUS = 0.03, 1.28  # metres; steps


def run(options: Options) -> Iterator[list[Row]]:
    sequences, config = recordings(options), Config()
    assert sequences.position is not None
    pairs = near_pairs((sequences.position / MEDIAN_STEP).astype(np.float32), RADIUS, 200, torch.device("cpu"))
    pairs = pairs.select(pairs.second - pairs.first > 1)
    graph = build_graph(sequences.sequence, pairs, None, False, np.ones(sequences.num_frames, bool))
    block = EmbeddingConfig() if not options.smoke else EmbeddingConfig(
        goals_per_update=16, nodes_per_update=32, goals_per_round=32
    )

    def train(num_updates: int) -> None:
        stage = EmbeddingConfig(
            num_updates, block.goals_per_update, block.nodes_per_update, goals_per_round=block.goals_per_round
        )
        train_embedding(
            sequences.frames, graph, config.encoder, config.dim, "lp", 2.0, stage, options.seed, options.device
        )

    network = make_encoder(config.encoder, sequences.frames, config.dim)
    yield compare(options, NAME, sequences.frames, network, block.goals_per_update + block.nodes_per_update, train)


def table(rows: list[Row]) -> list[str]:
    return number_table(rows, COLUMNS, ("batch", "frames"))


def draw(rows: list[Row]) -> Figure:
    return bar_figure(rows, "ratio", "update / forward and backward pass of the bare network")
