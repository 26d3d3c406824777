"""The three rooms of the paper's maze: a square block moves in eight directions and stops where it touches a wall.

Lengths are in metres, x to the right, y up, the origin at the room's centre. A position (n, 2) is the block's *centre*.
So a wall is known twice: as it is drawn (`Room.walls`), and grown by the block's half-size (`Room.blocked`)."""

from dataclasses import dataclass
from functools import cache
from math import inf, sqrt

import numpy as np

from plan2vec.data import Sequences, SuccessRule, slices

Box = tuple[float, float, float, float]  # x_min, x_max, y_min, y_max in metres

BLOCK = 0.04  # half-size of the block
INNER_FACE = 0.28  # the border's inner faces are at +- this
FLOOR: Box = (-INNER_FACE, INNER_FACE, -INNER_FACE, INNER_FACE)
REACH = 0.24  # the centre stays in |x|, |y| <= this
BORDER: tuple[Box, ...] = ((REACH, inf, -inf, inf), (-inf, -REACH, -inf, inf), (-inf, inf, REACH, inf),
                           (-inf, inf, -inf, -REACH))
ROUNDING = 1e-8  # so near to a face a coordinate lies on it: more than float32 rounds these lengths, far below a pixel
HALF_EXTENT = 0.3065  # the image shows |x|, |y| <= this
PIXELS = 64
PIXEL_EDGES = np.linspace(-HALF_EXTENT, HALF_EXTENT, PIXELS + 1)
FLOOR_GRAY, BLOCK_GRAY, WALL_GRAY, BORDER_GRAY = 255, 160, 100, 65
FRAMES_AT_ONCE = 256  # rendering's largest intermediate array is 4 MiB

LONGEST_STEP = 0.0352  # a diagonal one
AXIS_STEP = 0.0249
DIRECTIONS = np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y])  # (8, 2), and how far in each:
ACTIONS = DIRECTIONS * np.where(DIRECTIONS.all(axis=1, keepdims=True), LONGEST_STEP / sqrt(2), AXIS_STEP)

SUCCESS = SuccessRule(radius=0.02, max_hops=50, epsilon=0.05, episodes=2000)


@dataclass(frozen=True)
class Room:
    """One room; the border is the same for all."""

    name: str
    blocked: tuple[Box, ...] = ()  # open boxes that the block's centre may not enter
    walls: tuple[Box, ...] = ()  # the inner walls as they are drawn


ROOMS = {room.name: room for room in (
    Room("open"), Room("table", blocked=((-0.09, 0.09, -0.09, 0.09),), walls=((-0.05, 0.05, -0.05, 0.05),)),
    Room("c-maze", blocked=((-inf, 0.12, -0.09, 0.09),), walls=((-INNER_FACE, 0.08, -0.05, 0.05),)))}


def find_room(name: str) -> Room:
    if name not in ROOMS:
        raise ValueError(f"no room is called {name!r}; choose one of {', '.join(ROOMS)}")
    return ROOMS[name]


def simulate(room_name: str = "c-maze", num_rollouts: int = 1000, num_steps: int = 10, seed: int = 0) -> Sequences:
    """Rollouts of `num_steps` frames, each from a uniform start, by uniform actions. `action` (n, 1) is the row of
    ACTIONS that leads from frame i to i + 1, and -1 at a sequence's end."""
    if num_rollouts < 1 or num_steps < 2:
        raise ValueError("a recording needs num_rollouts >= 1 and num_steps >= 2, "
                         f"but came as {num_rollouts} and {num_steps}")
    room, rng = find_room(room_name), np.random.default_rng(seed)
    position, action = np.empty((num_rollouts, num_steps, 2)), np.full((num_rollouts, num_steps), -1)
    position[:, 0] = sample_positions(room, num_rollouts, rng)
    action[:, :-1] = rng.integers(len(ACTIONS), size=(num_rollouts, num_steps - 1))
    for i in range(num_steps - 1):
        position[:, i + 1] = step(room, position[:, i], ACTIONS[action[:, i]])
    visited, sequence = position.reshape(-1, 2), np.repeat(np.arange(num_rollouts), num_steps)
    frames, source = render(room, visited), f"simulated {room_name}"
    return Sequences(frames, sequence, position=visited, action=action.reshape(-1, 1), domain=room_name, source=source)


