"""Rewards from learned distances: the formulas, for an agent that acts (reward.py) and for recorded steps (relabel.py).

distance    -scale * D(s', g), in place of any other reward: dense, but it changes what is optimal
potential   other reward + discount * Phi(s') - Phi(s), with Phi(s) = -scale * D(s, g)

Over an episode of T steps the potential's part adds up to discount^T Phi(s_T) - Phi(s_0), whatever was done in between,
so the optimal policy stays the same (Ng, Harada and Russell, 1999). That needs Phi = 0 where an episode *terminates*:
otherwise agents would choose between terminal states by their potential (Grzes, 2017). An episode that is only cut off
(truncated) goes on as far as an agent can tell, so Phi stays -scale * D there."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

Mode = Literal["distance", "potential"]


@dataclass(frozen=True)
class Shaping:
    mode: Mode = "potential"  # distance: -D in place of the reward | potential: the decrease of D, added to the reward
    discount: float = 0.99  # per step, of the agent that learns from the reward
    scale: float = 1.0  # reward that one step of distance is worth

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode must be {' or '.join(get_args(Mode))}, but is {self.mode!r}")
        if not 0 < self.discount <= 1:
            raise ValueError(f"discount must be above 0 and at most 1, but is {self.discount}")
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a positive number, but is {self.scale}")

    def potential(self, distance: ArrayLike, terminal: ArrayLike = False) -> np.ndarray:
        """(...,) Phi of states at these distances (...,) from the goal, in steps."""
        return np.where(terminal, 0.0, -self.scale * np.asarray(distance, np.float64))

    def reward(self, plain: ArrayLike, before: ArrayLike, after: ArrayLike, terminal: ArrayLike = False) -> np.ndarray:
        """(...,) rewards of steps from distance `before` to `after`; `plain`: the environment's own rewards."""
        if self.mode == "distance":
            return self.potential(after)
        return np.asarray(plain) + self.discount * self.potential(after, terminal) - self.potential(before)
