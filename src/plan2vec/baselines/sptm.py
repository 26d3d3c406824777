"""SPTM: the local metric itself as distance to the goal (Savinov et al., 2018; the paper's "SPTM (1-step)").

Nothing is trained. Beyond about two steps a local metric only says "far", so a greedy walker is blind until it is near.
"""

from dataclasses import dataclass

import numpy as np
import torch

from plan2vec.baselines import l2_distance
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.local_metric import LocalMetric, SiameseMetric, local_vectors, pair_distances
from plan2vec.planner import Distance


@dataclass(frozen=True)
class MetricScorer:
    """D = d, in steps. A Siamese metric has vectors; a stacked one scores every pair anew."""

    metric: LocalMetric
    device: torch.device

    def on(self, frames: np.ndarray) -> Distance:
        images = FrameTensors(frames, self.device)
        if isinstance(self.metric, SiameseMetric):
            return l2_distance(torch.from_numpy(local_vectors(self.metric, images)).to(self.device))
        return lambda first, second: pair_distances(self.metric, images, first, second)
