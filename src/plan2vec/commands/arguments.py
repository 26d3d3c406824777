"""What can be typed: every command with its options, their units and defaults. The help comes from the comments."""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from plan2vec.commands.help import command_help, program_help
from plan2vec.config import Config, ReadOptions, preset

Device = Literal["auto", "cpu", "cuda", "mps"]
Preset = Literal["default", "quick", "paper"]
Settings = Annotated[Config, tyro.conf.arg(name="")]
ReadSettings = Annotated[ReadOptions, tyro.conf.arg(name="")]
RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Recordings = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RECORDINGS")]


@dataclass(frozen=True)
class Demo:
    """Simulate a maze, fit, evaluate, draw, and say where the report is."""

    room: Literal["c-maze", "table", "open"] = "c-maze"  # the paper's three rooms
    out: Path | None = None  # run folder; default runs/demo-ROOM, named after the settings that differ
    num_rollouts: int = 1000  # random walks of 10 frames
    device: Device = "auto"  # auto: a GPU where there is one
    verbose: bool = False  # print every number of the scorecard, not only the verdict
    json: bool = False  # print the scorecard as one JSON object
    preset: Preset = "quick"  # start from these settings: half the work of a fit's default is enough for these frames
    config: Settings = field(default_factory=lambda: preset("quick"))


@dataclass(frozen=True)
class Fit:
    """Fit graph and metric map to recordings; the same command continues an interrupted fit."""

    recordings: Recordings  # a folder of images, video, .npz, .npy, .hdf5, minari:ID or a LeRobot folder
    out: Path  # run folder
    reading: ReadSettings = field(default_factory=ReadOptions)
    device: Device = "auto"  # auto: a GPU where there is one
    checkpoint_seconds: float = 10.0  # seconds of training that a kill can cost
    verbose: bool = False  # print every number of the scorecard, not only the verdict
    json: bool = False  # print the scorecard as one JSON object
    preset: Preset = "default"  # start from these settings
    config: Settings = field(default_factory=Config)


@dataclass(frozen=True)
class Inspect:
    """Say what would be read from recordings, and draw a contact sheet."""

    recordings: Recordings  # as for fit
    sheet: Path | None = None  # where a contact sheet goes: a .png file
    reading: ReadSettings = field(default_factory=ReadOptions)
    json: bool = False  # print the answer as one JSON object


@dataclass(frozen=True)
class PlanCommand:
    """Plan between two recorded frames, or images, on a fitted run."""

    run: RunFolder  # run folder
    start: str  # frame number, sequence:index, or an image file
    goal: str  # frame number, sequence:index, or an image file
    # greedy and lookahead walk the map, astar searches with it, dijkstra without it; auto: greedy, where it fails astar
    method: Literal["auto", "greedy", "lookahead", "astar", "dijkstra"] = "auto"
    lookahead: int = 3  # hops looked ahead, for --method lookahead
    memory: bool = False  # greedy and lookahead never choose a frame twice
    strip: Path | None = None  # where the film strip goes; default figures/ of the run
    video: Path | None = None  # also as a moving picture: a .gif or .mp4 file
    encoder: str | None = None  # module:factory, if the map has a network of your own: code runs only if named
    device: Device = "auto"  # auto: a GPU where there is one
    json: bool = False  # print the plan as one JSON object


@dataclass(frozen=True)
class Evaluate:
    """Say whether a fitted map can be trusted; all its numbers with --verbose or --json."""

    run: RunFolder  # run folder
    success_radius: float | None = None  # true distance to the goal that counts as arrived (units of position)
    max_hops: int | None = None  # hops a walk may take
    epsilon: float | None = None  # probability of a random hop
    episodes: int | None = None  # random (start, goal) pairs
    memory: bool = False  # walks never enter a frame twice
    # closures truly longer than this are false; default seven median steps, in a simulated domain three longest ones
    false_beyond: float | None = None
    # leave out closures between frames of one sequence less than this apart; default 20, in a simulated domain 0
    min_gap: int | None = None
    encoder: str | None = None  # module:factory, if the map has a network of your own: code runs only if named
    device: Device = "auto"  # auto: a GPU where there is one
    verbose: bool = False  # print every number of the scorecard, not only the verdict
    json: bool = False  # print the scorecard as one JSON object


