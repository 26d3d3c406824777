"""plan2vec as a scikit-learn transformer: `Plan2Vec().fit(frames, sequence=labels).transform(frames)`."""

import warnings

import numpy as np

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError:
    raise ImportError("plan2vec.estimator needs scikit-learn: pip install 'plan2vec[sklearn]'") from None
try:
    from sklearn.utils.validation import validate_data
except ImportError:  # before 1.6
    validate_data = BaseEstimator._validate_data

from plan2vec.config import Config, with_settings
from plan2vec.data import make_sequences
from plan2vec.pipeline import fit


class Plan2Vec(TransformerMixin, BaseEstimator):
    """Frames (n, h, w[, c]) uint8 or observations (n, d) -> vectors (n, dim) whose distances are path lengths in steps.

    After `fit`: `model_` (a `plan2vec.Model` with graph and planner), `embedding_` (vectors of the fitted frames).
    What is None is as in `config`, and what is given nowhere is decided from the recordings (`config.settle`)."""

    def __init__(self, dim: int | None = None, head: str | None = None, norm_order: float | None = None,
                 seed: int | None = None, device: str = "auto", config: Config | None = None):
        self.dim, self.head, self.norm_order = dim, head, norm_order
        self.seed, self.device, self.config = seed, device, config

    def fit(self, X: np.ndarray, y: object = None, sequence: np.ndarray | None = None) -> "Plan2Vec":  # noqa: N803
        """Fit graph and map to frames X in the order they were recorded; returns itself.

        `sequence` (n,) labels the recording of each frame, equal labels contiguous; None: one recording, with a
        warning. `y` is not read, as a pipeline may pass one; one that looks like labels of recordings is refused."""
        X = self._checked(X, reset=True)  # noqa: N806
        if sequence is None:
            if _label_recordings(y):
                raise ValueError("y is not read, but looks like labels of recordings; give them as sequence=")
            unread = "" if y is None else "; y is not read"
            warnings.warn(f"no sequence= was given, so all frames count as one recording{unread}", UserWarning, 2)
        given = {name: getattr(self, name) for name in ("dim", "head", "norm_order", "seed")
                 if getattr(self, name) is not None}
        config = with_settings(self.config or Config(), given)
        self.model_ = fit(make_sequences(X, sequence), config, device=self.device)
        self.embedding_ = self.model_.vectors
        self.n_features_in_ = int(np.prod(self.model_.sequences.frame_shape))
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """(n, dim) vectors of frames like those that were fitted."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)  # noqa: N806
        vectors = self.model_.embed(X)
        return vectors.astype(X.dtype) if X.dtype.kind == "f" else vectors

    def _checked(self, X: np.ndarray, reset: bool) -> np.ndarray:  # noqa: N803
        """Observations (n, d) as scikit-learn checks them; images are checked where they become frames."""
        if getattr(X, "ndim", 2) > 2:
            return np.asarray(X)
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=2 if reset else 1)


def _label_recordings(y: object) -> bool:
    """Whether y holds two or more whole numbers or words of which equal ones are contiguous."""
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        return False
    starts = np.count_nonzero(labels[1:] != labels[:-1]) + 1
    return 1 < starts == len(np.unique(labels)) < len(labels)
