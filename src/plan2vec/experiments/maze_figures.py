"""Claim: the map unrolls the C-Maze where a VAE folds it, and its values lead around walls (Figures 3, 4, 5 and 10a-e).

Expected: rank correlation of 2-d maps with the true way around walls: plan2vec near 1, VAE clearly lower in the C-Maze.

Figure 3: a memoryless walk without a learned distance beside the plan that search finds. Figure 4: the rooms. Figure 5:
2-d maps of a 21 x 21 grid of positions, coloured by position. Figure 10: (a) local metric against true distance, random
pairs and edges of the graph, by latent size; (b) recorded trajectories; (c) some of the closures between them; (d) a
greedy walk around the wall; (e) learned distance to one goal. Maps and graphs are those of Table 1 (10,000 frames for
figures 5, 10d and 10e; the 1,000 fresh ones for 3, 10b and 10c). Pictures show the first seed. *Aliasing*: among random
pairs that the local metric puts within 1.5 steps, the share truly farther apart than three of the longest steps."""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from plan2vec.baselines.registry import MetricScorer
from plan2vec.domains import find_domain, maze
from plan2vec.evaluation import rank_agreement
from plan2vec.experiments.base_scene import Found, SceneExperiment, mean_or_none
from plan2vec.experiments.maze_scene import DOMAINS, ROOM_TITLES, MazeScene, MazeSite
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.local_metric import NEAR
from plan2vec.pictures.figures import BLUE, GRAY, ORANGE, place_colors
from plan2vec.pictures.scene import Scene, draw_axes
from plan2vec.planner import Distance, make_plan, walk_many
from plan2vec.results.comparisons import Figures, facts, legend_below, panels
from plan2vec.results.rows import Arrays, Row, in_order, pictured, select
from plan2vec.search.balls import neighbor_lists
from plan2vec.validity import straight_line

DIMENSIONS = (2, 8, 32)  # of the local metric, Figure 10a
GRID, FINE = 21, 49  # positions per side: Figure 5, Figure 10e
NUM_PAIRS, NUM_CLOSURES = 3000, 1500  # drawn
NUM_MOMENTS = 6  # panels of the walk
TICKS = (-0.2, 0, 0.2)  # metres


def free_grid(room: str, num: int) -> np.ndarray:
    """(m, 2) the positions of a num x num grid that the block can take."""
    side = np.linspace(-maze.REACH, maze.REACH, num)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    return grid[maze.is_free(maze.ROOMS[room], grid)]


def embedding(scene: MazeScene) -> Found:
    position = free_grid(scene.domain, GRID)
    frames = maze.render(maze.ROOMS[scene.domain], position)
    vectors = {"plan2vec": scene.train_map(scene.large, replace(scene.config, dim=2, norm_order=2.0)).vectors(frames),
               "VAE": scene.baseline("VAE 2-d").vectors(frames)}
    first, second = np.triu_indices(len(position), 1)
    true = maze.geodesic(scene.domain, position[first], position[second])
    return vectors | {"position": position} | {
        f"spearman_{name}": rank_agreement(straight_line(v[first], v[second]), true) for name, v in vectors.items()}


