"""What the benchmarks of speed share: a stopwatch, peak memory, rows, plain tables."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from plan2vec.results.experiment import Settings
from plan2vec.results.rows import Case, Row, machine_name, make_rows, markdown, select, values

STATUS, FORGET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PREFIX = "bench-"  # of files of rows and pictures
LINES = {"machine": "machine", "domain": "data", "method": "method", "frames": "frames"}  # of tables: field, heading


def choose_sizes(settings: Settings, usual: tuple[int, ...], tiny: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of frames: those asked for, else the benchmark's own."""
    return settings.sizes or (tiny if settings.size.is_smoke else usual)


def speed_rows(asked: Settings, seed: int, domain: str, method: str, numbers: dict[str, Any], seconds: float,
               **setting: Any) -> list[Row]:
    """A row per number. The machine is part of the setting, so that rows of several machines stand side by side."""
    machine = machine_name(asked.device) if asked.device.type == "cuda" else f"{os.cpu_count()} CPU cores"
    case = Case(asked.experiment.removeprefix(PREFIX), domain, {"machine": machine} | setting, method, seed)
    return make_rows(case, numbers, seconds, replace(asked.stamp, device=machine))


@contextmanager
def stopwatch(device: torch.device) -> Iterator[SimpleNamespace]:
    """Times a block, as `watch.seconds`; what a GPU was asked for inside counts until it is done."""
    watch, wait = SimpleNamespace(seconds=0.0), torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    yield watch
    wait()
    watch.seconds = time.perf_counter() - began


def forget_peak() -> None:
    """From here on `peak_memory` counts anew, where the system can do that."""
    if os.access(FORGET_PEAK, os.W_OK):
        FORGET_PEAK.write_text("5")


def peak_memory() -> float | None:
    """GB of main memory that this process held at most, memory maps counted; None where the system does not say."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("VmHWM")), None)


def number_table(rows: list[Row], columns: Iterable[str], lines: Mapping[str, str] = LINES) -> list[str]:
    """A line per value of the fields, or entries of `setting`; a column per metric that has a number: its mean."""
    shown, body = [name for name in columns if len(values(rows, metric=name))], []
    for key in dict.fromkeys(tuple(row.get(name, row["setting"].get(name)) for name in lines) for row in rows):
        samples = [values(select(rows, **dict(zip(lines, key, strict=True))), metric=name) for name in shown]
        body.append([_words(value) for value in (*key, *(s.mean() if len(s) else None for s in samples))])
    return markdown([*lines.values(), *(name.replace("_", " ") for name in shown)], body)


def _words(value: Any) -> str:
    if not isinstance(value, int | float):
        return "-" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
