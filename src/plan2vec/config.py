"""Every setting of a fit, with its unit and meaning, and `settle`, which decides what was not given, but for `UPDATES`.

A field that is None was not given. `settle` measures the recordings and fills it by the rule in the field's comment.
The settled configuration is what a run stores, prints and uses."""

import dataclasses
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, get_args, get_origin

# the registry of heads: name -> class in embedding/heads.py, and whether D(a, b) may differ from D(b, a)
HEADS = {"lp": ("LpHead", False), "max-relu": ("MaxReluHead", True), "mrn": ("MRNHead", True),
         "squared": ("SquaredHead", False)}

if TYPE_CHECKING:
    from plan2vec.data import Sequences

    Int: TypeAlias = int  # as it is after `settle`
    Float: TypeAlias = float
    Text: TypeAlias = str
    Head: TypeAlias = str | None
else:
    Int, Float, Text = int | None, float | None, str | None
    Head = Literal[tuple(HEADS)] | None
NOT_GIVEN: Any = None  # `settle` decides

FORMAT_VERSION = 3  # of the run folder
APPROXIMATE_ABOVE = 30_000  # frames; where it begins to pay on two CPU cores
DIRECTED_HEADS = tuple(name for name, (_, is_directed) in HEADS.items() if is_directed)
Loss = Literal["huber", "relative", "sammon"]
WALKED_UPDATES = 3000  # of a map by value iteration, where no number was given
DIRECTED_HEAD = "mrn"  # of a directed graph where no head was given
Neighbors = Literal["exact", "approximate", "hubs"]
Box = tuple[int, int, int, int]  # left, top, right, bottom
Support = Literal["auto", "both", "common", "detour", "none"]


def _require(holds: bool, name: str, expected: str, came: object) -> None:
    if not holds:
        raise ValueError(f"--{name.replace('_', '-')} must be {expected}, but is {came}")


@dataclass(frozen=True)
class ReadOptions:
    """What is taken from recordings, and how frames are prepared."""

    # pixels of both sides of a frame; default: pictures above 64 become 64 x 64, .npz and .npy stay
    size: int | None = None
    gray: bool = False  # frames in gray; default: colour where pictures are coloured
    rgb: bool = False  # frames in three channels even where pictures are gray
    every: int = 1  # of each sequence keep every n-th frame
    rate: float | None = None  # keep this many frames per second; needs recordings with time (video, LeRobot)
    crop: str | None = None  # LEFT,TOP,RIGHT,BOTTOM in pixels of the source: the part of a picture that is kept
    camera: str | None = None  # which camera (or observation) of several; of LeRobot also all: side by side
    trust_pickle: bool = False  # open pickles too; arrays and plain values are admitted, nothing else

    def __post_init__(self) -> None:
        _require(self.size is None or 4 <= self.size <= 1024, "size", "from 4 to 1024 pixels", self.size)
        if self.gray and self.rgb:
            raise ValueError("--gray and --rgb exclude each other; give one")
        _require(self.every >= 1, "every", "at least 1 frame", self.every)
        is_rate = self.rate is None or 0 < self.rate < math.inf
        _require(is_rate, "rate", "a positive number of frames per second", self.rate)
        if self.rate is not None and self.every > 1:
            raise ValueError("--every and --rate exclude each other; give one")
        parse_crop(self.crop)


def parse_crop(text: str | None) -> Box | None:
    """(left, top, right, bottom) from "LEFT,TOP,RIGHT,BOTTOM"."""
    if text is None:
        return None
    numbers = [number.strip() for number in text.split(",")]
    are_whole = all(number.isascii() and number.isdigit() and len(number) < 9 for number in numbers)
    expected = "LEFT,TOP,RIGHT,BOTTOM in whole pixels, for example 0,20,640,460"
    _require(len(numbers) == 4 and are_whole, "crop", expected, text)
    left, top, right, bottom = map(int, numbers)
    if left >= right or top >= bottom:
        raise ValueError(f"--crop must have LEFT below RIGHT and TOP below BOTTOM, but is {text}")
    return left, top, right, bottom


