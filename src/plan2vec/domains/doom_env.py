"""Driving in SPTM's mazes as a Gymnasium environment.

    import plan2vec.domains.doom_env                               # registers it; needs the extras [doom] and [envs]
    env = gymnasium.make("plan2vec/DoomMaze-v0", folder="sptm", maze="office1", start_map=0, goal=1)

The agent sees views alone. Positions are in `info`, for evaluation.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from plan2vec.domains import doom
from plan2vec.domains.doom import ACTIONS, BUTTONS_OF

NAME = "plan2vec/DoomMaze-v0"
SCREEN = (120, 160, 3)
TIME_LIMIT, IDLE_TICS = 5000, 140  # tics of an episode, and before it
SUCCESS_RADIUS = 63.0  # map units from the goal
Info = dict[str, Any]


class DoomMaze(gymnasium.Env[np.ndarray, np.int64]):
    """One start and one goal of a maze; a button is held for 4 tics. The goal's view is in `info["goal_view"]`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 35 / doom.TICS}  # noqa: RUF012 (where Gymnasium reads it)

    def __init__(self, folder: str | Path, maze: str, start_map: int = 0, goal: int = 0,
                 render_mode: str | None = None) -> None:
        folder, self.render_mode = Path(folder), render_mode
        setup = doom.find_setup(folder, maze)
        for name, number, there in (("start maps", start_map, setup["start_maps"]), ("goals", goal, setup["goals"])):
            if not 0 <= number < len(there):
                raise ValueError(f"{maze} has {name} 0 to {len(there) - 1}, but {number} came")
        recording = setup["goals"][goal]["recording"]
        if not (folder / setup["folder"] / recording).is_file():
            raise ValueError(f"{folder / setup['folder'] / recording} is missing: the goal is given as the last view "
                             "of this recording")
        *_, (goal_view, _, _) = doom.replayed_tics(folder, setup, recording)
        self.place, self.goal_view = np.array(setup["goals"][goal]["position"]), goal_view.copy()
        self.observation_space = spaces.Box(0, 255, SCREEN, np.uint8)
        self.action_space = spaces.Discrete(len(ACTIONS))
        self._opened = ExitStack()
        self._game = self._opened.enter_context(doom.started_game(folder, setup, start_map))

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        super().reset(seed=seed)
        self._game.set_seed(int(self.np_random.integers(2**31)))
        self._game.new_episode()
        for _ in range(IDLE_TICS // doom.TICS):
            self._game.make_action(BUTTONS_OF[ACTIONS.index("idle")], doom.TICS)
        return self._seen()

    def step(self, action: np.int64) -> tuple[np.ndarray, SupportsFloat, bool, bool, Info]:
        if not self.action_space.contains(action):
            raise ValueError(f"an action is an integer from 0 to {len(ACTIONS) - 1}, but came as {action!r}")
        self._game.make_action(BUTTONS_OF[int(action)], doom.TICS)
        view, info = self._seen()
        return view, 0.0 if info["is_success"] else -1.0, info["is_success"], False, info

    def render(self) -> np.ndarray | None:
        return None if self.render_mode is None else self._seen()[0]

    def close(self) -> None:
        self._opened.close()

    def _seen(self) -> tuple[np.ndarray, Info]:
        view, (x, y, heading) = doom.screen_and_place(self._game)
        position = np.array([x, y])
        arrived = bool(np.linalg.norm(position - self.place) < SUCCESS_RADIUS)
        return view.copy(), {"is_success": arrived, "position": position, "heading": float(heading),
                             "goal_view": self.goal_view.copy()}


def register_environment() -> None:
    """Makes the mazes known to `gymnasium.make`; calling it again changes nothing."""
    if NAME not in gymnasium.registry:
        gymnasium.register(NAME, f"{__name__}:DoomMaze", max_episode_steps=TIME_LIMIT // doom.TICS)


register_environment()
