"""Benchmarks at a size that takes seconds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import plan2vec
from plan2vec import bench
from plan2vec.bench import (
    ANSWERS,
    BY_HAND,
    DOCS,
    PAGE,
    SPEED,
    fit_speed,
    measuring,
    peers,
    recording_scores,
    run_benchmark,
    same_map,
    speed_page,
)
from plan2vec.bench.measuring import peak_memory
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.domains.maze import simulate
from plan2vec.readers import read
from plan2vec.results.requests import BenchRequest
from plan2vec.results.rows import FIELDS, fitted_exponent, read_rows, select

QUICK = Config(local_metric=LocalMetricConfig(num_updates=5, batch_size=32), embedding=EmbeddingConfig(num_updates=5))


@pytest.fixture
def stored(tmp_path):
    """A function that stores frames of a slow film, with positions, and gives the path."""

    def store(name, num_frames):
        frames = np.random.default_rng(0).integers(256, size=(num_frames, 32, 32), dtype=np.uint8)
        np.savez(tmp_path / name, frames=frames, position=np.arange(num_frames)[:, None] * [1.0, 0.0])
        return tmp_path / name

    return store


def test_a_recording_stored_twice_gives_one_map(stored):
    rows = same_map.run(0, (stored("a.npz", 60), stored("b.npz", 60)), 1, QUICK, "cpu")["rows"]
    assert {row["metric"]: row["value"] for row in rows} == pytest.approx({"map_agreement": 1, "graph_agreement": 1})


def test_a_recording_is_stored_as_jpegs_and_as_videos_that_show_the_same(tmp_path):
    pytest.importorskip("av")
    recorded = simulate("open", 3, 10, 0)
    np.savez(tmp_path / "room.npz", frames=recorded.frames[:, 1:], sequence=recorded.sequence)  # 63 pixels high
    jpegs, videos = (read(path) for path in same_map.store_twice(tmp_path / "room.npz", tmp_path))
    for stored in (jpegs, videos):
        assert stored.frames.shape == (30, 62, 64, 1) and np.array_equal(np.bincount(stored.sequence), (10, 10, 10))
        error = np.abs(stored.frames.astype(float) - recorded.frames[:, 1:63]).mean()
        assert 0 < error < 3 < np.abs(stored.frames.astype(float) - recorded.frames[::-1, 1:63]).mean()


def test_maps_of_different_lengths_are_not_compared(stored):
    with pytest.raises(ValueError, match=r"a\.npz has 60 frames and .*b\.npz 50"):
        same_map.run(0, (stored("a.npz", 60), stored("b.npz", 50)), 1, QUICK, "cpu")
    with pytest.raises(ValueError, match="two recordings of the same frames, or one .* but got 0"):
        run_benchmark(BenchRequest("same-map"))
    with pytest.raises(ValueError, match="came with `bench explorer`"):
        run_benchmark(BenchRequest("explorer", paths=(stored("a.npz", 20),)))


def test_a_row_of_the_recordings_benchmark_tells_a_measure_of_truth_and_its_table_has_no_empty_column(stored):
    answer = recording_scores.run(0, (stored("line.npz", 60),), 1, replace(QUICK, radius=1e-3), "cpu")
    card = {row["metric"]: row["value"] for row in answer["rows"]}
    assert {"plan_validity", "unreachable", "greedy_validity", "false_edge_share", "spearman_true"} <= card.keys()
    assert card["plan_validity"] == 1 and {(row["method"], row["seed"]) for row in answer["rows"]} == {("plan2vec", 0)}
    assert "plan validity" in answer["table"][0] and "within label" not in answer["table"][0]


def test_joined_recordings_are_one_fit_in_which_closures_between_them_are_false(stored):
    paths = (stored("a.npz", 40), stored("b.npz", 50))  # b begins with the frames of a
    rows = recording_scores.run(0, paths, 1, replace(QUICK, view="fixed"), "cpu", joined=True)["rows"]
    card = {row["metric"]: row["value"] for row in rows}
    assert {row["domain"] for row in rows} == {"a+b"} and card["num_frames"] == 90
    assert card["cross_label_share"] > 0.5 and card["false_edge_share"] >= card["cross_label_share"]
    with pytest.raises(ValueError, match="two or more recordings with frames of one shape"):
        recording_scores.run(0, paths[:1], 1, QUICK, "cpu", joined=True)


def test_what_the_recordings_benchmark_needs_is_said():
    with pytest.raises(ValueError, match="needs --paths"):
        run_benchmark(BenchRequest("recordings"))
    with pytest.raises(ValueError, match="--mazes needs --doom-data"):
        run_benchmark(BenchRequest("recordings", paths=(Path("a.npz"),), mazes=("office1",)))
    with pytest.raises(ValueError, match="knows pendulum, mountain-car, cart-pole, acrobot, but 'cart' came"):
        run_benchmark(BenchRequest("recordings", dynamics=("cart",)))


@pytest.mark.parametrize("name", recording_scores.DYNAMICS)
def test_the_physics_is_gymnasiums_and_recorded_steps_are_possible_but_not_the_way_back(name):
    gymnasium = pytest.importorskip("gymnasium")
    world, environment = recording_scores.DYNAMICS[name], gymnasium.make(recording_scores.DYNAMICS[name].environment)
    seen, _ = environment.reset(seed=0)
    environment.action_space.seed(0)
    for _ in range(150):
        action = environment.action_space.sample()
        expected, _, over, _, _ = environment.step(action)
        assert np.allclose(world.move(seen[None].astype(float), np.ravel(action)), expected, atol=1e-5)
        seen = environment.reset()[0] if over else expected
    recording = recording_scores.roll_out(name, 0)
    frames, scale = recording.frames.astype(float), 1 / recording.frames.std(axis=0)
    start = np.flatnonzero(recording.sequence[3:] == recording.sequence[:-3])[:200]
    tolerance = 0.5 * np.median(np.linalg.norm((frames[start + 1] - frames[start]) * scale, axis=1))
    assert recording_scores.achieved(world, frames[start], frames[start + 1], scale, tolerance).mean() >= 0.99
    assert recording_scores.achieved(world, frames[start + 3], frames[start], scale, tolerance).mean() < 0.6


@pytest.mark.parametrize("name", ["recordings", "same-map"])
def test_every_seed_of_a_benchmark_of_recordings_is_a_fit_of_its_own(name, stored, monkeypatch):
    module, fitted = {"recordings": recording_scores, "same-map": same_map}[name], []

    def fit(recordings, config, device):
        fitted.append(plan2vec.fit(recordings, replace(QUICK, seed=config.seed), device=device))
        return fitted[-1]

    monkeypatch.setattr(module, "fit", fit)
    paths = (stored("a.npz", 40), stored("b.npz", 40))[: 2 if name == "same-map" else 1]
    rows = run_benchmark(BenchRequest(name, seed=3, seeds=2, paths=paths, device="cpu"))["rows"]
    assert {row["seed"] for row in rows} == {3, 4} and [
        model.config.seed for model in fitted
    ] == sorted([3, 4] * len(paths))
    assert not np.allclose(fitted[0].vectors, fitted[-1].vectors)
    assert len(select(rows, seed=3)) == len(select(rows, seed=4)) > 0


def test_every_seed_of_a_benchmark_of_speed_is_a_fit_of_its_own(tmp_path, monkeypatch):
    fitted = []
    monkeypatch.setattr(
        fit_speed, "fit", lambda *args, **options: fitted.append(plan2vec.fit(*args, **options)) or fitted[-1]
    )
    rows = run_benchmark(
        BenchRequest("fit", seed=1, seeds=2, sizes=(200, 0), smoke=True, device="cpu", out=tmp_path)
    )["rows"]
    assert [model.config.seed for model in fitted] == [1, 2] and {row["seed"] for row in rows} == {1, 2}
    assert not np.allclose(fitted[0].vectors, fitted[1].vectors)


def test_two_phases_of_a_loop_are_as_far_apart_as_the_short_way_round():
    assert recording_scores.lap_gap(np.array([0.1, 0.9]), np.array([0.3, 0.1])).tolist() == pytest.approx([0.2, 0.2])


@pytest.mark.parametrize("name", [name for name in SPEED if name not in ("peers", "explorer")])  # it needs a browser
def test_a_benchmark_of_speed_gives_rows_a_table_and_its_figure(name, tmp_path):
    answer = run_benchmark(BenchRequest(name, seed=2, device="cpu", smoke=True, out=tmp_path))
    rows = answer["rows"]
    assert rows and rows == read_rows(tmp_path / f"bench-{name}.jsonl") and all(tuple(row) == FIELDS for row in rows)
    assert {
        (row["experiment"], row["seed"]) for row in rows
    } == {(name, 2)} and all("CPU cores" in row["device"] for row in rows)
    assert answer["tables"][name][1].startswith("| --- |")
    assert (tmp_path / f"bench-{name}.png").exists() == (SPEED[name].draw is not None)
    timed = [
        row["value"] for row in rows
        if "second" in row["metric"] or row["metric"] == "total"
    ]
    assert timed and all(timed)


def test_peers_are_compared_by_success_and_what_is_not_installed_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "PEERS", {"UMAP": ("no_such_package", None), "VAE": peers.PEERS["VAE"]})
    answer = run_benchmark(BenchRequest("peers", device="cpu", smoke=True, out=tmp_path))
    success = {row["method"]: row["value"] for row in answer["rows"] if row["metric"] == "success"}
    assert set(success) == {"plan2vec", "VAE"} and all(0 <= value <= 1 for value in success.values())
    missing = [row for row in answer["rows"] if row["method"] == "UMAP"]
    assert [
        row["value"] for row in missing
    ] == [None] and "no_such_package is not installed" in missing[0]["setting"]["settings"]


def test_the_fitted_exponent_is_the_power_of_growth():
    sizes = [1e4, 3e4, 1e5, 1e6]
    assert fitted_exponent(sizes, [3e-5 * size**1.15 for size in sizes]) == pytest.approx(1.15)
    assert fitted_exponent([10, 10], [1, 2]) is None


def test_peak_memory_counts_what_was_held_for_a_moment_only():
    if measuring.peak_memory() is None:
        pytest.skip("this system does not say")
    measuring.forget_peak()
    before = peak_memory()
    block = np.ones(2**25)  # 0.27 GB
    del block
    assert peak_memory() - before > 0.2


def test_options_of_one_kind_of_benchmark_are_refused_by_the_other(tmp_path):
    with pytest.raises(ValueError, match="--sizes is for `bench fit.*explorer.*came with `bench same-map`"):
        run_benchmark(BenchRequest("same-map", sizes=(10,)))
    with pytest.raises(ValueError, match="--smoke results are no results"):
        run_benchmark(BenchRequest("fit", smoke=True, write_docs=True))
    with pytest.raises(ValueError, match="--sizes are for one benchmark"):
        run_benchmark(BenchRequest("all", sizes=(10,), out=tmp_path))


def test_a_benchmark_that_does_not_exist_is_answered_by_those_that_do():
    with pytest.raises(ValueError, match="'speed'") as caught:
        run_benchmark(BenchRequest("speed"))
    assert all(name in str(caught.value) for name in (*ANSWERS, *SPEED, "all"))


def test_no_file_of_the_benchmarks_is_named_as_one_of_another_package():
    package = Path(bench.__file__).parents[1]
    others = {path.stem for path in package.glob("**/*.py") if path.parent.name != "bench"} - {"__init__"}
    names = {path.stem for path in (package / "bench").glob("*.py")} - {"__init__"}
    assert names & (others | {path.name for path in package.iterdir()}) == set()


def test_the_page_on_speed_is_made_from_the_committed_rows_and_short():
    page = speed_page(DOCS)
    assert (DOCS / PAGE).read_text() == page and len(page.partition(BY_HAND)[0].encode()) <= 8000


def test_sizes_choose_what_is_measured(tmp_path):
    rows = run_benchmark(BenchRequest("fit", device="cpu", smoke=True, sizes=(300, 500), out=tmp_path))["rows"]
    assert {(row["domain"], row["setting"]["frames"]) for row in rows} == {("c-maze", 300), ("vectors", 500)}


def test_rows_name_the_commit_that_they_are_given(tmp_path):
    asked = BenchRequest("fit", device="cpu", smoke=True, sizes=(200, 0), out=tmp_path, commit="abc1234")
    answer = run_benchmark(asked)
    assert {row["commit"] for row in answer["rows"]} == {"abc1234"}
