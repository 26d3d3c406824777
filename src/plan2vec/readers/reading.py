"""What all readers share: which frames are kept, where prepared frames go, and what there is to say afterwards."""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.config import ReadOptions, parse_crop
from plan2vec.data import Sequences, make_sequences, transitions
from plan2vec.learning.training import Journal
from plan2vec.readers.preparation import array_to_frame, frame_shape

SHARE_OF_MEMORY = 0.8  # of the memory that is free, which recordings may claim
NUM_NAMED = 3  # skipped files that are named


@dataclass(frozen=True)
class Reading:
    """One reading of recordings: how, with or without a progress bar, and the notes it leaves for the user."""

    options: ReadOptions
    journal: Journal
    notes: list[str] = field(default_factory=list)

    def note_skipped(self, skipped: list[tuple[str, str]], total: int, things: str) -> None:
        """One line that counts what was left out: (name, reason) each."""
        if skipped:
            self.notes.append(f"{len(skipped)} of {total} {things} skipped: {name_some(skipped)}")

    def require_no_rate(self, source: str) -> None:
        if self.options.rate is not None:
            raise ValueError(f"{source}: --rate needs recordings with time, such as video; use --every here")


def name_some(pairs: list[tuple[str, str]]) -> str:
    """The first few as "name (reason)", and how many more."""
    named = ", ".join(f"{name} ({reason})" for name, reason in pairs[:NUM_NAMED])
    return named + (f" and {len(pairs) - NUM_NAMED} more" if len(pairs) > NUM_NAMED else "")


def shown(path: str | Path) -> str:
    """A path as one line of printable text, whatever bytes its name holds."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(path))


def first_line(error: BaseException) -> str:
    """What an error says, in one short line."""
    text = str(error).strip() or type(error).__name__
    return shown(" ".join(text.split())[:200])


class Picker:
    """Which frames of a sequence are kept: every n-th, or the first at or after each tick of a clock."""

    def __init__(self, options: ReadOptions):
        self.every, self.rate = options.every, options.rate
        self.first_time: float | None = None
        self.num_ticks = 0

    def keeps(self, index: int, time: float) -> bool:
        """Asked for every frame of a sequence in order; `time` in seconds."""
        if self.rate is None:
            return index % self.every == 0
        if self.first_time is None:
            self.first_time = time
        if (time - self.first_time) * self.rate < self.num_ticks - 1e-3:
            return False
        self.num_ticks = int((time - self.first_time) * self.rate + 1e-3) + 1
        return True


def kept_frames(options: ReadOptions, num_frames: int, time: np.ndarray | None = None) -> np.ndarray:
    """(m,) indices of one sequence that are kept."""
    if options.rate is None:
        return np.arange(0, num_frames, options.every)
    assert time is not None
    picker = Picker(options)
    return np.array([index for index in range(num_frames) if picker.keeps(index, float(time[index]))], np.int64)


class FrameStore:
    """Prepared frames one after the other in a temporary file: memory stays bounded however long a recording is."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self.num_frames = 0
        self._file = tempfile.TemporaryFile(prefix="plan2vec-")  # noqa: SIM115 - the memory map outlives every block

    def add(self, frame: np.ndarray) -> None:
        try:
            self._file.write(np.ascontiguousarray(frame).data)
        except OSError as error:
            raise ValueError(
                f"no room for prepared frames in {tempfile.gettempdir()} ({error}); set TMPDIR to a larger disk"
            ) from None
        self.num_frames += 1

    def drop_after(self, num_frames: int) -> None:
        """Forget the frames from this number on."""
        self._file.seek(num_frames * int(np.prod(self.shape)))
        self._file.truncate()
        self.num_frames = num_frames

    def finish(self) -> np.ndarray:
        """(n, height, width, channels) as a memory map; the file lives as long as the map."""
        self._file.flush()
        if not self.num_frames:
            return np.empty((0, *self.shape), np.uint8)
        return np.memmap(self._file, np.uint8, "r", shape=(self.num_frames, *self.shape))


