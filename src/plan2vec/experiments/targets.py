"""Claim: whole plans are all that is needed as targets: short bootstraps from D are worse, longer ones and searches led
by D no better.

Command: plan2vec reproduce targets        Cost: 14 minutes on one H200
Expected: full at least as good as every other row. The paper argues for long plans as targets, without a table.

The graph of 1,000 fresh frames of Table 1 (block `fitted`). `full`: exact path lengths (equation 6). `bootstrapped h`:
the first h hops of the shortest path, then D as it was when the round began (equation 7), 12 rounds. `heuristic`:
Algorithm 1 to the letter, A* led by D itself from a random start to each goal, every node of a found path a target, 12
rounds. `full` needs 2 rounds.
"""

from collections.abc import Iterator
from dataclasses import replace

from matplotlib.figure import Figure

from plan2vec.config import EmbeddingConfig
from plan2vec.evaluation import map_numbers
from plan2vec.experiments.maze_scene import MazeScene, maze_scenes
from plan2vec.learning.random_streams import rng_at
from plan2vec.results.arrays import Arrays
from plan2vec.results.drawing import dots, panels, room_title, share_limits
from plan2vec.results.rows import Row, cell, in_order, markdown, values
from plan2vec.results.settings import Settings, timed

NAME, TITLE = "targets", "What the map is taught: whole plans, bootstrapped plans, searches led by itself"
DOMAINS = ("open", "table", "c-maze")
METHODS = ("full", "bootstrapped 20", "bootstrapped 10", "bootstrapped 5", "bootstrapped 2", "heuristic")
BLOCKS = ()
NUM_ROUNDS = 12  # of searches, where targets depend on D


def run(settings: Settings) -> Iterator[list[Row]]:
    for scene in maze_scenes(settings, DOMAINS):
        for method in settings.chosen("methods", METHODS):
            if scene.lacks(settings, NAME, {}, method):
                metrics, seconds = timed(measure, scene, method)
                yield scene.rows(settings, NAME, {}, method, metrics, seconds)


def measure(scene: MazeScene, method: str) -> dict:
    site = scene.small
    distance = scene.train_map(
        site, replace(scene.config, embedding=stage_of(scene.config.embedding, method))
    ).on(site.frames)
    error = map_numbers(site.graph, distance, rng_at(scene.seed, 65), site.graph.shape[0])["embedding_error"]
    return {"success": site.success(distance), "embedding_error": error, "spearman_true": site.agreement(distance)}


def stage_of(stage: EmbeddingConfig, method: str) -> EmbeddingConfig:
    if method == "full":
        return stage
    num_rounds = min(NUM_ROUNDS, stage.num_updates)
    if method == "heuristic":
        return replace(stage, targets="heuristic", num_rounds=num_rounds)
    return replace(stage, targets="bootstrapped", depth=int(method.split()[1]), num_rounds=num_rounds)


def table(rows: list[Row]) -> list[str]:
    rooms = in_order(rows, "domain", DOMAINS)
    header = ["targets"] + [f"{room_title(room)}, {words}" for room in rooms for words in ("success %", "error %")]
    body = [
        [method]
        + [
            cell(values(rows, domain=room, method=method, metric=metric), 100)
            for room in rooms
            for metric in ("success", "embedding_error")
        ]
        for method in in_order(rows, "method", METHODS)
    ]
    return markdown(header, body)


def draw(rows: list[Row], arrays: Arrays) -> dict[str, Figure]:
    rooms, methods = in_order(rows, "domain", DOMAINS), in_order(rows, "method", METHODS)
    figures = {}
    for metric, words in (("success", "success (%)"), ("embedding_error", "error of the path length (%)")):
        figure, axes = panels(len(rooms), 9, 2.6)
        for ax, room in zip(axes, rooms, strict=True):
            samples = [100 * values(rows, domain=room, method=method, metric=metric) for method in methods]
            dots(ax, methods, samples, [None] * len(methods))
            ax.set(xlabel=words, title=room_title(room))
        share_limits(axes)
        figures[f"{NAME}-{metric.removeprefix('embedding_')}"] = figure
    return figures
