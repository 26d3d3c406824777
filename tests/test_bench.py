"""Benchmarks at a size that takes seconds."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from plan2vec.bench import demo, recordings, run_benchmark, same_map
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig

QUICK = Config(local_metric=LocalMetricConfig(num_updates=5, batch_size=32), embedding=EmbeddingConfig(num_updates=5))


def test_the_demo_benchmark_gives_a_row_for_every_case_seed_and_metric(monkeypatch):
    monkeypatch.setattr(demo, "CASES", (("open", 8), ("c-maze", 2)))
    answer = demo.run(3, num_seeds=2, num_rollouts=6, config=QUICK, device="cpu")
    assert len(answer["rows"]) == 2 * 2 * len(demo.METRICS)
    assert {row["setting"]["dim"] for row in answer["rows"]} == {2, 8} and {row["seed"] for row in answer["rows"]} == {3, 4}
    assert len(answer["table"]) == 2 + 2 and all(line.count("|") == len(demo.METRICS) + 3 for line in answer["table"])


@pytest.fixture
def stored(tmp_path):
    """A function that stores frames of a slow film, with positions, and gives the path."""

    def store(name, num_frames):
        frames = np.random.default_rng(0).integers(256, size=(num_frames, 32, 32), dtype=np.uint8)
        np.savez(tmp_path / name, frames=frames, position=np.arange(num_frames)[:, None] * [1.0, 0.0])
        return tmp_path / name

    return store


def test_a_recording_stored_twice_gives_one_map(stored):
    rows = same_map.run(0, (stored("a.npz", 60), stored("b.npz", 60)), QUICK, "cpu")["rows"]
    assert {row["metric"]: row["value"] for row in rows} == pytest.approx({"map_agreement": 1, "graph_agreement": 1})


def test_maps_of_different_lengths_are_not_compared(stored):
    with pytest.raises(ValueError, match=r"a\.npz has 60 frames and .*b\.npz 50"):
        same_map.run(0, (stored("a.npz", 60), stored("b.npz", 50)), QUICK, "cpu")
    with pytest.raises(ValueError, match="two recordings of the same frames, but got 0"):
        run_benchmark("same-map", 0, ())
    with pytest.raises(ValueError, match="came with `bench demo`"):
        run_benchmark("demo", 0, (stored("a.npz", 20),))


def test_exact_distance_walks_best_among_the_methods_of_the_recordings_benchmark(stored, monkeypatch):
    monkeypatch.setattr(recordings, "VAEConfig", partial(recordings.VAEConfig, num_updates=3, batch_size=8))
    rows = recordings.run(0, (stored("line.npz", 60),), replace(QUICK, radius=1e-3), "cpu", recordings.Rule(success_radius=1.5))["rows"]
    success = {row["method"]: row["value"] for row in rows if row["metric"] == "success"}
    assert set(success) == {"plan2vec", "SPTM", "pixels", "VAE", "exact graph distance"}
    assert success["exact graph distance"] == 1 > success["pixels"]


def test_a_ring_is_told_from_a_line():
    phase = np.arange(40) / 40
    ring = np.stack((np.cos(2 * np.pi * phase), np.sin(2 * np.pi * phase)), axis=1)
    assert recordings.circular_correlation(recordings.angles(ring), 2 * np.pi * phase) == pytest.approx(1)
    line = np.stack((phase, 1e-3 * np.sin(40 * phase)), axis=1)
    assert recordings.circular_correlation(recordings.angles(line), 2 * np.pi * phase) < 0.8
    assert recordings.lap_gap(np.array([0.1, 0.9]), np.array([0.3, 0.1])).tolist() == pytest.approx([0.2, 0.2])
