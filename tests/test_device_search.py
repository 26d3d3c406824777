"""Relaxation on a device equals Dijkstra: by the kernels on a GPU, or in Triton's interpreter."""

import importlib.util
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array

from plan2vec.search import gpu_search as device_search
from plan2vec.search.gpu_search import DeviceGraph, can_compile, distances_from_on, near_together
from plan2vec.search.shortest_paths import distances_from

CPU = torch.device("cpu")
INTERPRETED = """
import sys, numpy as np, torch
from scipy.sparse import csr_array
from plan2vec.search.gpu_kernel import Tuning, tile_distances
from plan2vec.search.gpu_search import DeviceGraph
given = np.load(sys.argv[1])
graph = DeviceGraph(csr_array((given["data"], given["indices"], given["indptr"])), torch.device("cpu"))
few = Tuning(tile=2, edges_at_once=2, sweeps_at_once=3, reach=float("inf"))
tunings, sources = (Tuning(sweeps_at_once=4), few, Tuning(tile=4, reach=0.0)), torch.from_numpy(given["sources"])
np.save(sys.argv[2], np.stack([tile_distances(graph, sources, tuning).numpy() for tuning in tunings]))
"""


def one_way_graph(seed: int, num: int = 60, density: float = 0.03) -> csr_array:
    """Nodes of which some have no edge, and some edges of length zero."""
    rng = np.random.default_rng(seed)
    graph = csr_array(random_array((num, num), density=density, rng=rng, format="csr", dtype=np.float32))
    graph.data[rng.random(graph.nnz) < 0.1] = 0
    return graph


def test_on_a_cpu_the_exact_search_is_used():
    graph = csr_array(np.array([[0, 1, 10], [1, 0, 1], [10, 1, 0.0]]))
    np.testing.assert_array_equal(distances_from_on(CPU, graph, np.array([0])), [[0, 1, 2]])


@pytest.mark.parametrize("seed", range(3))
def test_without_kernels_a_device_search_is_dijkstras(seed):
    graph, sources = one_way_graph(seed), np.random.default_rng(seed).choice(60, 7, replace=False)
    exact = distances_from(graph, sources)
    assert np.isinf(exact).any() and (exact[np.isfinite(exact)] > 0).any()
    np.testing.assert_array_equal(DeviceGraph(graph, CPU).distances_from(sources).numpy(), exact)


def test_a_graph_on_the_device_is_the_same_graph():
    graph = one_way_graph(0)
    indptr, indices, weights = (array.numpy() for array in DeviceGraph(graph, CPU).arrays)
    assert (csr_array((weights, indices, indptr), shape=graph.shape) != graph).nnz == 0


def test_each_tile_of_sources_lies_in_a_corner_of_its_own():
    place = np.random.default_rng(0).uniform(0, 1, (30, 2)) + np.repeat(
        [[0, 0], [0, 9], [9, 0], [9, 9]], (8, 8, 8, 6), axis=0
    )
    shuffled = np.random.default_rng(1).permutation(30)
    order = near_together(place, shuffled, 8)
    assert sorted(order) == list(range(30))
    assert sorted(
        sorted(order[first : first + 8] // 8) for first in (0, 8, 16, 24)
    ) == [[0] * 8, [1] * 8, [2] * 8, [3] * 6]


@pytest.mark.parametrize("missing", ["nothing", "Triton", "a C compiler", "Python.h"])
def test_kernels_are_compiled_only_where_everything_that_it_takes_is_there_and_what_is_missing_is_said(
    monkeypatch, tmp_path, missing
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if missing == "Triton" else name)
    monkeypatch.setattr("shutil.which", lambda name: None if missing == "a C compiler" else f"/usr/bin/{name}")
    monkeypatch.setattr("sysconfig.get_path", lambda name, scheme: str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    if missing != "Python.h":
        (tmp_path / "Python.h").touch()
    with pytest.warns(UserWarning, match=f"need {missing};") if missing != "nothing" else nullcontext():
        assert can_compile.__wrapped__() == (missing == "nothing")


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_kernels_find_dijkstras_distances_with_any_tuning_in_the_interpreter(tmp_path):
    graph, sources = one_way_graph(0, 24, 0.08), np.array([3, 20, 0, 11, 7])
    np.savez(tmp_path / "given.npz", data=graph.data, indices=graph.indices, indptr=graph.indptr, sources=sources)
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-W", "ignore", "-c", INTERPRETED, tmp_path / "given.npz", tmp_path / "found.npy"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(__file__).parent.parent)
    assert done.returncode == 0, done.stderr
    exact = distances_from(graph, sources)
    assert np.isinf(exact).any() and (np.isfinite(exact).sum(axis=1) > 5).any()
    for found in np.load(tmp_path / "found.npy"):
        np.testing.assert_allclose(found, exact, rtol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available() or not can_compile(), reason="needs a GPU and Triton")
def test_on_a_gpu_the_kernels_find_dijkstras_distances(monkeypatch):
    monkeypatch.setattr(device_search, "DISTANCES_AT_ONCE", 2000 * 40)  # several lots of sources
    rng = np.random.default_rng(0)
    for graph in (one_way_graph(1, 2000, 0.02), one_way_graph(0)):
        sources = rng.choice(graph.shape[0], 51, replace=False)
        found = DeviceGraph(graph, torch.device("cuda")).distances_from(sources)
        np.testing.assert_allclose(found.cpu().numpy(), distances_from(graph, sources), rtol=1e-5)
