"""Frames as points: where they lie, their colours, as plain Plotly figures with their numbers in compact binary form.
"""

import base64
from dataclasses import dataclass

import numpy as np

from plan2vec.explorer.session import Session
from plan2vec.pictures.figures import Scene, index_within, place_colors

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")  # Okabe and Ito
NUM_CELLS = 12  # colours along each axis of the room
TITLES = {
    "time": "frame within its sequence", "distance": "learned distance to the goal (steps)",
    "component": "part of the graph (0 is the largest, 7 and smaller)",
}
Scale = list[list[float | str]]


@dataclass(frozen=True)
class Places:
    """Where the map puts the frames."""

    place: np.ndarray  # (n, 2) or (n, 3) float32, steps
    labels: list[str]  # of the axes
    words: str  # the latent itself or which projection


def map_places(vectors: np.ndarray, num_axes: int) -> Places:
    """The vectors themselves where their dimension fits, else their first principal components."""
    dim = vectors.shape[1]
    if dim <= num_axes:
        place = np.pad(vectors, ((0, 0), (0, num_axes - dim)))
        return Places(
            place.astype(np.float32), [f"coordinate {k + 1} (steps)" for k in range(num_axes)],
            f"the {dim}-d latent itself, no projection"
        )
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    variance, axes = np.linalg.eigh(centred.T @ centred)  # ascending
    share = float(variance[::-1][:num_axes].sum() / max(variance.sum(), 1e-12))
    words = f"{num_axes} principal components of {dim}-d, {share:.0%} of variance"
    labels = [f"principal component {k + 1} (steps)" for k in range(num_axes)]
    return Places((centred @ axes[:, ::-1][:, :num_axes]).astype(np.float32), labels, words)


def map_figure(session: Session, axes: str, marker: dict) -> dict:
    """The metric map: trace 0 holds every frame; in 3-d traces 1 and 2 are the plan and the frames it touched."""
    num_axes = 3 if axes == "3-d" else 2
    places = map_places(session.model.vectors, num_axes)
    layout = _layout(f"map-{axes}")
    if num_axes == 2:
        return {"data": [_points(places.place, marker)], "layout": layout | _flat_axes(places.labels)}
    names = zip(("xaxis", "yaxis", "zaxis"), places.labels, strict=True)
    layout["scene"] = {name: {"title": {"text": label}} for name, label in names} | {"aspectmode": "data"}
    return {"data": [_points(places.place, marker), *_spatial_overlays()], "layout": layout}


def room_figure(scene: Scene, marker: dict) -> dict:
    """The true positions, with walls where the domain knows them."""
    walls = [
        {
            "type": "rect", "x0": x_min, "x1": x_max, "y0": y_min, "y1": y_max, "layer": "below", "fillcolor": "#bbb",
            "line": {"width": 0}
        } for x_min, x_max, y_min, y_max in scene.walls
    ]
    layout = _layout("room") | _flat_axes(scene.labels) | {"shapes": walls}
    x_min, x_max, y_min, y_max = scene.extent
    layout["xaxis"]["range"], layout["yaxis"]["range"] = [x_min, x_max], [y_min, y_max]
    return {"data": [_points(scene.place.astype(np.float32), marker | {"showscale": False})], "layout": layout}


def _points(place: np.ndarray, marker: dict) -> dict:
    """One trace of all frames."""
    axes = {name: typed(column) for name, column in zip("xyz", place.T, strict=False)}
    spatial = place.shape[1] == 3
    size = 2 if spatial or len(place) > 60_000 else 3 if len(place) > 20_000 else 4
    kind = "scatter3d" if spatial else "scattergl"
    return {"type": kind, "mode": "markers", "hoverinfo": "none", "marker": {"size": size} | marker, **axes}


def _spatial_overlays() -> list[dict]:
    line = {"type": "scatter3d", "mode": "lines+markers", "hoverinfo": "skip", "x": [], "y": [], "z": []}
    plan = line | {"line": {"width": 6, "color": "#000"}, "marker": {"size": 4, "color": "#000"}}
    return [plan, line | {"mode": "markers", "marker": {"size": 3, "color": "#D55E00"}}]


