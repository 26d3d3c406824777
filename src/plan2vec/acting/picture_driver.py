"""Driving to a picture: a guide says which recorded view to head for, a controller which button leads there.

A guide by a map finds itself among the recorded frames: every frame has a belief. It spreads along the hops of the
graph while one drives, and is weighed by how far the view is from the frame, by the local metric. So one view that
looks like another place moves nobody, and where several places fit no frame has enough: lost.

    driver = Driver(guide, controller, turns=(5, 6), seed=0)
    driver.reset(goal)                     # a view of the goal
    button = driver.act(view)              # again and again

Neither is told a position or a heading."""

from collections import deque
from typing import Protocol

import numpy as np
import torch
from scipy.sparse import csr_array, eye_array

from plan2vec.acting.controller import Controller
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.local_metric import local_vectors
from plan2vec.model import Model
from plan2vec.planner import hop_lengths, make_plan

SHARPER = 2.0  # power of the controller's probabilities with which buttons are drawn
UNMOVED = 0.5  # gray levels, on average: views that differ by less show that nothing moved
LOOKS = 16  # decisions: somewhat more than once around
STRAY = (3, 9)  # decisions of a random drive, from and below
PATIENCE, FEW = 40, 6  # decisions among whose waypoints so few are different: it goes nowhere
REACH = 3.5  # local distance from the view within which a frame ahead can be headed for
AHEAD = 8.0  # steps along the plan, at most, to what is headed for
BLUR = 1.0  # local distance by which a view of a frame's place usually differs
UNLIKE = 4.0  # local distance beyond which nothing more is learned
JUMP = 1e-3  # chance that one is suddenly anywhere
SURE, AROUND = 0.5, 4.0  # share of the belief within so many steps of one frame; with less one is lost


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


class Whereabouts:
    """A belief over the recorded frames of a graph."""

    def __init__(self, vectors: np.ndarray, graph: csr_array):
        self.vectors = vectors
        near = graph.copy()
        near.data = np.exp(-near.data / 2).astype(np.float32)
        move = (near + eye_array(len(vectors), dtype=np.float32)).tocsr()
        self.move = (move / move.sum(axis=1)[:, None]).T.tocsr()
        self.around = within(graph, AROUND)
        self.belief = np.full(len(vectors), 1 / len(vectors))

    def see(self, vector: np.ndarray) -> int | None:
        """The frame where the view with this local vector is; None: nowhere for sure."""
        self.away = np.linalg.norm(self.vectors - vector, axis=1)
        fits = np.exp(-0.5 * (np.minimum(self.away, UNLIKE) / BLUR) ** 2)
        belief = ((1 - JUMP) * (self.move @ self.belief) + JUMP / len(self.vectors)) * fits
        self.belief = belief / belief.sum()
        best = int(self.belief.argmax())
        is_sure = self.belief[self.around[[best]].indices].sum() > SURE
        return best if is_sure and self.away[best] < UNLIKE else None


def within(graph: csr_array, steps: float) -> csr_array:
    """(n, n) which frames lie within two hops of at most so many steps of each other, each itself too."""
    short = graph.copy()
    short.data = (short.data <= steps / 2).astype(np.float32)
    short.eliminate_zeros()
    one = (short + eye_array(graph.shape[0], dtype=np.float32)).tocsr()
    return (one @ one).tocsr()


class RouteGuide:
    """Finds itself on a graph of recorded frames, plans, and heads as far ahead as can be reached."""

    def __init__(self, model: Model, graph: csr_array, search: str = "map"):
        """`search`: "map", greedy by the learned distance and A* where that fails, or "dijkstra"."""
        self.model, self.graph, self.num_touched = model, graph, 0
        self.methods = ("dijkstra",) if search == "dijkstra" else ("greedy", "astar")
        self.places = Whereabouts(model.local_vectors, graph)

    def reset(self, goal: np.ndarray) -> None:
        self.goal_view, self.goal = goal, self.model.locate(goal).number
        self.places.belief[:] = 1 / len(self.places.belief)
        self.plan = np.empty(0, np.int64)
        self.node: int | None = None  # where it is

    def waypoint(self, view: np.ndarray) -> np.ndarray | None:
        vector = local_vectors(self.model.local_metric, FrameTensors(view[None], self.model.device))[0]
        self.node = self.places.see(vector)
        ahead = None if self.node is None else self._ahead(self.node)
        if ahead is None:
            return None
        steps = self.length[ahead:] - self.length[ahead]
        within_reach = (self.places.away[self.plan[ahead:]] <= REACH) & (steps <= AHEAD)
        beyond = np.flatnonzero(~within_reach[1:])  # the first that cannot be reached; those before can
        chosen = ahead + max(1, int(beyond[0]) if len(beyond) else len(steps))
        return self.goal_view if chosen >= len(self.plan) - 1 else self.model.sequences.frames[self.plan[chosen]]

    def _ahead(self, node: int) -> int | None:
        """Index in the plan of where one is; makes a new one where that is off it. None: no way leads to the goal."""
        on_plan = np.flatnonzero(np.isin(self.plan, self.places.around[[node]].indices))
        if len(on_plan):
            return int(on_plan[self.places.away[self.plan[on_plan]].argmin()])
        for method in self.methods:
            made = make_plan(self.graph, self.model.distance_between, node, self.goal, method, memory=True)
            self.num_touched += made.num_touched
            if made.nodes is not None:
                self.plan = np.array(made.nodes)
                self.length = np.cumsum([0.0, *hop_lengths(self.graph, made.nodes)])
                return 0
        return None


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
        if not self.planned:
            self.planned = self._look_around() if self.target is None else [self._head_for(view, self.target)]
        pressed = self.planned.pop()
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
        chance = torch.softmax(self.controller.eval()(views[:1], views[1:])[0].double(), 0).cpu().numpy() ** SHARPER
        chance[[choice in self.futile for choice in self.choices]] = 0
        if not chance.sum() > 0:
            self.futile.clear()
            chance[:] = 1
        return int(self.rng.choice(self.choices, p=chance / chance.sum()))

    def _look_around(self) -> list[int]:
        """Once around; where that was no help somewhere else, and again."""
        self.lost_for += 1
        return [self.turns[(self.lost_for // LOOKS) % 2]] if self.lost_for % LOOKS else self._stray()

    def _stray(self) -> list[int]:
        pressed = self.rng.choice([choice for choice in self.choices if choice not in self.futile], 2)
        return np.repeat(pressed, self.rng.integers(*STRAY, 2)).tolist()
