"""A maze of SPTM to drive in: what is learned of it, who drives, and one episode.

Products stay in the output folder: fits under runs/MAZE-SEED, the networks that explored elsewhere beside them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from plan2vec.acting.controller import Controller
from plan2vec.acting.driver import Driver, GoalItself, Guide
from plan2vec.acting.guides import GuideConfig, RouteGuide
from plan2vec.acting.steering import Buttons, SteeringConfig, load_steering, save_steering, train_steering
from plan2vec.baselines.sptm_memory import (
    ReachabilityConfig,
    SptmGuide,
    load_reachability,
    save_reachability,
    train_reachability,
)
from plan2vec.data import Sequences, make_sequences, transitions
from plan2vec.domains import doom
from plan2vec.domains.doom import TURNS, HeldButtons, explore
from plan2vec.experiments.base_scene import Scene
from plan2vec.graph.build import graph_of_edges
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.training import Journal
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.results.experiment import Settings
from plan2vec.search.shortest_paths import distances_from

PICTURE = (48, 64)  # height and width of what is recorded and seen
NUM_EXPLORED = 20_000  # decisions per maze
THINNEST = 32.0  # map units: whoever stands on both sides of a wall is farther apart, being 16 from it
VALIDATION = "Val/"  # how the folders of mazes begin in which may be explored
BUTTONS = Buttons(pairs=((0, 1), (2, 3), (5, 6)))
GUIDES = {"plan2vec": "map", "graph search": "dijkstra"}


class Drives(Protocol):
    def reset(self, goal: np.ndarray) -> None: ...

    def act(self, view: np.ndarray) -> int: ...


class Roamer:
    """Drives at random, as who explores does."""

    def __init__(self, seed: int):
        self.act = HeldButtons(rng_at(seed, Stream.DRIVING))

    def reset(self, goal: np.ndarray) -> None:
        """It heads for nothing."""


@dataclass(frozen=True)
class Episode:
    arrived: bool
    num_decisions: int
    path: np.ndarray  # (m, 2) positions, the start first
    seconds: float  # that the decisions took


class DoomScene(Scene):
    """One maze and one seed of the fit. `labels` stay empty: the seven buttons are the only setting."""

    def __init__(self, maze: str, seed: int, settings: Settings, products: Path):
        super().__init__(f"doom/{maze}", seed, settings.size, settings.device, settings.size.config)
        assert settings.doom_data is not None
        self.maze, self.folder = maze, settings.doom_data
        self.elsewhere, self.products = settings.doom_explore or settings.doom_data, products

    @cached_property
    def recordings(self) -> Sequences:
        return doom.replay(self.folder, self.maze, *PICTURE)

    @cached_property
    def model(self) -> Model:
        folder = self.products / f"{self.maze}-{self.seed}"
        return fit(self.recordings, replace(self.size.config, seed=self.seed), folder, self.device.type, True)

    @cached_property
    def explored_mazes(self) -> list[str]:
        """Validation mazes, never the one that is driven in."""
        setups = doom.read_setups(self.elsewhere)
        found = [name for name, setup in setups.items() if setup["folder"].startswith(VALIDATION) and name != self.maze]
        if not found:
            raise ValueError(f"{self.elsewhere} has no validation maze (a folder {VALIDATION}...) beside {self.maze}: "
                             "give by --doom-explore a folder that has some, where the controller may explore")
        return found

    @cached_property
    def exploration(self) -> Sequences:
        num = 400 if self.size.is_smoke else NUM_EXPLORED
        parts = [explore(self.elsewhere, maze, num, 0, *PICTURE) for maze in self.explored_mazes]
        labels = [part.sequence + 100 * number for number, part in enumerate(parts)]
        actions = [part.action for part in parts if part.action is not None]
        return make_sequences(np.concatenate([part.frames for part in parts]), np.concatenate(labels),
                              action=np.concatenate(actions), source="exploration")

    def learned_elsewhere(self, name: str, load: Callable[[Path, torch.device], Any], keep: Callable[[Any, Path], None],
                          train: Callable[[Sequences], Any]) -> Any:
        """A network that explored other mazes; one per set of them, kept in a file."""
        path = self.products / f"{name}-{'-'.join(sorted(self.explored_mazes))}.safetensors"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            keep(train(self.exploration), path)
        return load(path, self.device)

    @cached_property
    def controller(self) -> Controller:
        config = self.size.shorten(SteeringConfig())
        return self.learned_elsewhere("controller", load_steering, save_steering, lambda explored: train_steering(
            explored, BUTTONS, config, 0, self.device, Journal(show_progress=True)))

    @cached_property
    def reachability(self) -> Any:
        config = self.size.shorten(ReachabilityConfig())
        load = lambda path, device: load_reachability(path, self.recordings.frames, config, device)  # noqa: E731
        return self.learned_elsewhere("reachability", load, save_reachability, lambda explored: train_reachability(
            explored, config, 0, self.device, Journal(show_progress=True)))

    def guide(self, method: str) -> Guide:
        if method in GUIDES:
            return RouteGuide(self.model, self.model.graph, GuideConfig(search=GUIDES[method]))
        if method == "teach and repeat":
            return RouteGuide(self.model, route(self.model.sequences.sequence), GuideConfig(search="dijkstra"))
        return SptmGuide(self.recordings.frames, self.reachability) if method == "SPTM" else GoalItself()

    def driver(self, method: str) -> Drives:
        return Roamer(self.seed) if method == "random" else Driver(self.guide(method), self.controller, TURNS,
                                                                   self.seed)

    @cached_property
    def ways(self) -> "Ways":
        """For evaluation only: where one can walk in this maze."""
        seen = explore(self.folder, self.maze, NUM_EXPLORED if not self.size.is_smoke else 400, 0, *PICTURE)
        walked = self.recordings.position
        assert walked is not None and seen.position is not None
        moved = np.linalg.norm(np.diff(walked, axis=0), axis=1)  # a walkthrough is one sequence
        return Ways(np.concatenate((walked, seen.position)), min(THINNEST, float(np.median(moved[moved > 1]))))


class Ways:
    """Shortest ways over true positions, joined within one step, so through no wall."""

    def __init__(self, position: np.ndarray, step: float):
        self.tree = cKDTree(position)
        pairs = self.tree.query_pairs(step, output_type="ndarray")
        length = np.linalg.norm(position[pairs[:, 0]] - position[pairs[:, 1]], axis=1)
        first, second = np.concatenate((pairs, pairs[:, ::-1])).T
        self.graph = graph_of_edges(first, second, np.maximum(np.tile(length, 2), 1e-3), len(position))

    def shortest(self, start: np.ndarray, goal: np.ndarray, radius: float) -> float:
        """Map units from a position to within `radius` of another; infinite where none is known."""
        away, first = self.tree.query(start)
        return float(away + distances_from(self.graph, np.array([first]))[0][
            self.tree.query_ball_point(goal, radius)].min(initial=np.inf))


def route(sequence: np.ndarray) -> csr_array:
    """The graph of recorded steps alone, a step each, passable both ways."""
    first = transitions(sequence)
    ends = np.concatenate((first, first + 1)), np.concatenate((first + 1, first))
    return graph_of_edges(*ends, np.ones(2 * len(first), np.float32), len(sequence))


def drive(environment: doom.DoomMaze, driver: Drives, seed: int, max_decisions: int,
          watch: Callable[[np.ndarray, np.ndarray], None] = lambda view, position: None) -> Episode:
    """One episode. The driver is given views alone, shrunk to the size of the recording."""
    view, info = environment.reset(seed)
    path, seconds, num = [info["position"]], 0.0, 0
    driver.reset(doom.shrink(environment.goal_view, *PICTURE))
    while num < max_decisions and not info["is_success"]:
        began = perf_counter()
        pressed = driver.act(doom.shrink(view, *PICTURE))
        seconds += perf_counter() - began
        watch(view, info["position"])
        view, info = environment.step(pressed)
        path.append(info["position"])
        num += 1
    return Episode(info["is_success"], num, np.array(path), seconds)