def local_metric(scene: MazeScene) -> Found:
    """Figure 10a: scores of random pairs against their true distance; of those that look near the share that is far."""
    site = scene.small
    pairs = rng_at(scene.seed, Stream.SCORED_PAIRS).integers(len(site.frames), size=(2, NUM_PAIRS))
    edges = np.stack((edge_rows(site.graph), site.graph.indices))  # random pairs alone are rarely near
    shown = rng_at(scene.seed, Stream.SCORED_EDGES).integers(edges.shape[1], size=NUM_PAIRS // 4)
    first, second = np.append(pairs, edges[:, shown], axis=1)
    found: Found = {"true": site.truth.between(first, second), "radius": np.array(site.radius)}
    for dim in DIMENSIONS:
        config = replace(scene.config, local_metric=replace(scene.config.local_metric, dim=dim))
        distance = MetricScorer(scene.train_metric(scene.recordings, config).metric, scene.device).on(site.frames)
        one, other = rng_at(scene.seed, Stream.ALIASING).integers(len(site.frames), size=(2, 200_000))
        near = (distance(one, other) < NEAR) & (one != other)
        aliasing = mean_or_none(site.truth.between(one[near], other[near]) > 3 * maze.LONGEST_STEP)
        found |= {f"aliasing_{dim}": aliasing, f"score_{dim}": distance(first, second)}
    return found


def connections(scene: MazeScene) -> Found:
    site = scene.small
    edges = np.stack((edge_rows(site.graph), site.graph.indices), axis=1)
    closure = closure_entries(site.graph, site.sequences.sequence)
    steps, closures = (edges[is_kind & (edges[:, 0] < edges[:, 1])] for is_kind in (~closure, closure))
    shown = rng_at(scene.seed, Stream.SHOWN_CLOSURES).permutation(len(closures))[:NUM_CLOSURES]
    return {"recorded_steps": len(steps), "closures": len(closures), "num_closures": np.array(len(closures)),
            "position": site.position, "steps": steps, "shown_closures": closures[shown],
            "false_edge_share": site.numbers["false_edge_share"]}


def walk(scene: MazeScene) -> Found:
    """Figures 3, 10d and 10e, between the ends of the C: memoryless walk, search, greedy walk and value map."""
    site = scene.large
    (start, goal), grid = ends_of_c(site), free_grid(scene.domain, FINE)
    learned = scene.train_map(site, scene.config)
    greedy = walk_between(site, learned.on(site.frames), start, goal)
    owner, neighbor = neighbor_lists(site.graph, greedy)
    frames = np.concatenate((maze.render(maze.ROOMS[scene.domain], grid), site.frames[goal][None]))
    value = learned.on(frames)(np.arange(len(grid)), np.full(len(grid), len(grid)))
    away = np.linalg.norm(site.position[greedy[-1]] - site.position[goal])
    return {"hops": len(greedy) - 1, "reached": away < maze.LONGEST_STEP, "position": site.position[greedy],
            "neighbor_of": owner, "neighbor": site.position[neighbor], "goal": site.position[goal], "grid": grid,
            "value": value} | sampling_and_search(scene.small)


def sampling_and_search(site: MazeSite) -> dict[str, np.ndarray]:
    """Figure 3: 50 random hops, and the shortest path with all frames that the search touched."""
    start, goal = ends_of_c(site)
    rng, position = rng_at(site.scene.seed, Stream.SAMPLED_WALK), site.position
    sampled = walk_between(site, lambda nodes, goals: rng.random(len(nodes)), start, goal)
    found = make_plan(site.graph, site.straight_distance(), start, goal, "dijkstra")
    return {"all": position, "sampled": position[sampled], "path": position[found.nodes or [start]],
            "touched": position[sorted(found.touched)], "small_goal": position[goal]}


def ends_of_c(site: MazeSite) -> list[int]:
    return [int(np.linalg.norm(site.position - place, axis=1).argmin()) for place in ((-0.2, 0.2), (-0.2, -0.2))]


def walk_between(site: MazeSite, distance: Distance, start: int, goal: int) -> np.ndarray:
    """(hops + 1,) a memoryless walk until the goal itself, of at most 50 hops."""
    starts, goals, max_hops = np.array([[start], [goal], [maze.SUCCESS.max_hops]])
    rng = rng_at(site.scene.seed, Stream.SHOWN_WALK)
    nodes, _ = walk_many(site.graph, distance, starts, goals, max_hops, 0.0, False, np.equal, rng)
    return nodes[nodes[:, 0] >= 0, 0]


def table(rows: list[Row]) -> list[str]:
    agrees = "rank correlation with the true way"
    shown = (("spearman_plan2vec", f"2-d plan2vec: {agrees}", 3), ("spearman_VAE", f"2-d VAE: {agrees}", 3),
             *((f"aliasing_{dim}", f"local metric {dim}-d: aliasing, share", 4) for dim in DIMENSIONS),
             ("recorded_steps", "recorded steps of the small graph", 0), ("closures", "closures found", 0),
             ("hops", "hops of the walk in 10d", 1))
    return facts(rows, shown, {ROOM_TITLES[room]: {"domain": room} for room in in_order(rows, "domain", DOMAINS)})


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    yield "4-rooms", rooms_figure()
    by_room = {room: pictured(select(rows, domain=room), arrays) for room in DOMAINS}
    for method, (_, drawn) in METHODS.items():
        if parts := {room: known[method] for room, known in by_room.items() if method in known}:
            yield from ((name, figure_of(parts)) for name, figure_of in drawn.items())


def prepare(ax: Axes, room: str, title: str, labels: bool = True) -> None:
    domain = find_domain(room)
    assert domain is not None and domain.extent is not None
    draw_axes(ax, Scene(np.empty((0, 2)), ("x (m)", "y (m)") if labels else ("", ""), "", domain.extent, domain.walls))
    ax.set(xticks=TICKS, yticks=TICKS)
    ax.set_title(title, fontsize=10)


def rooms_figure() -> Figure:
    figure, axes = panels(len(DOMAINS), 8, 3.6)
    agent, goal, half = (-0.16, 0.18), (-0.16, -0.18), maze.HALF_EXTENT
    for ax, room in zip(axes, DOMAINS, strict=True):
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
    figure, axes = panels(3 * len(parts), 8.4, 2.9 * len(parts), len(parts))
    for row, (room, arrays) in zip(np.array(axes).reshape(-1, 3), parts.items(), strict=True):
        colors = place_colors(arrays["position"])
        for ax, (name, unit) in zip(row, (("position", ""), ("plan2vec", " (steps)"), ("VAE", "")), strict=True):
            ax.scatter(*arrays[name].T, c=colors, s=9, linewidths=0)
            ax.set_title(name, fontsize=10)
            ax.set(aspect="equal", xlabel=f"first latent{unit}", ylabel=f"second latent{unit}")
            ax.locator_params(nbins=4)
            ax.set_adjustable("box" if name == "position" else "datalim")
        prepare(row[0], room, ROOM_TITLES[room])
    return figure


def score_figure(parts: Arrays) -> Figure:
    *_, (room, arrays) = parts.items()  # where a single room is shown: the C if it is at hand, as in the paper
    figure, axes = panels(len(DIMENSIONS), 9, 3.3)
    highest = max(float(arrays[f"score_{dim}"].max()) for dim in DIMENSIONS)
    for ax, dim in zip(axes, DIMENSIONS, strict=True):
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


def connection_figure(parts: Arrays) -> Figure:
    figure = Figure((2.9 * len(parts) + 0.6, 5.8), layout="constrained")
    axes = figure.subplots(2, len(parts), squeeze=False, sharex=True, sharey=True)
    for column, (room, arrays) in zip(axes.T, parts.items(), strict=True):
        position = arrays["position"]
        found = f"{len(arrays['shown_closures']):,} of {arrays['num_closures']:,} found"
        kinds = ("steps", BLUE, "recorded"), ("shown_closures", ORANGE, found)
        for ax, (name, color, words) in zip(column, kinds, strict=True):
            ax.add_collection(LineCollection(list(position[arrays[name]]), colors=color, linewidths=0.8, zorder=2))
            ax.plot(position[:, 0], position[:, 1], ".", color=GRAY, markersize=2, zorder=1)
            prepare(ax, room, f"{ROOM_TITLES[room]}: {words}", labels=False)
    figure.supxlabel("x (m)", fontsize=10)
    figure.supylabel("y (m)", fontsize=10)
    return figure


def sampling_figure(parts: Arrays) -> Figure:
    (figure, axes), (*_, (room, arrays)) = panels(2, 7, 3.9), parts.items()
    num, num_distinct = len(arrays["sampled"]), len(np.unique(arrays["sampled"], axis=0))
    sampling = f"memoryless sampling: {num - 1} hops,\n{num - num_distinct} of them to frames seen before"
    search = f"search: {len(arrays['path']) - 1} hops,\n{len(arrays['touched'])} frames touched"
    for ax, (name, words, color) in zip(axes, (("sampled", sampling, ORANGE), ("path", search, BLUE)), strict=True):
        ax.plot(*arrays["all"].T, ".", color="0.88", markersize=3, zorder=1, label="frames")
        ax.plot(*arrays[name].T, "-", color=color, linewidth=1.2, marker="o", markersize=2.5, zorder=2)
        ax.plot(*arrays[name][0], "s", color="black", markersize=7, zorder=3, label="start")
        ax.plot(*arrays["small_goal"], "*", color="black", markersize=12, zorder=3, label="goal")
        prepare(ax, room, words)
    axes[1].plot(*arrays["touched"].T, ".", color="0.65", markersize=3, zorder=1, label="touched by the search")
    legend_below(figure, axes[1], 4)
    return figure


def walk_figure(parts: Arrays) -> Figure:
    *_, (room, arrays) = parts.items()
    position = arrays["position"]
    moments = np.unique(np.linspace(0, max(len(position) - 2, 0), NUM_MOMENTS).astype(int))
    figure, axes = panels(len(moments), 2.0 * len(moments) + 0.6, 2.9)
    for ax, now in zip(axes, moments, strict=True):
        around, following = arrays["neighbor"][arrays["neighbor_of"] == now], position[min(now + 1, len(position) - 1)]
        ax.plot(*around.T, ".", color=BLUE, markersize=2, zorder=1, label="neighbours")
        ax.plot(*position[: now + 1].T, "o-", color="0.45", markersize=3, lw=0.8, zorder=2, label="past and current")
        ax.plot(*following, "o", color=ORANGE, markersize=5, zorder=3, label="next")
        ax.plot(*arrays["goal"], "o", color="black", markersize=11, fillstyle="none", zorder=3, label="goal")
        prepare(ax, room, f"hop {now}", labels=False)
        ax.tick_params(labelsize=7, labelleft=ax is axes[0])
        ax.set_xlabel("x (m)", fontsize=8)
    axes[0].set_ylabel("y (m)", fontsize=8)
    legend_below(figure, axes[-1], 4)
    return figure


def value_figure(parts: Arrays) -> Figure:
    figure, axes = panels(len(parts), 3.1 * len(parts) + 0.8, 3.2)
    for ax, (room, arrays) in zip(axes, parts.items(), strict=True):
        grid = arrays["grid"]
        size, (x, y) = 2 * maze.REACH / (len(np.unique(grid[:, 0])) - 1), grid.T
        points = ax.scatter(x, y, c=arrays["value"], s=(265 * size) ** 2, marker="s", linewidths=0, cmap="viridis")
        ax.add_patch(Circle(tuple(arrays["goal"]), 0.03, fill=False, linestyle="--", edgecolor="white", linewidth=1.5))
        prepare(ax, room, f"{ROOM_TITLES[room]}: to the circled goal")
        figure.colorbar(points, ax=ax, label="learned distance (steps)", shrink=0.8)
    return figure


METHODS = {  # what makes it, and figures of its arrays
    "embedding": (embedding, {"5-embedding": embedding_figure}),
    "local metric": (local_metric, {"10a-local-metric": score_figure}),
    "connections": (connections, {"10bc-connections": connection_figure}),
    "walk": (walk, {"10e-value": value_figure, "3-sampling": sampling_figure, "10d-walk": walk_figure})}
EXPERIMENT = SceneExperiment("maze-figures", "Figures 3, 4, 5 and 10: what is learned in the mazes", __doc__,
                             lambda scene, name: METHODS[name][0](scene), table, draw, DOMAINS, METHODS, (), MazeScene)
