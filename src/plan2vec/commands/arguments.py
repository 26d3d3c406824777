"""What can be typed: every command with its options, their units and defaults. tyro makes the help from the comments.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from plan2vec.acting.shaping import Mode
from plan2vec.config import Config, ReadOptions, preset
from plan2vec.planner import Method

DESCRIPTION = "The commands. Answers go to standard output, everything else to standard error; exit code 2 for a user's mistake."
Device = Literal["auto", "cpu", "cuda", "mps"]
Preset = Literal["default", "quick", "paper"]
Settings = Annotated[Config, tyro.conf.arg(name="")]
ReadSettings = Annotated[ReadOptions, tyro.conf.arg(name="")]


@dataclass(frozen=True)
class Demo:
    """Simulate a maze, fit, evaluate, draw, and say where the report is."""

    room: Literal["c-maze", "table", "open"] = "c-maze"  # the paper's three rooms
    out: Path | None = None  # run folder; default runs/demo-ROOM, named after the settings that differ
    num_rollouts: int = 1000  # random walks of 10 frames
    device: Device = "auto"
    json: bool = False  # print the scorecard as one JSON object
    preset: Preset = "quick"  # start from these settings: half the work of a fit's default is enough for these frames
    config: Settings = field(default_factory=lambda: preset("quick"))


@dataclass(frozen=True)
class Fit:
    """Fit graph and metric map to recordings; the same command continues an interrupted fit."""

    recordings: Annotated[
        Path, tyro.conf.Positional, tyro.conf.arg(metavar="RECORDINGS")
    ]  # a folder of images, video, .npz, .npy, .hdf5, minari:ID or a LeRobot folder: see docs/recordings.md
    out: Path  # run folder
    reading: ReadSettings = field(default_factory=ReadOptions)
    device: Device = "auto"
    checkpoint_seconds: float = 10.0  # seconds of training that a kill can cost
    json: bool = False  # print the scorecard as one JSON object
    preset: Preset = "default"  # start from these settings
    config: Settings = field(default_factory=Config)


@dataclass(frozen=True)
class Inspect:
    """Say what would be read from recordings, and draw a contact sheet."""

    recordings: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PATH")]  # as for fit
    sheet: Path | None = None  # where a contact sheet goes: a .png file
    reading: ReadSettings = field(default_factory=ReadOptions)
    json: bool = False  # print the answer as one JSON object


@dataclass(frozen=True)
class PlanCommand:
    """Plan between two recorded frames, or images, on a fitted run."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # run folder
    start: str  # frame number, sequence:index, or an image file
    goal: str  # frame number, sequence:index, or an image file
    method: Method = "greedy"  # greedy and lookahead walk the map, astar searches with it, dijkstra without it
    lookahead: int = 3  # hops looked ahead, for --method lookahead
    memory: bool = False  # greedy and lookahead never choose a frame twice
    strip: Path | None = None  # where the film strip goes; default figures/ of the run
    video: Path | None = None  # also as a moving picture: a .gif or .mp4 file
    # module:factory, where the map was fitted with a network of your own: it is imported only if named
    encoder: str | None = None
    device: Device = "auto"
    json: bool = False  # print the plan as one JSON object


@dataclass(frozen=True)
class Evaluate:
    """Print the scorecard of a fitted run."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # run folder
    success_radius: float | None = None  # true distance to the goal that counts as arrived (units of position)
    max_hops: int | None = None  # hops a walk may take
    epsilon: float | None = None  # probability of a random hop
    episodes: int | None = None  # random (start, goal) pairs
    memory: bool = False  # walks never enter a frame twice
    # closures truly longer than this are false; default three of the longest recorded steps
    false_beyond: float | None = None
    min_gap: int = 0  # leave out closures between frames of one sequence less than this many frames apart
    # module:factory, where the map was fitted with a network of your own: it is imported only if named
    encoder: str | None = None
    device: Device = "auto"
    json: bool = False  # print the scorecard as one JSON object


@dataclass(frozen=True)
class Report:
    """Write the pictures and report.html of a fitted run anew."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # run folder
    # module:factory, where the map was fitted with a network of your own: it is imported only if named
    encoder: str | None = None
    device: Device = "auto"


@dataclass(frozen=True)
class Add:
    """Add recordings to a fitted run: join their frames to the graph, fine-tune the map. Old frame numbers stay valid.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # run folder
    # frames like those on the map
    recordings: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RECORDINGS")]
    num_updates: int | None = None  # gradient updates of the fine-tuning; default a third of the fit's
    # module:factory, where the map was fitted with a network of your own: it is imported only if named
    encoder: str | None = None
    device: Device = "auto"
    json: bool = False  # print what was added as one JSON object


@dataclass(frozen=True)
class ClosuresCommand:
    """Look at the closures that most shortest paths run through; strike the false ones and bring the map up to date."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # run folder
    num: int = 20  # closures listed
    picture: Path | None = None  # where the frame pairs go; default figures/suspicious.png of the run
    # a false closure, as 12-480; may be repeated, or several with commas
    strike: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    keep: tyro.conf.UseAppendAction[tuple[str, ...]] = ()  # a true one: not listed again, and not struck any more
    update: bool = False  # fine-tune the map to what was struck before, in the explorer or with --no-update
    no_update: bool = False  # strike and keep only; the map itself follows with --update
    num_updates: int | None = None  # gradient updates of the fine-tuning; default a third of the fit's
    # module:factory, where the map was fitted with a network of your own: it is imported only if named
    encoder: str | None = None
    device: Device = "auto"
    json: bool = False  # print the list as one JSON object


