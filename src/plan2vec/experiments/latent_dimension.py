"""Claim: a map of 3 or more dimensions walks better than one of 2, which is for looking at; a local metric of 8 or more
aliases nothing (Figure 10a).

Expected: aliasing falls with the dimension (paper, without numbers); success at 8 dimensions at least 97 %.

The graph of 1,000 fresh frames of Table 1 (block `fitted`). *Aliasing*: among random pairs of frames that the vectors
put within 1.5 steps, the share whose places are truly farther apart than three of the longest steps (0.106 m).
"""

from dataclasses import replace

import numpy as np

from plan2vec.baselines.sptm import MetricScorer
from plan2vec.domains.maze import LONGEST_STEP
from plan2vec.experiments.maze_scene import ROOM_TITLES, MazeScene, MazeSite, maze_scenes
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.local_metric import NEAR, TrainedMetric
from plan2vec.planner import Distance
from plan2vec.results.comparisons import Column, Figures, compare_each, curve_figure, legend_below, log_places
from plan2vec.results.rows import Arrays, Groups, Row, in_order
from plan2vec.results.settings import Settings

NAME, TITLE = "latent-dimension", "Success and aliasing against the dimension of the vectors"
DOMAINS = tuple(ROOM_TITLES)
METHODS = ("map", "local metric")
BLOCKS = ()
DIMENSIONS = (2, 3, 8, 32)


def run(settings: Settings) -> Groups:
    for scene in maze_scenes(settings, DOMAINS):
        for dim in DIMENSIONS:
            yield from scene.measured(settings, NAME, {"dim": dim}, METHODS, measure, dim)


def measure(scene: MazeScene, dim: int, method: str) -> dict[str, float | None]:
    site = scene.small
    if method == "map":
        distance = scene.train_map(site, replace(scene.config, dim=dim)).on(site.frames)
        return {"success": site.success(distance), "aliasing": aliasing(site, distance)}
    trained = local_metric_of(scene, dim)
    distance = MetricScorer(trained.metric, scene.device).on(site.frames)
    return {"accuracy": trained.accuracy, "aliasing": aliasing(site, distance)}


def local_metric_of(scene: MazeScene, dim: int) -> TrainedMetric:
    config = replace(scene.config, local_metric=replace(scene.config.local_metric, dim=dim))
    return scene.train_metric(scene.recordings, config)


def aliasing(site: MazeSite, distance: Distance) -> float | None:
    """Share of far places among pairs that look near; None where none looks near."""
    first, second = rng_at(site.seed, Stream.ALIASING).integers(len(site.frames), size=(2, 200_000))
    near = (distance(first, second) < NEAR) & (first != second)
    if not near.any():
        return None
    return float(np.mean(site.truth.between(first[near], second[near]) > 3 * LONGEST_STEP))


def table(rows: list[Row]) -> list[str]:
    shown = (("map", "success"), ("map", "aliasing"), ("local metric", "aliasing"), ("local metric", "accuracy"))
    lines = {f"{method}: {metric}": {"method": method, "metric": metric} for method, metric in shown}
    columns = [Column(f"{dim}-d", {"dim": dim}, digits=2) for dim in DIMENSIONS]
    return compare_each(rows, {room: f"{ROOM_TITLES[room]}, %" for room in DOMAINS}, lines, columns)


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    rooms = in_order(rows, "domain", DOMAINS)
    shown = [({"xlabel": "dimensions of a vector", "ylabel": f"{metric} of the {method} (%)"},
              {ROOM_TITLES[room]: {"domain": room, "method": method, "metric": metric} for room in rooms})
             for method, metric in (("map", "success"), ("map", "aliasing"), ("local metric", "aliasing"))]
    figure, axes = curve_figure(rows, "dim", shown, (10, 3.4))
    for ax in axes:
        log_places(ax, DIMENSIONS)
        ax.set_ylim(bottom=0)
    axes[0].set_ylim(80, 101)
    legend_below(figure, axes[0], 3)
    return {NAME: figure}
