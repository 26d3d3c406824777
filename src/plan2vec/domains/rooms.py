"""A world of many rooms, as large as one likes: a block walks from room to room through doors; each room has a camera.

The world is one grid of rooms. A longer recording explores more of it, at the same density, unless the part to explore
is given; doors out of the explored part are shut. A camera shows the floor's pattern (each room has its own), the
doors, the block, and on the picture's frame two marks for the room's column and row. In a doorway the picture fades
from one camera to the other. Units are steps: a room is 20 steps wide. x to the right, y up, the origin at the lower
left corner of room (0, 0). Walls are thin; the block slides along them."""

import math
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.data import Sequences, SuccessRule, slices
from plan2vec.domains import maze

ROOM = 20.0  # width of a room
DOOR = 6.0  # width of a door
MOST_ROOMS = 32  # columns and rows of the whole world
FRAMES_PER_ROOM = 10_000  # recorded, on average
EXTRA_DOORS = 0.6  # share of the walls with a door beyond those that join all rooms
WALLS = ((0, -1), (0, 1), (1, -1), (1, 1))  # of a room: its axis, and on which side of the room it is
WORLD_SEED = 0  # the world is the same for every recording

NUM_STEPS = 20  # frames of a walk
PERSISTENCE = 0.7  # probability to go on in the same direction
DIRECTIONS = maze.DIRECTIONS.astype(float)
LONGEST_STEP = math.sqrt(2)
FADE = 1.0  # steps from a door within which the next room's camera has a share of the picture
FACE = 1e-6  # the block stops this short of a wall

PIXELS, RING, STRIP, SCALE = 64, 8, 3, 2.4  # of a frame, its wall, the marks on it; pixels per step
BLOCK_PIXELS = 6  # side of the block
BLOCK_GRAY, WALL_GRAY, DOOR_GRAY, DARK, LIGHT = 40, 100, 255, 20, 255
FLOOR_GRAYS, CELLS = (150, 256), 4  # levels of the floor's pattern, and its cells per side
FRAMES_AT_ONCE = 4096

Size = tuple[int, int]  # columns and rows of rooms
PREFIX = "rooms-"
SUCCESS = SuccessRule(radius=2.0, episodes=2000)


def world_size(num_frames: int) -> Size:
    """The part of the world that a recording of so many frames explores."""
    num_rooms = max(1, round(num_frames / FRAMES_PER_ROOM))
    columns = min(MOST_ROOMS, math.ceil(math.sqrt(num_rooms)))
    return columns, min(MOST_ROOMS, math.ceil(num_rooms / columns))


def simulate(num_frames: int, seed: int = 0, file: Path | None = None, size: Size | None = None) -> Sequences:
    """Walks of 20 frames, each from a uniform start in a part of the world; with `file` frames are memory-mapped."""
    size = size or world_size(num_frames)
    walked = simulate_positions(num_frames, seed, size)
    assert walked.position is not None
    make = np.empty if file is None else partial(np.lib.format.open_memmap, file, "w+")
    frames: np.ndarray = make(dtype=np.uint8, shape=(len(walked), PIXELS, PIXELS, 1))
    for part in slices(len(walked), FRAMES_AT_ONCE):
        render(size, walked.position[part], frames[part])
    return replace(walked, frames=frames if file is None else np.load(file, mmap_mode="r"))


def simulate_positions(num_frames: int, seed: int = 0, size: Size | None = None) -> Sequences:
    """The same walks without pictures: the positions themselves, in steps, stand for the frames."""
    if num_frames < NUM_STEPS:
        raise ValueError(f"a recording of rooms needs at least {NUM_STEPS} frames, but is {num_frames}")
    size, rng, num_walks = size or world_size(num_frames), np.random.default_rng(seed), num_frames // NUM_STEPS
    walks = np.empty((num_walks, NUM_STEPS, 2))
    walks[:, 0] = rng.uniform(FACE, np.array(size) * ROOM - FACE, (num_walks, 2))
    direction = rng.integers(len(DIRECTIONS), size=num_walks)
    for i in range(NUM_STEPS - 1):
        turns = rng.random(num_walks) > PERSISTENCE
        direction = np.where(turns, rng.integers(len(DIRECTIONS), size=num_walks), direction)
        walks[:, i + 1] = step(size, walks[:, i], DIRECTIONS[direction])
    position, name = walks.reshape(-1, 2), f"{PREFIX}{size[0]}x{size[1]}"
    sequence = np.repeat(np.arange(num_walks), NUM_STEPS)
    return Sequences(position.astype(np.float32), sequence, position=position, domain=name, source=f"simulated {name}")


