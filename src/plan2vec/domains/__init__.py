"""Simulators that give Sequences, and what evaluation and pictures may know of each: a `Domain`.

To add one: write its file, and add a line to `find_domain`. Training code never calls anything here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from plan2vec.data import SuccessRule
from plan2vec.domains import maze, rooms, rope, rope_physics, streets


@dataclass(frozen=True)
class Domain:
    """The ground truth of one simulated world; positions are (n, k) in `unit`."""

    name: str
    success: SuccessRule
    longest_step: float  # the longest recorded step, in `unit`
    # (n, k), (n, k) -> (n,) around walls; None: `straight`
    geodesic: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    walls: tuple[maze.Box, ...] = ()  # boxes to draw: x_min, x_max, y_min, y_max
    extent: maze.Box | None = None  # what a picture of all positions shows; None: just them
    unit: str = "m"
    # as `geodesic`, walls ignored; None: the l2 distance
    straight: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None


def find_domain(name: str | None) -> Domain | None:
    """The domain that `Sequences.domain` names, or None where nothing is known about it."""
    if name in maze.ROOMS:
        return _maze_domain(maze.ROOMS[name])
    if name is not None and streets.is_street(name):  # the network, and so the way along the streets, is known to who made it alone
        return Domain(name, streets.SUCCESS, streets.LONGEST_STEP)
    if name == rope.NAME:
        return _rope_domain()
    if name is not None and rooms.is_rooms(name):
        return Domain(name, rooms.SUCCESS, rooms.LONGEST_STEP, partial(rooms.geodesic, name), unit="steps")
    return None


def _maze_domain(room: maze.Room) -> Domain:
    face = maze.INNER_FACE
    return Domain(
        name=room.name,
        success=maze.SUCCESS,
        longest_step=maze.LONGEST_STEP,
        geodesic=partial(maze.geodesic, room.name),
        walls=room.walls,
        extent=(-face, face, -face, face),
    )


def _rope_domain() -> Domain:
    """Distances are largest displacements of a link; no way around the pegs is known."""
    return Domain(
        name=rope.NAME,
        success=SuccessRule(),
        longest_step=rope_physics.LONGEST_DRAG,
        walls=rope_physics.PEGS,
        extent=(0, rope_physics.SIDE, 0, rope_physics.SIDE),
        unit="pixels",
        straight=rope.displacement,
    )
