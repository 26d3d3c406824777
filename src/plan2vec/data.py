"""Recordings in memory, as all stages read them: frames laid end to end, and which sequence each belongs to.

    frame number   0 1 2 3 4 | 5 6 7 | 8 9 10 11
    sequence       0 0 0 0 0 | 1 1 1 | 2 2 2  2
    transitions    0-1 1-2 2-3 3-4, 5-6 6-7, 8-9 9-10 10-11      (never 4-5 or 7-8)

A frame travels through the whole program as its number. `frames` may be an array or a memory map."""

import mmap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from plan2vec.config import ReadOptions

CHUNK_BYTES = 1 << 24  # of frames looked at together, so that memory stays bounded however many there are
PARTS_OF_CHUNK = 16  # that threads share
STILL_SHARE = 0.1  # of the median step's change: two frames that differ by less show the same
BLOCKS, CELLS = 16, 8  # per side of a picture: means over blocks are compared, and cells of 2 x 2 blocks counted
VISIBLE_CHANGE = 4.0, 8.0  # gray levels: the least change of a block that counts lies in this range, by the noise
QUIET_SHARE, NUM_DEVIATIONS = 0.1, 4  # the noise: this many deviations of a block's mean in the quietest blocks
SHIFTED = 2.0  # times the noise of a step by which the quietest blocks of far frames differ if the background shifts
TRUTH = ("position", "heading", "label")  # what only evaluation may see
RECORDED = (*TRUTH, "action", "step_length", "time")  # fields that have an entry per frame, beside frames and sequence
MOVING_SHARE = 0.45  # of the cells: if the median step that moved anything changes more, the camera itself moves


@dataclass(frozen=True)
class SuccessRule:
    """When a plan that hops between frames counts as a success. Domains state theirs; evaluation reads it."""

    radius: float | None = None  # true distance to the goal that counts as arrived; None: three median steps
    max_hops: int | None = None  # hops allowed; None: hops_factor x the hops of the shortest path + 10
    epsilon: float = 0.0  # probability of a random hop instead of the greedy one
    episodes: int = 2000  # random (start, goal) pairs
    memory: bool = False  # a walker with memory never enters a frame twice
    hops_factor: int = 4  # read where max_hops is None


@dataclass(frozen=True)
class Sequences:
    """Recorded frames and what was recorded beside them; n is the number of frames."""

    frames: np.ndarray  # (n, height, width, channels) uint8 images, or (n, d) float32 vector observations
    sequence: np.ndarray  # (n,) int64: label of the sequence a frame belongs to; equal labels are contiguous
    position: np.ndarray | None = None  # (n, k) ground truth, for evaluation only
    action: np.ndarray | None = None  # (n, a)
    step_length: np.ndarray | None = None  # (n,) length of the step from frame i to i + 1; NaN at a sequence's end
    time: np.ndarray | None = None  # (n,) seconds
    heading: np.ndarray | None = None  # (n,) degrees, ground truth as position is
    label: np.ndarray | None = None  # (n,) integers, ground truth: frames of two labels show two places (floors, mazes)
    domain: str | None = None  # the simulator the frames come from, which knows true distances and the success rule
    source: str = "memory"  # where the frames were read from, for messages
    options: ReadOptions = field(default_factory=ReadOptions)  # how they were read; other images are prepared likewise
    source_size: tuple[int, int] | None = None  # (width, height) before pictures were cropped and squashed, if known

    def __post_init__(self) -> None:
        _check(self)

    def __len__(self) -> int:
        """The number of frames."""
        return len(self.frames)

    def __repr__(self) -> str:
        num, kind = len(np.unique(self.sequence)), "images" if self.frames.dtype == np.uint8 else "vectors"
        recorded = ", ".join(name for name in RECORDED if getattr(self, name) is not None)
        return (f"Sequences of {len(self):,} frames in {num:,} sequence{'s' if num > 1 else ''} ({self.source})\n"
                f"  frames: {kind} {self.frame_shape} {self.frames.dtype}; beside them: {recorded or 'nothing'}")

    @property
    def num_frames(self) -> int:
        """As `len`."""
        return len(self.frames)

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """(height, width, channels) of an image, (d,) of a vector."""
        return tuple(self.frames.shape[1:])

    @cached_property
    def still_since(self) -> np.ndarray:
        """(n,) the frame since which nothing has moved; the frame itself where it moved. A parked robot's frames differ
        by the camera's noise. So images are still as long as they differ from that *first* frame by less than a tenth
        of what the median step changes: slow motion ends a pause. Vectors are still where equal. Reads every frame."""
        frames, start = self.frames, transitions(self.sequence)
        change = change_ahead(frames)[start]
        moved = change[change > 0]
        limit = STILL_SHARE * float(np.median(moved)) if len(moved) and frames.dtype == np.uint8 else 0.0
        first = np.arange(len(self))
        for number in start[change <= limit] + 1:  # in order, so the answer of the frame before is known
            head = first[number - 1]
            if head == number - 1 or _mean_change(frames[head : head + 1], frames[number : number + 1])[0] <= limit:
                first[number] = head
        return first

    @cached_property
    def camera_moves(self) -> bool:
        """Whether the steps that move anything change the picture all over, as an object before a fixed camera does
        not. Counted are cells of the picture, not pixels: a road and a sky have few edges, but some in most cells.
        Light that changes everywhere alike does not count, nor does noise. Steps that change no cell stand still."""
        if self.frames.dtype != np.uint8:
            return False
        change, noise = _changes(self.frames, transitions(self.sequence), 1)
        share = (_pooled(change, CELLS, np.maximum) > np.clip(np.median(noise), *VISIBLE_CHANGE)).mean(axis=(1, 2))
        return bool(share.any() and np.median(share[share > 0]) > MOVING_SHARE)

    @cached_property
    def background_shifts(self) -> bool:
        """Whether frames far apart in time differ even in the quietest parts of the picture, and by more than the noise
        of a step: a camera moved between takes. Rendered frames, also after JPEG or H.264, differ by nothing."""
        if self.frames.dtype != np.uint8:
            return False
        half = len(self) // 2
        noise, far = (_changes(self.frames, *pairs)[1]
                      for pairs in ((transitions(self.sequence), 1), (np.arange(half), half)))
        return bool(np.median(far) > SHIFTED * np.median(noise))

    def without_truth(self) -> "Sequences":
        """What training may see: everything but positions, headings and labels."""
        return replace(self, position=None, heading=None, label=None, domain=None)


