"""Progress of frames: exact on a line whose distances are known, unknown where nothing is known, and files as LeRobot
reads them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import FEW
from samples import write_lerobot

from plan2vec.commands.main import main
from plan2vec.data import make_sequences
from plan2vec.datasets.progress_files import (
    COLUMNS,
    LAST,
    Goals,
    Table,
    choose_goals,
    progress_of_frames,
    progress_table,
    sample_weights,
    write_table,
)
from plan2vec.domains.maze import simulate
from plan2vec.experiments.episode_progress import failed_in_truth, make_trials, scores
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import NearPairs
from plan2vec.model import Located, Model
from plan2vec.pipeline import fit
from plan2vec.progress import NUM_ENTRIES, progress_curve, smoothed, steps_left
from plan2vec.search.shortest_paths import distances_from

WALKS = {0: range(13), 1: range(13), 2: range(13), 3: range(7), 4: range(12, -1, -1), 5: range(13)}  # places of frames


def line_model(walks: dict[int, range] = WALKS, **more) -> Model:
    """Walks on a line, joined wherever they show the same place: what is left is known exactly."""
    place = np.concatenate([list(walk) for walk in walks.values()])
    sequence = np.repeat(list(walks), [len(walk) for walk in walks.values()])
    observed = np.stack((place, np.zeros(len(place))), axis=1).astype(np.float32)
    first, second = np.triu_indices(len(place), 1)
    same = (place[first] == place[second]) & (sequence[first] != sequence[second])
    pairs = NearPairs(first[same], second[same], np.zeros(np.count_nonzero(same), np.float32))
    return fit(make_sequences(observed, sequence, **more), replace(FEW, dim=2), device="cpu",
               graph=build_graph(sequence, pairs))


@pytest.fixture(scope="module")
def line() -> Model:
    return line_model()


def frames_of(model: Model, episode: int) -> np.ndarray:
    return np.flatnonzero(model.sequences.sequence == episode)


def test_a_straight_walk_to_the_goal_progresses_evenly(line):
    frames = frames_of(line, 0)
    found = line.progress(frames, frames[-1])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[1:-1], np.arange(1, 12) / 12, atol=0.05)
    assert found[0] == 0 and found[-1] > 0.95


def test_walking_away_from_the_goal_is_clipped_at_0_and_the_nearest_goal_counts(line):
    away = frames_of(line, 4)[4:]  # from place 8 to 0
    assert line.progress(away, frames_of(line, 0)[-1]).max() == 0
    both = np.array([frames_of(line, 0)[-1], frames_of(line, 0)[0]])  # places 12 and 0
    assert line.progress(away, both)[-1] > 0.9


def test_an_episode_that_starts_within_two_steps_of_a_goal_has_no_progress():
    assert np.isnan(progress_curve(np.array([1.5, 1.0, 0.0]))).all()
    assert not np.isnan(progress_curve(np.array([2.5, 2.5, 0.0]))).any()


def test_smoothing_moves_nothing_by_more_than_one_step_and_keeps_jumps():
    left = np.array([10, 10.5, 9.5, 10, 2, 2, np.nan, 2.0])
    smooth = smoothed(left)
    assert np.abs(smooth - left)[np.isfinite(left)].max() <= 1 and np.isnan(smooth[6]) and np.isfinite(smooth[7])
    assert smooth[3] - smooth[4] >= 6 and np.ptp(smooth[:3]) < np.ptp(left[:3])


def test_an_unknown_start_is_replaced_by_the_first_frame_that_is_known():
    found = progress_curve(np.array([np.nan, 8.0, 8.0, 8.0, 4.0, 4.0, 4.0]))
    assert np.isnan(found[0]) and found[2] == 0 and found[5] == pytest.approx(0.5)


# ---------------------------------------------------------------------------------------------------- goals


def test_the_end_of_an_episode_itself_is_no_goal_unless_it_is_named_good(line):
    """Episode 3 stops half-way."""
    goals = choose_goals(line, LAST)
    found = progress_of_frames(line, goals)
    assert found[frames_of(line, 0)][-1] > 0.9 and found[frames_of(line, 3)][-1] == pytest.approx(0.5, abs=0.1)
    named = choose_goals(line, "3")
    assert progress_of_frames(line, named)[frames_of(line, 3)][-1] > 0.9


def test_an_end_that_looks_like_a_start_is_left_out_and_named(line):
    """Episode 4 runs backwards: it ends where the others start."""
    goals = choose_goals(line, LAST)
    assert goals.left_out == (4,) and frames_of(line, 4)[-1] not in goals.numbers
    with_it = Goals(np.append(goals.numbers, frames_of(line, 4)[-1]), False)
    assert np.isnan(progress_of_frames(line, with_it)[frames_of(line, 0)]).all()  # what it would have spoiled


def test_goals_are_episodes_ranges_of_them_or_frames(line):
    ends = [frames_of(line, episode)[-1] for episode in range(6)]
    assert choose_goals(line, "0,2").numbers.tolist() == [ends[0], ends[2]]
    assert choose_goals(line, "1-2,5").numbers.tolist() == [ends[1], ends[2], ends[5]]
    assert choose_goals(line, "1:3,0:0").numbers.tolist() == [0, frames_of(line, 1)[3]]


def test_frames_from_which_no_path_leads_to_a_goal_are_unknown(islands):
    part = islands.parts[1]
    goal = int(np.flatnonzero(part == 0)[-1])
    elsewhere = np.flatnonzero(islands.sequences.sequence == islands.sequences.sequence[part == 1][0])
    assert np.isnan(islands.progress(elsewhere, goal)).all()


def test_an_image_off_the_map_is_unknown_as_frame_and_refused_as_goal(line):
    far = np.full((1, 2), 1e6, np.float32)
    known = line.sequences.frames[frames_of(line, 0)]
    found = line.progress(np.concatenate((known, far)), frames_of(line, 0)[-1])
    assert np.isnan(found[-1]) and np.isfinite(found[:-1]).all()
    with pytest.raises(ValueError, match="not on the map"):
        line.progress(known, far)


def test_frames_are_numbers_or_images_of_any_size_and_wrong_numbers_are_refused(line, room):
    whole = line.progress([0, 1, 2, 3], 12)
    np.testing.assert_array_equal(whole, line.progress(np.arange(4), np.array([12])))
    sizes = [np.zeros((20, 30, 3), np.uint8), np.full((16, 16, 3), 200, np.uint8)]
    assert room.progress(sizes, 5).shape == (2,)
    for frames, goals in (([0, 999], 3), ([0, 1], 999), ([0, 1], [])):
        with pytest.raises(ValueError, match="must be a frame number|no goal"):
            line.progress(frames, goals)


def test_a_held_out_frame_goes_on_from_the_fitted_frame_that_makes_its_way_shortest():
    walks = np.random.default_rng(0).normal(size=(6, 20, 2)).cumsum(axis=1)
    recorded = make_sequences(walks.reshape(-1, 2), np.repeat(np.arange(6), 20))
    model = fit(recorded, replace(FEW, dim=2, holdout=0.15), device="cpu")
    degree = np.diff(model.graph.indptr)
    fitted, unseen = np.flatnonzero(degree), np.flatnonzero(degree == 0)
    assert len(unseen) == 20
    goal = int(fitted[0])
    exact = distances_from(model.graph, np.array([goal]))[0]  # this graph has no direction
    for number, found in zip(unseen, steps_left(model, recorded.frames[unseen], np.array([goal])), strict=True):
        away = np.linalg.norm(model.local_vectors[fitted] - model.local_vectors[number], axis=1)
        near = np.argsort(away)[:NUM_ENTRIES]
        ways = [away[one] + exact[fitted[one]] for one in near if away[one] <= max(model.radius, 2.0)]
        expected = min(ways, default=np.inf)
        assert found == pytest.approx(expected, abs=1e-3) if np.isfinite(expected) else np.isnan(found)
    assert np.isfinite(steps_left(model, unseen, fitted)).any()


def test_progress_never_looks_at_positions():
    place = np.random.default_rng(0).normal(size=(sum(map(len, WALKS.values())), 2))
    found = [progress_of_frames(model, choose_goals(model, LAST))
             for model in (line_model(), line_model(position=place))]
    np.testing.assert_array_equal(*found)


# ---------------------------------------------------------------------------------------------------- files


@pytest.fixture
def table() -> Table:
    progress = np.array([0, 0.5, np.nan, 1, 0.25], np.float32)
    episode, frame = np.array([3, 3, 3, 7, 7]), np.array([0, 1, 2, 0, 1])
    return dict(zip(COLUMNS, (np.arange(5), episode, frame, progress), strict=True))


def test_the_parquet_file_has_the_names_and_types_that_lerobot_reads_and_keeps_nan(table, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_table(table, tmp_path / "sarm_progress.parquet")
    found = parquet.read_table(tmp_path / "sarm_progress.parquet")
    assert {field.name: str(field.type) for field in found.schema} == {
        "index": "int64", "episode_index": "int64", "frame_index": "int64", "progress_sparse": "float"
    }
    column = found["progress_sparse"]
    assert column.null_count == 0 and np.isnan(column.to_numpy()).tolist() == [False, False, True, False, False]
    assert found["index"].to_pylist() == [0, 1, 2, 3, 4] and found["episode_index"].to_pylist() == [3, 3, 3, 7, 7]


def test_csv_and_json_leave_unknown_progress_empty(table, tmp_path):
    write_table(table, tmp_path / "p.csv")
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "index,episode_index,frame_index,progress_sparse" and lines[3] == "2,3,2," and len(lines) == 6
    write_table(table, tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text())["progress_sparse"] == [0, 0.5, None, 1, 0.25]


def lerobot_deltas(table: Table, chunk: int) -> list[float]:
    """As LeRobot's weighting takes them, frame by frame."""
    numbers, episodes, _, progress = table.values()
    known = {int(i): float(p) for i, p in zip(numbers, progress, strict=True) if not np.isnan(p)}
    deltas = []
    for index, episode in zip(numbers.tolist(), episodes.tolist(), strict=True):
        last = numbers[episodes == episode].max()
        future = min(index + chunk, last)
        deltas.append(known[future] - known[index] if index in known and future in known else float("nan"))
    return deltas


