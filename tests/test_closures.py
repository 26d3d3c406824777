"""Which closures are believed: support tests against naive loops, injected worm-holes, the radius, the suspicious ones.
"""

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import networkx
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import plan2vec.graph.closures
import plan2vec.graph.support
from plan2vec.config import ClosureConfig, Config
from plan2vec.data import transitions
from plan2vec.graph.build import build_graph, edge_rows
from plan2vec.graph.closures import alike_reach, choose_closures
from plan2vec.graph.neighbors import NearPairs, near_pairs
from plan2vec.graph.support import has_common_neighbors, has_short_detour, has_transition_support, runs_alongside
from plan2vec.graph.suspicious import count_path_uses, suspicious_closures
from plan2vec.search.shortest_paths import distances_from

CPU = torch.device("cpu")
HALF_STEPS = np.full(10, 0.5)  # lengths of recorded steps


def walk(num_sequences, length, size, seed=0):
    """A walker in a square that takes steps of length 0.8 to 1: position (n, 2) float32, sequence (n,)."""
    rng = np.random.default_rng(seed)
    position = np.empty((num_sequences, length, 2))
    position[:, 0] = rng.uniform(0, size, (num_sequences, 2))
    for index in range(1, length):
        moved = np.full((num_sequences, 2), -1.0)
        while (outside := ((moved < 0) | (moved > size)).any(axis=1)).any():
            angle, step = rng.uniform(0, 2 * np.pi, outside.sum()), rng.uniform(0.8, 1, outside.sum())
            moved[outside] = position[outside, index - 1] + step[:, None] * np.stack(
                (np.cos(angle), np.sin(angle)), axis=1
            )
        position[:, index] = moved
    return position.reshape(-1, 2).astype(np.float32), np.repeat(np.arange(num_sequences), length)


def pairs_of(triples):
    first, second, distance = zip(*sorted(triples), strict=True)
    return NearPairs(np.array(first, np.int64), np.array(second, np.int64), np.array(distance, np.float32))


def as_list(pairs):
    return list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))


def as_set(pairs):
    return set(as_list(pairs))


def with_worm_holes(pairs, position, num, seed=1):
    """The pairs and `num` false ones between frames truly more than 5 steps apart: (pairs, set of the false)."""
    rng = np.random.default_rng(seed)
    false = set()
    while len(false) < num:
        i, j = np.sort(rng.integers(0, len(position), 2)).tolist()
        if np.linalg.norm(position[i] - position[j]) > 5:
            false.add((i, j))
    true = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.distance.tolist(), strict=True)
    return pairs_of([*true, *((i, j, float(rng.uniform(0.6, 0.95))) for i, j in false)]), false


def step_lengths(position, sequence):
    start = transitions(sequence)
    return np.linalg.norm(position[start] - position[start + 1], axis=1)


def chosen_of(candidates, steps, sequence, first_duplicate, radius=None, **settings):
    config = Config(radius=radius, max_gap=1, closures=ClosureConfig(**settings))
    return choose_closures(candidates, steps, sequence, first_duplicate, config)


def choose(position, sequence, candidates, radius=None, **settings):
    steps = step_lengths(position, sequence)
    return chosen_of(candidates, steps, sequence, np.arange(len(sequence)), radius, **settings)


DENSE_POSITION, DENSE_SEQUENCE = walk(100, 10, size=6)
SPARSE_POSITION, SPARSE_SEQUENCE = walk(40, 5, size=20)
DENSE, SPARSE = near_pairs(DENSE_POSITION, 2.0, 200, CPU), near_pairs(SPARSE_POSITION, 2.0, 200, CPU)


# ---------------------------------------------------------------------------------------------------- support


