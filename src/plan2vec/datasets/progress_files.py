"""Progress of every frame of a dataset, as files that LeRobot's sample weighting, spreadsheets and programs read.

    index  episode_index  frame_index  progress_sparse
        0              0            0  0.00
        1              0            1  0.04             index counts all frames of the dataset
      ...                                               NaN (JSON: null, CSV: empty): not known
       57              1            0  NaN

Where the run was read from a LeRobot folder, the file has a row for every frame of that folder, with its numbers: what
`--every`, `--rate` or a damaged file left out of the run is interpolated in time, or NaN."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plan2vec.data import frames_left, index_within
from plan2vec.datasets.export import csv_lines
from plan2vec.files import replacing, write_text
from plan2vec.graph.build import joined_nodes
from plan2vec.model import Model, is_file
from plan2vec.progress import goal_numbers, of_recorded, progress_curve, steps_to_goals
from plan2vec.readers import lerobot
from plan2vec.readers.refusals import import_extra

LAST = "LAST"
COLUMNS = ("index", "episode_index", "frame_index", "progress_sparse")  # as LeRobot names them
ENDINGS = ".parquet", ".csv", ".json"
Table = dict[str, np.ndarray]  # the columns: three (n,) int64, progress (n,) float32; one row per frame, in order


@dataclass(frozen=True)
class Goals:
    numbers: np.ndarray  # (g,) fitted frames
    own_counts: bool  # an episode's own end is a goal for it too
    left_out: tuple[int, ...] = ()  # episodes whose end is no goal, because it looks like a start


def choose_goals(model: Model, text: str) -> Goals:
    """The goals that were asked for. `LAST`: the ends of all other episodes; one that is nearer to another episode's
    start than to any other end is left out, as long as these are the minority in their part of the graph."""
    if text == LAST:
        return _last_frames(model)
    if is_file(text):
        return Goals(goal_numbers(model, text), True)
    words = [word for word in text.split(",") if word]
    if words and all(":" in word for word in words):
        return Goals(goal_numbers(model, [model.frame_number(word, "--goals") for word in words]), True)
    if not words or not all(re.fullmatch(r"\d+(-\d+)?", word) for word in words):
        raise ValueError(f"--goals must be {LAST}, episodes (3,7,10-19), frames (3:57,7:60) or an image file, but is "
                         f"{text or 'empty'}")
    ends, numbers = _ends(model), list[int]()
    for word in words:
        first, _, last = word.partition("-")
        if not (found := [end for episode, end in ends.items() if int(first) <= episode <= int(last or first)]):
            raise ValueError(f"--goals {text}: there is no fitted episode {word}; the run has {len(ends)}, numbered "
                             f"from {min(ends)} to {max(ends)}")
        numbers += found
    return Goals(np.unique(numbers), True)


def _ends(model: Model) -> dict[int, int]:
    """The last frame of every fitted episode, by its label."""
    fitted, sequence = joined_nodes(model.graph), model.sequences.sequence
    return {int(sequence[number]): int(number) for number in fitted}  # in order, so the last one stays


def _last_frames(model: Model) -> Goals:
    sequence, ends = model.sequences.sequence, np.array(list(_ends(model).values()))
    if len(ends) < 2:
        raise ValueError(f"--goals {LAST} needs at least two episodes, because an episode's own end says nothing about "
                         f"it, but the run has {len(ends)}; name a goal: a frame (0:57) or an image file")
    _, to_end = steps_to_goals(model.graph, ends, sequence)
    _, to_start = steps_to_goals(model.graph, ends - index_within(sequence)[ends], sequence)
    looks_like_start = to_start[ends] < to_end[ends]
    part = model.parts[1][ends]
    share = np.bincount(part, looks_like_start) / np.maximum(np.bincount(part), 1)
    looks_like_start &= share[part] < 0.5  # where most ends do, starts and ends are no different
    return Goals(ends[~looks_like_start], False, tuple(sequence[ends[looks_like_start]].tolist()))


def progress_of_frames(model: Model, goals: Goals) -> np.ndarray:
    """(n,) float32 progress of every recorded frame, each episode by itself."""
    sequence = model.sequences.sequence
    any_goal, others = steps_to_goals(model.graph, goals.numbers, sequence)
    left = of_recorded(model, any_goal, any_goal if goals.own_counts else others)
    left = np.where(np.isfinite(left), left, np.nan)
    starts = np.flatnonzero(np.diff(sequence, prepend=sequence[0] - 1))[1:]
    return np.concatenate([progress_curve(one) for one in np.split(left, starts)])


def progress_table(model: Model, progress: np.ndarray) -> Table:
    """Progress (n,) of the run's frames as rows: of the LeRobot folder they were read from, else of the run."""
    source, time, sequence = Path(model.sequences.source), model.sequences.time, model.sequences.sequence
    if not lerobot.recognizes(source) or time is None:
        return _table(sequence.astype(np.int64), progress)
    recorded = lerobot.frame_times(source)
    episode = np.repeat(list(recorded), [len(times) for times in recorded.values()]).astype(np.int64)
    rows = np.full(len(episode), np.nan, np.float32)
    for label, times in recorded.items():
        if (mine := sequence == label).any():
            rows[episode == label] = np.interp(times, time[mine], progress[mine])
    return _table(episode, rows)


def _table(episode: np.ndarray, progress: np.ndarray) -> Table:
    return dict(zip(COLUMNS, (np.arange(len(episode)), episode, index_within(episode), progress), strict=True))


def sample_weights(table: Table, chunk: int) -> dict[str, float | None]:
    """What LeRobot's weighting would do with samples of `chunk` frames: it drops one with less progress at its end (or
    the episode's) than at its start. `kappa`: the mean of the differences, above which a sample counts in full."""
    _, episode, _, progress = table.values()
    delta = progress[np.arange(len(progress)) + np.minimum(chunk, frames_left(episode))] - progress
    known = delta[np.isfinite(delta)]
    return {"kappa": max(0.0, float(known.mean())) if len(known) else None,
            "dropped_share": float(np.mean(delta < 0)), "unknown_share": float(np.mean(np.isnan(delta)))}


def require_writable(path: Path) -> None:
    """A refusal before any work is done."""
    if path.suffix.lower() == ".parquet":
        import_extra("pyarrow.parquet")
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"--out must end in {', '.join(ENDINGS)}, but is {path}")


def write_table(table: Table, path: Path) -> None:
    if path.suffix.lower() == ".parquet":
        pyarrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
        with replacing(path) as temporary:
            parquet.write_table(pyarrow.table(table), temporary)  # NaN stays NaN: an array has no nulls
    elif path.suffix.lower() == ".csv":
        write_text(path, "".join(csv_lines(table)))
    else:
        columns = {name: column.tolist() for name, column in table.items()}
        known = [None if np.isnan(value) else round(value, 6) for value in columns[COLUMNS[-1]]]
        write_text(path, json.dumps(columns | {COLUMNS[-1]: known}, allow_nan=False))
