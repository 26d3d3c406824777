"""The rope's physics: a chain of links on a table with two pegs, dragged by one link at a time (pymunk, extra [envs]).

Lengths are in pixels of the 64 x 64 frame, x to the right, y down. A state (links, 2) holds the middles of the links.
This file imports nothing of ours, so that child processes which run it do not import torch.

The random policy pulls one link after the other to a random place around the one it has at rest, a few pixels per drag.
After 36 drags it leads the rope back towards the rest shape, in about 14 drags (where a peg is between, along the way
it came). So sequences meet there about every 50 drags.
"""

import sys
from itertools import pairwise
from typing import Any

import numpy as np

Box = tuple[float, float, float, float]  # x_min, x_max, y_min, y_max in pixels
Drag = tuple[int, np.ndarray]  # a link, and (2,) by how much it is moved

SIDE = 64.0  # of the table, which is the frame
PEGS: tuple[Box, ...] = ((10.0, 19.0, 24.0, 33.0), (39.0, 48.0, 33.0, 42.0))
NUM_LINKS = 12
LINK = 3.6  # length of a link
THICKNESS = 3.5  # of the rope
MARGIN = 1.0  # that the rope keeps from the table's edge

LONGEST_DRAG = 3.0
ROAM = 27.0  # how far from its place at rest a link is pulled
AWAY, BACK = 36, 80  # random drags before the rope is led back; drags after which that is given up
SIGHT = (4.0, 24.0)  # on the way back the hand makes for a state at most so far away, drawn anew for every drag
HOME = 3.0  # the rope is at home where no link's coordinate is farther than this from the rest shape's

STIFFNESS = 3500.0  # torque per radian between two links: bends straighten within a few drags, kinks at once
FRICTION = 1e-4  # share of its speed that the rope keeps over a second: what is let go hardly moves on
GRIP = 4000.0  # largest force of the hand: too weak to pull the rope into a peg
TIME_STEP = 0.02  # seconds
DRAG_STEPS, REST_STEPS = 40, 60  # time steps in which the hand moves, and in which the rope comes to rest


def rest_shape() -> np.ndarray:
    """(links, 2) where every sequence starts: the left peg is above the rope, the right one below; a gentle S."""
    along = (np.arange(NUM_LINKS) - (NUM_LINKS - 1) / 2) * LINK
    across = 2.5 * np.sin(2 * np.pi * along / (NUM_LINKS * LINK))
    cosine, sine = np.cos(np.radians(27.0)), np.sin(np.radians(27.0))
    return np.stack((29 + cosine * along + sine * across, 33 - sine * along + cosine * across), axis=1)


class Rope:
    """The rope in a pymunk space, at first in its rest shape; `drag` moves it, `state` says where it is."""

    def __init__(self) -> None:
        pymunk, state = import_pymunk(), rest_shape()
        angles = link_angles(state)
        self.space = pymunk.Space()
        self.space.iterations, self.space.damping, self.space.collision_slop = 30, FRICTION, 0.01
        self.hand = pymunk.Body(body_type=pymunk.Body.KINEMATIC)
        self.space.add(self.hand)
        for x_min, x_max, y_min, y_max in PEGS:
            corners = [(x_min, y_min), (x_max, y_min), (x_max, y_max), (x_min, y_max)]
            self.space.add(pymunk.Poly(self.space.static_body, corners))
        low, high = MARGIN - 10, SIDE - MARGIN + 10  # walls as thick as that: nothing slips through
        corners = [(low, low), (high, low), (high, high), (low, high), (low, low)]
        self.space.add(*(pymunk.Segment(self.space.static_body, a, b, 10.0) for a, b in pairwise(corners)))
        self.links = [self._make_link(pymunk, *pose) for pose in zip(state, angles, strict=True)]
        for (first, second), bend in zip(pairwise(self.links), np.diff(angles), strict=True):  # it straightens to this
            joint = pymunk.PivotJoint(first, second, (LINK / 2, 0), (-LINK / 2, 0))
            joint.collide_bodies = False
            self.space.add(joint, pymunk.DampedRotarySpring(first, second, -float(bend), STIFFNESS, 50.0))

    @property
    def state(self) -> np.ndarray:
        return np.array([link.position for link in self.links])

    def drag(self, link: int, displacement: np.ndarray) -> None:
        """The hand takes a link by its middle, moves by `displacement` (2,), lets go; then the rope comes to rest."""
        pymunk = import_pymunk()
        body = self.links[link]
        self.hand.position = body.position
        self.hand.velocity = tuple((displacement / (DRAG_STEPS * TIME_STEP)).tolist())
        hold = pymunk.PivotJoint(self.hand, body, (0, 0), (0, 0))
        hold.max_force = GRIP
        self.space.add(hold)
        for time_step in range(DRAG_STEPS + REST_STEPS):
            if time_step == DRAG_STEPS:
                self.space.remove(hold)
                self.hand.velocity = (0, 0)
            self.space.step(TIME_STEP)

    def _make_link(self, pymunk: Any, middle: np.ndarray, angle: float) -> Any:
        """One link of the rope, not yet joined to its neighbours."""
        ends = (-LINK / 2, 0), (LINK / 2, 0)
        body = pymunk.Body(1.0, pymunk.moment_for_segment(1.0, *ends, THICKNESS / 2))
        body.position, body.angle = tuple(middle.tolist()), float(angle)
        shape = pymunk.Segment(body, *ends, THICKNESS / 2)
        shape.filter = pymunk.ShapeFilter(group=1)  # the rope may lie over itself
        self.space.add(body, shape)
        return body


