"""One of OGBench's data sets and one seed: nodes, graph, maps and controller; and acting by OGBench's rules."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from plan2vec.acting.agent import Agent, AgentConfig, AgentMap, Guidance
from plan2vec.acting.controller import Controller, ControllerConfig, train_controller
from plan2vec.baselines.registry import Map
from plan2vec.config import Config, EmbeddingConfig, Head, LocalMetricConfig, Loss
from plan2vec.data import Sequences
from plan2vec.domains.ogbench import generate, make_environment
from plan2vec.embedding.train import Teaching
from plan2vec.experiments.base_scene import Scene, Site
from plan2vec.graph.sparsify import Cover, cover_frames, join_balls
from plan2vec.local_metric import local_vectors
from plan2vec.planner import make_plan
from plan2vec.readers import read
from plan2vec.results.settings import Size, timed
from plan2vec.search.shortest_paths import best_first, distances_from

HEADS: dict[str, Head] = {"l2": "lp", "max-relu": "max-relu", "mrn": "mrn", "squared": "squared"}
NUM_TASKS, NUM_EPISODES = 5, 50  # OGBench's
NUM_SEARCHED = 20  # episodes per task whose searches are counted
SMOKE_EPISODES, SMOKE_STEPS = 10, 15

MAX_GAP = 4  # steps apart that the local metric learns to tell
RADIUS = 2.5  # steps within which frames belong to a node
MAX_PASSAGE = 7  # steps of a recorded passage from node to node
METRIC = LocalMetricConfig(num_updates=600)
SMOKE_METRIC = LocalMetricConfig(num_updates=60, batch_size=64)  # fewer leave one node only
CONTROLLER = ControllerConfig(max_ahead=20)
AGENT = AgentConfig(ahead=10, heuristic_weight=1.1)


@dataclass(frozen=True)
class MapKind:
    """How distances between nodes are distilled into a map."""

    encoder: str = "fourier"
    head: str = "squared"
    dim: int = 64
    loss: Loss = "relative"
    guided: float = 0.0  # share of the updates, at first, in which classical scaling shows the way


class Acted(NamedTuple):
    success: np.ndarray  # (m,) bool
    num_steps: np.ndarray  # (m,)
    starts: np.ndarray  # (m, d) observations
    goals: np.ndarray  # (m, d)


class PointMaze(Scene):
    def __init__(self, domain: str, seed: int, size: Size, device: torch.device, folder: Path):
        metric = SMOKE_METRIC if size.is_smoke else METRIC
        super().__init__(domain, seed, size, device, Config(encoder="mlp", max_gap=MAX_GAP, local_metric=metric))
        self.env, self.folder = domain.removeprefix("ogbench/"), folder

    @cached_property
    def recordings(self) -> Sequences:
        if self.size.is_smoke:
            return read(generate(self.env, self.folder / "smoke", num_episodes=SMOKE_EPISODES, num_workers=1))
        return read(generate(self.env, self.folder))

    def embed(self, observations: np.ndarray) -> np.ndarray:
        return local_vectors(self.metric, self.images(observations))

    @cached_property
    def timed_cover(self) -> tuple[Cover, float]:
        return timed(cover_frames, self.embed(self.recordings.frames), RADIUS)

    @cached_property
    def site(self) -> Site:
        """The nodes and their graph; there is no way back through a teleport."""
        cover, is_directed = self.timed_cover[0], "teleport" in self.env
        graph, seconds = timed(join_balls, cover, self.recordings.sequence, MAX_PASSAGE, is_directed)
        return Site(scene=self, frames=self.recordings.frames[cover.nodes], graph=graph, seconds=seconds, name="nodes")

    @cached_property
    def timed_controller(self) -> tuple[Controller, float]:
        return timed(train_controller, self.recordings, self.size.shorten(CONTROLLER), self.seed, self.device)

    @property
    def seconds(self) -> dict[str, float]:
        return {"metric": self.timed_metric[1], "cover": self.timed_cover[1], "graph": self.site.seconds,
                "controller": self.timed_controller[1]}

    def map(self, kind: MapKind) -> Map:
        stage = EmbeddingConfig(num_updates=1500, num_rounds=1, goals_per_round=10_000, loss=kind.loss)
        config = replace(self.config, encoder=kind.encoder, head=HEADS[kind.head], dim=kind.dim,
                         embedding=self.size.shorten(stage))
        return self.train_map(self.site, config, Teaching(guided=kind.guided))

    def agent(self, method: Guidance, kind: MapKind) -> Agent:
        site = self.site
        distance = _no_distance if method in ("direct", "graph") else self.map(kind).on(site.frames)
        places = AgentMap(site.frames, site.graph, distance, self.embed(site.frames), self.embed)
        return Agent(self.timed_controller[0], places, replace(AGENT, method=method))

    @cached_property
    def environments(self) -> list[Any]:
        num = 1 if self.size.is_smoke else NUM_EPISODES
        return [make_environment(self.env, disable_env_checker=True) for _ in range(num)]

    def act(self, agent: Agent) -> list[Acted]:
        """The five tasks; OGBench's limit of 1,000 steps is the environment's own."""
        limit = SMOKE_STEPS if self.size.is_smoke else 10**9
        return [act_out(agent, self.environments, task, self.seed, limit) for task in range(1, NUM_TASKS + 1)]


def _no_distance(nodes: np.ndarray, goals: np.ndarray) -> np.ndarray:
    raise ValueError("this agent has no learned distance")


def act_out(agent: Agent, environments: list[Any], task: int, seed: int, limit: int) -> Acted:
    """One episode of a task in every environment, side by side. The environment says how each ends."""
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
    """What A* led by the map, and by the exact distance, touches of the nodes that Dijkstra's search touches for the
    same tasks, and how long its plans are. Less than by the exact distance no heuristic can do."""
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
    return {"touched_share": float(led_touched.sum() / plain_touched.sum()),
            "touched_share_exact": float(best_touched.sum() / plain_touched.sum()), "length_ratio": float(ratio.mean())}
