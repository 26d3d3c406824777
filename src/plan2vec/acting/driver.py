"""Driving to a picture: a guide says which recorded view to head for, a controller which button leads there.

    driver = Driver(guide, controller, turns=(5, 6), seed=0)
    driver.reset(goal)                     # a view of the goal
    button = driver.act(view)              # again and again

Neither is told a position or a heading.
"""

from collections import deque
from typing import Protocol

import numpy as np
import torch

from plan2vec.acting.controller import Controller
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.random_streams import Stream, rng_at

SHARPER = 2.0  # power of the controller's probabilities with which buttons are drawn
UNMOVED = 0.5  # gray levels, on average: views that differ by less show that nothing moved
LOOKS = 16  # decisions: somewhat more than once around
STRAY = (3, 9)  # decisions of a random drive, from and below
PATIENCE, FEW = 40, 6  # decisions among whose waypoints so few are different: it goes nowhere


class Guide(Protocol):
    """Knows the place; one episode at a time."""

    num_touched: int  # nodes of a graph looked at so far

    def reset(self, goal: np.ndarray) -> None:
        """A new episode; the goal is a view (h, w, 3) uint8 of the size that was recorded."""

    def waypoint(self, view: np.ndarray) -> np.ndarray | None:
        """The recorded view to head for now; None: lost."""


class GoalItself:
    """No map: the goal is the waypoint, from wherever."""

    num_touched = 0

    def reset(self, goal: np.ndarray) -> None:
        self.goal = goal

    def waypoint(self, view: np.ndarray) -> np.ndarray | None:
        return self.goal


class Driver:
    """Heads for waypoints, looks around where it is lost, drives at random for a moment where it gets nowhere."""

    def __init__(self, guide: Guide, controller: Controller, turns: tuple[int, int], seed: int):
        """`turns`: the two actions by which one looks around."""
        self.guide, self.controller, self.turns, self.seed, self.num_episodes = guide, controller, turns, seed, 0
        self.choices: list[int] = np.asarray(controller.choices).tolist()

    def reset(self, goal: np.ndarray) -> None:
        self.guide.reset(goal)
        self.rng = rng_at(self.seed, Stream.DRIVING, self.num_episodes)
        self.num_episodes += 1
        self.before: tuple[np.ndarray, int] | None = None  # the last view and what was pressed at it
        self.futile: set[int] = set()  # pressed since the view last changed, in vain
        self.planned: list[int] = []  # presses that are settled, the next one last
        self.lost_for, self.heading_for = 0, deque[bytes](maxlen=PATIENCE)
        self.target: np.ndarray | None = None  # the waypoint; None while it is lost

    def act(self, view: np.ndarray) -> int:
        self._watch(view)
        self.target = self.guide.waypoint(view)  # also while something else is done: it keeps track
        if self.target is not None:
            self.lost_for = 0
            self.heading_for.append(self.target[::4, ::4].tobytes())
            if len(self.heading_for) == PATIENCE and len(set(self.heading_for)) <= FEW:
                self.heading_for.clear()
                self.planned = self._stray()
        if self.planned:
            pressed = self.planned.pop()
        elif self.target is None:
            pressed = self._look_around()
        else:
            pressed = self._head_for(view, self.target)
        self.before = view.copy(), pressed
        return pressed

    def _watch(self, view: np.ndarray) -> None:
        if self.before is None:
            return
        if np.abs(view.astype(np.float32) - self.before[0]).mean() > UNMOVED:
            self.futile.clear()
        else:
            self.futile.add(self.before[1])
            self.planned = []

    @torch.no_grad()
    def _head_for(self, view: np.ndarray, target: np.ndarray) -> int:
        views = FrameTensors(np.stack((view, target)), next(self.controller.parameters()).device)(np.arange(2))
        logits = self.controller.eval()(views[:1], views[1:])[0]
        chance = torch.softmax(logits.double(), 0).cpu().numpy() ** SHARPER
        chance[[choice in self.futile for choice in self.choices]] = 0
        if not chance.sum() > 0:
            self.futile.clear()
            chance[:] = 1
        return int(self.rng.choice(self.choices, p=chance / chance.sum()))

    def _look_around(self) -> int:
        """Once around; where that was no help somewhere else, and again."""
        self.lost_for += 1
        if self.lost_for % LOOKS == 0:
            self.planned = self._stray()
            return self.planned.pop()
        return self.turns[(self.lost_for // LOOKS) % 2]

    def _stray(self) -> list[int]:
        pressed = self.rng.choice([choice for choice in self.choices if choice not in self.futile], 2)
        return np.repeat(pressed, self.rng.integers(*STRAY, 2)).tolist()
