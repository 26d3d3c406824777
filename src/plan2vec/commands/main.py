"""The commands, done. Answers go to standard output, everything else to standard error; exit code 2 for a user's
mistake.
"""

import dataclasses
import json
import logging
import math
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from plan2vec.acting.relabel import HINDSIGHT, all_frames, relabel, require_place
from plan2vec.acting.shaping import Shaping
from plan2vec.commands.arguments import (
    Add,
    Bench,
    ClosuresCommand,
    Command,
    Demo,
    Evaluate,
    Explore,
    Fit,
    Inspect,
    PlanCommand,
    Relabel,
    Report,
    Reproduce,
    parse,
)
from plan2vec.config import Config, ReadOptions, differences, setting, settle, to_json
from plan2vec.data import Sequences, SuccessRule
from plan2vec.domains import maze
from plan2vec.evaluation import default_rule, evaluate
from plan2vec.explorer import explore
from plan2vec.files import own_folder, write_text
from plan2vec.graph.neighbors import usearch_installed
from plan2vec.growing import add, follow_strikes
from plan2vec.learning import processes
from plan2vec.learning.frame_tensors import choose_device
from plan2vec.model import Model, load
from plan2vec.pictures.closure_review import draw_suspects, judge_by_name, map_follows, suspects
from plan2vec.pictures.figures import save_figure
from plan2vec.pictures.film import film_strip
from plan2vec.pictures.film_video import save_video, writer_of
from plan2vec.pictures.inspection import describe, inspection_sheet
from plan2vec.pictures.report import write_report
from plan2vec.pipeline import fit
from plan2vec.planner import Plan
from plan2vec.readers import ReadWarning, find_format, read
from plan2vec.readers.preparation import image_frame
from plan2vec.runs.folder import prepare_folder, read_data, require_finished
from plan2vec.runs.struck import read_judged
from plan2vec.runs.time_estimate import estimate_fit
from plan2vec.version import __version__


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments in (["--version"], ["version"]):
        print(__version__)
        return 0
    try:
        return run_command(parse(arguments))
    except processes.OtherProcessError:
        return 2
    except KeyboardInterrupt:
        return refuse("interrupted; the same command continues where it was", 130)
    except (ValueError, OSError) as error:
        return refuse(" ".join(str(error).split()), 2)


def refuse(text: str, code: int) -> int:
    print(f"plan2vec: {text}", file=sys.stderr)
    return code


def run_command(command: Command) -> int:
    if processes.asked_size() > 1 and not isinstance(command, (Fit, Demo)):
        processes.refuse(
            "only `plan2vec fit` and `plan2vec demo` run in several processes; start this command without torchrun"
        )
    match command:
        case Demo():
            demo(command)
        case Fit():
            fit_recordings(command)
        case Inspect():
            inspect(command)
        case PlanCommand():
            plan(command)
        case Evaluate():
            evaluate_run(command)
        case Report():
            write_run_report(load(command.run, command.device, command.encoder))
        case Add():
            add_recordings(command)
        case ClosuresCommand():
            review_closures(command)
        case Relabel():
            relabel_dataset(command)
        case Explore():
            explore(command.run, command.host, command.port, not command.no_browser, command.device, command.encoder)
        case Bench():
            run_bench(command)
        case Reproduce():
            run_experiments(command)
    return 0


def run_bench(command: Bench) -> None:
    from plan2vec.bench import run_benchmark
    from plan2vec.bench.publishing import Request

    values = dataclasses.asdict(command)
    as_json = values.pop("json")
    answer = run_benchmark(Request(**values))
    if as_json or "tables" not in answer:
        print_answer(answer, as_json)
        return
    print_tables(answer)


def print_tables(answer: dict[str, Any]) -> None:
    for name, lines in answer["tables"].items():
        print("\n".join([f"## {name}", "", *lines]))
    say(f"rows, tables and figures: {answer['out']}")


