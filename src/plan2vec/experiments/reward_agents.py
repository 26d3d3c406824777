"""Agents that learn to reach goals in a room by acting: stable-baselines3's DQN, many blocks side by side. Needs the
extra [rl].

An agent sees where the block is and where it should go, as two pictures or as their two vectors on a map. Rewards are
those of the Gymnasium environment (-1 per step, 0 on arrival), or these with the map's potential added (shaping.py)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import VecEnv

from plan2vec.acting.shaping import Shaping
from plan2vec.data import Sequences, frames_ahead
from plan2vec.domains import maze
from plan2vec.learning.encoders import standardization
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Model

SIDE = 16  # pixels of a frame: an agent on two cores learns from few of them
NUM_BLOCKS = 16  # that act side by side
DISCOUNT = 0.98  # per step
NEAR = 3  # steps
Look = Callable[[np.ndarray], np.ndarray]  # (n, SIDE, SIDE, 1) frames -> (n, d) what an agent sees of them


@dataclass(frozen=True)
class AgentSettings:
    num_steps: int = 20_000  # of all blocks together
    steps_between: int = 1000  # two evaluations
    updates_per_move: int = 16  # gradient updates after each step of all blocks
    steps_before: int = 500  # that are taken at random before anything is learned
    episodes: int = 100  # of an evaluation


def shrunk(frames: np.ndarray) -> np.ndarray:
    """(n, 64, 64, 1) -> (n, SIDE, SIDE, 1) uint8: means over squares of pixels."""
    parts = frames.reshape(len(frames), SIDE, maze.PIXELS // SIDE, SIDE, maze.PIXELS // SIDE, 1)
    return np.rint(parts.mean(axis=(2, 4), dtype=np.float32)).astype(np.uint8)


def record(room: str, num_rollouts: int, seed: int) -> Sequences:
    sequences = maze.simulate(room, num_rollouts, seed=seed)
    return replace(sequences, frames=shrunk(sequences.frames))


class Sight:
    """What an agent sees: pixels of the block's picture, or its vector on the map, and the goal's from there."""

    def __init__(self, sees: str, model: Model):
        self.look: Look = model.embed if sees == "vectors" else (
            lambda frames: frames.reshape(len(frames), -1).astype(np.float32))
        recorded, start = self.look(model.sequences.frames), frames_ahead(model.sequences.sequence, NEAR)
        self.mean, self.deviation = (of_all.numpy() for of_all in standardization(recorded))
        # the deviation of the change within NEAR steps: near a goal small differences decide
        self.reach = standardization(recorded[start + NEAR] - recorded[start])[1].numpy()

    def observe(self, here: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """(n, 2 d) observations from looks (n, d) at blocks and at their goals."""
        return np.concatenate(((here - self.mean) / self.deviation, (goal - here) / self.reach), axis=1)


class Blocks(VecEnv):
    """Many blocks in one room, each with its goal: the rules of `maze_env.MazeEnv`, all steps at once."""

    def __init__(self, room: str, num: int, sight: Sight, model: Model, shaping: Shaping | None,
                 rng: np.random.Generator):
        self.room, self.sight, self.model, self.shaping, self.rng = maze.find_room(room), sight, model, shaping, rng
        self.position, self.goal = np.zeros((2, num, 2))
        self.moves, self.distance = np.zeros(num, int), np.zeros(num)
        self.begin(np.ones(num, bool))
        space = gymnasium.spaces.Box(-np.inf, np.inf, self.observation()[0].shape, np.float32)
        super().__init__(num, space, gymnasium.spaces.Discrete(len(maze.ACTIONS)))

    def begin(self, which: np.ndarray) -> None:
        """New starts and goals where `which` (num,) says so."""
        num = int(which.sum())
        self.position[which], self.goal[which] = maze.sample_positions(self.room, 2 * num, self.rng).reshape(2, num, 2)
        self.moves[which] = 0
        goals = shrunk(maze.render(self.room, self.goal))
        self.wanted = self.sight.look(goals)
        if self.shaping is not None:
            self.goal_vectors = self.model.embed(goals)
        self.look_around()

    def look_around(self) -> None:
        frames = shrunk(maze.render(self.room, self.position))
        self.seen = self.sight.look(frames)
        if self.shaping is not None:
            self.distance = self.model.vector_distance(self.model.embed(frames), self.goal_vectors)

    def observation(self) -> np.ndarray:
        return self.sight.observe(self.seen, self.wanted)

    def reset(self) -> np.ndarray:
        self.begin(np.ones(self.num_envs, bool))
        return self.observation()

    def step_async(self, actions: np.ndarray) -> None:
        self.chosen = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        self.position = maze.step(self.room, self.position, maze.ACTIONS[self.chosen])
        self.moves += 1
        before = self.distance
        self.look_around()
        arrived = has_arrived(self.position, self.goal)
        reward = np.where(arrived, 0.0, -1.0)
        if self.shaping is not None:
            reward = self.shaping.reward(reward, before, self.distance, arrived)
        cut_off, last = ~arrived & (self.moves >= maze.SUCCESS.max_hops), self.observation()
        infos = [{"TimeLimit.truncated": bool(cut), "terminal_observation": last[k]} for k, cut in enumerate(cut_off)]
        if (ended := arrived | cut_off).any():
            self.begin(ended)
        return self.observation(), reward, ended, infos

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs  # the one that is asked for is `render_mode`: nothing is rendered

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("the blocks move together, there is no environment of each")

    set_attr = env_method = refuse


def examine(agent: DQN, room: maze.Room, sight: Sight, num: int, rng: np.random.Generator) -> float:
    """Share of `num` episodes of 50 actions at most that arrive."""
    here, goal = maze.sample_positions(room, 2 * num, rng).reshape(2, num, 2)
    wanted, arrived = sight.look(shrunk(maze.render(room, goal))), has_arrived(here, goal)
    for _ in range(maze.SUCCESS.max_hops or 0):
        if not len(going := np.flatnonzero(~arrived)):
            break
        seen = sight.observe(sight.look(shrunk(maze.render(room, here[going]))), wanted[going])
        best, chance = agent.predict(seen, deterministic=True)[0], rng.random(len(going))
        chosen = np.where(chance < maze.SUCCESS.epsilon, rng.integers(len(maze.ACTIONS), size=len(going)), best)
        here[going] = maze.step(room, here[going], maze.ACTIONS[chosen])
        arrived[going] = has_arrived(here[going], goal[going])
    return float(arrived.mean())


def has_arrived(position: np.ndarray, goal: np.ndarray) -> np.ndarray:
    return np.linalg.norm(position - goal, axis=-1) < maze.SUCCESS.radius


def train_agent(room: str, model: Model, sees: str, is_shaped: bool, settings: AgentSettings,
                seed: int) -> dict[int, float]:
    """Success by environment steps taken; `sees`: images or vectors. The episodes that count are always the same."""
    sight, shaping = Sight(sees, model), Shaping("potential", DISCOUNT) if is_shaped else None
    blocks = Blocks(room, NUM_BLOCKS, sight, model, shaping, rng_at(seed, Stream.LEARNING_TASKS))
    agent = DQN("MlpPolicy", blocks, lambda left: 1e-3 * left, buffer_size=settings.num_steps, batch_size=128,
                learning_starts=settings.steps_before, gamma=DISCOUNT, train_freq=1,
                gradient_steps=settings.updates_per_move, target_update_interval=200, exploration_fraction=0.2,
                policy_kwargs={"net_arch": [256, 256]}, seed=seed, device="cpu")
    success: dict[int, float] = {}

    def watch(*_: Any) -> bool:
        due = settings.steps_between * (len(success) + 1)
        if agent.num_timesteps >= due:
            success[due] = examine(agent, blocks.room, sight, settings.episodes, rng_at(seed, Stream.EXAMINATION))
        return True

    agent.learn(settings.num_steps, watch)
    return success
