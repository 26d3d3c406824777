"""Measures of truth in worlds whose answers are known by hand."""

import numpy as np
import pytest

from plan2vec import SuccessRule, evaluate, fit, make_sequences
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.evaluation import scorecard
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import NearPairs
from plan2vec.search.shortest_paths import distances_from, shortest_plans
from plan2vec.validity import (
    Truth,
    closure_numbers,
    counted_closures,
    draw_revisits,
    label_numbers,
    precision_numbers,
    ranking_numbers,
    straight_line,
    validity_numbers,
    walking_pairs,
)
from plan2vec.verdict import LINES

LENGTH = 40  # places of a corridor that was walked twice; places are one step apart
SEQUENCE = np.repeat([0, 1], LENGTH)
PLACE = np.tile(np.arange(LENGTH), 2)
TWICE = [(i, LENGTH + i) for i in range(LENGTH)]  # true closures
EVERYONE = tuple(grid.ravel() for grid in np.meshgrid(np.arange(2 * LENGTH), np.arange(2 * LENGTH)))


def corridor(closures=TWICE, length=0.1, directed=False):
    first, second = np.array(closures).T
    return build_graph(SEQUENCE, NearPairs(first, second, np.full(len(first), length, np.float32)), directed=directed)


def truth(heading=None, label=None):
    position = 25.0 * np.column_stack((PLACE, np.zeros(2 * LENGTH)))  # 25 units are a step
    return Truth(position, straight_line, heading=heading, label=label, knows_ways=False)


def judged(graph, known=None):
    table = distances_from(graph, np.arange(graph.shape[0]))
    return validity_numbers(graph, SEQUENCE, lambda a, b: table[a, b], known or truth(), np.random.default_rng(0))


def test_a_true_graph_has_only_possible_plans_and_knows_every_revisit():
    card = judged(corridor())
    assert card["plan_validity"] == card["greedy_validity"] == card["revisit_recall"] == 1 and card["unreachable"] == 0


def test_one_false_closure_ruins_every_plan_that_it_shortens():
    graph = corridor([*TWICE, (0, 39)])  # plans of 20 and more steps go round through it: 420 of 1,600 pairs of places
    *_, worst = shortest_plans(graph, *EVERYONE, lambda a, b: np.abs(PLACE[a] - PLACE[b]))
    assert np.mean(worst <= 7) == 1 - 420 / 1600 and set(worst.tolist()) == {0, 1, 39}
    card = judged(graph)
    assert card["plan_validity"] == pytest.approx(1 - 420 / 1600, abs=0.04)
    assert card["greedy_validity"] == pytest.approx(card["plan_validity"], abs=0.01) and card["unreachable"] == 0
    assert card["plan_validity_14"] == card["plan_validity"]
    assert closure_numbers(graph, SEQUENCE, truth(), None, 20)["false_edge_share"] == 1 / 41


def test_looser_limits_forgive_a_closure_of_nine_steps_and_time_one_within_twenty_frames():
    card = judged(corridor([*TWICE, (0, LENGTH + 9)]))
    assert card["plan_validity"] < card["plan_validity_10"] == card["plan_validity_14"] == 1
    assert judged(corridor([*TWICE, (0, 9)]))["plan_validity"] == 1  # one sequence, nine frames apart


def test_no_path_is_an_invalid_plan():
    first, second = np.array(TWICE).T
    card = judged(build_graph(SEQUENCE, NearPairs(first[:0], second[:0], np.empty(0, np.float32))))
    assert card["plan_validity"] == pytest.approx(0.5, abs=0.05) == 1 - card["unreachable"]
    assert card["revisit_recall"] == 0