def make_sequences(frames: np.ndarray, sequence: np.ndarray | None = None, **recorded: object) -> Sequences:
    """Sequences from plain arrays: channels go last, floats become float32, a flat position is one column.

    `frames`: uint8 images (n, h, w), (n, h, w, c) or (n, c, h, w), or observations (n, d). `sequence` (n,) integers:
    which recording a frame belongs to, equal labels contiguous; None: one recording. `recorded`: the other fields of
    `Sequences`, such as position or action. Returns `Sequences`; a ValueError says what does not fit."""
    frames = _arrange(np.asanyarray(frames))
    sequence = np.zeros(len(frames), np.int64) if sequence is None else np.asarray(sequence)
    if sequence.dtype.kind not in "iu":
        raise ValueError(f"sequence must hold integers, one label a frame, but its dtype is {sequence.dtype}")
    for name in ("position", "action"):
        if np.ndim(recorded.get(name)) == 1:  # type: ignore[arg-type]
            recorded[name] = np.asarray(recorded[name])[:, None]
    return Sequences(frames, sequence.astype(np.int64), **recorded)  # type: ignore[arg-type]


def transitions(sequence: np.ndarray, usable: np.ndarray | None = None) -> np.ndarray:
    """(m,) frame numbers i such that i -> i + 1 was recorded, and both frames are `usable` (n,)."""
    follows = sequence[1:] == sequence[:-1]
    return np.flatnonzero(follows if usable is None else follows & usable[1:] & usable[:-1])


def frames_ahead(sequence: np.ndarray, gap: int) -> np.ndarray:
    """(m,) frame numbers i such that i + gap lies in the same sequence."""
    return np.flatnonzero(sequence[gap:] == sequence[:-gap])


def near_in_time(sequence: np.ndarray, first: np.ndarray, second: np.ndarray, gap: int) -> np.ndarray:
    """(m,) bool: the two frames are less than `gap` apart in one sequence."""
    return (sequence[first] == sequence[second]) & (np.abs(first - second) < gap)


def index_within(sequence: np.ndarray) -> np.ndarray:
    """(n,) how many earlier frames of its own sequence each frame has."""
    first = np.flatnonzero(np.diff(sequence, prepend=sequence[0] - 1))
    return np.arange(len(sequence)) - np.repeat(first, np.diff(first, append=len(sequence)))


def frames_left(sequence: np.ndarray) -> np.ndarray:
    """(n,) how many later frames of its own sequence each frame has; 0 at a sequence's end."""
    return index_within(sequence[::-1])[::-1]


def slices(num: int, size: int) -> list[slice]:
    """Slices of range(num), each of this size but the last."""
    return [slice(first, min(first + size, num)) for first in range(0, num, size)]


