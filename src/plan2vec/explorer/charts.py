"""Frames as points and their colours: plain Plotly figures whose numbers travel in compact binary form."""

import base64

import numpy as np

from plan2vec.data import index_within
from plan2vec.explorer.session import LEAST_SHARE, NUM_AXES, Session
from plan2vec.pictures.figures import NUM_THUMBNAILS, far_points, is_image
from plan2vec.pictures.palette import ORANGE, PALETTE, place_colors
from plan2vec.pictures.scene import Scene

NUM_CELLS = 12  # colours along each axis of the room
TITLES = {"time": "frame within its sequence", "distance": "learned distance to the goal (steps)",
          "component": "part of the graph (0 is the largest, 7 and smaller)"}
DARK_GRAY = "#777777"  # seen on light and on dark pages; text is coloured by the style sheet
COLORS = (*PALETTE[:-1], DARK_GRAY)
STEPS = [[(k + end) / len(COLORS), color] for k, color in enumerate(COLORS) for end in (0, 1)]  # without blending
CLEAR = "rgba(0,0,0,0)"


def map_figure(session: Session, axes: str, marker: dict) -> dict:
    """The metric map: trace 0 holds every frame; in 3-d those follow that explorer.js fills."""
    scene, layout = session.scene(axes), _layout(f"map-{axes}")
    points = _points(scene.points, marker)
    if NUM_AXES[axes] == 2:
        pictures = far_points(scene.points, NUM_THUMBNAILS) if is_image(session.sequences) else []
        return {"data": [points], "layout": layout | _flat_axes(scene.labels) | {"meta": {"pictures": pictures}}}
    names = zip(("xaxis", "yaxis", "zaxis"), scene.labels, strict=True)
    layout["scene"] = {name: {"title": {"text": _one_line(label)}} for name, label in names} | {
        "aspectmode": "data", "camera": {"eye": {"x": 1.7, "y": 1.7, "z": 1.2}, "center": {"x": 0, "y": 0, "z": -0.15}}}
    # not "turntable": Plotly then ignores a drag for half a second after each redraw, and every hover redraws
    layout |= {"dragmode": "orbit", "margin": {"l": 0, "r": 0, "t": 0, "b": 0}}
    empty = {"type": "scatter3d", "hoverinfo": "skip", "x": [], "y": [], "z": []}
    hop = empty | {"mode": "lines+markers", "marker": {"size": 3}}
    hops = [hop | {"line": {"width": 6, "dash": dash}} for dash in ("solid", "dash", "dot")]
    touched = empty | {"mode": "markers", "marker": {"size": 1.5, "color": ORANGE}}
    ends = empty | {"mode": "markers+text", "text": [], "textfont": {"size": 18}, "marker": {"size": 6}}
    before = empty | {"mode": "lines", "line": {"width": 3, "dash": "dot"}}
    here = empty | {"mode": "lines+markers", "line": {"width": 4}, "marker": {"size": 2}}
    closures = empty | {"mode": "lines", "line": {"width": 3}}
    return {"data": [points, touched, *hops, ends, before, here, closures], "layout": layout}


def map_words(session: Session, axes: str, no_goal: bool = False) -> str:
    """Whether the page shows the map itself or a projection of it; `no_goal`: colours that wait for one."""
    num_axes, dim = NUM_AXES[axes], session.model.vectors.shape[1]
    wait = " - gray until a goal is set" if no_goal else ""
    if axes == "graph":
        num = session.model.parts[0]
        apart = f"; {num:,} parts stand side by side" if num > 1 else ""
        return f"{wait} - laid out by shortest paths on the graph{apart}"
    if dim <= num_axes:
        return f"{wait} - the {dim}-d map itself, no projection"
    share = session.scene(axes).share
    doubt = "" if share >= LEAST_SHARE else " only: what looks near here may be far; see layout: graph"
    return f"{wait} - {num_axes} principal components of {dim}-d, {share:.0%} of variance{doubt}"


def room_figure(scene: Scene, marker: dict) -> dict:
    """The true positions, with walls where the domain knows them."""
    wall = {"type": "rect", "layer": "below", "fillcolor": "rgba(128,128,128,0.5)", "line": {"width": 0}}
    walls = [wall | dict(zip(("x0", "x1", "y0", "y1"), box, strict=True)) for box in scene.walls]
    layout = _layout("room") | _flat_axes(scene.labels) | {"shapes": walls}
    layout["xaxis"]["range"], layout["yaxis"]["range"] = [*scene.extent[:2]], [*scene.extent[2:]]
    return {"data": [_points(scene.points, marker | {"showscale": False})], "layout": layout}


