"""Where a picture draws the frames: in the room where true positions are known, else on the metric map."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.patches import Rectangle
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from plan2vec.data import Sequences
from plan2vec.domains import find_domain
from plan2vec.domains.maze import Box
from plan2vec.embedding.classical_scaling import landmark_vectors
from plan2vec.model import Model

MAX_POINTS = 50_000  # frames drawn
LANDMARKS, LANDMARK_EDGES = 48, 10**8  # frames whose shortest paths lay out a graph; edges that all of them may cost


@dataclass(frozen=True)
class Scene:
    points: np.ndarray  # (n, 2), or (n, 3) in the explorer
    labels: tuple[str, ...]  # of the axes, with units
    words: str  # "at true positions" | "on the metric map"
    extent: Box  # of the first two axes: x_min, x_max, y_min, y_max
    walls: tuple[Box, ...] = ()
    share: float = 1.0  # of the map's variance that is shown

    @property
    def height(self) -> float:
        """Height over width of what is shown, at most 1.2."""
        x_min, x_max, y_min, y_max = self.extent
        return min((y_max - y_min) / (x_max - x_min), 1.2)


def scene_of(model: Model) -> Scene:
    return room_scene(model.sequences) or map_scene(model.vectors)


def room_scene(sequences: Sequences) -> Scene | None:
    """True positions, the walls around them where the domain knows any; None where no plane of positions is known."""
    position, domain = sequences.position, find_domain(sequences.domain)
    if position is None or position.shape[1] not in (2, 3) or not np.isfinite(position).all():
        return None
    points, words = position[:, :2], "at true positions"
    if domain is None:
        return Scene(points, ("position, first coordinate", "position, second coordinate"), words, _extent(points))
    labels = f"x ({domain.unit})", f"y ({domain.unit})"
    return Scene(points, labels, words, domain.extent or _extent(points), domain.walls)


def map_scene(vectors: np.ndarray, num_axes: int = 2) -> Scene:
    """The vectors themselves where they have no more than `num_axes` dimensions, else their principal components."""
    dim, axes, shown = vectors.shape[1], range(1, num_axes + 1), 1.0
    if dim <= num_axes:
        points = np.pad(vectors, ((0, 0), (0, num_axes - dim)))
        labels = [f"coordinate {k} of the map (steps)" if k <= dim else f"(the map is {dim}-d)" for k in axes]
    else:
        centred = vectors.astype(np.float64) - vectors.mean(axis=0)
        variance, directions = np.linalg.eigh(centred.T @ centred)  # ascending
        points = centred @ directions[:, ::-1][:, :num_axes]
        share = variance[::-1][:num_axes] / max(variance.sum(), 1e-12)
        shown = float(share.sum())
        # without a unit: where the head's distance is not Euclid's, lengths along them are no steps
        labels = [f"principal component {k}\n{share[k - 1]:.0%} of variance" for k in axes]
    return Scene(points, tuple(labels), "on the metric map", _extent(points), share=shown)


def graph_scene(graph: csr_array, directed: bool = False) -> Scene:
    """Frames where their shortest paths to some landmarks put them; parts of the graph stand side by side."""
    num_parts, part = connected_components(graph, directed=False)
    members = np.split(np.argsort(part, kind="stable"), np.cumsum(np.bincount(part, minlength=num_parts))[:-1])
    boxes = [(frames, _part_layout(graph, frames, directed)) for frames in members]
    boxes.sort(key=lambda box: float(np.ptp(box[1][:, 1])), reverse=True)  # the highest first
    sides = np.array([np.ptp(laid, axis=0) for _, laid in boxes])
    gap = 0.06 * max(float(sides.max()), 1.0)
    width = 1.6 * np.sqrt((sides + gap).prod(axis=1).sum())
    points, left, top, shelf = np.empty((graph.shape[0], 2)), 0.0, 0.0, 0.0
    for (frames, laid), (wide, high) in zip(boxes, sides, strict=True):
        if left and left + wide > width:
            left, top, shelf = 0.0, top - shelf - gap, 0.0
        points[frames] = laid - (laid.min(axis=0)[0], laid.max(axis=0)[1]) + (left, top)
        left, shelf = left + wide + gap, max(shelf, high)
    return Scene(points, ("laid out by shortest paths (steps)", "steps"), "laid out by shortest paths", _extent(points))


def _part_layout(graph: csr_array, frames: np.ndarray, directed: bool) -> np.ndarray:
    """(m, 2) places of the frames of one part: the two main directions of their distances to landmarks."""
    if len(frames) < 3:
        return np.stack((np.arange(len(frames)), np.zeros(len(frames))), axis=1).astype(float)
    inside = graph if len(frames) == graph.shape[0] else graph[frames][:, frames]
    num = min(len(frames), LANDMARKS, max(8, LANDMARK_EDGES // max(inside.nnz, 1)))
    landmarks = np.random.default_rng(0).choice(len(frames), num, replace=False)
    return landmark_vectors(dijkstra(inside, directed=not directed, indices=landmarks), landmarks, 2).astype(float)


def _extent(points: np.ndarray) -> Box:
    low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    half = np.maximum(high - low, max(0.6 * float((high - low).max()), 1e-6)) * 0.53
    (x, y), (half_x, half_y) = (low + high) / 2, half
    return float(x - half_x), float(x + half_x), float(y - half_y), float(y + half_y)


def draw_axes(ax: Axes, scene: Scene, title: str = "") -> None:
    ax.set(xlabel=scene.labels[0], ylabel=scene.labels[1], title=title)
    for x_min, x_max, y_min, y_max in scene.walls:
        size = (x_max - x_min, y_max - y_min)
        ax.add_patch(Rectangle((x_min, y_min), *size, facecolor="0.75", edgecolor="0.4", zorder=0))
    ax.set_aspect("equal")
    ax.axis(scene.extent)
    ax.locator_params(nbins=5)


def even_choice(num: int, most: int) -> np.ndarray:
    """At most `most` of the numbers 0 to num - 1, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, num - 1, min(num, most)).round().astype(int))


def draw_points(ax: Axes, scene: Scene, colors: np.ndarray | str, **options: object) -> PathCollection:
    """Every frame as a point (above MAX_POINTS an even choice of them)."""
    n, chosen = len(scene.points), even_choice(len(scene.points), MAX_POINTS)
    colors = colors if isinstance(colors, str) else colors[chosen]
    x, y = scene.points[chosen].T
    return ax.scatter(x, y, s=np.clip(60_000 / n, 2, 25), c=colors, linewidths=0, **options)  # type: ignore[arg-type]
