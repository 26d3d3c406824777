"""What the benchmarks of speed share: what is asked for, a stopwatch, peak memory, rows, plain tables and figures."""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.results.comparisons import LOOKS, legend_below, panels
from plan2vec.results.rows import Case, Groups, Row, Stamp, make_rows, markdown, select, values
from plan2vec.results.stamp import commit, machine_name

STATUS, FORGET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
DIGITS = 4  # of numbers in tables
TITLES = {"total": "whole fit, seconds", "memory_gb": "peak of main memory, GB"}  # of metrics whose names lack it


@dataclass(frozen=True)
class Options:
    """What a benchmark is asked for."""

    name: str = ""  # of the benchmark: its rows carry it
    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    smoke: bool = False  # tiny, in seconds, to see that it runs; no results
    sizes: tuple[int, ...] = ()  # frames; empty: the benchmark's own
    commit: str | None = None  # of the rows; None: where the program stands

    def choose(self, usual: Any, tiny: Any) -> Any:
        return tiny if self.smoke else usual

    def choose_sizes(self, usual: tuple[int, ...], tiny: tuple[int, ...]) -> tuple[int, ...]:
        return self.sizes or self.choose(usual, tiny)

    def config(self) -> Config:
        """The default settings with the seed; of a smoke run brief ones."""
        stage = EmbeddingConfig(num_updates=5, goals_per_update=16, nodes_per_update=32, goals_per_round=32)
        brief = {"local_metric": LocalMetricConfig(num_updates=5, batch_size=32), "embedding": stage}
        return Config(seed=self.seed, **self.choose({}, brief))

    @property
    def machine(self) -> str:
        """The GPU, or how many CPU cores."""
        return machine_name(self.device) if self.device.type == "cuda" else f"{os.cpu_count()} CPU cores"

    def rows(self, domain: str, method: str, numbers: dict[str, Any], seconds: float, **setting: Any) -> list[Row]:
        """A row per number. The machine is part of the setting, so that rows of several machines stand side by side."""
        case = Case(self.name, domain, {"machine": self.machine} | setting, method, self.seed)
        return make_rows(case, numbers, seconds, Stamp(self.commit or commit(), self.machine))


@dataclass(frozen=True)
class Benchmark:
    """A benchmark of speed or scale."""

    name: str
    title: str
    text: str | None  # three paragraphs: the claim; what is expected; details
    run: Callable[[Options], Groups]  # gives groups of rows as soon as they are known
    table: Callable[[list[Row]], list[str]]
    draw: Callable[[list[Row]], Figure] | None


@contextmanager
def stopwatch(device: torch.device) -> Iterator[SimpleNamespace]:
    """Times a block, as `watch.seconds`; what a GPU was asked for inside counts until it is done."""
    watch = SimpleNamespace(seconds=0.0)
    wait_for(device)
    began = time.perf_counter()
    yield watch
    wait_for(device)
    watch.seconds = time.perf_counter() - began


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def best_of(repeats: int, device: torch.device, work: Callable[[], object]) -> float:
    """Seconds of the fastest of a few runs, after one that does not count."""
    work()
    times = []
    for _ in range(repeats):
        with stopwatch(device) as watch:
            work()
        times.append(watch.seconds)
    return min(times)


def forget_peak() -> None:
    """From here on `peak_memory` counts anew, where the system can do that."""
    if FORGET_PEAK.exists() and os.access(FORGET_PEAK, os.W_OK):
        FORGET_PEAK.write_text("5")


def peak_memory() -> float | None:
    """GB of main memory that this process held at most, memory maps counted; None where the system does not say."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("VmHWM")), None)


def fitted_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float | None:
    """The power of size that time grows with: the slope of a line through the logarithms."""
    if len(set(sizes)) < 2:
        return None
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(np.asarray(seconds, float)), 1)[0])


def number_table(rows: list[Row], columns: Sequence[str], settings: Sequence[str] = ()) -> list[str]:
    """A line per machine, domain, method and setting; a column per metric: the mean over seeds."""
    shown = [name for name in columns if len(values(rows, metric=name))]
    lines, groups = [], dict[str, list[Row]]()
    for row in rows:
        groups.setdefault(json.dumps([row["domain"], row["method"], row["setting"]], sort_keys=True), []).append(row)
    for group in groups.values():
        setting, samples = group[0]["setting"], [values(group, metric=name) for name in shown]
        words = [setting["machine"], group[0]["domain"], group[0]["method"]]
        numbers = [float(sample.mean()) if len(sample) else None for sample in samples]
        lines.append(words + [_words(value) for value in (*map(setting.get, settings), *numbers)])
    return markdown(["machine", "data", "method", *settings, *(name.replace("_", " ") for name in shown)], lines)


def _words(value: Any) -> str:
    if not isinstance(value, int | float):
        return "-" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{DIGITS}g}"


def size_figure(rows: list[Row], metrics: Sequence[str], size: str = "frames") -> Figure:
    """A panel per metric: against the size, both axes logarithmic, a line per machine and method."""
    figure, axes = panels(len(metrics))
    cases = sorted({(row["setting"]["machine"], row["domain"], row["method"]) for row in rows})
    for ax, metric in zip(axes, metrics, strict=True):
        for look, (machine, domain, method) in enumerate(cases):
            part = select(rows, machine=machine, domain=domain, method=method, metric=metric)
            sizes = sorted({row["setting"][size] for row in part if row["value"] and size in row["setting"]})
            means = [values(part, **{size: one}).mean() for one in sizes]
            color, marker, dashes = LOOKS[look % len(LOOKS)]
            if sizes:
                ax.plot(sizes, means, dashes, color=color, marker=marker, markersize=5, label=f"{method}, {machine}")
        ax.set(xscale="log", yscale="log", xlabel=size, title=TITLES.get(metric, metric.replace("_", " ")))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter="{x:g}", minor_formatter="")
        low, high = ax.get_ylim()
        ax.set_ylim(low / 1.3, high * 1.3)  # three names or more, also where the values span less than a power of ten
        ax.grid(color="0.9")
    legend_below(figure, axes[0], 3, fontsize=8)
    return figure
