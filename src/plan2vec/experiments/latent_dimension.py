"""Claim: a map of 3 or more dimensions walks better than one of 2, which is for looking at; a local metric of 8 or more
aliases nothing (the paper, Figure 10a).

Command: plan2vec reproduce latent-dimension        Cost: 4 minutes on one H200
Expected: aliasing falls with the dimension (paper, without numbers); success at 8 dimensions at least 97 %.

The graph of 1,000 fresh frames of Table 1 (block `fitted`). *Aliasing*: among random pairs of frames that the vectors
put within 1.5 steps, the share whose places are truly farther apart (around walls) than three of the longest steps,
0.106 m. `map` varies the embedding's dimension, `local metric` that of the Siamese local metric.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from plan2vec.baselines.sptm import train_sptm
from plan2vec.domains.maze import LONGEST_STEP
from plan2vec.experiments.maze_scene import MazeScene, Site, maze_scenes
from plan2vec.learning.random_streams import rng_at
from plan2vec.local_metric import NEAR
from plan2vec.planner import Distance
from plan2vec.results.arrays import Arrays
from plan2vec.results.drawing import curve, log_places, panels, room_title
from plan2vec.results.rows import Row, cell, in_order, markdown, values
from plan2vec.results.settings import Settings, timed

NAME, TITLE = "latent-dimension", "Success and aliasing against the dimension of the vectors"
DOMAINS = ("open", "table", "c-maze")
METHODS = ("map", "local metric")
BLOCKS = ()
DIMENSIONS = (2, 3, 8, 32)


def run(settings: Settings) -> Iterator[list[Row]]:
    for scene in maze_scenes(settings, DOMAINS):
        for method in settings.chosen("methods", METHODS):
            for dim in DIMENSIONS:
                if scene.lacks(settings, NAME, {"dim": dim}, method):
                    metrics, seconds = timed(measure, scene, method, dim)
                    yield scene.rows(settings, NAME, {"dim": dim}, method, metrics, seconds)


def measure(scene: MazeScene, method: str, dim: int) -> dict[str, float | None]:
    site = scene.small
    if method == "map":
        distance = scene.train_map(site, replace(scene.config, dim=dim)).on(site.frames)
        return {"success": site.success(distance), "aliasing": aliasing(site, distance)}
    config = replace(scene.config, local_metric=replace(scene.config.local_metric, dim=dim))
    metric, accuracy = scene.train_metric(scene.recordings, config)
    return {"accuracy": accuracy, "aliasing": aliasing(site, train_sptm(metric, scene.device).on(site.frames))}


def aliasing(site: Site, distance: Distance) -> float | None:
    """Share of far places among pairs that look near; None where none looks near."""
    first, second = rng_at(site.seed, 64).integers(len(site.frames), size=(2, 200_000))
    near = (distance(first, second) < NEAR) & (first != second)
    if not near.any():
        return None
    return float(np.mean(site.truth.between(first[near], second[near]) > 3 * LONGEST_STEP))


def table(rows: list[Row]) -> list[str]:
    lines = []
    shown = (("map", "success"), ("map", "aliasing"), ("local metric", "aliasing"), ("local metric", "accuracy"))
    for room in in_order(rows, "domain", DOMAINS):
        header = [f"{room_title(room)}, %", *(f"{dim}-d" for dim in DIMENSIONS)]
        body = [
            [f"{method}: {metric}"] + [
                cell(values(rows, domain=room, method=method, metric=metric, dim=dim), 100, 2) for dim in DIMENSIONS
            ] for method, metric in shown
        ]
        lines += markdown(header, body)
    return lines


def draw(rows: list[Row], arrays: Arrays) -> dict[str, Figure]:
    figure, axes = panels(3, 10, 3.4)
    panel_of = (("map", "success", "success of the map (%)"), ("map", "aliasing", "aliasing of the map (%)"),
                ("local metric", "aliasing", "aliasing of the local metric (%)"))
    for ax, (method, metric, words) in zip(axes, panel_of, strict=True):
        for look, room in enumerate(in_order(rows, "domain", DOMAINS)):
            curve(ax, rows, "dim", DIMENSIONS, look, room_title(room), 100, domain=room, method=method, metric=metric)
        ax.set(xlabel="dimensions of a vector", ylabel=words)
        log_places(ax, DIMENSIONS)
        ax.set_ylim(bottom=0)
    axes[0].set_ylim(80, 101)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return {NAME: figure}