def test_kappa_and_the_dropped_share_are_what_lerobots_weighting_would_see():
    rng = np.random.default_rng(0)
    progress = np.where(rng.random(60) < 0.1, np.nan, rng.random(60)).astype(np.float32)
    progress[[19, 39, 59]] = 1  # a mean above zero
    episode = np.repeat([4, 5, 9], 20)
    table = dict(zip(COLUMNS, (np.arange(60), episode, np.tile(np.arange(20), 3), progress), strict=True))
    for chunk in (1, 7, 50):
        deltas = np.array(lerobot_deltas(table, chunk))
        found = sample_weights(table, chunk)
        assert found["kappa"] == pytest.approx(np.nanmean(deltas), abs=1e-6) and found["kappa"] > 0
        assert found["dropped_share"] == pytest.approx(np.mean(deltas < 0))
        assert found["unknown_share"] == pytest.approx(np.mean(np.isnan(deltas)))


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_a_lerobot_folder_gets_a_row_per_frame_though_the_run_kept_every_second(version, tmp_path):
    pytest.importorskip("pyarrow")
    folder = write_lerobot(tmp_path / "set", version, "state", (12, 9, 10))
    from plan2vec.config import ReadOptions
    from plan2vec.readers import read

    recorded = read(folder, ReadOptions(every=2))
    assert len(recorded) == 6 + 5 + 5
    model = fit(recorded, replace(FEW, dim=2), device="cpu")
    progress = np.linspace(0, 1, 16).astype(np.float32)
    progress[recorded.sequence == 1] = np.nan
    index, episode, frame_index, written = progress_table(model, progress).values()
    assert index.tolist() == list(range(31)) and np.bincount(episode).tolist() == [12, 9, 10]
    assert frame_index[12:14].tolist() == [0, 1]
    np.testing.assert_allclose(written[[0, 2, 4]], progress[:3], atol=1e-6)  # those that were kept
    assert written[1] == pytest.approx(progress[:2].mean())  # between two of them
    assert np.isnan(written[12:21]).all() and np.isfinite(written[21:]).all()