def _layout(revision: str) -> dict:
    return {
        "uirevision": revision, "hovermode": "closest", "dragmode": "pan", "showlegend": False, "plot_bgcolor": "#fff",
        "margin": {"l": 52, "r": 8, "t": 8, "b": 42},
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#1c1c1c"}
    }


def _flat_axes(labels: tuple[str, str] | list[str]) -> dict:
    """Two axes of equal scale."""
    common = {"zeroline": False, "gridcolor": "#eee", "nticks": 6}
    x, y = ({"title": {"text": label.replace("\n", ", "), "standoff": 6}} | common for label in labels)
    return {"xaxis": x, "yaxis": y | {"scaleanchor": "x"}}


def typed(array: np.ndarray) -> dict:
    """An array as Plotly's typed array: its bytes instead of text, about a third of the size and quickly read."""
    kinds = {"float32": "f4", "int32": "i4"}
    return {
        "dtype": kinds[array.dtype.name], "bdata": base64.b64encode(np.ascontiguousarray(array).data).decode("ascii")
    }


# ---------------------------------------------------------------------------------------------------- colours


def marker_of(session: Session, color: str, goal: int | None) -> dict:
    """The colours of all frames, as the `marker` of a trace."""
    if (color == "distance" and goal is None) or (color == "position" and session.room is None):
        return {"color": "#9a9a9a", "showscale": False}
    if color == "position" and session.room is not None:
        values, scale = _place_cells(session.room.place)
        return _marker(values, scale, (0, NUM_CELLS**2 - 1), None)
    if color in ("sequence", "component"):
        label = np.unique(
            session.sequences.sequence, return_inverse=True
        )[1] if color == "sequence" else session.parts()
        shown = label % len(PALETTE) if color == "sequence" else np.minimum(label, len(PALETTE) - 1)
        return _marker(
            shown, _steps(PALETTE), (-0.5, len(PALETTE) - 0.5), TITLES[color] if color == "component" else None
        )
    if color == "distance" and goal is not None:
        values = session.model.distance_between(np.arange(session.num_frames), goal)
    else:
        values = index_within(session.sequences.sequence)
    return _marker(values, "Viridis", (float(values.min()), float(values.max())), TITLES[color])


def _marker(values: np.ndarray, scale: Scale | str, limits: tuple[float, float], title: str | None) -> dict:
    bar = {"title": {"text": title, "side": "right"}, "thickness": 12, "len": 0.9}
    shown = {"showscale": True, "colorbar": bar} if title else {"showscale": False}
    return {
        "color": typed(values.astype(np.float32)), "colorscale": scale, "cmin": limits[0], "cmax": limits[1], **shown
    }


def _steps(colors: tuple[str, ...] | list[str]) -> Scale:
    """A colour scale of equal steps without blending."""
    edges = np.linspace(0, 1, len(colors) + 1).tolist()
    return [[edge, color] for k, color in enumerate(colors) for edge in edges[k : k + 2]]


def _place_cells(place: np.ndarray) -> tuple[np.ndarray, Scale]:
    """(n,) the cell of a grid over the room that a frame lies in, and a colour for each cell, as the report has them.
    """
    low, high = place.min(axis=0), place.max(axis=0)
    cell = np.minimum((place - low) / np.maximum(high - low, 1e-12) * NUM_CELLS, NUM_CELLS - 1).astype(int)  # (n, 2)
    y, x = np.divmod(np.arange(NUM_CELLS**2), NUM_CELLS)
    colors = place_colors(np.stack((x, y), axis=1).astype(float))
    names = ["#{:02x}{:02x}{:02x}".format(*np.clip(color * 255, 0, 255).astype(int)) for color in colors]
    numbers = np.arange(len(names)) / (len(names) - 1)
    return cell[:, 1] * NUM_CELLS + cell[:, 0], [[float(k), name] for k, name in zip(numbers, names, strict=True)]