@dataclass(frozen=True)
class LocalMetricConfig:
    """How the local metric is learned."""

    # siamese: |z(a) - z(b)|, searchable; the paper's: stacked (its mazes), stacked-deep (its rope and streets)
    architecture: Literal["siamese", "stacked", "stacked-deep"] = "siamese"
    loss: Literal["regression", "hinge", "nce"] = "hinge"  # far pairs: exactly 2 (paper) | at least 2 | paper's eq. 4
    dim: int = 32  # numbers in a siamese vector
    # gradient updates; default 400, and 1,600 where the tests of closures refuse many of the pairs that it puts near;
    # moving camera by its frames, 400 to 1,500
    num_updates: Int = NOT_GIVEN
    batch_size: Int = NOT_GIVEN  # neighbour pairs per update; default 128 (siamese: all its other pairs are far pairs)
    learning_rate: Float = NOT_GIVEN  # Adam, at its highest; default 0.001, moving 0.003
    far_weight: Float = NOT_GIVEN  # weight of far pairs against neighbours (paper: 1 : 1 : 2); default 2, moving 10
    # frames change at random: zoom by up to this share, shift by half of it, brightness and contrast by 1.25 times it;
    # default 0, moving or moved camera 0.08; never of a frozen encoder
    jitter: Float = NOT_GIVEN


@dataclass(frozen=True)
class ClosureConfig:
    """Which loop closures are looked for and believed."""

    max_false: float = 0.01  # share of the closures that may be false, as estimated (moving camera)
    max_neighbors: int = 200  # candidates per frame
    # exact | approximate (usearch) | hubs: a random subset of the near frames, so that hops are long; default exact,
    # but approximate above 30,000 frames on a CPU where usearch is installed
    neighbors: Neighbors | None = None
    support: Support = "auto"  # tests a closure must pass; auto: by local density


@dataclass(frozen=True)
class EmbeddingConfig:
    """How the embedding is learned."""

    # gradient updates; default 600, and twice as many again, up to four times (pictures on a CPU: two), until greedy
    # walks by the map arrive; by value iteration 3,000
    num_updates: Int = NOT_GIVEN
    goals_per_update: int = 128  # rows of the block of distances that an update learns from
    nodes_per_update: int = 256  # its columns
    goals_per_round: int = 256  # goals that distances are searched to
    updates_per_round: int = 300  # after so many updates they are replaced by new ones
    learning_rate: float = 1e-3  # Adam, at its highest
    loss: Loss = "huber"  # of D and the path's length, see embedding/targets.py


