"""Claim: the map drives an agent with real actions: from a picture of the start and one of the goal it arrives in every
room.

Command: plan2vec reproduce acting        Cost: 14 minutes on one H200
Expected: the agent led by the map arrives in at least 95 % of the episodes in each room; the same controller without a
map fails where a wall is between, an untrained one nearly everywhere. The paper's Table 1 hops between frames and never
acts.

Recordings, local metric, graph and map are those of Table 1, block `large`: 1,000 rollouts of 10 frames by random
actions. The controller (control.py) learns from the same rollouts which of the eight actions leads to a frame up to 10
steps later. It sees frames as vectors of the local metric. Episodes start and end at places drawn uniformly from the
free space; their pictures are new. The agent finds picture and goal on the graph, plans, gives the controller a
waypoint 1.5 steps ahead, and never repeats an action that just changed nothing. Success: within 0.02 m of the goal
after at most 50 actions; positions are read by this rule alone.
`hops`  the walker of Table 1 on the same graph, for comparison: it chooses among recorded frames, no action is taken.
`acts`  the agent in the room.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from matplotlib.figure import Figure

from plan2vec.acting.agent import Agent, AgentConfig, AgentMap, Guidance
from plan2vec.acting.controller import Controller, ControllerConfig, train_controller
from plan2vec.baselines.registry import Map
from plan2vec.data import Sequences
from plan2vec.domains import maze
from plan2vec.experiments.maze_scene import MazeScene, Site, maze_scenes
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.random_streams import rng_at
from plan2vec.local_metric import LocalMetric, local_vectors
from plan2vec.planner import Distance
from plan2vec.results.arrays import Arrays
from plan2vec.results.drawing import bars, panels, room_title
from plan2vec.results.rows import Row, cell, in_order, markdown, select, values
from plan2vec.results.settings import Settings, timed

NAME, TITLE = "acting", "Table 1 with actions: an agent in the three rooms"
DOMAINS = ("open", "table", "c-maze")
HOPPERS = ("plan2vec",)
GUIDANCE: dict[str, Guidance] = {
    "greedy on the map": "greedy", "graph search": "graph", "controller alone": "direct",
    "greedy, controller untrained": "greedy"
}
ACTORS = (*GUIDANCE, "random actions")
METHODS = (*HOPPERS, *ACTORS)
BLOCKS = {
    "hops": "hops between the 10,000 recorded frames (Table 1, block `large`)",
    "acts": "actions in the room, from pictures"
}
ON_FOOT = AgentConfig(ahead=1.5, off_path=4, patience=6)  # steps of a few centimetres: plans are followed closely
EPISODES = 500  # of actions, a seed
Policy = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (r, ...) frames, (r,) numbers of the episodes -> (r,) actions
TASKS, CHANCE = 72, 73  # stage numbers of random numbers


def run(settings: Settings) -> Iterator[list[Row]]:
    for scene in maze_scenes(settings, DOMAINS):
        for block in settings.chosen("blocks", tuple(BLOCKS)):
            known = HOPPERS if block == "hops" else ACTORS
            methods = [m for m in settings.chosen("methods", known) if scene.lacks(settings, NAME, {"block": block}, m)]
            actor = Actor(
                scene, scene.large, scene.metric, partial(fitted, scene)
            ) if methods and block == "acts" else None
            for method in methods:
                metrics, seconds = timed(actor.measure, method) if actor else timed(hop, scene)
                yield scene.rows(settings, NAME, {"block": block}, method, metrics, seconds)


def fitted(scene: MazeScene) -> Map:
    return scene.train_map(scene.large, scene.config)


def hop(scene: MazeScene) -> dict[str, float]:
    return {"success": scene.large.success(fitted(scene).on(scene.large.frames))}


@dataclass(frozen=True)
class Episodes:
    """What came of acting from many starts to many goals."""

    arrived: np.ndarray  # (m,) bool
    num_actions: np.ndarray  # (m,) taken


class Actor:
    """A room, what was learned of it from a site's recordings, and tasks in it."""

    def __init__(self, scene: MazeScene, site: Site, metric: LocalMetric, fit: Callable[[], Map]):
        """`fit` gives the map; it is called for agents that the map leads."""
        self.scene, self.site, self.metric, self.fit = scene, site, metric, fit

    def look(self, frames: np.ndarray) -> np.ndarray:
        """(m, d) what the agent sees of pictures: their vectors of the local metric."""
        return local_vectors(self.metric, FrameTensors(frames, self.scene.device))

    def measure(self, method: str) -> dict[str, float | None]:
        episodes = self.episodes(method)
        taken = episodes.num_actions[episodes.arrived]
        return {"success": episodes.arrived.mean(), "num_actions": taken.mean() if len(taken) else None}

    def episodes(self, method: str) -> Episodes:
        return act_out_tasks(self.scene, lambda goals: self.policy(method, goals))

    def policy(self, method: str, goals: np.ndarray) -> Policy:
        """For pictures of the goals."""
        if method == "random actions":
            chance = rng_at(self.scene.seed, CHANCE)
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

    @cached_property
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
        return AgentMap(
            frames, self.site.graph, lambda nodes, goals: self.distance(nodes, goals), frames, lambda views: views
        )


def act_out_tasks(scene: MazeScene, policy: Callable[[np.ndarray], Policy]) -> Episodes:
    """The episodes of a scene, the same for every policy; it is made for pictures of the goals."""
    room, num = maze.find_room(scene.room), min(EPISODES, scene.size.episodes)
    start, goal = maze.sample_positions(room, 2 * num, rng_at(scene.seed, TASKS)).reshape(2, num, 2)
    return act_out(room, start, goal, policy(maze.render(room, goal)))


def act_out(room: maze.Room, start: np.ndarray, goal: np.ndarray, decide: Policy) -> Episodes:
    """Episodes side by side from `start` (m, 2) to `goal` (m, 2), until arrival or for 50 actions; the policy is shown
    frames.
    """
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
    """A table a block: success in per cent, and for actions how many it took."""
    rooms, lines = in_order(rows, "domain", DOMAINS), []
    for block in in_order(rows, "block", BLOCKS):
        part = select(rows, block=block)
        kinds = (("success", "success %", 100, 1), ("num_actions", "actions", 1, 1))[: 2 if block == "acts" else 1]
        header = ["method"] + [f"{room_title(room)}, {words}" for room in rooms for _, words, _, _ in kinds]
        body = [
            [method] + [cell(values(part, method=method, domain=room, metric=metric), factor, digits)
                        for room in rooms for metric, _, factor, digits in kinds]
            for method in in_order(part, "method", METHODS)
        ]
        lines += [f"**{BLOCKS[block]}**", "", *markdown(header, body)]
    return lines


def draw(rows: list[Row], arrays: Arrays) -> dict[str, Figure]:
    """Success of acting by method, a panel a room."""
    part = select(rows, block="acts", metric="success")
    rooms, methods = in_order(rows, "domain", DOMAINS), in_order(part, "method", METHODS)
    figure, axes = panels(len(rooms), 9, 2.4)
    for ax, room in zip(axes, rooms, strict=True):
        bars(ax, methods, [100 * values(part, method=method, domain=room) for method in methods], [None] * len(methods))
        ax.set(xlim=(0, 103), xlabel="success (%)", title=room_title(room))
    for ax in axes[1:]:
        ax.set_yticklabels([])
    return {NAME: figure}
