"""The learned distance as reward: the wrapper, the relabelled datasets, the agents of the experiment."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import gymnasium
import h5py
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image
from samples import write_minari

import plan2vec
from plan2vec.acting.relabel import choose_goals
from plan2vec.acting.shaping import Shaping
from plan2vec.commands.main import main
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import make_sequences
from plan2vec.domains import maze, maze_env  # noqa: F401  (registers the rooms)
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.readers.npz import write_npz

DISCOUNT = 0.97
QUICK = Config(
    local_metric=LocalMetricConfig(num_updates=15, batch_size=32),
    embedding=EmbeddingConfig(num_updates=15, goals_per_update=16, nodes_per_update=32, goals_per_round=32),
)
TWO_FLOATS = spaces.Box(-9, 9, (2,), np.float32)


class Line(gymnasium.Env):
    """A point on a plane whose observations are not the map's business: only `achieved_goal` and `desired_goal` are."""

    observation_space = spaces.Dict(
        {"observation": spaces.Box(-9, 9, (5,)), "achieved_goal": TWO_FLOATS, "desired_goal": TWO_FLOATS}
    )
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-3, 3, (2, 2)).astype(np.float32)
        return self.view(), {}

    def step(self, action):
        self.place = np.clip(self.place + action, -9, 9).astype(np.float32)
        near = bool(np.linalg.norm(self.place - self.goal) < 0.5)
        return self.view(), float(near), near, False, {}

    def view(self):
        return {"observation": np.zeros(5, np.float32), "achieved_goal": self.place, "desired_goal": self.goal}


class Plain(gymnasium.ObservationWrapper):
    """Observations that bring no goal."""

    observation_space = TWO_FLOATS

    def observation(self, observation):
        return observation["achieved_goal"]


@pytest.fixture(scope="module")
def rooms(tmp_path_factory) -> Model:
    """A small map of the C-Maze's own images, in a run folder."""
    return fit(
        maze.simulate("c-maze", 30, seed=0), replace(QUICK, dim=3), out=tmp_path_factory.mktemp("reward") / "run",
        device="cpu"
    )


@pytest.fixture(scope="module")
def plane() -> Model:
    """A map of random walks of a point."""
    walks = np.cumsum(np.random.default_rng(0).normal(0, 0.5, (20, 12, 2)), axis=1)
    return fit(make_sequences(walks.reshape(-1, 2), np.repeat(np.arange(20), 12)), replace(QUICK, dim=2), device="cpu")


def make_room(**options) -> gymnasium.Env:
    return gymnasium.make("plan2vec/CMaze-v0", **options)


# ---------------------------------------------------------------------------------------------------- the wrapper


def test_shaped_minus_plain_return_is_the_difference_of_potentials_at_both_ends(rooms):
    """On 100 episodes, some of which arrive; where one does, the last potential is 0 by definition."""
    env = plan2vec.DistanceReward(make_room(max_episode_steps=6), rooms, discount=DISCOUNT, scale=0.5)
    rng, arrivals = np.random.default_rng(0), 0
    for episode in range(100):
        goal = maze.sample_positions(maze.ROOMS["c-maze"], 1, rng)[0]
        near = {
            "goal": goal, "position": maze.step(maze.ROOMS["c-maze"], goal[None], maze.ACTIONS[episode % 8][None])[0]
        }
        _, info = env.reset(seed=episode, options=near if episode % 4 == 0 else None)
        first, last, shaped, plain, factor, ended = info["potential"], 0.0, 0.0, 0.0, 1.0, False
        while not ended:
            _, reward, terminated, truncated, info = env.step(int(rng.integers(8)))
            shaped, plain = shaped + factor * reward, plain + factor * info["plain_reward"]
            factor, last, ended = factor * DISCOUNT, info["potential"], terminated or truncated
        arrivals += terminated
        assert last == (0 if terminated else -0.5 * info["distance"])
        assert shaped - plain == pytest.approx(factor * last - first, abs=1e-6)
    assert 3 <= arrivals <= 97


def test_the_distance_of_a_step_is_the_maps(rooms):
    env = plan2vec.DistanceReward(make_room(), rooms, mode="distance", scale=2.0)
    observation, _ = env.reset(seed=3)
    for action in range(8):
        observation, reward, _, _, info = env.step(action)
        expected = rooms.distance(observation["achieved_goal"][None], observation["desired_goal"][None])[0]
        assert reward == pytest.approx(
            -2 * expected, rel=1e-5
        ) and info["distance"] == pytest.approx(expected, rel=1e-5)
        assert info["plain_reward"] in (-1.0, 0.0)


