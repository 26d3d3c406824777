"""The scikit-learn face."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.domains.maze import simulate
from plan2vec.estimator import Plan2Vec

QUICK = Config(
    local_metric=LocalMetricConfig(num_updates=30, batch_size=32),
    embedding=EmbeddingConfig(num_updates=20, goals_per_update=16)
)
TINY = Config(
    encoder="mlp", view="fixed", local_metric=LocalMetricConfig(num_updates=2, batch_size=4, dim=4),
    embedding=EmbeddingConfig(num_updates=2, goals_per_update=4, nodes_per_update=8, goals_per_round=8)
)
EXPECTED_FAILURES = {
    "check_positive_only_tag_during_fit": "its y, species of iris in order, looks like labels of recordings: refused",
}


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
    vectors = Plan2Vec(dim=2, device="cpu", config=QUICK).fit_transform(rooms.position, sequence=rooms.sequence)
    assert vectors.shape == (200, 2) and np.isfinite(vectors).all()


@pytest.mark.filterwarnings("ignore")  # the checks give no sequence, and some warn themselves
@pytest.mark.skipif("expected_failed_checks" not in inspect.signature(check_estimator).parameters, reason="1.6")
def test_scikit_learn_s_own_checks_pass_but_for_one():
    estimator = Plan2Vec(dim=2, device="cpu", config=TINY)
    checks = check_estimator(estimator, expected_failed_checks=EXPECTED_FAILURES, on_fail="raise", on_skip=None)
    failed = {check["check_name"] for check in checks if check["status"] == "xfail"}
    assert failed == set(EXPECTED_FAILURES) and sum(check["status"] == "passed" for check in checks) > 40


def test_labels_of_recordings_given_as_y_are_refused_and_missing_ones_are_noted():
    rooms = simulate("open", 5)
    estimator = Plan2Vec(dim=2, device="cpu", config=TINY)
    with pytest.raises(ValueError, match="give them as sequence="):
        estimator.fit(rooms.position, rooms.sequence)
    with pytest.raises(ValueError, match="give them as sequence="):
        estimator.fit(rooms.position, [f"room {label}" for label in rooms.sequence])
    with pytest.warns(UserWarning, match="one recording$"):
        estimator.fit(rooms.position)
    with pytest.warns(UserWarning, match="one recording; y is not read"):
        estimator.fit(rooms.position, rooms.position[:, 0])
    estimator.fit(rooms.position, rooms.sequence, sequence=rooms.sequence)  # as a pipeline passes it: no warning


def test_without_scikit_learn_one_line_names_the_extra():
    program = "import sys; sys.modules['sklearn'] = None; import plan2vec.estimator"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    last = ended.stderr.splitlines()[-1]
    assert ended.returncode == 1 and last.startswith("ImportError") and "pip install 'plan2vec[sklearn]'" in last
