"""An experiment of the paper or a benchmark: what it is called, what it gives, what of it can be selected."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plan2vec.files import write_text
from plan2vec.pictures.figures import save_figure
from plan2vec.results.comparisons import Figures
from plan2vec.results.rows import Arrays, Groups, Row, read_arrays, read_rows
from plan2vec.results.settings import Settings

ARRAYS = "arrays"  # folder inside an output folder


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    text: str | None  # three paragraphs: the claim; what is expected; details
    groups: Callable[[Any], Groups]  # rows as soon as they are known, from the settings (of a benchmark: the options)
    table: Callable[[list[Row]], list[str]]  # markdown: mean and 95 % interval, the paper's number beside ours
    draw: Callable[[list[Row], Arrays], Figures] | None  # from rows and the arrays that were kept beside them
    domains: Iterable[str] = ()
    methods: Iterable[str] = ()
    blocks: Iterable[str] = ()

    def run(self, settings: Settings) -> Groups:
        return self.groups(replace(settings, experiment=self.name))

    def figures(self, rows: list[Row], out: Path) -> Figures:
        """By the name of their file; the arrays are those of an output folder."""
        drawn = self.draw(rows, read_arrays(out / ARRAYS, self.name)) if rows and self.draw else {}
        return {"-".join(filter(None, (self.name, part))): figure for part, figure in drawn.items()}

    def publish(self, out: Path, is_smoke: bool = False) -> list[str]:
        """Table as markdown, figures as PNG; gives the table's lines. Rows stay: others may be appending."""
        rows = read_rows(out / f"{self.name}.jsonl")
        if not rows:
            return []
        lines = (["*Smoke run: tiny data, no results.*", ""] if is_smoke else []) + self.table(rows)
        write_text(out / f"{self.name}.md", "\n".join(lines))
        for name, figure in self.figures(rows, out).items():
            if is_smoke:
                figure.text(0.005, 0.99, "smoke run: no results", fontsize=7, color="0.5", va="top")
            save_figure(figure, out / f"{name}.png")
        return lines
