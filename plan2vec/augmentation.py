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


def augment(images: Tensor, config: Augmentation, rng: np.random.Generator) -> Tensor:
    """Small changes that do not move the camera's place: a shift in pixels, brightness and contrast, noise."""
    if images.ndim != 4 or not (config.shift or config.brightness or config.noise):
        return images
    num, _, height, width = images.shape
    if config.brightness:
        change = torch.from_numpy(rng.uniform(-config.brightness, config.brightness, (2, num, 1, 1, 1)).astype(np.float32)).to(
            images.device
        )
        images = (images * (1 + change[0]) + change[1]).clamp(0, 1)
    if config.shift:
        move = rng.integers(-config.shift, config.shift + 1, (2, num, 1))
        rows = torch.from_numpy(np.clip(np.arange(height) + move[0], 0, height - 1)).to(images.device)
        columns = torch.from_numpy(np.clip(np.arange(width) + move[1], 0, width - 1)).to(images.device)
        which = torch.arange(num, device=images.device)[:, None, None]
        images = images.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    if config.noise:
        drawn = torch.Generator(images.device).manual_seed(int(rng.integers(2**62)))
        images = images + config.noise * torch.randn(images.shape, generator=drawn, device=images.device)
    return images
