"""What can be typed: every command with its options, their units and defaults. The help comes from the comments."""

import io
import math
import re
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from plan2vec.commands.help import command_help, program_help
from plan2vec.config import Config, ReadOptions, preset
from plan2vec.results.requests import BenchRequest, Device, ReproduceRequest

Preset = Literal["default", "paper"]
Settings = Annotated[Config, tyro.conf.arg(name="")]
ReadSettings = Annotated[ReadOptions, tyro.conf.arg(name="")]
RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Recordings = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RECORDINGS")]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What every command takes whose answer programs may read."""

    json: bool = False  # print the answer as one JSON object


@dataclass(frozen=True)
class Demo(Answer):
    """Simulate a maze, fit, evaluate, draw, and say where the report is."""

    room: Literal["c-maze", "table", "open"] = "c-maze"  # the paper's three rooms
    out: Path | None = None  # run folder; default runs/demo-ROOM, named after the settings that differ
    num_rollouts: int = 1000  # random walks of 10 frames
    device: Device = "auto"  # auto: a GPU where there is one
    verbose: bool = False  # print every number of the scorecard, not only the verdict
    preset: Preset = "default"  # start from these settings
    config: Settings = field(default_factory=Config)


@dataclass(frozen=True)
class Fit(Answer):
    """Fit graph and metric map to recordings; the same command continues an interrupted fit."""

    recordings: Recordings  # a folder of images, video, .npz, .npy, .hdf5, minari:ID or a LeRobot folder
    out: Path  # run folder
    reading: ReadSettings = field(default_factory=ReadOptions)
    device: Device = "auto"  # auto: a GPU where there is one
    checkpoint_seconds: float = 10.0  # seconds of training that a kill can cost
    verbose: bool = False  # print every number of the scorecard, not only the verdict
    preset: Preset = "default"  # start from these settings
    config: Settings = field(default_factory=Config)


@dataclass(frozen=True)
class Inspect(Answer):
    """Say what would be read from recordings, and draw a contact sheet."""

    recordings: Recordings  # as for fit
    sheet: Path | None = None  # where a contact sheet goes: a .png file
    reading: ReadSettings = field(default_factory=ReadOptions)


@dataclass(frozen=True)
class AuditCommand(Answer):
    """Say which episodes of a dataset to look at, worst first, and why. Nothing is deleted."""

    recordings: Recordings  # a run folder, or recordings as for fit
    out: Path | None = None  # run folder of recordings that are fitted first; default runs/audit-NAME
    no_fit: bool = False  # of recordings: compare frames only, in seconds; detours are not judged
    against: Path | None = None  # other recordings: also find episodes that are in both (leakage between splits)
    num: int = 20  # episodes printed
    csv: Path | None = None  # also as a table: a .csv file, one line per episode
    page: Path | None = None  # the page with a strip of frames per finding; default audit.html of the run
    reading: ReadSettings = field(default_factory=ReadOptions)
    device: Device = "auto"  # auto: a GPU where there is one
    config: Settings = field(default_factory=Config)


@dataclass(frozen=True, kw_only=True)
class OnRun:
    """What every command that opens a fitted map takes."""

    run: RunFolder  # run folder
    encoder: str | None = None  # module:factory, if the map has a network of your own: code runs only if named
    device: Device = "auto"  # auto: a GPU where there is one


@dataclass(frozen=True, kw_only=True)
class PlanCommand(OnRun, Answer):
    """Plan between two recorded frames, or images, on a fitted run."""

    start: str  # frame number, sequence:index, or an image file
    goal: str  # frame number, sequence:index, or an image file
    # greedy and lookahead walk the map, astar searches with it, dijkstra without it; auto: greedy, where it fails astar
    method: Literal["auto", "greedy", "lookahead", "astar", "dijkstra"] = "auto"
    lookahead: int = 3  # hops looked ahead, for --method lookahead
    memory: bool = False  # greedy and lookahead never choose a frame twice
    strip: Path | None = None  # where the film strip goes; default figures/ of the run
    video: Path | None = None  # also as a moving picture: a .gif or .mp4 file


