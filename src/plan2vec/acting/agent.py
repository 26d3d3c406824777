"""The agent: finds itself on the map, plans, picks the waypoint that the controller heads for, recovers when stuck.

    controller = train_controller(sequences, ControllerConfig(), seed=0, device=torch.device("cpu"))
    agent = Agent(controller, agent_map(model), AgentConfig(method="greedy"))
    agent.reset(goal)                            # an observation
    action = agent.act(observation)"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.acting.controller import Controller
from plan2vec.graph.neighbors import nearest
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.local_metric import local_vectors
from plan2vec.model import Model
from plan2vec.planner import Distance, hop_lengths, make_plan
from plan2vec.search.shortest_paths import paths_from

Guidance = Literal["direct", "graph", "greedy", "lookahead", "astar"]


@dataclass(frozen=True)
class AgentMap:
    """A map as an agent needs it: n nodes with a picture each, the hops between them, and how to find oneself there."""

    frames: np.ndarray  # (n, ...) observation at every node
    graph: csr_array  # (n, n) steps
    distance: Distance  # learned steps from nodes to goals
    vectors: np.ndarray  # (n, d) whose l2 distance is the number of steps between near nodes
    embed: Callable[[np.ndarray], np.ndarray]  # (m, ...) observations -> (m, d) such vectors

    def locate(self, vectors: np.ndarray) -> np.ndarray:
        return nearest(self.vectors, vectors, 1, torch.device("cpu"))[0][:, 0]


def agent_map(model: Model) -> AgentMap:
    """The map of a fit: every recorded frame is a node."""
    return AgentMap(model.sequences.frames, model.graph, model.distance_between, model.local_vectors,
                    lambda views: local_vectors(model.local_metric, FrameTensors(views, model.device)))


@dataclass(frozen=True)
class AgentConfig:
    method: Guidance = "graph"  # direct: no plan | graph: shortest paths | others: guided by the learned distance
    ahead: float = 5.0  # steps along the plan to the waypoint that the controller is given
    lookahead: int = 3  # hops, of that method
    off_path: float = 8.0  # steps from the plan beyond which a new one is made
    patience: int = 30  # actions without progress after which a new plan is made; until then the waypoint comes nearer
    heuristic_weight: float = 1.0  # of astar: above 1 it touches fewer nodes, and plans may be that much longer

    def __post_init__(self) -> None:
        if self.method not in get_args(Guidance):
            raise ValueError(f"method must be one of {', '.join(get_args(Guidance))}, but is {self.method!r}")


@dataclass
class Journey:
    """One episode under way. It begins without a plan: the first action makes one."""

    goal: int  # node nearest to it
    nodes: np.ndarray  # the plan: nodes to pass, the goal's last; empty where no plan was found
    length: np.ndarray  # steps along the plan up to each of them
    passed: int = 0  # index in `nodes` of the last one that was reached
    waited: int = 10**9  # actions since `passed` changed


class Agent:
    """Plans on the map and acts by the controller; any number of episodes side by side."""

    def __init__(self, controller: Controller, map: AgentMap, config: AgentConfig = AgentConfig()):
        self.controller, self.map, self.config = controller, map, config
        self.backward = map.graph.T.tocsr()
        self.num_plans = 0
        # goal -> (n,) the next node on a shortest way to it; negative: none leads there
        self._onward = lru_cache(512)(lambda goal: paths_from(self.backward, np.array([goal]))[1][0])

    def reset(self, goal: np.ndarray) -> None:
        self.reset_many(goal[None])

    def act(self, observation: np.ndarray) -> np.ndarray:
        return self.act_many(observation[None])[0]

    def reset_many(self, goals: np.ndarray) -> None:
        """(m, ...) one goal per episode."""
        self.goals, num = goals, len(goals)
        self.choices = np.empty(0) if self.controller.choices is None else self.controller.choices
        self.futile = np.zeros((num, len(self.choices)), bool)  # chosen in vain: else one presses a wall for ever
        self.seen, self.taken = np.zeros(goals.shape), np.full(num, np.nan)  # last observations, and what was chosen
        nodes = self.map.locate(self.map.embed(goals))
        self.journeys = [Journey(int(node), np.empty(0, np.int64), np.zeros(1)) for node in nodes]

    def act_many(self, observations: np.ndarray, running: np.ndarray | None = None) -> np.ndarray:
        """(r, a) actions for observations (r, ...) of the episodes numbered `running` (r,); None: all episodes."""
        running = np.arange(len(self.journeys)) if running is None else running
        located = zip(running, self.map.embed(observations), strict=True)
        waypoints = np.array([self._pick_waypoint(self.journeys[number], vector) for number, vector in located])
        targets = self.goals[running].copy()
        targets[waypoints >= 0] = self.map.frames[waypoints[waypoints >= 0]]
        is_same = (self.seen[running] == observations).reshape(len(running), -1).all(axis=1)
        self.futile[running] |= self.choices == self.taken[running, None]
        self.futile[running] &= is_same[:, None]
        actions = self.controller.act(observations, targets, self.futile[running])
        self.seen[running], self.taken[running] = observations, actions[:, 0]
        return actions

    def _pick_waypoint(self, journey: Journey, vector: np.ndarray) -> int:
        """The node to head for now; -1: the goal itself. Makes a new plan where the old one is lost."""
        if not self._follow(journey, vector):
            nodes = self.plan(int(self.map.locate(vector[None])[0]), journey.goal)
            journey.nodes, journey.passed, journey.waited = np.array(nodes, np.int64), 0, 0
            journey.length = np.cumsum([0.0, *hop_lengths(self.map.graph, nodes)])
        rest = journey.length[journey.passed :] - journey.length[journey.passed]
        # the longer nothing moves, the nearer the waypoint
        hops = max(1, int(np.searchsorted(rest, self.config.ahead * (1 - journey.waited / self.config.patience))))
        return int(journey.nodes[journey.passed + hops]) if hops < len(rest) - 1 else -1

    def _follow(self, journey: Journey, vector: np.ndarray) -> bool:
        """Note how far along the plan the agent has come; False: there is no plan, or it is lost."""
        journey.waited += 1
        if len(journey.nodes):
            ahead = journey.length[journey.passed :] <= journey.length[journey.passed] + 2 * self.config.ahead
            steps = np.linalg.norm(self.map.vectors[journey.nodes[journey.passed :][ahead]] - vector, axis=1)
            closest = int(steps.argmin())
            if steps[closest] > self.config.off_path:
                return False
            if closest:
                journey.passed, journey.waited = journey.passed + closest, 0
        return journey.waited <= self.config.patience

    def plan(self, start: int, goal: int) -> list[int]:
        """Nodes from start to goal; none where the method finds no way. The agent then heads for the goal directly."""
        config = self.config
        if config.method == "direct":
            return []
        self.num_plans += 1
        if config.method != "graph":
            return make_plan(self.map.graph, self.map.distance, start, goal, config.method, config.lookahead,
                             heuristic_weight=config.heuristic_weight).nodes or []
        onward, nodes = self._onward(goal), [start]
        while onward[nodes[-1]] >= 0:
            nodes.append(int(onward[nodes[-1]]))
        return nodes if nodes[-1] == goal else []