def chunks(frames: np.ndarray, num: int, copies: int = 1) -> Iterator[slice]:
    """Slices of range(num): `copies` of their frames fit into CHUNK_BYTES; a memory map's pages are freed after it."""
    is_mapped = isinstance(frames, np.memmap) and frames.mode == "r" and isinstance(frames.base, mmap.mmap)
    for part in slices(num, max(1, CHUNK_BYTES // max(1, copies * frames[:1].nbytes))):
        yield part
        if is_mapped and hasattr(mmap, "MADV_DONTNEED"):
            frames.base.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr]


def is_still(frames: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(m,) bool: the two frames are equal to the last pixel, so nothing moved between them."""
    still = np.empty(len(first), bool)
    for part in chunks(frames, len(first)):
        still[part] = (frames[first[part]] == frames[second[part]]).all(axis=tuple(range(1, frames.ndim)))
    return still


def equal_frames(frames: np.ndarray, numbers: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(m,) frames (all, or of `numbers`) that differ from all before, and (n,) which of these each equals."""
    numbers = np.arange(len(frames)) if numbers is None else numbers
    digests = np.empty(len(numbers), "S16")
    for part in chunks(frames, len(numbers)):
        digests[part] = [blake2b(np.ascontiguousarray(frames[number]).data, digest_size=16).digest()
                         for number in numbers[part]]
    _, first, code = np.unique(digests, return_index=True, return_inverse=True)
    is_new = first[code] == np.arange(len(numbers))
    return numbers[is_new], (np.cumsum(is_new) - 1)[first[code]]


def change_ahead(frames: np.ndarray) -> np.ndarray:
    """(n - 1,) mean absolute difference of each frame and the next; read in order, by as many threads as cores."""
    change = np.empty(len(frames) - 1, np.float32)

    def compare(part: slice) -> None:
        some = frames[part.start : part.stop + 1]
        change[part] = _mean_change(some[:-1], some[1:])

    with ThreadPoolExecutor() as threads:
        for chunk in chunks(frames, len(change)):
            limits = np.linspace(chunk.start, chunk.stop, PARTS_OF_CHUNK + 1).astype(int)
            list(threads.map(compare, (slice(first, last) for first, last in pairwise(limits.tolist()))))
    return change


def _mean_change(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(m,) mean absolute difference of frame pairs."""
    if first.dtype == np.uint8:
        change = np.maximum(first, second) - np.minimum(first, second)
        change = change.reshape(len(first), np.prod(first.shape[1:], dtype=int))
        return change.sum(axis=1, dtype=np.uint32).astype(np.float32) / np.float32(change.shape[1])
    return np.abs(first - second).mean(axis=tuple(range(1, first.ndim)))


def _changes(frames: np.ndarray, first: np.ndarray, ahead: int) -> tuple[np.ndarray, np.ndarray]:
    """`_block_changes` from frames `first` (m,), or about a thousand of them, to those so many frames ahead."""
    first = first[:: max(1, len(first) // 1000)]
    change, noise = zip(*(_block_changes(frames[first[part]], frames[first[part] + ahead])
                          for part in chunks(frames, len(first), copies=10)), strict=True)
    return np.concatenate(change), np.concatenate(noise)


def _block_changes(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, blocks, blocks) change of the mean of each block beside the change of the light; (m,) its noise."""
    change = (second.astype(np.float32) - first).mean(axis=-1)
    num_pixels = _pooled(np.ones_like(change[:1]), BLOCKS, np.add)
    mean, square = _pooled(change, BLOCKS, np.add) / num_pixels, _pooled(change**2, BLOCKS, np.add) / num_pixels
    deviation = np.sqrt(np.maximum(0, square - mean**2) / num_pixels)  # of the mean, where noise is all there is
    noise = NUM_DEVIATIONS * np.quantile(deviation, QUIET_SHARE, axis=(1, 2))
    return np.abs(mean - np.median(mean, axis=(1, 2), keepdims=True)), noise


def _pooled(images: np.ndarray, num: int, combine: np.ufunc) -> np.ndarray:
    """(m, height, width) -> (m, num, num) or fewer: parts of at least 2 x 2 pixels combined."""
    for axis in (1, 2):
        size = images.shape[axis]
        parts = max(1, min(num, size // 2))
        images = combine.reduceat(images, np.arange(parts) * size // parts, axis)
    return images


def split_sequences(sequence: np.ndarray, share: float, rng: np.random.Generator,
                    gap: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """(n,) bool masks (kept, held out): whole sequences, about `share` of the frames. One long sequence is split into
    blocks instead. `gap` frames beside these belong to neither mask: none has an almost equal neighbour in training."""
    labels, sizes = np.unique(sequence, return_counts=True)
    if len(labels) >= 2:
        held_out = np.isin(sequence, labels[_draw_sequences(sizes, share, rng)])
        return ~held_out, held_out
    blocks = np.array_split(np.arange(len(sequence)), min(20, max(1, len(sequence) // (4 * gap))))
    held_out, beside = np.zeros((2, len(sequence)), bool)
    for block in rng.choice(len(blocks), min(round(share * len(blocks)), len(blocks) - 1), replace=False):
        first, last = blocks[block][0], blocks[block][-1]
        held_out[first : last + 1] = True
        beside[max(0, first - gap) : last + 1 + gap] = True
    return ~beside, held_out


def training_frames(sequence: np.ndarray, holdout: float, rng: np.random.Generator) -> np.ndarray:
    """(n,) bool: frames that may be trained on."""
    kept, held_out = split_sequences(sequence, holdout, rng)
    if holdout > 0 and not held_out.any():
        raise ValueError(f"--holdout {holdout} leaves nothing out of {len(sequence)} frames in one sequence; drop it")
    return kept


def _draw_sequences(sizes: np.ndarray, share: float, rng: np.random.Generator) -> list[int]:
    """Sequences in random order, each taken if it brings the sum nearer to the share; never none, never the largest."""
    if share <= 0:
        return []
    taken: list[int] = []
    largest, num_frames = int(np.argmax(sizes)), 0
    for number in rng.permutation(len(sizes)).tolist():
        if number != largest and num_frames + sizes[number] / 2 <= share * sizes.sum():
            taken.append(number)
            num_frames += sizes[number]
    return taken or [int(np.argmin(np.where(np.arange(len(sizes)) == largest, np.inf, sizes)))]


def _arrange(frames: np.ndarray) -> np.ndarray:
    """Images to (n, height, width, channels), vectors to (n, d) float32."""
    if frames.ndim == 2 and frames.dtype.kind in "fiu":
        with np.errstate(over="ignore"):  # becomes infinity, which is refused
            return np.ascontiguousarray(frames, dtype=np.float32)
    if frames.dtype != np.uint8 or frames.ndim not in (3, 4):
        raise ValueError("frames must be uint8 images (n, h, w), (n, h, w, c) or (n, c, h, w), or floats (n, d), not "
                         f"{frames.dtype} {frames.shape}; convert them, e.g. (255 * frames).astype('uint8')")
    frames = frames[..., None] if frames.ndim == 3 else frames
    channels_first = frames.shape[1] < frames.shape[3]  # the smaller axis is the channels
    return np.ascontiguousarray(frames.transpose(0, 2, 3, 1)) if channels_first else frames


def _check(sequences: Sequences) -> None:
    frames, source, n = sequences.frames, sequences.source, len(sequences.frames)
    if n < 2:
        raise ValueError(f"{source}: a recording needs at least 2 frames, but has {n}")
    if min(frames.shape) < 1:
        raise ValueError(f"{source}: frames have an empty axis: shape {frames.shape}")
    for name in ("sequence", *RECORDED):
        if (value := getattr(sequences, name)) is None:
            continue
        num_entries = len(value) if np.ndim(value) else 0
        if num_entries != n:
            raise ValueError(f"{source}: {name} has {num_entries} entries for {n} frames; give one a frame")
        expected, words = (2, f"({n}, k)") if name in ("position", "action") else (1, f"({n},)")
        if np.ndim(value) != expected:
            raise ValueError(f"{source}: {name} must have shape {words}, but has shape {np.shape(value)}")
    if 1 + np.count_nonzero(np.diff(sequences.sequence)) != len(np.unique(sequences.sequence)):
        raise ValueError(f"{source}: frames of one sequence must be contiguous, but a label of `sequence` comes back "
                         "after another one; sort by sequence")
    if not len(transitions(sequences.sequence)):
        raise ValueError(f"{source}: every sequence has length 1, so no step was recorded; frames of one recording "
                         "must share one label in `sequence`")
    _check_values(sequences, source)
    if all((frames[part] == frames[0]).all() for part in chunks(frames, n)):
        raise ValueError(f"{source}: all {n} frames are equal, so there is nothing to learn; check the recording")


def _check_values(sequences: Sequences, source: str) -> None:
    for name in ("frames", *TRUTH):
        values = getattr(sequences, name)
        if values is None or values.dtype.kind != "f":
            continue
        for part in chunks(values, len(values)):
            is_finite = np.isfinite(values[part]).reshape(part.stop - part.start, -1).all(axis=1)
            if not is_finite.all():
                what = name if name in TRUTH else "observations"
                remedy = f"repair it or leave {name} out" if name in TRUTH else "remove or repair it"
                raise ValueError(f"{source}: {what} must be finite, but frame {part.start + is_finite.argmin()} has "
                                 f"NaN or infinity; {remedy}")
    if sequences.label is not None and sequences.label.dtype.kind not in "iu":
        raise ValueError(f"{source}: label must hold integers, but its dtype is {sequences.label.dtype}")
    if sequences.step_length is not None:
        length = np.asarray(sequences.step_length)[transitions(sequences.sequence)]
        if not np.isfinite(length).all() or (length < 0).any() or not np.median(length) > 0:
            raise ValueError(f"{source}: step_length must be finite, never negative and mostly above 0 "
                             "(NaN only at a sequence's last frame); repair it")