@dataclass(frozen=True, kw_only=True)
class Evaluate(OnRun, Answer):
    """Say whether a fitted map can be trusted; all its numbers with --verbose or --json."""

    success_radius: float | None = None  # true distance to the goal that counts as arrived (units of position)
    max_hops: int | None = None  # hops a walk may take
    epsilon: float | None = None  # probability of a random hop
    episodes: int | None = None  # random (start, goal) pairs
    memory: bool = False  # walks never enter a frame twice
    # closures truly longer than this are false; default seven median steps, in a simulated domain three longest ones
    false_beyond: float | None = None
    # leave out closures between frames of one sequence less than this apart; default 20, in a simulated domain 0
    min_gap: int | None = None
    verbose: bool = False  # print every number of the scorecard, not only the verdict


@dataclass(frozen=True)
class Check(Answer):
    """Read every file of a run and compare it with what was written."""

    run: RunFolder  # run folder


@dataclass(frozen=True, kw_only=True)
class Report(OnRun):
    """Write the pictures and report.html of a fitted run anew."""


@dataclass(frozen=True, kw_only=True)
class Add(OnRun, Answer):
    """Add recordings to a fitted run: new frames join the graph and the map follows. Old frame numbers stay valid."""

    recordings: Recordings  # frames like those on the map
    num_updates: int | None = None  # gradient updates of the fine-tuning; default a third of the fit's
    trust_pickle: bool = False  # as for fit: consent is never taken from the run


@dataclass(frozen=True, kw_only=True)
class ClosuresCommand(OnRun, Answer):
    """Look at the most doubtful closures; strike the false ones and bring the map up to date."""

    num: int = 20  # closures listed
    picture: Path | None = None  # where the frame pairs go; default figures/suspicious.png of the run
    # a false closure, as 12-480; may be repeated, or several with commas
    strike: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    keep: tyro.conf.UseAppendAction[tuple[str, ...]] = ()  # a true one: not listed again, and not struck any more
    update: bool = False  # fine-tune the map to what was struck before, in the explorer or with --no-update
    no_update: bool = False  # strike and keep only; the map itself follows with --update
    num_updates: int | None = None  # gradient updates of the fine-tuning; default a third of the fit's


@dataclass(frozen=True, kw_only=True)
class Relabel(OnRun, Answer):
    """Write the learned distance to a goal as reward into a copy of an offline dataset."""

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


@dataclass(frozen=True, kw_only=True)
class Progress(OnRun, Answer):
    """Write the progress of every frame: the share of its episode's way to a goal that is done, as LeRobot reads it."""

    out: Path  # .parquet (LeRobot looks for sarm_progress.parquet), .csv or .json
    # LAST: where the other episodes end | 3,7,10-19: where these good episodes end | 3:57,7:60: frames | an image file
    goals: str = "LAST"
    chunk: int = 50  # frames of a training sample, for the suggested kappa and the share of samples dropped
    video: int | None = None  # also write this episode with its curve, beside the file (.mp4, without [video] .gif)


@dataclass(frozen=True, kw_only=True)
class Export(OnRun, Answer):
    """Write the graph for other programs, or a plan's images (a topomap, for robots of the GNM / ViNT family)."""

    format: Literal["graphml", "topomap", "csv"]  # a file | a folder of images | a folder of tables
    out: Path  # must not exist
    start: str | None = None  # of a topomap: frame number, sequence:index, or an image file
    goal: str | None = None  # the same


@dataclass(frozen=True, kw_only=True)
class DriveCommand(OnRun, Answer):
    """Drive to a picture in a maze of SPTM, by a fitted run of its walkthrough: one episode."""

    doom_data: Path  # folder of SPTM's mazes (setups.json, default.cfg, and a folder per maze)
    maze: str  # name of the maze that the run's walkthrough was recorded in
    start: int = 0  # number of the start map
    goal: int = 0  # number of the goal
    # folder in whose validation mazes (Val/...) the controller explores, if none is beside the run; default --doom-data
    doom_explore: Path | None = None
    seed: int = 0  # of the driver and the maze
    film: Path | None = None  # view, waypoint, goal and map as a moving picture: a .gif or .mp4 file


