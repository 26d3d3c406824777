"""Simulators that give Sequences, and what evaluation and pictures may know of each: a `Domain`.

To add one: write its file, and add a line to `find_domain`. Training code never calls anything here."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from plan2vec.data import SuccessRule
from plan2vec.domains import maze, rooms, rope, streets

Lengths = Callable[[np.ndarray, np.ndarray], np.ndarray]  # between positions (n, k) and (n, k): (n,)


@dataclass(frozen=True)
class Domain:
    """The ground truth of one simulated world; positions are (n, k) in `unit`."""

    name: str
    success: SuccessRule
    longest_step: float  # the longest recorded step, in `unit`
    geodesic: Lengths | None = None  # around walls; None: `straight`
    walls: tuple[maze.Box, ...] = ()  # boxes to draw: x_min, x_max, y_min, y_max
    extent: maze.Box | None = None  # what a picture of all positions shows; None: just them
    unit: str = "m"
    straight: Lengths | None = None  # walls ignored; None: the l2 distance


def find_domain(name: str | None) -> Domain | None:
    """The domain that `Sequences.domain` names, or None where nothing is known about it."""
    if name in maze.ROOMS:
        geodesic = partial(maze.geodesic, name)
        return Domain(name, maze.SUCCESS, maze.LONGEST_STEP, geodesic, maze.ROOMS[name].walls, maze.FLOOR)
    if name is not None and name.startswith(streets.PREFIX):  # who made the network alone knows ways along its streets
        return Domain(name, streets.SUCCESS, streets.LONGEST_STEP)
    if name == rope.NAME:  # no way around the pegs is known
        return Domain(name, SuccessRule(), rope.LONGEST_DRAG, walls=rope.PEGS, extent=(0, rope.SIDE, 0, rope.SIDE),
                      unit="pixels", straight=rope.displacement)
    if name is not None and name.startswith(rooms.PREFIX):
        return Domain(name, rooms.SUCCESS, rooms.LONGEST_STEP, partial(rooms.geodesic, name), unit="steps")
    return None