@dataclass(frozen=True)
class Check:
    """Read every file of a run and compare it with what was written."""

    run: RunFolder  # run folder
    json: bool = False  # print the answer as one JSON object


@dataclass(frozen=True)
class Report:
    """Write the pictures and report.html of a fitted run anew."""

    run: RunFolder  # run folder
    encoder: str | None = None  # module:factory, if the map has a network of your own: code runs only if named
    device: Device = "auto"  # auto: a GPU where there is one


@dataclass(frozen=True)
class Add:
    """Add recordings to a fitted run: new frames join the graph and the map follows. Old frame numbers stay valid."""

    run: RunFolder  # run folder
    recordings: Recordings  # frames like those on the map
    num_updates: int | None = None  # gradient updates of the fine-tuning; default a third of the fit's
    trust_pickle: bool = False  # as for fit: consent is never taken from the run
    encoder: str | None = None  # module:factory, if the map has a network of your own: code runs only if named
    device: Device = "auto"  # auto: a GPU where there is one
    json: bool = False  # print what was added as one JSON object


@dataclass(frozen=True)
class ClosuresCommand:
    """Look at the most doubtful closures; strike the false ones and bring the map up to date."""

    run: RunFolder  # run folder
    num: int = 20  # closures listed
    picture: Path | None = None  # where the frame pairs go; default figures/suspicious.png of the run
    # a false closure, as 12-480; may be repeated, or several with commas
    strike: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    keep: tyro.conf.UseAppendAction[tuple[str, ...]] = ()  # a true one: not listed again, and not struck any more
    update: bool = False  # fine-tune the map to what was struck before, in the explorer or with --no-update
    no_update: bool = False  # strike and keep only; the map itself follows with --update
    num_updates: int | None = None  # gradient updates of the fine-tuning; default a third of the fit's
    encoder: str | None = None  # module:factory, if the map has a network of your own: code runs only if named
    device: Device = "auto"  # auto: a GPU where there is one
    json: bool = False  # print the list as one JSON object


@dataclass(frozen=True)
class Relabel:
    """Write the learned distance to a goal as reward into a copy of an offline dataset."""

    run: RunFolder  # run folder
    dataset: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]  # .npz, minari:ID or its folder
    out: Path  # where the copy goes: an .npz file or, for Minari, a folder; must not exist
    # future: a later frame of the sequence | random: any frame | a frame number of the run, or an image file, as for
    # plan
    goal: str = "future"
    # potential: decrease of the distance, added to the dataset's reward | distance: minus the distance, alone
    mode: Literal["potential", "distance"] = "potential"
    discount: float = 0.99  # of the agent that will learn from it, per step
    scale: float = 1.0  # reward that one step of distance is worth
    seed: int = 0  # of the goals that are drawn
    encoder: str | None = None  # module:factory, if the map has a network of your own: code runs only if named
    device: Device = "auto"  # auto: a GPU where there is one
    json: bool = False  # print the answer as one JSON object


@dataclass(frozen=True)
class Explore:
    """Look at a fitted run in the browser: map, plans, neighbours, suspicious closures."""

    run: RunFolder  # run folder
    port: int = 0  # 0: a free one
    host: str = "127.0.0.1"  # any other address lets other machines in; the token is the only password
    no_browser: bool = False  # print the address only
    encoder: str | None = None  # module:factory, if the map has a network of your own: code runs only if named
    device: Device = "auto"  # auto: a GPU where there is one