@dataclass(frozen=True, kw_only=True)
class Explore(OnRun):
    """Look at a fitted run in the browser: map, plans, neighbours, suspicious closures."""

    port: int = 0  # 0: a free one
    host: str = "127.0.0.1"  # any other address lets other machines in; the token is the only password
    no_browser: bool = False  # print the address only


# a setting that is on, off or undecided is no flag to tyro
DIRECTION = {"--directed": ("--directed", "True"), "--no-directed": ("--directed", "False")}
COMMANDS: dict[str, Any] = {"demo": Demo, "inspect": Inspect, "fit": Fit, "plan": PlanCommand, "explore": Explore,
                            "evaluate": Evaluate, "report": Report, "check": Check, "closures": ClosuresCommand,
                            "add": Add, "audit": AuditCommand, "progress": Progress, "export": Export,
                            "relabel": Relabel, "drive": DriveCommand, "bench": BenchRequest,
                            "reproduce": ReproduceRequest}
Command = Any  # one of these
LIMITS: dict[str, tuple[float, float]] = {  # least and most of what is typed; a million hops is a slip of the finger
    "checkpoint_seconds": (0, math.inf), "chunk": (1, math.inf), "episodes": (1, 10**6), "epsilon": (0, 1),
    "false_beyond": (0, math.inf), "lookahead": (1, math.inf), "max_hops": (0, 10**6), "min_gap": (0, 10**6),
    "num": (1, math.inf), "num_updates": (1, math.inf), "port": (0, 65535), "seed": (0, 2**63 - 1),
    "seed_start": (0, 2**31), "seeds": (1, math.inf), "sizes": (0, math.inf), "success_radius": (0, math.inf)}


def asked_help(arguments: list[str]) -> str | None:
    """The help that was asked for: of one command, or of the program where none is named."""
    asked = {"-h", "--help", "--help-all"}.intersection(arguments)
    if not arguments or arguments[0] in asked:
        return program_help(COMMANDS)
    name = arguments[0]
    return command_help(name, COMMANDS[name], "--help-all" in asked) if asked and name in COMMANDS else None


def parse(arguments: list[str]) -> Command:
    """The command with its settings; --preset changes what the others start from."""
    if (name := arguments[0]) not in COMMANDS:
        raise ValueError(f"there is no command {name!r}; expected one of {', '.join(COMMANDS)} (plan2vec --help)")
    command: Any = COMMANDS[name]
    defaults: dict[str, Any] = {}
    if command in (Demo, Fit):
        words = [part for argument in arguments for part in argument.split("=", 1)]
        config = preset(next((value for flag, value in pairwise(words) if flag == "--preset"), None) or command.preset)
        defaults["default"] = Demo(config=config) if command is Demo else Fit(tyro.MISSING, tyro.MISSING, config=config)
    flags = (tyro.conf.FlagCreatePairsOff,)
    typed = [word for argument in arguments[1:] for word in DIRECTION.get(argument, (argument,))]
    told = io.StringIO()
    try:
        with redirect_stderr(told):
            return checked(tyro.cli(command, prog=f"plan2vec {name}", args=typed, config=flags, **defaults))
    except SystemExit:
        raise ValueError(f"{one_line(told.getvalue())} (plan2vec {name} --help)") from None


def one_line(box: str) -> str:
    """What tyro says in a box, without its frame, title and last advice."""
    lines = [line.strip("│ ") for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    parts = [" ".join(part.split()) for part in re.split("─+", "\n".join(lines))]
    return "; ".join(part for part in parts if part and not part.startswith("For full helptext"))


def checked(command: Command) -> Command:
    for name, (least, most) in LIMITS.items():
        value = getattr(command, name, None)
        values = value if isinstance(value, tuple) else () if value is None else (value,)
        for bad in (value for value in values if not least <= value <= most):
            words = f"at least {least}" if most == math.inf else f"from {least} to {most:,}"
            raise ValueError(f"--{name.replace('_', '-')} must be {words}, but is {bad}")
    return command
