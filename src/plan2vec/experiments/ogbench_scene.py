"""One of OGBench's data sets and one seed: metric, nodes, graph, maps and controller, each made once; and acting by
OGBench's rules.
"""

import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.acting.agent import Agent, AgentConfig, AgentMap, Guidance
from plan2vec.acting.controller import Controller, ControllerConfig, train_controller
from plan2vec.baselines.registry import Map
from plan2vec.config import EmbeddingConfig, LocalMetricConfig
from plan2vec.data import Sequences
from plan2vec.domains.ogbench import generate, make_environment
from plan2vec.embedding.train import train_embedding
from plan2vec.graph.sparsify import Cover, cover_frames, join_balls
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.local_metric import LocalMetric, local_vectors, train_local_metric
from plan2vec.planner import make_plan
from plan2vec.readers import read
from plan2vec.results.settings import Size
from plan2vec.search.shortest_paths import best_first, distances_from

HEADS = {"l2": "lp", "max-relu": "max-relu", "mrn": "mrn", "squared": "squared"}
NUM_TASKS, NUM_EPISODES = 5, 50  # OGBench's
NUM_SEARCHED = 20  # episodes a task whose searches are counted
SMOKE_EPISODES, SMOKE_STEPS = 10, 15

MAX_GAP = 4  # steps apart that the local metric learns to tell
RADIUS = 2.5  # steps within which frames belong to a node
MAX_PASSAGE = 7  # steps of a recorded passage from node to node
METRIC = LocalMetricConfig(num_updates=600)
CONTROLLER = ControllerConfig(max_ahead=20)
AGENT = AgentConfig(ahead=10, heuristic_weight=1.1)


@dataclass(frozen=True)
class MapConfig:
    """How distances between nodes are distilled into a map."""

    encoder: str = "fourier"
    head: str = "squared"
    dim: int = 64
    embedding: EmbeddingConfig = field(
        default_factory=lambda: EmbeddingConfig(num_updates=1500, num_rounds=1, goals_per_round=10_000)
    )


@dataclass(frozen=True)
class Acted:
    """Episodes that ended."""

    success: np.ndarray  # (m,) bool
    num_steps: np.ndarray  # (m,)
    starts: np.ndarray  # (m, d) observations
    goals: np.ndarray  # (m, d)


@dataclass(frozen=True)
class PointMaze:
    """The products of one data set and one seed."""

    env: str
    seed: int
    size: Size
    folder: Path  # of the data sets
    device: torch.device
    seconds: dict[str, float] = field(default_factory=dict)  # wall time of the products made so far
    maps: dict[MapConfig, Map] = field(default_factory=dict)

    @property
    def is_directed(self) -> bool:
        """There is no way back through a teleport."""
        return "teleport" in self.env

    @cached_property
    def recordings(self) -> Sequences:
        if self.size.is_smoke:
            return read(generate(self.env, self.folder / "smoke", num_episodes=SMOKE_EPISODES, num_workers=1))
        return read(generate(self.env, self.folder))

    @cached_property
    def metric(self) -> LocalMetric:
        frames, sequence, began = self.recordings.frames, self.recordings.sequence, time.perf_counter()
        # fewer leave one node only
        config = replace(METRIC, num_updates=60, batch_size=64) if self.size.is_smoke else METRIC
        metric, _ = train_local_metric(frames, sequence, "mlp", MAX_GAP, config, self.seed, self.device)
        self.seconds["metric"] = time.perf_counter() - began
        return metric

    def embed(self, observations: np.ndarray) -> np.ndarray:
        return local_vectors(self.metric, FrameTensors(observations, self.device))

    @cached_property
    def cover(self) -> Cover:
        vectors = self.embed(self.recordings.frames)
        began = time.perf_counter()
        cover = cover_frames(vectors, RADIUS)
        self.seconds["cover"] = time.perf_counter() - began
        return cover

    @cached_property
    def graph(self) -> csr_array:
        cover, began = self.cover, time.perf_counter()
        graph = join_balls(cover, self.recordings.sequence, MAX_PASSAGE, self.is_directed)
        self.seconds["graph"] = time.perf_counter() - began
        return graph

    @cached_property
    def node_frames(self) -> np.ndarray:
        return self.recordings.frames[self.cover.nodes]

    @cached_property
    def controller(self) -> Controller:
        began = time.perf_counter()
        controller = train_controller(self.recordings, self.size.shorten(CONTROLLER), self.seed, self.device)
        self.seconds["controller"] = time.perf_counter() - began
        return controller

    def map(self, config: MapConfig) -> Map:
        """The learned map with these settings, trained once."""
        if config not in self.maps:
            learning = self.size.shorten(config.embedding)
            embedding = train_embedding(
                self.node_frames, self.graph, config.encoder, config.dim, HEADS[config.head], 2.0, learning, self.seed,
                self.device
            )
            self.maps[config] = Map(embedding, self.device)
        return self.maps[config]

    def agent(self, method: Guidance, config: MapConfig) -> Agent:
        """An agent that is led by the map, where its method reads one."""
        if method in ("direct", "graph"):
            places = AgentMap(self.node_frames, self.graph, _no_distance, self.embed(self.node_frames), self.embed)
        else:
            distance = self.map(config).on(self.node_frames)
            places = AgentMap(self.node_frames, self.graph, distance, self.embed(self.node_frames), self.embed)
        return Agent(self.controller, places, replace(AGENT, method=method))

    @cached_property
    def environments(self) -> list[Any]:
        return [
            make_environment(self.env, disable_env_checker=True)
            for _ in range(1 if self.size.is_smoke else NUM_EPISODES)
        ]

    def act(self, agent: Agent) -> list[Acted]:
        """The five tasks; OGBench's limit of 1,000 steps is the environment's own."""
        limit = SMOKE_STEPS if self.size.is_smoke else 10**9
        return [act_out(agent, self.environments, task, self.seed, limit) for task in range(1, NUM_TASKS + 1)]


