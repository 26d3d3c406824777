"""Claim: the frames that a plan expands grow with the square of its length for Dijkstra, linearly for plan2vec.

Expected: growth exponents of expanded nodes: Dijkstra 1.8 to 2, plan2vec at most 1.1 (paper: quadratic and linear).

Open room, 10,000 frames planned on themselves; starts within 0.05 m of the centre, goals 2 to 9 steps away, 20 plans
per length and seed. Expanded: frames whose neighbours were asked for. Touched: distinct frames that came back; in the
end these are nearly all of the 10,000. The exponent is the slope of log(mean count) against log(steps). plan2vec is the
greedy walk; A* has the map as heuristic: it expands far fewer frames than Dijkstra, by a number that grows as fast."""

import numpy as np
from scipy.sparse import csr_array

from plan2vec.evaluation import dijkstra_cost
from plan2vec.experiments.base_scene import Found, SceneExperiment
from plan2vec.experiments.maze_scene import MazeScene, MazeSite
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.planner import Distance, Plan, make_plans
from plan2vec.results.comparisons import Column, Figures, by_method, compare, curve, panels
from plan2vec.results.rows import Arrays, Lines, Row, cell, fitted_exponent, in_order, select, values
from plan2vec.search.shortest_paths import connected_parts, distances_from

METHODS = ("Dijkstra", "A*", "plan2vec")
LENGTHS = (2, 3, 4, 5, 6, 7, 8, 9)  # steps
PER_LENGTH = 20  # plans per length and seed
CENTRE = 0.05  # metres around the centre in which plans start
COUNTS = ("expanded", "touched")


def measure(scene: MazeScene, method: str) -> Found:
    site = scene.large
    lengths, *ends = draw_tasks(site).T
    distance = scene.train_map(site, scene.config).on(site.frames)
    plans = plans_of(site.graph, distance, method, np.stack(ends, axis=1))
    counts = {name: np.array([getattr(plan, f"num_{name}") for plan in plans]) for name in COUNTS}
    shown = counts | {"found": np.array([plan.length is not None for plan in plans])}  # failures included
    by_length = {length: {name: count[lengths == length].mean() for name, count in shown.items()}
                 for length in np.unique(lengths).tolist()}
    return {"steps": by_length} | {f"exponent_{name}": growth(lengths, count) for name, count in counts.items()}


def draw_tasks(site: MazeSite) -> np.ndarray:
    """(m, 3) length in whole steps, start, goal."""
    rng = rng_at(site.scene.seed, Stream.PLANNING_COST)
    away = np.where(connected_parts(site.graph)[1] == 0, np.linalg.norm(site.position, axis=1), np.inf)
    central = np.flatnonzero(away <= max(CENTRE, away.min()))
    starts = rng.choice(central, min(len(central), PER_LENGTH), replace=False)
    lengths = distances_from(site.graph, starts)
    tasks = [(length, starts[row], rng.choice(goals)) for length in LENGTHS
             for row in np.resize(np.arange(len(starts)), PER_LENGTH)
             if len(goals := np.flatnonzero(np.abs(lengths[row] - length) < 0.5))]
    return np.array(tasks, np.int64).reshape(-1, 3)


def plans_of(graph: csr_array, distance: Distance, method: str, tasks: np.ndarray) -> list[Plan]:
    if method == "Dijkstra":
        return [dijkstra_cost(graph, start, goal) for start, goal in tasks.tolist()]
    return make_plans(graph, distance, tasks[:, 0], tasks[:, 1], "astar" if method == "A*" else "greedy")


def growth(lengths: np.ndarray, counts: np.ndarray) -> float | None:
    """The exponent a in count ~ length^a, by least squares on the logarithms of the means."""
    known = np.unique(lengths).tolist()
    return fitted_exponent(known, [counts[lengths == length].mean() for length in known])


def table(rows: list[Row]) -> Lines:
    methods = by_method(rows, METHODS)
    paper = Column("paper", texts={"Dijkstra": "2 (quadratic)", "plan2vec": "1 (linear)"})
    exponents = [Column(name, {"metric": f"exponent_{name}"}, 1, 2) for name in COUNTS]
    yield from compare(rows, "growth exponent", methods, [*exponents, paper])
    by_length = [Column(f"{length}", {"steps": length}, 1) for length in in_order(rows, "steps")]
    for name in COUNTS:
        yield from compare(select(rows, metric=name), f"frames {name}, by steps", methods, by_length)
    shares = ", ".join(f"{method} {cell(values(rows, method=method, metric='found'), 100)}" for method in methods)
    yield from (f"Plans found, %: {shares}.", "")


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    figure, axes = panels(2, 8, 4.2)
    counted = [row for row in rows if "steps" in row["setting"]]
    lengths = in_order(counted, "steps")
    for ax, name in zip(axes, COUNTS, strict=True):
        for look, method in enumerate(by_method(counted, METHODS)):
            words = f"{method}: steps^({cell(values(rows, method=method, metric=f'exponent_{name}'), 1, 2)})"
            curve(ax, counted, "steps", look, words, 1, method=method, metric=name)
        ax.set(xscale="log", yscale="log", xlabel="length of the shortest plan (steps)", ylabel=f"frames {name}")
        ax.set_xticks(lengths, [str(length) for length in lengths])
        ax.minorticks_off()
        ax.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    yield "", figure


EXPERIMENT = SceneExperiment("planning-cost", "Figure 6c: planning cost against plan length", __doc__, measure, table,
                             draw, ("open",), METHODS, kind=MazeScene)