def random_pairs(seed, num_frames=40):
    rng = np.random.default_rng(seed)
    drawn = {
        tuple(sorted(pair)) for pair in rng.integers(0, num_frames, (120, 2)).tolist() if abs(pair[0] - pair[1]) > 1
    }
    return pairs_of(
        [(i, j, float(rng.choice([0.2, 0.5, 0.9, 1.3]))) for i, j in drawn]
    ), np.repeat(np.arange(8), num_frames // 8)


@pytest.mark.parametrize("rows_at_once", [0, 1, 7, 4096])
def test_common_neighbours_equal_a_naive_count(monkeypatch, rows_at_once):
    monkeypatch.setitem(plan2vec.graph.support.MARKS_AT_ONCE, "cpu", 40 * rows_at_once)
    for seed in range(5):
        pairs, sequence = random_pairs(seed)
        near = as_set(pairs) | {(i, i + 1) for i in transitions(sequence).tolist()}
        near |= {(j, i) for i, j in near}
        naive = [
            sum((i, k) in near and (k, j) in near for k in range(40)) for i,
            j in zip(pairs.first, pairs.second, strict=True)
        ]
        assert len(set(naive)) >= 3
        for num in (1, 2, 3):
            assert has_common_neighbors(pairs, sequence, num).tolist() == [count >= num for count in naive]


def test_support_in_a_crowded_world_equals_the_whole_sparse_products():
    n = len(DENSE_SEQUENCE)
    start = transitions(DENSE_SEQUENCE)
    near, alike, steps = np.zeros((n, n), np.int32), np.eye(n, dtype=np.int32), np.eye(n, dtype=np.int32)
    near[DENSE.first, DENSE.second] = near[start, start + 1] = steps[start, start + 1] = 1
    alike[DENSE.first, DENSE.second] = DENSE.distance <= 0.5
    near, alike, steps = (matrix | matrix.T for matrix in (near, alike, steps))
    common, support = ((near @ near)[DENSE.first, DENSE.second], (alike @ steps @ alike)[DENSE.first, DENSE.second])
    assert np.median(near.sum(axis=1)) > 100  # so neighbours are looked at in several rounds
    for num in (2, 30, 80):
        assert (common >= num).any() and (has_common_neighbors(DENSE, DENSE_SEQUENCE, num) == (common >= num)).all()
    assert (has_transition_support(DENSE, DENSE_SEQUENCE) == (support > 0)).all() and 0.1 < (support > 0).mean() < 0.9


@pytest.mark.parametrize("rows_at_once", [0, 1, 7, 4096])
def test_transition_support_equals_a_naive_search(monkeypatch, rows_at_once):
    monkeypatch.setitem(plan2vec.graph.support.MARKS_AT_ONCE, "cpu", 40 * rows_at_once)
    for seed in range(5):
        pairs, sequence = random_pairs(seed)
        triples = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.distance.tolist(), strict=True)
        alike = {(i, j) for i, j, distance in triples if distance <= 0.5} | {(i, i) for i in range(40)}
        alike |= {(j, i) for i, j in alike}
        steps = {(i, i + 1) for i in transitions(sequence).tolist()} | {(i, i) for i in range(40)}
        steps |= {(j, i) for i, j in steps}
        naive = [
            any((i, a) in alike and (b, j) in alike for a, b in steps) for i,
            j in zip(pairs.first, pairs.second, strict=True)
        ]
        assert has_transition_support(pairs, sequence).tolist() == naive and 5 < sum(naive) < len(naive) - 5


def test_the_fewer_frames_there_are_the_farther_apart_look_alikes_may_be():
    distance = np.linspace(0, 2, 2001)  # of pairs; each counts for both of its 100 frames
    assert [alike_reach(distance, 100, look_alikes) for look_alikes in (0.0, 10.0)] == [0.5, 0.5]
    assert alike_reach(distance, 100, 16.0) == pytest.approx(0.8, abs=0.01)
    assert alike_reach(distance, 100, 30.0) == alike_reach(distance[:10], 100, 16.0) == 1.0


def test_farther_look_alikes_support_more_closures_and_no_worm_hole_of_a_dense_world(monkeypatch):
    (candidates, false), found = with_worm_holes(DENSE, DENSE_POSITION, 40), []
    for number in (0.0, 1000.0):
        monkeypatch.setattr(plan2vec.graph.closures, "LOOK_ALIKES", number)
        found.append(as_set(choose(DENSE_POSITION, DENSE_SEQUENCE, candidates).pairs))
    half, far = found
    assert half < far and not false & far


def test_random_worm_holes_in_a_dense_world_are_removed_and_true_closures_kept():
    candidates, false = with_worm_holes(DENSE, DENSE_POSITION, 40)
    chosen = choose(DENSE_POSITION, DENSE_SEQUENCE, candidates)
    believed, unfiltered = as_set(chosen.pairs), as_set(
        choose(DENSE_POSITION, DENSE_SEQUENCE, candidates, support="none").pairs
    )
    assert "common neighbours + transition support" in chosen.reason and "tests: none" not in chosen.reason
    assert len(false & unfiltered) >= 35  # they lie within the radius
    assert len(false & believed) == 0
    assert len(believed - false) > 0.95 * len(unfiltered - false) > 10_000