def build(
    reading: Reading, source: str, frames: np.ndarray, sequence: np.ndarray | None,
    source_size: tuple[int, int] | None = None, **recorded: Any
) -> Sequences:
    """Sequences that name their source in every complaint, and remember how they were read."""
    try:
        made = make_sequences(
            frames, sequence, source=source, options=reading.options, source_size=source_size, **recorded
        )
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(source) else f"{source}: {text}") from None
    sizes = np.unique(made.sequence, return_counts=True)[1]
    if single := int(np.count_nonzero(sizes == 1)):
        reading.notes.append(f"{single} of {len(sizes)} sequences hold a single frame, so no step")
    return made


def thinned(sequences: Sequences, options: ReadOptions) -> Sequences:
    """Recordings in memory, each sequence reduced to the frames that `options` keep; step lengths add up over what was
    left out.
    """
    if options.every == 1 and options.rate is None:
        return sequences
    if options.rate is not None and sequences.time is None:
        raise ValueError(f"{sequences.source}: --rate needs recordings with time, such as video; use --every here")
    kept = []
    for part in parts_of(sequences.sequence):
        time = None if sequences.time is None else np.asarray(sequences.time)[part]
        kept.append(part[kept_frames(options, len(part), time)])
    numbers = np.concatenate(kept)
    recorded = {name: getattr(sequences, name) for name in ("position", "action", "time")}
    recorded = {name: None if value is None else value[numbers] for name, value in recorded.items()}
    return Sequences(
        taken(sequences.frames, numbers), sequences.sequence[numbers], step_length=_summed_steps(sequences, numbers),
        domain=sequences.domain, source=sequences.source, options=options, source_size=sequences.source_size, **recorded
    )


def taken(frames: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Some of the frames; those of a memory map stay on the disk."""
    if not isinstance(frames, np.memmap):
        return frames[numbers]
    store = FrameStore(frames.shape[1:])
    for number in numbers:
        store.add(frames[number])
    return store.finish()


def parts_of(sequence: np.ndarray) -> list[np.ndarray]:
    """The frame numbers of each sequence."""
    return np.split(np.arange(len(sequence)), np.flatnonzero(np.diff(sequence)) + 1)


def _summed_steps(sequences: Sequences, numbers: np.ndarray) -> np.ndarray | None:
    if sequences.step_length is None:
        return None
    recorded = np.zeros(sequences.num_frames)
    steps = transitions(sequences.sequence)
    recorded[steps] = np.asarray(sequences.step_length)[steps]
    travelled = np.concatenate(((0.0,), np.cumsum(recorded)[:-1]))[numbers]
    same = sequences.sequence[numbers][1:] == sequences.sequence[numbers][:-1]
    return np.append(np.where(same, np.diff(travelled), np.nan), np.nan)


def prepared(sequences: Sequences, reading: Reading, largest: int | None) -> Sequences:
    """Pictures in memory, cropped, made gray and squashed where the options ask for it."""
    if len(sequences.frame_shape) != 3:
        return sequences
    height, width, channels = sequences.frame_shape
    shape = frame_shape((width, height), channels, reading.options, largest)
    if shape == sequences.frame_shape and reading.options.crop is None:
        return sequences
    frames = store_arrays(reading, sequences.source, sequences.frames, shape)
    return Sequences(
        frames, sequences.sequence, sequences.position, sequences.action, sequences.step_length, sequences.time,
        sequences.domain, sequences.source, reading.options, (width, height)
    )


def store_arrays(reading: Reading, source: str, arrays: Iterable[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    store, box = FrameStore(shape), parse_crop(reading.options.crop)
    try:
        for array in arrays:
            store.add(array_to_frame(array, shape, box))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    return store.finish()


def require_memory(source: str, num_bytes: int) -> None:
    """Refuses what claims more memory than is free, before any of it is read."""
    free = available_memory()
    if num_bytes > SHARE_OF_MEMORY * free:
        raise ValueError(
            f"{source} claims {num_bytes / 1e9:,.1f} GB of arrays, but only {free / 1e9:,.1f} GB of memory are free; "
            f"is it damaged? Else split it or give frames as a folder of images"
        )


def available_memory() -> int:
    """Bytes that can be had without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 4 << 30  # no Linux: a modest guess
