"""What the Gymnasium environments of our simulators share: observations of where one is and of a goal, and pictures."""

from abc import abstractmethod
from copy import deepcopy
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces

Action = TypeVar("Action")
Info = dict[str, Any]
Observation = dict[str, np.ndarray]
OBSERVATION_TYPES = ("image", "state")


class GoalEnv(gymnasium.Env[Any, Action]):
    """Reach a goal, reward -1 per step until there.

    `observation` and `achieved_goal` both show the current state, `desired_goal` shows the goal. A subclass has the
    arrays `_state` and `_goal`, and says how states become pictures.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (where Gymnasium reads it)
    _state: np.ndarray
    _goal: np.ndarray

    def __init__(self, obs_type: str, render_mode: str | None, states: spaces.Box) -> None:
        if obs_type not in OBSERVATION_TYPES:
            raise ValueError(f"obs_type must be one of {OBSERVATION_TYPES}, but came as {obs_type!r}")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', but came as {render_mode!r}")
        self.obs_type, self.render_mode = obs_type, render_mode
        view = spaces.Box(0, 255, (64, 64, 1), np.uint8) if obs_type == "image" else states
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = spaces.Dict({name: deepcopy(view) for name in names})

    @abstractmethod
    def _draw(self, states: np.ndarray) -> np.ndarray:
        """(n, 64, 64, 1) uint8 pictures of states (n, ...)."""

    def render(self) -> np.ndarray | None:
        """(64, 64, 3) uint8: the state in gray, its goal tinted cyan."""
        if self.render_mode is None:
            return None
        achieved, desired = self._draw(np.stack([self._state, self._goal]))[..., 0]
        return np.stack([np.minimum(achieved, desired), achieved, achieved], axis=-1)

    def _observation(self) -> Observation:
        """The current state and the goal, as pictures or as numbers."""
        states = np.stack([self._state, self._goal])
        achieved, desired = self._draw(states) if self.obs_type == "image" else states.reshape(2, -1)
        return {"observation": achieved.copy(), "achieved_goal": achieved.copy(), "desired_goal": desired.copy()}


def require_options(options: Info | None, *known: str) -> Info:
    """The options of a reset, refused where one is not known."""
    if unknown := set(options or {}) - set(known):
        words = f"option{'s' * (len(known) > 1)} {' and '.join(map(repr, known))}"
        raise ValueError(f"reset knows the {words}, but got {sorted(unknown)}")
    return options or {}


def register(name: str, entry_point: str, max_episode_steps: int | None, **settings: Any) -> None:
    """Makes an environment known to `gymnasium.make`; calling it again changes nothing."""
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=entry_point, kwargs=settings, max_episode_steps=max_episode_steps)
