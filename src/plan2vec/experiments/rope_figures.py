"""Claim: the local metric finds what is one drag apart, and plans of a rope are films that a hand could make.

Expected: recorded neighbours score below the cut-off of 2.8 steps (1.4 times the two up to which frames are
neighbours), random pairs above it; every step of the plans is a local move (the paper shows pictures).

The recordings, metric, graph and map of `rope-table`. Above a frame its `sequence:index`, below its local score: to its
partner (Figure 11), to the query (Figure 12), to the frame before it (Figures 7 and 13); red above the cut-off. Figure
11: pairs one or two recorded steps apart, and random pairs. Figure 12: queries, and other frames by their rank. Figure
7: a greedy plan between two sequences. Figure 13: within one sequence every fourth recorded frame, Dijkstra's path on
the learned graph, and plan2vec's greedy plan. Pictures show the first seed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from plan2vec.data import index_within
from plan2vec.experiments.base_scene import Found, SceneExperiment, mean_or_none
from plan2vec.experiments.rope_scene import CUT_OFF, RopeScene, greedy_plans, plan_ends
from plan2vec.graph.neighbors import nearest
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.recorded_pairs import draw_far, draw_neighbors, recorded_pairs
from plan2vec.local_metric import pair_distances
from plan2vec.pictures.figures import BLACK
from plan2vec.planner import make_plan
from plan2vec.results.comparisons import Figures, facts, panels
from plan2vec.results.rows import Arrays, Row, pictured

COLUMNS = 13  # frames per row
QUERIES = 4
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)  # of the neighbours shown
EVERY, RECORDED = 4, 48  # Figure 13: a recorded stretch of so many steps, every fourth frame


def sheet(scene: RopeScene, numbers: Sequence[Any] | np.ndarray, scores: Sequence[Any] | np.ndarray) -> Found:
    """Rows of frames as arrays of one width: label, index within the sequence (-1: empty), score (NaN: none)."""
    shape = len(numbers), max(len(row) for row in numbers)
    place, score = np.full(shape, -1), np.full(shape, np.nan)
    for k, (row, below) in enumerate(zip(numbers, scores, strict=True)):
        place[k, : len(row)], score[k, : len(row)] = row, below
    sequence, frames = scene.recordings.sequence, scene.recordings.frames[place][..., 0]
    index = np.where(place < 0, -1, index_within(sequence)[place])
    return {"frames": frames, "sequence": sequence[place], "index": index, "score": score}


def pair_scores(scene: RopeScene, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return pair_distances(scene.metric, scene.images(scene.recordings.frames), first, second)


def pairs(scene: RopeScene) -> Found:
    num, rng = len(scene.recordings.frames), rng_at(scene.seed, Stream.ROPE_PAIRS)
    recorded = recorded_pairs(scene.recordings, np.ones(num, bool), 2)
    near, gap = draw_neighbors(recorded, COLUMNS, rng)
    far = draw_far(recorded, rng.choice(num, COLUMNS), rng)
    none, near_score, far_score = [np.nan] * COLUMNS, pair_scores(scene, near, near + gap), pair_scores(scene, *far)
    return {"near_score": near_score.mean(), "far_score": far_score.mean()} | sheet(
        scene, [near, near + gap, *far], [none, near_score, none, far_score])


def neighbours(scene: RopeScene) -> Found:
    vectors = scene.local_vectors(scene.recordings.frames)
    queries = rng_at(scene.seed, Stream.ROPE_QUERIES).choice(len(vectors), QUERIES, replace=False)
    ranks = np.array([0, *(rank for rank in RANKS if rank < len(vectors))])
    number, distance = (some[:, ranks] for some in nearest(vectors, vectors[queries], int(ranks[-1]) + 1, scene.device))
    near = distance[:, 1:] <= CUT_OFF
    local = scene.moves.are_local(np.repeat(queries, near.sum(axis=1)), number[:, 1:][near])
    number[:, 0], distance[:, 0] = queries, np.nan
    return {"local_share": mean_or_none(local)} | sheet(scene, number, distance)


def plan_row(scene: RopeScene, nodes: list[int]) -> tuple[list[int], list[float]]:
    """An even choice of a plan's frames, and the local score of the step into each."""
    steps = pair_scores(scene, np.array(nodes[:-1]), np.array(nodes[1:])) if len(nodes) > 1 else np.empty(0)
    shown = np.unique(np.linspace(0, len(nodes) - 1, min(len(nodes), COLUMNS)).round().astype(int))
    return [nodes[k] for k in shown], [np.nan if k == 0 else float(steps[k - 1]) for k in shown]