def test_the_goal_is_embedded_once_an_episode(rooms, monkeypatch):
    embedded = []
    embed = Model.embed
    monkeypatch.setattr(Model, "embed", lambda model, frames: embedded.append(len(frames)) or embed(model, frames))
    env = plan2vec.DistanceReward(make_room(), rooms)
    for seed in range(2):
        env.reset(seed=seed)
        for _ in range(5):
            env.step(0)
    assert sum(embedded) == 2 * (1 + 1 + 5)


def test_it_wraps_goal_environments_of_other_makers_and_learns_nothing_from_their_observation(plane):
    env = plan2vec.DistanceReward(Line(), plane, discount=0.9)
    observation, info = env.reset(seed=0)
    assert info["distance"] == pytest.approx(
        plane.distance(observation["achieved_goal"][None], observation["desired_goal"][None])[0], rel=1e-5
    )
    before = info["distance"]
    _, reward, terminated, _, info = env.step(np.ones(2, np.float32))
    assert not terminated and reward == pytest.approx(-0.9 * info["distance"] + before)


def test_an_environment_without_goals_is_given_one(plane):
    goal = np.array([1.0, 1.0], np.float32)
    env = plan2vec.DistanceReward(Plain(Line()), plane, mode="distance", goal=goal)
    env.reset(seed=0)
    observation, reward, *_ = env.step(np.zeros(2, np.float32))
    assert reward == pytest.approx(-plane.distance(observation[None], goal[None])[0], rel=1e-5)


def test_larger_coloured_pictures_are_prepared_as_recordings_are(rooms):
    frame = rooms.sequences.frames[5]
    assert np.array_equal(rooms.prepare(np.repeat(np.repeat(np.repeat(frame, 2, 0), 2, 1), 3, 2))[0], frame)


def test_hindsight_goals_get_the_distance_and_a_potential_refuses_them(rooms):
    achieved, desired = rooms.sequences.frames[:4], rooms.sequences.frames[50:54]
    rewards = plan2vec.DistanceReward(make_room(), rooms, mode="distance").compute_reward(achieved, desired, {})
    assert rewards == pytest.approx(-rooms.distance(achieved, desired), rel=1e-5)
    with pytest.raises(ValueError, match="use mode 'distance'"):
        plan2vec.DistanceReward(make_room(), rooms).compute_reward(achieved, desired, {})


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (make_room, {"mode": "dense"}, "distance or potential, but is 'dense'"),
        (make_room, {"discount": 1.5}, "discount .* is 1.5"),
        (make_room, {"scale": -1.0}, "scale .* is -1.0"),
        (make_room, {"state_key": "pixels"}, "no 'pixels', only"),
        (lambda: Plain(Line()), {}, "bring no desired_goal: give `goal`"),
    ],
)
def test_bad_wrappings_are_refused(rooms, make, options, message):
    with pytest.raises(ValueError, match=message):
        plan2vec.DistanceReward(make(), rooms, **options)


def test_views_of_another_kind_are_refused(rooms):
    with pytest.raises(ValueError, match=r"expected frames of shape \(n, 64, 64, 1\)"):
        plan2vec.DistanceReward(Line(), rooms).reset(seed=0)


# ---------------------------------------------------------------------------------------------------- relabel