@dataclass(frozen=True)
class Config:
    """Settings of a fit. `Config()` will do: what is not given, `fit` decides from the recordings (`settle`).

    A setting of a stage is given as `Config(embedding=EmbeddingConfig(num_updates=300))`. On the command line it is
    `--embedding.num-updates 300`. Every setting has its unit, meaning and default beside it."""

    dim: Int = NOT_GIVEN  # numbers in a vector of the metric map (2 or 3 to look at it); default 32
    # distance between vectors; max-relu and mrn tell there from back; default lp, of a directed graph mrn
    head: Head = NOT_GIVEN
    norm_order: Float = NOT_GIVEN  # p of the l^p head; inf is allowed; default 1, of 2 or 3 dimensions 2
    view: Literal["fixed", "moving"] | None = None  # of the camera; default: by how much a step changes
    # small | medium | views | maze-global | resnet18 | mlp | frozen | module:factory; default small, with a moving
    # camera views. frozen: features by ImageNet's weights, computed once. With views or frozen the map is a small
    # network on the local metric's vectors
    encoder: Text = NOT_GIVEN
    max_gap: Int = NOT_GIVEN  # frames up to this many steps apart count as neighbours in training; default 1, moving 3
    # steps within which two frames are joined, of a moving camera two runs of frames; default: found from the recording
    radius: float | None = None
    # hops follow time (--no-directed: both ways); default: if look-alikes move on alike and steps are rarely undone
    directed: bool | None = None
    holdout: float = 0.0  # share of the sequences never trained on; evaluated beside the others
    seed: int = 0
    # learn from searched paths (embedding.*), or from own walks
    variant: Literal["amortized", "value-iteration"] = "amortized"
    local_metric: LocalMetricConfig = field(default_factory=LocalMetricConfig)
    closures: ClosureConfig = field(default_factory=ClosureConfig)
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)

    def __repr__(self) -> str:
        settings = differing(dataclasses.asdict(self), dataclasses.asdict(Config()))
        given = ", ".join(f"{name}={value!r}" for name, (value, _) in settings.items())
        return "\n  ".join(textwrap.wrap(f"Config({given})", 116, max_lines=2, placeholder=" ...)"))

    def __post_init__(self) -> None:
        for name in ("dim", "norm_order", "max_gap", "local_metric.num_updates", "local_metric.batch_size",
                     "closures.max_neighbors", "embedding.num_updates", "embedding.updates_per_round",
                     "embedding.goals_per_round", "embedding.goals_per_update", "embedding.nodes_per_update"):
            value = setting(self, name)
            _require(value is None or value >= 1, name, "at least 1", value)
        for name in ("local_metric.learning_rate", "embedding.learning_rate"):
            value = setting(self, name)
            _require(value is None or 0 < value < math.inf, name, "a positive number", value)
        _require(self.head is None or self.head in HEADS, "head", f"one of {', '.join(HEADS)}", self.head)
        _require(self.radius is None or 0 < self.radius < math.inf, "radius", "a positive number of steps", self.radius)
        _require(0 <= self.holdout < 1, "holdout", "a share from 0 up to 1", self.holdout)
        _require(0 <= self.seed < 2**63, "seed", "from 0 to 2^63 - 1", self.seed)
        one_way = not self.directed or self.head in (None, *DIRECTED_HEADS)
        _require(one_way, "head", f"{' or '.join(DIRECTED_HEADS)} for a directed graph", self.head)
        jitter, wrong = self.local_metric.jitter, self.closures.max_false
        once = self.encoder != "frozen" or not jitter
        _require(once, "local_metric.jitter", "0 for a frozen encoder, which sees every frame once", jitter)
        _require(0 <= wrong <= 1, "closures.max_false", "a share from 0 to 1", wrong)


DEFAULTS = {"dim": 32, "encoder": "small", "max_gap": 1, "norm_order": 1.0, "local_metric.batch_size": 128,
            "local_metric.learning_rate": 1e-3, "local_metric.far_weight": 2.0, "local_metric.jitter": 0.0}
SETTLED = (*DEFAULTS, "view", "closures.neighbors")  # what `settle` decides
UPDATES = ("local_metric.num_updates", "embedding.num_updates")  # left to local_metric.py and embedding/train.py
# Where a fixed camera was moved between takes, the metric must not know a take by its background.
SHIFTING = {"local_metric.jitter": 0.08}
# With a moving camera every view is new, so the metric must be kept from learning views by heart.
MOVING = {"encoder": "views", "max_gap": 3, "local_metric.learning_rate": 3e-3, "local_metric.far_weight": 10.0,
          "local_metric.jitter": 0.08}
# Updates of a moving camera's metric: more with more frames, the most for 2,500 of them.
FEWEST_UPDATES, MOST_UPDATES, FRAMES_FOR_MOST = 400, 1500, 2500


