"""Tables and figures that compare: a line, bar or curve per method, a column or panel per domain, setting or metric.

Intervals are 95 % over seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from plan2vec.files import replacing
from plan2vec.pictures.figures import DOTS_PER_INCH
from plan2vec.pictures.palette import BLACK, BLUE, GRAY, GREEN, ORANGE, PURPLE, SKY, YELLOW
from plan2vec.results.rows import Row, cell, in_order, interval, markdown, values

LOOKS = ((BLUE, "o", "-"), (ORANGE, "s", "--"), (GREEN, "^", "-."), (PURPLE, "D", ":"), (SKY, "v", "-"),
         (YELLOW, "P", "--"), (BLACK, "X", ":"))
OURS = ("plan2vec", "paper's", "local metric", "greedy", "lookahead", "A*", "amortized")  # how names of methods begin
ORACLES = ("exact", "true ", "Dijkstra", "graph search", "A* with l1")
KINDS = {"plan2vec": BLUE, "baseline": YELLOW, "exact or true distance": GRAY}
Figures = Iterable[tuple[str, Figure]]  # with what their files' names have after the experiment's
Wanted = Mapping[str, Any]  # which rows: values of their fields, or of entries of `setting`
Papers = Mapping[str, Sequence[float | None]]  # the paper's numbers by method, one for each domain that has a title
Shown = Iterable[tuple[str, str, float, int]]  # of metrics: name, words, factor, digits


@dataclass(frozen=True)
class Column:
    """Mean and interval of some rows of each line of a table; or texts by line."""

    words: str
    wanted: Wanted = field(default_factory=dict)
    factor: float = 100.0
    digits: int = 1
    texts: Mapping[str, object] | None = None

    def text(self, rows: list[Row], name: str, line: Wanted) -> str:
        if self.texts is not None:
            return "" if (found := self.texts.get(name)) is None else str(found)
        return cell(values(rows, **line, **self.wanted), self.factor, self.digits)


def by_method(rows: list[Row], known: Iterable[str]) -> dict[str, Wanted]:
    return {method: {"method": method} for method in in_order(rows, "method", known)}


def by_metric(metrics: Shown, before: str = "", **wanted: Any) -> list[Column]:
    return [Column(before + words, {"metric": metric, **wanted}, factor, digits)
            for metric, words, factor, digits in metrics]


def by_domain(rows: list[Row], titles: Mapping[str, str], metrics: Shown, paper: Papers | None = None) -> list[Column]:
    """Columns of the metrics, then the paper's, for every domain that has rows."""
    columns: list[Column] = []
    for domain in in_order(rows, "domain", titles):
        columns += by_metric(metrics, f"{titles[domain]}, ", domain=domain)
        columns += [Column("paper", texts=papers_of(paper, titles, domain))] if paper else []
    return columns


def papers_of(paper: Papers, titles: Mapping[str, str], domain: str) -> dict[str, float | None]:
    return {method: numbers[list(titles).index(domain)] for method, numbers in paper.items()}


def compare(rows: list[Row], head: str, lines: Mapping[str, Wanted], columns: Sequence[Column]) -> list[str]:
    """A markdown table. Names of lines, and the head, may hold several cells: "large | Open"."""
    body = [[name, *(column.text(rows, name, line) for column in columns)] for name, line in lines.items()]
    return markdown([*head.split(" | "), *(column.words for column in columns)], body)


def facts(rows: list[Row], shown: Iterable[tuple[str, str, int]], columns: Mapping[str, Wanted]) -> list[str]:
    """A line per metric that has rows (name, words, digits), a column per selection."""
    return markdown(["", *columns], [
        [words, *(cell(values(rows, metric=metric, **wanted), 1, digits) for wanted in columns.values())]
        for metric, words, digits in shown if len(values(rows, metric=metric))])


