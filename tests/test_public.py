"""What is public: it shows itself briefly, and every part of it says what it takes and gives."""

import inspect
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import plan2vec
from plan2vec.config import Config, EmbeddingConfig, settle
from plan2vec.data import make_sequences
from plan2vec.domains.maze import simulate
from plan2vec.planner import Plan

ROOT = Path(__file__).parent.parent
FUNCTIONS = ("add", "evaluate", "fit", "load", "make_sequences", "read")


def test_only_what_is_public_shows():
    assert dir(plan2vec) == sorted(plan2vec.__all__) and set(plan2vec.HOMES) == set(plan2vec.__all__)
    assert all(hasattr(plan2vec, name) for name in plan2vec.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings_of_functions_name_their_arguments_and_what_they_give(name):
    function = getattr(plan2vec, name)
    text = inspect.getdoc(function)
    assert "Returns" in text
    usual = {"device", "show_progress"}
    missing = [argument for argument in inspect.signature(function).parameters if f"`{argument}`" not in text]
    assert set(missing) <= usual


@pytest.mark.parametrize("owner", ["Config", "DistanceReward", "Grown", "Model", "Plan", "Sequences"])
def test_every_public_member_has_a_docstring(owner):
    members = vars(getattr(plan2vec, owner))
    made_here = {name: one for name, one in members.items() if not name.startswith("_")}
    bare = [name for name, one in made_here.items() if (callable(one) or isinstance(one, property)) and not one.__doc__]
    assert bare == []


def test_sequences_show_themselves_in_two_lines_and_have_a_length():
    recordings = simulate("open", num_rollouts=3)
    assert len(recordings) == recordings.num_frames == 30
    first, second = repr(recordings).splitlines()
    assert "30 frames in 3 sequences" in first and "images (64, 64, 1) uint8" in second and "position" in second
    vectors = repr(make_sequences(np.eye(3)))
    assert "1 sequence (memory)" in vectors and "vectors (3,)" in vectors


def test_a_plan_shows_its_ends_cost_and_frames_or_why_there_is_none():
    found = Plan(3, 90, "astar", [3, *range(20, 40), 90], 31.26, 44, 100)
    cost, nodes = repr(found).splitlines()
    assert cost == "Plan from 3 to 90 by astar: 21 hops, 31.3 steps, 44 expanded"
    assert nodes == "  3 20 21 22 23 24 ... 36 37 38 39 90"
    none = Plan(3, 4, "greedy", None, None, 0, 0, "off the map")
    assert repr(none) == "Plan from 3 to 4 by greedy: no path\n  off the map"


def test_a_configuration_shows_what_was_given_in_two_lines_at_most():
    assert repr(Config()) == "Config()"
    given = Config(dim=3, embedding=EmbeddingConfig(num_updates=20))
    assert repr(given) == "Config(dim=3, embedding.num_updates=20)"
    settled = repr(settle(given, simulate("open", num_rollouts=3)))
    assert len(settled.splitlines()) == 2 and settled.endswith("...)") and "dim=3" in settled


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_demo_installs_the_package_alone_and_says_so(tmp_path):
    def planned(target):
        command = ["make", "-n", target, f"VENV={tmp_path}/new"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "installing, about 2 minutes, 2 GB" in planned("demo") and "--editable ." in planned("demo")
    assert "[dev]" not in planned("demo") and "--editable '.[dev]'" in planned("lint")
