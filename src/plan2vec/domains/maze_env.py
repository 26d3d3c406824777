"""Gymnasium environments of the maze's rooms: reach a goal position, reward -1 per step until there.

    import plan2vec.domains.maze_env                               # registers the rooms; needs the extra [envs]
    env = gymnasium.make("plan2vec/CMaze-v0", obs_type="image")    # or "state": the block's position in metres

The import is what registers them: Gymnasium 1.4 does not look for entry points of installed packages."""

from copy import deepcopy
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from plan2vec.domains import maze

ENVIRONMENTS = {"plan2vec/OpenRoom-v0": "open", "plan2vec/Table-v0": "table", "plan2vec/CMaze-v0": "c-maze"}
OBSERVATION_TYPES, OPTIONS = ("image", "state"), ("position", "goal")
SEEN = ("observation", "achieved_goal", "desired_goal")
Info = dict[str, Any]
Observation = dict[str, np.ndarray]


class MazeEnv(gymnasium.Env[Any, np.int64]):
    """One room. `observation` and `achieved_goal` both show where the block is, `desired_goal` where it should go.
    Start and goal are uniform, or given: `reset(options={"position": (x, y), "goal": (x, y)})`. A reset on the goal
    says so in `info["is_success"]`, but only steps end an episode."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (where Gymnasium reads it)

    def __init__(self, room: str = "c-maze", obs_type: str = "image", render_mode: str | None = None) -> None:
        if obs_type not in OBSERVATION_TYPES:
            raise ValueError(f"obs_type must be one of {OBSERVATION_TYPES}, but came as {obs_type!r}")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', but came as {render_mode!r}")
        self.room, self.obs_type, self.render_mode = maze.find_room(room), obs_type, render_mode
        places = spaces.Box(-maze.REACH, maze.REACH, (2,), np.float64)
        view = spaces.Box(0, 255, (64, 64, 1), np.uint8) if obs_type == "image" else places
        self.observation_space = spaces.Dict({name: deepcopy(view) for name in SEEN})
        self.action_space = spaces.Discrete(len(maze.ACTIONS))
        self._state = self._goal = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        super().reset(seed=seed)
        options = options or {}
        if unknown := set(options) - set(OPTIONS):
            raise ValueError(f"reset knows the options {' and '.join(map(repr, OPTIONS))}, but got {sorted(unknown)}")
        start, goal = maze.sample_positions(self.room, 2, self.np_random)
        self._state, self._goal = self._given("position", options, start), self._given("goal", options, goal)
        return self._result()

    def step(self, action: np.int64) -> tuple[Observation, SupportsFloat, bool, bool, Info]:
        if not self.action_space.contains(action):
            raise ValueError(f"an action is an integer from 0 to {len(maze.ACTIONS) - 1}, but came as {action!r}")
        self._state = maze.step(self.room, self._state[None], maze.ACTIONS[action][None])[0]
        observation, info = self._result()
        return observation, 0.0 if info["is_success"] else -1.0, info["is_success"], False, info

    def render(self) -> np.ndarray | None:
        """(64, 64, 3) uint8: the room in gray, the goal tinted cyan."""
        if self.render_mode is None:
            return None
        achieved, desired = maze.render(self.room, np.stack([self._state, self._goal]))[..., 0]
        return np.stack([np.minimum(achieved, desired), achieved, achieved], axis=-1)

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: object) -> np.ndarray:
        """(...,) 0 where goals (..., 2) or images (..., 64, 64, 1) are less than the success radius apart, else -1.
        Images are compared by where the block is in them (`maze.locate`, to 1e-4 m), so that goals can be relabelled in
        hindsight without their positions; `info` is not read."""
        achieved, desired = np.asarray(achieved_goal), np.asarray(desired_goal)
        if self.obs_type == "image":
            achieved, desired = maze.locate(self.room, achieved), maze.locate(self.room, desired)
        return np.where(np.linalg.norm(achieved - desired, axis=-1) < maze.SUCCESS.radius, 0.0, -1.0)

    def _given(self, name: str, options: Info, default: np.ndarray) -> np.ndarray:
        if name not in options:
            return default
        position = np.asarray(options[name], np.float64)
        if position.shape != (2,):
            raise ValueError(f"option {name!r} must be a position (x, y) in metres, but came as {options[name]!r}")
        try:
            return maze.require_free(self.room, position[None])[0]
        except ValueError as error:
            raise ValueError(f"option {name!r}: {error}") from error

    def _result(self) -> tuple[Observation, Info]:
        """An observation, whose reward is a function of it alone, and the ground truth beside it."""
        states = np.stack([self._state, self._goal])
        achieved, desired = maze.render(self.room, states) if self.obs_type == "image" else states
        observation = {name: shown.copy() for name, shown in zip(SEEN, (achieved, achieved, desired), strict=True)}
        reward = float(self.compute_reward(achieved, desired, {}))
        return observation, {"is_success": reward == 0, "position": self._state.copy(), "goal": self._goal.copy()}


for _name, _room in ENVIRONMENTS.items():
    gymnasium.register(_name, f"{__name__}:MazeEnv", kwargs={"room": _room}, max_episode_steps=maze.SUCCESS.max_hops)
