"""The method in one screen: its stages follow each other, and each can be replaced by what one brings."""

import ast
import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import FEW
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

import plan2vec
from plan2vec.config import settle
from plan2vec.data import Sequences, make_sequences
from plan2vec.embedding.network import build_embedding
from plan2vec.graph.build import graph_of_edges
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.local_metric import build_local_metric
from plan2vec.pipeline import fit, learn
from plan2vec.search.shortest_paths import connected_parts, distances_from

CPU = torch.device("cpu")
NEAR = 1.0  # steps within which the oracle joins two frames


@pytest.fixture(scope="module")
def recordings() -> Sequences:
    """Walks in a square, seen as vectors that are no positions."""
    rng = np.random.default_rng(0)
    place = np.clip(rng.uniform(0, 5, (20, 1, 2)) + rng.normal(0, 0.6, (20, 12, 2)).cumsum(axis=1), 0, 5).reshape(-1, 2)
    place += rng.normal(0, 1e-3, place.shape)  # nobody stands still
    return make_sequences(np.hstack((np.sin(place), np.cos(place))), np.repeat(np.arange(20), 12), position=place)


def oracle(recordings: Sequences) -> csr_array:
    """Frames are joined where their true positions are near, edges as long as the way."""
    first, second = cKDTree(recordings.position).query_pairs(NEAR, output_type="ndarray").T
    length = np.linalg.norm(recordings.position[first] - recordings.position[second], axis=1)
    ends = np.concatenate((first, second)), np.concatenate((second, first))
    return graph_of_edges(*ends, np.concatenate((length, length)), recordings.num_frames)


def same_graph(first: csr_array, second: csr_array) -> bool:
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in ("indptr", "indices", "data"))


def same_network(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    states = [module.state_dict() for module in (first, second)]
    return states[0].keys() == states[1].keys() and all(
        torch.equal(states[0][name], states[1][name]) for name in states[0]
    )


@pytest.fixture(scope="module")
def whole(recordings):
    return fit(recordings, FEW, device="cpu")


def test_the_method_is_at_most_fifteen_lines():
    body = ast.parse(inspect.getsource(learn)).body[0].body
    assert isinstance(body[0].value, ast.Constant)  # the docstring
    assert body[-1].end_lineno - body[1].lineno + 1 <= 15


def test_learn_alone_gives_what_fit_gives(recordings, whole):
    config = settle(FEW, recordings)
    learned = learn(recordings.without_truth(), config, FrameTensors(recordings.frames, CPU))
    assert learned.vectors.tobytes() == whole.vectors.tobytes() and same_graph(learned.graph.graph, whole.graph)


def test_a_given_graph_is_the_models_and_plans_run_on_it(recordings, whole):
    graph = oracle(recordings)
    assert connected_parts(graph)[0] == 1 and not same_graph(graph, whole.graph)
    model = fit(recordings, FEW, device="cpu", graph=graph)
    assert same_graph(model.graph, graph) and model.closure_report == "given"
    starts, goals = np.random.default_rng(1).integers(recordings.num_frames, size=(2, 20))
    exact = distances_from(graph, starts)[np.arange(20), goals]
    for plan, start, length in zip(model.plan_many(starts, goals, "dijkstra"), starts, exact, strict=True):
        assert plan.length == pytest.approx(length, rel=1e-5) and plan.nodes[0] == start
        assert all(graph[a, b] > 0 for a, b in zip(plan.nodes, plan.nodes[1:], strict=False))


def test_a_given_graph_changes_nothing_before_it_and_teaches_the_map(recordings, whole):
    model = fit(recordings, FEW, device="cpu", graph=oracle(recordings))
    assert same_network(model.local_metric, whole.local_metric) and model.local_accuracy == whole.local_accuracy
    assert model.config == whole.config and model.vectors.tobytes() != whole.vectors.tobytes()
    same = fit(recordings, FEW, device="cpu", graph=whole.graph)  # its own graph: nothing changes at all
    assert same.vectors.tobytes() == whole.vectors.tobytes()


def test_positions_do_not_reach_the_map_but_through_the_given_graph(recordings):
    graph, noise = oracle(recordings), np.random.default_rng(2).normal(size=recordings.position.shape)
    honest, blind = (
        fit(given, FEW, device="cpu", graph=graph) for given in (recordings, replace(recordings, position=noise))
    )
    assert honest.vectors.tobytes() == blind.vectors.tobytes()


def test_what_was_given_is_saved_and_loaded(recordings, tmp_path):
    graph, config = oracle(recordings), settle(FEW, recordings)
    torch.manual_seed(5)
    metric = build_local_metric(recordings.frames, config.encoder, config.local_metric)
    embedding = build_embedding(recordings.frames, config)
    model = fit(recordings, FEW, tmp_path / "run", "cpu", local_metric=metric, graph=graph, embedding=embedding)
    loaded = plan2vec.load(tmp_path / "run", "cpu")
    for one in (model, loaded):
        assert same_graph(one.graph, graph) and one.closure_report == "given"
        assert same_network(one.local_metric, metric) and same_network(one.embedding, embedding)
    assert loaded.vectors.tobytes() == model.vectors.tobytes() and loaded.local_accuracy is None
    assert loaded.plan(0, 100, "dijkstra").nodes == model.plan(0, 100, "dijkstra").nodes


def test_a_folder_with_another_graph_refuses_the_given_one_and_continues_with_its_own(recordings, whole, tmp_path):
    out = tmp_path / "run"
    first = fit(recordings, FEW, out, device="cpu", graph=whole.graph)
    other = whole.graph.copy()
    other.data = other.data * 2
    with pytest.raises(ValueError, match="holds another graph than the one that was given"):
        fit(recordings, FEW, out, device="cpu", graph=other)
    again = fit(recordings, FEW, out, device="cpu", graph=whole.graph)
    assert again.vectors.tobytes() == first.vectors.tobytes()


def test_a_given_local_metric_is_the_one_that_joins_frames(recordings, whole):
    given = fit(recordings, replace(FEW, seed=1), device="cpu", local_metric=whole.local_metric)
    other = fit(recordings, replace(FEW, seed=1), device="cpu")
    assert given.local_metric is whole.local_metric and same_graph(given.graph, whole.graph)
    assert not same_graph(other.graph, whole.graph)


def test_a_given_map_is_used_as_it_is(recordings, whole):
    given = fit(recordings, replace(FEW, seed=1), device="cpu", embedding=whole.embedding)
    assert given.embedding is whole.embedding and given.vectors.tobytes() == whole.vectors.tobytes()
    assert not same_graph(given.graph, whole.graph)


@pytest.mark.parametrize("shape", [(10, 10), (240, 239), (241, 241)])
def test_a_graph_of_another_shape_is_refused_in_one_line_and_writes_nothing(recordings, tmp_path, shape):
    with pytest.raises(ValueError, match="^graph must be square with one row per frame") as refused:
        fit(recordings, FEW, tmp_path / "run", "cpu", graph=csr_array(shape, dtype=np.float32))
    text = str(refused.value)
    assert "\n" not in text and "(240, 240)" in text and str(shape) in text and not (tmp_path / "run").exists()