@dataclass(frozen=True)
class Relabel:
    """Write the learned distance to a goal as reward into a copy of an offline dataset."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # run folder
    # .npz (plan2vec, OGBench), minari:ID or its folder
    dataset: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    out: Path  # where the copy goes: an .npz file or, for Minari, a folder; must not exist
    goal: str = (
        "future"  # future: a later frame of the sequence | random: any frame | as of plan: frame number of the run, or an image file
    )
    # potential: decrease of the distance, added to the dataset's reward | distance: minus the distance, alone
    mode: Mode = "potential"
    discount: float = 0.99  # of the agent that will learn from it, a step
    scale: float = 1.0  # reward that one step of distance is worth
    seed: int = 0  # of the goals that are drawn
    # module:factory, where the map was fitted with a network of your own: it is imported only if named
    encoder: str | None = None
    device: Device = "auto"
    json: bool = False  # print the answer as one JSON object


@dataclass(frozen=True)
class Explore:
    """Look at a fitted run in the browser: map, plans, neighbours, suspicious closures."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # run folder
    port: int = 0  # 0: a free one
    host: str = "127.0.0.1"  # any other address lets other machines in, without a password
    no_browser: bool = False  # print the address only
    # module:factory, where the map was fitted with a network of your own: it is imported only if named
    encoder: str | None = None
    device: Device = "auto"


@dataclass(frozen=True)
class Bench:
    """Run a benchmark and print its rows."""

    # a wrong name lists them; all: each of those that measure speed
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    paths: tuple[Path, ...] = ()  # recordings to fit, of `bench recordings` and `bench same-map`
    seed: int = 0  # the first one
    seeds: int | None = None  # how many, from --seed on; default 1, of `bench demo` 5
    sizes: tuple[int, ...] = ()  # numbers of frames (or nodes); default: the benchmark's own
    smoke: bool = False  # tiny, in seconds, to see that it runs; no results
    out: Path | None = None  # folder of rows and figures; default runs/bench, a temporary one with --smoke
    draw_only: bool = False  # tables and figures from the rows in the folder; nothing is run
    # join the folder's rows into docs/results and make docs/performance.md and its figures anew
    write_docs: bool = False
    commit: str | None = None  # written into the rows where the program does not run from a checkout
    device: Device = "auto"
    json: bool = False  # print the rows as one JSON object


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments anew: rows, markdown tables with 95 % intervals, figures."""

    # all, or a table or figure (a wrong name lists them)
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    seeds: int = 5  # how many
    seed_start: int = 0  # the first of them
    domains: tuple[str, ...] = ()  # only these domains (open, c-maze, rope, street-small ...); default all
    methods: tuple[str, ...] = ()  # only these methods of the experiment; default all
    # only these parts of the experiment (of table1: fitted unseen large paper); default all
    blocks: tuple[str, ...] = ()
    # .npz of the real street network (docs/streets.md); default: streets of a generated city
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
    device: Device = "auto"
    json: bool = False  # print the tables as one JSON object


Command = (
    Demo | Fit | Inspect | PlanCommand | Evaluate | Report | Add | ClosuresCommand | Relabel | Explore | Bench
    | Reproduce
)


def parse(arguments: list[str]) -> Command:
    """The command with its settings; --preset changes the defaults that the help shows."""
    given = _preset_name(arguments)
    subcommand = tyro.conf.subcommand
    commands = (
        Annotated[Demo, subcommand("demo", default=Demo(config=preset(given or Demo.preset)))]
        | Annotated[Fit, subcommand("fit", default=Fit(tyro.MISSING, tyro.MISSING, config=preset(given or Fit.preset)))]
        | Annotated[Inspect, subcommand("inspect")]
        | Annotated[PlanCommand, subcommand("plan")]
        | Annotated[Evaluate, subcommand("evaluate")]
        | Annotated[Report, subcommand("report")]
        | Annotated[Add, subcommand("add")]
        | Annotated[ClosuresCommand, subcommand("closures")]
        | Annotated[Relabel, subcommand("relabel")]
        | Annotated[Explore, subcommand("explore")]
        | Annotated[Bench, subcommand("bench")]
        | Annotated[Reproduce, subcommand("reproduce")]
    )
    return tyro.cli(
        commands, prog="plan2vec", description=DESCRIPTION, args=arguments, config=(tyro.conf.FlagCreatePairsOff,)
    )


def _preset_name(arguments: list[str]) -> str | None:
    """What was typed; None: each command has its own."""
    for place, argument in enumerate(arguments):
        if argument == "--preset" and place + 1 < len(arguments):
            return arguments[place + 1]
        if argument.startswith("--preset="):
            return argument.split("=", 1)[1]
    return None