def settle(config: Config, recordings: "Sequences", device: str = "cpu", usearch_installed: bool = False) -> Config:
    """Decide everything that was not given. What was given stays, also where it equals a default."""
    view, num_frames = config.view or ("moving" if recordings.camera_moves else "fixed"), recordings.num_frames
    followed: dict[str, Any] = {}
    if view == "moving":
        num_updates = min(MOST_UPDATES, max(FEWEST_UPDATES, MOST_UPDATES * num_frames // FRAMES_FOR_MOST))
        followed = MOVING | {"local_metric.num_updates": num_updates}
    elif recordings.background_shifts and not recordings.camera_moves:
        followed = SHIFTING
    many = num_frames > APPROXIMATE_ABOVE and device == "cpu" and usearch_installed
    found = {"view": view, "closures.neighbors": "approximate" if many else "exact"}
    return _filled(config, DEFAULTS | followed | by_settings(config) | found)


def _filled(config: Config, found: dict[str, Any]) -> Config:
    return with_settings(config, {name: value for name, value in found.items() if setting(config, name) is None})


def by_settings(config: Config) -> dict[str, Any]:
    """What follows from what was given. A map to look at keeps the distance that the eye measures."""
    flat = {"norm_order": 2.0} if config.dim is not None and config.dim <= 3 else {}
    once = {"local_metric.jitter": 0.0} if config.encoder == "frozen" else {}  # its features are computed once
    return flat | once | ({"embedding.num_updates": WALKED_UPDATES} if config.variant == "value-iteration" else {})


def keep_decisions(config: Config, decided: Config) -> Config:
    """The configuration in which what was not given is as an earlier `settle` decided it."""
    return _filled(config, {name: setting(decided, name) for name in (*SETTLED, *UPDATES)})


def head_of(config: Config) -> str:
    """The head that was given, else the one that fits the direction of the graph."""
    return config.head or (DIRECTED_HEAD if config.directed else "lp")


def setting(config: Any, name: str) -> Any:
    """The value of "dim" or "local_metric.jitter"."""
    for part in name.split("."):
        config = getattr(config, part)
    return config


def with_settings(config: Config, values: dict[str, Any]) -> Config:
    """The configuration with some settings replaced; names as in `setting`."""
    stages: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        stage, _, inner = name.rpartition(".")
        stages.setdefault(stage, {})[inner] = value
    changed = stages.pop("", {})
    return replace(config, **changed, **{stage: replace(getattr(config, stage), **stages[stage]) for stage in stages})


def preset(name: str) -> Config:
    """`default`; `paper`: networks, local metric and threshold of its mazes, with our closure tests and training."""
    if name == "default":
        return Config()
    if name != "paper":
        raise ValueError(f"preset must be default or paper, but is {name!r}")
    stacked = LocalMetricConfig(architecture="stacked", loss="regression", batch_size=32, learning_rate=1e-4,
                                num_updates=12_500, jitter=0.0)  # 40 epochs of 10,000 frames
    # its network takes 13 GFLOP per frame: 600 updates of 192 frames where our small one takes as many of 384
    light = EmbeddingConfig(600, goals_per_update=64, nodes_per_update=128, learning_rate=3e-4, loss="sammon")
    threshold = 1.5  # right between a step (1) and a far pair (2)
    return Config(dim=2, encoder="maze-global", view="fixed", radius=threshold, local_metric=stacked, embedding=light)


def to_json(config: Config) -> dict:
    """A plain map; infinity, which JSON lacks, becomes the string "inf"."""
    return dataclasses.asdict(config) | {"norm_order": "inf" if config.norm_order == math.inf else config.norm_order}


def from_json(values: dict) -> Config:
    """The configuration that `to_json` gave; ValueError where a setting is missing, unknown or of a wrong kind."""
    stages = {"local_metric": LocalMetricConfig, "closures": ClosureConfig, "embedding": EmbeddingConfig}
    try:
        built = {name: _built(make, values[name]) for name, make in stages.items()}
        norm_order = math.inf if values["norm_order"] == "inf" else values["norm_order"]
        return _built(Config, values | built | {"norm_order": norm_order})
    except (KeyError, TypeError) as error:
        raise ValueError(f"the stored configuration does not fit this version ({error}); fit again") from None


def _built(make: type, values: dict) -> Any:
    """A dataclass of settings from plain values, whose kinds are checked: they may come from elsewhere."""
    for one in dataclasses.fields(make):
        if not _admits(one.type, values[one.name]):
            raise TypeError(f"{one.name} is {values[one.name]!r}")
    return make(**values)


def _admits(kind: Any, value: object) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return any(_admits(part, value) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (int, float):
        return isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind)


def flat(values: dict, between: str = ".", before: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its name; a value inside another mapping has both names, with `between` between them."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, between, f"{before}{name}{between}")
        else:
            yield f"{before}{name}", value


def differing(first: dict, second: dict) -> dict[str, tuple[Any, Any]]:
    """Names of the settings in which two configurations differ, and both values."""
    a, b = dict(flat(first)), dict(flat(second))
    return {name: (a.get(name), b.get(name)) for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)}
