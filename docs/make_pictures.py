"""The pictures of the README from a demo's run: python docs/make_pictures.py runs/demo-c-maze

    images/plan2vec.gif       recorded frames, then a plan that grows on the map, hop by hop, with its film strip
    images/how-it-works.png   the same run in three pictures: graph, map, plan
"""

import io
import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from PIL import Image

import plan2vec
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.pictures.figures import far_task
from plan2vec.pictures.palette import BLACK, BLUE, GRAY, ORANGE, place_colors
from plan2vec.pictures.scene import map_scene, room_scene

IMAGES = Path(__file__).parent / "images"
INCHES, DOTS_PER_INCH = (7.2, 4.4), 100
NUM_RECORDED = 20  # recorded frames shown before the plan
STRIP = 10  # frames of the film strip
COLORS = 96  # of the GIF's palette
NUM_LINES = 1500  # closures drawn


def draw_moment(model: plan2vec.Model, plan: plan2vec.Plan, frame: int, hops: int | None) -> Image.Image:
    """One picture of the film: a recorded frame (`hops` None), or the plan after some hops."""
    figure = Figure(INCHES, dpi=DOTS_PER_INCH, facecolor="white")
    show_frame(figure.add_axes((0.03, 0.4, 0.32, 0.5)), model, frame)
    figure.text(0.19, 0.93, "recorded frames" if hops is None else "the plan, frame by frame", ha="center", fontsize=11)
    drawn, goal = map_scene(model.vectors), plan.nodes[-1]
    ax = figure.add_axes((0.38, 0.3, 0.61, 0.62))
    ax.set_axis_off()
    if hops is None:
        ax.text(0.5, 0.6, f"{model.sequences.num_frames:,} frames", ha="center", fontsize=20)
        ax.text(0.5, 0.45, "no actions, no rewards, no positions", ha="center", fontsize=12, color="0.35")
    else:
        figure.text(0.685, 0.93, "the map: distance to the goal, in steps", ha="center", fontsize=11)
        steps = model.distance_between(np.arange(model.sequences.num_frames), goal)
        points = ax.scatter(*drawn.points.T, s=4, c=steps, cmap="viridis", linewidths=0)
        figure.colorbar(points, ax=ax, shrink=0.8, pad=0.01)
        way = drawn.points[plan.nodes[: hops + 1]]
        ax.plot(*way.T, "o-", color=ORANGE, linewidth=2.2, markersize=4)
        ax.plot(*drawn.points[plan.start], "s", color=BLACK, markeredgecolor="white", markersize=9)
        ax.plot(*drawn.points[goal], "*", color=BLACK, markeredgecolor="white", markersize=17)
        ax.set_aspect("equal")
        draw_strip(figure, model, plan, hops)
    with io.BytesIO() as file:
        figure.savefig(file, dpi=DOTS_PER_INCH)
        return Image.open(file).convert("RGB")


def draw_strip(figure: Figure, model: plan2vec.Model, plan: plan2vec.Plan, hops: int) -> None:
    """The frames passed so far, at their places in a strip for the whole plan."""
    for place, hop in enumerate(np.linspace(0, plan.hops, STRIP).round().astype(int)):
        if hop <= hops:
            show_frame(figure.add_axes((0.02 + 0.097 * place, 0.03, 0.09, 0.2)), model, plan.nodes[hop])
    passed = f"{hops} of {plan.hops} hops" if hops < plan.hops else f"{plan.hops} hops, {plan.length:.1f} steps"
    figure.text(0.02, 0.25, f"film strip: {passed}", fontsize=10)


def show_frame(ax: Axes, model: plan2vec.Model, number: int) -> None:
    frame = model.sequences.frames[number]
    ax.imshow(frame if frame.shape[2] == 3 else frame[:, :, 0], cmap="gray", vmin=0, vmax=255)
    ax.set(xticks=(), yticks=())


def make_gif(model: plan2vec.Model, plan: plan2vec.Plan, path: Path) -> None:
    pictures = [draw_moment(model, plan, number, None) for number in range(NUM_RECORDED)]
    pictures += [draw_moment(model, plan, number, hops) for hops, number in enumerate(plan.nodes)]
    durations = [120] * NUM_RECORDED + [300] * plan.hops + [3000]
    small = [picture.quantize(COLORS, dither=Image.Dither.NONE) for picture in pictures]
    small[0].save(path, save_all=True, append_images=small[1:], duration=durations, loop=0, optimize=True)


def draw_stages(model: plan2vec.Model, plan: plan2vec.Plan) -> Figure:
    """Graph, map and plan side by side. True positions only place and colour what is drawn."""
    figure = Figure((10, 3.5), layout="constrained")
    room, drawn = room_scene(model.sequences), map_scene(model.vectors)
    graph_panel, map_panel, plan_panel = figure.subplots(1, 3, width_ratios=(1, 1.25, 1))
    colors = place_colors(room.points)
    row, column = edge_rows(model.graph), model.graph.indices
    closures = np.flatnonzero((row < column) & closure_entries(model.graph, model.sequences.sequence))
    chosen = np.random.default_rng(0).choice(closures, min(NUM_LINES, len(closures)), replace=False)
    lines = np.stack((row[chosen], column[chosen]), axis=1)
    graph_panel.scatter(*room.points.T, s=1, c=GRAY, linewidths=0)
    graph_panel.add_collection(LineCollection(room.points[lines], colors=BLUE, linewidths=0.6))
    map_panel.scatter(*drawn.points.T, s=2, c=colors, linewidths=0)
    plan_panel.scatter(*room.points.T, s=2, c=colors, linewidths=0, alpha=0.35)
    plan_panel.plot(*room.points[plan.nodes].T, "o-", color=ORANGE, linewidth=2, markersize=4)
    plan_panel.plot(*room.points[plan.goal], "*", color=BLACK, markersize=15)
    titles = "1  graph: near frames are joined", "2  map: distances are path lengths", "3  plan: hop by hop to the goal"
    for ax, title in zip((graph_panel, map_panel, plan_panel), titles, strict=True):
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_title(title, fontsize=11)
        ax.set_axis_off()
    return figure


def main(run: str) -> None:
    model = plan2vec.load(run, device="cpu")
    plan = model.plan(*far_task(model))
    make_gif(model, plan, IMAGES / "plan2vec.gif")
    draw_stages(model, plan).savefig(IMAGES / "how-it-works.png", dpi=100)
    print(f"{plan.hops} hops, {plan.length:.1f} steps; {(IMAGES / 'plan2vec.gif').stat().st_size:,} bytes of GIF")


if __name__ == "__main__":
    main(*sys.argv[1:])
