"""The scores of the rope's plans on tiny worlds with known answers, and the experiments at smoke size."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from plan2vec.domains import rope
from plan2vec.domains.rope import NUM_LINKS
from plan2vec.experiments import rope_figures, rope_scene
from plan2vec.experiments.reproduce import reproduce
from plan2vec.graph.build import graph_of_edges
from plan2vec.results.experiment import SMOKE, Settings
from plan2vec.results.requests import ReproduceRequest
from plan2vec.results.rows import read_rows, select, values

CPU = torch.device("cpu")


def straight_ropes(*heights: float) -> np.ndarray:
    """(n, 2 * links) level ropes to the right of the left peg, above the right one."""
    x = np.linspace(21, 38, NUM_LINKS)
    return np.stack([np.stack((x, np.full(NUM_LINKS, height)), axis=1).ravel() for height in heights])


def chain(n: int, *more: tuple[int, int]) -> csr_array:
    first, second = np.array([(k, k + 1) for k in range(n - 1)] + list(more)).T
    return graph_of_edges(np.append(first, second), np.append(second, first), np.ones(2 * len(first)), n)


@pytest.fixture
def moves():
    """Six ropes, each 2 px below the one before; two at once are a local move."""
    return rope.TrueMoves(straight_ropes(4, 6, 8, 10, 12, 14), reach=4.5)


@pytest.fixture
def tasks(moves):
    return rope_scene.draw_tasks(moves, 40, CPU, np.random.default_rng(0))


# ---------------------------------------------------------------------------------------------------- tasks and scores


def test_tasks_are_no_local_move_apart_and_know_the_fewest_moves(moves, tasks):
    apart = np.abs(tasks.starts - tasks.goals)
    assert len(apart) > 10 and apart.min() == 3
    assert (tasks.fewest == np.ceil(apart / 2)).all()


def test_a_walk_by_true_distance_is_all_valid(moves, tasks):
    nodes = rope_scene.greedy_plans(chain(6), lambda a, b: np.abs(a - b).astype(float), tasks)
    scores = rope_scene.plan_scores(moves, tasks, nodes)
    assert scores["goal_reached"] == scores["local_step_share"] == scores["valid_plans"] == 1
    apart = np.abs(tasks.starts - tasks.goals)
    assert scores["length_ratio"] == pytest.approx(np.mean(apart / np.ceil(apart / 2)))


def test_a_false_closure_reaches_goals_by_steps_that_are_not_local(moves):
    tasks = rope_scene.Tasks(np.array([0, 5]), np.array([5, 0]), np.array([3.0, 3.0]))
    nodes = rope_scene.greedy_plans(chain(6, (0, 5)), lambda a, b: np.abs(a - b).astype(float), tasks)
    scores = rope_scene.plan_scores(moves, tasks, nodes)
    assert scores["goal_reached"] == 1 and scores["local_step_share"] == scores["valid_plans"] == 0
    assert rope_scene.graph_scores(chain(6, (0, 5)), np.zeros(6, int), moves)["false_edge_share"] == 1


def test_a_plan_ends_where_it_would_enter_a_frame_again(moves):
    tasks = rope_scene.Tasks(np.array([0]), np.array([5]), np.array([3.0]))
    # blind: nothing is better than frame 2
    nodes = rope_scene.greedy_plans(chain(6), lambda a, b: np.abs(a - 2.0), tasks)
    assert nodes[:, 0].tolist() == [0, 1, 2]
    assert rope_scene.plan_scores(moves, tasks, nodes)["goal_reached"] == 0


def test_costs_count_expanded_frames_and_tasks_that_have_a_path():
    tasks = rope_scene.Tasks(np.array([0, 0]), np.array([3, 5]), np.full(2, np.nan))
    sequence = np.array([0, 0, 0, 1, 1, 1])
    graph = csr_array(chain(6))
    nodes = rope_scene.greedy_plans(graph, lambda a, b: np.abs(a - b).astype(float), tasks)
    costs = rope_scene.cost_scores(graph, sequence, tasks, nodes)
    assert costs == {"expanded_per_step": 1.0, "cross_sequence_plans": 1.0}
    parted = graph_of_edges(np.array([0, 1, 4, 5]), np.array([1, 0, 5, 4]), np.ones(4), 6)
    nodes = rope_scene.greedy_plans(parted, lambda a, b: np.abs(a - b).astype(float), tasks)
    assert rope_scene.cost_scores(parted, sequence, tasks, nodes) == {
        "expanded_per_step": None, "cross_sequence_plans": 0.0
    }


def test_the_closest_pairs_are_those_of_a_full_search():
    rng = np.random.default_rng(0)
    vectors, sequence = rng.normal(size=(60, 3)).astype(np.float32), np.repeat([0, 1, 2], 20)
    found = rope_scene.closest_pairs(vectors, 50, sequence, CPU)
    first, second = np.triu_indices(60, 1)
    apart = (sequence[first] != sequence[second]) | (second - first >= 2)
    distance = np.linalg.norm(vectors[first] - vectors[second], axis=1)[apart]
    assert np.sort(found.distance) == pytest.approx(np.sort(distance)[:50], abs=1e-4)
    assert (found.first < found.second).all() and len(found) == 50


# ---------------------------------------------------------------------------------------------------- experiments


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    out = tmp_path_factory.mktemp("rope")
    reproduce(ReproduceRequest("rope-table", smoke=True, out=out, device="cpu", commit="abc"))
    return read_rows(out / "rope-table.jsonl")


def test_all_graphs_of_the_table_have_the_same_number_of_edges(smoke):
    degrees = values(smoke, metric="degree")
    assert len(degrees) == 6 and np.ptp(degrees) < 0.02 * degrees.mean()


def test_search_expands_more_than_walks(smoke):
    expanded = {row["method"]: row["value"] for row in select(smoke, metric="expanded_per_step")}
    assert expanded["Dijkstra"] > 3 * expanded["plan2vec"]
    assert values(smoke, method="Dijkstra", metric="goal_reached")[0] == 1


def test_figures_show_what_is_near_below_the_cut_off():
    scene = rope_scene.RopeScene("rope", 0, Settings(size=SMOKE))
    found = rope_figures.pairs(scene)
    assert found["near_score"] < found["far_score"] and len(found["index"]) == len(found["score"]) == 4
    shown = 61 * found["sequence"] + found["index"]  # numbers of frames: a sequence has 60 drags
    assert found["score"][1] == pytest.approx(rope_figures.pair_scores(scene, shown[0], shown[1]))
    assert all(np.all(np.diff(row[1:]) >= 0) for row in rope_figures.neighbours(scene)["score"])
    arrays = rope_figures.sheet(scene, [[3, 70], [5]], [[np.nan, 1.0], [np.nan]])
    assert arrays["index"].tolist() == [[3, 9], [5, -1]] and arrays["sequence"][0].tolist() == [0, 1]