def test_a_closure_counts_as_false_beyond_seven_median_steps_and_a_domain_has_its_own_rule():
    graph = corridor([*TWICE, (0, LENGTH + 7), (0, LENGTH + 8)])
    found = closure_numbers(graph, SEQUENCE, truth(), None, 20)
    assert found == {"false_edge_share": 1 / 42, "loop_closures": 42, "false_beyond": 175}
    own = Truth(truth().position, straight_line)
    assert closure_numbers(graph, SEQUENCE, own, None, 20)["false_beyond"] == 75
    assert closure_numbers(graph, SEQUENCE, truth(), 190.0, 20)["false_edge_share"] == 1 / 42
    assert closure_numbers(graph, SEQUENCE, truth(), 201.0, 20)["false_edge_share"] == 0


def test_one_way_closures_are_counted_whichever_way_they_lead():
    graph = corridor([(0, 50)], directed=True)
    lower = graph.toarray()
    lower[0, 50] = 0
    lower[70, 2] = 1
    assert np.count_nonzero(counted_closures(type(graph)(lower), SEQUENCE, 20)) == 2


# ---------------------------------------------------------------------------------------------------- revisits


def test_revisits_are_pairs_of_one_place_and_heading_at_two_times():
    rng = np.random.default_rng(0)
    first, second = draw_revisits(SEQUENCE, truth(), 25.0, rng)
    assert len(first) == 2 * (40 + 2 * 39 + 2 * 38) and (SEQUENCE[first] != SEQUENCE[second]).all()  # 0, 1, 2 steps
    assert (np.abs(PLACE[first] - PLACE[second]) <= 2).all()
    there_and_back = np.where(SEQUENCE == 0, 350.0, 170.0)
    assert len(draw_revisits(SEQUENCE, truth(there_and_back), 25.0, rng)[0]) == 0
    slightly_turned = np.where(SEQUENCE == 0, 350.0, 9.0)  # 19 degrees, across north
    assert len(draw_revisits(SEQUENCE, truth(slightly_turned), 25.0, rng)[0]) == len(first)


def test_revisit_recall_is_the_share_that_the_graph_joins_within_eight_steps():
    graph = corridor(TWICE[:20])
    exact = distances_from(graph, np.arange(2 * LENGTH))
    pairs = [(i, j) for i in range(LENGTH) for j in range(LENGTH, 2 * LENGTH) if abs(PLACE[i] - PLACE[j]) <= 2]
    known = np.mean([exact[i, j] <= 8 for i, j in pairs])
    assert 0.5 < known < 0.7 and judged(graph)["revisit_recall"] == pytest.approx(known)
    assert judged(graph, truth(np.where(SEQUENCE == 0, 0.0, 180.0)))["revisit_recall"] is None


# ---------------------------------------------------------------------------------------------------- walking


def test_walking_distance_goes_round_a_bend_where_the_straight_line_does_not():
    position = np.array([(x, 0) for x in range(20)] + [(20, y) for y in range(4)] + [(x, 4) for x in range(20, -1, -1)])
    position = position.astype(float)
    sequence = np.zeros(len(position), int)
    first, second, walking = walking_pairs(sequence, Truth(position, straight_line, knows_ways=False),
                                           np.random.default_rng(0))
    assert len(first) == 4000
    along = np.abs(first - second)
    assert (walking <= along + 1e-6).all() and (walking >= along - 1.5).all()  # it cuts the corners of the bend
    straight = straight_line(position[first], position[second])
    assert (along - straight).max() > 30


def test_a_map_is_compared_with_the_walking_distance_where_no_domain_knows_the_ways():
    graph = corridor()
    card = scorecard(graph, SEQUENCE, lambda a, b: np.abs(PLACE[a] - PLACE[b]).astype(float), 0, truth(),
                     SuccessRule(episodes=50))
    assert card["spearman_true"] == pytest.approx(1)


# ---------------------------------------------------------------------------------------------------- confidence


