"""A fitted model as pictures: one function per picture, each returning a matplotlib Figure. No pyplot, so nothing is
global. All lengths are in steps. The same model gives the same pictures."""

import io
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from plan2vec.data import Sequences
from plan2vec.files import replacing
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.graph.direction import each_pair_once
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Model
from plan2vec.pictures.hops import BELIEVED, count_words, hops_of
from plan2vec.pictures.palette import BLACK, BLUE, GRAY, ORANGE, PALETTE, RED, place_colors
from plan2vec.pictures.scene import draw_axes, draw_points, even_choice, graph_scene, map_scene, room_scene, scene_of
from plan2vec.planner import Plan
from plan2vec.search.shortest_paths import distances_from

WIDTH, DOTS_PER_INCH = 8.0, 150  # inches; readable when shown 800 pixels wide
MAX_LINES, NUM_LONGEST = 3000, 40  # edges drawn per panel, and on top of them, because a false one is long
NUM_THUMBNAILS, THUMBNAIL = 12, 0.5  # frames shown on the map, inches of their longer side
NUM_IN_A_ROW, MOST_CLOSURES = 4, 2000  # beside a verdict: consecutive frames, closures of a kind
ABOUT_FRAMES = ("local_accuracy", "recognized")  # numbers that the frames themselves explain
ABOUT_PARTS = ("largest_component_share", "loop_closures")


