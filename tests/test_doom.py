"""Replays of SPTM's mazes. The data is not in the repository: where it is missing, what needs it is left out."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from plan2vec.domains import doom

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
