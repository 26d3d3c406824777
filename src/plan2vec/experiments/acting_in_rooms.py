"""Claim: led by the map an agent acts: from pictures of start and goal it arrives in every room.

Expected: the agent led by the map arrives in at least 95 % of the episodes in each room; the same controller without a
map fails where a wall is between. The paper's Table 1 hops between frames and never acts.

Recordings, local metric, graph and map are those of Table 1, block `large`. The controller learns from the same
rollouts, by vectors of the local metric, which of the eight actions leads to a frame up to 10 steps later. Episodes
start and end at random places; their pictures are new. The agent finds picture and goal on the graph, plans, gives the
controller a waypoint 1.5 steps ahead, and never repeats an action that just changed nothing. Success: within 0.02 m of
the goal after at most 50 actions. `hops`: the walker of Table 1 on the same graph; no action is taken.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from plan2vec.acting.agent import Agent, AgentConfig, AgentMap, Guidance
from plan2vec.acting.controller import Controller, ControllerConfig, train_controller
from plan2vec.baselines.registry import Map
from plan2vec.data import Sequences
from plan2vec.domains import maze
from plan2vec.experiments.base_scene import mean_or_none
from plan2vec.experiments.maze_scene import ROOM_TITLES, MazeScene, MazeSite, maze_scenes
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.local_metric import LocalMetric, local_vectors
from plan2vec.planner import Distance
from plan2vec.results.comparisons import Figures, by_domain, by_method, compare, domain_panels, panel_figure
from plan2vec.results.rows import Arrays, Groups, Row, in_order, select
from plan2vec.results.settings import Settings

NAME, TITLE = "acting", "Table 1 with actions: an agent in the three rooms"
DOMAINS = tuple(ROOM_TITLES)
HOPPERS = ("plan2vec",)
GUIDANCE: dict[str, Guidance] = {"greedy on the map": "greedy", "graph search": "graph", "controller alone": "direct",
                                 "greedy, controller untrained": "greedy"}
ACTORS = (*GUIDANCE, "random actions")
METHODS = (*HOPPERS, *ACTORS)
BLOCKS = {"hops": "hops between the 10,000 recorded frames (Table 1, block `large`)",
          "acts": "actions in the room, from pictures"}
ON_FOOT = AgentConfig(ahead=1.5, off_path=4, patience=6)  # steps of a few centimetres: plans are followed closely
EPISODES = 500  # of actions, per seed
Policy = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (r, ...) frames, (r,) numbers of the episodes -> (r,) actions


def run(settings: Settings) -> Groups:
    for scene in maze_scenes(settings, DOMAINS):
        for block in settings.chosen("blocks", tuple(BLOCKS)):
            methods = HOPPERS if block == "hops" else ACTORS
            if scene.lacking(settings, NAME, {"block": block}, methods):
                yield from scene.measured(settings, NAME, {"block": block}, methods, measure, actor_of(scene))


def actor_of(scene: MazeScene) -> "Actor":
    """By Table 1's map of the large set."""
    return Actor(scene, scene.large, scene.metric, lambda: scene.train_map(scene.large, scene.config))


def measure(scene: MazeScene, actor: "Actor", method: str) -> dict[str, float | None]:
    return {"success": scene.large.success(actor.distance)} if method in HOPPERS else actor.measure(method)


@dataclass(frozen=True)
class Episodes:
    """What came of acting from many starts to many goals."""

    arrived: np.ndarray  # (m,) bool
    num_actions: np.ndarray  # (m,) taken