def step(room: Room, position: np.ndarray, displacement: np.ndarray) -> np.ndarray:
    """(n, 2) where blocks come to rest: after their displacement, or at the first contact; there is no sliding."""
    position = require_free(room, position)
    time = np.ones(len(position))  # share of the displacement that is made
    for box in room.blocked + BORDER:
        enter, leave = _crossing(box, position, displacement)
        time = np.where((enter < leave) & (leave > 0), np.minimum(time, np.maximum(enter, 0)), time)
    return _on_faces(room, position + time[:, None] * displacement)


def sample_positions(room: Room, num: int, rng: np.random.Generator) -> np.ndarray:
    """(num, 2) positions, uniform over the free space."""
    position = np.empty((0, 2))
    while len(position) < num:
        drawn = rng.uniform(-REACH, REACH, (num, 2))
        position = np.concatenate([position, drawn[is_free(room, drawn)]])
    return position[:num]


def is_free(room: Room, position: np.ndarray) -> np.ndarray:
    """(...,) bool: the block's centre may be at `position` (..., 2); touching a wall is allowed."""
    boxes = [_faces(box) for box in room.blocked + BORDER]
    inside = [((lower + ROUNDING < position) & (position < upper - ROUNDING)).all(axis=-1) for lower, upper in boxes]
    return np.isfinite(position).all(axis=-1) & ~np.any(inside, axis=0)


def require_free(room: Room, position: np.ndarray) -> np.ndarray:
    """`position` (n, 2) as float64, moved onto the faces it touches; a ValueError names the first one in a wall."""
    position = np.asarray(position, np.float64)
    if position.ndim != 2 or position.shape[1] != 2:
        raise ValueError(f"positions must have the shape (n, 2), but came as {position.shape}")
    inside = np.flatnonzero(~is_free(room, position))
    if len(inside):
        x, y = position[inside[0]]
        raise ValueError(f"{len(inside)} of {len(position)} positions are not in the free space of room {room.name!r}, "
                         f"the first is number {inside[0]}, ({x:.4f}, {y:.4f}); the centre stays in |x|, |y| <= "
                         f"{REACH} m and outside {room.blocked}")
    return _on_faces(room, position)


