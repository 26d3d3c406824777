"""Benchmarks, one file each. Those of speed and scale give rows, a table and a figure (`publishing.py`); the others a
map with their rows.

NAME, TITLE            what a benchmark of speed is called
run(options)           groups of rows
table(rows), draw(rows)
"""

from collections.abc import Callable
from pathlib import Path

from plan2vec.bench import demo, explorer, ranks, recordings, resume, same_map
from plan2vec.bench.publishing import SPEED, Request, run_speed

BENCHMARKS: dict[str, Callable[[int], dict]] = {
    "demo": demo.run, "resume": resume.run, "explorer": explorer.run, "ranks": ranks.run
}
OF_RECORDINGS: dict[str, Callable[[int, tuple[Path, ...]], dict]] = {
    "recordings": recordings.run, "same-map": same_map.run
}
UNUSUAL = Request("")  # of a benchmark that takes a seed alone nothing else may be asked


def run_benchmark(request: Request, paths: tuple[Path, ...] = ()) -> dict:
    """The benchmark's rows; some take paths of recordings, some sizes and a device."""
    name = request.name
    if paths and name not in OF_RECORDINGS:
        raise ValueError(
            f"--paths are for `bench {' and '.join(OF_RECORDINGS)}`, but came with `bench {name}`; leave them out"
        )
    if name in SPEED or name == "all":
        return run_speed(request)
    for option in ("sizes", "smoke", "out", "draw_only", "write_docs", "device"):
        if getattr(request, option) != getattr(UNUSUAL, option):
            raise ValueError(f"--{option.replace('_', '-')} is for `bench {', '.join(SPEED)}`, but came with `bench {name}`; leave it out")
    return OF_RECORDINGS[name](request.seed, paths) if name in OF_RECORDINGS else BENCHMARKS[name](request.seed)