class Actor:
    """A room, what was learned of it from a site's recordings, and tasks in it."""

    def __init__(self, scene: MazeScene, site: MazeSite, metric: LocalMetric, fit: Callable[[], Map]):
        """`fit` gives the map; it is called for agents that the map leads."""
        self.scene, self.site, self.metric, self.fit = scene, site, metric, fit

    def look(self, frames: np.ndarray) -> np.ndarray:
        """(m, d) what the agent sees of pictures: their vectors of the local metric."""
        return local_vectors(self.metric, self.scene.images(frames))

    def measure(self, method: str) -> dict[str, float | None]:
        episodes = self.episodes(method)
        return {"success": episodes.arrived.mean(), "num_actions": mean_or_none(episodes.num_actions[episodes.arrived])}

    def episodes(self, method: str) -> Episodes:
        return act_out_tasks(self.scene, lambda goals: self.policy(method, goals))

    def policy(self, method: str, goals: np.ndarray) -> Policy:
        if method == "random actions":
            chance = rng_at(self.scene.seed, Stream.ACTING_CHANCE)
            return lambda frames, going: chance.integers(len(maze.ACTIONS), size=len(going))
        controller = self.untrained if method == "greedy, controller untrained" else self.trained
        agent = Agent(controller, self.places, replace(ON_FOOT, method=GUIDANCE[method]))
        agent.reset_many(self.look(goals))
        # whether anything changed is told by the frames: vectors of equal ones may differ in the last bit
        return lambda frames, going: agent.act_many(self.look(frames), going, frames)[:, 0]

    @cached_property
    def trained(self) -> Controller:
        stage = self.scene.size.shorten(ControllerConfig())
        return train_controller(self.vectors, stage, self.scene.seed, self.scene.device)

    @property
    def untrained(self) -> Controller:
        return train_controller(self.vectors, ControllerConfig(num_updates=0), self.scene.seed, self.scene.device)

    @cached_property
    def vectors(self) -> Sequences:
        return replace(self.site.sequences.without_truth(), frames=self.look(self.site.frames))

    @cached_property
    def distance(self) -> Distance:
        return self.fit().on(self.site.frames)

    @cached_property
    def places(self) -> AgentMap:
        frames = self.vectors.frames
        return AgentMap(frames, self.site.graph, lambda nodes, goals: self.distance(nodes, goals), frames,
                      lambda views: views)


def act_out_tasks(scene: MazeScene, policy: Callable[[np.ndarray], Policy]) -> Episodes:
    """The episodes of a scene, the same for every policy; it is made for pictures of the goals."""
    room, num = maze.find_room(scene.domain), min(EPISODES, scene.size.episodes)
    start, goal = maze.sample_positions(room, 2 * num, rng_at(scene.seed, Stream.ACTING_TASKS)).reshape(2, num, 2)
    return act_out(room, start, goal, policy(maze.render(room, goal)))


def act_out(room: maze.Room, start: np.ndarray, goal: np.ndarray, decide: Policy) -> Episodes:
    """Episodes side by side from `start` (m, 2) to `goal` (m, 2): to arrival or for 50 actions, by frames alone."""
    here, arrived, num_actions = start.copy(), has_arrived(start, goal), np.zeros(len(start), int)
    for _ in range(maze.SUCCESS.max_hops or 0):
        going = np.flatnonzero(~arrived)
        if not len(going):
            break
        action = decide(maze.render(room, here[going]), going)
        here[going] = maze.step(room, here[going], maze.ACTIONS[action])
        num_actions[going] += 1
        arrived[going] = has_arrived(here[going], goal[going])
    return Episodes(arrived, num_actions)


def has_arrived(position: np.ndarray, goal: np.ndarray) -> np.ndarray:
    return np.linalg.norm(position - goal, axis=-1) < maze.SUCCESS.radius


def table(rows: list[Row]) -> list[str]:
    """A table per block: success in per cent, and for actions how many it took."""
    lines = []
    for block in in_order(rows, "block", BLOCKS):
        kinds = (("success", "success %", 100, 1), ("num_actions", "actions", 1, 1))[: 2 if block == "acts" else 1]
        columns = by_domain(rows, ROOM_TITLES, kinds)
        part = select(rows, block=block)
        lines += [f"**{BLOCKS[block]}**", "", *compare(part, "method", by_method(part, METHODS), columns)]
    return lines


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    part = select(rows, block="acts", metric="success")
    return {NAME: panel_figure(by_method(part, METHODS), domain_panels(part, ROOM_TITLES), (9, 2.4))[0]}