@dataclass(frozen=True)
class Bench:
    """Run a benchmark and print its rows."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]  # all, or one; a wrong name lists them
    paths: tuple[Path, ...] = ()  # recordings to fit, of `bench recordings` and `bench same-map`
    doom_data: Path | None = None  # of `bench recordings`: the folder of SPTM's mazes, which are replayed
    mazes: tuple[str, ...] = ()  # of `bench recordings`: these mazes of --doom-data; default all
    joined: bool = False  # of `bench recordings`: all recordings in one fit, where closures between them are false
    baselines: bool = False  # of `bench recordings`: other distances walk the same graph
    dynamics: tuple[str, ...] = ()  # of `bench recordings`: simulators to roll out (pendulum mountain-car)
    seed: int = 0  # the first one
    seeds: int | None = None  # how many, from --seed on; default 1
    sizes: tuple[int, ...] = ()  # numbers of frames (or nodes); default: the benchmark's own
    smoke: bool = False  # tiny, in seconds, to see that it runs; no results
    out: Path | None = None  # folder of rows and figures; default runs/bench, a temporary one with --smoke
    draw_only: bool = False  # tables and figures from the rows in the folder; nothing is run
    # join the folder's rows into docs/results and make docs/performance.md and its figures anew
    write_docs: bool = False
    commit: str | None = None  # written into the rows where the program does not run from a checkout
    device: Device = "auto"  # auto: a GPU where there is one
    json: bool = False  # print the rows as one JSON object


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments anew: rows, markdown tables with 95 % intervals, figures."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]  # all, or one; a wrong name lists them
    seeds: int = 5  # how many
    seed_start: int = 0  # the first of them
    domains: tuple[str, ...] = ()  # only these domains (open, c-maze, rope, street-small ...); default all
    methods: tuple[str, ...] = ()  # only these methods of the experiment; default all
    # only these parts of the experiment (of table1: fitted unseen large paper); default all
    blocks: tuple[str, ...] = ()
    # .npz of the real street network (docs/domains.md); default: streets of a generated city
    street_graph: Path | None = None
    env: str | None = None  # of ogbench: only this data set, e.g. pointmaze-giant-stitch-v0
    # folder of OGBench's data sets; the missing ones are made there; default: in the output folder
    ogbench_data: Path | None = None
    smoke: bool = False  # tiny data, one room, one seed, in seconds, to see that everything runs; no results
    out: Path | None = None  # folder of rows and figures; default runs/reproduce, a temporary one with --smoke
    missing_only: bool = False  # leave out what the folder has rows of: continues after a time limit
    rows_only: bool = False  # no tables and figures: for processes side by side that share the folder
    draw_only: bool = False  # tables and figures from the rows in the folder; nothing is run
    write_docs: bool = False  # join the rows into docs/results and make docs/results.md and its figures anew
    time_limit: float | None = None  # seconds after which no further room, seed or method is begun
    recordings: Path | None = None  # of g1-bottle: the robot's frames (.npz); without them it is left out
    commit: str | None = None  # written into the rows where the program does not run from a checkout
    device: Device = "auto"  # auto: a GPU where there is one
    json: bool = False  # print the tables as one JSON object


# a setting that is on, off or undecided is no flag to tyro
DIRECTION = {"--directed": ("--directed", "True"), "--no-directed": ("--directed", "False")}
COMMANDS: dict[str, Any] = {"demo": Demo, "inspect": Inspect, "fit": Fit, "plan": PlanCommand, "explore": Explore,
                            "evaluate": Evaluate, "report": Report, "check": Check, "closures": ClosuresCommand,
                            "add": Add, "relabel": Relabel, "bench": Bench, "reproduce": Reproduce}
Command = Any  # one of these


def asked_help(arguments: list[str]) -> str | None:
    """The help that was asked for: of one command, or of the program where none is named."""
    if not arguments:
        return program_help(COMMANDS)
    asked = {"-h", "--help", "--help-all"}.intersection(arguments)
    if not asked or (arguments[0] not in COMMANDS and arguments[0] not in asked):
        return None
    name = arguments[0]
    return command_help(name, COMMANDS[name], "--help-all" in asked) if name in COMMANDS else program_help(COMMANDS)


def parse(arguments: list[str]) -> Command:
    """The command with its settings; --preset changes what the others start from."""
    name = arguments[0]
    if name not in COMMANDS:
        raise ValueError(f"there is no command {name!r}; expected one of {', '.join(COMMANDS)} (plan2vec --help)")
    command: Any = COMMANDS[name]
    defaults: dict[str, Any] = {}
    if command in (Demo, Fit):
        config = preset(_preset_name(arguments) or command.preset)
        defaults["default"] = Demo(config=config) if command is Demo else Fit(tyro.MISSING, tyro.MISSING, config=config)
    flags = (tyro.conf.FlagCreatePairsOff,)
    typed = [word for argument in arguments[1:] for word in DIRECTION.get(argument, (argument,))]
    return tyro.cli(command, prog=f"plan2vec {name}", args=typed, config=flags, **defaults)


def _preset_name(arguments: list[str]) -> str | None:
    words = [part for argument in arguments for part in argument.split("=", 1)]
    return next((value for flag, value in pairwise(words) if flag == "--preset"), None)
