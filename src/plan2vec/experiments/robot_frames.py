"""Claim: on frames of a real robot, plans bring the bottle nearer to where it should end than plans by pixels or a VAE
do.

Command: plan2vec reproduce g1-bottle --recordings g1_bottle.npz        Cost: 2 minutes on one H200
Expected: no number was promised: what comes out is reported.

Frames of a Unitree G1 at 5 a second, 58 episodes (YifanTian07/G1-policy-train, MIT as stated by the uploader); they are
not part of the program. Fitted, with the default settings, to 90 % of the episodes, planned in the others: from every
fifth frame of an episode's first half to its last frame. Both are placed at the nearest frame of the fitted episodes,
by each method's own distance; greedy plans without memory lead there, on the learned graph, or on a baseline's own with
as many closures. The bottle's place in the image (0 to 1) is read by the scores alone.
`final_distance` between the bottle in the plan's last frame and in the episode's last frame, of the image's side, on
average
`goal_distance` the same for the frame at which the goal was placed: what no plan can better
`start_distance` the same for the frame at which the start was placed: what standing still gives
`small_step_share` plan steps in which the bottle moves less than 0.08 of the image
`plans_found` plans that end at the frame at which the goal was placed (share)
The smoke run uses made-up frames of a moving block (domain `made-up`).
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.sparse import csr_array

from plan2vec.config import follow_view
from plan2vec.data import Sequences, index_within, make_sequences, split_sequences
from plan2vec.evaluation import straight_line
from plan2vec.experiments.maze_scene import Map
from plan2vec.experiments.rope_scene import Tasks, closest_graph, distance_of, greedy_plans, train_baseline
from plan2vec.graph.neighbors import nearest
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.learning.random_streams import rng_at
from plan2vec.learning.training import Journal
from plan2vec.local_metric import LocalMetric, local_vectors, train_local_metric
from plan2vec.pipeline import join_frames, train_map
from plan2vec.planner import Distance
from plan2vec.readers import read
from plan2vec.results.arrays import Arrays
from plan2vec.results.drawing import bars, panels
from plan2vec.results.rows import Case, Row, cell, in_order, make_rows, markdown, values
from plan2vec.results.settings import Settings, Size, timed

NAME, TITLE = "g1-bottle", "Real robot frames: a bottle moved by a humanoid"
STAND_IN = "made-up"  # the domain of a smoke run
DOMAINS = ("g1-bottle", STAND_IN)
METHODS = ("plan2vec", "pixels", "VAE")
BLOCKS = ()
REMEDY = "give them by --recordings PATH (docs/rope.md says where they come from)"
HELD_OUT = 0.1  # share of the episodes
EVERY = 5  # frames from one start to the next
SMALL_STEP = 0.08  # of the image's side
SHOWN = (
    ("final_distance", "distance at the end, share of the image", 1, 3),
    ("goal_distance", "where the goal was placed", 1, 3), ("start_distance", "where the start was placed", 1, 3),
    ("small_step_share", "small steps, %", 100, 1), ("plans_found", "plans found, %", 100, 1),
    ("hops", "steps a plan", 1, 1)
)


def run(settings: Settings) -> Iterator[list[Row]]:
    is_smoke = settings.size.is_smoke
    if settings.recordings is None and not is_smoke:
        print(f"{NAME} is left out: its frames are not part of the program; {REMEDY}", file=sys.stderr)
        return
    domain = STAND_IN if is_smoke else DOMAINS[0]
    for seed in settings.seeds:
        methods = [m for m in settings.chosen("methods", METHODS) if settings.lacks(Case(NAME, domain, {}, m, seed))]
        if not methods:
            continue
        scene = RobotScene(
            stand_in(seed) if settings.recordings is None else load(settings), seed, settings.size, settings.device
        )
        for method in methods:
            metrics, seconds = timed(measure, scene, method)
            yield make_rows(Case(NAME, domain, {}, method, seed), metrics, seconds, settings.stamp)


def load(settings: Settings) -> Sequences:
    assert settings.recordings is not None
    sequences = read(settings.recordings)
    if sequences.position is None or sequences.position.shape[1] != 2:
        raise ValueError(
            f"{settings.recordings}: plans are scored by the bottle's `position` (n, 2), which the file does not hold"
        )
    return sequences


def stand_in(seed: int, num_episodes: int = 8, num_frames: int = 20) -> Sequences:
    """Made-up frames for the smoke run: in every episode a dark block goes from one random place to another."""
    share = np.linspace(0, 1, num_frames)[:, None]
    ends = np.random.default_rng(seed).uniform(0.2, 0.8, (2, num_episodes, 1, 2))
    position = (ends[0] * (1 - share) + ends[1] * share).reshape(-1, 2)
    pixel = (np.arange(64) + 0.5) / 64
    inside = (
        np.abs(pixel[None, None, :] - position[:, :1, None]) < 0.08
    ) & (np.abs(pixel[None, :, None] - position[:, 1:, None]) < 0.08)
    frames = np.where(inside, 60, 200).astype(np.uint8)
    return make_sequences(
        frames, np.repeat(np.arange(num_episodes), num_frames), position=position, source="made-up frames"
    )


class RobotScene:
    """One seed: what is fitted, the tasks in the episodes held out, and every product when it is first asked for."""

    def __init__(self, everything: Sequences, seed: int, size: Size, device: torch.device):
        self.everything, self.size, self.device = everything, size, device
        self.config = follow_view(replace(size.config, seed=seed), everything)
        self.kept, self.held_out = split_sequences(everything.sequence, HELD_OUT, rng_at(seed, 90))
        self.fitted = make_sequences(everything.frames[self.kept], everything.sequence[self.kept])

    @cached_property
    def tasks(self) -> np.ndarray:
        """(2, m) starts and goals: every fifth frame of the first half of an episode, and its last frame."""
        sequence = self.everything.sequence
        last = np.flatnonzero(np.diff(sequence, append=sequence[-1] - 1))
        end = last[np.searchsorted(last, np.arange(len(sequence)))]
        index = index_within(sequence)
        starts = np.flatnonzero(self.held_out & (index % EVERY == 0) & (2 * index < index[end]))
        return np.stack((starts, end[starts]))

    @cached_property
    def metric(self) -> LocalMetric:
        config = self.config
        return train_local_metric(
            self.fitted.frames, self.fitted.sequence, config.encoder, config.max_gap, config.local_metric, config.seed,
            self.device
        )[0]

    @cached_property
    def graph(self) -> csr_array:
        return join_frames(
            self.fitted, self.metric, self.config, self.device, np.ones(self.fitted.num_frames, bool)
        ).graph

    def map_distance(self) -> Distance:
        embedding = train_map(self.fitted.frames, self.graph, self.config, self.device, Journal())
        return Map(embedding, self.device).on(self.fitted.frames)

    def vectors(self, method: str) -> np.ndarray:
        """(n, d) of all frames: by which a method places a frame, and a baseline also walks."""
        images = FrameTensors(self.everything.frames, self.device)
        if method == "plan2vec":
            return local_vectors(self.metric, images)
        return encode(train_baseline(method, self.fitted, self.config, self.size, self.device), images)


def measure(scene: RobotScene, method: str) -> dict[str, float | None]:
    vectors = scene.vectors(method)
    fitted = vectors[scene.kept]
    if method == "plan2vec":
        graph, distance = scene.graph, scene.map_distance()
    else:
        graph, distance = closest_graph(
            fitted, scene.graph, scene.fitted.sequence, scene.device
        ), distance_of(fitted, scene.device)
    starts, goals = (nearest(fitted, vectors[ends], 1, scene.device)[0][:, 0] for ends in scene.tasks)
    nodes = greedy_plans(graph, distance, Tasks(starts, goals, np.full(len(starts), np.nan)))
    return scores(scene, starts, goals, nodes)


def scores(scene: RobotScene, starts: np.ndarray, goals: np.ndarray, nodes: np.ndarray) -> dict[str, float | None]:
    """By the bottle's place; `nodes` (hops + 1, m) are numbers of fitted frames, -1 after a plan's end."""
    position = scene.everything.position
    assert position is not None
    wanted, bottle = position[scene.tasks[1]], position[scene.kept]
    hops = (nodes >= 0).sum(axis=0) - 1
    last = nodes[hops, np.arange(len(hops))]
    step = nodes[1:] >= 0
    moved = straight_line(bottle[nodes[:-1][step]], bottle[nodes[1:][step]])
    away = {
        name: float(straight_line(bottle[ends], wanted).mean()) for name,
        ends in (("final", last), ("goal", goals), ("start", starts))
    }
    return {f"{name}_distance": value for name, value in away.items()} | {
        "small_step_share": float(np.mean(moved < SMALL_STEP)) if len(moved) else None,
        "plans_found": float(np.mean(last == goals)), "hops": float(hops.mean()),
    }


def table(rows: list[Row]) -> list[str]:
    body = [
        [method] + [
            cell(values(rows, method=method, metric=metric), factor, digits) for metric, _, factor, digits in SHOWN
        ] for method in in_order(rows, "method", METHODS)
    ]
    return markdown(["method", *(words for _, words, _, _ in SHOWN)], body)


def draw(rows: list[Row], arrays: Arrays) -> dict[str, Figure]:
    """How far off the bottle ends, and how many steps are small."""
    methods = in_order(rows, "method", METHODS)
    figure, axes = panels(2, 8, 1.3 + 0.25 * len(methods))
    for ax, (metric, words, factor, _) in zip(axes, (SHOWN[0], SHOWN[3]), strict=True):
        bars(
            ax, methods, [factor * values(rows, method=method, metric=metric) for method in methods],
            [None] * len(methods)
        )
        ax.set_xlabel(words)
    return {NAME: figure}
