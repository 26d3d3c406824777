"""A folder of images: every folder that holds images is one sequence, in the natural order of their names.

recordings/                                              recordings/
    kitchen/  frame1.jpg  frame2.jpg  ... frame10.jpg        0001.png  0002.png  ...  (one flat folder: one sequence)
    hall/     a.png  b.png

Links to other folders, and links out of the named folder, are left out and counted.
"""

import os
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from plan2vec.config import Box, parse_crop
from plan2vec.data import Sequences
from plan2vec.readers.folders import list_files, why_not_a_file
from plan2vec.readers.kept_frames import Decoded, build, decode, in_all_processes, kept_frames, store_decoded
from plan2vec.readers.messages import Reading, first_line, name_some, refuse_most, shown
from plan2vec.readers.picture_to_frame import BROKEN_PICTURE, frame_shape, open_picture

NAME = "folder of images"
EXPECTED = "a folder of images (png, jpg, ...)"
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm", ".pbm", ".pnm")
NUM_SAMPLED = 32  # pictures that are looked at to choose size and channels


def recognizes(path: Path) -> bool:
    """Any folder: the last of all formats."""
    return os.path.isdir(path)


def read(path: Path, reading: Reading) -> Sequences:
    source = shown(path)
    reading.require_no_rate(source)
    found, links = list_files(path)
    groups = [images for files in found if (images := [file for file in files if file.suffix.lower() in SUFFIXES])]
    others = [file for files in found for file in files if file.suffix.lower() not in SUFFIXES]
    skipped = [*((shown(file.name), "not an image") for file in others), *links]
    if not groups:
        more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        held = ", ".join(name for name, _ in skipped[:3]) + more or "nothing"
        kinds = ", ".join(suffix[1:] for suffix in SUFFIXES)
        raise ValueError(f"{source} holds no images ({kinds}) and no videos; found {held}")
    kept = [[group[k] for k in kept_frames(reading.options, len(group))] for group in groups]
    files = [file for group in kept for file in group]
    label = np.repeat(np.arange(len(kept)), [len(group) for group in kept])
    size, shape = _layout(files, source, reading)
    box = parse_crop(reading.options.crop)
    prepare = partial(_prepare, at_least=None if box else (shape[1], shape[0]), shape=shape, box=box)
    names = [shown(file.name) for file in files]
    frames, readable, sizes, problems = store_decoded(reading, in_all_processes(prepare, files), names, shape)
    refuse_most(source, problems, len(files), "images", "repair or remove them")
    if problems and len(readable) < 2:
        raise ValueError(f"{source}: a recording needs 2 images, but {len(problems)} of {len(files)} cannot be read: "
                         f"{name_some(problems)}; repair or replace them")
    reading.note_skipped([*problems, *skipped], len(files) + len(skipped), "files")
    if num_resized := sum(own_size != size for own_size in sizes):
        reading.notes.append(f"{num_resized} of {len(files)} images have another size than {size[0]} x {size[1]} "
                             f"pixels and were squashed to {shape[1]} x {shape[0]}")
    return build(reading, source, frames, label[readable], size)


def _layout(files: list[Path], source: str, reading: Reading) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """The usual size (width, height) of the pictures, and the shape of their frames; coloured if any picture is."""
    sizes: Counter[tuple[int, int]] = Counter()
    channels, problems = 1, []
    for place in np.unique(np.linspace(0, len(files) - 1, NUM_SAMPLED).round().astype(int)):
        try:
            picture, size = _open(files[place], None)
            sizes[size] += 1
            channels = max(channels, len(picture.getbands()))
        except BROKEN_PICTURE as error:
            problems.append((shown(files[place].name), first_line(error)))
    if not sizes:
        raise ValueError(f"{source}: none of {len(problems)} images that were tried can be read: "
                         f"{name_some(problems)}; repair or remove them")
    size = sizes.most_common(1)[0][0]
    return size, frame_shape(size, channels, reading.options)


def _open(file: Path, at_least: tuple[int, int] | None) -> tuple[Image.Image, tuple[int, int]]:
    """The picture and its size, or a ValueError that says what is wrong."""
    if problem := why_not_a_file(file):
        raise ValueError(problem)
    try:
        return open_picture(file, at_least)
    except UnidentifiedImageError:
        raise ValueError("empty file" if file.stat().st_size == 0 else "not an image") from None


def _prepare(file: Path, at_least: tuple[int, int] | None, shape: tuple[int, int, int], box: Box | None) -> Decoded:
    return decode(lambda: _open(file, at_least), shape, box)