def _points(points: np.ndarray, marker: dict) -> dict:
    axes = {name: typed(column) for name, column in zip("xyz", points.T, strict=False)}
    kind = "scattergl" if points.shape[1] == 2 else "scatter3d"
    size = 2 if points.shape[1] == 3 or len(points) > 60_000 else 3 if len(points) > 20_000 else 4
    return {"type": kind, "mode": "markers", "hoverinfo": "none", "marker": {"size": size} | marker, **axes}


def _layout(revision: str) -> dict:
    return {"uirevision": revision, "hovermode": "closest", "dragmode": "pan", "showlegend": False,
            "plot_bgcolor": CLEAR, "paper_bgcolor": CLEAR, "margin": {"l": 52, "r": 8, "t": 8, "b": 42},
            "font": {"family": "system-ui, sans-serif", "size": 12, "color": DARK_GRAY}}


def _flat_axes(labels: tuple[str, ...]) -> dict:
    common = {"zeroline": False, "gridcolor": "rgba(128,128,128,0.18)", "nticks": 6}
    x, y = ({"title": {"text": _one_line(label), "standoff": 6}} | common for label in labels)
    return {"xaxis": x, "yaxis": y | {"scaleanchor": "x"}}


def _one_line(label: str) -> str:
    """Short enough for a small plot; the heading says whose components they are, and what the share is of."""
    return label.replace("\n", ", ").removeprefix("principal ").removesuffix(" of variance")


def typed(array: np.ndarray) -> dict:
    """An array as Plotly's typed array of float32: bytes instead of text, a third of the size and quickly read."""
    return {"dtype": "f4", "bdata": base64.b64encode(np.ascontiguousarray(array, np.float32).data).decode("ascii")}


def marker_of(session: Session, color: str, goal: int | None) -> dict:
    """The colours of all frames, as the `marker` of a trace."""
    limits = (-0.5, len(COLORS) - 0.5)
    if color == "sequence":
        labels = np.unique(session.sequences.sequence, return_inverse=True)[1] % len(COLORS)
        return _marker(labels, STEPS, limits, None)
    if color == "component":
        return _marker(np.minimum(session.model.parts[1], len(COLORS) - 1), STEPS, limits, TITLES[color])
    if color == "position" and session.room is not None:
        cells, scale = _room_cells(session.room.points)
        return _marker(cells, scale, (0, NUM_CELLS**2 - 1), None)
    if color == "time":
        values = index_within(session.sequences.sequence)
    elif color == "distance" and goal is not None:
        values = session.model.distance_between(np.arange(session.num_frames), goal)
    else:
        return {"color": "#9a9a9a", "showscale": False}
    return _marker(values, "Viridis", (float(values.min()), float(values.max())), TITLES[color])


def _marker(values: np.ndarray, scale: list | str, limits: tuple[float, float], title: str | None) -> dict:
    bar = {"title": {"text": title, "side": "right"}, "thickness": 12, "len": 0.9}
    colors = {"color": typed(values), "colorscale": scale, "cmin": limits[0], "cmax": limits[1]}
    return colors | ({"showscale": True, "colorbar": bar} if title else {"showscale": False})


def _room_cells(points: np.ndarray) -> tuple[np.ndarray, list]:
    """(n,) the cell of a grid over the room that a frame lies in, and a colour for each cell, as in the report."""
    low, high = points.min(axis=0), points.max(axis=0)
    cell = np.minimum((points - low) / np.maximum(high - low, 1e-12) * NUM_CELLS, NUM_CELLS - 1).astype(int)  # (n, 2)
    y, x = np.divmod(np.arange(NUM_CELLS**2), NUM_CELLS)
    colors = np.clip(place_colors(np.stack((x, y), axis=1).astype(float)) * 255, 0, 255).astype(int)
    scale = [[k / (len(colors) - 1), "#{:02x}{:02x}{:02x}".format(*color)] for k, color in enumerate(colors)]
    return cell[:, 1] * NUM_CELLS + cell[:, 0], scale
