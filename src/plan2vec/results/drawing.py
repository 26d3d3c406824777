"""What the figures of results share: colours, curves and bars with 95 % intervals over seeds."""

from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from plan2vec.files import replacing
from plan2vec.pictures.figures import DOTS_PER_INCH, save_figure
from plan2vec.pictures.palette import BLACK, BLUE, GRAY, GREEN, ORANGE, PURPLE, SKY, YELLOW
from plan2vec.results.rows import Row, interval, values

ROOM_TITLES = {"open": "Open", "table": "Table", "c-maze": "C-Maze"}
LOOKS = (
    (BLUE, "o", "-"), (ORANGE, "s", "--"), (GREEN, "^", "-."), (PURPLE, "D", ":"), (SKY, "v", "-"), (YELLOW, "P", "--"),
    (BLACK, "X", ":")
)
OURS = ("plan2vec", "paper's", "local metric", "greedy", "lookahead", "A*", "amortized")  # how names of methods begin
ORACLES = ("exact", "true ", "Dijkstra", "graph search", "A* with l1")
KINDS = {"plan2vec": BLUE, "baseline": YELLOW, "exact or true distance": GRAY}


def kind_of(method: str) -> str:
    if method.startswith(ORACLES):
        return "exact or true distance"
    return "plan2vec" if method.startswith(OURS) and "untrained" not in method else "baseline"


def panels(num: int, width: float = 9.0, height: float = 3.2, num_rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Axes beside each other, in one row or more."""
    figure = Figure((width, height), layout="constrained")
    axes = list(figure.subplots(num_rows, -(-num // num_rows), squeeze=False).flat)
    for ax in axes[num:]:
        ax.remove()
    return figure, axes[:num]


def curve(ax: Axes, rows: list[Row], name: str, places: Sequence[float], look: int, label: str, factor: float = 1.0,
          **wanted: Any) -> None:
    """Mean and 95 % interval of the selected rows against one entry of `setting`; `factor` 100: per cent."""
    samples = [factor * values(rows, **wanted, **{name: place}) for place in places]
    known = [k for k, sample in enumerate(samples) if len(sample)]
    middle, half = np.array([interval(samples[k]) for k in known]).reshape(-1, 2).T
    x, half = np.array(places)[known], np.nan_to_num(half)
    color, marker, dashes = LOOKS[look % len(LOOKS)]
    ax.plot(x, middle, dashes, color=color, marker=marker, markersize=5, label=label)
    low, high = np.maximum(middle - half, 0), np.minimum(middle + half, 100 if factor == 100 else np.inf)
    ax.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)


def log_places(ax: Axes, places: Sequence[float]) -> None:
    """A logarithmic x axis with ticks at the places, the crowded ones left out."""
    ax.set_xscale("log")
    kept = [place for before, place in pairwise([0.0, *places]) if place > 1.3 * before]
    ax.set_xticks(kept, [f"{place:g}" for place in kept])
    ax.minorticks_off()


def bars(ax: Axes, names: Sequence[str], samples: Sequence[np.ndarray], paper: Sequence[float | None]) -> None:
    """Horizontal bars, mean and 95 % interval, the first name on top; the paper's number as a diamond."""
    places, middle, spans = _spans(samples)
    for kind, color in KINDS.items():
        k = [number for number, name in enumerate(names) if kind_of(name) == kind]
        if k:
            ax.barh(places[k], np.nan_to_num(middle[k]), 0.7, xerr=spans[:, k], color=color, label=kind,
                    error_kw={"elinewidth": 1, "capsize": 2})
    _name_rows(ax, names, places, middle, paper)


def dots(ax: Axes, names: Sequence[str], samples: Sequence[np.ndarray], paper: Sequence[float | None]) -> None:
    """As `bars`, for axes that do not begin at 0."""
    places, middle, spans = _spans(samples)
    ax.errorbar(middle, places, xerr=spans, fmt="o", color=BLUE, capsize=3, label="ours")
    _name_rows(ax, names, places, middle, paper)
    ax.grid(axis="x", color="0.9")


def _spans(samples: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(m,) places and means and (2, m) widths of intervals to both sides: within 0 to 100, NaN where seeds are few."""
    middle, half = np.array([interval(sample) for sample in samples]).T
    return np.arange(len(samples))[::-1], middle, np.minimum(half, np.maximum(0, (middle, 100 - middle)))


def _name_rows(ax: Axes, names: Sequence[str], places: np.ndarray, middle: np.ndarray,
               paper: Sequence[float | None]) -> None:
    """Names at the places of the rows, the paper's numbers, and words where there is no number of ours."""
    for place in places[np.isnan(middle)]:
        ax.annotate(
            "not run", (0.98, place), xycoords=ax.get_yaxis_transform(), ha="right", va="center", fontsize=7,
            color="0.5", bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}, zorder=5
        )
    known = [(value, place) for value, place in zip(paper, places, strict=True) if value is not None]
    if known:
        style: Any = {"color": BLACK, "markeredgecolor": "white", "markersize": 7, "linestyle": "", "label": "paper"}
        ax.plot(*np.array(known).T, "D", **style)
    ax.set_yticks(places, names, fontsize=8)
    ax.set_ylim(-0.6, len(names) - 0.4)


def save_both(figure: Figure, folder: Path, name: str) -> None:
    """As PNG and as PDF."""
    for ending in ("png", "pdf"):
        save_figure(figure, folder / f"{name}.{ending}")


def save_small(figure: Figure, path: Path) -> None:
    """As PNG of 128 colours, a third of the size."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=DOTS_PER_INCH)
    with replacing(path) as temporary, Image.open(drawn) as image:
        image.convert("RGB").quantize(128).save(temporary, optimize=True)
