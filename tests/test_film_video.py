"""A plan as a moving picture: all its frames, enlarged sharply, in order; clear refusals."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from plan2vec.commands.main import main
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import make_sequences
from plan2vec.domains import maze
from plan2vec.model import Model
from plan2vec.pictures.films import (
    CAPTION,
    SMALLEST,
    captioned,
    enlarged,
    frame_picture,
    plan_ground,
    save_video,
    with_map,
    writer_of,
)
from plan2vec.pictures.scene import room_scene
from plan2vec.pipeline import fit
from plan2vec.planner import Plan

FEW = Config(
    local_metric=LocalMetricConfig(num_updates=3, batch_size=16),
    embedding=EmbeddingConfig(num_updates=3, goals_per_update=8, nodes_per_update=16, goals_per_round=8),
)
PLAN = Plan(0, 3, "greedy", [0, 1, 2, 3], 3.0, 3, 4)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    return fit(maze.simulate("open", 12, seed=0), FEW, tmp_path_factory.mktemp("runs") / "maze", device="cpu")


def test_frames_are_enlarged_by_a_whole_factor_and_stay_sharp():
    pixels = np.arange(60, dtype=np.uint8).reshape(6, 10)
    large = np.asarray(enlarged(Image.fromarray(pixels)))
    assert min(large.shape) >= SMALLEST and large.shape == (43 * 6, 43 * 10)
    assert (large[::43, ::43] == pixels).all() and (large[42::43, 42::43] == pixels).all()


def test_a_gif_shows_every_frame_of_the_plan_in_order(model, tmp_path):
    save_video(model, PLAN, tmp_path / "plan.gif")
    with Image.open(tmp_path / "plan.gif") as film:
        assert film.n_frames == 4 and min(film.width, film.height - CAPTION) >= 256
        for place, number in enumerate(PLAN.nodes):
            film.seek(place)
            side = film.height - CAPTION  # the map stands to the right
            shown = np.asarray(film.convert("L"))[:side, :side][2::4, 2::4].astype(int)
            assert np.abs(shown - model.sequences.frames[number, :, :, 0]).max() <= 8


def test_an_mp4_shows_every_frame_of_the_plan_and_stays_at_the_goal(model, tmp_path):
    av = pytest.importorskip("av")
    save_video(model, PLAN, tmp_path / "plan.mp4")
    with av.open(str(tmp_path / "plan.mp4")) as film:
        shown = [frame.to_ndarray(format="gray") for frame in film.decode(video=0)]
    assert len(shown) == 4 + 5
    first = shown[0][: 64 * 4, : 64 * 4][2::4, 2::4].astype(int)
    assert np.abs(first - model.sequences.frames[0, :, :, 0]).mean() < 8


def test_beside_the_frames_a_dot_moves_along_the_plan_on_the_map(model):
    points = model.sequences.position
    scene = room_scene(model.sequences)
    ground, places = plan_ground(scene, PLAN.nodes, 292)
    assert ground.height == 292 and len(places) == 4
    order = np.argsort(points[PLAN.nodes, 0], kind="stable")
    assert (np.diff(places[order, 0]) >= -1e-6).all()  # farther right in the room, farther right in the picture
    frame = Image.new("RGB", (256, 292))
    for place, picture in zip(places, with_map([frame] * 4, scene, PLAN.nodes), strict=True):
        orange = np.argwhere((abs(np.asarray(picture).astype(int) - (0xD5, 0x5E, 0)) < 20).all(axis=2))
        assert orange.mean(axis=0) == pytest.approx((place[1], place[0] + 256), abs=1.5)


def test_the_caption_changes_with_the_frame(model):
    pictures = [np.asarray(captioned(model.sequences, [0, 0, 0], place))[-CAPTION:] for place in range(3)]
    assert pictures[0].min() < 100 and not (pictures[0] == pictures[1]).all()


def test_colours_stay_and_other_channels_are_left_out():
    frames = np.random.default_rng(0).integers(0, 255, (4, 6, 8, 3), dtype=np.uint8)
    assert (np.asarray(frame_picture(make_sequences(frames), 2)) == frames[2]).all()
    assert (np.asarray(frame_picture(make_sequences(frames[..., :2]), 2)) == frames[2, :, :, 0]).all()


def test_other_endings_vectors_and_missing_plans_are_refused(model, tmp_path):
    with pytest.raises(ValueError, match=".gif or .mp4"):
        save_video(model, PLAN, tmp_path / "plan.avi")
    with pytest.raises(ValueError, match="goes in a circle"):
        save_video(model, replace(PLAN, nodes=None, reason="greedy goes in a circle"), tmp_path / "plan.gif")
    walk = make_sequences(np.random.default_rng(0).normal(size=(20, 2)).cumsum(axis=0))
    with pytest.raises(ValueError, match="images"):
        save_video(fit(walk, FEW, device="cpu"), PLAN, tmp_path / "plan.gif")
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_an_mp4_is_refused_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ValueError, match=r"plan2vec\[video\]"):
        writer_of(tmp_path / "plan.mp4")
    assert writer_of(tmp_path / "plan.GIF")


def test_the_command_writes_the_film_and_says_where(model, tmp_path, capsys):
    arguments = [
        "plan", str(model.folder), "--start", "0", "--goal", "5", "--method", "dijkstra", "--device", "cpu", "--json"
    ]
    assert main([*arguments, "--video", str(tmp_path / "plan.gif")]) == 0
    said = capsys.readouterr().out
    assert f'"video": "{tmp_path / "plan.gif"}"' in said and 'touched":' not in said.replace("num_touched", "")
    assert (tmp_path / "plan.gif").stat().st_size > 1000
