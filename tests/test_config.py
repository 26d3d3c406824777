"""Settings that follow the recordings: what a moving camera changes, and what it leaves alone."""

import json
from dataclasses import replace

import numpy as np
import pytest

from plan2vec.commands.main import main
from plan2vec.config import (
    MOVING_EMBEDDING,
    MOVING_LOCAL_METRIC,
    MOVING_VIEW,
    Config,
    LocalMetricConfig,
    as_moving,
    follow_view,
    preset,
)
from plan2vec.data import make_sequences
from plan2vec.domains.maze import simulate

MOVING = make_sequences(np.random.default_rng(0).integers(0, 255, (40, 16, 16), np.uint8))  # every pixel changes in every step


def test_a_moving_camera_changes_the_settings_left_at_their_default():
    settled = follow_view(Config(), MOVING)
    assert settled.view == "moving" and settled.encoder == MOVING_VIEW["encoder"] == "medium"
    assert settled.local_metric.num_updates == MOVING_LOCAL_METRIC["num_updates"] > LocalMetricConfig().num_updates
    assert settled.embedding.num_rounds == MOVING_EMBEDDING["num_rounds"]
    assert follow_view(settled, MOVING) == settled


def test_settings_that_were_given_stay():
    given = Config(encoder="resnet18", max_gap=2, local_metric=LocalMetricConfig(shift=5, num_updates=10), seed=3)
    settled = follow_view(given, MOVING)
    assert (settled.encoder, settled.max_gap, settled.seed) == ("resnet18", 2, 3)
    assert (settled.local_metric.shift, settled.local_metric.num_updates) == (5, 10)
    assert settled.local_metric.brightness == MOVING_LOCAL_METRIC["brightness"]


@pytest.mark.parametrize("config", [Config(), preset("paper"), preset("quick")])
def test_a_fixed_camera_changes_nothing(config):
    assert follow_view(config, simulate("c-maze", 5, 10, 0)) == replace(config, view="fixed")


def test_a_view_that_was_given_changes_nothing_more():
    for view in ("fixed", "moving"):
        assert follow_view(Config(view=view), MOVING) == Config(view=view)


def test_a_typed_setting_stays_even_where_it_equals_the_default(tmp_path, capsys):
    kept = as_moving(Config(), frozenset({"dim", "local_metric.shift"}))
    assert (kept.dim, kept.local_metric.shift, kept.encoder, kept.max_gap) == (8, 0, "medium", 3)
    np.savez(tmp_path / "noise.npz", frames=MOVING.frames)
    typed = ["--dim", "8", "--encoder=small", "--local-metric.num-updates", "2", "--embedding.num-updates", "2", "--device", "cpu"]
    assert main(["fit", str(tmp_path / "noise.npz"), "--out", str(tmp_path / "run"), *typed]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["dim"], config["encoder"], config["max_gap"], config["local_metric"]["shift"]) == (8, "small", 3, 2)
    said = capsys.readouterr().err
    assert "max_gap 1 -> 3" in said and "dim" not in said.split("defaults change")[1].split("\n")[0]
