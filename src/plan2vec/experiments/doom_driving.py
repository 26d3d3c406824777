"""Claim: after one walkthrough of an unseen maze, an agent led by the map drives to any picture of it.

Expected: success within 5,000 tics at least 90 % on average over the test mazes, at least 80 % in each; paths at most
twice the shortest way; at least 100 decisions per second on one core.

SPTM's task: views of 160 x 120, seven buttons held for 4 tics, success within 63 map units of the goal. Every method
has the same walkthrough and, but for *random*, the same controller, which has explored other mazes only. *SPTM* is
rebuilt, its reachability network trained on the same exploration. *Graph search* plans on our graph by Dijkstra instead
of the map. *Teach and repeat* follows the walkthrough's order. *Controller alone* heads for the goal's picture.
`path_ratio`: driven way of the successes over the shortest one, which is Dijkstra's over true positions of walkthrough
and exploration. `touched_per_decision`: nodes of the graph that planning looked at.
plan2vec and SPTM: 6 trials x 4 start maps x 4 goals per seed; the others 2 trials, first seed."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree
from torch import nn

from plan2vec.acting.controller import Controller
from plan2vec.acting.picture_driver import Driver, GoalItself, Guide, RouteGuide
from plan2vec.acting.steering import Buttons, SteeringConfig, SteeringNetwork, controller_of, train_steering
from plan2vec.baselines.sptm_memory import Reachability, ReachabilityConfig, SptmGuide, train_reachability
from plan2vec.data import Sequences, make_sequences, transitions
from plan2vec.domains import doom
from plan2vec.experiments.base_scene import Found, Scene, mean_or_none
from plan2vec.files import replacing
from plan2vec.graph.build import graph_of_edges
from plan2vec.learning.gradient_loop import Journal
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.results.comparisons import by_method, by_metric, compare
from plan2vec.results.experiment import Experiment, Settings
from plan2vec.results.rows import Groups, Row, parts_of
from plan2vec.runs.products import load_module, save_module
from plan2vec.search.shortest_paths import distances_from

PICTURE = (48, 64)  # height and width of what is recorded and seen
NUM_EXPLORED = 20_000  # decisions per maze
THINNEST = 32.0  # map units: whoever stands on both sides of a wall is farther apart, being 16 from it
VALIDATION = "Val/"  # how the folders of mazes begin in which may be explored
BUTTONS = Buttons(pairs=((0, 1), (2, 3), (5, 6)))
Network = TypeVar("Network", bound=nn.Module)
GUIDES = {"plan2vec": "map", "graph search": "dijkstra"}


@dataclass(frozen=True)
class Episode:
    arrived: bool
    num_decisions: int
    path: np.ndarray  # (m, 2) positions, the start first
    seconds: float  # that the decisions took


class DoomScene(Scene):
    """One maze and one seed of the fit. `labels` stay empty: the seven buttons are the only setting."""

    def __init__(self, maze: str, seed: int, settings: Settings, products: Path):
        super().__init__(f"doom/{maze}", seed, settings)
        assert settings.asked.doom_data is not None
        self.maze, self.folder, self.products = maze, settings.asked.doom_data, products
        self.elsewhere = settings.asked.doom_explore or self.folder
        self.num_explored = 400 if self.size.is_smoke else NUM_EXPLORED

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
        parts = [doom.explore(self.elsewhere, maze, self.num_explored, 0, *PICTURE) for maze in self.explored_mazes]
        labels = np.concatenate([part.sequence + 100 * number for number, part in enumerate(parts)])
        frames, actions = (np.concatenate([getattr(part, name) for part in parts]) for name in ("frames", "action"))
        return make_sequences(frames, labels, action=actions, source="exploration")

    def learned_elsewhere(self, name: str, network: Network, train: Callable[..., nn.Module], *config: Any) -> Network:
        """A network that explored other mazes: trained once per set of them, then filled from its file."""
        path = self.products / f"{name}-{'-'.join(sorted(self.explored_mazes))}.safetensors"
        if not path.exists():
            trained = train(self.exploration, *config, 0, self.device, Journal(show_progress=True))
            with replacing(path) as temporary:
                save_module(temporary, trained)
        load_module(path, network)
        return network.to(self.device).eval()

    @cached_property
    def controller(self) -> Controller:
        config = self.size.shorten(SteeringConfig())
        untrained = controller_of(SteeringNetwork(self.recordings.frames, config), BUTTONS)
        return self.learned_elsewhere("controller", untrained, train_steering, BUTTONS, config)

    @cached_property
    def reachability(self) -> Reachability:
        config = self.size.shorten(ReachabilityConfig())
        untrained = Reachability(self.recordings.frames, config)
        return self.learned_elsewhere("reachability", untrained, train_reachability, config)

    def driver(self, method: str) -> Any:
        """A `Driver`; or who drives at random, as who explores does, whatever the goal."""
        if method == "random":
            return SimpleNamespace(act=doom.HeldButtons(rng_at(self.seed, Stream.DRIVING)), reset=lambda goal: None)
        guide: Guide = GoalItself()
        if method in GUIDES:
            guide = RouteGuide(self.model, self.model.graph, GUIDES[method])
        elif method == "teach and repeat":
            guide = RouteGuide(self.model, route(self.model.sequences.sequence), "dijkstra")
        elif method == "SPTM":
            guide = SptmGuide(self.recordings.frames, self.reachability)
        return Driver(guide, self.controller, doom.TURNS, self.seed)

    @cached_property
    def ways(self) -> "Ways":
        """For evaluation only: where one can walk in this maze."""
        walked, seen = (np.asarray(some.position) for some in (
            self.recordings, doom.explore(self.folder, self.maze, self.num_explored, 0, *PICTURE)))
        moved = np.linalg.norm(np.diff(walked, axis=0), axis=1)  # a walkthrough is one sequence
        return Ways(np.concatenate((walked, seen)), min(THINNEST, float(np.median(moved[moved > 1]))))


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


def drive(environment: doom.DoomMaze, driver: Any, seed: int, max_decisions: int,
          watch: Callable[[np.ndarray, np.ndarray], None] = lambda view, position: None) -> Episode:
    """One episode. The driver is given views alone, shrunk to the size of the recording."""
    view, info = environment.reset(seed)
    path, seconds = [info["position"]], 0.0
    driver.reset(doom.shrink(environment.goal_view, *PICTURE))
    while len(path) <= max_decisions and not info["is_success"]:
        began = perf_counter()
        pressed = driver.act(doom.shrink(view, *PICTURE))
        seconds += perf_counter() - began
        watch(view, info["position"])
        view, info = environment.step(pressed)
        path.append(info["position"])
    return Episode(info["is_success"], len(path) - 1, np.array(path), seconds)


MAIN = ("plan2vec", "SPTM")
METHODS = (*MAIN, "graph search", "teach and repeat", "controller alone", "random")
NUM_TRIALS, FEW_TRIALS, SMOKE_DECISIONS = 6, 2, 20
SHOWN = (("success", "success, %", 100, 1), ("success_2000", "within 2,000 tics, %", 100, 1),
         ("path_ratio", "way / shortest", 1, 2), ("decisions_per_second", "decisions per second", 1, 0),
         ("touched_per_decision", "touched per decision", 1, 1), ("episodes", "episodes", 1, 0))


def run(settings: Settings) -> Groups:
    folder, mazes = settings.asked.doom_data, settings.asked.mazes
    if folder is None:
        print("doom is left out: give the folder of SPTM's mazes by --doom-data FOLDER (docs/control-and-reward.md)",
              file=sys.stderr)
        return
    for maze in mazes:
        doom.find_setup(folder, maze)
    for domain, seed in settings.scenes(tuple(f"doom/{maze}" for maze in mazes or doom.read_setups(folder))):
        scene = DoomScene(domain.removeprefix("doom/"), seed, settings, settings.arrays.parent / "runs")
        yield from scene.measured(settings, METHODS if seed == settings.seeds[0] else MAIN, measure)


def measure(scene: DoomScene, method: str) -> Found:
    driver, setup = scene.driver(method), doom.find_setup(scene.folder, scene.maze)
    num_trials = 1 if scene.size.is_smoke else NUM_TRIALS if method in MAIN else FEW_TRIALS
    limit = SMOKE_DECISIONS if scene.size.is_smoke else doom.TIME_LIMIT // doom.TICS
    episodes, ratios = list[Episode](), list[float]()
    for start_map, goal in np.ndindex(len(setup["start_maps"]), len(setup["goals"])):
        environment = doom.DoomMaze(scene.folder, scene.maze, start_map, goal)
        tried = [drive(environment, driver, 1000 * scene.seed + trial, limit) for trial in range(num_trials)]
        environment.close()
        shortest = scene.ways.shortest(tried[0].path[0], environment.place, doom.SUCCESS_RADIUS)
        driven = [np.linalg.norm(np.diff(one.path, axis=0), axis=1).sum() for one in tried if one.arrived]
        ratios += [float(length) / shortest for length in driven]
        episodes += tried
    num, seconds = (sum(getattr(one, name) for one in episodes) for name in ("num_decisions", "seconds"))
    tics = np.array([doom.TICS * one.num_decisions if one.arrived else np.inf for one in episodes])
    touched = driver.guide.num_touched if isinstance(driver, Driver) else 0
    found = {"success": np.isfinite(tics).mean(), "success_2000": (tics <= 2000).mean(),
             "path_ratio": mean_or_none(np.array([ratio for ratio in ratios if np.isfinite(ratio)])),
             "decisions_per_second": num / seconds, "touched_per_decision": touched / num, "episodes": len(episodes)}
    return found | ({"fit_seconds": sum(scene.model.seconds.values())} if method == "plan2vec" else {})


def table(rows: list[Row]) -> list[str]:
    return [line for (domain,), part in parts_of(rows, domain=())
            for line in compare(part, domain.removeprefix("doom/"), by_method(part, METHODS), by_metric(SHOWN))]


EXPERIMENT = Experiment("doom", "Driving in SPTM's mazes", __doc__, run, table, None, (), METHODS)
