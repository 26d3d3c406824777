"""Many encoded pictures become frames: opened in parallel, stored in order, the broken ones counted."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from plan2vec.config import Box
from plan2vec.learning.processes import num_helpers, spread
from plan2vec.readers.kept_frames import FrameStore
from plan2vec.readers.messages import Reading, first_line
from plan2vec.readers.picture_to_frame import BROKEN_PICTURE, to_frame

BATCH = 256  # pictures decoded together

Decoded = tuple[np.ndarray | None, tuple[int, int] | None, str]  # frame, size of its picture, what is wrong with it


def decode(open_it: Callable[[], tuple[Image.Image, Any]], shape: tuple[int, ...], box: Box | None) -> Decoded:
    """The frame of the picture that `open_it` gives with its size, or what is wrong with it."""
    try:
        picture, size = open_it()
        return to_frame(picture, shape, box), size, ""
    except BROKEN_PICTURE as error:
        return None, None, first_line(error)


def store_decoded(reading: Reading, decoded: Iterable[Decoded], names: list[str], shape: tuple[int, ...]):
    """Frames of the readable pictures, their places and sizes, and (name, problem) of the others."""
    store = FrameStore(reading.options, shape)
    places, sizes, problems = [], [], []
    with reading.journal.bar("images", len(names)) as advance:
        for place, (frame, size, problem) in enumerate(decoded):
            if frame is None:
                problems.append((names[place], problem))
            else:
                store.add(frame)
                places.append(place)
                sizes.append(size)
            if place % BATCH == 0:
                advance(place)
        advance(len(names))
    return store.finish(), places, sizes, problems


def in_all_processes(function, items: list) -> Iterator[Any]:
    """`in_parallel` in every process that waits for this one, a part each; the function must be one to be pickled."""
    at_once = BATCH * num_helpers()
    if at_once == BATCH:
        yield from in_parallel(function, items)
        return
    for first in range(0, len(items), at_once):
        yield from spread(partial(_listed, function), items[first : first + at_once])


def _listed(function, items: list) -> list:
    """`in_parallel` for another process, which sends its results in one piece."""
    return list(in_parallel(function, items))


def in_parallel(function, items: list) -> Iterator[Any]:
    """Results in order, a batch at a time so that they never pile up; Pillow decodes without the GIL: threads do."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for first in range(0, len(items), BATCH):
            yield from pool.map(function, items[first : first + BATCH])