def _no_distance(nodes: np.ndarray, goals: np.ndarray) -> np.ndarray:
    raise ValueError("this agent has no learned distance")


def act_out(agent: Agent, environments: list[Any], task: int, seed: int, limit: int) -> Acted:
    """One episode of a task in every environment, side by side. The environment says when an episode ends and whether
    it succeeded.
    """
    np.random.seed((seed, task))  # noqa: NPY002 - where the environments draw starts and goals from
    begun = [env.reset(seed=1000 * seed + number, options={"task_id": task}) for number, env in enumerate(environments)]
    observations = np.array([observation for observation, _ in begun], np.float32)
    starts, goals = observations.copy(), np.array([info["goal"] for _, info in begun], np.float32)
    success, num_steps, running = np.zeros(len(begun), bool), np.zeros(len(begun), int), np.arange(len(begun))
    agent.reset_many(goals)
    while len(running) and num_steps.max() < limit:
        ended = []
        for number, action in zip(running, agent.act_many(observations[running], running), strict=True):
            observations[number], _, terminated, truncated, info = environments[number].step(action.astype(float))
            num_steps[number] += 1
            if terminated or truncated:
                success[number] = info["success"] > 0
                ended.append(number)
        running = np.setdiff1d(running, ended)
    return Acted(success, num_steps, starts, goals)


def search_costs(agent: Agent, acted: list[Acted]) -> dict[str, float]:
    """What A* led by the map touches of the nodes that Dijkstra's search touches for the same tasks, and how long its
    plans are.

    Also what A* touches when it is led by the exact distance: less no heuristic can do.
    """
    places, found = agent.map, []
    for episodes in acted:
        starts, goals = (places.locate(places.embed(seen[:NUM_SEARCHED])) for seen in (episodes.starts, episodes.goals))
        exact = distances_from(agent.backward, goals)
        for number, (start, goal) in enumerate(zip(starts.tolist(), goals.tolist(), strict=True)):
            plain, led = make_plan(places.graph, places.distance, start, goal, "dijkstra"), agent.map_plan(start, goal)
            if plain.length and led.length is not None:
                best = best_first(places.graph, start, goal, exact[number].take)
                found.append((plain.num_touched, led.num_touched, best.num_touched, led.length / plain.length))
    if not found:
        return {}
    plain_touched, led_touched, best_touched, ratio = np.array(found, float).T
    shares = {"touched_share": led_touched, "touched_share_exact": best_touched}
    return {
        name: float(touched.sum() / plain_touched.sum()) for name, touched in shares.items()
    } | {"length_ratio": float(ratio.mean())}
