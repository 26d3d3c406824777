"""Driving in SPTM's mazes as a Gymnasium environment.

    import plan2vec.domains.doom_env                               # registers it; needs the extras [doom] and [envs]
    env = gymnasium.make("plan2vec/DoomMaze-v0", folder="sptm", maze="office1", start_map=0, goal=1)

The agent sees views alone. Positions are in `info`, for evaluation; so is the goal's view, which the agent may see."""

from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from plan2vec.domains import doom

NAME = "plan2vec/DoomMaze-v0"


class DoomEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One start and one goal of a maze; -1 per action until the goal is reached."""

    metadata = {"render_modes": []}  # noqa: RUF012 (where Gymnasium reads it)

    def __init__(self, folder: str | Path, maze: str, start_map: int = 0, goal: int = 0) -> None:
        self.maze = doom.DoomMaze(Path(folder), maze, start_map, goal)
        self.observation_space = spaces.Box(0, 255, (120, 160, 3), np.uint8)
        self.action_space = spaces.Discrete(len(doom.ACTIONS))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        view, info = self.maze.reset(int(self.np_random.integers(2**31)))
        return view, info | {"goal_view": self.maze.goal_view.copy()}

    def step(self, action: np.int64) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"an action is an integer from 0 to {len(doom.ACTIONS) - 1}, but came as {action!r}")
        view, info = self.maze.step(int(action))
        info["goal_view"] = self.maze.goal_view.copy()
        return view, float(info["is_success"]) - 1, info["is_success"], False, info

    def close(self) -> None:
        self.maze.close()


if NAME not in gymnasium.registry:
    gymnasium.register(NAME, f"{__name__}:DoomEnv", max_episode_steps=doom.TIME_LIMIT // doom.TICS)
