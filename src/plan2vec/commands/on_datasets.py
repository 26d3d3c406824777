"""Commands that say what a map knows about a dataset of episodes: audit, progress, export, relabel."""

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.table import Table

from plan2vec.acting.relabel import HINDSIGHT, relabel, require_new
from plan2vec.acting.shaping import Shaping
from plan2vec.commands.answers import CONSOLE, clean, print_answer, say
from plan2vec.commands.arguments import AuditCommand, Export, Progress, Relabel
from plan2vec.commands.asking import unless_read_only
from plan2vec.commands.fitting import announced, read_recordings, settled
from plan2vec.data import Sequences
from plan2vec.datasets import progress_files
from plan2vec.datasets.audit import Audit, as_csv, as_json, audit, lerobot_line
from plan2vec.datasets.export import export
from plan2vec.files import write_text
from plan2vec.model import Model, is_file, load
from plan2vec.pictures.audit_page import audit_page
from plan2vec.pictures.films import require_images, save_progress_video
from plan2vec.pipeline import fit
from plan2vec.runs.folder import is_run
from plan2vec.runs.resume import refuse_other_folder

PAGE, MARKS = "audit.html", "audit.json"  # of a run; the explorer shows the findings as marks on its timeline


def run_audit(command: AuditCommand) -> None:
    sequences, model = episodes_to_audit(command)
    alike = replace(sequences.options, trust_pickle=command.reading.trust_pickle)
    against = read_recordings(command.against, alike)[0] if command.against is not None else None
    answer = audit(sequences, model, against)
    if command.page is not None:
        write_text(command.page, audit_page(answer, sequences, against))
        say(f"page: {command.page}")
    if model is not None and model.folder is not None:
        with unless_read_only(PAGE):
            if command.page is None:
                write_text(model.folder / PAGE, audit_page(answer, sequences, against))
                say(f"page: {model.folder / PAGE}")
            write_text(model.folder / MARKS, json.dumps(as_json(answer)))
    if command.csv is not None:
        write_text(command.csv, as_csv(answer))
    print_audit(answer, command)


def episodes_to_audit(command: AuditCommand) -> tuple[Sequences, Model | None]:
    """The frames, and the map: of the run, or fitted to the recordings."""
    if is_run(given := command.recordings):
        if command.no_fit or command.out is not None:
            raise ValueError(f"{given} is a run, fitted already; --no-fit and --out are for recordings")
        model = load(given, command.device, command.config.encoder)
        return model.sequences, model
    if command.no_fit:
        return read_recordings(given, command.reading)[0], None
    out = command.out or Path("runs") / f"audit-{given.stem.removeprefix('minari:')}"
    refuse_other_folder(out)
    sequences = read_recordings(given, command.reading)[0]
    if (sequences.sequence == sequences.sequence[0]).all():
        audit(sequences)  # refuses before an hour of fitting what it would refuse after it
    config = settled(command.config, sequences, out, command.device)
    announced(lambda: (sequences, config), out, command.device)
    model = fit(sequences, config, out, command.device, True)
    say(f"run: {out}")
    return model.sequences, model


def print_audit(answer: Audit, command: AuditCommand) -> None:
    if command.json:
        print_answer(as_json(answer), True)
        return
    listed = [row for row in answer.rows if row.findings]
    table = Table("episode", "frames", "kind", "what was found", box=None)
    for row in listed[: command.num]:
        for k, one in enumerate(row.findings):
            table.add_row("" if k else str(row.episode), "" if k else str(row.num_frames), one.kind, one.words)
    if listed:
        CONSOLE.print(table)
    more = f"; {len(listed) - command.num} more with --num" if len(listed) > command.num else ""
    print(f"{len(listed)} of {len(answer.rows)} episodes have findings{more}. Nothing was deleted.")
    for note in answer.notes:
        say(f"note: {note}")
    if line := lerobot_line(answer):
        print(f"After a look, a copy without {len(answer.broken)} of them:\n{line}")


def run_progress(command: Progress) -> None:
    """Progress of all frames into the file, then what it would do to training."""
    progress_files.require_writable(command.out)
    model = load(command.run, command.device, command.encoder)
    episode = _frames_of(model, command.video) if command.video is not None else None
    goals = progress_files.choose_goals(model, command.goals)
    progress = progress_files.progress_of_frames(model, goals)
    table = progress_files.progress_table(model, progress)
    progress_files.write_table(table, command.out)
    say_what_is_unknown(model, goals, progress)
    answer = {"out": str(command.out), "frames": len(table["index"]),
              "episodes": len(np.unique(table["episode_index"])), "goals": len(goals.numbers),
              "ends_left_out": list(goals.left_out), "unknown_frames": int(np.isnan(table["progress_sparse"]).sum()),
              "chunk": command.chunk} | progress_files.sample_weights(table, command.chunk)
    if episode is not None:
        suffix = ".mp4" if find_spec("av") else ".gif"
        film = command.out.with_name(f"{command.out.stem}-episode-{command.video}{suffix}")
        save_progress_video(model.sequences, episode, progress[episode], film)
        answer["video"] = str(film)
    print_answer(clean(answer), command.json)


def _frames_of(model: Model, episode: int) -> np.ndarray:
    numbers, known = np.flatnonzero(model.sequences.sequence == episode), np.unique(model.sequences.sequence)
    if not len(numbers):
        raise ValueError(f"--video {episode}: there is no such episode of {len(known)}, {known[0]} to {known[-1]}")
    require_images(model.sequences)
    return numbers


def say_what_is_unknown(model: Model, goals: progress_files.Goals, progress: np.ndarray) -> None:
    """Which ends are no goals, and in which episodes nothing is known."""
    if goals.left_out:
        named = ", ".join(map(str, goals.left_out))
        say(f"no goal is made of where these episodes end, because it looks like a start: {named}")
    sequence = model.sequences.sequence
    if without := [str(label) for label in np.unique(sequence) if np.isnan(progress[sequence == label]).all()]:
        say(f"nothing is known of {len(without)} episodes (they start within 2 steps of a goal, or no path leads to one"
            f"): {', '.join(without[:20])}{' ...' if len(without) > 20 else ''}")


def run_export(command: Export) -> None:
    model = load(command.run, command.device, command.encoder)
    print_answer(export(model, command.format, command.out, command.start, command.goal), command.json)


def run_relabel(command: Relabel) -> None:
    require_new(command.dataset, command.out)
    shaping = Shaping(command.mode, command.discount, command.scale)
    model = load(command.run, command.device, command.encoder)
    goal: str | np.ndarray = command.goal
    if command.goal not in HINDSIGHT:
        goal = (model.prepare(command.goal)[0] if is_file(command.goal)
                else np.asarray(model.sequences.frames[model.frame_number(command.goal, "goal")]))
    whole = replace(model.sequences.options, every=1, rate=None)  # a reward belongs to every step
    sequences, _ = read_recordings(command.dataset, whole)
    print_answer(relabel(model, sequences, command.dataset, command.out, goal, shaping, command.seed), command.json)
