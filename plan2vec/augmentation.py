"""Small random changes of images in training, so that a network does not learn recorded frames by heart."""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class Augmentation(Protocol):
    """The settings of a stage that changes its frames a little."""

    @property
    def shift(self) -> int: ...
    @property
    def brightness(self) -> float: ...
    @property
    def noise(self) -> float: ...


def augment(images: Tensor, config: Augmentation, rng: np.random.Generator, part: slice = slice(None), num: int | None = None) -> Tensor:
    """Small changes that do not move the camera's place: a shift in pixels, brightness and contrast, noise.

    Where the images are a `part` of `num` that other processes have the rest of, each changes as it would among all.
    """
    if images.ndim != 4 or not (config.shift or config.brightness or config.noise):
        return images
    num_here, channels, height, width = images.shape
    num = num_here if num is None else num
    if config.brightness:
        change = rng.uniform(-config.brightness, config.brightness, (2, num, 1, 1, 1)).astype(np.float32)[:, part]
        gain, rise = torch.from_numpy(change).to(images.device)
        images = (images * (1 + gain) + rise).clamp(0, 1)
    if config.shift:
        move = rng.integers(-config.shift, config.shift + 1, (2, num, 1))[:, part]
        rows = torch.from_numpy(np.clip(np.arange(height) + move[0], 0, height - 1)).to(images.device)
        columns = torch.from_numpy(np.clip(np.arange(width) + move[1], 0, width - 1)).to(images.device)
        which = torch.arange(num_here, device=images.device)[:, None, None]
        images = images.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    if config.noise:
        drawn = torch.Generator(images.device).manual_seed(int(rng.integers(2**62)))
        images = images + config.noise * torch.randn(num, channels, height, width, generator=drawn, device=images.device)[part]
    return images
