"""Benchmarks, one file each: run(seed) -> a map with the rows."""

from collections.abc import Callable
from pathlib import Path

from plan2vec.bench import demo, explorer, recordings, resume

BENCHMARKS: dict[str, Callable[[int], dict]] = {"demo": demo.run, "resume": resume.run, "explorer": explorer.run}


def run_benchmark(name: str, seed: int, paths: tuple[Path, ...]) -> dict:
    """The benchmark's rows; only `recordings` takes paths."""
    if name == "recordings":
        return recordings.run(seed, paths)
    if paths:
        raise ValueError(f"--paths are for `bench recordings`, but came with `bench {name}`; leave them out")
    return BENCHMARKS[name](seed)