def test_two_common_neighbours_alone_remove_random_worm_holes_too():
    candidates, false = with_worm_holes(DENSE, DENSE_POSITION, 40)
    unfiltered, believed = (
        as_set(choose(DENSE_POSITION, DENSE_SEQUENCE, candidates, support=name).pairs) for name in ("none", "common")
    )
    assert len(
        false & unfiltered
    ) >= 35 and len(false & believed) <= 1 and len(believed - false) > 0.99 * len(unfiltered - false)
    # 0 - 1 and 2 - 3 were recorded: 0 and 3 have the common neighbours 1 and 2, 0 and 2 only one more
    square = np.repeat([0, 1], 2)
    pairs = pairs_of([(0, 2, 0.9), (0, 3, 0.9), (1, 3, 0.9)])
    assert has_common_neighbors(pairs, square, 1).all() and has_common_neighbors(pairs, square, 2).tolist() == [
        False, True, False
    ]
    chosen = chosen_of(pairs, np.ones(2), square, np.arange(4), 1.0, support="common")
    assert as_set(chosen.pairs) == {(0, 3)} and "66.67% of the candidates failed" in chosen.reason


def test_worm_holes_ruin_the_distances_and_removing_them_restores_them():
    candidates, _ = with_worm_holes(DENSE, DENSE_POSITION, 40)
    everything = np.ones(len(DENSE_SEQUENCE), bool)
    sources = np.arange(0, 1000, 50)
    true = np.linalg.norm(DENSE_POSITION[sources][:, None] - DENSE_POSITION[None], axis=2)
    errors = {}
    for support in ("none", "auto"):
        pairs = choose(DENSE_POSITION, DENSE_SEQUENCE, candidates, support=support).pairs
        found = distances_from(build_graph(DENSE_SEQUENCE, pairs, None, False, everything), sources)
        errors[support] = np.abs(found - true)[true > 3].mean() / true[true > 3].mean()
    assert errors["auto"] < 0.05 and errors["none"] > 3 * errors["auto"]


def test_clustered_worm_holes_pass_the_first_test_but_not_the_second():
    here, there = (
        np.flatnonzero(np.linalg.norm(DENSE_POSITION - corner, axis=1) < 0.5).tolist() for corner in ((1, 1), (5, 5))
    )
    false = {(min(i, j), max(i, j)) for i in here for j in there}
    true = zip(DENSE.first.tolist(), DENSE.second.tolist(), DENSE.distance.tolist(), strict=True)
    candidates = pairs_of([*true, *((i, j, 0.8) for i, j in false)])
    assert len(false) > 100
    believed = lambda **config: as_set(choose(DENSE_POSITION, DENSE_SEQUENCE, candidates, **config).pairs)  # noqa: E731
    common, both = believed(support="common"), believed(support="both")
    assert len(false & common) == len(false) and len(false & both) == 0


def test_sparse_recordings_lose_few_of_their_true_closures():
    chosen = choose(SPARSE_POSITION, SPARSE_SEQUENCE, SPARSE)
    untested = choose(SPARSE_POSITION, SPARSE_SEQUENCE, SPARSE, support="none")
    assert "short detour" in chosen.reason and len(chosen.pairs) > 0.9 * len(untested.pairs) > 300


def two_passes(unsure):
    """A corridor of 60 frames walked twice; every third pair of the passes is surely near, the others are `unsure`
    steps apart.
    """
    sequence = np.repeat([0, 1], 60)
    return sequence, [(i, 60 + i, 0.3 if i % 3 == 0 else unsure) for i in range(60)]


def test_a_cluster_of_look_alikes_has_common_neighbours_but_no_short_detour():
    sequence, true = two_passes(1.2)
    false = [(i, j, 1.2) for i in range(5, 10) for j in range(40, 45)]
    pairs = pairs_of([*true, *false])
    alike = {(i, j) for i, j, _ in false}
    assert len(alike & as_set(pairs.select(has_common_neighbors(pairs, sequence, 2)))) > 20
    assert as_set(pairs.select(has_short_detour(pairs, sequence, HALF_STEPS, 4.0))) == {(i, j) for i, j, _ in true}


def test_believed_closures_support_the_next_like_a_zip():
    sequence = np.repeat([0, 1], 30)
    pairs = pairs_of([(i, 30 + i, 0.3 if i == 0 else 1.0) for i in range(0, 30, 2)])
    # from one sure closure at the end, two frames a round
    assert has_short_detour(pairs, sequence, HALF_STEPS, 5.5).all()
    # 2 + 0.3 + 2 steps are too long a detour for the second
    assert has_short_detour(pairs, sequence, HALF_STEPS, 3.0).sum() == 1