def plan_facts(scene: RopeScene, nodes: list[int]) -> dict[str, float | None]:
    local = scene.moves.are_local(np.array(nodes[:-1], int), np.array(nodes[1:], int))
    return {"hops": len(nodes) - 1, "local_steps": mean_or_none(local)}


def across(scene: RopeScene) -> Found:
    """Figure 7: a plan of middling length between two sequences, among those that find their goal where any does."""
    tasks, sequence = scene.tasks, scene.recordings.sequence
    nodes = greedy_plans(scene.site.graph, scene.learned, tasks)
    hops, last = plan_ends(nodes)
    found, between = last == tasks.goals, sequence[tasks.starts] != sequence[tasks.goals]
    candidates = np.flatnonzero(found & between if (found & between).any() else between)
    task = candidates[np.argsort(hops[candidates], kind="stable")[len(candidates) // 2]]
    plan = nodes[: hops[task] + 1, task].tolist()
    row, score = plan_row(scene, plan)
    return plan_facts(scene, plan) | {"found": float(found[task])} | sheet(scene, [row], [score])


def within(scene: RopeScene) -> Found:
    start = min(100, scene.size.rope_drags // 4)
    goal = min(start + RECORDED, scene.size.rope_drags)
    recorded = list(range(start, goal + 1, EVERY))
    plans = {way: make_plan(scene.site.graph, scene.learned, start, goal, way).nodes or [start]  # not found: the start
             for way in ("dijkstra", "greedy")}
    rows, scores = zip(*(plan_row(scene, nodes) for nodes in (recorded, *plans.values())), strict=True)
    known = {f"{way}_{fact}": value for way, plan in plans.items() for fact, value in plan_facts(scene, plan).items()}
    return known | {"recorded_steps": goal - start} | sheet(scene, rows, scores)


def table(rows: list[Row]) -> list[str]:
    shown = (("near_score", "mean score of recorded neighbours shown", 2),
             ("far_score", "mean score of random pairs shown", 2),
             ("local_share", "neighbours shown below the cut-off that are a local move away, share", 3),
             ("hops", "steps of the plan between two sequences", 1), ("local_steps", "of them local moves, share", 3),
             ("recorded_steps", "recorded steps between the frames of Figure 13", 0),
             ("dijkstra_hops", "steps of Dijkstra's path", 1), ("greedy_hops", "steps of plan2vec's plan", 1))
    return facts(rows, shown, {"rope": {}})


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    for method, part in pictured(rows, arrays).items():
        _, number, title = PARTS[method]
        yield number, sheet_figure(part, title)


def sheet_figure(part: dict[str, np.ndarray], title: str) -> Figure:
    num_rows, num_columns = part["index"].shape
    figure, axes = panels(num_rows * num_columns, 0.75 * num_columns, 1.05 * num_rows + 0.4, num_rows)
    figure.suptitle(title, fontsize=9)
    for place, ax in zip(np.ndindex(num_rows, num_columns), axes, strict=True):
        ax.set(xticks=(), yticks=())
        ax.spines[:].set_color("0.8")
        if part["index"][place] < 0:
            ax.set_axis_off()
            continue
        ax.imshow(part["frames"][place], cmap="gray", vmin=0, vmax=255)
        ax.set_title(f"{part['sequence'][place]}:{part['index'][place]}", fontsize=6, pad=2)
        score = float(part["score"][place])
        if np.isfinite(score):
            color = "red" if score > CUT_OFF else BLACK
            ax.text(0.5, -0.05, f"{score:.2f}", transform=ax.transAxes, fontsize=6, ha="center", va="top", color=color)
    return figure


PARTS = {  # what makes it, the paper's figure, its title
    "pairs": (pairs, "11", "recorded neighbours (two rows) and random pairs (two rows); each frame below its partner"),
    "neighbours": (neighbours, "12", "a query a row, and other frames by rank 1, 2, 4, 8, ... in the local metric"),
    "across": (across, "7", "a greedy plan from one sequence to another"),
    "within": (within, "13", "recorded every fourth frame; Dijkstra on the learned graph; plan2vec")}
EXPERIMENT = SceneExperiment("rope-figures", "Figures 7, 11, 12 and 13: what is learned of the rope", __doc__,
                             lambda scene, name: PARTS[name][0](scene), table, draw, ("rope",), PARTS, (), RopeScene)
