"""The rope on a table with two pegs (pymunk, extra [envs]): recordings, frames, and which moves are physically local.

Lengths are in pixels of the 64 x 64 frame, x to the right, y down. A state (links, 2) holds the middles of the links, a
position (2 * links,) the same as x, y of the first, x, y of the second, ...; it is for evaluation only.

A chain of links is dragged by one link at a time. The random policy pulls one link after the other to a random place
around the one it has at rest, a few pixels per drag. After 36 drags it leads the rope back towards the rest shape, in
about 14 drags (where a peg is between, along the way it came). So sequences meet there about every 50 drags."""

import os
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from plan2vec.data import Sequences, frames_ahead, slices
from plan2vec.domains.children import record_in_children

NAME = "rope"
Drag = tuple[int, np.ndarray]  # a link, and (2,) by how much it is moved

SIDE = 64.0  # of the table, which is the frame
PEGS = ((10.0, 19.0, 24.0, 33.0), (39.0, 48.0, 33.0, 42.0))  # x_min, x_max, y_min, y_max
NUM_LINKS = 12
LINK = 3.6  # length of a link
THICKNESS = 3.5  # of the rope
MARGIN = 1.0  # that the rope keeps from the table's edge
TILT = np.radians(27.0)  # of the rope at rest

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

PIXELS, TABLE_GRAY, PEG_GRAY = int(SIDE), 255, 0
PIECE_GRAYS = np.where(np.arange(NUM_LINKS - 1) < NUM_LINKS // 2, 97, 160)  # one half of the rope dark, one light
FRAMES_AT_ONCE = 64  # rendering's largest intermediate arrays are 1 MiB
PAIRS_AT_ONCE = 100_000  # of states, compared with each other
FEW_DRAGS = 500  # in all, a second's work: not worth child processes
REACH_SHARE = 0.99  # of the pairs two recorded steps apart that count as what two steps reach


def simulate(num_sequences: int = 18, num_drags: int = 785, seed: int = 0) -> Sequences:
    """Recordings of the random policy, each from the rest shape; 785 drags are 786 frames. `action` (n, 3) leads from
    frame i to i + 1: the link, and its displacement x, y; -1, 0, 0 at a sequence's end."""
    if num_sequences < 1 or num_drags < 1:
        raise ValueError("a recording needs num_sequences >= 1 and num_drags >= 1, "
                         f"but came as {num_sequences} and {num_drags}")
    import_pymunk()
    states, drags = record_all(num_sequences, num_drags, seed).values()
    position, sequence = states.reshape(len(states), -1), np.repeat(np.arange(num_sequences), num_drags + 1)
    return Sequences(render(states), sequence, position, drags, domain=NAME, source="simulated rope")


def record_all(num_sequences: int, num_drags: int, seed: int,
               num_workers: int = os.cpu_count() or 1) -> dict[str, np.ndarray]:
    """`states` and `drags` of all sequences end to end; child processes share a long recording."""
    num_workers = min(num_workers, num_sequences)
    if num_workers == 1 or num_sequences * num_drags <= FEW_DRAGS:
        return record_numbered(seed, num_drags, range(num_sequences))
    return record_in_children(["-P", __file__, str(seed), str(num_drags)], num_sequences, num_workers)


def record_numbered(seed: int, num_drags: int, numbers: range) -> dict[str, np.ndarray]:
    """(n, links, 2) states and (n, 3) drags of some sequences; each is a function of the seed and its number."""
    recorded = zip(*(record(num_drags, np.random.default_rng((seed, number))) for number in numbers), strict=True)
    return {name: np.concatenate(parts) for name, parts in zip(("states", "drags"), recorded, strict=True)}


def rest_shape() -> np.ndarray:
    """(links, 2) where every sequence starts: the left peg is above the rope, the right one below; a gentle S."""
    along = (np.arange(NUM_LINKS) - (NUM_LINKS - 1) / 2) * LINK
    across, cosine, sine = 2.5 * np.sin(2 * np.pi * along / (NUM_LINKS * LINK)), np.cos(TILT), np.sin(TILT)
    return np.stack((29 + cosine * along + sine * across, 33 - sine * along + cosine * across), axis=1)


class Rope:
    """The rope in a pymunk space, at first in its rest shape; `drag` moves it, `state` says where it is."""

    def __init__(self) -> None:
        pymunk, state = import_pymunk(), rest_shape()
        along = np.gradient(state, axis=0)  # each link lies along the line through its neighbours
        angles = np.unwrap(np.arctan2(along[:, 1], along[:, 0]))
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
        self.links, ends = [], ((-LINK / 2, 0), (LINK / 2, 0))
        for middle, angle in zip(state.tolist(), angles.tolist(), strict=True):
            body = pymunk.Body(1.0, pymunk.moment_for_segment(1.0, *ends, THICKNESS / 2))
            body.position, body.angle = tuple(middle), angle
            shape = pymunk.Segment(body, *ends, THICKNESS / 2)
            shape.filter = pymunk.ShapeFilter(group=1)  # the rope may lie over itself
            self.space.add(body, shape)
            self.links.append(body)
        for (first, second), bend in zip(pairwise(self.links), np.diff(angles), strict=True):  # it straightens to this
            joint = pymunk.PivotJoint(first, second, *ends[::-1])
            joint.collide_bodies = False
            self.space.add(joint, pymunk.DampedRotarySpring(first, second, -float(bend), STIFFNESS, 50.0))

    @property
    def state(self) -> np.ndarray:
        return np.array([link.position for link in self.links])

    def drag(self, link: int, displacement: np.ndarray) -> None:
        """The hand takes a link by its middle, moves by `displacement` (2,), lets go; then the rope comes to rest."""
        self.hand.position = self.links[link].position
        self.hand.velocity = tuple((displacement / (DRAG_STEPS * TIME_STEP)).tolist())
        hold = import_pymunk().PivotJoint(self.hand, self.links[link], (0, 0), (0, 0))
        hold.max_force = GRIP
        self.space.add(hold)
        for time_step in range(DRAG_STEPS + REST_STEPS):
            if time_step == DRAG_STEPS:
                self.space.remove(hold)
                self.hand.velocity = (0, 0)
            self.space.step(TIME_STEP)


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
    around = np.array((np.cos(angle), np.sin(angle)))
    missing = rest_shape()[link] + ROAM * np.sqrt(rng.random()) * around - state[link]
    num_drags = max(1, int(np.ceil(np.linalg.norm(missing) / LONGEST_DRAG)))
    return [(link, missing / num_drags)] * num_drags


def way_back(states: np.ndarray, left_home: int, sight: float) -> np.ndarray:
    """(links, 2) the first state since the rope left home that the last one sees: no link far away, no peg between."""
    trail = np.concatenate((states[:1], states[left_home:-1]))
    in_sight = np.linalg.norm(trail - states[-1], axis=2).max(axis=1) < sight
    in_sight &= keeps_sides(sides_of(trail), sides_of(states[-1:]))
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
    return (angle + np.pi) % (2 * np.pi) - np.pi  # the same angle from -pi to pi


def import_pymunk() -> Any:
    try:
        import pymunk
    except ImportError:
        raise ValueError("the rope needs the extra [envs]: pip install 'plan2vec[envs]'") from None
    return pymunk


def as_states(position: np.ndarray) -> np.ndarray:
    position = np.asarray(position, np.float64)
    if position.ndim != 2 or position.shape[1] != 2 * NUM_LINKS:
        raise ValueError(f"the rope's positions must have the shape (n, {2 * NUM_LINKS}), but came as {position.shape}")
    return position.reshape(len(position), NUM_LINKS, 2)


def displacement(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(n,) the largest displacement of a link between positions (n, 2 * links), in pixels."""
    return np.linalg.norm(as_states(first) - as_states(second), axis=2).max(axis=1)


@dataclass(frozen=True)
class TrueMoves:
    """Which moves between recorded states are *local*: a hand could make them in about two drags. No link is displaced
    by more than `reach`, and moved straight, the rope passes over no peg (`keeps_sides`)."""

    position: np.ndarray  # (n, 2 * links)
    reach: float  # pixels, what two recorded steps reach

    @cached_property
    def sides(self) -> np.ndarray:
        return sides_of(as_states(self.position))

    def are_local(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(m,) bool for frame numbers (m,), (m,)."""
        near = displacement(self.position[first], self.position[second]) <= self.reach
        return near & keeps_sides(self.sides[:, first], self.sides[:, second])

    def graph(self) -> csr_array:
        """All local moves between frames, each of length 1."""
        pairs, kept = cKDTree(self.position).query_pairs(1.001 * self.reach, p=np.inf, output_type="ndarray"), []
        states, reach = as_states(self.position).astype(np.float32), np.float32(self.reach**2)
        for part in np.array_split(pairs, 1 + len(pairs) // PAIRS_AT_ONCE):
            first, second = part.T
            near = (np.square(states[first] - states[second]).sum(axis=2) <= reach).all(axis=1)
            kept.append(part[near & keeps_sides(self.sides[:, first], self.sides[:, second])])
        ends = np.concatenate([*kept, *(part[:, ::-1] for part in kept)])
        return csr_array((np.ones(len(ends), np.float32), tuple(ends.T)), shape=(len(states),) * 2)


def true_moves(sequences: Sequences) -> TrueMoves:
    """With the reach measured: the 99th percentile of the displacements between frames two recorded steps apart."""
    assert sequences.position is not None
    start = frames_ahead(sequences.sequence, 2)
    if not len(start):
        raise ValueError(f"{sequences.source}: no sequence has two steps, so what two steps reach is not known; "
                         "record longer ones")
    moved = displacement(sequences.position[start], sequences.position[start + 2])
    return TrueMoves(sequences.position, float(np.quantile(moved, REACH_SHARE)))


def render(states: np.ndarray) -> np.ndarray:
    """(n, 64, 64, 1) uint8 from states (n, links, 2): white table, black pegs, rope in two grays with a soft edge."""
    frames = np.empty((len(states), PIXELS, PIXELS, 1), np.uint8)
    for part in slices(len(states), FRAMES_AT_ONCE):
        distance, piece = _nearest_piece(states[part].astype(np.float32))
        covered = np.clip(THICKNESS / 2 + 0.5 - distance, 0, 1)
        frames[part, :, :, 0] = np.rint(TABLE_GRAY + covered * (PIECE_GRAYS[piece] - TABLE_GRAY))
    for x_min, x_max, y_min, y_max in PEGS:
        frames[:, int(y_min) : int(y_max), int(x_min) : int(x_max)] = PEG_GRAY
    return frames


def _nearest_piece(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 64, 64) distance of every pixel's middle from the rope's middle line, and the nearest piece of the rope."""
    pixel = np.arange(PIXELS, dtype=np.float32) + np.float32(0.5)
    x, y, shape = pixel[None, None, :], pixel[None, :, None], (len(states), PIXELS, PIXELS)
    least, piece = np.full(shape, np.inf, np.float32), np.zeros(shape, np.int8)
    for k in range(NUM_LINKS - 1):
        off_x, off_y = x - states[:, k, 0, None, None], y - states[:, k, 1, None, None]
        along_x, along_y = (states[:, k + 1] - states[:, k]).T[:, :, None, None]
        share = np.clip((off_x * along_x + off_y * along_y) / (along_x**2 + along_y**2), 0, 1)
        square = (off_x - share * along_x) ** 2 + (off_y - share * along_y) ** 2
        piece[square < least] = k
        np.minimum(least, square, out=least)
    return np.sqrt(least), piece


if __name__ == "__main__":  # a child of `record_all`
    seed, num_drags, first, last = map(int, sys.argv[1:5])
    np.savez(sys.argv[5], **record_numbered(seed, num_drags, range(first, last)))  # type: ignore[arg-type]
