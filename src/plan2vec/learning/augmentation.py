"""Small random changes of images in training: they keep a network from learning recorded frames by heart.

They are drawn first and done afterwards, so that a GPU can replay the second half (`captured.py`)."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plan2vec.config import LocalMetricConfig
from plan2vec.learning.frame_tensors import Array, FrameTensors, on_device

BRIGHTNESS = 1.25  # over the jitter of a local metric's frames


@dataclass(frozen=True)
class Augmentation:
    """How much frames are changed; nothing at all by default."""

    jitter: float = 0.0  # zoom by up to this share, and shift by up to half of it
    brightness: float = 0.0  # share, up to; contrast too
    noise: float = 0.0  # standard deviation, as a share of white


def augmentation_of(settings: LocalMetricConfig) -> Augmentation:
    return Augmentation(settings.jitter, BRIGHTNESS * settings.jitter)


def draw_changes(config: Augmentation, images: FrameTensors, num: int, rng: np.random.Generator) -> tuple[Array, ...]:
    """What `augment` does to `num` images, drawn at random: an array (num, ...) per kind of change in the settings."""
    if images.frames.ndim != 4:
        return ()
    drawn: list[Array] = [rng.uniform(-most, most, (kinds, num)).astype(np.float32).T
                          for most, kinds in ((config.brightness, 2), (config.jitter, 3)) if most]
    if config.noise:
        height, width, channels = images.frames.shape[1:]
        source = torch.Generator(images.device).manual_seed(int(rng.integers(2**62)))
        drawn.append(torch.randn(num, channels, height, width, generator=source, device=images.device))
    return tuple(drawn)


def augment(images: Tensor, config: Augmentation, changes: tuple[Array, ...], part: slice = slice(None)) -> Tensor:
    """Brightness and contrast, zoom and shift, noise. The images are a `part` of those that were drawn for."""
    if not changes:
        return images
    waiting = iter(on_device(change, images.device)[part] for change in changes)
    if config.brightness:
        gain, rise = next(waiting)[:, :, None, None, None].unbind(1)
        images = (images * (1 + gain) + rise).clamp(0, 1)
    if config.jitter:
        images = moved(images, next(waiting))
    if config.noise:
        images = images + config.noise * next(waiting)
    return images


def moved(images: Tensor, changes: Tensor) -> Tensor:
    """Images zoomed by a share and shifted by shares of half their size [b, 3]; what comes in repeats the edge."""
    zoom, shift = 1 + changes[:, :1, None], changes[:, 1:, None]
    affine = torch.cat((zoom * torch.eye(2, device=images.device), shift), dim=2)  # [b, 2, 3]
    grid = F.affine_grid(affine, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)