def run_experiments(command: Reproduce) -> None:
    from plan2vec.experiments.reproduce import Request, reproduce

    values = dataclasses.asdict(command)
    del values["json"]
    answer = reproduce(Request(**values))
    if command.json:
        print(json.dumps(answer, allow_nan=False))
        return
    print_tables(answer)


def demo(command: Demo) -> None:
    out = command.out or Path("runs") / demo_name(command)

    def simulate() -> tuple[Sequences, Config]:
        sequences = maze.simulate(command.room, command.num_rollouts, seed=command.config.seed)
        say(f"{sequences.source}: {sequences.num_frames:,} frames, run folder {out}")
        return sequences, settled(command.config, sequences, command.device)

    fit_and_report(simulate, out, command.device, command.json)


def demo_name(command: Demo) -> str:
    """demo-ROOM and the settings that differ from a demo's, so that two different demos never meet in one folder."""
    changed = [text.split(" (")[0] for text in differences(to_json(Demo().config), to_json(command.config))]
    values = [f"-{name.replace('_', '-')}-{setting(command.config, name)}" for name in changed]
    rollouts = f"-rollouts-{command.num_rollouts}" if command.num_rollouts != 1000 else ""
    name = f"demo-{command.room}{rollouts}{''.join(values)}"
    return name if len(name) < 100 else f"demo-{command.room}-{command.preset}-seed-{command.config.seed}"


def read_recordings(path: Path, options: ReadOptions) -> tuple[Sequences, list[str]]:
    """Recordings, and what there is to warn about."""
    logging.getLogger("PIL").setLevel(logging.CRITICAL)  # what it says of single files is in our own warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ReadWarning)
        sequences = read(path, options, show_progress=True)
    notes = [str(one.message) for one in caught if issubclass(one.category, ReadWarning)]
    for note in notes:
        say(f"warning: {note}")
    return sequences, notes


def inspect(command: Inspect) -> None:
    if command.sheet is not None and command.sheet.suffix.lower() != ".png":
        raise ValueError(f"--sheet must end in .png, but is {command.sheet}")
    sequences, notes = read_recordings(command.recordings, command.reading)
    answer = describe(sequences, find_format(command.recordings).NAME, notes)
    if command.sheet is not None:
        save_figure(inspection_sheet(sequences), command.sheet)
        answer["sheet"] = str(command.sheet)
    print_answer(clean(answer), command.json)


def fit_recordings(command: Fit) -> None:
    def read_all() -> tuple[Sequences, Config]:
        sequences, _ = read_recordings(command.recordings, command.reading)
        num_sequences = len(np.unique(sequences.sequence))
        say(f"{sequences.source}: {sequences.num_frames:,} frames of {sequences.frame_shape} in {num_sequences:,} sequences")
        if num_sequences == 1:
            say("warning: one sequence only; loop closures inside it are all that can join distant times")
        return sequences, settled(command.config, sequences, command.device)

    fit_and_report(read_all, command.out, command.device, command.json, command.checkpoint_seconds)


def settled(config: Config, sequences: Sequences, device: str) -> Config:
    """The settings for these recordings; those that were not given, and are no longer the usual ones, are said."""
    chosen = settle(config, sequences, choose_device(device).type, usearch_installed())
    usual = settle(replace(config, view="fixed"), sequences)
    changed = [
        re.sub(r" \((.*) there, (.*) now\)", r" \1 -> \2", text)
        for text in differences(to_json(usual), to_json(chosen))
    ]
    if config.view is None and chosen.view == "moving":
        say(
            f"the camera moves, so defaults change: {', '.join(changed)} (what you type stays; --view fixed: no change)"
        )
    return chosen


Recordings = Callable[[], tuple[Sequences, Config]]  # what is recorded, and the settings to fit it with


