"""Networks that turn images into vectors, by name; both stages that learn take theirs from here."""

import importlib
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plan2vec.learning.frame_tensors import as_images
from plan2vec.learning.frozen import FROZEN, NUM_FEATURES, Trunk, trunk

ENCODERS = ("small", "medium", "views", "maze-global", "resnet18", "mlp")  # for vectors all are MLPs
VIEWS = "views"  # of a moving camera
VIEW_PIXELS = 64 * 64  # of a picture that it looks at: all five mazes are learned from no more
SAMPLE_BYTES = 2**28  # of images that mean and deviation are taken from
RESOLUTION = 1e-6  # of float32: a coordinate that varies by less, over its size, is constant


class Encoder(nn.Module):
    """A network behind a standardization that belongs to the data: images or vectors -> [b, dim]."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, network: nn.Module, mean: Tensor, deviation: Tensor, narrow: bool = True):
        super().__init__()
        self.network, self.narrow = network, narrow  # narrow: computes in bfloat16 while it learns on a GPU
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)

    def forward(self, images: Tensor) -> Tensor:
        images = (images - self.mean) / self.deviation
        is_narrow = images.is_cuda and self.training and self.narrow
        with torch.autocast("cuda", torch.bfloat16, enabled=is_narrow, cache_enabled=False):
            return self.network(images).float()


class OnFeatures(Encoder):
    """A network on the features of a frozen one. Images are turned into features first; what is [b, d] are features."""

    def __init__(self, frozen: Trunk, network: nn.Module, mean: Tensor, deviation: Tensor):
        super().__init__(network, mean, deviation)
        self.frozen = frozen

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(self.frozen(images) if images.ndim == 4 else images)


def make_encoder(name: str, frames: np.ndarray, dim: int) -> Encoder:
    """The encoder called `name` for such frames; `module:factory` calls a user's factory(frame_shape, dim)."""
    if name == FROZEN:  # frames are features, or pictures whose features have a standardization that is known elsewhere
        known = standardization(frames) if frames.ndim == 2 else (torch.zeros(NUM_FEATURES), torch.ones(NUM_FEATURES))
        return OnFeatures(trunk(), mlp(NUM_FEATURES, dim), *known)
    network = make_network(name, tuple(frames.shape[1:]), dim)  # in bfloat16 cuDNN is slow at kernels 7 pixels wide
    return Encoder(network, *standardization(frames), narrow=name != "maze-global")


def standardization(frames: np.ndarray) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation per channel [c, 1, 1] (images) or coordinate [d] (vectors), of up to 4,000 frames."""
    most = max(20, SAMPLE_BYTES // (4 * int(np.prod(frames.shape[1:]))))
    sample = as_images(torch.from_numpy(np.array(frames[:: max(1, len(frames) // 2000, -(-len(frames) // most))])))
    axes = (0, 2, 3) if sample.ndim == 4 else (0,)
    mean = sample.mean(dim=axes, keepdim=True)[0]
    deviation = sample.std(dim=axes, keepdim=True, correction=0)[0]
    is_constant = deviation <= RESOLUTION * sample.abs().amax(dim=axes, keepdim=True)[0]  # to the last digits
    return mean, torch.where(is_constant, torch.ones_like(deviation), deviation)


def make_network(name: str, frame_shape: tuple[int, ...], dim: int) -> nn.Module:
    if ":" in name:
        return make_users_network(name, frame_shape, dim)
    if name not in ENCODERS:
        known = ", ".join((*ENCODERS, FROZEN))
        raise ValueError(f"encoder must be one of {known} or module:factory, but is {name!r}")
    if len(frame_shape) == 1:
        return mlp(frame_shape[0], dim)
    height, width, channels = frame_shape
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), mlp(height * width * channels, dim))
    if name == "resnet18":  # He et al., 2016: the paper's trunk for rope and streets
        layers = _residual_layers(channels, 64, 7, 2, nn.BatchNorm2d)
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, dim))
    if name == VIEWS:
        return view_network(frame_shape, dim)
    if name == "maze-global":
        layers = [*_convolutions(channels, 7, MAZE_GLOBAL), nn.Conv2d(256, 256, 2), nn.ReLU(), nn.Flatten()]
        return _with_linear_end(nn.Sequential(*layers), frame_shape, (dim,), name)
    trunk, wide = (small_trunk, 128) if name == "small" else (medium_trunk, 256)
    return _with_linear_end(trunk(channels, height, width), frame_shape, (wide, dim), name)


def make_users_network(name: str, frame_shape: tuple[int, ...], dim: int) -> nn.Module:
    """The network of a user's module:factory, checked to fit. Call it only with a name that the user gave just now."""
    module, _, factory = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), factory)):
        raise ValueError(f"encoder {name!r} must be module:factory, two names of Python's, such as networks:make")
    folder = str(Path.cwd())
    sys.path.append(folder)  # it comes last, so no file there hides an installed package
    try:
        network = getattr(importlib.import_module(module), factory)(frame_shape, dim)
    except (ImportError, AttributeError, SyntaxError, ValueError, TypeError) as error:
        raise ValueError(f"encoder {name!r} cannot be imported or is not callable as {factory}(frame_shape, dim) "
                         f"({error}); expected module:factory, the module installed or in the working directory"
                         ) from None
    finally:
        if folder in sys.path:  # the last of equals is ours
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]
    if not isinstance(network, nn.Module):
        raise ValueError(f"encoder {name!r} must return an nn.Module, but returns {type(network).__name__}")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ValueError(f"encoder {name!r} has no parameter that can be trained; put a layer behind what is frozen")
    _try_network(network, name, frame_shape, dim)
    return network


