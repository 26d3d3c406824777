"""Where frames (uint8 arrays) become tensors (float images): the one border between numpy and torch."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from plan2vec.data import chunks, slices
from plan2vec.learning.processes import concatenated

DEVICES = ("auto", "cpu", "cuda", "mps")
INPUT_BYTES = {"cpu": 2**26, "cuda": 2**32}  # of images that a network takes at once
Array = np.ndarray | Tensor  # numbers that were drawn by the host, and may have been sent to the device already


class FrameTensors:
    """Frames by number, as float tensors on a device: images [b, c, height, width] in 0..1, or vectors [b, d]."""

    def __init__(self, frames: np.ndarray, device: torch.device, keep: bool = True,
                 pictures: "FrameTensors | None" = None):
        self.frames, self.device, self.keep = frames, device, keep
        self.pictures = pictures or self  # what a person sees of them: not these, where they are features

    @cached_property
    def resident(self) -> Tensor | None:
        """All frames on a GPU that has room for them (with `keep`), from the first call on; else None."""
        if not self.keep or self.device.type != "cuda":
            return None
        has_room = self.frames.nbytes < torch.cuda.mem_get_info(self.device)[0] // 2
        return copy_to(self.device, self.frames) if has_room else None

    def __len__(self) -> int:
        return len(self.frames)

    def __call__(self, numbers: Array) -> Tensor:
        if self.resident is not None:
            return as_images(self.resident[on_device(numbers, self.device)])
        on_host = numbers.cpu().numpy() if isinstance(numbers, Tensor) else numbers
        return as_images(torch.from_numpy(self.frames[on_host]).to(self.device))

    @property
    def at_once(self) -> int:
        """Images that a network computes together, so that memory stays bounded however large they are."""
        num_bytes = 4 * int(np.prod(self.frames.shape[1:]))  # of float32
        return max(8, INPUT_BYTES.get(self.device.type, INPUT_BYTES["cpu"]) // num_bytes)

    def at_once_in_training(self, network: nn.Module) -> int | None:
        """As `at_once`; None, all of them, for a network that normalizes over its batch."""
        normalizes = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in network.modules())
        return None if normalizes else self.at_once

    def batches(self, size: int = 1024) -> list[np.ndarray]:
        """The numbers of all frames in order, at most `size` at a time."""
        return [np.arange(part.start, part.stop) for part in slices(len(self), min(size, self.at_once))]


def on_device(numbers: Array, device: torch.device) -> Tensor:
    return torch.as_tensor(numbers).to(device)


def copy_to(device: torch.device, frames: np.ndarray) -> Tensor:
    """All frames on the device, copied a part at a time: main memory never holds a second copy of them."""
    copied = torch.empty(frames.shape, dtype=torch.from_numpy(np.array(frames[:1])).dtype, device=device)
    for part in chunks(frames, len(frames)):
        copied[part] = torch.from_numpy(np.array(frames[part])).to(device)
    return copied


def as_images(frames: Tensor) -> Tensor:
    """uint8 [b, h, w, c] to float [b, c, h, w] in 0..1; vectors [b, d] stay as they are."""
    return frames.permute(0, 3, 1, 2) / 255 if frames.dtype == torch.uint8 else frames.float()


@torch.no_grad()
def encode(encoder: nn.Module, frames: FrameTensors, change: Callable[[Tensor], Tensor] = nn.Identity()) -> np.ndarray:
    """(n, dim) float32 vectors of all frames, changed before if asked, in evaluation mode."""
    encoder.eval()
    return concatenated(frames.batches(), lambda numbers: encoder(change(frames(numbers))).float().cpu().numpy())


def choose_device(name: str) -> torch.device:
    """`auto` takes a GPU where there is one; of several the current one, where kernels and captured updates run."""
    if name not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, but is {name!r}; "
                         "choose among GPUs by CUDA_VISIBLE_DEVICES")
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, is_there in there.items() if is_there))
    if not there[name]:
        raise ValueError(f"device {name} was asked for but this machine has none; use --device auto")
    return torch.device(name)
