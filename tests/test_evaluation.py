"""The scorecard of worlds whose numbers are known; positions reach nothing before it; the same seed gives the same
bytes.
"""

import dataclasses
import json

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import spearmanr

from plan2vec import Config, SuccessRule, evaluate, fit, make_sequences
from plan2vec.config import EmbeddingConfig, LocalMetricConfig
from plan2vec.data import split_sequences
from plan2vec.evaluation import (
    allowed_hops,
    dijkstra_cost,
    draw_episodes,
    rank_agreement,
    scorecard,
)
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import NearPairs
from plan2vec.learning.random_streams import rng_at
from plan2vec.search.balls import is_neighbor
from plan2vec.search.shortest_paths import best_first, distances_from, paths_from
from plan2vec.validity import Truth, counted_closures, straight_line, true_steps

WIDTH, HEIGHT = 12, 10
PLACES = np.array([(x, y) for y in range(HEIGHT) for x in range(WIDTH)], float)  # each row of a grid was walked once
ROWS = np.repeat(np.arange(HEIGHT), WIDTH)
UP = [(frame, frame + WIDTH) for frame in range(WIDTH * (HEIGHT - 1))]  # closures: one step from row to row


def world(extra=()):
    """The grid's graph, with more closures (first, second) of length 1."""
    first, second = np.array(sorted([*UP, *extra])).T
    closures = NearPairs(first, second, np.ones(len(first), np.float32))
    return build_graph(ROWS, closures, None, False, np.ones(len(ROWS), bool))


def oracle(graph):
    table = distances_from(graph, np.arange(graph.shape[0]))
    return lambda first, second: table[first, second]


def manhattan(first, second):
    return np.abs(first - second).sum(axis=-1)


def noise(seed=0):
    table = np.random.default_rng(seed).uniform(1, 20, (len(ROWS),) * 2)
    return lambda first, second: table[first, second]


TRUTH = Truth(PLACES, manhattan)


# ---------------------------------------------------------------------------------------------------- a known world


def test_an_oracle_gets_full_marks():
    graph = world()
    card = scorecard(graph, ROWS, oracle(graph), 0, TRUTH, SuccessRule(episodes=500))
    assert card["num_frames"] == 120 and card["num_edges"] == 10 * 11 + 9 * 12
    assert card["num_components"] == 1 and card["largest_component_share"] == 1
    assert card[
        "embedding_error"
    ] == 0 and card["spearman_graph"] == pytest.approx(1) and card["spearman_true"] == pytest.approx(1)
    assert card["success_graph"] == 1 and card["path_ratio"] == 1 and card["success"] == 1
    assert card["expanded_per_step"]["greedy"] == card["expanded_per_step"]["astar"] == 1
    assert card["touched_per_step"]["greedy"] < 4 < card["touched_per_step"]["dijkstra"]
    assert card["loop_closures"] == len(UP) == 108 and card["false_edge_share"] == 0
    # three median, and three of the longest, recorded steps
    assert card["success_radius"] == 3 and card["false_beyond"] == 3


def test_a_random_distance_scores_low():
    card = scorecard(world(), ROWS, noise(), 0, TRUTH, SuccessRule(episodes=500, radius=0.5))
    assert card["success_graph"] < 0.4 and card["success"] < 0.2
    assert abs(card["spearman_graph"]) < 0.1 and abs(card["spearman_true"]) < 0.1 and card["embedding_error"] > 0.5
    assert card["expanded_per_step"]["astar"] > 1


def test_an_error_of_the_map_is_measured_relative_to_the_path():
    graph = world()
    card = scorecard(
        graph, ROWS, lambda first, second: 1.25 * oracle(graph)(first, second), 0, rule=SuccessRule(episodes=50)
    )
    assert card[
        "embedding_error"
    ] == pytest.approx(0.25) and card["spearman_graph"] == pytest.approx(1) and card["success_graph"] == 1