def test_precision_and_recall_of_four_candidates():
    found = precision_numbers(np.array([True, True, False, True]), np.array([4.0, 3, 2, 1]))
    assert found["auprc"] == pytest.approx((1 + 1 + 3 / 4) / 3)
    assert found["recall_at_100_precision"] == found["recall_at_99_precision"] == pytest.approx(2 / 3)
    assert precision_numbers(np.array([True, False]), np.array([1.0, 1]))["recall_at_100_precision"] == 0  # a tie
    assert set(precision_numbers(np.zeros(3, bool), np.arange(3.0)).values()) == {None}


def test_average_precision_is_that_of_scikit_learn():
    metrics, rng = pytest.importorskip("sklearn.metrics"), np.random.default_rng(0)
    for _ in range(20):
        is_true, confidence = rng.random(50) < 0.4, rng.integers(10, size=50).astype(float)
        assert precision_numbers(is_true, confidence)["auprc"] == pytest.approx(
            metrics.average_precision_score(is_true, confidence))


def test_candidates_between_true_and_false_and_those_close_in_time_are_left_out():
    first = np.array([0, 0, 0, 0, 0])
    second = LENGTH + np.array([0, 3, 5, 8, -LENGTH + 10])  # true, true, between, false, ten frames later
    confidence = np.array([2.0, 1, 5, 0, 9])
    assert ranking_numbers(first, second, confidence, SEQUENCE, truth())["auprc"] == 1
    turned = truth(np.where(np.arange(2 * LENGTH) == LENGTH, 40.0, 0.0))  # so the first is left out
    assert ranking_numbers(first, second, -confidence, SEQUENCE, turned)["auprc"] == 0.5


# ---------------------------------------------------------------------------------------------------- labels


def test_closures_between_two_labels_are_false_whatever_the_positions_say():
    graph = corridor([(0, LENGTH), (5, 30), (20, 60)])
    known = truth(label=SEQUENCE)  # two corridors with the same coordinates
    assert label_numbers(graph, SEQUENCE, SEQUENCE, 20) == {"cross_label_share": 2 / 3, "closures_within_label": 1}
    assert closure_numbers(graph, SEQUENCE, known, None, 20)["false_edge_share"] == 1
    card = judged(corridor(), known)  # tasks stay within a label, and plans along their own corridor are possible
    assert card["unreachable"] == 0 and card["plan_validity"] == 1 and card["revisit_recall"] is None
    first, second, _ = walking_pairs(SEQUENCE, known, np.random.default_rng(0))
    assert (SEQUENCE[first] == SEQUENCE[second]).all()


# ---------------------------------------------------------------------------------------------------- a fitted model


def test_the_measures_stand_in_the_scorecard_and_change_nothing_of_the_model():
    tiny = Config(local_metric=LocalMetricConfig(num_updates=5, batch_size=32, dim=8),
                  embedding=EmbeddingConfig(num_updates=5))
    seen = np.column_stack((PLACE, PLACE**2 / 40)).astype(np.float32)
    model = fit(make_sequences(seen, SEQUENCE, position=truth().position, heading=PLACE * 1.0, label=SEQUENCE), tiny,
                device="cpu")
    before = model.graph.data.tobytes(), model.vectors.tobytes(), [p.clone() for p in model.local_metric.parameters()]
    card, again = evaluate(model, SuccessRule(episodes=50)), evaluate(model, SuccessRule(episodes=50))
    names = {"plan_validity", "plan_validity_10", "plan_validity_14", "unreachable", "greedy_validity",
             "revisit_recall", "auprc", "recall_at_99_precision", "recall_at_100_precision", "cross_label_share",
             "closures_within_label", "false_edge_share", "spearman_true"}
    assert names <= set(card) and {name: card[name] for name in names} == {name: again[name] for name in names}
    assert set(card) - set(LINES) == {"seconds"}  # the report explains every number, and with it the reference
    assert before[:2] == (model.graph.data.tobytes(), model.vectors.tobytes())
    assert all((a == b).all() for a, b in zip(before[2], model.local_metric.parameters(), strict=True))