@pytest.mark.parametrize("way", [1, -1])
def test_a_stretch_that_was_seen_twice_needs_no_sure_closure(way):
    """Two passes, in the same direction or in the opposite one, near each other by all but the longest recorded steps.
    """
    sequence, steps = np.repeat([0, 1], 30), np.linspace(0, 1, 101)
    second = [30 + i if way == 1 else 59 - i for i in range(30)]
    stretch = [(i, second[i], 0.8) for i in range(8, 16)]
    crossing = [(22, second[22], 0.8), (24, second[24], 0.8), (25, second[25], 0.8)]
    alone = pairs_of([(0, second[0], 0.2), *stretch, *crossing])
    assert runs_alongside(alone, sequence).tolist() == [False] + [True] * 8 + [False] * 3
    believed = as_set(alone.select(has_short_detour(alone, sequence, steps, 4.0)))
    assert believed == {(i, j) for i, j, _ in [(0, second[0], 0.2), *stretch]}


def test_a_stretch_ends_where_its_sequence_does():
    within = pairs_of([(i, 20 + i, 0.8) for i in range(5)])
    assert runs_alongside(within, np.repeat([0, 1], 20)).tolist() == [True, False, False, False, True]
    assert not runs_alongside(within, np.repeat([0, 1, 2], [3, 17, 20])).any()


def test_the_only_closures_between_two_parts_are_believed():
    pairs = pairs_of([(i, 20 + i, 1.2) for i in range(5)])
    assert has_short_detour(pairs, np.repeat([0, 1], 20), HALF_STEPS, 4.0).all()


def test_where_places_come_back_to_the_last_pixel_a_look_alike_far_away_is_another_place():
    """A line of 20 places recorded twice, the same images; a false pair looks nearer than any recorded step."""
    sequence, kind = np.repeat([0, 1], 20), np.tile(np.arange(20), 2)
    equal = [(i, 20 + i, 0.0) for i in range(20)]
    pairs = pairs_of([*equal, (3, 15, 0.1)])
    steps = np.linspace(0.5, 1, 101)
    exact = chosen_of(pairs, steps, sequence, kind, 1.0, support="detour")
    assert as_set(exact.pairs) == {(i, j) for i, j, _ in equal}
    unlike = chosen_of(pairs, steps, sequence, np.arange(40), 1.0, support="detour")
    # where no image comes back, the nearest look-alikes are all there is to begin with
    assert (3, 15) in as_set(unlike.pairs)


def test_images_that_come_back_do_not_make_a_recording_dense():
    rng = np.random.default_rng(0)
    position = np.tile(rng.uniform(0, 1000, (50, 2)), (10, 1))  # ten visits of 50 places far apart
    candidates = near_pairs(position.astype(np.float32), 2.0, 200, CPU)
    for kind, tests in ((np.tile(np.arange(50), 10), "short detour"), (np.arange(500), "common neighbours")):
        chosen = chosen_of(candidates, np.ones(10), np.arange(500), kind, 2.0)
        assert tests in chosen.reason


# ---------------------------------------------------------------------------------------------------- radius


def test_a_dense_recording_keeps_the_95th_percentile_of_its_steps():
    chosen = choose(DENSE_POSITION, DENSE_SEQUENCE, DENSE)
    assert chosen.radius == pytest.approx(np.quantile(step_lengths(DENSE_POSITION, DENSE_SEQUENCE), 0.95), abs=1e-6)
    assert chosen.pairs.distance.max() <= chosen.radius and "95th percentile" in chosen.reason


def test_a_sparse_recording_grows_its_radius_up_to_the_limit(monkeypatch):
    start = np.quantile(step_lengths(SPARSE_POSITION, SPARSE_SEQUENCE), 0.95)
    for limit in (1.3, 1.7):
        monkeypatch.setattr(plan2vec.graph.closures, "MAX_RADIUS", limit)
        chosen = choose(SPARSE_POSITION, SPARSE_SEQUENCE, SPARSE)
        assert start < chosen.radius == limit and "grown" in chosen.reason
        assert 2 * len(chosen.pairs) / len(SPARSE_SEQUENCE) < 12
    monkeypatch.setattr(plan2vec.graph.closures, "MAX_RADIUS", 0.5)
    assert choose(SPARSE_POSITION, SPARSE_SEQUENCE, SPARSE).radius == pytest.approx(start)


