"""A Gymnasium wrapper that rewards an agent by the learned distance to its goal (shaping.py has the formulas).

    env = plan2vec.DistanceReward(gymnasium.make("plan2vec/CMaze-v0"), plan2vec.load("runs/c-maze"), discount=0.98)

Goal environments (observations are dicts with `achieved_goal` and `desired_goal`) bring their goal; any other
environment is given one: `DistanceReward(env, model, goal=picture)`. Every `info` holds `distance` (steps) and
`potential`; after a step also `plain_reward`, the environment's own."""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from plan2vec.acting.shaping import Mode, Shaping
from plan2vec.model import Model

STATE, GOAL = "achieved_goal", "desired_goal"


class DistanceReward(gymnasium.Wrapper):
    """The environment with another reward; observations, actions and ends of episodes stay as they are."""

    def __init__(self, env: gymnasium.Env, model: Model, mode: Mode = "potential", discount: float = 0.99,
                 scale: float = 1.0, goal: np.ndarray | None = None, state_key: str = STATE) -> None:
        """`env`: any whose views look like the frames of `model`. `mode`: "potential" adds the decrease of the distance
        to its reward, "distance" replaces that by minus the distance. `discount` is the agent's. `scale`: reward per
        step. `goal`: where the environment has no `desired_goal`. `state_key`: the entry the map was fitted to."""
        super().__init__(env)
        space, needed = env.observation_space, (state_key,) if goal is not None else (state_key, GOAL)
        if not isinstance(space, spaces.Dict):
            if goal is None:
                raise ValueError(f"the observations bring no {GOAL}: "
                                 "give `goal`, a frame like those that the map was fitted to")
        elif missing := [name for name in needed if name not in space.spaces]:
            raise ValueError(f"the observations have no {missing[0]!r}, only {', '.join(space.spaces)}; "
                             "give state_key, or the goal yourself")
        self.shaping = Shaping(mode, discount, scale)
        self.model, self.goal, self.state_key = model, goal, state_key
        self._known: tuple[np.ndarray, np.ndarray] | None = None  # the goal of the episode and its vector
        self._distance = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's; `info` also has `distance` and `potential`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._distance = self._distance_to_goal(observation)
        return observation, info | self._told(False)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """As the environment's, with the learned reward; `info` also has `plain_reward`, `distance`, `potential`."""
        observation, plain, terminated, truncated, info = self.env.step(action)
        before, self._distance = self._distance, self._distance_to_goal(observation)
        reward = self.shaping.reward(float(plain), before, self._distance, terminated)
        info = info | {"plain_reward": plain} | self._told(terminated)
        return observation, float(reward), terminated, truncated, info

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: object) -> np.ndarray:
        """(n,) rewards of arriving at n states with n goals, for goals chosen in hindsight; `info` is not read."""
        if self.shaping.mode == "potential":
            raise ValueError("a potential rewards a step, not a state, so goals cannot be relabelled in hindsight; "
                             "use mode 'distance'")
        return self.shaping.potential(self.model.distance(np.asarray(achieved_goal), np.asarray(desired_goal)))

    def _told(self, terminated: bool) -> dict[str, float]:
        return {"distance": self._distance, "potential": float(self.shaping.potential(self._distance, terminated))}

    def _distance_to_goal(self, observation: Any) -> float:
        state = observation[self.state_key] if isinstance(observation, dict) else observation
        goal = observation[GOAL] if self.goal is None else self.goal
        if self._known is None or not np.array_equal(self._known[0], goal):  # once per episode
            self._known = np.array(goal), self.model.embed(np.asarray(goal)[None])[0]
        return float(self.model.vector_distance(self.model.embed(np.asarray(state)[None])[0], self._known[1]))
