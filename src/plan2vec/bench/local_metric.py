"""Claim: an update of the local metric takes little more than the bare network's forward and backward pass at the same
batch.

Command: plan2vec bench local-metric        Cost: a minute on two CPU cores, seconds on a GPU
Expected: ratio at most 1.3 on a GPU

An update: draw 256 recorded steps, encode their 512 frames, all 512 x 512 distances, the loss, its gradient, Adam.
Measured as the slope of a training's time in the number of its updates, so that what happens once (capture, first
allocation) does not count. Bare: the same encoder on 512 images that lie ready, a mean square as loss, no optimizer; on
a GPU captured and replayed as an update is.
"""

from collections.abc import Iterator

from matplotlib.figure import Figure

from plan2vec.bench.measuring import Options, bar_figure, number_table
from plan2vec.bench.training_step import COLUMNS, compare, recordings
from plan2vec.config import Config, LocalMetricConfig
from plan2vec.learning.encoders import make_encoder
from plan2vec.local_metric import train_local_metric
from plan2vec.results.rows import Row

NAME, TITLE = "local-metric", "A training step of the local metric"


def run(options: Options) -> Iterator[list[Row]]:
    sequences, config = recordings(options), Config()
    batch = options.choose(LocalMetricConfig().batch_size, 32)
    stretch = sequences.stretch

    def train(num_updates: int) -> float:
        stage = LocalMetricConfig(num_updates=num_updates, batch_size=batch)
        train_local_metric(
            sequences.frames, sequences.sequence, config.encoder, 1, stage, options.seed, options.device,
            stretch=stretch
        )
        return num_updates + stage.last_updates().num_updates

    network = make_encoder(config.encoder, sequences.frames, LocalMetricConfig().dim)
    yield compare(options, NAME, sequences.frames, network, 2 * batch, train)


def table(rows: list[Row]) -> list[str]:
    return number_table(rows, COLUMNS, ("batch", "frames"))


def draw(rows: list[Row]) -> Figure:
    return bar_figure(rows, "ratio", "update / forward and backward pass of the bare network")
