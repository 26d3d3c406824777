"""Commands that make or change a run: demo, fit, add, report; and inspect, which looks before."""

import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from plan2vec.commands.answers import clean, print_answer, print_scorecard, say
from plan2vec.commands.arguments import Add, Demo, Fit, Inspect, Report
from plan2vec.config import Config, ReadOptions, differing, setting, settle, to_json
from plan2vec.data import Sequences
from plan2vec.domains import maze
from plan2vec.evaluation import evaluate
from plan2vec.files import write_text
from plan2vec.growing import add
from plan2vec.learning import processes
from plan2vec.learning.frame_tensors import choose_device
from plan2vec.model import Model, load
from plan2vec.pictures.figures import save_figure
from plan2vec.pictures.frame_grids import inspection_sheet, sheet_words
from plan2vec.pictures.report import write_report
from plan2vec.pipeline import fit, settled_for
from plan2vec.readers import ReadWarning, describe, find_format, read
from plan2vec.runs.changing import WAIT, changing_run
from plan2vec.runs.folder import read_data, require_finished
from plan2vec.runs.resume import prepare_folder, refuse_other_folder
from plan2vec.runs.time_estimate import estimate_fit, refuse_too_much
from plan2vec.verdict import make_verdict

Recordings = Callable[[], tuple[Sequences, Config]]  # what is recorded, and the settings to fit it with
WORDS = {"position": "{} numbers per frame", "action": "{} numbers per frame", "step_length": "yes", "time": "yes"}


def run_report(command: Report) -> None:
    print_scorecard(write_run_report(load(command.run, command.device, command.encoder)), False, False)


def run_demo(command: Demo) -> None:
    out = command.out or Path("runs") / demo_name(command)

    def simulate() -> tuple[Sequences, Config]:
        sequences = maze.simulate(command.room, command.num_rollouts, seed=command.config.seed)
        say(f"{sequences.source}: {sequences.num_frames:,} frames, run folder {out}")
        return sequences, settled(command.config, sequences, out, command.device)

    fit_and_report(simulate, out, command)


def demo_name(command: Demo) -> str:
    """demo-ROOM and the settings that differ from a demo's, so that two different demos never meet in one folder."""
    changed = differing(to_json(Demo().config), to_json(command.config))
    values = [f"-{name.replace('_', '-')}-{setting(command.config, name)}" for name in changed]
    rollouts = f"-rollouts-{command.num_rollouts}" if command.num_rollouts != 1000 else ""
    name = f"demo-{command.room}{rollouts}{''.join(values)}"
    return name if len(name) < 100 else f"demo-{command.room}-{command.preset}-seed-{command.config.seed}"


def read_recordings(path: Path, options: ReadOptions) -> tuple[Sequences, list[str]]:
    logging.getLogger("PIL").setLevel(logging.CRITICAL)  # what it says of single files is in our own warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ReadWarning)
        sequences = read(path, options, show_progress=True)
    notes = [str(one.message) for one in caught if issubclass(one.category, ReadWarning)]
    for note in notes:
        say(f"warning: {note}")
    return sequences, notes


def run_inspect(command: Inspect) -> None:
    if command.sheet is not None and command.sheet.suffix.lower() != ".png":
        raise ValueError(f"--sheet must end in .png, but is {command.sheet}")
    sequences, notes = read_recordings(command.recordings, command.reading)
    answer = describe(sequences, find_format(command.recordings).NAME, notes)
    if command.sheet is not None:
        save_figure(inspection_sheet(sequences), command.sheet)
        answer["sheet"] = str(command.sheet)
        say(f"the sheet shows {sheet_words(sequences)}")
    if not command.json:  # for people, who cannot know what 0 and False mean
        for name, words in WORDS.items():
            answer[name] = words.format(answer[name]) if answer[name] else "none recorded"
    print_answer(clean(answer), command.json)


def run_fit(command: Fit) -> None:
    def read_all() -> tuple[Sequences, Config]:
        sequences, _ = read_recordings(command.recordings, command.reading)
        num = len(np.unique(sequences.sequence))
        say(f"{sequences.source}: {sequences.num_frames:,} frames of {sequences.frame_shape} in {num:,} sequences")
        if num == 1:
            say("warning: one sequence only; loop closures inside it are all that can join distant times")
        return sequences, settled(command.config, sequences, command.out, command.device)

    fit_and_report(read_all, command.out, command, command.checkpoint_seconds)


def settled(config: Config, sequences: Sequences, out: Path, device: str) -> Config:
    """The settings for these recordings; those that were not given, and are no longer the usual ones, are said."""
    chosen = settled_for(sequences, config, out, choose_device(device))
    if config.view is None and chosen.view == "moving":
        changed = differing(to_json(settle(replace(config, view="fixed"), sequences)), to_json(chosen))
        words = ", ".join(f"{name} {then} -> {now}" for name, (then, now) in changed.items())
        say(f"the camera moves, so defaults change: {words} (what you type stays; --view fixed: no change)")
    return chosen


def fit_and_report(get: Recordings, out: Path, command: Demo | Fit, checkpoint_seconds: float = 10.0) -> None:
    """What `fit` and `demo` share: recordings, estimate, fit, scorecard, report, verdict."""
    with processes.together(command.device):
        processes.first_does(lambda: refuse_other_folder(out))  # before hours of video are read
        get_all = announced if processes.size() == 1 else shared_recordings
        sequences, config = get_all(get, out, command.device)
        model = fit(sequences, config, out, command.device, True, checkpoint_seconds)
        processes.first_does(lambda: print_scorecard(write_run_report(model), command.json, command.verbose))


def announced(get: Recordings, out: Path, device: str) -> tuple[Sequences, Config]:
    sequences, config = get()
    if not (out / "vectors.npy").exists():
        estimate = estimate_fit(sequences, config, choose_device(device))
        refuse_too_much(estimate)
        say(f"fitting takes {estimate}")
        for way in estimate.faster:
            say(f"faster: {way}")
    return sequences, config


def shared_recordings(get: Recordings, out: Path, device: str) -> tuple[Sequences, Config]:
    """Recordings that the first of several processes writes into the run folder, from where all of them read."""

    def write() -> Config:
        sequences, config = announced(get, out, device)
        prepare_folder(out, sequences, config)
        return config

    config = processes.first_does(write)
    return read_data(out), config


def write_run_report(model: Model) -> dict:
    assert model.folder is not None
    card = with_verdict(evaluate(model), model.folder)
    with changing_run(model.folder, WAIT):
        write_text(model.folder / "scorecard.json", json.dumps(card, indent=1))
        say(f"report: {write_report(model, card, model.folder)}")
    return card


def with_verdict(card: dict, folder: Path) -> dict:
    """The scorecard as programs read it."""
    return clean(card | {"verdict": asdict(make_verdict(card, folder))})


def run_add(command: Add) -> None:
    require_finished(command.run)
    as_the_map = replace(read_data(command.run).options, trust_pickle=command.trust_pickle)
    recordings, _ = read_recordings(command.recordings, as_the_map)
    grown = add(command.run, recordings, command.num_updates, command.device, True, command.encoder)
    if grown.report.get("already_on_the_map"):
        say(f"{recordings.source} is on this map already; nothing is added")
    if not all((command.run / name).exists() for name in ("scorecard.json", "report.html")):
        say(str(make_verdict(write_run_report(grown.model), command.run)))
    print_answer(clean(grown.report), command.json)