def test_without_truth_there_are_no_numbers_about_truth():
    graph = world()
    card = scorecard(graph, ROWS, oracle(graph), 0, None, SuccessRule(episodes=50))
    assert not {"success", "spearman_true", "false_edge_share"} & set(card) and card["loop_closures"] == 108


def test_two_parts_are_counted_and_tasks_between_them_are_no_failures_on_the_graph():
    keep = [pair for pair in UP if pair[0] // WIDTH != 3]  # rows 0-3 and 4-9 never meet
    first, second = np.array(keep).T
    graph = build_graph(
        ROWS, NearPairs(first, second, np.ones(len(first), np.float32)), None, False, np.ones(120, bool)
    )
    card = scorecard(graph, ROWS, oracle(graph), 0, TRUTH, SuccessRule(episodes=1000, radius=0.5))
    assert card["num_components"] == 2 and card["largest_component_share"] == 0.6
    assert card["success_graph"] == 1 and card["embedding_error"] == 0
    assert abs(card["success"] - (0.4**2 + 0.6**2)) < 0.06  # truth knows no parts


def test_success_is_arrival_within_the_radius_of_the_goal_within_the_hops():
    graph = world()
    for rule, low, high in (
        (SuccessRule(radius=0.5, max_hops=50, episodes=1000), 1, 1),
        # start and goal are equal by chance
        (SuccessRule(radius=0.5, max_hops=0, episodes=4000), 1 / 120 - 0.006, 1 / 120 + 0.006),
        (SuccessRule(radius=0.5, max_hops=50, epsilon=1.0, episodes=500), 0.1, 0.9),
    ):
        assert low <= scorecard(graph, ROWS, oracle(graph), 0, TRUTH, rule)["success"] <= high
    exact = np.mean([manhattan(a, b) <= 4 for a in PLACES for b in PLACES])
    found = scorecard(
        graph, ROWS, oracle(graph), 0, TRUTH, SuccessRule(radius=0.5, max_hops=4, episodes=4000)
    )["success"]
    assert abs(found - exact) < 0.03


def test_the_same_seed_draws_the_same_tasks():
    graph = world()
    cards = [scorecard(graph, ROWS, noise(), seed, TRUTH, SuccessRule(episodes=200)) for seed in (0, 0, 1)]
    assert cards[0] == cards[1] != cards[2]


# ---------------------------------------------------------------------------------------------------- closures


@pytest.mark.parametrize("edges_at_once", [1, 10, 1000])
def test_false_closures_are_counted_exactly_and_once(monkeypatch, edges_at_once):
    monkeypatch.setattr("plan2vec.validity.EDGES_AT_ONCE", edges_at_once)
    false = [(0, 119), (5, 80), (11, 108)]
    truly = [manhattan(PLACES[i], PLACES[j]) for i, j in false]
    assert min(truly) > 3
    graph = world(false)
    for directed in (False, True):
        if directed:
            first, second = np.array(sorted([*UP, *false])).T
            graph = build_graph(
                ROWS, NearPairs(first, second, np.ones(len(first), np.float32)), None, True, np.ones(120, bool)
            )
        card = scorecard(graph, ROWS, oracle(graph), 0, TRUTH, SuccessRule(episodes=20))
        assert card["loop_closures"] == 111 and card["false_edge_share"] == 3 / 111


def test_false_beyond_moves_the_line_between_true_and_false():
    graph = world([(0, 2), (0, 5)])
    shares = [
        scorecard(
            graph, ROWS, oracle(graph), 0, TRUTH, SuccessRule(episodes=20), false_beyond=limit
        )["false_edge_share"] for limit in (0.5, 1.0, 2.0, 5.0)
    ]
    assert shares == [1, 2 / 110, 1 / 110, 0]


def test_min_gap_leaves_out_closures_close_in_time_within_a_sequence_only():
    graph = world([(0, 2), (0, 5), (20, 23)])
    for min_gap, expected in ((0, 111), (2, 111), (3, 110), (4, 109), (6, 108), (100, 108)):
        assert np.count_nonzero(counted_closures(graph, ROWS, min_gap)) == expected
    card = scorecard(graph, ROWS, oracle(graph), 0, TRUTH, SuccessRule(episodes=20), false_beyond=2.0, min_gap=4)
    assert card["loop_closures"] == 109 and card["false_edge_share"] == 1 / 109


def test_recorded_steps_that_did_not_move_are_no_steps():
    position = np.array([[0.0], [0.0], [2.0], [2.0], [5.0], [9.0]])
    assert true_steps(np.array([0, 0, 0, 0, 0, 1]), Truth(position, straight_line)).tolist() == [2, 3]
    assert true_steps(np.array([0, 0]), Truth(np.zeros((2, 1)), straight_line)).tolist() == [1]


# ---------------------------------------------------------------------------------------------------- parts of the
# scorecard


def random_graph(seed):
    rng = np.random.default_rng(seed)
    present = rng.random((40, 40)) < 0.1
    np.fill_diagonal(present, False)
    return csr_array(np.where(present, rng.random((40, 40)) + 0.01, 0)), rng


def test_the_cost_of_dijkstra_equals_that_of_the_search_itself():
    num_compared = 0
    for seed in range(30):
        graph, rng = random_graph(seed)
        for start, goal in rng.integers(0, 40, (5, 2)).tolist():
            path = best_first(graph, start, goal)
            if path.nodes is not None and len(path.nodes) > 1:
                cost = dijkstra_cost(graph, start, goal)
                assert (cost.num_expanded, cost.num_touched) == (path.num_expanded, path.num_touched)
                assert cost.length == pytest.approx(path.length, rel=1e-6)
                num_compared += 1
    assert num_compared > 50


def test_ties_change_the_cost_of_dijkstra_by_no_more_than_the_tied_frames():
    graph = world()
    for start, goal in np.random.default_rng(0).integers(0, 120, (20, 2)).tolist():
        if start != goal:
            length = oracle(graph)(start, np.arange(120))
            tied = np.count_nonzero(length == length[goal])
            path, cost = best_first(graph, start, goal), dijkstra_cost(graph, start, goal)
            assert cost.num_expanded <= path.num_expanded < cost.num_expanded + tied


def test_episodes_carry_the_length_and_hops_of_their_shortest_path():
    graph, rng = random_graph(0)
    episodes = draw_episodes(graph, np.arange(40), 300, rng)
    exact, before = paths_from(graph, np.arange(40))
    assert np.allclose(episodes.length, exact[episodes.starts, episodes.goals], rtol=1e-6)
    for start, goal, hops in zip(episodes.starts, episodes.goals, episodes.hops, strict=True):
        count = 0
        while before[start, goal] >= 0:
            count, goal = count + 1, before[start, goal]
        assert hops == (count if goal == start else np.inf)
    assert len(np.unique(episodes.goals)) == 40
    naive = [4 * h + 10 if np.isfinite(h) else 0 for h in episodes.hops]
    assert allowed_hops(episodes, SuccessRule()).tolist() == naive
    assert set(allowed_hops(episodes, SuccessRule(max_hops=7)).tolist()) == {7}


def test_the_neighbourhood_of_a_goal_is_itself_and_what_leads_to_it():
    graph, rng = random_graph(1)
    nodes, goals = rng.integers(0, 40, (2, 500))
    dense = graph.toarray()
    naive = [a == b or dense[a, b] > 0 for a, b in zip(nodes, goals, strict=True)]
    assert is_neighbor(graph, nodes, goals).tolist() == naive and 20 < sum(naive) < 200


def test_rank_agreement_is_spearmans_and_none_for_a_constant():
    a, b = np.random.default_rng(0).random((2, 50))
    assert rank_agreement(a, b) == spearmanr(a, b).statistic
    assert rank_agreement(a, np.ones(50)) is None and rank_agreement(np.ones(50), b) is None


# ---------------------------------------------------------------------------------------------------- fitted models

TINY = Config(
    local_metric=LocalMetricConfig(num_updates=20, batch_size=32, dim=8),
    embedding=EmbeddingConfig(num_updates=20, goals_per_update=16, nodes_per_update=32, goals_per_round=16),
)
PRODUCTS = ("local_metric.safetensors", "graph.npz", "embedding.safetensors", "vectors.npy")


def recordings(position="true", num_sequences=20, length=10):
    rng = np.random.default_rng(0)
    true = rng.uniform(0, 5, (num_sequences, 1, 2)) + rng.normal(0, 0.7, (num_sequences, length, 2)).cumsum(axis=1)
    true = true.reshape(-1, 2)
    given = {"true": true, "noise": rng.normal(size=true.shape) * 100, "none": None}[position]
    sequence = np.repeat(np.arange(num_sequences), length)
    return make_sequences(true, sequence, position=given, domain="c-maze" if position == "noise" else None)


def products(folder):
    return {name: (folder / name).read_bytes() for name in PRODUCTS}


def test_positions_and_domain_change_no_product(tmp_path):
    config = dataclasses.replace(TINY, holdout=0.2)
    for position in ("true", "noise", "none"):
        fit(recordings(position), config, tmp_path / position, device="cpu")
    assert products(tmp_path / "true") == products(tmp_path / "noise") == products(tmp_path / "none")
    positions = [np.load(tmp_path / name / "index.npz")["position"] for name in ("true", "noise")]
    assert not np.array_equal(*positions)  # they really differed


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    for name, seed in (("first", 0), ("second", 0), ("third", 1)):
        fit(recordings(), dataclasses.replace(TINY, seed=seed), tmp_path / name, device="cpu")
    first, second, third = (products(tmp_path / name) for name in ("first", "second", "third"))
    assert first == second and all(first[name] != third[name] for name in PRODUCTS)


def test_held_out_sequences_have_a_block_of_their_own():
    sequences, config = recordings(), dataclasses.replace(TINY, holdout=0.2)
    model = fit(sequences, config, device="cpu")
    card = evaluate(model, SuccessRule(episodes=50))
    held_out = split_sequences(sequences.sequence, 0.2, rng_at(0, 20))[1]
    assert card["num_frames"] == 160 and card["holdout"]["num_frames"] == held_out.sum() == 40
    assert card["holdout"]["num_edges"] >= 4 * 9 and set(card["holdout"]) == set(card) & set(card["holdout"])
    degree = np.diff(model.graph.indptr)
    assert (degree[held_out] == 0).all() and (degree[~held_out] > 0).all()
    assert "holdout" not in evaluate(fit(sequences, TINY, device="cpu"), SuccessRule(episodes=50))


def test_the_card_of_a_model_names_its_seconds_seed_and_version_and_is_plain_json():
    card = evaluate(fit(recordings(), TINY, device="cpu"), SuccessRule(episodes=50))
    assert {"local_metric", "graph", "embedding", "vectors", "evaluate", "total"} == set(card["seconds"])
    parts = [seconds for stage, seconds in card["seconds"].items() if stage != "total"]
    assert card["seconds"]["total"] == pytest.approx(sum(parts), abs=0.01)
    assert card["device"] == "cpu" and card["seed"] == 0 and card["version"] and 0 <= card["local_accuracy"] <= 1
    assert json.loads(json.dumps(card, allow_nan=False)) == card


@pytest.mark.parametrize("num_frames", [2, 3, 6])
def test_a_recording_of_a_few_frames_is_scored_without_a_warning_but_holds_nothing_out(num_frames):
    sequences = make_sequences(np.random.default_rng(0).normal(size=(num_frames, 2)), position=np.arange(num_frames))
    card = evaluate(fit(sequences, TINY, device="cpu"))
    assert card["num_frames"] == num_frames and card["num_components"] == 1 and card["success_graph"] == 1
    json.dumps(card, allow_nan=False)
    assert "holdout" not in card
    with pytest.raises(ValueError, match="leaves nothing out"):
        fit(sequences, dataclasses.replace(TINY, holdout=0.3), device="cpu")
