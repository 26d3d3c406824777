"""Claim: on frames of a real robot, plans bring the bottle nearer to its goal than plans by pixels or a VAE do.

Expected: no number was promised: what comes out is reported.

Frames of a Unitree G1 at 5 a second, 58 episodes (YifanTian07/G1-policy-train, MIT as stated by the uploader); they are
not part of the program. Fitted, with the default settings, to 90 % of the episodes, planned in the others: from every
fifth frame of an episode's first half to its last frame. Both are placed at the nearest frame of the fitted episodes,
by each method's own distance; greedy plans without memory lead there, on the learned graph, or on a baseline's own with
as many closures. Distances are of the bottle from where it is in the episode's last frame, as shares of the image's
side: in the plan's last frame, and in the frames at which goal and start were placed (what no plan can better, what
standing still gives). In a small step the bottle moves less than 0.08 of the image. A plan is found where it ends at
the frame at which the goal was placed.
"""

import sys
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from plan2vec.config import settle
from plan2vec.data import Sequences, index_within, make_sequences, split_sequences
from plan2vec.experiments.base_scene import Scene, mean_or_none
from plan2vec.experiments.rope_scene import Tasks, baseline_vectors, closest_graph, greedy_plans, plan_ends
from plan2vec.graph.neighbors import nearest
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.readers import read
from plan2vec.results.comparisons import Figures, bars, by_method, by_metric, compare, legend_below, panels
from plan2vec.results.rows import Arrays, Case, Groups, Row, values
from plan2vec.results.settings import Settings, Size
from plan2vec.validity import straight_line

NAME, TITLE = "g1-bottle", "Real robot frames: a bottle moved by a humanoid"
STAND_IN = "made-up"  # the domain of a smoke run
DOMAINS = ("g1-bottle", STAND_IN)
METHODS = ("plan2vec", "pixels", "VAE")
BLOCKS = ()
REMEDY = "give them by --recordings PATH (docs/domains.md says where they come from)"
HELD_OUT = 0.1  # share of the episodes
EVERY = 5  # frames from one start to the next
SMALL_STEP = 0.08  # of the image's side
SHOWN = (("final_distance", "distance at the end, share of the image", 1, 3),
         ("goal_distance", "where the goal was placed", 1, 3), ("start_distance", "where the start was placed", 1, 3),
         ("small_step_share", "small steps, %", 100, 1), ("plans_found", "plans found, %", 100, 1),
         ("hops", "steps a plan", 1, 1))


def run(settings: Settings) -> Groups:
    is_smoke = settings.size.is_smoke
    if settings.recordings is None and not is_smoke:
        print(f"{NAME} is left out: its frames are not part of the program; {REMEDY}", file=sys.stderr)
        return
    domain = STAND_IN if is_smoke else DOMAINS[0]
    for seed in settings.seeds:
        if any(settings.lacks(Case(NAME, domain, {}, method, seed)) for method in METHODS):
            everything = stand_in(seed) if settings.recordings is None else load(settings)
            scene = RobotScene(domain, everything, seed, settings.size, settings.device)
            yield from scene.measured(settings, NAME, {}, METHODS, measure)


def load(settings: Settings) -> Sequences:
    assert settings.recordings is not None
    sequences = read(settings.recordings)
    if sequences.position is None or sequences.position.shape[1] != 2:
        words = "plans are scored by the bottle's `position` (n, 2), which the file does not hold"
        raise ValueError(f"{settings.recordings}: {words}")
    return sequences