def _try_network(network: nn.Module, name: str, frame_shape: tuple[int, ...], dim: int) -> None:
    """Refuses a network that does not turn two frames into two vectors."""
    was_training = network.training
    frames = torch.zeros(2, *((frame_shape[2], *frame_shape[:2]) if len(frame_shape) == 3 else frame_shape))
    try:
        with torch.no_grad():
            vectors = network.eval()(frames)
    except (RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"encoder {name!r} cannot take frames of shape {list(frames.shape)} ({reason})") from None
    network.train(was_training)
    came = list(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
    if came != [2, dim]:
        raise ValueError(f"encoder {name!r} must turn frames {list(frames.shape)} into vectors [2, {dim}], "
                         f"but gives {came}")


def mlp(num_inputs: int, dim: int, width: int = 256, num_hidden: int = 2) -> nn.Module:
    return _linear_layers(num_inputs, (*(width,) * num_hidden, dim))


def _linear_layers(num_inputs: int, sizes: tuple[int, ...], *first: nn.Module) -> nn.Sequential:
    """Linear layers of these output sizes with ReLU between, behind the `first` modules."""
    layers: list[nn.Module] = []
    for wide, size in pairwise((num_inputs, *sizes)):
        layers += [nn.Linear(wide, size), nn.ReLU()]
    return nn.Sequential(*first, *layers[:-1])


def small_trunk(channels: int, height: int, width: int) -> nn.Module:
    """Default: a strided first layer keeps it cheap; halved until the longer side is 4 pixels or the shorter 1."""
    layers: list[nn.Module] = [nn.Conv2d(channels, 16, 8, stride=4, padding=3), nn.ReLU()]
    wide, long, short = 16, max(height, width) // 4, min(height, width) // 4
    while long > 4 and short > 1:
        layers += [nn.Conv2d(wide, min(64, 2 * wide), 4, stride=2, padding=1), nn.ReLU()]
        wide, long, short = min(64, 2 * wide), long // 2, short // 2
    return nn.Sequential(*layers, nn.Flatten())


class _GroupNorm(nn.GroupNorm):
    """Torch's, but it stays in the precision of its input: autocast would widen it to float32 and narrow it again."""

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast("cuda", enabled=False):  # nothing else is ever cast
            weight, bias = self.weight.to(input.dtype), self.bias.to(input.dtype)
            return F.group_norm(input, self.num_groups, weight, bias, self.eps)


def medium_trunk(channels: int, height: int, width: int) -> nn.Module:
    """Ten times the work of `small`, and normalized: for thousands of different views."""
    layers: list[nn.Module] = []
    wide, out, short = channels, 32, min(height, width)
    for kernel in (5, 3, 3, 3):
        stride = 2 if short > 1 else 1
        layers += [nn.Conv2d(wide, out, kernel, stride, kernel // 2), _GroupNorm(8, out), nn.ReLU()]
        wide, out, short = out, min(128, 2 * out), short // stride
    while max(height, width) // 16 > 4:  # larger frames are halved until at most 4 pixels of the longer side are left
        layers += [nn.Conv2d(wide, wide, 3, 2, 1), _GroupNorm(8, wide), nn.ReLU()]
        height, width = height // 2, width // 2
    return nn.Sequential(*layers, nn.Flatten())


def _convolutions(channels: int, kernel: int, sizes: Sequence[tuple[int, int]]) -> list[nn.Module]:
    """Convolutions of (output channels, stride), each with batch normalization and ReLU: the paper's networks."""
    layers: list[nn.Module] = []
    for out, stride in sizes:
        layers += [nn.Conv2d(channels, out, kernel, stride), nn.BatchNorm2d(out), nn.ReLU()]
        channels = out
    return layers


MAZE_GLOBAL = ((128, 1), (256, 1), (256, 2), (256, 2), (256, 2))  # the paper's `GlobalMetricConvL2` (Maze), for 64 x 64
# the paper's `LocalMetricConvLarge` (Maze) and `LocalMetric` (Rope and StreetLearn)
STACKED = {"stacked": ((32, 2), (64, 2), (64, 2), (32, 2)),
           "stacked-deep": ((128, 2), (128, 2), (128, 1), (128, 1), (128, 1), (128, 1))}


def make_stacked(name: str, frame_shape: tuple[int, ...]) -> nn.Module:
    """The paper's local-metric networks: two frames stacked along the channels [b, 2c, h, w] -> one number [b, 1]."""
    if name not in STACKED:
        raise ValueError(f"a stacked local metric is {' or '.join(STACKED)}, but got {name!r}")
    if len(frame_shape) != 3:
        raise ValueError(f"a stacked local metric needs images, but frames have shape {frame_shape}; "
                         "use the siamese architecture")
    height, width, channels = frame_shape
    trunk = nn.Sequential(*_convolutions(2 * channels, 4, STACKED[name]), nn.Flatten())
    return _with_linear_end(trunk, (height, width, 2 * channels), (128, 100, 1), name)


def _with_linear_end(trunk: nn.Module, frame_shape: tuple[int, ...], sizes: tuple[int, ...], name: str) -> nn.Module:
    """The trunk and linear layers of the given sizes with ReLU between; trying the trunk tells its output size."""
    height, width, channels = frame_shape
    try:
        with torch.no_grad():
            num_inputs = trunk.eval()(torch.zeros(1, channels, height, width)).shape[1]
    except RuntimeError:
        raise ValueError(f"the network {name!r} is too deep for frames of {height} x {width}; "
                         "use larger frames or --encoder mlp, which takes any size") from None
    return _linear_layers(num_inputs, sizes, trunk).train()


class _Residual(nn.Module):
    """ResNet's basic block: two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, channels: int, out: int, stride: int, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, out, 3, stride, 1, bias=False), norm(out), nn.ReLU(),
                                  nn.Conv2d(out, out, 3, 1, 1, bias=False), norm(out))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), norm(out))

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.body(images) + self.shortcut(images))


def _residual_layers(channels: int, wide: int, kernel: int, num_blocks: int, norm: Callable[[int], nn.Module]
                     ) -> list[nn.Module]:
    """A strided convolution; four stages of residual blocks, each next one twice as wide and half as large."""
    first = nn.Conv2d(channels, wide, kernel, 2, kernel // 2, bias=False)
    layers: list[nn.Module] = [first, norm(wide), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for before, out, stride in ((wide, wide, 1), *((wide * 2**stage // 2, wide * 2**stage, 2) for stage in (1, 2, 3))):
        layers += [_Residual(before, out, stride, norm), *(_Residual(out, out, 1, norm) for _ in range(num_blocks - 1))]
    return layers


def view_network(frame_shape: tuple[int, ...], dim: int, wide: int = 16) -> nn.Module:
    """For a moving camera: a residual network that is pooled to 2 x 3 cells, not to one: where in the picture something
    stands tells where the camera is. Group normalization, because a batch holds few places. Slim enough for a CPU: a
    ResNet-18, four times as wide, found no more on a GPU (docs/method.md)."""
    height, width, channels = frame_shape
    layers = _residual_layers(channels, wide, 5, 1, lambda out: _GroupNorm(8, out))
    if (scale := (VIEW_PIXELS / (height * width)) ** 0.5) < 1:
        layers.insert(0, nn.AdaptiveAvgPool2d((max(1, round(scale * height)), max(1, round(scale * width)))))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d((2, 3)), nn.Flatten(), nn.Linear(48 * wide, dim))
