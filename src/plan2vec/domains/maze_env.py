"""Gymnasium environments of the maze's rooms: reach a goal position, reward -1 a step until there.

    import plan2vec.domains.maze_env                               # registers the rooms; needs the extra [envs]
    env = gymnasium.make("plan2vec/CMaze-v0", obs_type="image")    # or "state": the block's position in metres

The import is what registers them: Gymnasium 1.4 does not look for entry points of installed packages.
"""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from plan2vec.domains import maze

ENVIRONMENTS = {"plan2vec/OpenRoom-v0": "open", "plan2vec/Table-v0": "table", "plan2vec/CMaze-v0": "c-maze"}
OBSERVATION_TYPES = ("image", "state")


class MazeEnv(gymnasium.Env[Any, np.int64]):
    """One room. Start and goal are uniform over the free space, or given: `reset(options={"position": (x, y), "goal":
    (x, y)})`.

    `observation` and `achieved_goal` both show the block where it is, `desired_goal` shows it at the goal. A reset on
    the goal says so in `info["is_success"]`, but only steps end an episode.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (where Gymnasium reads it)

    def __init__(self, room: str = "c-maze", obs_type: str = "image", render_mode: str | None = None) -> None:
        if obs_type not in OBSERVATION_TYPES:
            raise ValueError(f"obs_type must be one of {OBSERVATION_TYPES}, but came as {obs_type!r}")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', but came as {render_mode!r}")
        self.room = maze.find_room(room)
        self.obs_type = obs_type
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(len(maze.ACTIONS))
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = spaces.Dict({name: _view_space(obs_type) for name in names})
        self._position = self._goal = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        unknown = set(options) - {"position", "goal"}
        if unknown:
            raise ValueError(f"reset knows the options 'position' and 'goal', but got {sorted(unknown)}")
        start, goal = maze.sample_positions(self.room, 2, self.np_random)
        self._position = self._given("position", options, start)
        self._goal = self._given("goal", options, goal)
        observation = self._observation()
        return observation, self._info(self._reward(observation))

    def step(self, action: np.int64) -> tuple[dict[str, np.ndarray], SupportsFloat, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"an action is an integer from 0 to {len(maze.ACTIONS) - 1}, but came as {action!r}")
        self._position = maze.step(self.room, self._position[None], maze.ACTIONS[action][None])[0]
        observation = self._observation()
        reward = self._reward(observation)
        info = self._info(reward)
        return observation, reward, info["is_success"], False, info

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: object) -> np.ndarray:
        """(...,) 0 where the two are less than the success radius apart, else -1, for goals (..., 2) or images (...,
        64, 64, 1).

        Images are compared by where the block is in them (`maze.locate`, to 1e-4 m), so that goals can be relabelled
        in hindsight without their positions; `info` is not read.
        """
        achieved, desired = self._positions(achieved_goal), self._positions(desired_goal)
        distance = np.linalg.norm(achieved - desired, axis=-1)
        return np.where(distance < maze.SUCCESS.radius, 0.0, -1.0)

    def render(self) -> np.ndarray | None:
        """(64, 64, 3) uint8: the block in gray, its goal tinted cyan."""
        if self.render_mode is None:
            return None
        achieved, desired = maze.render(self.room, np.stack([self._position, self._goal]))[..., 0]
        return np.stack([np.minimum(achieved, desired), achieved, achieved], axis=-1)

    def _given(self, name: str, options: dict[str, Any], default: np.ndarray) -> np.ndarray:
        """(2,) the position in `options`, refused where it is not in the free space."""
        if name not in options:
            return default
        position = np.asarray(options[name], np.float64)
        if position.shape != (2,):
            raise ValueError(f"option {name!r} must be a position (x, y) in metres, but came as {options[name]!r}")
        try:
            return maze.require_free(self.room, position[None])[0]
        except ValueError as error:
            raise ValueError(f"option {name!r}: {error}") from error

    def _observation(self) -> dict[str, np.ndarray]:
        views = np.stack([self._position, self._goal])
        if self.obs_type == "image":
            views = maze.render(self.room, views)
        achieved, desired = views
        return {"observation": achieved.copy(), "achieved_goal": achieved.copy(), "desired_goal": desired.copy()}

    def _positions(self, goals: np.ndarray) -> np.ndarray:
        """(..., 2) positions that goals in this environment's observation type stand for."""
        return maze.locate(self.room, np.asarray(goals)) if self.obs_type == "image" else np.asarray(goals)

    def _reward(self, observation: dict[str, np.ndarray]) -> float:
        return float(self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {}))

    def _info(self, reward: float) -> dict[str, Any]:
        return {"is_success": reward == 0, "position": self._position.copy(), "goal": self._goal.copy()}


def register_environments() -> None:
    """Make the rooms known to `gymnasium.make`; calling it again changes nothing."""
    for name, room in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name, entry_point=f"{__name__}:MazeEnv", kwargs={"room": room}, max_episode_steps=maze.SUCCESS.max_hops
            )


def _view_space(obs_type: str) -> spaces.Box:
    if obs_type == "image":
        return spaces.Box(0, 255, (maze.PIXELS, maze.PIXELS, 1), np.uint8)
    return spaces.Box(-maze.REACH, maze.REACH, (2,), np.float64)


register_environments()
