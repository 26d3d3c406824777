"""The rope as a Gymnasium environment."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from plan2vec.domains import rope_env
from plan2vec.domains.rope_physics import LONGEST_DRAG, rest_shape


def make(**settings):
    return gymnasium.make(rope_env.ENVIRONMENT, **settings)


@pytest.mark.parametrize("obs_type", ["image", "state"])
def test_gymnasiums_own_checker_is_content(obs_type):
    check_env(make(obs_type=obs_type, render_mode="rgb_array").unwrapped, skip_render_check=False)


def test_the_rope_is_dragged_where_the_action_says():
    env = make(obs_type="state")
    before, _ = env.reset(seed=0)
    after, reward, *_ = env.step(np.array([0.0, 0.3, 0.6], np.float32))
    moved = (after["observation"] - before["observation"]).reshape(-1, 2)
    assert np.allclose(before["observation"], rest_shape().ravel()) and reward == -1
    assert moved[0] == pytest.approx([0.3 * LONGEST_DRAG, 0.6 * LONGEST_DRAG], abs=0.7)
    assert np.argmax(np.linalg.norm(moved, axis=1)) == 0


def test_the_same_seed_gives_the_same_goal():
    first, second = (make(obs_type="state").reset(seed=7)[1]["goal"] for _ in range(2))
    assert (first == second).all() and np.abs(first - rest_shape().ravel()).max() > 3


def test_a_rope_in_its_goal_shape_has_arrived():
    env = make(obs_type="state")
    _, info = env.reset(options={"goal": rest_shape().ravel()})
    assert info["is_success"]
    _, reward, terminated, _, _ = env.step(np.array([0.5, 0.1, 0.0], np.float32))
    assert reward == 0 and terminated


@pytest.mark.parametrize(("goal", "words"), [
    (np.zeros(3), "24 numbers"),
    (np.stack((np.linspace(5, 45, 12), np.full(12, 28)), axis=1).ravel(), "in a peg"),
    (np.full(24, 70.0), "beside the table"),
])
def test_goals_where_no_rope_can_lie_are_refused(goal, words):
    with pytest.raises(ValueError, match=words):
        make().reset(options={"goal": goal})


def test_unknown_settings_are_refused():
    with pytest.raises(ValueError, match="obs_type must be one of"):
        rope_env.RopeEnv(obs_type="sound")
    with pytest.raises(ValueError, match="render_mode must be"):
        rope_env.RopeEnv(render_mode="human")
    with pytest.raises(ValueError, match="knows the option 'goal'"):
        rope_env.RopeEnv().reset(options={"start": 0})
