"""An untrained network: what the encoder's shape alone knows. Any learned distance must beat it.

The paper's "Random" row is about what independent random scores give, one per frame and goal (3-5 %). An untrained
network is continuous, so it is a random projection of the pixels and walks better than that.
"""

import numpy as np
import torch

from plan2vec.baselines import Scorer, VectorScorer
from plan2vec.learning.encoders import make_encoder


def random_scorer(frames: np.ndarray, encoder: str, dim: int, seed: int, device: torch.device) -> Scorer:
    torch.manual_seed(seed)
    return VectorScorer(make_encoder(encoder, frames, dim).to(device), device)
