"""Which frames are kept, pictures decoded in parallel, arrays by their names, and how all become Sequences."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import IO, Any

import numpy as np
from PIL import Image

from plan2vec.config import ReadOptions, parse_crop
from plan2vec.data import RECORDED, Sequences, make_sequences, slices
from plan2vec.readers.picture_to_frame import BROKEN_PICTURE, array_to_frame, frame_shape, to_frame
from plan2vec.readers.refusals import Reading, first_line, name_some, refusing, shown

KINDS = ("frames", "observations", "features")  # names of arrays, one of which is there
BATCH = 256  # pictures decoded together
NUM_SAMPLED = 32  # pictures that are looked at to choose size and channels
Size = tuple[int, int]  # width, height
Open = Callable[[Any], tuple[Image.Image, Size]]  # a picture and its size in the file


def tick_of(options: ReadOptions, index: Any, time: Any) -> Any:
    """The tick of each frame, by its index or its time (seconds) in its sequence; the first frame of a tick is kept."""
    return index // options.every if options.rate is None else np.floor(time * options.rate + 1e-3)


def kept_frames(options: ReadOptions, num_frames: int, time: np.ndarray | None = None) -> np.ndarray:
    """(m,) the kept frame numbers of one sequence; of a rate, a frame without a time (NaN) is not kept."""
    tick = tick_of(options, np.arange(num_frames), None if time is None else time - time[:1])
    return np.flatnonzero(tick > np.fmax.accumulate(np.append(-1, tick[:-1])))


class FrameStore:
    """Prepared frames one after the other in a temporary file: memory stays bounded however long a recording is."""

    def __init__(self, options: ReadOptions = ReadOptions(), shape: tuple[int, ...] | None = None):
        self.options, self.box = options, parse_crop(options.crop)
        self.shape = shape  # of a frame; None: the first picture decides
        self.size: Size | None = None  # of the first picture
        self.num_frames = 0
        self._file: IO[bytes] | None = None  # made for the first frame

    def add(self, frame: np.ndarray) -> None:
        try:
            self._file = self._file or tempfile.TemporaryFile(prefix="plan2vec-")  # noqa: SIM115 - the map outlives it
            self._file.write(np.ascontiguousarray(frame).data)
        except OSError as error:
            raise ValueError(f"no room for prepared frames in {tempfile.gettempdir()} ({error}); "
                             "set TMPDIR to a larger disk") from None
        self.num_frames += 1

    def add_picture(self, picture: np.ndarray, channels: int | None = None) -> None:
        """Prepares a picture (height, width, channels) and stores it; `channels` overrides those of the first."""
        if self.shape is None:
            self.size = (picture.shape[1], picture.shape[0])
            self.shape = frame_shape(self.size, channels or picture.shape[2], self.options)
        self.add(array_to_frame(picture, self.shape, self.box))

    def drop_after(self, num_frames: int) -> None:
        if self._file and self.shape:
            self._file.truncate(self._file.seek(num_frames * int(np.prod(self.shape))))
        self.num_frames = num_frames

    def finish(self) -> np.ndarray:
        """(n, height, width, channels) as a memory map; the file lives as long as the map."""
        shape = (self.num_frames, *(self.shape or (1, 1, 1)))
        if self._file is None or not self.num_frames:
            return np.empty(shape, np.uint8)
        self._file.flush()
        return np.memmap(self._file, np.uint8, "r", shape=shape)


def to_sequences(reading: Reading, arrays: dict[str, Any], held: Iterable[str] = ()) -> Sequences:
    """Sequences from arrays by their names, thinned and prepared as the options ask; `held`: all names in the file."""
    source, given = reading.source, [name for name in KINDS if name in arrays]
    if len(given) != 1:
        names = list(held or arrays)
        words = shown(", ".join(names[:8])) + (" ..." if len(names) > 8 else "") or "nothing"
        raise ValueError(f"{source}: expected exactly one of `frames`, `observations` and `features`, but has {words}")
    frames, is_image = np.asanyarray(arrays[given[0]]), given == ["frames"]
    if frames.ndim not in ((3, 4) if is_image else (2,)):
        axes = "3 or 4" if is_image else "2"
        raise ValueError(f"{source}: {given[0]} must have {axes} axes, but has shape {frames.shape}")
    if not is_image:
        _numbers(source, given[0], frames)
    recorded: dict[str, Any] = {"domain": str(arrays["domain"]) if "domain" in arrays else None}
    recorded |= {name: _numbers(source, name, np.asarray(arrays[name])) for name in RECORDED if name in arrays}
    return prepared(thinned(build(reading, frames, arrays.get("sequence"), **recorded), reading), reading.options)


def _numbers(source: str, name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{source}: {name} must hold numbers, but its dtype is {values.dtype}")
    return values


def name_arrays(source: str, content: Any) -> dict[str, Any]:
    """Arrays by name: of a dict, of a list of dicts or of bare arrays (one sequence each), or a bare array."""
    if isinstance(content, np.ndarray) and content.dtype.hasobject:
        content = content.tolist()  # e.g. the rope of Wang et al., new_rope.npy: 18 arrays of (T, 64, 64, 1)
    if isinstance(content, np.ndarray):
        return {"frames" if content.dtype == np.uint8 else "observations": content}
    if isinstance(content, dict):
        return {str(name): value for name, value in content.items() if isinstance(value, np.ndarray)}
    listed = content if isinstance(content, list) else []
    plain = [part for part in listed if isinstance(part, np.ndarray) and not part.dtype.hasobject and part.ndim >= 2]
    if not listed or len(plain) + sum(isinstance(part, dict) for part in listed) < len(listed):
        raise ValueError(f"{source}: expected a dict of arrays, a list of such dicts or of arrays, or one array, "
                         f"but came {type(content).__name__}")
    parts = [name_arrays(source, part) for part in listed]
    common = set.intersection(*({name for name in part if np.ndim(part[name])} for part in parts)) - {"sequence"}
    if not (names := [name for name in parts[0] if name in common]):
        raise ValueError(f"{source}: its sequences have no array in common; expected `frames` or `observations`")
    with refusing(f"{source}:", (ValueError, TypeError), "the sequences of the list do not fit together"):
        joined = {name: np.concatenate([part[name] for part in parts]) for name in names}
    return joined | {"sequence": np.repeat(np.arange(len(parts)), [len(part[names[0]]) for part in parts])}


def build(reading: Reading, frames: np.ndarray, sequence: np.ndarray | None, source_size: Size | None = None,
          **recorded: Any) -> Sequences:
    """Sequences that name their source in every complaint, and remember how they were read."""
    recorded |= {"source": reading.source, "options": reading.options, "source_size": source_size}
    try:
        made = make_sequences(frames, sequence, **recorded)
    except ValueError as error:
        named = str(error).startswith(reading.source)
        raise ValueError(str(error) if named else f"{reading.source}: {error}") from None
    sizes = np.unique(made.sequence, return_counts=True)[1]
    if single := np.count_nonzero(sizes == 1):
        reading.notes.append(f"{single} of {len(sizes)} sequences hold a single frame, so no step")
    return made


def thinned(sequences: Sequences, reading: Reading) -> Sequences:
    """Each sequence reduced to the frames that the options keep; step lengths add up over what was left out."""
    options, time = reading.options, sequences.time
    if options.every == 1 and options.rate is None:
        return sequences
    if time is None:
        reading.require_no_rate()
    parts = np.split(np.arange(sequences.num_frames), np.flatnonzero(np.diff(sequences.sequence)) + 1)
    kept = [part[kept_frames(options, len(part), None if time is None else time[part])] for part in parts]
    numbers = np.concatenate(kept)
    recorded = {name: value[numbers] for name in RECORDED if (value := getattr(sequences, name)) is not None}
    sequence = sequences.sequence[numbers]
    if sequences.step_length is not None:
        length = np.where(np.append(np.diff(sequences.sequence) == 0, False), sequences.step_length, 0.0)
        travelled = np.append(0.0, np.cumsum(length)[:-1])[numbers]
        recorded["step_length"] = np.append(np.where(np.diff(sequence) == 0, np.diff(travelled), np.nan), np.nan)
    return replace(sequences, frames=taken(sequences.frames, numbers), sequence=sequence, **recorded)


def taken(frames: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Some of the frames; those of a memory map stay on the disk."""
    if not isinstance(frames, np.memmap):
        return frames[numbers]
    store = FrameStore(shape=frames.shape[1:])
    for number in numbers:
        store.add(frames[number])
    return store.finish()