def test_the_radius_grows_just_until_frames_have_the_wanted_neighbours(monkeypatch):
    monkeypatch.setattr(plan2vec.graph.closures, "MAX_RADIUS", 2.0)
    is_closure = np.array([j - i > 1 or SPARSE_SEQUENCE[i] != SPARSE_SEQUENCE[j] for i, j in as_list(SPARSE)])
    distances = np.sort(SPARSE.distance[is_closure])
    for wanted in (3, 4):
        monkeypatch.setattr(plan2vec.graph.closures, "MIN_DEGREE", wanted)
        chosen = choose(SPARSE_POSITION, SPARSE_SEQUENCE, SPARSE, support="none")
        assert len(chosen.pairs) == wanted * 100 and chosen.radius == distances[wanted * 100 - 1]


def test_the_recall_of_an_approximate_search_is_said():
    steps = np.ones(10)
    chosen = [chosen_of(replace(DENSE, recall=recall), steps, DENSE_SEQUENCE, np.arange(1000))
              for recall in (None, 1.0, 0.987)]
    said = [one.reason.partition("; approximate neighbours, ")[2] for one in chosen]
    assert said == ["", "recall 1.0000", "recall 0.9870"]


def test_a_given_radius_is_kept():
    for position, sequence, pairs in (
        (DENSE_POSITION, DENSE_SEQUENCE, DENSE), (SPARSE_POSITION, SPARSE_SEQUENCE, SPARSE)
    ):
        chosen = choose(position, sequence, pairs, radius=0.7)
        assert chosen.radius == 0.7 and chosen.pairs.distance.max() <= 0.7 and "as given" in chosen.reason


@pytest.mark.parametrize(("look_alikes", "max_unsupported"), [(0.0, 0.1), (16.0, 0.02)])
def test_growth_stops_where_candidates_fail_their_tests(monkeypatch, look_alikes, max_unsupported):
    rng = np.random.default_rng(2)
    position, sequence = walk(60, 10, size=8)
    true = near_pairs(position, 2.0, 200, CPU)
    triples = dict(zip(as_list(true), true.distance.tolist(), strict=True))
    for i, j in np.sort(rng.integers(0, 600, (2500, 2))).tolist():
        if np.linalg.norm(position[i] - position[j]) > 5:
            triples[i, j] = float(rng.uniform(1.3, 1.7))  # beyond 1.3 steps the metric lies
    candidates = pairs_of([(*pair, distance) for pair, distance in triples.items()])
    limited_and_free = []
    monkeypatch.setattr(plan2vec.graph.closures, "MIN_DEGREE", 80)
    monkeypatch.setattr(plan2vec.graph.closures, "LOOK_ALIKES", look_alikes)
    for share in (max_unsupported, 1.0):
        monkeypatch.setattr(plan2vec.graph.closures, "MAX_UNSUPPORTED", share)
        limited_and_free.append(choose(position, sequence, candidates))
    limited, free = limited_and_free
    assert free.radius == 1.7 and limited.radius < 1.5 and "too many candidates failed" in limited.reason


def test_the_density_is_that_of_the_frames_that_take_part():
    padded = np.concatenate((DENSE_SEQUENCE, np.arange(100, 10_000)))  # held-out frames beside them
    steps = step_lengths(DENSE_POSITION, DENSE_SEQUENCE)
    alone = chosen_of(DENSE, steps, DENSE_SEQUENCE, np.arange(1000))
    kind = np.concatenate((np.arange(1000), np.full(len(padded) - 1000, -1)))
    beside = chosen_of(DENSE, steps, padded, kind)
    assert alone.radius == beside.radius and alone.reason == beside.reason and as_set(alone.pairs) == as_set(
        beside.pairs
    )


def test_a_recorded_step_never_gets_a_closure_and_frames_two_apart_may():
    chosen = choose(DENSE_POSITION, DENSE_SEQUENCE, DENSE, support="none")
    same = DENSE_SEQUENCE[chosen.pairs.first] == DENSE_SEQUENCE[chosen.pairs.second]
    gaps = (chosen.pairs.second - chosen.pairs.first)[same]
    assert gaps.min() == 2 and same.sum() > 50
    graph = build_graph(DENSE_SEQUENCE, chosen.pairs, None, False, np.ones(1000, bool))
    assert graph.has_canonical_format  # no edge stands twice


