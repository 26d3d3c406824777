"""Benchmarks. `SPEED` and `ANSWERS` are the one place where a benchmark is registered: what can be typed follows.

Those of speed and scale are an `Experiment` each; their rows become tables, figures and docs/performance.md. Any
other is a function that gives an answer, from the seed and the options of `plan2vec bench` that are named beside it.
"""

from collections.abc import Callable
from dataclasses import fields

from plan2vec.bench import recording_scores, same_map
from plan2vec.bench.explorer_speed import BENCHMARK as EXPLORER
from plan2vec.bench.fit_speed import BENCHMARK as FIT
from plan2vec.bench.measuring import PREFIX
from plan2vec.bench.peers import BENCHMARK as PEERS
from plan2vec.bench.publishing import run_speed
from plan2vec.bench.scale import BENCHMARK as SCALE
from plan2vec.results.requests import BenchRequest

SPEED = {one.name.removeprefix(PREFIX): one for one in (FIT, SCALE, PEERS, EXPLORER)}  # it needs a browser: last
RECORDED = ("paths", "seeds", "device")
ANSWERS: dict[str, tuple[Callable[..., dict], tuple[str, ...]]] = {
    "same-map": (same_map.run, RECORDED),
    "recordings": (recording_scores.run, (*RECORDED, "doom_data", "mazes", "joined", "dynamics", "encoder"))}
OF_SPEED = ("seeds", "device", "smoke", "sizes", "out", "draw_only", "write_docs", "commit")
OPTIONS = {name: options for name, (_, options) in ANSWERS.items()} | dict.fromkeys((*SPEED, "all"), OF_SPEED)


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
    return ANSWERS[name][0](request.seed, **given) if name in ANSWERS else run_speed(request, SPEED)
