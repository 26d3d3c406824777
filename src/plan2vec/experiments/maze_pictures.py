"""The pictures of `maze-figures`, each from a few arrays, in the paper's arrangement."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from plan2vec.domains import find_domain, maze
from plan2vec.experiments.maze_scene import ROOM_TITLES
from plan2vec.pictures.figures import BLUE, GRAY, ORANGE, place_colors
from plan2vec.results.comparisons import legend_below, panels
from plan2vec.results.rows import Arrays

NUM_MOMENTS = 6  # panels of the walk
TICKS = (-0.2, 0, 0.2)  # metres


def prepare(ax: Axes, room: str, labels: bool = True) -> None:
    """The room's walls and border, in metres."""
    domain = find_domain(room)
    assert domain is not None
    for x_min, x_max, y_min, y_max in domain.walls:
        wall = (x_min, y_min), x_max - x_min, y_max - y_min
        ax.add_patch(Rectangle(*wall, facecolor="0.75", edgecolor="0.4", zorder=0))
    ax.set_aspect("equal")
    ax.axis(domain.extent)
    ax.set(xticks=TICKS, yticks=TICKS)
    if labels:
        ax.set(xlabel="x (m)", ylabel="y (m)")


def rooms_figure(rooms: Sequence[str]) -> Figure:
    """Figure 4: one frame a room, with the agent in blue and a goal in orange, which is not in the frames."""
    figure, axes = panels(len(rooms), 8, 3.6)
    agent, goal, half = (-0.16, 0.18), (-0.16, -0.18), maze.HALF_EXTENT
    for ax, room in zip(axes, rooms, strict=True):
        frame = maze.render(maze.ROOMS[room], np.array([agent]))[0, :, :, 0]
        ax.imshow(frame, cmap="gray", vmin=0, vmax=255, extent=(-half, half, -half, half), interpolation="nearest")
        block = (agent[0] - maze.BLOCK, agent[1] - maze.BLOCK), 2 * maze.BLOCK, 2 * maze.BLOCK
        ax.add_patch(Rectangle(*block, color=BLUE, alpha=0.6, label="agent"))
        ax.add_patch(Circle(goal, 0.03, color=ORANGE, label="goal (not in the frame)"))
        ax.set(title=ROOM_TITLES[room], xlabel="x (m)", xticks=TICKS, yticks=TICKS)
    axes[0].set_ylabel("y (m)")
    legend_below(figure, axes[0], 2)
    return figure


def embedding_figure(parts: Arrays) -> Figure:
    """Figure 5: the grid in the room, in plan2vec's latents, in the VAE's."""
    figure = Figure((8.4, 2.9 * len(parts)), layout="constrained")
    axes = figure.subplots(len(parts), 3, squeeze=False)
    for row, (room, arrays) in zip(axes, parts.items(), strict=True):
        colors = place_colors(arrays["position"])
        shown = ("position", ROOM_TITLES[room], "m"), ("plan2vec", "plan2vec", "steps"), ("VAE", "VAE", "")
        for ax, (name, words, unit) in zip(row, shown, strict=True):
            ax.scatter(*arrays[name].T, c=colors, s=9, linewidths=0)
            in_unit = f" ({unit})" if unit else ""
            ax.set(title=words, aspect="equal", xlabel=f"first latent{in_unit}", ylabel=f"second latent{in_unit}")
            ax.locator_params(nbins=4)
            ax.set_adjustable("box" if name == "position" else "datalim")
        prepare(row[0], room)
    return figure


def score_figure(room: str, arrays: dict[str, np.ndarray], dimensions: Sequence[int]) -> Figure:
    """Figure 10a: a panel per latent size."""
    figure, axes = panels(len(dimensions), 9, 3.3)
    highest = max(float(arrays[f"score_{dim}"].max()) for dim in dimensions)
    for ax, dim in zip(axes, dimensions, strict=True):
        score, true = arrays[f"score_{dim}"], arrays["true"]
        near = score <= float(arrays["radius"])
        ax.plot(true[~near], score[~near], ".", color=BLUE, markersize=1.5, label="farther than the graph's radius")
        ax.plot(true[near], score[near], ".", color=ORANGE, markersize=1.5, label="nearer: predicted neighbours")
        ax.set_ylim(-0.03 * highest, 1.03 * highest)
        ax.axvline(maze.LONGEST_STEP, color="0.5", linewidth=0.8, linestyle=":", label="longest recorded step")
        ax.set(title=f"{ROOM_TITLES[room]}, {dim}-d", xlabel="true distance around walls (m)")
    axes[0].set_ylabel("local metric (steps)")
    legend_below(figure, axes[0], 3, markerscale=5)
    return figure


