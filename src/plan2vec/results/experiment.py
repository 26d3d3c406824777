"""An experiment of the paper or a benchmark: what it is called and gives; which of it is run, how large, and where.

Rows are kept as they come, then become tables, figures and pages."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.files import write_text
from plan2vec.learning.frame_tensors import choose_device
from plan2vec.pictures.figures import save_figure
from plan2vec.results.comparisons import Figures
from plan2vec.results.requests import ReproduceRequest, Request
from plan2vec.results.rows import Arrays, Groups, Row, Stamp, append_rows, read_arrays, read_rows, select, stamp_of

ARRAYS = "arrays"  # folder inside an output folder
DOCS = Path(__file__).parents[3] / "docs"
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Size:
    num_rollouts: int = 1000  # of 10 frames, in the large set
    graph_rollouts: int = 100  # in the small set
    stacked_rollouts: int = 1000  # of the large set, joined where a stacked local metric scores every pair anew
    rope_sequences: int = 18  # of the rope
    rope_drags: int = 785  # each, one frame more
    episodes: int = 2000  # walks a seed
    max_updates: int | None = None  # no training takes more; None: as configured
    max_batch: int | None = None
    config: Config = field(default_factory=Config)

    @property
    def is_smoke(self) -> bool:
        return self.max_updates is not None

    def shorten(self, stage: Thing) -> Thing:
        """A stage's configuration with at most `max_updates` updates of at most `max_batch` samples."""
        limits = {"num_updates": self.max_updates, "batch_size": self.max_batch}
        return replace(stage, **{name: min(getattr(stage, name), limit) for name, limit in limits.items()
                                 if limit is not None and hasattr(stage, name)})  # type: ignore[type-var]


SMOKE = Size(num_rollouts=10, graph_rollouts=8, stacked_rollouts=3, rope_sequences=3, rope_drags=60, episodes=50,
             max_updates=6, max_batch=8, config=Config(
                 local_metric=LocalMetricConfig(num_updates=30, batch_size=24), embedding=EmbeddingConfig(
                     num_updates=12, goals_per_update=16, nodes_per_update=48, goals_per_round=32)))


@dataclass(frozen=True)
class Settings:
    experiment: str = ""  # whose rows are made
    seeds: tuple[int, ...] = (0,)
    asked: ReproduceRequest = ReproduceRequest("all")  # selections, of which empty ones mean all, and files to read
    size: Size = Size()
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    arrays: Path = Path("arrays")  # folder of the small arrays that figures need
    stamp: Stamp = Stamp("unknown", "unknown")
    street_graph: Path | None = None  # file of the real street network; None: a generated city
    finished: tuple[Row, ...] = ()  # what has rows is not run again
    sizes: tuple[int, ...] = ()  # frames, of a benchmark; empty: its own

    def chosen(self, kind: str, known: Iterable[str]) -> tuple[str, ...]:
        """The selected domains, methods or blocks among those that the experiment has."""
        return tuple(name for name in known if name in (getattr(self.asked, kind) or (name,)))

    def lacks(self, **case: Any) -> bool:
        return not select(self.finished, experiment=self.experiment, **case)

    def scenes(self, known: tuple[str, ...], tiny: str | None = None) -> Iterator[tuple[str, int]]:
        """All chosen domains, seed by seed; a smoke run takes `tiny`, or the last one, unless it is told which."""
        if self.size.is_smoke and not self.asked.domains:
            known = (tiny or known[-1],)
        return ((domain, seed) for seed in self.seeds for domain in self.chosen("domains", known))


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    text: str | None  # three paragraphs: the claim; what is expected; details
    groups: Callable[..., Any]  # rows as soon as they are known, from the settings (of a benchmark: the options)
    table: Callable[[list[Row]], Iterable[str]]  # markdown: mean and 95 % interval, the paper's number beside ours
    draw: Callable[[list[Row], Arrays], Figures] | None = None  # from rows and the arrays that were kept beside them
    domains: Iterable[str] = ()
    methods: Iterable[str] = ()
    blocks: Iterable[str] = ()

    def run(self, settings: Settings) -> Groups:
        return self.groups(replace(settings, experiment=self.name))

    def figures(self, rows: list[Row], out: Path) -> Figures:
        """By the name of their file; the arrays are those of an output folder."""
        for part, figure in self.draw(rows, read_arrays(out / ARRAYS, self.name)) if rows and self.draw else ():
            yield "-".join(filter(None, (self.name, part))), figure

    def publish(self, out: Path, is_smoke: bool = False) -> list[str]:
        """Table as markdown, figures as PNG; gives the table's lines. Rows stay: others may be appending."""
        if not (rows := read_rows(out / f"{self.name}.jsonl")):
            return []
        lines = [*(["*Smoke run: tiny data, no results.*", ""] if is_smoke else []), *self.table(rows)]
        write_text(out / f"{self.name}.md", "\n".join(lines))
        for name, figure in self.figures(rows, out):
            if is_smoke:
                figure.text(0.005, 0.99, "smoke run: no results", fontsize=7, color="0.5", va="top")
            save_figure(figure, out / f"{name}.png")
        return lines