# ---------------------------------------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    small = simulate("open", 12, seed=0)
    fit(replace(small, frames=small.frames[:, ::4, ::4].copy()), FEW, folder / "many", device="cpu")
    walk = np.random.default_rng(0).normal(size=(40, 2)).cumsum(axis=0)
    fit(make_sequences(walk), FEW, folder / "one", device="cpu")
    return folder


def test_the_command_writes_the_file_and_the_film_and_says_what_training_would_drop(runs, tmp_path, capsys):
    out = tmp_path / "deep" / "p.csv"
    typed = ["progress", str(runs / "many"), "--goals", "0:9,1:9", "--video", "2", "--chunk", "3", "--device", "cpu"]
    assert main([*typed, "--out", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(out.read_text().splitlines()) == 121 and answer["frames"] == 120 and answer["goals"] == 2
    assert {"kappa", "dropped_share", "unknown_share", "unknown_frames"} <= set(answer)
    film = Path(answer["video"])
    assert film.parent == out.parent and film.stat().st_size > 1000 and "episode-2" in film.name


@pytest.mark.parametrize("run, more, words", [
    ("one", [], "at least two episodes"), ("many", ["--goals", "77"], "no fitted episode 77"),
    ("many", ["--goals", "nowhere.png"], "--goals must be LAST, episodes"),
    ("many", ["--goals", ""], "is empty"), ("many", ["--goals", "0:99"], "has 10 frames"),
    ("many", ["--chunk", "0"], "--chunk must be at least 1"), ("many", ["--video", "99"], "--video 99"),
    ("one", ["--goals", "0:3", "--video", "0"], "frames that are images"), ("none", [], "none"),
    ("many", ["--out", "p.txt"], "--out must end in .parquet, .csv, .json"),
])
def test_bad_input_is_refused_in_one_line_and_nothing_is_written(run, more, words, runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    out = [] if "--out" in more else ["--out", "p.csv"]
    assert main(["progress", str(runs / run), *out, *more, "--device", "cpu"]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert words in said and list(tmp_path.iterdir()) == []


def test_a_single_episode_has_progress_towards_a_named_frame(runs, tmp_path):
    typed = ["progress", str(runs / "one"), "--goals", "0:39", "--out", str(tmp_path / "p.csv"), "--device", "cpu"]
    assert main(typed) == 0


def test_a_goal_image_off_the_map_is_refused(runs, tmp_path, monkeypatch, capsys):
    from PIL import Image

    monkeypatch.setattr(Model, "locate", lambda *_: Located(7, 9.5, False))  # barely trained, the metric knows no far
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(tmp_path / "black.png")
    typed = ["progress", str(runs / "many"), "--goals", str(tmp_path / "black.png"), "--out", str(tmp_path / "p.csv")]
    assert main([*typed, "--device", "cpu"]) == 2
    assert "not on the map: its nearest frame is 7, 9.5 steps away" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- the measures


def test_a_clock_orders_time_and_no_outcomes_and_a_seer_orders_both():
    rise = np.linspace(0, 1, 10)
    outcomes = [2, 1, 1, 0] * 3
    clock = scores(outcomes, [rise] * 12)
    assert clock["voc"] == pytest.approx(1) and clock["tau"] == 0 and clock["gap"] == 0
    seer = scores(outcomes, [rise, rise / 2, rise / 2, 0 * rise] * 3)
    assert seer["tau"] == 1 and seer["gap"] == pytest.approx(1) and seer["gap_half"] == pytest.approx(0.5)
    blind = scores(outcomes, [np.full(10, np.nan)] * 12)
    assert blind["voc"] is None and blind["tau"] == 0 and blind["unknown"] == 1


def test_failures_are_made_of_held_out_successes_alone_and_true_failures_are_found_by_position():
    place = np.array([*range(10)] * 3 + [*range(9, -1, -1)], float)[:, None]
    recorded = make_sequences(np.stack((place[:, 0], place[:, 0]), 1), np.repeat(np.arange(4), 10), position=place)
    assert failed_in_truth(recorded) == {3}
    trials, outcomes = make_trials(recorded, recorded.sequence >= 1)
    assert outcomes == [0, 2, 1, 1, 0, 2, 1, 1, 0]
    assert trials[0].tolist() == [*range(30, 40)] and trials[2].tolist() == [*range(10, 15)]
    assert trials[3].tolist() == [*range(10, 15), *range(20, 25)] and trials[4][0] == 19
