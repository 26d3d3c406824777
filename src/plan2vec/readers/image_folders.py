"""A folder of images: every folder that holds images is one sequence, in the natural order of their names.

recordings/                                              recordings/
    kitchen/  frame1.jpg  frame2.jpg  ... frame10.jpg        0001.png  0002.png  ...  (one flat folder: one sequence)
    hall/     a.png  b.png

Links to other folders, and links out of the named folder, are left out and counted."""

import os
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from plan2vec.data import Sequences
from plan2vec.readers.folders import list_files, why_not_a_file
from plan2vec.readers.kept_frames import build, decode_all, kept_frames, usual_layout
from plan2vec.readers.picture_to_frame import frame_shape, open_picture
from plan2vec.readers.refusals import Reading, name_some, shown

NAME = "folder of images"
EXPECTED = "a folder of images (png, jpg, ...)"
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm", ".pbm", ".pnm")


def recognizes(path: Path) -> bool:
    return os.path.isdir(path)  # any folder: the last of all formats


def read(path: Path, reading: Reading) -> Sequences:
    reading.require_no_rate()
    found, links = list_files(path)
    groups = [images for files in found if (images := [file for file in files if file.suffix.lower() in SUFFIXES])]
    others = [file for files in found for file in files if file.suffix.lower() not in SUFFIXES]
    skipped = [*((shown(file.name), "not an image") for file in others), *links]
    if not groups:
        kinds = ", ".join(suffix[1:] for suffix in SUFFIXES)
        raise ValueError(f"{reading.source} holds no images ({kinds}) and no videos; found "
                         f"{name_some(skipped) or 'nothing'}")
    kept = [[group[k] for k in kept_frames(reading.options, len(group))] for group in groups]
    files = [file for group in kept for file in group]
    label = np.repeat(np.arange(len(kept)), [len(group) for group in kept])
    names = [shown(file.relative_to(path)) for file in files]
    size, channels = usual_layout(reading, partial(_open, at_least=None), files, names, "images")
    shape = frame_shape(size, channels, reading.options)
    open_small = partial(_open, at_least=None if reading.options.crop else (shape[1], shape[0]))
    frames, readable, sizes, problems = decode_all(reading, open_small, files, names, shape)
    reading.leave_out(problems, len(files), "images", "repair or remove them", skipped)
    if problems and len(readable) < 2:
        raise ValueError(f"{reading.source}: a recording needs 2 images, but {len(problems)} of {len(files)} cannot be "
                         f"read: {name_some(problems)}; repair or replace them")
    if num_resized := sum(own_size != size for own_size in sizes):
        reading.notes.append(f"{num_resized} of {len(files)} images have another size than {size[0]} x {size[1]} "
                             f"pixels and were squashed to {shape[1]} x {shape[0]}")
    return build(reading, frames, label[readable], size)


def _open(file: Path, at_least: tuple[int, int] | None) -> tuple[Image.Image, tuple[int, int]]:
    """The picture and its size, or a ValueError that says what is wrong."""
    if problem := why_not_a_file(file):
        raise ValueError(problem)
    try:
        return open_picture(file, at_least)
    except UnidentifiedImageError:
        raise ValueError("not an image" if file.stat().st_size else "empty file") from None
