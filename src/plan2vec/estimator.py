"""plan2vec as a scikit-learn transformer: `Plan2Vec().fit(frames, sequence=labels).transform(frames)`.

Needs scikit-learn: pip install "plan2vec[sklearn]".
"""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from plan2vec.config import Config, with_settings
from plan2vec.data import make_sequences
from plan2vec.pipeline import fit


class Plan2Vec(TransformerMixin, BaseEstimator):
    """Frames (n, h, w[, c]) uint8 or observations (n, d) -> vectors (n, dim) whose distances are shortest-path lengths
    in steps.

    After `fit`: `model_` (a `plan2vec.Model` with graph and planner), `embedding_` (vectors of the fitted frames).
    A parameter that is None is as in `config`, and what is given nowhere is decided from the recordings
    (`config.settle`).
    """

    def __init__(
        self,
        dim: int | None = None,
        head: str | None = None,
        norm_order: float | None = None,
        seed: int | None = None,
        device: str = "auto",
        config: Config | None = None,
    ):
        self.dim = dim
        self.head = head
        self.norm_order = norm_order
        self.seed = seed
        self.device = device
        self.config = config

    def fit(self, X: np.ndarray, y: object = None, sequence: np.ndarray | None = None) -> "Plan2Vec":  # noqa: N803
        """`sequence` (n,) labels the recording of each frame, equal labels contiguous; None: one recording."""
        given = {
            name: getattr(self, name) for name in ("dim", "head", "norm_order", "seed")
            if getattr(self, name) is not None
        }
        self.model_ = fit(
            make_sequences(X, sequence), with_settings(self.config or Config(), given), device=self.device
        )
        self.embedding_ = self.model_.vectors
        self.n_features_in_ = int(np.prod(self.model_.sequences.frame_shape))
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        check_is_fitted(self)
        return self.model_.embed(np.asarray(X))