def connection_figure(parts: Arrays, num_found: dict[str, int]) -> Figure:
    """Figures 10b and 10c: recorded trajectories above, connections below; `num_found` in each room."""
    figure = Figure((2.9 * len(parts) + 0.6, 5.8), layout="constrained")
    axes = figure.subplots(2, len(parts), squeeze=False, sharex=True, sharey=True)
    for column, (room, arrays) in enumerate(parts.items()):
        position, words = arrays["position"], f"{len(arrays['closures']):,} of {num_found[room]:,} found"
        kinds = ("steps", BLUE, "recorded"), ("closures", ORANGE, words)
        for ax, (name, color, words) in zip(axes[:, column], kinds, strict=True):
            ax.add_collection(LineCollection(list(position[arrays[name]]), colors=color, linewidths=0.8, zorder=2))
            ax.plot(position[:, 0], position[:, 1], ".", color=GRAY, markersize=2, zorder=1)
            prepare(ax, room, labels=False)
            ax.set_title(f"{ROOM_TITLES[room]}: {words}", fontsize=10)
        axes[1, column].set_xlabel("x (m)")
    for ax in axes[:, 0]:
        ax.set_ylabel("y (m)")
    return figure


def sampling_figure(room: str, arrays: dict[str, np.ndarray]) -> Figure:
    """Figure 3: a memoryless walk beside search."""
    figure, axes = panels(2, 7, 3.9)
    hops = {name: len(arrays[name]) - 1 for name in ("sampled", "path")}
    revisits = hops["sampled"] + 1 - len(np.unique(arrays["sampled"], axis=0))
    sampling = f"memoryless sampling: {hops['sampled']} hops,\n{revisits} of them to frames seen before"
    search = f"search: {hops['path']} hops,\n{len(arrays['touched'])} frames touched"
    for ax, (name, words, color) in zip(axes, (("sampled", sampling, ORANGE), ("path", search, BLUE)), strict=True):
        ax.plot(*arrays["all"].T, ".", color="0.88", markersize=3, zorder=1, label="frames" if name == "path" else None)
        if name == "path":
            ax.plot(*arrays["touched"].T, ".", color="0.65", markersize=3, zorder=1, label="touched by the search")
        ax.plot(*arrays[name].T, "-", color=color, linewidth=1.2, marker="o", markersize=2.5, zorder=2)
        ax.plot(*arrays[name][0], "s", color="black", markersize=7, zorder=3, label="start")
        ax.plot(*arrays["small_goal"], "*", color="black", markersize=12, zorder=3, label="goal")
        prepare(ax, room)
        ax.set_title(words, fontsize=10)
    legend_below(figure, axes[1], 4)
    return figure


def walk_figure(room: str, arrays: dict[str, np.ndarray]) -> Figure:
    """Figure 10d: moments of a greedy walk. Blue: neighbours. Orange: the next step. Gray: past and current."""
    position = arrays["position"]
    moments = np.unique(np.linspace(0, max(len(position) - 2, 0), NUM_MOMENTS).astype(int))
    figure, axes = panels(len(moments), 2.0 * len(moments) + 0.6, 2.9)
    for ax, now in zip(axes, moments, strict=True):
        around, following = arrays["neighbor"][arrays["neighbor_of"] == now], position[min(now + 1, len(position) - 1)]
        ax.plot(*around.T, ".", color=BLUE, markersize=2, zorder=1, label="neighbours")
        ax.plot(*position[: now + 1].T, "o-", color="0.45", markersize=3, lw=0.8, zorder=2, label="past and current")
        ax.plot(*following, "o", color=ORANGE, markersize=5, zorder=3, label="next")
        ax.plot(*arrays["goal"], "o", color="black", markersize=11, fillstyle="none", zorder=3, label="goal")
        prepare(ax, room, labels=False)
        ax.set_title(f"hop {now}", fontsize=9)
        ax.tick_params(labelsize=7)
        ax.set_xlabel("x (m)", fontsize=8)
        ax.tick_params(labelleft=ax is axes[0])
    axes[0].set_ylabel("y (m)", fontsize=8)
    legend_below(figure, axes[-1], 4)
    return figure


def value_figure(parts: Arrays) -> Figure:
    """Figure 10e: learned distance to a goal in the lower left corner."""
    figure, axes = panels(len(parts), 3.1 * len(parts) + 0.8, 3.2)
    for ax, (room, arrays) in zip(axes, parts.items(), strict=True):
        grid = arrays["grid"]
        size = 2 * maze.REACH / (len(np.unique(grid[:, 0])) - 1)
        x, y = grid.T
        points = ax.scatter(x, y, c=arrays["value"], s=(265 * size) ** 2, marker="s", linewidths=0, cmap="viridis")
        ax.add_patch(Circle(tuple(arrays["goal"]), 0.03, fill=False, linestyle="--", edgecolor="white", linewidth=1.5))
        prepare(ax, room)
        ax.set_title(f"{ROOM_TITLES[room]}: to the circled goal", fontsize=10)
        figure.colorbar(points, ax=ax, label="learned distance (steps)", shrink=0.8)
    return figure
