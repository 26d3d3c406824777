"""Benchmarks, one file each: run(seed) -> a map with the rows."""

from collections.abc import Callable
from pathlib import Path

from plan2vec.bench import demo, explorer, recordings, resume, same_map

BENCHMARKS: dict[str, Callable[[int], dict]] = {"demo": demo.run, "resume": resume.run, "explorer": explorer.run}
OF_RECORDINGS: dict[str, Callable[[int, tuple[Path, ...]], dict]] = {"recordings": recordings.run, "same-map": same_map.run}


def run_benchmark(name: str, seed: int, paths: tuple[Path, ...]) -> dict:
    """The benchmark's rows; some take paths of recordings."""
    if name in OF_RECORDINGS:
        return OF_RECORDINGS[name](seed, paths)
    if paths:
        raise ValueError(f"--paths are for `bench {' and '.join(OF_RECORDINGS)}`, but came with `bench {name}`; leave them out")
    return BENCHMARKS[name](seed)
