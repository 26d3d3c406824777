"""Commands that say what a map knows about a dataset: progress, export."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from plan2vec.commands.answers import clean, print_answer, say
from plan2vec.commands.arguments import Export, Progress
from plan2vec.datasets import progress_files
from plan2vec.datasets.export import export
from plan2vec.model import Model, load
from plan2vec.pictures.plan_video import require_images
from plan2vec.pictures.progress_video import save_progress_video


def run_progress(command: Progress) -> None:
    """Progress of all frames into the file, then what it would do to training."""
    write = progress_files.writer_of(command.out)
    model = load(command.run, command.device, command.encoder)
    episode = _frames_of(model, command.video) if command.video is not None else None
    goals = progress_files.choose_goals(model, command.goals)
    progress = progress_files.progress_of_frames(model, goals)
    table = progress_files.progress_table(model, progress)
    write(table, command.out)
    say_what_is_unknown(model, goals, progress)
    answer = {"out": str(command.out), "frames": len(table.progress),
              "episodes": len(np.unique(table.episode_index)), "goals": len(goals.numbers),
              "ends_left_out": list(goals.left_out), "unknown_frames": int(np.isnan(table.progress).sum()),
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
        raise ValueError(f"--video {episode}: there is no such episode; the run has {len(known)}, numbered from "
                         f"{known[0]} to {known[-1]}")
    require_images(model.sequences)
    return numbers


def say_what_is_unknown(model: Model, goals: progress_files.Goals, progress: np.ndarray) -> None:
    """Which ends are no goals, and in which episodes nothing is known."""
    if goals.left_out:
        named = ", ".join(map(str, goals.left_out))
        say(f"no goal is made of where these episodes end, because it looks like a start: {named}")
    sequence = model.sequences.sequence
    without = [str(label) for label in np.unique(sequence) if np.isnan(progress[sequence == label]).all()]
    if without:
        say(f"nothing is known of {len(without)} episodes (they start within 2 steps of a goal, or no path leads to one"
            f"): {', '.join(without[:20])}{' ...' if len(without) > 20 else ''}")


def run_export(command: Export) -> None:
    answer = export(load(command.run, command.device, command.encoder), command.format, Path(command.out),
                    command.start, command.goal)
    print_answer(answer, command.json)