def fit_and_report(get: Recordings, out: Path, device: str, as_json: bool, checkpoint_seconds: float = 10.0) -> None:
    """What `fit` and `demo` share: recordings, estimate, fit, scorecard, report."""
    with processes.together(device):
        sequences, config = announced(
            get, out, device
        ) if processes.size() == 1 else shared_recordings(get, out, device)
        model = fit(sequences, config, out, device, True, checkpoint_seconds)
        processes.first_does(lambda: print_answer(write_run_report(model), as_json))


def announced(get: Recordings, out: Path, device: str) -> tuple[Sequences, Config]:
    sequences, config = get()
    if not (out / "vectors.npy").exists():
        say(f"fitting takes {estimate_fit(sequences, config, choose_device(device))}")
    return sequences, config


def shared_recordings(get: Recordings, out: Path, device: str) -> tuple[Sequences, Config]:
    """Recordings that the first of several processes gets and writes into the run folder, from where all of them read.
    """

    def write() -> Config:
        sequences, config = announced(get, out, device)
        prepare_folder(out, sequences, config)
        return config

    config = processes.first_does(write)
    return read_data(out), config


def write_run_report(model: Model) -> dict:
    """Scorecard, pictures and report into the run folder."""
    assert model.folder is not None
    card = clean(evaluate(model))
    write_text(model.folder / "scorecard.json", json.dumps(card, indent=1))
    say(f"report: {write_report(model, card, model.folder)}")
    return card


def add_recordings(command: Add) -> None:
    require_finished(command.run)
    # prepared as the map's own frames
    recordings, _ = read_recordings(command.recordings, read_data(command.run).options)
    grown = add(command.run, recordings, command.num_updates, command.device, True, command.encoder)
    if grown.report.get("already_on_the_map"):
        say(f"{recordings.source} is on this map already; nothing is added")
    if not all((command.run / name).exists() for name in ("scorecard.json", "report.html")):
        write_run_report(grown.model)
    print_answer(clean(grown.report), command.json)


def review_closures(command: ClosuresCommand) -> None:
    """Judge what was asked, bring the map up to date, then list and draw what is still worth a look."""
    if command.update and command.no_update:
        raise ValueError("--update and --no-update contradict each other; give one of them")
    model = load(command.run, command.device, command.encoder)
    struck, kept = ([name for text in texts for name in text.split(",")] for texts in (command.strike, command.keep))
    if struck or kept:
        judge_by_name(model, struck, kept)
    answer: dict[str, object] = {}
    if (struck or kept or command.update) and not command.no_update and not map_follows(model):
        changed = follow_strikes(command.run, command.num_updates, command.device, True, command.encoder)
        model, answer = changed.model, clean(changed.report)
        say(f"scorecard and report of the map as it was are removed; `plan2vec report {command.run}` writes them anew")
    if not map_follows(model):
        say(f"the map does not know yet what was struck; `plan2vec closures {command.run} --update` brings it up to date")
    print_closures(model, command, answer)


def print_closures(model: Model, command: ClosuresCommand, answer: dict[str, object]) -> None:
    found = suspects(model, command.num)
    picture = draw_suspects(model, found, command.picture or own_folder(command.run, "figures") / "suspicious.png")
    judged = read_judged(command.run)
    answer |= {"map_up_to_date": map_follows(model), "picture": str(picture) if picture else None}
    if command.picture is not None and picture is None:
        say("no picture: there is no closure to draw, or the frames are vectors")
    if command.json:
        print_answer({"closures": found, "struck": judged.struck, "kept": judged.kept} | answer, True)
        return
    table = Table("closure", "sequence:index", "local distance (steps)", "share of shortest paths", box=None)
    for one in found:
        table.add_row(
            f"{one['first']}-{one['second']}", " - ".join(one["names"]), f"{one['distance']:.2f}", f"{one['paths']:.2%}"
        )
    Console(highlight=False).print(table)
    verdicts = (("struck", judged.struck), ("kept", judged.kept))
    words = {name: [f"{first}-{second}" for first, second in pairs] or "none" for name, pairs in verdicts}
    print_answer(words | answer, False)