def panels(num: int, width: float = 9.0, height: float = 3.2, num_rows: int = 1) -> tuple[Figure, list[Axes]]:
    figure = Figure((width, height), layout="constrained")
    axes = list(figure.subplots(num_rows, -(-num // num_rows), squeeze=False).flat)
    for ax in axes[num:]:
        ax.remove()
    return figure, axes[:num]


def legend_below(figure: Figure, ax: Axes, num_columns: int, **more: Any) -> None:
    look = {"frameon": False, "fontsize": 9} | more
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=num_columns, **look)


def curve_figure(rows: list[Row], name: str, shown: Sequence[tuple[dict[str, Any], Mapping[str, Wanted]]],
                 size: tuple[float, float], columns: int, is_log: bool = False, level: float | None = None) -> Figure:
    """Per cent, of success where not said, against an entry of `setting`. A panel: what matplotlib sets of its axes,
    and its curves. `columns` of the legend; `level`: where a line shows what is enough."""
    figure, axes = panels(len(shown), *size)
    for ax, (settings, lines) in zip(axes, shown, strict=True):
        for look, (label, wanted) in enumerate(lines.items()):
            curve(ax, rows, name, look, label, 100, **wanted)
        ax.set(**({"ylabel": "success (%)"} if ax is axes[0] else {}) | settings)
        if is_log:  # with ticks at the places, the crowded ones left out
            kept = [place for before, place in pairwise([0.0, *in_order(rows, name)]) if place > 1.3 * before]
            ax.set_xscale("log")
            ax.set_xticks(kept, [f"{place:g}" for place in kept])
            ax.minorticks_off()
        if level is not None:
            ax.axhline(level, color="0.6", linewidth=0.8, linestyle=":", label=f"{level:.0f} %")
    legend_below(figure, axes[0], columns)
    return figure


def curve(ax: Axes, rows: list[Row], name: str, look: int, label: str, factor: float, **wanted: Any) -> None:
    """Mean and interval of the selected rows against one entry of `setting`; `factor` 100: per cent."""
    known = {place: sample for place in in_order(rows, name)
             if len(sample := factor * values(rows, **wanted, **{name: place}))}
    middle, half = np.array([interval(sample) for sample in known.values()]).reshape(-1, 2).T
    x, half = np.array(list(known)), np.nan_to_num(half)
    color, marker, dashes = LOOKS[look % len(LOOKS)]
    ax.plot(x, middle, dashes, color=color, marker=marker, markersize=5, label=label)
    low, high = np.maximum(middle - half, 0), np.minimum(middle + half, 100 if factor == 100 else np.inf)
    ax.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)


@dataclass(frozen=True)
class Panel:
    """Bars of the wanted rows of each name, and the paper's numbers by name."""

    title: str
    xlabel: str
    wanted: Wanted
    factor: float = 100.0
    paper: Mapping[str, float | None] = field(default_factory=dict)


def domain_figure(rows: list[Row], names: Mapping[str, Wanted], titles: Mapping[str, str], size: tuple[float, float],
                  paper: Papers) -> Figure:
    """Success by name, a panel per domain."""
    shown = [Panel(titles[domain], "success (%)", {"domain": domain}, paper=papers_of(paper, titles, domain))
             for domain in in_order(rows, "domain", titles)]
    return panel_figure(rows, names, shown, size)[0]


def panel_figure(rows: list[Row], names: Mapping[str, Wanted], shown: Sequence[Panel], size: tuple[float, float],
                 legend: bool = True, num_rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Panels of per cent beside each other that name their rows once."""
    figure, axes = panels(len(shown), *size, num_rows)
    for number, (ax, panel) in enumerate(zip(axes, shown, strict=True)):
        samples = [panel.factor * values(rows, **line, **panel.wanted) for line in names.values()]
        bars(ax, list(names), samples, panel.paper)
        ax.set(xlabel=panel.xlabel, title=panel.title, xlim=(0, 103))
        if number % -(-len(axes) // num_rows):
            ax.set_yticklabels([])
    if legend:
        legend_below(figure, axes[0], 5)
    return figure, axes


def bars(ax: Axes, names: Sequence[str], samples: Sequence[np.ndarray], paper: Mapping[str, float | None] = {}) -> None:
    """Horizontal bars, mean and interval (within 0 to 100), the first name on top; the paper's number as a diamond."""
    places, (middle, half) = np.arange(len(samples))[::-1], np.array([interval(sample) for sample in samples]).T
    spans = np.minimum(half, np.maximum(0, (middle, 100 - middle)))
    kinds = ["exact or true distance" if name.startswith(ORACLES) else
             "plan2vec" if name.startswith(OURS) else "baseline" for name in names]
    for kind, color in KINDS.items():
        if k := [number for number, one in enumerate(kinds) if one == kind]:
            ax.barh(places[k], np.nan_to_num(middle[k]), 0.7, xerr=spans[:, k], color=color, label=kind,
                    error_kw={"elinewidth": 1, "capsize": 2})
    for place in places[np.isnan(middle)]:
        box = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
        ax.annotate("not run", (0.98, place), xycoords=ax.get_yaxis_transform(), ha="right", va="center", fontsize=7,
                    color="0.5", bbox=box, zorder=5)
    known = [(paper[name], place) for name, place in zip(names, places, strict=True) if paper.get(name) is not None]
    if known:
        ax.plot(*np.array(known).T, "D", color=BLACK, markeredgecolor="white", markersize=7, ls="", label="paper")
    ax.set_yticks(places, names, fontsize=8)
    ax.set_ylim(-0.6, len(names) - 0.4)


def save_small(figure: Figure, path: Path) -> None:
    """As PNG of 128 colours, a third of the size."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=DOTS_PER_INCH)
    with replacing(path) as temporary, Image.open(drawn) as image:
        image.convert("RGB").quantize(128).save(temporary, optimize=True)
