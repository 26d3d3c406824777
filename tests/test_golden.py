"""The method moves no number unseen: a tiny fit of three kinds of recordings gives the numbers that are stored.

`python tests/test_golden.py` stores them anew, after METHOD_VERSION was raised because a change of results is wanted.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # several threads would add up in another order
if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import numpy as np
import pytest
import torch

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import Sequences, make_sequences
from plan2vec.domains import maze
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.version import METHOD_VERSION

torch.set_num_threads(1)
STORED = Path(__file__).with_name("golden.json")
# Everything else is decided by the recordings. After a few more updates, processors of another kind would differ by
# more than a changed method does: Adam amplifies rounding differences.
BRIEF = Config(local_metric=LocalMetricConfig(num_updates=3, batch_size=32),
               embedding=EmbeddingConfig(num_updates=3, goals_per_update=16, nodes_per_update=32, goals_per_round=32))
ADVICE = ("the results of the method have changed ({now} where {then} was stored). If that is wanted, raise "
          "METHOD_VERSION in version.py, then run `python tests/test_golden.py` to store them anew")


def rooms() -> Sequences:
    """Walks in a room seen from above, in a quarter of the pixels."""
    recorded = maze.simulate("c-maze", 30, seed=0)
    return replace(recorded, frames=np.ascontiguousarray(recorded.frames[:, ::4, ::4]))


def vectors() -> Sequences:
    """Random walks in a square."""
    rng = np.random.default_rng(0)
    place = rng.uniform(0, 4, (30, 1, 2)) + rng.normal(0, 0.5, (30, 10, 2)).cumsum(axis=1)
    return make_sequences(place.reshape(-1, 2), np.repeat(np.arange(30), 10))


def moving_camera() -> Sequences:
    """Three walks to and fro before a fixed random texture, whose near half scrolls twice as fast as its far half."""
    rng = np.random.default_rng(0)
    far, near = rng.integers(256, size=(2, 16, 160), dtype=np.uint8)
    place = np.concatenate([np.abs((start + np.arange(40)) % 100 - 50) for start in (0, 30, 60)])
    frames = [np.vstack((far[:, x : x + 32], near[:, 2 * x : 2 * x + 32])) for x in place.tolist()]
    return make_sequences(np.stack(frames), np.repeat(np.arange(3), 40))


KINDS = {"rooms": rooms, "vectors": vectors, "moving camera": moving_camera}


def numbers_of(model: Model) -> dict[str, object]:
    """A few numbers of every product; none of vectors themselves, whose origin means nothing."""
    here, there = np.array([0, 0, 7, 50]), np.array([1, 5, 90, 100])
    drawn = model.distance_between(*np.random.default_rng(0).integers(len(model.vectors), size=(2, 500)))
    return {
        "view": model.config.view, "encoder": model.config.encoder, "dim": model.vectors.shape[1],
        "local_accuracy": model.local_accuracy, "local_distances": model.local_distance(here, there).tolist(),
        "radius": model.radius, "num_edges": model.graph.nnz,
        "sum_of_lengths": float(model.graph.data.sum(dtype=float)),
        "path_lengths": [plan.length for plan in model.plan_many(here, there, "dijkstra")],
        "distances": model.distance_between(here, there).tolist(), "mean_distance": float(drawn.mean(dtype=float)),
        "deviation_of_distances": float(drawn.std(dtype=float)),
    }


def made(kind: str) -> dict[str, object]:
    return numbers_of(fit(KINDS[kind](), BRIEF, device="cpu"))


def test_a_changed_method_has_a_new_version():
    assert json.loads(STORED.read_text())["method_version"] == METHOD_VERSION, "run `python tests/test_golden.py`"


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_gives_the_stored_numbers(kind):
    stored, now = json.loads(STORED.read_text())[kind], made(kind)
    assert now.keys() == stored.keys() and now["view"] == ("moving" if kind == "moving camera" else "fixed")
    for name, then in stored.items():
        if isinstance(then, str):
            assert now[name] == then, ADVICE.format(now=now[name], then=then)
        else:
            assert now[name] == pytest.approx(
                then, rel=1e-3, abs=1e-6
            ), f"{kind}, {name}: {ADVICE.format(now=now[name], then=then)}"


if __name__ == "__main__":
    STORED.write_text(
        json.dumps({"method_version": METHOD_VERSION} | {kind: made(kind) for kind in KINDS}, indent=1) + "\n"
    )