def relabel_dataset(command: Relabel) -> None:
    require_place(command.dataset, command.out)
    shaping = Shaping(command.mode, command.discount, command.scale)
    model = load(command.run, command.device, command.encoder)
    goal = command.goal if command.goal in HINDSIGHT else asked_frame(model, command.goal)
    if isinstance(goal, str) and goal not in HINDSIGHT:
        goal = np.asarray(model.sequences.frames[model.frame_number(goal, "goal")])
    sequences, _ = read_recordings(command.dataset, all_frames(model.sequences.options))
    print_answer(relabel(model, sequences, command.dataset, command.out, goal, shaping, command.seed), command.json)


def evaluate_run(command: Evaluate) -> None:
    model = load(command.run, command.device, command.encoder)
    rule = changed_rule(default_rule(model.sequences), command)
    card = clean(evaluate(model, rule, command.false_beyond, command.min_gap))
    write_text(command.run / "scorecard.json", json.dumps(card, indent=1))
    print_answer(card, command.json)


def changed_rule(rule: SuccessRule, command: Evaluate) -> SuccessRule:
    """The domain's success rule with what the user gave."""
    given: dict[str, Any] = {
        "radius": command.success_radius, "max_hops": command.max_hops, "epsilon": command.epsilon,
        "episodes": command.episodes, "memory": command.memory or None,
    }
    for name, value in given.items():
        if (value is not None and value < 0) or (name == "episodes" and value == 0):
            raise ValueError(f"--{name.replace('_', '-')} must be positive, but is {value}")
    return dataclasses.replace(rule, **{name: value for name, value in given.items() if value is not None})


def plan(command: PlanCommand) -> None:
    if command.lookahead < 1:
        raise ValueError(f"--lookahead must be at least 1 hop, but is {command.lookahead}")
    if command.video is not None:
        writer_of(command.video)  # refuses before any work is done
    model = load(command.run, command.device, command.encoder)
    start, goal = (asked_frame(model, text) for text in (command.start, command.goal))
    made = model.plan(start, goal, command.method, command.lookahead, command.memory)
    answer = plan_answer(model, made)
    if made.nodes is not None:
        strip = command.strip or own_folder(command.run, "figures") / f"plan-{made.start}-{made.goal}-{made.method}.png"
        save_figure(film_strip(model, made), strip)
        answer["strip"] = str(strip)
    if made.nodes is not None and command.video is not None:
        save_video(model, made, command.video)
        answer["video"] = str(command.video)
    print_answer(answer, command.json)


def asked_frame(model: Model, text: str) -> str | np.ndarray:
    """Frame numbers stay text; the path of an image becomes a frame of the run's size."""
    if not Path(text).is_file():
        return text
    sequences = model.sequences
    try:
        return image_frame(Path(text), sequences.frame_shape, sequences.options, sequences.source_size)
    except ValueError as error:
        raise ValueError(f"{text} cannot be read as an image ({error})") from None


def plan_answer(model: Model, made: Plan) -> dict:
    """The plan as a plain map; `parts` says which parts of the graph start and goal lie in."""
    _, part = model.parts
    answer = dataclasses.asdict(made) | {"hops": made.hops}
    del answer["touched"]
    answer["parts"] = [int(part[number]) if number >= 0 else None for number in (made.start, made.goal)]
    return clean(answer)


def clean(values: dict) -> dict:
    """Numbers that JSON can hold: NaN and infinity become null."""

    def one(value: object) -> object:
        if isinstance(value, dict):
            return clean(value)
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {name: one(value) for name, value in values.items()}


def print_answer(answer: dict, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer, allow_nan=False))
        return
    table = Table(show_header=False, box=None)
    for name, value in answer.items():
        table.add_row(name, _words(value))
    Console(highlight=False).print(table)


def _words(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    return str(value) if not isinstance(value, list) else " ".join(_words(one) for one in value)


def say(text: str) -> None:
    print(text, file=sys.stderr)
