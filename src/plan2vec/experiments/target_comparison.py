"""Claim: whole plans suffice as targets; short bootstraps from D are worse, longer ones and searches led by D no
better.

Expected: full at least as good as every other row. The paper argues for long plans as targets, without a table.

The graph of 1,000 fresh frames of Table 1 (block `fitted`). `full`: exact path lengths (equation 6), 2 rounds.
`bootstrapped h`: the first h hops of the shortest path, then D as it was when the round began (equation 7), 12 rounds.
`heuristic`: A* led by D itself from a random start to each goal, every node of a path a target (Algorithm 1), 12
rounds.
"""

from dataclasses import replace
from typing import Any

from plan2vec.embedding.train import Teaching
from plan2vec.experiments.head_comparison import error_figures
from plan2vec.experiments.maze_scene import ROOM_TITLES, MazeScene, maze_scenes
from plan2vec.results.comparisons import Figures, by_domain, by_method, compare
from plan2vec.results.rows import Arrays, Groups, Row
from plan2vec.results.settings import Settings

NAME, TITLE = "targets", "What the map is taught: whole plans, bootstrapped plans, searches led by itself"
DOMAINS = tuple(ROOM_TITLES)
TEACHINGS = {"full": Teaching()} | {f"bootstrapped {depth}": Teaching("bootstrapped", depth)
                                    for depth in (20, 10, 5, 2)} | {"heuristic": Teaching("heuristic")}
METHODS = tuple(TEACHINGS)
BLOCKS = ()
NUM_ROUNDS = 12  # of searches, where targets depend on D


def run(settings: Settings) -> Groups:
    for scene in maze_scenes(settings, DOMAINS):
        yield from scene.measured(settings, NAME, {}, METHODS, measure)


def measure(scene: MazeScene, method: str) -> dict[str, Any]:
    stage = scene.config.embedding
    if method != "full":
        stage = replace(stage, num_rounds=min(NUM_ROUNDS, stage.num_updates))
    return scene.small.map_scores(replace(scene.config, embedding=stage), TEACHINGS[method])


def table(rows: list[Row]) -> list[str]:
    columns = by_domain(rows, ROOM_TITLES, (("success", "success %", 100, 1), ("embedding_error", "error %", 100, 1)))
    return compare(rows, "targets", by_method(rows, METHODS), columns)


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    return error_figures(NAME, rows, by_method(rows, METHODS), 2.6)
