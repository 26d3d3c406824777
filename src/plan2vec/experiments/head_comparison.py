"""Claim: l1 in 32 dimensions fits best and walks no worse than any; in 8, l2 walks as well as any, with more error than
most. It is a sound default on small graphs.

Expected: l2 8-d success at least 97 %; l1 32-d (`--norm-order 1 --dim 32`) about half of its error and no less success.
The paper compares no heads; it uses l2 (mazes).

The graph of 1,000 fresh frames of Table 1 (block `fitted`). Error: mean |D - path| / path over pairs from 64 sources
drawn anew. Every head is trained alike.
"""

from dataclasses import replace
from math import inf
from typing import Any

from plan2vec.config import Head
from plan2vec.experiments.maze_scene import ROOM_TITLES, MazeScene, maze_scenes
from plan2vec.results.comparisons import Column, Figures, by_method, compare_each, domain_panels, dots, panel_figure
from plan2vec.results.rows import Arrays, Groups, Row, in_order, select
from plan2vec.results.settings import Settings

NAME, TITLE = "heads", "Distances between vectors: success and error by head"
DOMAINS = tuple(ROOM_TITLES)
METHODS: dict[str, tuple[Head, float]] = {"l2": ("lp", 2.0), "l1": ("lp", 1.0), "l1.2": ("lp", 1.2),
                                          "l-infinity": ("lp", inf), "max-relu": ("max-relu", 2.0), "mrn": ("mrn", 2.0)}
BLOCKS = ("8", "32")  # dimensions


def run(settings: Settings) -> Groups:
    for scene in maze_scenes(settings, DOMAINS):
        for dim in map(int, settings.chosen("blocks", BLOCKS)):
            yield from scene.measured(settings, NAME, {"dim": dim}, tuple(METHODS), measure, dim)


def measure(scene: MazeScene, dim: int, method: str) -> dict[str, Any]:
    head, norm_order = METHODS[method]
    return scene.small.map_scores(replace(scene.config, dim=dim, head=head, norm_order=norm_order))


def table(rows: list[Row]) -> list[str]:
    columns = [Column(f"{words}, {dim}-d", {"metric": metric, "dim": dim}) for dim in in_order(rows, "dim")
               for metric, words in (("success", "success %"), ("embedding_error", "error %"))]
    return compare_each(rows, ROOM_TITLES, by_method(rows, METHODS), columns)


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    names = {f"{method}, {dim}-d": {"method": method, "dim": dim}
             for dim in in_order(rows, "dim") for method in in_order(rows, "method", METHODS)}
    return error_figures(NAME, rows, names, 1.2 + 0.22 * len(names))


def error_figures(name: str, rows: list[Row], names: dict[str, Any], height: float) -> Figures:
    """A figure of success and one of the error, a panel per room."""
    figures = {}
    for metric, words in (("success", "success (%)"), ("embedding_error", "error of the path length (%)")):
        shown = domain_panels(select(rows, metric=metric), ROOM_TITLES, words)
        figure, _ = panel_figure(names, shown, (9, height), dots, xlim=None, legend=False)
        figures[f"{name}-{metric.removeprefix('embedding_')}"] = figure
    return figures