def _canvas(height: float, num_panels: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure of this height in inches, with panels of equal scales beside each other."""
    figure = Figure((WIDTH, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, compress=True))
    return figure, list(figure.subplots(1, num_panels, sharex=True, sharey=True, squeeze=False)[0])


def frame_name(sequences: Sequences, number: int) -> str:
    label = sequences.sequence[number]
    return f"{label}:{number - int(np.flatnonzero(sequences.sequence == label)[0])}"


def is_image(sequences: Sequences) -> bool:
    return len(sequences.frame_shape) == 3


def displayable(frame: np.ndarray) -> np.ndarray:
    """An image (h, w, 3) as it is; of any other number of channels the first, as gray (h, w)."""
    return frame if frame.shape[2] == 3 else frame[:, :, 0]


def map_figure(model: Model) -> Figure:
    """The metric map with a key of the room; without positions coloured by sequence, with thumbnails."""
    scene, room = map_scene(model.vectors), room_scene(model.sequences)
    title = f"metric map of {model.sequences.num_frames:,} frames{'' if room else ', coloured by sequence'}"
    if room is None:
        x_min, x_max, y_min, y_max = scene.extent
        half = 0.04 * (x_max - x_min)  # room for half a thumbnail
        scene = replace(scene, extent=(x_min - half, x_max + half, y_min - half, y_max + half))
        ax = (figure := Figure((WIDTH, 1.3 + 6.3 * scene.height), layout="constrained")).subplots()
        labels, which = np.unique(model.sequences.sequence, return_inverse=True)
        colors = np.array(PALETTE)[which % len(PALETTE)]
        draw_points(ax, scene, colors)
        if len(labels) <= len(PALETTE):
            keys = [Line2D([], [], marker="o", linestyle="", color=color, label=f"sequence {label}")
                    for label, color in zip(labels, PALETTE, strict=False)]
            ax.legend(handles=keys, loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=9)
        for number in far_points(scene.points, NUM_THUMBNAILS) if is_image(model.sequences) else ():
            image = displayable(model.sequences.frames[number])
            zoom = THUMBNAIL * 72 / max(image.shape[:2])  # points per pixel
            box = OffsetImage(image, zoom=zoom, cmap="gray", clim=(0, 255), dpi_cor=True)
            border = {"edgecolor": str(colors[number]), "linewidth": 2}
            ax.add_artist(AnnotationBbox(box, scene.points[number], pad=0.05, bboxprops=border, zorder=3))
    else:
        figure = Figure((WIDTH, 1.1 + 4.4 * scene.height), layout="constrained")
        ax, key = figure.subplots(1, 2, width_ratios=(2, 1))
        for panel, shown in ((ax, scene), (key, room)):
            draw_points(panel, shown, place_colors(room.points))
        draw_axes(key, room)
        key.set_title("key: true positions", fontsize=10)
        key.locator_params(nbins=3)
    draw_axes(ax, scene, title)
    return figure


def far_points(points: np.ndarray, num: int) -> list[int]:
    """Points far from each other, beginning in the middle: each next one is farthest from those before."""
    chosen = [int(np.linalg.norm(points - points.mean(axis=0), axis=1).argmin())]
    distance = np.full(len(points), np.inf)
    while len(chosen) < min(num, len(points)):
        distance = np.minimum(distance, np.linalg.norm(points - points[chosen[-1]], axis=1))
        chosen.append(int(distance.argmax()))
    return chosen


def graph_figure(model: Model) -> Figure:
    """Recorded transitions beside found closures; the longest closures on top."""
    scene, graph = scene_of(model), model.graph
    once, closure = each_pair_once(graph), closure_entries(graph, model.sequences.sequence)
    figure, axes = _canvas(1.4 + 3.4 * scene.height, 2)
    panels = {"recorded transitions": once & ~closure, "found closures": once & closure}
    for ax, (words, chosen) in zip(axes, panels.items(), strict=True):
        edges = drawn = np.stack((edge_rows(graph), graph.indices), axis=1)[chosen]  # (m, 2)
        if len(edges) > MAX_LINES:
            drawn = edges[rng_at(model.config.seed, Stream.PICTURES).choice(len(edges), MAX_LINES, replace=False)]
        draw_points(ax, scene, GRAY, zorder=1)
        ax.add_collection(LineCollection(scene.points[drawn], colors=BLUE, linewidths=0.7, alpha=0.6, zorder=2))
        count = f"{len(edges):,}" if len(drawn) == len(edges) else f"{len(drawn):,} of {len(edges):,} drawn"
        draw_axes(ax, scene)
        ax.set_title(f"{words} ({count})", fontsize=10)
    if len(edges):  # the few closures that look longest in this scene: a false one is among them
        length = np.linalg.norm(scene.points[edges[:, 0]] - scene.points[edges[:, 1]], axis=1)
        longest = edges[np.argsort(-length, kind="stable")[: min(NUM_LONGEST, 1 + len(edges) // 10)]]
        words = f"the longest closures ({len(longest)} of all {len(edges):,})"
        ax.add_collection(LineCollection(scene.points[longest], colors=ORANGE, linewidths=1.4, zorder=3, label=words))
    ax.set_ylabel("")
    figure.legend(loc="outside lower right", fontsize=9, frameon=False)
    return figure


def value_figure(model: Model, goal: int) -> Figure:
    scene, (figure, (ax,)) = scene_of(model), _canvas(5.6)
    points = draw_points(ax, scene, model.distance_between(np.arange(model.sequences.num_frames), goal), cmap="viridis")
    figure.colorbar(points, ax=ax, label="learned distance to the goal (steps)")
    ax.plot(*scene.points[goal], "*", color=ORANGE, markeredgecolor="white", markersize=20)
    draw_axes(ax, scene, f"distance to the goal: frame {frame_name(model.sequences, goal)} (star)")
    return figure


def distance_figure(model: Model) -> Figure:
    """Learned distance against the shortest path on the graph, over random pairs of the largest part."""
    rng, num_ends = rng_at(model.config.seed, Stream.PICTURES), 200
    part = np.flatnonzero(model.parts[1] == 0)
    sources = rng.choice(part, min(64, len(part)), replace=False)
    ends = rng.choice(part, (len(sources), num_ends))
    exact = np.take_along_axis(distances_from(model.graph, sources), ends, axis=1).ravel()
    learned = model.distance_between(np.repeat(sources, num_ends), ends.ravel())
    exact, learned = exact[np.isfinite(exact)], learned[np.isfinite(exact)]
    high = float(max(exact.max(), learned.max())) * 1.02
    figure, (ax,) = _canvas(5.6)
    cells = ax.hexbin(exact, learned, gridsize=60, extent=(0, high, 0, high), mincnt=1, cmap="viridis", linewidths=0.1)
    cells.set_norm(LogNorm(1, max(10, len(exact) // 50)))
    figure.colorbar(cells, ax=ax, label="pairs of frames per cell")
    ax.plot((0, high), (0, high), color=ORANGE, linewidth=1.5, label="equal")
    ax.set(xlabel="shortest path on the graph (steps)", ylabel="learned distance (steps)", aspect="equal",
           xlim=(0, high), ylim=(0, high), title=f"learned distance against shortest path, {len(exact):,} random pairs")
    ax.legend(loc="upper left", frameon=False)
    return figure


def training_figure(records: list[dict]) -> Figure:
    """Loss against update, one panel per stage, from the lines of metrics.jsonl."""
    losses: dict[str, dict[int, float]] = {}
    for line in records:
        if "loss" in line:  # a resumed stage repeats updates: the last counts
            losses.setdefault(line["stage"], {})[line["update"]] = line["loss"]
    figure = Figure((WIDTH, 3.6), layout="constrained")
    for ax, (stage, curve) in zip(figure.subplots(1, len(losses), squeeze=False)[0], losses.items(), strict=True):
        update, loss = np.array(sorted(curve.items())).T
        ax.plot(update, loss, color=BLUE, linewidth=1, marker=".", markersize=4)
        ax.set(xlabel="update", ylabel="loss", title=stage.replace("_", " "))
        if (loss > 0).all():
            ax.set_yscale("log")
    return figure


def far_task(model: Model) -> tuple[int, int]:
    """Start and goal of the longest shortest path, among 16 x 16 random pairs inside the largest part."""
    rng, part = rng_at(model.config.seed, Stream.PICTURES), np.flatnonzero(model.parts[1] == 0)
    starts, goals = (rng.choice(part, min(16, len(part)), replace=False) for _ in range(2))
    length = distances_from(model.graph, starts)[:, goals]
    start, goal = np.unravel_index(np.argmax(np.where(np.isfinite(length), length, -1)), length.shape)
    return int(starts[start]), int(goals[goal])


def path_figure(model: Model, plans: Sequence[Plan]) -> Figure:
    """One or two plans of a task as lines, start and goal marked; a plan that failed says why in the legend."""
    scene, (figure, (ax,)) = scene_of(model), _canvas(5.8)
    draw_points(ax, scene, "0.85", zorder=1)
    for plan, (color, dashes, width) in zip(plans, ((ORANGE, "-", 2.2), (BLUE, "--", 1.8)), strict=False):
        x, y = scene.points[plan.nodes or []].T
        ax.plot(x, y, dashes, color=color, linewidth=width, marker="o", markersize=4, label=plan_words(model, plan))
        for pair, hop in zip(pairwise(plan.nodes or []), hops_of(model, plan.nodes or []), strict=True):
            if hop.kind == "doubtful":
                ax.plot(*scene.points[list(pair)].T, ":", color=RED, linewidth=4, zorder=4)
    for number, marker, size, words in ((plans[0].start, "s", 10, "start"), (plans[0].goal, "*", 17, "goal")):
        if number >= 0:
            ax.plot(*scene.points[number], marker, color=BLACK, markeredgecolor="white", linestyle="", zorder=5,
                    markersize=size, label=f"{words}: frame {frame_name(model.sequences, number)}")
    draw_axes(ax, scene, f"a plan, drawn {scene.words}")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
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
    ax = figure.add_subplot(aspect="equal")
    ax.set_axis_off()
    if first_bad in ABOUT_PARTS:
        draw_points(ax, scene, np.array(PALETTE)[np.minimum(model.parts[1], len(PALETTE) - 1)])
        figure.suptitle(f"all frames {scene.words}; each colour is a part", fontsize=9)
        return figure
    draw_points(ax, scene, GRAY, zorder=1)
    chosen = closure_entries(model.graph, model.sequences.sequence) & each_pair_once(model.graph)
    ends = np.stack((edge_rows(model.graph), model.graph.indices), axis=1)
    pairs, known = np.sort(ends[chosen], axis=1), model.built.confidence
    sure = np.ones(len(pairs)) if known is None or not len(pairs) else np.asarray(known[pairs[:, 0], pairs[:, 1]])
    doubtful = (sure > 0) & (sure < BELIEVED)
    for some, color, width in ((pairs[~doubtful], BLUE, 0.5), (pairs[doubtful], RED, 0.9)):
        drawn = some[even_choice(len(some), MOST_CLOSURES)] if len(some) else some
        ax.add_collection(LineCollection(scene.points[drawn][:, :, :2], colors=color, linewidths=width, zorder=2))
    words = f"\n{doubtful.sum():,} of them doubtful (red)" if doubtful.any() else ""
    figure.suptitle(f"{len(pairs):,} closures (blue) {scene.words}{words}", fontsize=9)
    return figure


def plan_words(model: Model, plan: Plan) -> str:
    """A plan in a few words: its method, and its length and what it rests on, or why it failed."""
    name = "exact shortest path" if plan.method == "dijkstra" else plan.method
    if plan.length is None:
        return f"{name}: no path ({plan.reason.split(';')[0].removeprefix('no path: ')})"
    return f"{name}: {plan.length:.1f} steps, {count_words(hops_of(model, plan.nodes or []))}"


def figure_bytes(figure: Figure, ending: str = "png") -> bytes:
    with rc_context({"svg.fonttype": "none"}):  # words stay words: they can be searched and edited
        figure.savefig(buffer := io.BytesIO(), format=ending, dpi=DOTS_PER_INCH)
    return buffer.getvalue()


def save_figure(figure: Figure, path: Path) -> None:
    if path.suffix[1:].lower() not in (known := figure.canvas.get_supported_filetypes()):
        raise ValueError(f"a picture's name must end in .{', .'.join(sorted(known))}, but is {path}")
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=DOTS_PER_INCH)