def relabelled(capsys, *arguments: str) -> dict:
    assert main(["relabel", *arguments, "--device", "cpu", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def dataset(tmp_path, rooms) -> Path:
    """Rooms that the map has not seen, with an array that nobody knows."""
    write_npz(tmp_path / "rooms.npz", maze.simulate("c-maze", 6, seed=9))
    with np.load(tmp_path / "rooms.npz") as arrays:
        np.savez(tmp_path / "rooms.npz", **arrays, weather=np.arange(3))
    return tmp_path / "rooms.npz"


@pytest.mark.parametrize("mode", ["distance", "potential"])
def test_an_npz_comes_back_with_rewards_that_the_model_gives(rooms, dataset, tmp_path, capsys, mode):
    before = dataset.read_bytes()
    out = tmp_path / "out" / "labelled.npz"
    answer = relabelled(
        capsys, str(rooms.folder), str(dataset), "--out", str(out), "--mode", mode, "--discount", "0.9", "--scale", "2"
    )
    assert dataset.read_bytes() == before and answer["num_steps"] == 54 and answer["out"] == str(out)
    with np.load(dataset) as old, np.load(out) as new:
        assert set(new) == {*old, "reward", "goal"} and all(np.array_equal(old[name], new[name]) for name in old)
        frames, sequence, reward, goal = (new[name] for name in ("frames", "sequence", "reward", "goal"))
    start = np.flatnonzero(sequence[1:] == sequence[:-1])
    assert (sequence[goal[start]] == sequence[start]).all() and (goal[start] > start).all()
    after, here = (rooms.distance(frames[part], frames[goal[start]]) for part in (start + 1, start))
    expected = -2 * after if mode == "distance" else -0.9 * 2 * after + 2 * here
    assert reward[start] == pytest.approx(expected, abs=1e-4)
    assert not np.delete(reward, start).any()
    assert answer["mean_reward"] == pytest.approx(reward[start].mean(), abs=1e-5)
    again = plan2vec.read(out)
    assert again.num_frames == 60 and again.domain == "c-maze"


@pytest.mark.parametrize("kind", ["number", "sequence:index", "image"])
def test_a_fixed_goal_is_a_frame_of_the_run_or_an_image(rooms, dataset, tmp_path, capsys, kind):
    Image.fromarray(rooms.sequences.frames[32][..., 0]).save(tmp_path / "goal.png")
    goal = {"number": "32", "sequence:index": "3:2", "image": str(tmp_path / "goal.png")}[kind]
    relabelled(
        capsys, str(rooms.folder), str(dataset), "--out", str(tmp_path / "one.npz"), "--goal", goal, "--mode",
        "distance"
    )
    with np.load(tmp_path / "one.npz") as new:
        wanted = np.repeat(rooms.sequences.frames[32][None], 60, axis=0)
        assert (new["goal"] == -1).all()
        assert new["reward"][:9] == pytest.approx(-rooms.distance(new["frames"], wanted)[1:10], abs=1e-4)


def test_rewards_that_are_there_are_kept_under_a_potential(rooms, dataset, tmp_path, capsys):
    with np.load(dataset) as arrays:
        np.savez(tmp_path / "earning.npz", **arrays, reward=np.full(60, 7.0))
    for name in ("rooms", "earning"):
        source, out = str(tmp_path / f"{name}.npz"), str(tmp_path / f"{name}-out.npz")
        answer = relabelled(capsys, str(rooms.folder), source, "--out", out, "--seed", "4")
        assert answer["plain_reward"] == (name == "earning")
    with np.load(tmp_path / "rooms-out.npz") as bare, np.load(tmp_path / "earning-out.npz") as earning:
        steps = np.arange(60) % 10 < 9
        assert (earning["reward"] - bare["reward"])[steps] == pytest.approx(7, abs=1e-5)


def test_an_ogbench_file_gets_their_names(plane, tmp_path, capsys):
    pytest.importorskip("plan2vec.readers.ogbench_npz")
    plane.save(tmp_path / "run")
    walk = np.cumsum(np.random.default_rng(1).normal(0, 0.5, (40, 2)), axis=0).astype(np.float32)
    ends = np.isin(np.arange(40), (19, 39)).astype(np.float32)
    np.savez(tmp_path / "og.npz", observations=walk, actions=walk, terminals=ends, qpos=walk)
    answer = relabelled(
        capsys, str(tmp_path / "run"), str(tmp_path / "og.npz"), "--out", str(tmp_path / "new.npz"), "--mode",
        "distance"
    )
    with np.load(tmp_path / "new.npz") as new:
        assert set(new) == {
            "observations", "actions", "terminals", "qpos", "rewards", "goals"
        } and answer["num_steps"] == 38
        assert new["rewards"][5] == pytest.approx(-plane.distance(walk[6:7], walk[new["goals"][5]][None])[0], abs=1e-4)
        assert new["rewards"][19] == 0 and (new["goals"][:20] < 20).all()


def test_a_minari_folder_gets_rewards_an_action_and_keeps_the_rest(plane, tmp_path, capsys):
    source = write_minari(tmp_path / "walks-v0", "vectors", (10, 7))
    with h5py.File(source / "data" / "main_data.hdf5", "r+") as file:
        for episode in file.values():
            walk = np.cumsum(np.random.default_rng(2).normal(0, 0.5, (len(episode["observations"]), 2)), axis=0)
            del episode["observations"]
            episode["observations"], episode["rewards"] = walk, np.ones(len(walk) - 1)
    plane.save(tmp_path / "run")
    out = tmp_path / "shaped-v0"
    answer = relabelled(
        capsys, str(tmp_path / "run"), str(source), "--out", str(out), "--goal", "random", "--discount", "1"
    )
    with h5py.File(source / "data" / "main_data.hdf5") as old, h5py.File(out / "data" / "main_data.hdf5") as new:
        frames = np.concatenate(
            [old[name]["observations"][()] for name in ("episode_0", "episode_1")]
        ).astype(np.float32)
        for name, first in (("episode_0", 0), ("episode_1", 11)):
            reward, goal = new[name]["rewards"][()], new[name]["infos/goal"][()]
            assert len(reward) == len(old[name]["actions"]) == len(goal) - 1 and (old[name]["rewards"][()] == 1).all()
            here, after = (
                plane.distance(frames[first + k : first + k + len(reward)], frames[goal[:-1]]) for k in (0, 1)
            )
            assert reward == pytest.approx(1 + here - after, abs=1e-4)
            assert np.array_equal(old[name]["actions"][()], new[name]["actions"][()])
    assert answer["num_steps"] == 17 and (out / "data" / "metadata.json").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_future_goals_lie_ahead_in_the_same_sequence_and_reach_its_end():
    sequence = np.repeat([4, 2, 7], (1, 3, 60))
    goals = np.stack([choose_goals(sequence, "future", np.random.default_rng(seed)) for seed in range(50)])
    number = np.arange(64)
    last = np.isin(number, (0, 3, 63))
    assert (goals[:, ~last] > number[~last]).all() and (goals[:, last] == number[last]).all()
    assert (sequence[goals] == sequence).all() and set(goals[:, 1]) == {2, 3}


def test_a_minari_folder_without_rewards_is_refused(plane, tmp_path, capsys):
    plane.save(tmp_path / "run")
    source = write_minari(tmp_path / "bare-v0", "vectors", (10, 7))
    assert "one here has none" in refusal(
        capsys, str(tmp_path / "run"), str(source), "--out", str(tmp_path / "shaped-v0")
    )
    assert not (tmp_path / "shaped-v0").exists()


def refusal(capsys, *arguments: str) -> str:
    assert main(["relabel", *arguments, "--device", "cpu"]) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert captured.out == "" and lines[-1].startswith("plan2vec: ") and "Traceback" not in captured.err
    return lines[-1]


def test_bad_requests_are_refused_in_one_line_and_write_nothing(rooms, dataset, tmp_path, capsys):
    run, data, out = str(rooms.folder), str(dataset), str(tmp_path / "new.npz")
    assert "exists already" in refusal(capsys, run, data, "--out", data)
    assert "must end in .npz" in refusal(capsys, run, data, "--out", str(tmp_path / "new.hdf5"))
    assert "scale must be a positive number" in refusal(capsys, run, data, "--out", out, "--scale", "0")
    assert "goal must be a frame number" in refusal(capsys, run, data, "--out", out, "--goal", "nowhere")
    assert "does not exist" in refusal(capsys, run, str(tmp_path / "none.npz"), "--out", out)
    shutil.copy(dataset, tmp_path / "rooms.npy")
    assert "rewards can be written into .npz files" in refusal(capsys, run, str(tmp_path / "rooms.npy"), "--out", out)
    (tmp_path / "torn.npz").write_bytes(dataset.read_bytes()[:5000])
    assert "torn.npz cannot be read" in refusal(capsys, run, str(tmp_path / "torn.npz"), "--out", out)
    write_npz(tmp_path / "vectors.npz", make_sequences(np.random.default_rng(0).normal(size=(20, 3))))
    assert "expected frames of shape" in refusal(capsys, run, str(tmp_path / "vectors.npz"), "--out", out)
    assert "expected frames" not in refusal(capsys, str(tmp_path), data, "--out", out)
    assert not Path(out).exists()


# ---------------------------------------------------------------------------------------------------- the agents


@pytest.mark.filterwarnings("default")
def test_blocks_side_by_side_are_rewarded_as_the_wrapped_environment_is(rooms):
    agents = pytest.importorskip("plan2vec.experiments.reward_agents")
    small = fit(agents.record("c-maze", 20, 0), replace(QUICK, dim=3), device="cpu")
    shaping = Shaping("potential", 0.9)
    blocks = agents.Blocks("c-maze", 3, agents.Sight("vectors", small), small, shaping, np.random.default_rng(0))
    blocks.reset()

    class Shrunk(gymnasium.ObservationWrapper):
        def observation(self, observation):
            return {name: agents.shrunk(frame[None])[0] for name, frame in observation.items()}

    env = plan2vec.DistanceReward(Shrunk(make_room()), small, discount=0.9)
    env.reset(options={"position": blocks.position[1], "goal": blocks.goal[1]})
    for action in (0, 3, 5, 5, 6, 1):
        _, reward, terminated, _, _ = env.step(action)
        _, rewards, ended, _ = blocks.step(np.full(3, action))
        assert rewards[1] == pytest.approx(reward, abs=1e-4) and ended[1] == terminated
        if terminated:
            break
