"""Batch normalization over the batches of all processes, so that N of them train the paper's networks as one does.

Torch's own version (SyncBatchNorm) works on GPUs only.
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from plan2vec.learning import processes


class SharedBatchNorm(_BatchNorm):
    """[b, channels, ...] -> the same shape; in training mean and variance are those of all processes' shares."""

    def __init__(self, layer: _BatchNorm):
        super().__init__(layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
        self.weight, self.bias = layer.weight, layer.bias
        self.running_mean, self.running_var = layer.running_mean, layer.running_var
        self.num_batches_tracked = layer.num_batches_tracked
        self.train(layer.training)

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of axes will do."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or processes.size() == 1:
            return super().forward(input)
        images, axes = input.float(), (0, *range(2, input.ndim))
        shape = (1, -1, *(1,) * (input.ndim - 2))
        num = processes.total(torch.tensor(images.numel() / images.shape[1], device=input.device))
        mean = processes.total(images.sum(axes)) / num
        centred = images - mean.view(shape)
        variance = processes.total(centred.square().sum(axes)) / num
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)  # the running statistics are what evaluation uses
            share = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
            self.running_mean.lerp_(mean.detach(), share)
            self.running_var.lerp_(variance.detach() * num / (num - 1), share)
        normal = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            normal = normal * self.weight.view(shape) + self.bias.view(shape)
        return normal.to(input.dtype)


def share_statistics(module: nn.Module) -> None:
    """Replaces the batch normalization layers inside a module, keeping their parameters; alone it does nothing."""
    if processes.size() == 1:
        return
    for name, layer in module.named_children():
        if isinstance(layer, _BatchNorm) and not isinstance(layer, SharedBatchNorm):
            setattr(module, name, SharedBatchNorm(layer))
        else:
            share_statistics(layer)
