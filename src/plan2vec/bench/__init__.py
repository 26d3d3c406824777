"""Benchmarks. `SPEED` and `ANSWERS` are the one place where a benchmark is registered: what can be typed follows.

Those of speed and scale are an `Experiment` each; their rows become tables, figures and docs/performance.md. Any
other is a function that gives an answer, from the seed and the options of `plan2vec bench` that are its parameters."""

from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

from plan2vec.bench import explorer_speed, fit_speed, peers, recording_scores, same_map, scale
from plan2vec.bench.measuring import PREFIX
from plan2vec.files import write_text
from plan2vec.results.experiment import DOCS, choose_folder, run_all
from plan2vec.results.pages import RESULTS, head_of, keep_rows, section
from plan2vec.results.requests import BenchRequest, ReproduceRequest
from plan2vec.results.rows import read_rows

PAGE = "performance.md"
BY_HAND = "## Several processes and machines\n"  # from here on the page is written by hand, and stays
SPEED = {module.BENCHMARK.name.removeprefix(PREFIX): module.BENCHMARK
         for module in (fit_speed, scale, peers, explorer_speed)}  # the last needs a browser
ANSWERS: dict[str, Callable[..., dict]] = {"same-map": same_map.run, "recordings": recording_scores.run}
OF_SPEED = ("seeds", "device", "smoke", "sizes", "out", "draw_only", "write_docs", "commit")
OPTIONS = {name: tuple(signature(run).parameters) for name, run in ANSWERS.items()}
OPTIONS |= dict.fromkeys((*SPEED, "all"), OF_SPEED)


def run_benchmark(request: BenchRequest) -> dict:
    """What the benchmark gives. An option that it does not take is refused."""
    name, usual = request.name, BenchRequest(request.name, seed=request.seed, json=request.json)
    if name not in OPTIONS:
        known = f"{', '.join(ANSWERS)}, and of speed {', '.join(SPEED)} or all"
        raise ValueError(f"the benchmarks are {known}, but {name!r} came")
    given = {f.name: value for f in fields(request) if (value := getattr(request, f.name)) != getattr(usual, f.name)}
    for option in given.keys() - OPTIONS[name]:
        known, flag = ", ".join(one for one in OPTIONS if option in OPTIONS[one]), option.replace("_", "-")
        raise ValueError(f"--{flag} is for `bench {known}`, but came with `bench {name}`; leave it out")
    return ANSWERS[name](request.seed, **given) if name in ANSWERS else run_speed(request)


def run_speed(request: BenchRequest) -> dict[str, Any]:
    """Run (or only draw) a benchmark of speed, or all: the folder, the tables and the rows; maybe the page on speed."""
    if request.sizes and request.name == "all":
        raise ValueError("--sizes are for one benchmark, but came with `bench all`; name it")
    chosen = SPEED if request.name == "all" else {request.name: SPEED[request.name]}
    out = choose_folder(request, "bench")
    asked = ReproduceRequest(request.name, request.smoke, commit=request.commit, device=request.device,
                             seeds=request.seeds or 1, seed_start=request.seed)
    made = [] if request.draw_only else run_all(list(chosen.values()), asked, out, request.sizes)
    tables = {name: one.publish(out) for name, one in chosen.items()}
    if request.write_docs:
        for one in chosen.values():
            keep_rows(DOCS, out, one)
        write_text(DOCS / PAGE, speed_page(DOCS))
    return {"out": str(out), "tables": tables, "rows": made}


def speed_page(docs: Path) -> str:
    """docs/performance.md: what was measured, then what is written by hand."""
    rows = {name: read_rows(docs / RESULTS / f"{one.name}.jsonl") for name, one in SPEED.items()}
    made = [section(docs, one, f"plan2vec bench {name}", rows[name], docs) for name, one in SPEED.items() if rows[name]]
    by_hand = "".join((docs / PAGE).read_text().partition(BY_HAND)[1:])
    return "\n".join([head_of(docs / PAGE), *made, by_hand]).rstrip("\n") + "\n"
