"""A plan as one figure that explains itself, and the one picture beside a verdict."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.model import Model
from plan2vec.pictures.figures import DOTS_PER_INCH, WIDTH, displayable, frame_name, is_image
from plan2vec.pictures.frame_grids import strip_frames
from plan2vec.pictures.hops import BELIEVED, count_words, hops_of
from plan2vec.pictures.palette import BLACK, BLUE, GRAY, ORANGE, PALETTE, RED
from plan2vec.pictures.scene import Scene, draw_axes, draw_points, even_choice, graph_scene, room_scene, scene_of
from plan2vec.planner import Plan

KINDS: dict[str, tuple[str, Any]] = {"recorded": (BLACK, "-"), "closure": (BLACK, "--"), "doubtful": (RED, ":")}  # hops
NUM_SHOWN = 10  # frames of the strip below a plan
NUM_IN_A_ROW = 4  # consecutive frames beside a verdict about the recording
MAX_LINES = 2000  # closures drawn beside a verdict
ABOUT_FRAMES = ("local_accuracy", "recognized")  # numbers that the frames themselves explain
ABOUT_PARTS = ("largest_component_share", "loop_closures")


def plan_figure(model: Model, plan: Plan, scenes: Sequence[Scene]) -> Figure:
    """The plan in every scene, its frames in a strip below, and a caption: one picture that explains itself."""
    frames = strip_frames(model.graph, plan.nodes, NUM_SHOWN) if plan.nodes else [(plan.start, ""), (plan.goal, "")]
    strip = frames if is_image(model.sequences) else []
    tall = WIDTH / len(scenes) * max(scene.height for scene in scenes)
    figure = Figure((WIDTH, tall + 1.0 + 1.3 * bool(strip)), layout="constrained")
    above, *below = figure.subfigures(1 + bool(strip), 1, height_ratios=(tall, 1.3)[: 1 + bool(strip)], squeeze=False)
    hops = hops_of(model, plan.nodes or [])
    colors = np.full(model.sequences.num_frames, GRAY)
    colors[list(plan.touched)] = ORANGE
    for ax, scene in zip(np.ravel(above[0].subplots(1, len(scenes))), scenes, strict=True):
        draw_points(ax, scene, colors, zorder=1)
        draw_axes(ax, scene)
        ax.set_title(scene.words, fontsize=9)
        for pair, hop in zip(pairwise(plan.nodes or []), hops, strict=True):
            color, dashes = KINDS[hop.kind]
            ax.plot(*scene.points[list(pair)].T[:2], dashes, color=color, linewidth=2.2, zorder=3)
        for number, letter in ((plan.start, "S"), (plan.goal, "G")):
            x, y = scene.points[number, :2].tolist()
            ax.text(x, y, letter, fontsize=8, fontweight="bold", ha="center", va="center", zorder=5,
                    color="white", bbox={"boxstyle": "circle", "facecolor": BLACK, "edgecolor": "white"})
    for row in below:
        axes = np.ravel(row[0].subplots(1, len(strip)))
        for ax, (number, words) in zip(axes, strip, strict=True):
            ax.imshow(displayable(model.sequences.frames[number]), cmap="gray", vmin=0, vmax=255)
            ax.set_title(frame_name(model.sequences, number), fontsize=7)
            ax.set_xlabel(words.split(" in ")[0], fontsize=7)
            ax.set(xticks=[], yticks=[])
    ends = f"from frame {plan.start} to {plan.goal}"
    told = f"{plan.length:.1f} steps, {count_words(hops)}" if plan.length is not None else f"no path ({plan.reason})"
    figure.suptitle(f"{model.sequences.source}: {plan.method} plan {ends}, {told}", fontsize=9, wrap=True)
    shown = [Line2D([], [], color=KINDS[kind][0], linestyle=KINDS[kind][1], linewidth=2, label=kind)
             for kind in KINDS if kind in {hop.kind for hop in hops}]
    if plan.touched:
        shown += [Line2D([], [], color=ORANGE, linestyle="", marker="o", markersize=3, label="frames touched")]
    figure.legend(handles=shown, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def verdict_figure(model: Model, first_bad: str | None) -> Figure:
    """The picture that shows the reason of a verdict: frames in a row, parts, or closures."""
    figure = Figure((4.2, 2.4), layout="constrained", dpi=DOTS_PER_INCH)
    if first_bad in ABOUT_FRAMES and is_image(model.sequences):
        middle = model.sequences.num_frames // 2
        for k, ax in enumerate(np.ravel(figure.subplots(1, NUM_IN_A_ROW))):
            ax.imshow(displayable(model.sequences.frames[(middle + k) % model.sequences.num_frames]), cmap="gray")
            ax.set_axis_off()
        figure.suptitle(f"{NUM_IN_A_ROW} frames that follow each other", fontsize=9)
        return figure
    parted = first_bad in ABOUT_PARTS and room_scene(model.sequences) is None
    scene = graph_scene(model.graph, model.directed) if parted else scene_of(model)
    ax = figure.subplots()
    ax.set_axis_off()
    ax.set_aspect("equal")
    if first_bad in ABOUT_PARTS:
        colors = np.array([to_rgb(color) for color in PALETTE])[np.minimum(model.parts[1], len(PALETTE) - 1)]
        draw_points(ax, scene, colors)
        figure.suptitle(f"all frames {scene.words}; each colour is a part", fontsize=9)
        return figure
    draw_points(ax, scene, GRAY, zorder=1)
    num, num_doubtful = _draw_closures(ax, scene, model)
    doubtful = f"\n{num_doubtful:,} of them doubtful (red)" if num_doubtful else ""
    figure.suptitle(f"{num:,} closures (blue) {scene.words}{doubtful}", fontsize=9)
    return figure


def _draw_closures(ax: Axes, scene: Scene, model: Model) -> tuple[int, int]:
    """Draw closures as lines, doubtful ones on top; returns how many there are, and how many are doubtful."""
    row, column = edge_rows(model.graph), model.graph.indices
    chosen = closure_entries(model.graph, model.sequences.sequence) & (row < column)
    pairs, known = np.stack((row[chosen], column[chosen]), axis=1), model.built.confidence
    sure = np.ones(len(pairs)) if known is None or not len(pairs) else np.asarray(known[pairs[:, 0], pairs[:, 1]])
    doubtful = (sure > 0) & (sure < BELIEVED)
    for some, color, width in ((pairs[~doubtful], BLUE, 0.5), (pairs[doubtful], RED, 0.9)):
        drawn = some[even_choice(len(some), MAX_LINES)] if len(some) else some
        ax.add_collection(LineCollection(scene.points[drawn][:, :, :2], colors=color, linewidths=width, zorder=2))
    return len(pairs), int(doubtful.sum())