def link_angles(state: np.ndarray) -> np.ndarray:
    """(links,) directions of the links, radians without jumps: each lies along the line through its neighbours."""
    along = np.gradient(state, axis=0)
    return np.unwrap(np.arctan2(along[:, 1], along[:, 0]))


def record(num_drags: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """States (num_drags + 1, links, 2) of one sequence, and the drags (num_drags + 1, 3) that lead on: link, x, y."""
    rope, pull = Rope(), list[Drag]()
    states, drags, left_home, turned = [rope.state], list[tuple[float, ...]](), 0, 0
    for number in range(num_drags):
        if np.abs(states[-1] - states[0]).max() < HOME:
            left_home = turned = number
        if number - turned >= AWAY + BACK:
            turned = number
        if number - turned >= AWAY:
            pull = [drag_towards(states[-1], way_back(np.array(states), left_home, rng.uniform(*SIGHT)), rng)]
        pull = pull or random_pull(states[-1], rng)
        link, move = pull.pop()
        rope.drag(link, move)
        states.append(rope.state)
        drags.append((link, *move))
    return np.array(states), np.array([*drags, (-1, 0, 0)])


def random_pull(state: np.ndarray, rng: np.random.Generator) -> list[Drag]:
    """Drags of one random link to a random place around the one it has at rest."""
    link, angle = int(rng.integers(NUM_LINKS)), rng.uniform(0, 2 * np.pi)
    place = rest_shape()[link] + ROAM * np.sqrt(rng.random()) * np.array((np.cos(angle), np.sin(angle)))
    missing = place - state[link]
    num_drags = max(1, int(np.ceil(np.linalg.norm(missing) / LONGEST_DRAG)))
    return [(link, missing / num_drags)] * num_drags


def way_back(states: np.ndarray, left_home: int, sight: float) -> np.ndarray:
    """(links, 2) the first state since the rope left home that the last one sees: no link far away, no peg between."""
    trail = np.concatenate((states[:1], states[left_home:-1]))
    near = np.linalg.norm(trail - states[-1], axis=2).max(axis=1) < sight
    in_sight = near & keeps_sides(sides_of(trail), sides_of(states[-1:]))
    return trail[np.argmax(in_sight)] if in_sight.any() else trail[-1]


def drag_towards(state: np.ndarray, wanted: np.ndarray, rng: np.random.Generator) -> Drag:
    """A link towards its place in the wanted state; the farther a link is from it, the likelier it is taken."""
    missing = wanted - state
    far = np.linalg.norm(missing, axis=1) + 1e-9
    link = int(rng.choice(NUM_LINKS, p=far**2 / np.sum(far**2)))
    return link, missing[link] * min(1.0, LONGEST_DRAG / far[link])


def sides_of(states: np.ndarray) -> np.ndarray:
    """(3, n, pegs) ropes (n, links, 2) as a peg's middle sees them: radians covered, directions of both ends."""
    middles = np.array([((x_min + x_max) / 2, (y_min + y_max) / 2) for x_min, x_max, y_min, y_max in PEGS])
    offset = states[:, :, None] - middles
    angle = np.arctan2(offset[..., 1], offset[..., 0])  # (n, links, pegs)
    return np.stack((_turn(np.diff(angle, axis=1)).sum(axis=1), angle[:, 0], angle[:, -1]))


def keeps_sides(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """(n,) bool: all links can move straight from before to after (`sides_of`) without the rope passing over a peg's
    middle. A closed line leads along the rope before, with its last end to the rope after, back along that, and with
    its first end to the beginning. The rope sweeps over a peg's middle exactly where this line winds around it."""
    (covered, first, last), (covered_after, first_after, last_after) = before, after
    around = covered + _turn(last_after - last) - covered_after - _turn(first_after - first)
    return (np.abs(around) < np.pi).all(axis=-1)


def _turn(angle: np.ndarray) -> np.ndarray:
    """The same angle from -pi to pi."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def record_numbered(seed: int, num_drags: int, numbers: range) -> tuple[np.ndarray, np.ndarray]:
    """States and drags of some sequences, end to end; a sequence is a function of the seed and its number."""
    recorded = [record(num_drags, np.random.default_rng((seed, number))) for number in numbers]
    return np.concatenate([states for states, _ in recorded]), np.concatenate([drags for _, drags in recorded])


def import_pymunk() -> Any:
    try:
        import pymunk
    except ImportError:
        raise ValueError("the rope needs the extra [envs]: pip install 'plan2vec[envs]'") from None
    return pymunk


if __name__ == "__main__":  # a child of `rope.record_all`
    seed, num_drags, first, last = map(int, sys.argv[1:5])
    states, drags = record_numbered(seed, num_drags, range(first, last))
    np.savez(sys.argv[5], states=states, drags=drags)