def geodesic(room_name: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(n,) metres of the block centre's shortest way around the walls: straight, or bent at corners only."""
    room = find_room(room_name)
    first, second = require_free(room, first), require_free(room, second)
    corners, between = _corner_lengths(room)
    there, back = ([_straight_length(room, ends, corner) for corner in corners] for ends in (first, second))
    length = _straight_length(room, first, second)
    for i, j in np.ndindex(between.shape):
        length = np.minimum(length, there[i] + between[i, j] + back[j])
    return length


def render(room: Room, position: np.ndarray) -> np.ndarray:
    """(n, 64, 64, 1) uint8: each pixel is the mean gray of the area it shows. Row 0 is the top, where y is largest."""
    position, background = require_free(room, position), _background(room)
    frames = np.empty((len(position), PIXELS, PIXELS, 1), np.uint8)
    for part in slices(len(position), FRAMES_AT_ONCE):
        columns, rows = _coverage(position[part] - BLOCK, position[part] + BLOCK)
        image = rows[:, :, None] * columns[:, None, :]
        image *= BLOCK_GRAY - FLOOR_GRAY  # exact also beside a wall: a free block covers nothing but floor
        image += background
        frames[part, :, :, 0] = np.rint(image, out=image)
    return frames


def locate(room: Room, frames: np.ndarray) -> np.ndarray:
    """(..., 2) position of the block in rendered frames (..., 64, 64, 1), to within 1e-4 m."""
    covered = np.rint(_background(room)) - frames[..., 0]
    columns, rows = covered.sum(axis=-2), covered.sum(axis=-1)
    return np.stack([_middle(columns), _middle(rows[..., ::-1])], axis=-1)


def _crossing(box: Box, start: np.ndarray, displacement: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(...,), (...,) enter and leave: start + time * displacement is inside `box` where enter < time < leave."""
    lower, upper = _faces(box)
    between = (lower < start) & (start < upper)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        to_lower, to_upper = (lower - start) / displacement, (upper - start) / displacement
        enter = np.where(displacement == 0, np.where(between, -inf, inf), np.minimum(to_lower, to_upper))
        leave = np.where(displacement == 0, np.where(between, inf, -inf), np.maximum(to_lower, to_upper))
    return enter.max(axis=-1), leave.min(axis=-1)


def is_crossed(box: Box, start: np.ndarray, displacement: np.ndarray) -> np.ndarray:
    """(...,) bool: the straight way from `start` (..., 2) by `displacement` (..., 2) leads through `box`."""
    enter, leave = _crossing(box, start, displacement)
    return (enter < leave) & (enter < 1) & (leave > 0)


def _faces(box: Box) -> np.ndarray:
    """(2, 2): lower and upper faces, (x, y) each."""
    return np.array((box[0::2], box[1::2]))


def _on_faces(room: Room, position: np.ndarray) -> np.ndarray:
    """Coordinates that rounding left within ROUNDING of a face, moved onto it: no block creeps into a wall."""
    for box in room.blocked + BORDER:
        for face in _faces(box):
            position = np.where(np.abs(position - face) <= ROUNDING, face, position)
    return position


def _straight_length(room: Room, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(...,) distance in a straight line, infinite where a wall is between; grazing a wall by ROUNDING is allowed."""
    blocked = np.zeros(np.broadcast_shapes(first.shape, second.shape)[:-1], bool)
    for x_min, x_max, y_min, y_max in room.blocked:
        core = (x_min + ROUNDING, x_max - ROUNDING, y_min + ROUNDING, y_max - ROUNDING)
        blocked |= is_crossed(core, first, second - first)
    return np.where(blocked, inf, np.linalg.norm(second - first, axis=-1))


@cache
def _corner_lengths(room: Room) -> tuple[np.ndarray, np.ndarray]:
    """(c, 2) corners of walls that lie in the free space, and (c, c) shortest lengths between them."""
    corners = np.array([(x, y) for box in room.blocked for x in box[:2] for y in box[2:]]).reshape(-1, 2)
    corners = corners[is_free(room, corners)]
    lengths = _straight_length(room, corners[:, None], corners[None])
    for middle in range(len(corners)):
        lengths = np.minimum(lengths, lengths[:, middle, None] + lengths[None, middle])
    return corners, lengths


def _middle(covered: np.ndarray) -> np.ndarray:
    """(...,) coordinate with half of `covered` (..., 64) on either side; exact between pixels, unlike the mean."""
    beyond = covered.cumsum(axis=-1) - covered.sum(axis=-1, keepdims=True) / 2
    pixel = np.argmax(beyond >= 0, axis=-1)[..., None]
    share = np.take_along_axis(beyond, pixel, axis=-1) / np.take_along_axis(covered, pixel, axis=-1)
    return (PIXEL_EDGES[pixel + 1] - share * (PIXEL_EDGES[1] - PIXEL_EDGES[0]))[..., 0]


def _coverage(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 64), (n, 64): shares of the image's columns and rows that boxes from `lower` to `upper` (n, 2) cover."""
    edges = np.clip(PIXEL_EDGES, lower[..., None], upper[..., None])
    shares = (np.diff(edges) * (PIXELS / (2 * HALF_EXTENT))).astype(np.float32)  # (n, 2, 64), ascending
    return shares[:, 0], shares[:, 1, ::-1]


@cache
def _background(room: Room) -> np.ndarray:
    """(64, 64) float32 gray levels of the room without the block."""
    image = np.full((PIXELS, PIXELS), BORDER_GRAY, np.float32)
    walls = [(wall, WALL_GRAY - FLOOR_GRAY) for wall in room.walls]
    for box, difference in [(FLOOR, FLOOR_GRAY - BORDER_GRAY), *walls]:
        columns, rows = _coverage(*_faces(box)[:, None])
        image += difference * rows[0, :, None] * columns[0]
    return image
