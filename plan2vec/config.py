"""Every setting of a fit, with its unit and default. Read by `pipeline.fit`, written to config.json."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from plan2vec.closures import ClosureConfig
from plan2vec.data import Sequences, camera_moves
from plan2vec.embedding import EmbeddingConfig
from plan2vec.local_metric import LocalMetricConfig
from plan2vec.value_iteration import ValueIterationConfig

FORMAT_VERSION = 1  # of the run folder
T = TypeVar("T")


@dataclass(frozen=True)
class Config:
    """Settings of a fit."""

    dim: int = 8  # numbers in a vector of the metric map (2 or 3 to look at it)
    head: Literal["lp", "max-relu", "mrn", "squared"] = "lp"  # distance between vectors; max-relu and mrn tell there from back
    norm_order: float = 2.0  # p of the l^p head; inf is allowed
    view: Literal["auto", "fixed", "moving"] = "auto"  # of the camera; auto: by pixels. Defaults follow it (docs/method.md)
    encoder: str = "small"  # small | medium | maze-global | resnet18 | mlp | module:factory (vectors get an MLP, or fourier)
    max_gap: int = 1  # frames up to this many steps apart count as neighbours in training
    radius: float | None = None  # steps within which two frames are joined; None: chosen from the recorded steps
    directed: bool = False  # recorded steps lead forward only
    holdout: float = 0.0  # share of the sequences never trained on; evaluated beside the others
    seed: int = 0
    variant: Literal["amortized", "value-iteration"] = "amortized"  # learn from searched paths (embedding.*), or from own walks
    local_metric: LocalMetricConfig = field(default_factory=LocalMetricConfig)
    closures: ClosureConfig = field(default_factory=ClosureConfig)
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    value_iteration: ValueIterationConfig = field(default_factory=ValueIterationConfig)

    def __post_init__(self) -> None:
        _require(self.dim >= 1, "dim", "at least 1", self.dim)
        _require(self.norm_order >= 1, "norm-order", "at least 1", self.norm_order)
        _require(self.max_gap >= 1, "max-gap", "at least 1 frame", self.max_gap)
        _require(self.radius is None or 0 < self.radius < math.inf, "radius", "a positive number of steps", self.radius)
        _require(0 <= self.holdout < 1, "holdout", "a share from 0 up to 1", self.holdout)
        _require(self.seed >= 0, "seed", "0 or more", self.seed)
        _require(not self.directed or self.head in ("max-relu", "mrn"), "head", "max-relu or mrn for a directed graph", self.head)
        _require(0 <= self.closures.look_alikes < math.inf, "closures.look-alikes", "0 or more frames", self.closures.look_alikes)
        _require(0 < self.closures.common_reach <= 1, "closures.common_reach", "above 0 and at most 1", self.closures.common_reach)
        _require(
            self.closures.prefer != "hubs" or self.closures.search != "approximate", "closures.search",
            "auto or exact where closures.prefer is hubs", self.closures.search,
        )  # fmt: skip
        _require(self.embedding.slope >= 0, "embedding.slope", "0 or more", self.embedding.slope)
        _require(0 <= self.embedding.guide <= 1, "embedding.guide", "a share from 0 to 1", self.embedding.guide)
        _require(not self.embedding.guide or not self.directed, "embedding.guide", "0 for a directed graph", self.embedding.guide)
        _require(
            not self.embedding.guide or self.embedding.targets == "full", "embedding.targets", "full where embedding.guide is above 0",
            self.embedding.targets,
        )  # fmt: skip
        for stage in (self.local_metric, self.embedding, self.value_iteration):
            _require(stage.num_updates >= 1, "num-updates", "at least 1", stage.num_updates)
        for name in ("num_rounds", "rollouts", "hops", "lookahead", "target_hops", "replay_rounds", "rollouts_per_update"):
            count = getattr(self.value_iteration, name)
            _require(count >= 1, f"value-iteration.{name.replace('_', '-')}", "at least 1", count)


# What a moving camera needs instead of the defaults: every view is new, so the metric must be kept from learning them by heart.
MOVING_VIEW = {"encoder": "medium", "max_gap": 3, "dim": 16}
MOVING_LOCAL_METRIC = {"num_updates": 1500, "shift": 2, "brightness": 0.1}
MOVING_CLOSURES = {"min_degree": 16.0, "look_alikes": 0.0}
MOVING_EMBEDDING = {"loss": "sammon", "num_updates": 1500, "num_rounds": 8, "goals_per_round": 512}


def follow_view(config: Config, sequences: Sequences, given: frozenset[str] = frozenset()) -> Config:
    """The configuration with `view` decided. Where it was "auto" and the camera moves, settings that were not given follow it."""
    if config.view != "auto":
        return config
    if not camera_moves(sequences.frames, sequences.sequence):
        return replace(config, view="fixed")
    return as_moving(config, given)


def as_moving(config: Config, given: frozenset[str] = frozenset()) -> Config:
    """The settings for a moving camera. What differs from the default stays, and what is named in `given` ("dim", "local_metric.shift")."""
    return replace(
        _where_default(config, MOVING_VIEW, given, ""), view="moving",
        local_metric=_where_default(config.local_metric, MOVING_LOCAL_METRIC, given, "local_metric."),
        closures=_where_default(config.closures, MOVING_CLOSURES, given, "closures."),
        embedding=_where_default(config.embedding, MOVING_EMBEDDING, given, "embedding."),
    )  # fmt: skip


def _where_default(settings: T, wanted: Mapping[str, object], given: frozenset[str], prefix: str) -> T:
    plain = type(settings)()
    untouched = {
        name: value for name, value in wanted.items()
        if prefix + name not in given and getattr(settings, name) == getattr(plain, name)
    }  # fmt: skip
    return replace(settings, **untouched)  # type: ignore[type-var]


def _require(holds: bool, name: str, expected: str, came: object) -> None:
    if not holds:
        raise ValueError(f"--{name} must be {expected}, but is {came}")


def preset(name: str) -> Config:
    """`default`; `quick`: half the work, enough for simple frames; `paper`: networks, local metric and threshold of the paper's mazes.

    Closure tests and the training of the map are ours in `paper` too.
    """
    if name == "default":
        return Config()
    if name == "quick":
        return Config(local_metric=LocalMetricConfig(num_updates=300, batch_size=128), embedding=EmbeddingConfig(num_updates=400))
    if name != "paper":
        raise ValueError(f"preset must be default, quick or paper, but is {name!r}")
    return Config(
        dim=2, encoder="maze-global", view="fixed", radius=1.5,  # its threshold, right between a step (1) and a far pair (2)
        local_metric=LocalMetricConfig(architecture="stacked", network="maze-local", candidates="small", loss="regression",
                                       batch_size=32, learning_rate=1e-4, num_updates=12_500),  # 40 epochs of 10,000 frames
        # its network takes 13 GFLOP a frame: 600 updates of 192 frames where our small one takes as many of 384
        embedding=EmbeddingConfig(loss="sammon", learning_rate=3e-4, num_updates=600, goals_per_update=64, nodes_per_update=128),
    )  # fmt: skip


def to_json(config: Config) -> dict:
    """A plain map; infinity, which JSON lacks, becomes the string "inf"."""
    values = dataclasses.asdict(config)
    return values | {"norm_order": "inf" if math.isinf(config.norm_order) else config.norm_order}


def from_json(values: dict) -> Config:
    """Settings that a folder of an older version does not name have their defaults, or do what was done before they were there."""
    earlier = {"closures": {"look_alikes": 0} | values.get("closures", {})}
    values = to_json(Config()) | values | earlier
    stages = {
        "local_metric": LocalMetricConfig, "closures": ClosureConfig, "embedding": EmbeddingConfig, "value_iteration": ValueIterationConfig
    }  # fmt: skip
    built = {name: make(**values[name]) for name, make in stages.items()}
    return Config(**(values | built | {"norm_order": float(values["norm_order"])}))


def differences(first: dict, second: dict, prefix: str = "") -> list[str]:
    """Names of the settings in which two configurations differ, with both values."""
    found = []
    for name in sorted(first.keys() | second.keys()):
        a, b = first.get(name), second.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{prefix}{name}.")
        elif a != b:
            found.append(f"{prefix}{name} ({a} there, {b} now)")
    return found