def step(size: Size, position: np.ndarray, displacement: np.ndarray) -> np.ndarray:
    """(n, 2) where blocks come to: first along x, then along y; a wall without a door stops that half of the move."""
    moved = position.copy()
    for axis in (0, 1):
        room, wanted = room_of(moved), moved[:, axis] + displacement[:, axis]
        across, ahead = moved[:, 1 - axis] - room[:, 1 - axis] * ROOM, np.floor(wanted / ROOM).astype(int)
        opened = np.zeros(len(moved), bool)
        for way in (-1, 1):
            beside = np.abs(across - _door_middle(size, room, axis, way))  # NaN where there is none
            opened |= (ahead - room[:, axis] == way) & (beside < DOOR / 2)
        stopped = np.clip(wanted, room[:, axis] * ROOM + FACE, (room[:, axis] + 1) * ROOM - FACE)
        moved[:, axis] = np.where(opened, wanted, stopped)
    return moved


def room_of(position: np.ndarray) -> np.ndarray:
    return np.floor(position / ROOM).astype(int)


@cache
def _doors() -> np.ndarray:
    """(2, 32, 32) where in the right wall, and in the upper wall, of each room the door is; NaN: no door. Every
    room has a door to the room on its left or below it, so that any lower left part of the world is connected."""
    rng, shape = np.random.default_rng(WORLD_SEED), (2, MOST_ROOMS, MOST_ROOMS)
    middle = rng.uniform(DOOR - 1, ROOM - DOOR + 1, shape)
    has_door, to_left = rng.random(shape) < EXTRA_DOORS, rng.random(shape[1:]) < 0.5
    to_left[0, :], to_left[:, 0] = False, True
    has_door[0, :-1] |= to_left[1:]
    has_door[1, :, :-1] |= ~to_left[:, 1:]
    return np.where(has_door, middle, np.nan)


def _door_middle(size: Size, room: np.ndarray, axis: int, way: int) -> np.ndarray:
    """(n,) the door's place in the wall that lies `way` (-1, 1) along `axis` of the rooms (n, 2); NaN: no door."""
    holder = room - (way < 0) * np.eye(2, dtype=int)[axis]
    inside = (holder[:, axis] >= 0) & (holder[:, axis] < size[axis] - 1)
    return np.where(inside, _doors()[axis][tuple(np.clip(holder, 0, MOST_ROOMS - 1).T)], np.nan)


def render(size: Size, position: np.ndarray, frames: np.ndarray) -> None:
    """Writes (n, 64, 64, 1) uint8 pictures of blocks at `position` (n, 2) into `frames`."""
    room = room_of(position)
    _view(room, position, frames)
    beyond, share = _fading(size, room, position)
    faded = np.flatnonzero(share)
    other, weight = np.empty((len(faded), PIXELS, PIXELS, 1), np.uint8), share[faded, None, None, None]
    _view(beyond[faded], position[faded], other)
    frames[faded] = np.rint((1 - weight) * frames[faded] + weight * other).astype(np.uint8)


def _view(room: np.ndarray, position: np.ndarray, frames: np.ndarray) -> None:
    """What the cameras of the rooms (n, 2) show; the block's edge is blended by its share of a pixel."""
    frames[:] = _backgrounds()[room[:, 0], room[:, 1]][..., None]
    local = (position - room * ROOM) * SCALE + RING
    columns, column_share = _block_pixels(local[:, 0])
    rows, row_share = _block_pixels(PIXELS - local[:, 1])
    where = (np.arange(len(position))[:, None, None], rows[:, :, None], columns[:, None, :], 0)
    behind, share = frames[where].astype(np.float32), row_share[:, :, None] * column_share[:, None, :]
    frames[where] = np.rint(behind + share * (BLOCK_GRAY - behind)).astype(np.uint8)


def _fading(size: Size, room: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 2) the room behind the nearest door, and (n,) the share of its camera: half in the door, 0 beyond FADE."""
    beyond, share, local = room.copy(), np.zeros(len(position), np.float32), position - room * ROOM
    for axis, way in WALLS:
        middle = _door_middle(size, room, axis, way)
        off = np.maximum(np.abs(local[:, 1 - axis] - middle) - DOOR / 2, 0)  # beside the door
        away = np.hypot(off, ROOM - local[:, axis] if way > 0 else local[:, axis])
        nearer = 0.5 - 0.5 * away / FADE > share  # false where there is no door
        share = np.where(nearer, 0.5 - 0.5 * away / FADE, share).astype(np.float32)
        beyond[nearer] = room[nearer] + way * np.eye(2, dtype=int)[axis]
    return beyond, share


def _block_pixels(middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 7) pixels that the block touches along an axis, and (n, 7) the share of each that it covers."""
    share = np.ones((len(middle), BLOCK_PIXELS + 1), np.float32)
    share[:, -1], first = np.modf(middle - BLOCK_PIXELS / 2)
    share[:, 0] = 1 - share[:, -1]
    return first.astype(int)[:, None] + np.arange(BLOCK_PIXELS + 1), share


