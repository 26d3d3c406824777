"""Relaxation on a device equals Dijkstra; run on the CPU here, where the operations are the same."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array

from plan2vec import device_search
from plan2vec.device_search import distances_from_on, relaxed_distances
from plan2vec.search import distances_from

CPU = torch.device("cpu")


@pytest.mark.parametrize("seed", range(20))
def test_relaxed_distances_equal_dijkstras_also_one_way_and_unreachable(seed, monkeypatch):
    monkeypatch.setattr(device_search, "NUMBERS_AT_ONCE", 100)  # several blocks of rows
    rng = np.random.default_rng(seed)
    graph = csr_array(random_array((60, 60), density=0.03, rng=rng, format="csr", dtype=np.float32))
    graph.data[rng.random(graph.nnz) < 0.1] = 0  # edges of length zero
    sources = rng.choice(60, 7, replace=False)
    exact = distances_from(graph, sources)
    assert np.isinf(exact).any() and (exact[np.isfinite(exact)] > 0).any()
    np.testing.assert_allclose(relaxed_distances(graph, sources, CPU), exact, rtol=1e-5)


def test_on_a_cpu_the_exact_search_is_used():
    graph = csr_array(np.array([[0, 1, 10], [1, 0, 1], [10, 1, 0.0]]))
    np.testing.assert_array_equal(distances_from_on(CPU, graph, np.array([0])), [[0, 1, 2]])
