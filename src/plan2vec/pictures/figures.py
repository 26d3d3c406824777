"""A fitted model as pictures: one function a picture, each returning a matplotlib Figure. No pyplot, so nothing is
global.

A `Scene` says where a picture puts the frames: in the room where true positions are known, else on the metric map.
All lengths are in steps; random choices come from the model's seed, so the same model gives the same pictures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle

from plan2vec.data import Sequences
from plan2vec.domains import find_domain
from plan2vec.domains.maze import Box
from plan2vec.files import replacing
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Model
from plan2vec.planner import Plan
from plan2vec.search.shortest_paths import connected_parts, distances_from

WIDTH, DOTS_PER_INCH = 8.0, 150  # inches; readable when shown 800 pixels wide
BLUE, ORANGE, BLACK, GRAY = "#0072B2", "#D55E00", "#000000", "#B8B8B8"  # Okabe and Ito: told apart by the colour-blind
# [y, x]: blue to orange, dark to light
CORNERS = np.array([[(0.0, 0.22, 0.5), (0.55, 0.17, 0.0)], [(0.34, 0.71, 0.91), (0.96, 0.8, 0.0)]])
MAX_POINTS = 50_000  # frames drawn
MAX_LINES = 3000  # edges drawn a panel
NUM_LONGEST = 40  # edges drawn on top of them, because a false one is long


@dataclass(frozen=True)
class Scene:
    """Where frames are drawn."""

    place: np.ndarray  # (n, 2)
    extent: Box  # what is shown: x_min, x_max, y_min, y_max
    labels: tuple[str, str]  # of the two axes, with units
    words: str  # "at true positions" | "on the metric map"
    walls: tuple[Box, ...] = ()


# ---------------------------------------------------------------------------------------------------- where frames are
# drawn


def scene_of(model: Model) -> Scene:
    return room_scene(model.sequences) or map_scene(model.vectors)


def room_scene(sequences: Sequences) -> Scene | None:
    """True positions, the walls around them where the domain knows any; None where no plane of positions is known."""
    position, domain = sequences.position, find_domain(sequences.domain)
    if position is None or position.shape[1] not in (2, 3) or not np.isfinite(position).all():
        return None
    if domain is None:
        labels = ("position, first coordinate", "position, second coordinate")
        return Scene(position[:, :2], _extent(position[:, :2]), labels, "at true positions")
    extent = domain.extent or _extent(position[:, :2])
    return Scene(
        position[:, :2], extent, (f"x ({domain.unit})", f"y ({domain.unit})"), "at true positions", domain.walls
    )


def map_scene(vectors: np.ndarray) -> Scene:
    """The vectors themselves up to two dimensions, else their first two principal components."""
    if vectors.shape[1] <= 2:
        place = np.pad(vectors, ((0, 0), (0, 2 - vectors.shape[1])))
        second = "vector, second coordinate (steps)" if vectors.shape[1] == 2 else "(the map has one dimension)"
        labels = ["vector, first coordinate (steps)", second]
        return Scene(place, _extent(place), (labels[0], labels[1]), "on the metric map")
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    variance, axes = np.linalg.eigh(centred.T @ centred)  # ascending
    share = variance[::-1] / max(variance.sum(), 1e-12)
    labels = [
        f"{nth} principal component (steps)\n{part:.0%} of variance" for nth,
        part in zip(("1st", "2nd"), share[:2], strict=True)
    ]
    place = centred @ axes[:, :-3:-1]
    return Scene(place, _extent(place), (labels[0], labels[1]), "on the metric map")


def _extent(place: np.ndarray) -> Box:
    """A box around all places, no side shorter than 0.6 of the other."""
    low, high = place.min(axis=0), place.max(axis=0)
    half = np.maximum(high - low, max(0.6 * float((high - low).max()), 1e-6)) * 0.53
    (x, y), (half_x, half_y) = (low + high) / 2, half
    return float(x - half_x), float(x + half_x), float(y - half_y), float(y + half_y)


def _canvas(height: float) -> Figure:
    """An empty figure for axes of equal scales; height in inches."""
    return Figure((WIDTH, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, compress=True))


def _shape(scene: Scene) -> float:
    """Height over width of what a scene shows, at most 1.2."""
    x_min, x_max, y_min, y_max = scene.extent
    return min((y_max - y_min) / (x_max - x_min), 1.2)


def _prepare(ax: Axes, scene: Scene) -> None:
    """Axes with labels, equal scales and walls."""
    ax.set(xlabel=scene.labels[0], ylabel=scene.labels[1])
    for x_min, x_max, y_min, y_max in scene.walls:
        ax.add_patch(
            Rectangle((x_min, y_min), x_max - x_min, y_max - y_min, facecolor="0.75", edgecolor="0.4", zorder=0)
        )
    ax.set_aspect("equal")
    ax.axis(scene.extent)
    ax.locator_params(nbins=5)


def _draw_points(ax: Axes, scene: Scene, colors: np.ndarray | str, **options: object) -> PathCollection:
    """Every frame as a point (above MAX_POINTS an even choice of them)."""
    n = len(scene.place)
    chosen = np.linspace(0, n - 1, min(n, MAX_POINTS)).astype(int)
    points = scene.place[chosen]
    size = np.clip(60_000 / n, 2, 25)
    shown = colors if isinstance(colors, str) else colors[chosen]
    return ax.scatter(points[:, 0], points[:, 1], s=size, c=shown, linewidths=0, **options)  # type: ignore[arg-type]


def place_colors(place: np.ndarray) -> np.ndarray:
    """(n, 3) a colour for every place: from blue to orange along x, from dark to light along y."""
    low, high = place.min(axis=0), place.max(axis=0)
    x, y = ((place - low) / np.maximum(high - low, 1e-12)).T[:, :, None]
    return (1 - y) * ((1 - x) * CORNERS[0, 0] + x * CORNERS[0, 1]) + y * ((1 - x) * CORNERS[1, 0] + x * CORNERS[1, 1])


def index_within(sequence: np.ndarray) -> np.ndarray:
    """(n,) the place of every frame in its own sequence."""
    first = np.flatnonzero(np.diff(sequence, prepend=sequence[0] - 1))
    return np.arange(len(sequence)) - np.repeat(first, np.diff(first, append=len(sequence)))


def frame_name(sequences: Sequences, number: int) -> str:
    """A frame as "sequence:index"."""
    label = sequences.sequence[number]
    return f"{label}:{number - int(np.flatnonzero(sequences.sequence == label)[0])}"


# ---------------------------------------------------------------------------------------------------- map and graph


def map_figure(model: Model) -> Figure:
    """The metric map, coloured by true place beside a key of the room, or by time where no position is known."""
    drawn, room = map_scene(model.vectors), room_scene(model.sequences)
    figure = Figure((WIDTH, 1.1 + (4.4 if room else 5.6) * _shape(drawn)), layout="constrained")
    if room is None:
        ax = figure.subplots()
        points = _draw_points(ax, drawn, index_within(model.sequences.sequence), cmap="viridis")
        figure.colorbar(points, ax=ax, label="frame within its sequence")
    else:
        ax, key = figure.subplots(1, 2, width_ratios=(2, 1))
        colors = place_colors(room.place)
        _draw_points(ax, drawn, colors)
        _draw_points(key, room, colors)
        _prepare(key, room)
        key.set_title("key: true positions", fontsize=10)
        key.locator_params(nbins=3)
    _prepare(ax, drawn)
    ax.set_title(f"metric map of {model.sequences.num_frames:,} frames")
    return figure


def graph_figure(model: Model) -> Figure:
    """Recorded transitions beside found closures; the longest closures on top."""
    scene, graph = scene_of(model), model.graph
    row, column = edge_rows(graph), graph.indices
    once = (row < column) | model.config.directed
    closure = closure_entries(graph, model.sequences.sequence)
    figure = _canvas(1.4 + 3.4 * _shape(scene))
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    panels = (("recorded transitions", once & ~closure, BLUE), ("found closures", (row < column) & closure, BLUE))
    for ax, (words, chosen, color) in zip(axes, panels, strict=True):
        edges = np.stack((row[chosen], column[chosen]), axis=1)  # (m, 2)
        shown = _draw_edges(ax, scene, edges, color, rng_at(model.config.seed, Stream.PICTURES))
        count = f"{len(edges):,}" if shown == len(edges) else f"{shown:,} of {len(edges):,} drawn"
        ax.set_title(f"{words} ({count})", fontsize=10)
        _prepare(ax, scene)
    _draw_longest(axes[1], scene, np.stack((row[panels[1][1]], column[panels[1][1]]), axis=1))
    axes[1].set_ylabel("")
    figure.legend(loc="outside lower right", fontsize=9, frameon=False)
    return figure


def _draw_edges(ax: Axes, scene: Scene, edges: np.ndarray, color: str, rng: np.random.Generator) -> int:
    """At most MAX_LINES random edges as lines; returns how many."""
    chosen = edges if len(edges) <= MAX_LINES else edges[rng.choice(len(edges), MAX_LINES, replace=False)]
    _draw_points(ax, scene, GRAY, zorder=1)
    ax.add_collection(LineCollection(scene.place[chosen], colors=color, linewidths=0.7, alpha=0.6, zorder=2))
    return len(chosen)


def _draw_longest(ax: Axes, scene: Scene, edges: np.ndarray) -> None:
    """The few closures that look longest in this scene: a false one is among them."""
    if not len(edges):
        return
    length = np.linalg.norm(scene.place[edges[:, 0]] - scene.place[edges[:, 1]], axis=1)
    longest = edges[np.argsort(-length, kind="stable")[: min(NUM_LONGEST, 1 + len(edges) // 10)]]
    lines = LineCollection(scene.place[longest], colors=ORANGE, linewidths=1.4, zorder=3)
    lines.set_label(f"the longest closures ({len(longest)} of all {len(edges):,})")
    ax.add_collection(lines)


# ---------------------------------------------------------------------------------------------------- distances


def value_figure(model: Model, goal: int) -> Figure:
    """The learned distance from every frame to one goal."""
    scene = scene_of(model)
    figure = _canvas(5.6)
    ax = figure.subplots()
    points = _draw_points(
        ax, scene, model.distance_between(np.arange(model.sequences.num_frames), goal), cmap="viridis"
    )
    figure.colorbar(points, ax=ax, label="learned distance to the goal (steps)")
    ax.plot(*scene.place[goal], "*", color=ORANGE, markeredgecolor="white", markersize=20)
    _prepare(ax, scene)
    ax.set_title(f"distance to the goal: frame {frame_name(model.sequences, goal)} (star)")
    return figure


def distance_figure(model: Model) -> Figure:
    """Learned distance against the shortest path on the graph, over random pairs of the largest part."""
    exact, learned = _random_pairs(model)
    high = float(max(exact.max(), learned.max())) * 1.02
    figure = _canvas(5.6)
    ax = figure.subplots()
    cells = ax.hexbin(exact, learned, gridsize=60, extent=(0, high, 0, high), mincnt=1, cmap="viridis", linewidths=0.1)
    cells.set_norm(LogNorm(1, max(10, len(exact) // 50)))
    figure.colorbar(cells, ax=ax, label="pairs of frames in a cell")
    ax.plot((0, high), (0, high), color=ORANGE, linewidth=1.5, label="equal")
    ax.set(
        xlabel="shortest path on the graph (steps)", ylabel="learned distance (steps)", aspect="equal", xlim=(0, high),
        ylim=(0, high)
    )
    ax.set_title(f"learned distance against shortest path, {len(exact):,} random pairs")
    ax.legend(loc="upper left", frameon=False)
    return figure


def _random_pairs(model: Model, num_sources: int = 64, num_ends: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """(m,) shortest-path lengths and (m,) learned distances of random pairs that a path joins."""
    rng = rng_at(model.config.seed, Stream.PICTURES)
    part = np.flatnonzero(connected_parts(model.graph)[1] == 0)
    sources = rng.choice(part, min(num_sources, len(part)), replace=False)
    ends = rng.choice(part, (len(sources), num_ends))
    exact = np.take_along_axis(distances_from(model.graph, sources), ends, axis=1).ravel()
    learned = model.distance_between(np.repeat(sources, num_ends), ends.ravel())
    return exact[np.isfinite(exact)], learned[np.isfinite(exact)]


def training_figure(records: list[dict]) -> Figure:
    """Loss against update, one panel a stage, from the lines of metrics.jsonl."""
    losses: dict[str, dict[int, float]] = {}
    for line in records:
        if "loss" in line:
            # a resumed stage repeats updates: the last counts
            losses.setdefault(line["stage"], {})[line["update"]] = line["loss"]
    figure = Figure((WIDTH, 3.6), layout="constrained")
    panels = figure.subplots(1, len(losses), squeeze=False)[0]
    for ax, (stage, curve) in zip(panels, losses.items(), strict=True):
        update, loss = np.array(sorted(curve)), np.array([curve[u] for u in sorted(curve)])
        ax.plot(update, loss, color=BLUE, linewidth=1, marker=".", markersize=4)
        ax.set(xlabel="update", ylabel="loss", title=stage.replace("_", " "))
        if (loss > 0).all():
            ax.set_yscale("log")
    return figure


# ---------------------------------------------------------------------------------------------------- plans


def far_task(model: Model, num: int = 16) -> tuple[int, int]:
    """A start and a goal far apart: of num x num random pairs inside the largest part, the one with the longest
    shortest path.
    """
    rng = rng_at(model.config.seed, Stream.PICTURES)
    part = np.flatnonzero(connected_parts(model.graph)[1] == 0)
    starts, goals = rng.choice(
        part, min(num, len(part)), replace=False
    ), rng.choice(part, min(num, len(part)), replace=False)
    length = distances_from(model.graph, starts)[:, goals]
    start, goal = np.unravel_index(np.argmax(np.where(np.isfinite(length), length, -1)), length.shape)
    return int(starts[start]), int(goals[goal])


def path_figure(model: Model, plans: Sequence[Plan]) -> Figure:
    """Plans of one task as lines, start and goal marked; a plan that failed says why in the legend."""
    scene = scene_of(model)
    figure = _canvas(5.8)
    ax = figure.subplots()
    _draw_points(ax, scene, "0.85", zorder=1)
    looks = ((ORANGE, "-", 2.2), (BLUE, "--", 1.8), (BLACK, ":", 1.8), ("#009E73", "-.", 1.8))
    for plan, (color, dashes, width) in zip(plans, looks, strict=False):
        place = scene.place[plan.nodes or []]
        ax.plot(
            place[:, 0], place[:, 1], dashes, color=color, linewidth=width, marker="o", markersize=4,
            label=plan_words(plan)
        )
    for number, marker, words in ((plans[0].start, "s", "start"), (plans[0].goal, "*", "goal")):
        if number >= 0:
            label = f"{words}: frame {frame_name(model.sequences, number)}"
            ax.plot(*scene.place[number], marker, color=BLACK, markeredgecolor="white", linestyle="", zorder=5,
                    markersize=10 if marker == "s" else 17, label=label)
    _prepare(ax, scene)
    ax.set_title(f"a plan, drawn {scene.words}")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    return figure


def plan_words(plan: Plan) -> str:
    """A plan in a few words: its method, and its length or why it failed."""
    name = "exact shortest path" if plan.method == "dijkstra" else plan.method
    if plan.length is None:
        return f"{name}: no path ({plan.reason.split(';')[0].removeprefix('no path: ')})"
    return f"{name}: {plan.length:.1f} steps, {plan.hops} hops"


def save_figure(figure: Figure, path: Path) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=DOTS_PER_INCH)
