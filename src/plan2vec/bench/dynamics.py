"""Worlds with momentum, whose steps cannot all be undone: random rollouts, and which hops of a plan are impossible.

The physics is Gymnasium's (`Pendulum-v1`, `MountainCar-v0`), written for many states at once; a test compares the two.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from plan2vec.data import Sequences, make_sequences, transitions
from plan2vec.model import Model
from plan2vec.planner import make_plans

NUM_ROLLOUTS, LENGTH = 15, 200  # 3,000 frames
NUM_PLANS, MOST_STEPS = 100, 3  # plans whose hops are judged; steps that a hop may take
TOLERANCE = 0.5  # of the median recorded step, in coordinates of unit deviation: so near counts as arrived


class World(NamedTuple):
    """A simulator, and its dynamics for many states at once."""

    environment: str
    actions: np.ndarray  # (a,) the grid that is tried
    move: Callable[[np.ndarray, np.ndarray], np.ndarray]  # observations (m, d), actions (m,) -> the next (m, d)


def swing(seen: np.ndarray, torque: np.ndarray) -> np.ndarray:
    """One step of the pendulum; (cos, sin, speed) per row."""
    angle, speed = np.arctan2(seen[:, 1], seen[:, 0]), seen[:, 2]
    speed = np.clip(speed + (15 * np.sin(angle) + 3 * torque) * 0.05, -8, 8)
    angle = angle + speed * 0.05
    return np.column_stack((np.cos(angle), np.sin(angle), speed))


def drive(seen: np.ndarray, push: np.ndarray) -> np.ndarray:
    """One step of the mountain car; (place, speed) per row; 0, 1, 2 push left, not at all, right."""
    place, speed = seen[:, 0], seen[:, 1]
    speed = np.clip(speed + (push - 1) * 0.001 - np.cos(3 * place) * 0.0025, -0.07, 0.07)
    place = np.clip(place + speed, -1.2, 0.6)
    return np.column_stack((place, np.where((place == -1.2) & (speed < 0), 0, speed)))


DYNAMICS = {"pendulum": World("Pendulum-v1", np.linspace(-2, 2, 9), swing),
            "mountain-car": World("MountainCar-v0", np.arange(3.0), drive)}


def roll_out(name: str, seed: int) -> Sequences:
    """Random actions in the simulator itself; the full state is observed."""
    try:
        import gymnasium
    except ImportError:
        raise ValueError("gymnasium is not installed; pip install 'plan2vec[envs]'") from None
    environment: Any = gymnasium.make(DYNAMICS[name].environment, max_episode_steps=10 * LENGTH)
    environment.action_space.seed(seed)
    seen = []
    for number in range(NUM_ROLLOUTS):
        seen.append(environment.reset(seed=1000 * seed + number)[0])
        seen += [environment.step(environment.action_space.sample())[0] for _ in range(LENGTH - 1)]
    return make_sequences(np.stack(seen), np.repeat(np.arange(NUM_ROLLOUTS), LENGTH), source=f"simulated {name}")


def impossible_hops(name: str, model: Model) -> dict[str, float]:
    """Share of the hops of A* plans that no actions of up to three steps achieve; and that of recorded steps."""
    seen, start = model.sequences.frames.astype(np.float64), transitions(model.sequences.sequence)
    starts, goals = np.random.default_rng(model.config.seed).integers(len(seen), size=(2, NUM_PLANS))
    plans = make_plans(model.graph, model.distance_between, starts, goals, "astar")
    nodes = [np.array(plan.nodes) for plan in plans if plan.nodes is not None]
    first, second = (np.concatenate([path[part] for path in nodes] or [start[:0]])
                     for part in (slice(None, -1), slice(1, None)))
    scale = 1 / seen.std(axis=0)
    tolerance = TOLERANCE * np.median(np.linalg.norm((seen[start + 1] - seen[start]) * scale, axis=1))
    hops, recorded = (1 - achieved(DYNAMICS[name], seen[here], seen[there], scale, tolerance)
                      for here, there in ((first, second), (start, start + 1)))
    return {"impossible_hops": float(hops.mean()) if len(hops) else 0.0, "plans_found": len(nodes) / NUM_PLANS,
            "impossible_recorded_steps": float(recorded.mean())}


def achieved(world: World, first: np.ndarray, second: np.ndarray, scale: np.ndarray, tolerance: float) -> np.ndarray:
    """(m,) bool: some actions of the grid lead from `first` (m, d) to within the tolerance of `second`.

    None at all is allowed too: two frames that show almost one state need no action.
    """
    done = np.zeros(len(first), bool)
    for part in np.array_split(np.arange(len(first)), max(1, len(first) // 2000)):
        here, which = first[part], part
        for steps in range(MOST_STEPS + 1):
            if steps:
                tried = np.tile(world.actions, len(here))
                here, which = (np.repeat(rows, len(world.actions), axis=0) for rows in (here, which))
                here = world.move(here, tried)
            done[which[np.linalg.norm((here - second[which]) * scale, axis=1) <= tolerance]] = True
    return done