# ---------------------------------------------------------------------------------------------------- suspicious
# closures


def test_an_injected_worm_hole_is_the_most_suspicious_closure():
    closures = pairs_of(
        [(i, i + 12, 11.9) for i in range(0, 88, 5)] + [(i, i + 2, 1.9) for i in range(0, 98, 7)] + [(10, 90, 0.7)]
    )
    sequence = np.zeros(100, int)  # one line, walked once
    graph = build_graph(sequence, closures, None, False, np.ones(100, bool))
    found = suspicious_closures(graph, sequence, 3, np.random.default_rng(0), num_sources=100)
    assert len(found) == 3 and (found[0]["first"], found[0]["second"]) == (10, 90) and found[0]["distance"] == 0.7
    assert found[0]["paths"] > 0.3 and found[0]["paths"] > found[1]["paths"] >= found[2]["paths"] > 0
    # two frames apart is no short cut worth a look
    assert all(closure["second"] - closure["first"] >= 12 for closure in found)


def test_listing_suspicious_closures_takes_less_than_100_bytes_per_edge():
    """As the explorer asks for them of large graphs: 2 GB for 20 million edges."""
    rng, num, degree = np.random.default_rng(0), 4000, 50
    row = np.repeat(np.arange(num), degree)
    lengths = rng.uniform(0.1, 1, num * degree).astype(np.float32)
    graph = csr_array((lengths, (row, (row + rng.integers(1, 400, num * degree)) % num)), shape=(num, num))
    graph = (graph + graph.T).tocsr()
    tracemalloc.start()
    found = suspicious_closures(graph, np.arange(num) // 100, 200, rng, num_sources=4)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 200 and peak < 100 * graph.nnz


def test_the_share_of_paths_over_a_closure_is_counted_over_all_pairs():
    sequence = np.array([0, 0, 1, 1])  # 0 - 1 = 2 - 3, where = is the closure
    graph = build_graph(sequence, pairs_of([(1, 2, 0.5)]), None, False, np.ones(4, bool))
    found = suspicious_closures(graph, sequence, 5, np.random.default_rng(0), num_sources=4)
    assert found == [{"first": 1, "second": 2, "distance": 0.5, "confidence": None, "paths": 8 / 16}]


def test_doubtful_closures_come_first_then_much_used_ones_then_those_of_unknown_confidence():
    sequence = np.repeat([0, 1], 20)
    surest, used, rare, unknown = (3, 23), (10, 30), (0, 20), (17, 37)
    graph = build_graph(sequence, pairs_of([(*pair, 0.5) for pair in (surest, used, rare, unknown)]))
    sure = csr_array(([0.9, 0.4, 0.4], ([3, 10, 0], [23, 30, 20])), shape=(40, 40))
    found = suspicious_closures(graph, sequence, 9, np.random.default_rng(0), 40, sure)
    assert [(one["first"], one["second"]) for one in found] == [used, rare, surest, unknown]
    assert [one["confidence"] for one in found] == [0.4, 0.4, 0.9, None] and found[0]["paths"] > found[1]["paths"]


def test_path_uses_on_trees_equal_those_counted_with_networkx():
    for seed in range(5):
        tree = networkx.random_labeled_tree(30, seed=seed)
        rng = np.random.default_rng(seed)
        for edge in tree.edges:
            tree.edges[edge]["weight"] = float(rng.choice([0.0, 0.5, 1.0]))
        rows, columns = zip(*((i, j) for a, b in tree.edges for i, j in ((a, b), (b, a))), strict=True)
        weights = [tree.edges[i, j]["weight"] for i, j in zip(rows, columns, strict=True)]
        graph = csr_array((np.array(weights), (rows, columns)), shape=(30, 30))
        assert graph.nnz == 58
        sources = rng.choice(30, 7, replace=False)
        expected = dict.fromkeys(zip(edge_rows(graph).tolist(), graph.indices.tolist(), strict=True), 0)
        for source in sources.tolist():
            for path in networkx.single_source_shortest_path(tree, source).values():
                for edge in pairwise(path):
                    expected[edge] += 1
        assert count_path_uses(graph, sources).tolist() == list(expected.values()) and max(expected.values()) > 20


def test_path_uses_count_nothing_where_no_path_leads():
    graph = csr_array((np.ones(2), ([0, 2], [1, 3])), shape=(5, 5))
    assert count_path_uses(graph, np.array([0, 1, 4])).tolist() == [1, 0]