@cache
def _backgrounds() -> np.ndarray:
    """(32, 32, 64, 64) uint8: every room without the block."""
    numbers, rng = np.argwhere(np.ones((MOST_ROOMS, MOST_ROOMS))), np.random.default_rng(WORLD_SEED + 1)
    pattern = rng.integers(*FLOOR_GRAYS, size=(len(numbers), CELLS, CELLS), dtype=np.uint8)
    images, cell = np.full((len(numbers), PIXELS, PIXELS), WALL_GRAY, np.uint8), (PIXELS - 2 * RING) // CELLS
    images[:, RING:-RING, RING:-RING] = pattern.repeat(cell, axis=1).repeat(cell, axis=2)
    edge = {-1: slice(0, RING), 1: slice(PIXELS - RING, PIXELS)}  # a wall's pixels along its axis
    for axis, way in WALLS:
        middle = _door_middle((MOST_ROOMS, MOST_ROOMS), numbers, axis, way)
        for number in np.flatnonzero(~np.isnan(middle)):
            low, high = (round(RING + SCALE * (float(middle[number]) + side * DOOR / 2)) for side in (-1, 1))
            gap = (slice(PIXELS - high, PIXELS - low), edge[way]) if axis == 0 else (edge[-way], slice(low, high))
            images[number][gap] = DOOR_GRAY
    wide = PIXELS // MOST_ROOMS
    images[:, :STRIP, :] = images[:, :, :STRIP] = DARK
    for image, (column, row) in zip(images, (wide * numbers).tolist(), strict=True):  # light marks tell both
        image[:STRIP, column : column + wide] = image[row : row + wide, :STRIP] = LIGHT
    return images.reshape(MOST_ROOMS, MOST_ROOMS, PIXELS, PIXELS)


def geodesic(name: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(n,) steps of the shortest way, which passes a door in its middle or a quarter of its width beside it."""
    columns, rows = map(int, name.removeprefix(PREFIX).split("x"))
    length = np.linalg.norm(first - second, axis=-1)
    apart = np.flatnonzero((room_of(first) != room_of(second)).any(axis=-1))
    points, of_room, between = _door_points((columns, rows))
    for part in np.array_split(apart, 1 + len(apart) // 20_000):
        near = [of_room[tuple(room_of(ends[part]).T)] for ends in (first, second)]  # (m, 12) points in a room's walls
        there, back = (np.where(some >= 0, np.linalg.norm(points[some] - ends[part, None], axis=-1), np.inf)
                       for some, ends in zip(near, (first, second), strict=True))
        through = between[near[0][:, :, None], near[1][:, None, :]]
        length[part] = (there[:, :, None] + through + back[:, None, :]).min(axis=(1, 2))
    return length


@cache
def _door_points(size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(p, 2) points in doors, (columns, rows, 12) the points of each room (-1: none), and (p, p) steps between them."""
    points: list[tuple[float, float]] = []
    of_room: dict[tuple[int, int], list[int]] = {(i, j): [] for i in range(size[0]) for j in range(size[1])}
    for axis, i, j in np.argwhere(~np.isnan(_doors()[:, : size[0], : size[1]])).tolist():
        beyond = (i + 1, j) if axis == 0 else (i, j + 1)
        for side in (-1, 0, 1) if beyond in of_room else ():
            along = _doors()[axis, i, j] + side * DOOR / 4
            of_room[i, j].append(len(points))
            of_room[beyond].append(len(points))
            points.append(((i + 1) * ROOM, j * ROOM + along) if axis == 0 else (i * ROOM + along, (j + 1) * ROOM))
    place, table, pairs = np.array(points).reshape(-1, 2), np.full((*size, 12), -1), []
    for (i, j), members in of_room.items():
        table[i, j, : len(members)] = members
        pairs += [(a, b) for a in members for b in members if a != b]
    row, column = np.array(pairs, int).reshape(-1, 2).T
    graph = csr_array((np.linalg.norm(place[row] - place[column], axis=1), (row, column)), shape=(len(place),) * 2)
    return place, table, dijkstra(graph) if len(place) else np.zeros((0, 0))
