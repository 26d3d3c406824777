"""`plan2vec reproduce`: run experiments, keep their rows, draw them, and write docs/results.md and its tables from the
rows that are committed.
"""

import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from plan2vec.domains.ogbench import find_recipe
from plan2vec.experiments import robot_frames
from plan2vec.experiments.results_page import results_page
from plan2vec.files import write_text
from plan2vec.learning.frame_tensors import choose_device
from plan2vec.results.comparisons import save_both
from plan2vec.results.pages import RESULTS, keep_rows, tables_page
from plan2vec.results.rows import Row, Stamp, append_rows, finished_cases, read_arrays, read_rows
from plan2vec.results.settings import SMOKE, Settings, Size
from plan2vec.results.stamp import commit, machine_name

FILES = ("table1", "sample_complexity", "lookahead", "planning_cost", "maze_figures", "local_metric_accuracy",
         "latent_dimension", "head_comparison", "target_comparison", "value_iteration_table", "rope_table",
         "rope_figures", "robot_frames", "table2", "street_maps", "street_cost", "street_generalization",
         "acting_in_rooms", "reward_learning", "ogbench_mazes")
MODULES: list[Any] = [import_module(f"plan2vec.experiments.{file}") for file in FILES]
EXPERIMENTS: dict[str, ModuleType] = {module.NAME: module for module in MODULES}
ARRAYS = "arrays"  # folder inside the output folder
DOCS = Path(__file__).parents[3] / "docs"


@dataclass(frozen=True)
class Request:
    """What the user asked for; empty selections mean all."""

    name: str = "all"
    seeds: int = 5
    seed_start: int = 0
    domains: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    smoke: bool = False
    missing_only: bool = False
    rows_only: bool = False
    draw_only: bool = False
    write_docs: bool = False
    time_limit: float | None = None  # seconds
    out: Path | None = None
    recordings: Path | None = None
    commit: str | None = None
    device: str = "auto"
    street_graph: Path | None = None
    env: str | None = None
    ogbench_data: Path | None = None


def reproduce(request: Request) -> dict[str, Any]:
    """Run (or only draw) the named experiments; gives the folder, the numbers of rows and the tables."""
    if request.env is not None:
        request = replace(request, domains=(*request.domains, f"ogbench/{find_recipe(request.env).name}"))
    chosen = choose_experiments(request)
    out = choose_folder(request)
    if not request.draw_only:
        run_all(chosen, request, out)
    tables = {} if request.rows_only else {name: publish(EXPERIMENTS[name], out, request.smoke) for name in chosen}
    if request.write_docs:
        write_docs(out, DOCS, chosen)
    num_rows = {name: len(read_rows(out / f"{name}.jsonl")) for name in chosen}
    return {"out": str(out), "smoke": request.smoke, "num_rows": num_rows, "tables": tables}


def choose_experiments(request: Request) -> list[str]:
    """Names to run; a selection that no chosen experiment knows is refused."""
    if request.name != "all" and request.name not in EXPERIMENTS:
        raise ValueError(f"no experiment is called {request.name!r}; choose all or one of {', '.join(EXPERIMENTS)}")
    chosen = list(EXPERIMENTS) if request.name == "all" else [request.name]
    if request.name == robot_frames.NAME and request.recordings is None and not (request.smoke or request.draw_only):
        raise ValueError(f"{request.name}: the robot's frames are not part of the program; {robot_frames.REMEDY}")
    for kind in ("domains", "methods", "blocks"):
        known = {str(name) for experiment in chosen for name in getattr(EXPERIMENTS[experiment], kind.upper())}
        unknown = set(getattr(request, kind)) - known
        if unknown:
            names = ", ".join(sorted(known)) or "nothing here"
            raise ValueError(f"--{kind} knows {names}, but got {', '.join(sorted(unknown))}")
    if request.seeds < 1 or request.seed_start < 0:
        came = f"{request.seeds} and {request.seed_start}"
        raise ValueError(f"--seeds must be 1 or more and --seed-start 0 or more, but are {came}")
    return chosen


