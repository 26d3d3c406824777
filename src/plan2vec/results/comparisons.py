"""Tables and figures that compare: a line or bar per method, a column or panel per domain, setting or metric."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plan2vec.results.drawing import bars, panels
from plan2vec.results.rows import Row, cell, in_order, markdown, select, values

Wanted = Mapping[str, Any]  # which rows: values of their fields, or of entries of `setting`


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
            found = self.texts.get(name)
            return "" if found is None else str(found)
        return cell(values(rows, **line, **self.wanted), self.factor, self.digits)


def by_method(rows: list[Row], known: Iterable[str]) -> dict[str, Wanted]:
    """A line per method that has rows."""
    return {method: {"method": method} for method in in_order(rows, "method", known)}


def by_domain(rows: list[Row], titles: Mapping[str, str], metrics: Iterable[tuple[str, str, float, int]],
              paper: Callable[[str], Mapping[str, object]] | None = None) -> list[Column]:
    """Columns of the metrics (name, words, factor, digits), then the paper's, for every domain that has rows."""
    columns: list[Column] = []
    for domain in in_order(rows, "domain", titles):
        columns += [Column(f"{titles[domain]}, {words}", {"domain": domain, "metric": metric}, factor, digits)
                    for metric, words, factor, digits in metrics]
        columns += [] if paper is None else [Column("paper", texts=paper(domain))]
    return columns


def compare(rows: list[Row], head: str, lines: Mapping[str, Wanted], columns: Sequence[Column]) -> list[str]:
    """A markdown table. Names of lines, and the head, may hold several cells: "large | Open"."""
    body = [[name, *(column.text(rows, name, line) for column in columns)] for name, line in lines.items()]
    return markdown([*head.split(" | "), *(column.words for column in columns)], body)


def compare_each(rows: list[Row], titles: Mapping[str, str], lines: Mapping[str, Wanted],
                 columns: Sequence[Column]) -> list[str]:
    """A table per domain that has rows, under its title."""
    return [line for domain in in_order(rows, "domain", titles)
            for line in compare(select(rows, domain=domain), titles[domain], lines, columns)]


@dataclass(frozen=True)
class Panel:
    """Bars or dots of some rows of each name, and the paper's numbers by name."""

    rows: list[Row]
    title: str
    xlabel: str
    wanted: Wanted = field(default_factory=dict)
    factor: float = 100.0
    paper: Mapping[str, float | None] = field(default_factory=dict)


def domain_panels(rows: list[Row], titles: Mapping[str, str], xlabel: str = "success (%)",
                  paper: Callable[[str], Mapping[str, float | None]] = lambda domain: {}) -> list[Panel]:
    """A panel per domain that has rows."""
    return [Panel(rows, titles[domain], xlabel, {"domain": domain}, paper=paper(domain))
            for domain in in_order(rows, "domain", titles)]


def panel_figure(names: Mapping[str, Wanted], shown: Sequence[Panel], size: tuple[float, float],
                 mark: Callable[..., None] = bars, xlim: tuple[float, float] | None = (0, 103),
                 legend: bool = True, num_rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Panels beside each other that name their rows once. Without `xlim` dots share the range of all panels."""
    figure, axes = panels(len(shown), *size, num_rows)
    for ax, panel in zip(axes, shown, strict=True):
        samples: list[np.ndarray] = [panel.factor * values(panel.rows, **line, **panel.wanted)
                                     for line in names.values()]
        mark(ax, list(names), samples, [panel.paper.get(name) for name in names])
        ax.set(xlabel=panel.xlabel, title=panel.title)
    low, high = zip(*(ax.get_xlim() for ax in axes), strict=True)
    for number, ax in enumerate(axes):
        ax.set_xlim(xlim or (min(low), max(high)))
        if number % -(-len(axes) // num_rows):
            ax.set_yticklabels([])
    if legend:
        legend_below(figure, axes[0], 5)
    return figure, axes


def legend_below(figure: Figure, ax: Axes, num_columns: int, **more: Any) -> None:
    """One legend for all panels."""
    handles = ax.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=num_columns, frameon=False, fontsize=9, **more)
