import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from plan2vec.domains import maze
from plan2vec.domains.maze_env import ENVIRONMENTS, MazeEnv

every_environment = pytest.mark.parametrize("environment", list(ENVIRONMENTS))
every_type = pytest.mark.parametrize("obs_type", ["image", "state"])
RIGHT = int(np.flatnonzero((np.sign(maze.ACTIONS) == (1, 0)).all(axis=1))[0])


@every_environment
@every_type
@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_the_environments_pass_gymnasiums_own_checker(environment, obs_type, render_mode):
    check_env(gymnasium.make(environment, obs_type=obs_type, render_mode=render_mode).unwrapped)


def test_the_environments_are_called_after_their_rooms():
    assert list(ENVIRONMENTS) == ["plan2vec/OpenRoom-v0", "plan2vec/Table-v0", "plan2vec/CMaze-v0"]


def test_gymnasium_finds_the_environments_by_module_and_name():
    assert gymnasium.make("plan2vec.domains.maze_env:plan2vec/Table-v0").unwrapped.room.name == "table"


@every_environment
@every_type
def test_the_environment_agrees_with_the_simulator(environment, obs_type):
    env = gymnasium.make(environment, obs_type=obs_type).unwrapped
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=1)
    here, goal = info["position"], info["goal"]
    for action in rng.integers(8, size=100):
        here = maze.step(env.room, here[None], maze.ACTIONS[action][None])[0]
        observation, *_ = env.step(action)
        expected = maze.render(env.room, np.stack([here, goal])) if obs_type == "image" else np.stack([here, goal])
        assert np.array_equal(observation["observation"], expected[0])
        assert np.array_equal(observation["achieved_goal"], expected[0])
        assert np.array_equal(observation["desired_goal"], expected[1])


@every_type
def test_reward_is_zero_within_the_radius_and_ends_the_episode(obs_type):
    env = MazeEnv("open", obs_type)
    env.reset(options={"position": (0.0, 0.0), "goal": (0.06, 0.0)})
    outcomes = [env.step(RIGHT) for _ in range(2)]  # 0.0351, then 0.0102 from the goal
    told = [(reward, terminated, info["is_success"]) for _, reward, terminated, _, info in outcomes]
    assert told == [(-1, False, False), (0, True, True)]
    assert not any(truncated for *_, truncated, _ in outcomes)


@every_type
def test_a_start_on_the_goal_is_a_success_that_the_reset_tells(obs_type):
    env = MazeEnv("table", obs_type)
    _, info = env.reset(options={"position": (0.2, 0.2), "goal": (0.2, 0.2)})
    assert info["is_success"]
    assert not env.step(0)[2]  # the block moved 0.0352 away, more than the radius
    _, info = env.reset(options={"position": (0.2, 0.2), "goal": (-0.2, 0.2)})
    assert not info["is_success"]


def test_pressing_a_wall_on_the_goal_is_a_success():
    env = MazeEnv("open", "state")
    env.reset(options={"position": (0.24, 0.0), "goal": (0.24, 0.0)})
    assert env.step(RIGHT)[1:3] == (0.0, True)


def test_episodes_are_cut_after_fifty_steps():
    env = gymnasium.make("plan2vec/CMaze-v0", obs_type="state")
    env.reset(options={"position": (0.24, 0.2), "goal": (-0.2, -0.2)})
    truncated = [env.step(RIGHT)[3] for _ in range(50)]
    assert truncated == [False] * 49 + [True]


@every_environment
@every_type
def test_the_reward_of_a_step_can_be_computed_from_its_goals(environment, obs_type):
    env = gymnasium.make(environment, obs_type=obs_type).unwrapped
    observations, rewards = [env.reset(seed=2)[0]], []
    for action in np.random.default_rng(0).integers(8, size=60):
        observation, reward, terminated, _, info = env.step(action)
        assert reward == env.compute_reward(observation["achieved_goal"], observation["desired_goal"], info)
        assert terminated == info["is_success"] == (reward == 0)
        observations.append(observation)
        rewards.append(reward)
    achieved = np.stack([observation["achieved_goal"] for observation in observations[1:]])
    desired = np.stack([observation["desired_goal"] for observation in observations[1:]])
    assert np.array_equal(env.compute_reward(achieved, desired, [{}] * 60), rewards)


def test_relabelled_rewards_of_images_and_of_positions_agree():
    position = maze.simulate("c-maze", num_rollouts=60).position
    achieved, desired = position[:-1], position[1:]
    distance = np.linalg.norm(achieved - desired, axis=1)
    clear = np.abs(distance - 0.02) > 2e-4  # images are read to 1e-4 m
    room = maze.ROOMS["c-maze"]
    by_state = MazeEnv("c-maze", "state").compute_reward(achieved, desired, {})
    by_image = MazeEnv("c-maze", "image").compute_reward(maze.render(room, achieved), maze.render(room, desired), {})
    assert np.array_equal(by_state, np.where(distance < 0.02, 0, -1))
    assert np.array_equal(by_state[clear], by_image[clear]) and set(by_state) == {0, -1}


@every_environment
def test_equal_seeds_give_equal_episodes(environment):
    def episode(seed: int) -> np.ndarray:
        env = gymnasium.make(environment, obs_type="state").unwrapped
        start, _ = env.reset(seed=seed)
        return np.concatenate(
            [start["achieved_goal"], start["desired_goal"], *(env.step(i % 8)[0]["observation"] for i in range(9))]
        )

    assert np.array_equal(episode(5), episode(5)) and not np.array_equal(episode(5), episode(6))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position": (0.0, 0.0)}, r"option 'position': .*\(0.0000, 0.0000\)"),
        ({"goal": (0.3, 0.0)}, "option 'goal': .*free space of room 'c-maze'"),
        ({"goal": (np.nan, 0.2)}, "option 'goal'"),
        ({"goal": (0.2, 0.2, 0.2)}, r"'goal' must be a position \(x, y\)"),
        ({"start": (0.2, 0.2)}, "'position' and 'goal'.*start"),
    ],
)
def test_bad_reset_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MazeEnv("c-maze", "state").reset(options=options)


def test_bad_arguments_and_actions_are_refused():
    with pytest.raises(ValueError, match="d-maze"):
        MazeEnv("d-maze")
    with pytest.raises(ValueError, match=r"obs_type.*'pixels'"):
        MazeEnv(obs_type="pixels")
    with pytest.raises(ValueError, match=r"render_mode.*'human'"):
        MazeEnv(render_mode="human")
    env = MazeEnv()
    env.reset(seed=0)
    for action in (-1, 8, 0.5):
        with pytest.raises(ValueError, match="0 to 7"):
            env.step(action)


def test_the_picture_for_people_marks_the_goal():
    env = MazeEnv("open", render_mode="rgb_array")
    env.reset(options={"position": (-0.15, 0.15), "goal": (0.15, -0.15)})
    picture = env.render()
    assert picture.shape == (64, 64, 3) and picture.dtype == np.uint8
    assert tuple(picture[16, 16]) == (160, 160, 160)  # the block, top left
    assert tuple(picture[47, 47]) == (160, 255, 255)  # the goal, bottom right
