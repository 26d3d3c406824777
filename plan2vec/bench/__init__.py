"""Benchmarks, one file each: run(seed) -> a map with the rows."""

from collections.abc import Callable

from plan2vec.bench import demo, explorer, resume

BENCHMARKS: dict[str, Callable[[int], dict]] = {"demo": demo.run, "resume": resume.run, "explorer": explorer.run}
