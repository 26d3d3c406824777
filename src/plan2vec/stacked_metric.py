"""The paper's local metric: a network on both frames stacked (section 3, equations 4 and 5)."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plan2vec.config import LocalMetricConfig
from plan2vec.learning.augmentation import Augmentation, augment, draw_changes
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import Encoder
from plan2vec.learning.frame_tensors import Array, FrameTensors, on_device
from plan2vec.learning.pair_losses import far_distance_loss, nce_loss
from plan2vec.learning.random_streams import rng_at
from plan2vec.learning.recorded_pairs import Pairs, draw_far, draw_neighbors

NUM_NCE_NEGATIVES = 16  # a stacked metric scores every pair anew, so it sees this many negatives a positive


class StackedMetric(nn.Module):
    scale: Tensor
    candidates: Any  # the `SiameseMetric` that finds its candidates

    def __init__(self, network: Encoder, candidates: nn.Module):
        super().__init__()
        self.network, self.candidates = network, candidates
        self.register_buffer("scale", torch.ones(()))

    def embed(self, images: Tensor) -> Tensor:
        return self.candidates.embed(images)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.scale * self.network(torch.cat((first, second), dim=1))[:, 0]


def stacked_step(metric: StackedMetric, images: FrameTensors, pairs: Pairs, config: LocalMetricConfig,
                 stream: tuple[int, int], change: Augmentation) -> Step:
    """Identical : neighbour : far = 1 : 1 : far_weight (paper, equation 5), or the paper's equation 4."""
    num_far = round((NUM_NCE_NEGATIVES if config.loss == "nce" else config.far_weight) * config.batch_size)

    def draw(update: int) -> tuple[Array, ...]:
        rng = rng_at(*stream, update)
        first, gap = draw_neighbors(pairs, config.batch_size, rng)
        far_first, far_second = draw_far(pairs, np.resize(first, num_far), rng)
        a, b = np.concatenate((first, first, far_first)), np.concatenate((first, first + gap, far_second))
        changes = [drawn for _ in (a, b) for drawn in draw_changes(change, images, len(a), rng)]
        return gap.astype(np.float32), a, b, *changes

    def loss(gap: Array, a: Array, b: Array, *changes: Array) -> Tensor:
        sides = ((a, changes[: len(changes) // 2]), (b, changes[len(changes) // 2 :]))
        d = metric(*(augment(images(side), change, drawn) for side, drawn in sides))
        same, near, far = d.split((len(gap), len(gap), num_far))
        if config.loss == "nce":
            negatives = far.reshape(NUM_NCE_NEGATIVES, -1).T
            anchor = same.square().mean() + (1 - near).clamp(min=0).square().mean()  # else d may grow by a constant
            return nce_loss(near, negatives, torch.ones_like(negatives, dtype=torch.bool)) + anchor
        far_loss = far_distance_loss(far, torch.ones_like(far), pairs.max_gap, config.loss)
        near_loss = F.smooth_l1_loss(near, on_device(gap, d.device))
        return F.smooth_l1_loss(same, torch.zeros_like(same)) + near_loss + config.far_weight * far_loss

    return Step(draw, loss, images)