def choose_folder(request: Request) -> Path:
    """Where rows and figures go; smoke runs stay apart and never reach the documentation."""
    if request.smoke and request.write_docs:
        raise ValueError("--smoke results are no results and never go into the documentation; leave out --write-docs")
    if request.write_docs and not DOCS.is_dir():
        raise ValueError(f"--write-docs needs the project's checkout, but there is no folder {DOCS}")
    if request.out is not None:
        return request.out
    return Path(tempfile.mkdtemp(prefix="plan2vec-smoke-")) if request.smoke else Path("runs") / "reproduce"


def run_all(chosen: list[str], request: Request, out: Path) -> None:
    """Rows are appended as they come; at the time limit the run stops between two groups."""
    settings = make_settings(request, out)
    if request.missing_only:
        rows = [row for name in chosen for row in read_rows(out / f"{name}.jsonl")]
        settings = replace(settings, finished=frozenset(finished_cases(rows)))
    began = time.monotonic()
    for name in [name for name in chosen if has_work(EXPERIMENTS[name], settings)]:
        for rows in EXPERIMENTS[name].run(settings):
            append_rows(out / f"{name}.jsonl", rows)
            print(progress(rows, time.monotonic() - began), file=sys.stderr, flush=True)
            if request.time_limit is not None and time.monotonic() - began > request.time_limit:
                words = f"time limit of {request.time_limit:g} s reached in {name}; rows so far are in {out}"
                print(words, file=sys.stderr)
                return


def has_work(experiment: ModuleType, settings: Settings) -> bool:
    kinds = {kind: tuple(getattr(experiment, kind.upper())) for kind in ("domains", "methods", "blocks")}
    return all(settings.chosen(kind, known) for kind, known in kinds.items() if known)


def make_settings(request: Request, out: Path) -> Settings:
    device, size = choose_device(request.device), SMOKE if request.smoke else Size()
    seeds = tuple(range(request.seed_start, request.seed_start + (1 if request.smoke else request.seeds)))
    stamp = Stamp(request.commit or commit(), machine_name(device))
    return Settings(seeds, request.domains, request.methods, request.blocks, size, device, out / ARRAYS, stamp,
                    recordings=request.recordings, street_graph=request.street_graph,
                    ogbench_data=request.ogbench_data or out / "ogbench")


def progress(rows: list[Row], elapsed: float) -> str:
    """One line per group: what it was, what came out, how long it took."""
    if not rows:
        return f"{elapsed:7.1f} s"
    first, shown = rows[0], []
    shared = {name: value for name, value in first["setting"].items()
              if all(row["setting"].get(name) == value for row in rows)}
    setting = " ".join(map(str, shared.values()))
    for row in rows[:3]:  # before the metric, what tells the row from the others
        own = [value for name, value in row["setting"].items() if name not in shared]
        value = row["value"] if row["value"] is None else round(row["value"], 4)
        shown.append(" ".join(map(str, [*own, row["metric"], value])))
    words = f"{first['experiment']} {first['domain']} seed {first['seed']} {setting} {first['method']}"
    return f"{elapsed:7.1f} s  {words}: {', '.join(shown)} ({first['seconds']:.1f} s)"


def publish(experiment: ModuleType, out: Path, smoke: bool) -> list[str]:
    """Table as markdown, figures as PNG and PDF; gives the table's lines. Rows stay: others may be appending."""
    rows = read_rows(out / f"{experiment.NAME}.jsonl")
    if not rows:
        return []
    lines = (["*Smoke run: tiny data, no results.*", ""] if smoke else []) + experiment.table(rows)
    write_text(out / f"{experiment.NAME}.md", "\n".join(lines))
    for name, figure in experiment.draw(rows, read_arrays(out / ARRAYS, experiment.NAME)).items():
        if smoke:
            figure.text(0.005, 0.99, "smoke run: no results", fontsize=7, color="0.5", va="top")
        save_both(figure, out, name)
    return lines


def write_docs(out: Path, docs: Path, chosen: list[str]) -> None:
    """Rows of the run join the committed ones; the figures and pages are made from all of them."""
    for name in chosen:
        keep_rows(docs, out, name, partial(EXPERIMENTS[name].draw, arrays=read_arrays(out / ARRAYS, name)))
    write_text(docs / "results.md", results_page(docs, EXPERIMENTS))
    write_text(docs / RESULTS / "tables.md", tables_page(docs, EXPERIMENTS))
