"""Replays of SPTM's mazes. The data is not in the repository: where it is missing, what needs it is left out."""

import os
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from plan2vec.domains import doom
from plan2vec.experiments import doom_driving
from plan2vec.experiments.doom_driving import DoomScene
from plan2vec.results.experiment import SMOKE, Settings
from plan2vec.results.requests import ReproduceRequest

DATA = Path(os.environ.get("PLAN2VEC_SPTM", "sptm"))
needs_mazes = pytest.mark.skipif(not (DATA / "setups.json").exists(), reason="PLAN2VEC_SPTM names no folder of mazes")


def test_a_folder_without_mazes_and_an_unknown_maze_are_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="has no setups.json; give the folder of SPTM's mazes"):
        doom.replay(tmp_path, "office1")
    (tmp_path / "setups.json").write_text('{"office1": {}, "star": {}}')
    with pytest.raises(ValueError, match="knows the mazes office1, star, but 'attic' came"):
        doom.replay(tmp_path, "attic")


def test_without_vizdoom_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "setups.json").write_text('{"star": {"folder": "star", "walkthrough": "star.lmp"}}')
    monkeypatch.setitem(sys.modules, "vizdoom", None)
    with pytest.raises(ValueError, match=r"pip install 'plan2vec\[doom\]'"):
        doom.replay(tmp_path, "star")


@needs_mazes
def test_a_replay_is_the_same_every_time_holds_place_heading_and_buttons_and_leaves_no_file(tmp_path, monkeypatch):
    pytest.importorskip("vizdoom")
    monkeypatch.chdir(tmp_path)
    first, second = (doom.replay(DATA, "office1") for _ in range(2))
    assert np.array_equal(first.frames, second.frames) and np.array_equal(first.position, second.position)
    assert not list(tmp_path.iterdir())
    assert first.frames.shape == (2489, 72, 96, 3) and first.action.shape == (2489, 7)
    moved = np.linalg.norm(np.diff(first.position, axis=0), axis=1)
    turned = (np.diff(first.heading) + 180) % 360 - 180
    assert moved[first.action[:-1].any(axis=1)].mean() > 10 and (first.action[:-1, 5] == (turned > 0)).all()


def test_driving_is_left_out_with_one_line_where_no_mazes_are_given(capsys):
    assert list(doom_driving.EXPERIMENT.run(Settings(size=SMOKE))) == []
    assert capsys.readouterr().err.strip().startswith("doom is left out: give the folder of SPTM's mazes")


def test_the_controller_never_explores_the_maze_that_is_driven_in_and_says_where_it_may(tmp_path):
    (tmp_path / "setups.json").write_text('{"star": {"folder": "Val/star"}, "moon": {"folder": "Val/moon"}, '
                                          '"sun": {"folder": "Test/sun"}}')
    settings = Settings(asked=ReproduceRequest("doom", doom_data=tmp_path))
    explored = {maze: DoomScene(maze, 0, settings, tmp_path).explored_mazes for maze in ("star", "sun")}
    assert explored == {"star": ["moon"], "sun": ["star", "moon"]}
    (tmp_path / "setups.json").write_text('{"sun": {"folder": "Test/sun"}}')
    with pytest.raises(ValueError, match="no validation maze .* give by --doom-explore a folder that has some"):
        _ = DoomScene("sun", 0, settings, tmp_path).explored_mazes


def test_who_explores_holds_buttons_and_turns_away_where_nothing_moves():
    press = doom.HeldButtons(np.random.default_rng(0))
    moving = [press(np.full((4, 4, 3), 100 * (number % 2), np.uint8)) for number in range(300)]
    assert np.mean(np.diff(moving) == 0) > 0.5 and set(moving) == set(range(7))
    wall, pressed = np.zeros((4, 4, 3), np.uint8), []
    for _ in range(40):
        pressed.append(press(wall))
    stuck = [after for before, after in pairwise(pressed) if before not in doom.TURNS]
    assert len(stuck) and set(stuck) <= set(doom.TURNS)


@needs_mazes
def test_a_drive_starts_at_its_map_moves_and_refuses_what_is_not_there():
    pytest.importorskip("vizdoom")
    environment = doom.DoomMaze(DATA, "office1", start_map=1, goal=2)
    view, info = environment.reset(0)
    assert info["position"] == pytest.approx([-64, -320], abs=1) and not info["is_success"]
    assert view.shape == environment.goal_view.shape == (120, 160, 3)
    for _ in range(5):
        _, after = environment.step(doom.ACTIONS.index("forward"))
    assert np.linalg.norm(after["position"] - info["position"]) > 10
    environment.close()
    with pytest.raises(ValueError, match="goals 0 to 3, but 9 came"):
        doom.DoomMaze(DATA, "office1", 0, goal=9)
    with pytest.raises(ValueError, match="start maps 0 to 3, but 4 came"):
        doom.DoomMaze(DATA, "office1", start_map=4, goal=0)


@needs_mazes
def test_the_environment_passes_gymnasiums_checks():
    pytest.importorskip("vizdoom")
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    from plan2vec.domains import doom_env

    environment = gymnasium.make(doom_env.NAME, folder=DATA, maze="office1", start_map=1, goal=2)
    check_env(environment.unwrapped, skip_render_check=True)
    _, info = environment.reset(seed=0)
    assert info["goal_view"].shape == (120, 160, 3)
    with pytest.raises(ValueError, match="from 0 to 6"):
        environment.unwrapped.step(7)
    environment.close()


@needs_mazes
def test_exploration_starts_at_every_map_and_is_the_same_every_time():
    pytest.importorskip("vizdoom")
    first, second = (doom.explore(DATA, "branching", 80, 0, 24, 32) for _ in range(2))
    assert first.frames.shape == (80, 24, 32, 3) and first.action.shape == (80, 1) and first.action.dtype.kind == "i"
    assert np.array_equal(first.frames, second.frames) and np.array_equal(first.action, second.action)
    assert np.unique(first.sequence).tolist() == [0, 1, 2, 3]
    assert len(np.unique(first.position[np.arange(0, 80, 20)], axis=0)) == 4


@needs_mazes
def test_driving_gives_rows_of_every_method_that_was_asked_for(tmp_path):
    pytest.importorskip("vizdoom")
    asked = ReproduceRequest("doom", doom_data=DATA, mazes=("branching",), methods=("random", "controller alone"))
    settings = Settings(size=SMOKE, asked=asked, arrays=tmp_path / "arrays")
    rows = [row for group in doom_driving.EXPERIMENT.run(settings) for row in group]
    assert {row["method"] for row in rows} == {"random", "controller alone"}
    assert {row["metric"] for row in rows} == {"success", "success_2000", "path_ratio", "decisions_per_second",
                                               "touched_per_decision", "episodes"}
    assert (tmp_path / "runs" / "controller-deepmind_large-open_space_two.safetensors").exists()
