"""Gymnasium environment of the rope: drag it into a goal shape, reward -1 a drag until there.

    import plan2vec.domains.rope_env                              # registers it; needs the extra [envs]
    env = gymnasium.make("plan2vec/Rope-v0", obs_type="image")    # or "state": the middles of the links in pixels

An action is (where along the rope the hand takes it, 0 to 1; its displacement x, y, -1 to 1 of the longest drag).
"""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from plan2vec.domains import rope
from plan2vec.domains.rope_physics import LONGEST_DRAG, NUM_LINKS, SIDE, Drag, Rope, Sides, keeps_sides, random_pull

ENVIRONMENT = "plan2vec/Rope-v0"
OBSERVATION_TYPES = ("image", "state")
ARRIVED = 8.0  # pixels that no link may be farther from its place in the goal shape: about what two drags reach
GOAL_DRAGS = 30  # random drags from the rest shape to a goal
MAX_DRAGS = 100  # an episode


class RopeEnv(gymnasium.Env[Any, np.ndarray]):
    """The rope starts at rest; the goal is a shape that random drags make of it, or given: `reset(options={"goal":
    state})`.

    `observation` and `achieved_goal` both show the rope as it is, `desired_goal` shows it in the goal shape.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (where Gymnasium reads it)

    def __init__(self, obs_type: str = "image", render_mode: str | None = None) -> None:
        if obs_type not in OBSERVATION_TYPES:
            raise ValueError(f"obs_type must be one of {OBSERVATION_TYPES}, but came as {obs_type!r}")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', but came as {render_mode!r}")
        self.obs_type, self.render_mode = obs_type, render_mode
        self.action_space = spaces.Box(np.array([0, -1, -1], np.float32), np.array([1, 1, 1], np.float32))
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = spaces.Dict({name: _view_space(obs_type) for name in names})
        self._rope = Rope()
        self._goal = self._rope.state

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        unknown = set(options or {}) - {"goal"}
        if unknown:
            raise ValueError(f"reset knows the option 'goal', but got {sorted(unknown)}")
        self._rope = Rope()
        self._goal = _given_state(options["goal"]) if options else random_shape(self.np_random)
        return self._observation(), self._info()

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], SupportsFloat, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"an action is float32 (place 0..1, x -1..1, y -1..1), but came as {action!r}")
        link = min(int(action[0] * NUM_LINKS), NUM_LINKS - 1)
        self._rope.drag(link, LONGEST_DRAG * np.asarray(action[1:], np.float64))
        info = self._info()
        return self._observation(), 0.0 if info["is_success"] else -1.0, info["is_success"], False, info

    def render(self) -> np.ndarray | None:
        """(64, 64, 3) uint8: the rope in gray, its goal shape tinted cyan."""
        if self.render_mode is None:
            return None
        achieved, desired = rope.render(np.stack([self._rope.state, self._goal]))[..., 0]
        return np.stack([np.minimum(achieved, desired), achieved, achieved], axis=-1)

    def _observation(self) -> dict[str, np.ndarray]:
        states = np.stack([self._rope.state, self._goal])
        achieved, desired = rope.render(states) if self.obs_type == "image" else states.reshape(2, -1)
        return {"observation": achieved.copy(), "achieved_goal": achieved.copy(), "desired_goal": desired.copy()}

    def _info(self) -> dict[str, Any]:
        """Arrived: every link near its place in the goal shape, and each peg on its side."""
        state, goal = self._rope.state[None], self._goal[None]
        near = np.linalg.norm(state - goal, axis=2).max() < ARRIVED
        arrived = bool(near and keeps_sides(Sides(state), Sides(goal))[0])
        return {"is_success": arrived, "position": state.ravel(), "goal": goal.ravel().copy()}


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
        raise ValueError(
            f"option 'goal' must be {2 * NUM_LINKS} numbers, x and y of each link in pixels, but came as {position!r}"
        )
    state = given.reshape(NUM_LINKS, 2)
    if not rope.clears_pegs(state[None])[0] or state.min() < 0 or state.max() > SIDE:
        raise ValueError(
            f"option 'goal': the rope would lie in a peg or beside the table of {SIDE:g} x {SIDE:g} pixels"
        )
    return state


def _view_space(obs_type: str) -> spaces.Box:
    if obs_type == "image":
        return spaces.Box(0, 255, (rope.PIXELS, rope.PIXELS, 1), np.uint8)
    return spaces.Box(0, SIDE, (2 * NUM_LINKS,), np.float64)


def register_environment() -> None:
    """Make the rope known to `gymnasium.make`; calling it again changes nothing."""
    if ENVIRONMENT not in gymnasium.registry:
        gymnasium.register(ENVIRONMENT, entry_point=f"{__name__}:RopeEnv", max_episode_steps=MAX_DRAGS)


register_environment()
