"""The scikit-learn face."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.domains.maze import simulate
from plan2vec.estimator import Plan2Vec

QUICK = Config(
    local_metric=LocalMetricConfig(num_updates=30, batch_size=32),
    embedding=EmbeddingConfig(num_updates=20, goals_per_update=16)
)


def test_it_clones_and_reports_its_parameters():
    estimator = Plan2Vec(dim=3, norm_order=1.5, config=QUICK)
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.get_params()["dim"] == 3
    assert estimator.set_params(dim=2).dim == 2


def test_transform_gives_the_vectors_of_the_fitted_model():
    rooms = simulate("open", 20)
    estimator = Plan2Vec(dim=3, device="cpu", config=QUICK)
    with pytest.raises(NotFittedError):
        estimator.transform(rooms.frames)
    vectors = estimator.fit(rooms.frames, sequence=rooms.sequence).transform(rooms.frames)
    assert vectors.shape == (200, 3)
    np.testing.assert_allclose(vectors, estimator.embedding_, atol=1e-4)


def test_vector_observations_work_as_features():
    rooms = simulate("open", 20)
    vectors = Plan2Vec(dim=2, device="cpu", config=QUICK).fit_transform(rooms.position)
    assert vectors.shape == (200, 2) and np.isfinite(vectors).all()
