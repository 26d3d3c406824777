"""Runs experiments and benchmarks: rows are kept as they come, then become tables, figures and pages."""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from plan2vec.learning.frame_tensors import choose_device
from plan2vec.results.experiment import ARRAYS, Experiment
from plan2vec.results.requests import ReproduceRequest, Request
from plan2vec.results.rows import Row, Stamp, append_rows, commit, machine_name, read_rows
from plan2vec.results.settings import SMOKE, Settings, Size

DOCS = Path(__file__).parents[3] / "docs"


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
    settings, made, began = make_settings(request, out), list[Row](), time.monotonic()
    settings = replace(settings, sizes=sizes)
    if request.missing_only:
        finished = tuple(row for experiment in chosen for row in read_rows(out / f"{experiment.name}.jsonl"))
        settings = replace(settings, finished=finished)
    for experiment in [experiment for experiment in chosen if has_work(experiment, settings)]:
        for rows in experiment.run(settings):
            append_rows(out / f"{experiment.name}.jsonl", rows)
            made += rows
            print(progress(rows, time.monotonic() - began), file=sys.stderr, flush=True)
            if request.time_limit is not None and time.monotonic() - began > request.time_limit:
                words = f"time limit of {request.time_limit:g} s reached in {experiment.name}; rows so far are in {out}"
                print(words, file=sys.stderr)
                return made
    return made


def has_work(experiment: Experiment, settings: Settings) -> bool:
    kinds = {kind: tuple(getattr(experiment, kind)) for kind in ("domains", "methods", "blocks")}
    return all(settings.chosen(kind, known) for kind, known in kinds.items() if known)


def make_settings(request: ReproduceRequest, out: Path) -> Settings:
    device, size = choose_device(request.device), SMOKE if request.smoke else Size()
    seeds = tuple(range(request.seed_start, request.seed_start + request.seeds))
    stamp = Stamp(request.commit or commit(), machine_name(device))
    return Settings("", seeds, request.domains, request.methods, request.blocks, size, device, out / ARRAYS, stamp,
                    recordings=request.recordings, street_graph=request.street_graph,
                    ogbench_data=request.ogbench_data or out / "ogbench", doom_data=request.doom_data,
                    mazes=request.mazes, doom_explore=request.doom_explore)


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
