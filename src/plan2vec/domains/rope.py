"""The rope on a table with two pegs: recordings, frames, and which moves are physically local.

Lengths are in pixels of the 64 x 64 frame, x to the right, y down. A position (n, 2 * links) holds the middles of the
links: x, y of the first, x, y of the second, ...; it is for evaluation only. The physics is in `rope_physics`.
"""

import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from plan2vec.data import Sequences, frames_ahead, slices
from plan2vec.domains import rope_physics
from plan2vec.domains.children import record_in_children
from plan2vec.domains.rope_physics import NUM_LINKS, PEGS, SIDE, THICKNESS, keeps_sides, sides_of

NAME = "rope"
PIXELS = int(SIDE)
TABLE_GRAY, PEG_GRAY = 255, 0
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
    rope_physics.import_pymunk()
    states, drags = record_all(num_sequences, num_drags, seed)
    position, sequence = states.reshape(len(states), -1), np.repeat(np.arange(num_sequences), num_drags + 1)
    return Sequences(render(states), sequence, position, drags, domain=NAME, source="simulated rope")


def record_all(num_sequences: int, num_drags: int, seed: int,
               num_workers: int = os.cpu_count() or 1) -> tuple[np.ndarray, np.ndarray]:
    """(n, links, 2) states and (n, 3) drags of all sequences end to end; child processes share a long recording."""
    num_workers = min(num_workers, num_sequences)
    if num_workers == 1 or num_sequences * num_drags <= FEW_DRAGS:
        return rope_physics.record_numbered(seed, num_drags, range(num_sequences))
    recorded = record_in_children(["-P", rope_physics.__file__, str(seed), str(num_drags)], num_sequences, num_workers)
    return recorded["states"], recorded["drags"]


def as_states(position: np.ndarray) -> np.ndarray:
    """(n, links, 2) from positions (n, 2 * links)."""
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
        states, reach = as_states(self.position).astype(np.float32), np.float32(self.reach**2)
        pairs, kept = cKDTree(self.position).query_pairs(1.001 * self.reach, p=np.inf, output_type="ndarray"), []
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
    x, y = pixel[None, None, :], pixel[None, :, None]
    least = np.full((len(states), PIXELS, PIXELS), np.inf, np.float32)
    piece = np.zeros(least.shape, np.int8)
    for k in range(NUM_LINKS - 1):
        start_x, start_y = states[:, k].T[:, :, None, None]
        along_x, along_y = (states[:, k + 1] - states[:, k]).T[:, :, None, None]
        share = np.clip(((x - start_x) * along_x + (y - start_y) * along_y) / (along_x**2 + along_y**2), 0, 1)
        square = (x - start_x - share * along_x) ** 2 + (y - start_y - share * along_y) ** 2
        nearer = square < least
        least[nearer], piece[nearer] = square[nearer], k
    return np.sqrt(least), piece
