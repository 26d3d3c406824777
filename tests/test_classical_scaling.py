"""Classical scaling: exact where the lengths are distances in a plane or along a path, parts apart, fewer landmarks
than nodes.
"""

import numpy as np
import pytest

from plan2vec.embedding.classical_scaling import landmark_vectors


def apart(vectors):
    return np.linalg.norm(vectors[:, None] - vectors, axis=-1)


def test_distances_of_a_plane_come_back_exactly_from_ten_landmarks():
    points = np.random.default_rng(0).normal(size=(200, 2))
    landmarks = np.arange(0, 200, 20)
    vectors = landmark_vectors(apart(points)[landmarks], landmarks, 2)
    assert apart(vectors) == pytest.approx(apart(points), abs=1e-5)


def test_lengths_along_a_path_come_back_as_squared_distances():
    lengths = np.abs(np.arange(6.0)[:, None] - np.arange(6.0))
    assert apart(landmark_vectors(lengths, np.arange(6), 5, degree=2)) ** 2 == pytest.approx(lengths, abs=1e-5)


def test_coordinates_beyond_those_that_the_lengths_have_are_zero():
    vectors = landmark_vectors(np.abs(np.arange(6.0)[:, None] - np.arange(6.0)), np.arange(6), 4)
    assert np.ptp(vectors[:, 0]) == pytest.approx(5) and np.array_equal(vectors[:, 1:], np.zeros((6, 3)))


def test_nodes_without_a_path_to_the_first_landmark_have_no_vector():
    lengths = np.full((8, 8), np.inf)
    for part in (slice(0, 5), slice(5, 8)):
        lengths[part, part] = np.abs(np.arange(8.0)[part, None] - np.arange(8.0)[part])
    vectors = landmark_vectors(lengths[[2, 6, 4]], np.array([2, 6, 4]), 2)
    assert np.isfinite(vectors[:5]).all() and np.isnan(vectors[5:]).all()
    assert apart(vectors[:5])[0] == pytest.approx(np.arange(5.0), abs=1e-5)
