"""Gymnasium environment of the rope: drag it into a goal shape, reward -1 per drag until there.

    import plan2vec.domains.rope_env                              # registers it; needs the extra [envs]
    env = gymnasium.make("plan2vec/Rope-v0", obs_type="image")    # or "state": the middles of the links in pixels

An action is (where along the rope the hand takes it, 0 to 1; its displacement x, y, -1 to 1 of the longest drag).
"""

from typing import Any, SupportsFloat

import numpy as np
from gymnasium import spaces

from plan2vec.domains import rope
from plan2vec.domains.goal_env import GoalEnv, Info, Observation, register, require_options
from plan2vec.domains.rope_physics import LONGEST_DRAG, NUM_LINKS, SIDE, Drag, Rope, Sides, keeps_sides, random_pull

ENVIRONMENT = "plan2vec/Rope-v0"
ARRIVED = 8.0  # pixels that no link may be farther from its place in the goal shape: about what two drags reach
GOAL_DRAGS = 30  # random drags from the rest shape to a goal
MAX_DRAGS = 100  # an episode


class RopeEnv(GoalEnv[np.ndarray]):
    """The rope starts at rest; random drags make the goal shape, or it is given: `reset(options={"goal": state})`."""

    def __init__(self, obs_type: str = "image", render_mode: str | None = None) -> None:
        super().__init__(obs_type, render_mode, spaces.Box(0, SIDE, (2 * NUM_LINKS,), np.float64))
        self.action_space = spaces.Box(np.array([0, -1, -1], np.float32), np.array([1, 1, 1], np.float32))
        self._rope = Rope()
        self._state = self._goal = self._rope.state

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        super().reset(seed=seed)
        options = require_options(options, "goal")
        self._rope = Rope()
        self._state = self._rope.state
        self._goal = _given_state(options["goal"]) if options else random_shape(self.np_random)
        return self._observation(), self._info()

    def step(self, action: np.ndarray) -> tuple[Observation, SupportsFloat, bool, bool, Info]:
        if not self.action_space.contains(action):
            raise ValueError(f"an action is float32 (place 0..1, x -1..1, y -1..1), but came as {action!r}")
        link = min(int(action[0] * NUM_LINKS), NUM_LINKS - 1)
        self._rope.drag(link, LONGEST_DRAG * np.asarray(action[1:], np.float64))
        self._state = self._rope.state
        info = self._info()
        return self._observation(), 0.0 if info["is_success"] else -1.0, info["is_success"], False, info

    def _draw(self, states: np.ndarray) -> np.ndarray:
        return rope.render(states)

    def _info(self) -> Info:
        """Arrived: every link near its place in the goal shape, and each peg on its side."""
        state, goal = self._state[None], self._goal[None]
        near = np.linalg.norm(state - goal, axis=2).max() < ARRIVED
        arrived = bool(near and keeps_sides(Sides(state), Sides(goal))[0])
        return {"is_success": arrived, "position": state.ravel().copy(), "goal": goal.ravel().copy()}


def random_shape(rng: np.random.Generator) -> np.ndarray:
    """(links, 2) what random pulls make of the rest shape."""
    moved, pull = Rope(), list[Drag]()
    for _ in range(GOAL_DRAGS):
        pull = pull or random_pull(moved.state, rng)
        moved.drag(*pull.pop())
    return moved.state


def _given_state(position: Any) -> np.ndarray:
    """(links, 2) a goal that was given as 2 * links numbers, refused where the rope cannot lie."""
    given = np.asarray(position, np.float64)
    if given.shape != (2 * NUM_LINKS,) or not np.isfinite(given).all():
        expected = f"{2 * NUM_LINKS} numbers, x and y of each link in pixels"
        raise ValueError(f"option 'goal' must be {expected}, but came as {position!r}")
    state, table = given.reshape(NUM_LINKS, 2), f"the table of {SIDE:g} x {SIDE:g} pixels"
    if not rope.clears_pegs(state[None])[0] or state.min() < 0 or state.max() > SIDE:
        raise ValueError(f"option 'goal': the rope would lie in a peg or beside {table}")
    return state


register(ENVIRONMENT, f"{__name__}:RopeEnv", MAX_DRAGS)