def stand_in(seed: int, num_episodes: int = 8, num_frames: int = 20) -> Sequences:
    """Made-up frames for the smoke run: in every episode a dark block goes from one random place to another."""
    share = np.linspace(0, 1, num_frames)[:, None]
    ends = np.random.default_rng(seed).uniform(0.2, 0.8, (2, num_episodes, 1, 2))
    position = (ends[0] * (1 - share) + ends[1] * share).reshape(-1, 2)
    pixel = (np.arange(64) + 0.5) / 64
    across, down = (np.abs(pixel - position[:, axis, None]) < 0.08 for axis in (0, 1))
    frames = np.where(across[:, None, :] & down[:, :, None], 60, 200).astype(np.uint8)
    sequence = np.repeat(np.arange(num_episodes), num_frames)
    return make_sequences(frames, sequence, position=position, source="made-up frames")


class RobotScene(Scene):
    """One seed: what is fitted, and the tasks in the episodes held out."""

    def __init__(self, domain: str, everything: Sequences, seed: int, size: Size, device: torch.device):
        super().__init__(domain, seed, size, device, settle(replace(size.config, seed=seed), everything))
        self.everything = everything
        self.kept, self.held_out = split_sequences(everything.sequence, HELD_OUT, rng_at(seed, Stream.ROBOT_SPLIT))

    @cached_property
    def recordings(self) -> Sequences:
        return make_sequences(self.everything.frames[self.kept], self.everything.sequence[self.kept])

    @cached_property
    def tasks(self) -> np.ndarray:
        """(2, m) starts and goals: every fifth frame of the first half of an episode, and its last frame."""
        sequence = self.everything.sequence
        last = np.flatnonzero(np.diff(sequence, append=sequence[-1] - 1))
        end = last[np.searchsorted(last, np.arange(len(sequence)))]
        index = index_within(sequence)
        starts = np.flatnonzero(self.held_out & (index % EVERY == 0) & (2 * index < index[end]))
        return np.stack((starts, end[starts]))


def measure(scene: RobotScene, method: str) -> dict[str, float | None]:
    is_ours = method == "plan2vec"  # a method places a frame by vectors, and a baseline also walks by them
    vectors = baseline_vectors(scene, "SPTM" if is_ours else method, scene.everything.frames)
    fitted = vectors[scene.kept]
    if is_ours:
        graph, distance = scene.site.graph, scene.train_map(scene.site, scene.config).on(scene.site.frames)
    else:
        graph, distance = closest_graph(scene, fitted)
    starts, goals = (nearest(fitted, vectors[ends], 1, scene.device)[0][:, 0] for ends in scene.tasks)
    nodes = greedy_plans(graph, distance, Tasks(starts, goals, np.full(len(starts), np.nan)))
    return scores(scene, starts, goals, nodes)


def scores(scene: RobotScene, starts: np.ndarray, goals: np.ndarray, nodes: np.ndarray) -> dict[str, float | None]:
    """By the bottle's place; `nodes` (hops + 1, m) are numbers of fitted frames, -1 after a plan's end."""
    position = scene.everything.position
    assert position is not None
    wanted, bottle = position[scene.tasks[1]], position[scene.kept]
    hops, last = plan_ends(nodes)
    step = nodes[1:] >= 0
    moved = straight_line(bottle[nodes[:-1][step]], bottle[nodes[1:][step]])
    away = {f"{name}_distance": float(straight_line(bottle[ends], wanted).mean())
            for name, ends in (("final", last), ("goal", goals), ("start", starts))}
    return away | {"small_step_share": mean_or_none(moved < SMALL_STEP), "plans_found": float(np.mean(last == goals)),
                   "hops": float(hops.mean())}


def table(rows: list[Row]) -> list[str]:
    return compare(rows, "method", by_method(rows, METHODS), by_metric(SHOWN))


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    methods = list(by_method(rows, METHODS))
    figure, axes = panels(2, 8, 1.5 + 0.25 * len(methods))
    for ax, (metric, words, factor, _) in zip(axes, (SHOWN[0], SHOWN[3]), strict=True):
        bars(ax, methods, [factor * values(rows, method=method, metric=metric) for method in methods])
        ax.set_xlabel(words)
    legend_below(figure, axes[0], 2)
    return {NAME: figure}
