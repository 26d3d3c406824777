"""Small random changes of images in training: they keep a network from learning recorded frames by heart.

They are drawn first and done afterwards, so that a GPU can replay the second half (`captured.py`).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from plan2vec.learning.frame_tensors import Array, FrameTensors, on_device


@dataclass(frozen=True)
class Augmentation:
    """How much frames are changed; nothing at all by default."""

    shift: int = 0  # pixels, up to
    brightness: float = 0.0  # share, up to; contrast too
    noise: float = 0.0  # standard deviation, as a share of white


def draw_changes(config: Augmentation, images: FrameTensors, num: int, rng: np.random.Generator) -> tuple[Array, ...]:
    """What `augment` does to `num` images, drawn at random: an array (num, ...) per kind of change in the settings."""
    if images.frames.ndim != 4:
        return ()
    drawn: list[Array] = []
    if config.brightness:
        drawn.append(rng.uniform(-config.brightness, config.brightness, (2, num)).astype(np.float32).T)
    if config.shift:
        drawn.append(rng.integers(-config.shift, config.shift + 1, (2, num)).T)
    if config.noise:
        height, width, channels = images.frames.shape[1:]
        source = torch.Generator(images.device).manual_seed(int(rng.integers(2**62)))
        drawn.append(torch.randn(num, channels, height, width, generator=source, device=images.device))
    return tuple(drawn)


def augment(images: Tensor, config: Augmentation, changes: tuple[Array, ...], part: slice = slice(None)) -> Tensor:
    """Brightness and contrast, a shift in pixels, noise. The images are a `part` of those that were drawn for."""
    if not changes:
        return images
    waiting = iter(on_device(change, images.device)[part] for change in changes)
    if config.brightness:
        gain, rise = next(waiting)[:, :, None, None, None].unbind(1)
        images = (images * (1 + gain) + rise).clamp(0, 1)
    if config.shift:  # by [b, 2] rows and columns; what comes in repeats the edge
        moves, which = next(waiting), torch.arange(len(images), device=images.device)[:, None, None]
        rows, columns = ((torch.arange(size, device=images.device) + moves[:, axis, None]).clamp(0, size - 1)
                         for axis, size in enumerate(images.shape[2:]))
        images = images.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    if config.noise:
        images = images + config.noise * next(waiting)
    return images
