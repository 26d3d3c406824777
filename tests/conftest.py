"""One thread per process, and the two small runs that several files look at.

On the small networks of the tests more threads are slower, by far when cores are shared.
"""

import os
from dataclasses import replace
from pathlib import Path

# for the processes that tests start: one thread each, and the package of this checkout wherever they run
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent / "src")

import numpy as np
import pytest
import torch

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import make_sequences
from plan2vec.domains import maze
from plan2vec.model import Model
from plan2vec.pipeline import fit

torch.set_num_threads(1)

FEW = Config(
    local_metric=LocalMetricConfig(num_updates=5, batch_size=32),
    embedding=EmbeddingConfig(num_updates=5, goals_per_update=16, nodes_per_update=32, goals_per_round=16)
)


@pytest.fixture(scope="session")
def room(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Images of the table room in a quarter of the pixels, with positions, in a run folder; three dimensions."""
    sequences = maze.simulate("table", 20, 10, 0)
    sequences = replace(sequences, frames=np.ascontiguousarray(sequences.frames[:, ::4, ::4]))
    return fit(sequences, replace(FEW, dim=3), out=tmp_path_factory.mktemp("room"), device="cpu")


@pytest.fixture(scope="session")
def islands() -> Model:
    """Vectors without positions, in memory: two flocks of random walks that never meet."""
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(8, 12, 2)).cumsum(axis=1) + 500 * (np.arange(8) % 2)[:, None, None]
    sequences = make_sequences(walks.reshape(-1, 2), np.repeat(np.arange(8), 12))
    return fit(sequences, replace(FEW, dim=2, radius=0.1), device="cpu")