def prepared(sequences: Sequences, options: ReadOptions) -> Sequences:
    """Pictures in memory, cropped, made gray and squashed where the options ask for it."""
    if len(sequences.frame_shape) != 3:
        return sequences
    height, width, channels = sequences.frame_shape
    shape = frame_shape((width, height), channels, options, largest=None)
    if shape == sequences.frame_shape and options.crop is None:
        return sequences
    store = FrameStore(options, shape)
    try:
        for frame in sequences.frames:
            store.add_picture(frame)
    except ValueError as error:
        raise ValueError(f"{sequences.source}: {error}") from None
    return replace(sequences, frames=store.finish(), source_size=(width, height))


def usual_layout(reading: Reading, open_one: Open, items: list, names: list[str], things: str) -> tuple[Size, int]:
    """The usual size (width, height) of pictures, by a few of them, and their channels: 3 if any is coloured."""
    sizes, channels, problems = [], 1, []
    for place in np.unique(np.linspace(0, len(items) - 1, NUM_SAMPLED).round().astype(int)):
        try:
            picture, size = open_one(items[place])
            sizes.append(size)
            channels = max(channels, len(picture.getbands()))
        except BROKEN_PICTURE as error:
            problems.append((names[place], first_line(error)))
    if not sizes:
        raise ValueError(f"{reading.source}: none of {len(problems)} {things} that were tried can be read: "
                         f"{name_some(problems)}; repair or remove them")
    return Counter(sizes).most_common(1)[0][0], channels


def decode_all(reading: Reading, open_one: Open, items: list, names: list[str], shape: tuple[int, ...]):
    """Frames of the readable pictures, their places and sizes, and (name, problem) of the others. A batch at a time, so
    that results never pile up; Pillow decodes without the GIL, so threads do."""
    store, box = FrameStore(shape=shape), parse_crop(reading.options.crop)
    places, sizes, problems = [], [], []

    def decode(item: Any) -> tuple[np.ndarray, Size]:
        picture, size = open_one(item)
        return to_frame(picture, shape, box), size

    with reading.journal.bar("images", len(names)) as advance, ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for part in slices(len(items), BATCH):
            for place, one in enumerate([pool.submit(decode, item) for item in items[part]], part.start):
                if isinstance(error := one.exception(), BROKEN_PICTURE):
                    problems.append((names[place], first_line(error)))
                    continue
                frame, size = one.result()
                store.add(frame)
                places.append(place)
                sizes.append(size)
            advance(part.stop)
    return store.finish(), places, sizes, problems
