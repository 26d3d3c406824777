"""Benchmarks, one file each: run(seed) -> a map with the rows."""

from collections.abc import Callable

from plan2vec.bench import explorer, resume

BENCHMARKS: dict[str, Callable[[int], dict]] = {"resume": resume.run, "explorer": explorer.run}
