"""What to run of an experiment, and how large: seeds, selections, sizes, where arrays go."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import torch

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.results.rows import Row, Stamp, select

Stage = TypeVar("Stage")
Product = TypeVar("Product")


@dataclass(frozen=True)
class Size:
    num_rollouts: int = 1000  # of 10 frames, in the large set
    graph_rollouts: int = 100  # in the small set
    stacked_rollouts: int = 1000  # of the large set, joined where a stacked local metric scores every pair anew
    rope_sequences: int = 18  # of the rope
    rope_drags: int = 785  # each, one frame more
    episodes: int = 2000  # walks a seed
    max_updates: int | None = None  # no training takes more; None: as configured
    max_batch: int | None = None
    config: Config = field(default_factory=Config)

    @property
    def is_smoke(self) -> bool:
        return self.max_updates is not None

    def shorten(self, stage: Stage) -> Stage:
        """A stage's configuration with at most `max_updates` updates of at most `max_batch` samples."""
        limits = {"num_updates": self.max_updates, "batch_size": self.max_batch}
        known = {name: limit for name, limit in limits.items() if limit is not None and hasattr(stage, name)}
        changed = {name: min(getattr(stage, name), limit) for name, limit in known.items()}
        return replace(stage, **changed)  # type: ignore[type-var]


SMOKE = Size(
    num_rollouts=10, graph_rollouts=8, stacked_rollouts=3, rope_sequences=3, rope_drags=60, episodes=50, max_updates=6,
    max_batch=8,
    config=Config(
        local_metric=LocalMetricConfig(num_updates=30, batch_size=24),
        embedding=EmbeddingConfig(num_updates=12, goals_per_update=16, nodes_per_update=48, goals_per_round=32)
    )
)


@dataclass(frozen=True)
class Settings:
    """What to run; empty selections mean all that the experiment has."""

    experiment: str = ""  # whose rows are made
    seeds: tuple[int, ...] = (0,)
    domains: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    size: Size = Size()
    device: torch.device = field(default_factory=partial(torch.device, "cpu"))
    arrays: Path = Path("arrays")  # folder of the small arrays that figures need
    stamp: Stamp = field(default_factory=partial(Stamp, "unknown", "unknown"))
    street_graph: Path | None = None  # file of the real street network; None: a generated city
    finished: tuple[Row, ...] = ()  # what has rows is not run again
    recordings: Path | None = None  # a robot's frames, for the experiment that needs them
    sizes: tuple[int, ...] = ()  # frames, of a benchmark; empty: its own
    ogbench_data: Path = Path("ogbench")  # folder of OGBench's data sets; those that are missing are made there
    doom_data: Path | None = None  # folder of SPTM's mazes
    mazes: tuple[str, ...] = ()  # of these; empty: all
    doom_explore: Path | None = None  # folder in whose validation mazes a controller explores; None: doom_data

    def chosen(self, kind: str, known: Iterable[str]) -> tuple[str, ...]:
        """The selected domains, methods or blocks among those that the experiment has."""
        asked = getattr(self, kind)
        return tuple(name for name in known if not asked or name in asked)

    def lacks(self, **case: Any) -> bool:
        return not select(self.finished, experiment=self.experiment, **case)

    def scenes(self, known: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """All chosen domains, seed by seed; a smoke run takes the last one unless it is told which."""
        if self.size.is_smoke and not self.domains:
            known = known[-1:]
        return ((domain, seed) for seed in self.seeds for domain in self.chosen("domains", known))


def timed(make: Callable[..., Product], *args: Any, **kwargs: Any) -> tuple[Product, float]:
    began = perf_counter()
    product = make(*args, **kwargs)
    return product, perf_counter() - began