def timed(make: Callable[..., Thing], *args: Any, **kwargs: Any) -> tuple[Thing, float]:
    began = time.perf_counter()
    product = make(*args, **kwargs)
    return product, time.perf_counter() - began


def choose_folder(request: Request, usual: str) -> Path:
    """Where rows and figures go; smoke runs stay apart and never reach the documentation."""
    if request.smoke and request.write_docs:
        raise ValueError("--smoke results are no results and never go into the documentation; leave out --write-docs")
    if request.write_docs and not DOCS.is_dir():
        raise ValueError(f"--write-docs needs the project's checkout, but there is no folder {DOCS}")
    if request.out is not None:
        return request.out
    return Path(tempfile.mkdtemp(prefix="plan2vec-smoke-")) if request.smoke else Path("runs") / usual


def run_all(chosen: list[Experiment], request: ReproduceRequest, out: Path, sizes: tuple[int, ...] = ()) -> list[Row]:
    """Rows are appended as they come; at the time limit the run stops between two groups."""
    device, made, began = choose_device(request.device), list[Row](), time.monotonic()
    finished = [row for one in chosen for row in read_rows(out / f"{one.name}.jsonl")] if request.missing_only else []
    settings = Settings("", tuple(range(request.seed_start, request.seed_start + request.seeds)), request,
                        SMOKE if request.smoke else Size(), device, out / ARRAYS, stamp_of(device, request.commit),
                        request.street_graph, tuple(finished), sizes)
    for experiment in (one for one in chosen if has_work(one, settings)):
        for rows in experiment.run(settings):
            append_rows(out / f"{experiment.name}.jsonl", rows)
            made += rows
            print(progress(rows, time.monotonic() - began), file=sys.stderr, flush=True)
            if request.time_limit is not None and time.monotonic() - began > request.time_limit:
                print(f"time limit of {request.time_limit:g} s reached in {experiment.name}; rows so far are in {out}",
                      file=sys.stderr)
                return made
    return made


def has_work(experiment: Experiment, settings: Settings) -> bool:
    kinds = [kind for kind in ("domains", "methods", "blocks") if getattr(experiment, kind)]
    return all(settings.chosen(kind, getattr(experiment, kind)) for kind in kinds)


def progress(rows: list[Row], elapsed: float) -> str:
    """One line per group: what it was, what came out, how long it took."""
    if not rows:
        return f"{elapsed:7.1f} s"
    first, settings = rows[0], [row["setting"].items() for row in rows]
    shared = set(settings[0]).intersection(*settings)
    setting = " ".join(str(entry[1]) for entry in settings[0] if entry in shared)
    shown = [" ".join(map(str, [*(entry[1] for entry in own if entry not in shared), row["metric"], row["value"]]))
             for row, own in list(zip(rows, settings, strict=True))[:3]]  # before the metric, what tells it from others
    words = f"{first['experiment']} {first['domain']} seed {first['seed']} {setting} {first['method']}"
    return f"{elapsed:7.1f} s  {words}: {', '.join(shown)} ({first['seconds']:.1f} s)"
