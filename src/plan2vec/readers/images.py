"""A folder of images: every folder that holds images is one sequence, in the natural order of their names.

recordings/                        recordings/
    kitchen/  frame1.jpg  frame2.jpg  ... frame10.jpg          0001.png  0002.png  ...      (one flat folder: one sequence)
    hall/     a.png  b.png
"""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import UnidentifiedImageError

from plan2vec.config import Box, parse_crop
from plan2vec.data import Sequences
from plan2vec.learning.processes import num_helpers, spread
from plan2vec.readers.folders import list_files, why_not_a_file
from plan2vec.readers.preparation import BROKEN_PICTURE, frame_shape, open_picture, to_frame
from plan2vec.readers.reading import FrameStore, Reading, build, first_line, kept_frames, name_some, shown

NAME = "folder of images"
EXPECTED = "a folder of images (png, jpg, ...)"
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm", ".pbm", ".pnm")
NUM_SAMPLED = 32  # pictures that are looked at to choose size and channels
BATCH = 256  # pictures decoded together


def recognizes(path: Path) -> bool:
    return os.path.isdir(path)


def read(path: Path, reading: Reading) -> Sequences:
    source = shown(path)
    reading.require_no_rate(source)
    groups, others = _image_files(path)
    files = [file for group in groups for file in group]
    if not files:
        raise ValueError(
            f"{source} holds no images ({_words(SUFFIXES)}) and no videos; found {_names(others) or 'nothing'}"
        )
    kept = [[group[k] for k in kept_frames(reading.options, len(group))] for group in groups]
    files = [file for group in kept for file in group]
    label = np.repeat(np.arange(len(kept)), [len(group) for group in kept])
    size, shape = _layout(files, source, reading)
    frames, readable, problems, num_resized = _decode(files, size, shape, reading)
    skipped = [(shown(file.name), "not an image") for file in others]
    if 2 * len(problems) > len(files):
        raise ValueError(f"{source}: {len(problems)} of {len(files)} images cannot be read: {name_some(problems)}; repair or remove them")
    reading.note_skipped([*problems, *skipped], len(files) + len(others), "files")
    if num_resized:
        reading.notes.append(
            f"{num_resized} of {len(files)} images have another size than {size[0]} x {size[1]} pixels "
            f"and were squashed to {shape[1]} x {shape[0]}"
        )
    return build(reading, source, frames, label[readable], size)


def _image_files(path: Path) -> tuple[list[list[Path]], list[Path]]:
    """The images of each folder, and the files of any other kind."""
    groups, others = [], []
    for _, files in list_files(path):
        images = [file for file in files if file.suffix.lower() in SUFFIXES]
        others += [file for file in files if file.suffix.lower() not in SUFFIXES]
        if images:
            groups.append(images)
    return groups, others


def _layout(files: list[Path], source: str, reading: Reading) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """The usual size (width, height) of the pictures, and the shape of their frames; coloured if any picture is."""
    sizes: Counter[tuple[int, int]] = Counter()
    channels, problems = 1, []
    for place in np.unique(np.linspace(0, len(files) - 1, NUM_SAMPLED).round().astype(int)):
        picture, size, problem = _open(files[place], None)
        if picture is None:
            problems.append((shown(files[place].name), problem))
            continue
        sizes[size] += 1
        channels = max(channels, len(picture.getbands()))
    if not sizes:
        raise ValueError(
            f"{source}: none of {len(problems)} images that were tried can be read: {name_some(problems)}; repair or remove them"
        )
    size = sizes.most_common(1)[0][0]
    return size, frame_shape(size, channels, reading.options)


def _open(file: Path, at_least: tuple[int, int] | None):
    """(picture, its size, None), or (None, None, what is wrong)."""
    problem = why_not_a_file(file)
    if problem is not None:
        return None, None, problem
    try:
        return *open_picture(file, at_least), None
    except UnidentifiedImageError:
        return None, None, "empty file" if file.stat().st_size == 0 else "not an image"
    except BROKEN_PICTURE as error:
        return None, None, first_line(error)


def _decode(files: list[Path], size: tuple[int, int], shape: tuple[int, int, int], reading: Reading):
    """Frames of all readable files, their places, (name, problem) of the others, and how many had another size."""
    store, box = FrameStore(shape), parse_crop(reading.options.crop)
    at_least = None if box else (shape[1], shape[0])
    readable, problems, num_resized = [], [], 0
    prepare = partial(_prepare, at_least=at_least, shape=shape, box=box)
    with reading.journal.bar("images", len(files)) as advance:
        for place, (frame, own_size, problem) in enumerate(in_all_processes(prepare, files)):
            if frame is None:
                problems.append((shown(files[place].name), problem))
            else:
                store.add(frame)
                readable.append(place)
                num_resized += own_size != size
            if place % BATCH == 0:
                advance(place)
        advance(len(files))
    return store.finish(), readable, problems, num_resized


def _prepare(file: Path, at_least: tuple[int, int] | None, shape: tuple[int, int, int], box: Box | None):
    """(frame, size of the picture, None), or (None, its size if known, what is wrong)."""
    picture, own_size, problem = _open(file, at_least)
    if picture is None:
        return None, own_size, problem
    try:
        return to_frame(picture, shape, box), own_size, None
    except BROKEN_PICTURE as error:
        return None, own_size, first_line(error)


def in_all_processes(function, items: list) -> Iterator[tuple]:
    """`in_parallel` of every process that waits for this one, each with a part; the function must be one that can be
    pickled.
    """
    at_once = BATCH * num_helpers()
    if at_once == BATCH:
        yield from in_parallel(function, items)
        return
    for first in range(0, len(items), at_once):
        yield from spread(partial(_listed, function), items[first : first + at_once])


def _listed(function, items: list) -> list[tuple]:
    return list(in_parallel(function, items))


def in_parallel(function, items: list) -> Iterator[tuple]:
    """Results in order; a batch at a time, so that finished ones never pile up. Pillow decodes without the GIL, so
    threads do.
    """
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for first in range(0, len(items), BATCH):
            yield from pool.map(function, items[first : first + BATCH])


def _words(suffixes: tuple[str, ...]) -> str:
    return ", ".join(suffix[1:] for suffix in suffixes)


def _names(files: list[Path]) -> str:
    return ", ".join(shown(file.name) for file in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
