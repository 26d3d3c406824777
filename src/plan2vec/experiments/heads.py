"""Claim: l1 in 32 dimensions fits best and walks no worse than any; in 8, l2 walks as well as any, with more error than
most. It is a sound default on small graphs.

Command: plan2vec reproduce heads        Cost: 3 minutes on one H200
Expected: l2 8-d success at least 97 %; l1 32-d (`--norm-order 1 --dim 32`) about half of its error and no less success.
The paper compares no heads; it uses l2 (mazes).

The graph of 1,000 fresh frames of Table 1 (block `fitted`). Error: mean |D - path| / path over pairs from 64 sources
drawn anew. Every head is trained alike.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from matplotlib.figure import Figure

from plan2vec.evaluation import map_numbers
from plan2vec.experiments.maze_scene import MazeScene, maze_scenes
from plan2vec.learning.random_streams import rng_at
from plan2vec.results.arrays import Arrays
from plan2vec.results.drawing import dots, panels, room_title, share_limits
from plan2vec.results.rows import Row, cell, in_order, markdown, values
from plan2vec.results.settings import Settings, timed

NAME, TITLE = "heads", "Distances between vectors: success and error by head"
DOMAINS = ("open", "table", "c-maze")
METHODS = {
    "l2": ("lp", 2.0),
    "l1": ("lp", 1.0),
    "l1.2": ("lp", 1.2),
    "l-infinity": ("lp", inf),
    "max-relu": ("max-relu", 2.0),
    "mrn": ("mrn", 2.0),
}
BLOCKS = ("8", "32")  # dimensions


def run(settings: Settings) -> Iterator[list[Row]]:
    for scene in maze_scenes(settings, DOMAINS):
        for block in settings.chosen("blocks", BLOCKS):
            for method in settings.chosen("methods", tuple(METHODS)):
                if scene.lacks(settings, NAME, {"dim": int(block)}, method):
                    metrics, seconds = timed(measure, scene, method, int(block))
                    yield scene.rows(settings, NAME, {"dim": int(block)}, method, metrics, seconds)


def measure(scene: MazeScene, method: str, dim: int) -> dict:
    head, norm_order = METHODS[method]
    site = scene.small
    # type: ignore[arg-type]
    distance = scene.train_map(site, replace(scene.config, dim=dim, head=head, norm_order=norm_order)).on(site.frames)
    error = map_numbers(site.graph, distance, rng_at(scene.seed, 65), site.graph.shape[0])["embedding_error"]
    return {"success": site.success(distance), "embedding_error": error, "spearman_true": site.agreement(distance)}


def table(rows: list[Row]) -> list[str]:
    lines = []
    for room in in_order(rows, "domain", DOMAINS):
        header = [room_title(room)] + [
            f"{words}, {dim}-d" for dim in in_order(rows, "dim") for words in ("success %", "error %")
        ]
        body = [
            [method] + [cell(values(rows, domain=room, method=method, metric=metric, dim=dim), 100)
                        for dim in in_order(rows, "dim") for metric in ("success", "embedding_error")]
            for method in in_order(rows, "method", METHODS)
        ]
        lines += markdown(header, body)
    return lines


def draw(rows: list[Row], arrays: Arrays) -> dict[str, Figure]:
    """Success above, error below, a panel a room; one bar a head and dimension."""
    rooms, dims, methods = in_order(rows, "domain", DOMAINS), in_order(rows, "dim"), in_order(rows, "method", METHODS)
    cases = [(method, dim) for dim in dims for method in methods]
    names = [f"{method}, {dim}-d" for method, dim in cases]
    figures = {}
    for metric, words in (("success", "success (%)"), ("embedding_error", "error of the path length (%)")):
        figure, axes = panels(len(rooms), 9, 1.2 + 0.22 * len(cases))
        for ax, room in zip(axes, rooms, strict=True):
            samples = [100 * values(rows, domain=room, method=method, dim=dim, metric=metric) for method, dim in cases]
            dots(ax, names, samples, [None] * len(cases))
            ax.set(xlabel=words, title=room_title(room))
        share_limits(axes)
        figures[f"{NAME}-{metric.removeprefix('embedding_')}"] = figure
    return figures
