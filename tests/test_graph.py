"""The graph against naive loops: weights, directions, zeros, held-out frames."""

import numpy as np
import pytest

from plan2vec.graph.build import (
    build_graph,
    closure_entries,
    edge_rows,
    graph_of_edges,
    join_equal,
    places,
    transition_weights,
)
from plan2vec.graph.neighbors import NearPairs
from plan2vec.search.shortest_paths import best_first, connected_parts, distances_from

SEQUENCE = np.repeat([0, 1, 2], [5, 4, 3])
ALL = np.ones(12, bool)


def near(*triples):
    first, second, distance = zip(*sorted(triples), strict=True) if triples else ((), (), ())
    return NearPairs(np.array(first, np.int64), np.array(second, np.int64), np.array(distance, np.float32))


CLOSURES = near((0, 7, 0.25), (2, 10, 0.0), (0, 3, 1.5))


def entries(graph):
    return dict(
        zip(zip(edge_rows(graph).tolist(), graph.indices.tolist(), strict=True), graph.data.tolist(), strict=True)
    )


def naive_entries(directed, closures=((0, 7, 0.25), (2, 10, 0.0), (0, 3, 1.5)), weights=None):
    found = {}
    for i in range(11):
        if SEQUENCE[i] == SEQUENCE[i + 1]:
            found[i, i + 1] = 1.0 if weights is None else weights[i]
            if not directed:
                found[i + 1, i] = found[i, i + 1]
    for i, j, distance in closures:
        found[i, j] = found[j, i] = distance
    return found


@pytest.mark.parametrize("directed", [False, True])
def test_the_graph_holds_the_transitions_and_closures_of_a_naive_loop(directed):
    graph = build_graph(SEQUENCE, CLOSURES, None, directed, ALL)
    assert entries(graph) == naive_entries(directed) and graph.nnz == (24 if not directed else 15)
    assert graph.has_sorted_indices and graph.has_canonical_format and graph.dtype == np.float32
    assert (graph[4, 5], graph[8, 9]) == (0, 0)  # no transition crosses from sequence to sequence


def test_of_entries_given_twice_the_first_counts_and_zeros_stay():
    rng = np.random.default_rng(0)
    row, column = rng.integers(0, 9, (2, 200))
    value = rng.integers(0, 3, 200).astype(np.float32)
    graph = graph_of_edges(row, column, value, 12)  # rows 9 to 11 are empty
    naive = {}
    for i, j, length in zip(row.tolist(), column.tolist(), value.tolist(), strict=True):
        naive.setdefault((i, j), length)
    assert entries(graph) == naive and list(entries(graph)) == sorted(naive)
    assert len(naive) < 90 and 0.0 in naive.values() and (
        graph.data.dtype, graph.indices.dtype
    ) == (np.float32, np.int32)


def test_a_closure_of_length_zero_is_an_edge():
    graph = build_graph(SEQUENCE, CLOSURES, None, False, ALL)
    path = best_first(graph, 1, 11)
    assert path.nodes == [1, 2, 10, 11] and path.length == 2
    assert connected_parts(graph)[0] == 1 and connected_parts(build_graph(SEQUENCE, near(), None, False, ALL))[0] == 3
    kept = graph[np.arange(12)][:, np.arange(12)]
    assert entries(kept) == entries(graph)  # cutting out frames keeps it


def test_a_directed_graph_leads_forward_along_steps_and_both_ways_over_closures():
    graph = build_graph(SEQUENCE, near((4, 5, 0.5)), None, True, ALL)
    distances = distances_from(graph, np.arange(12))
    assert distances[0, 8] == 4 + 0.5 + 3 and np.isinf(distances[8, 0])
    assert distances[4, 5] == distances[5, 4] == 0.5 and np.isinf(distances[1, 0])


def test_recorded_step_lengths_are_divided_by_their_median():
    length = np.array([2, 4, 6, 8, np.nan, 4, 4, 0, np.nan, 4, 10, np.nan])
    inside = ~np.isnan(length)
    graph = build_graph(SEQUENCE, near((0, 7, 0.25)), length, False, ALL)
    assert np.median(length[inside]) == 4
    assert entries(graph) == naive_entries(False, [(0, 7, 0.25)], weights=length / 4)
    assert np.median(transition_weights(np.flatnonzero(inside), length)) == 1
    assert (7, 8) in entries(graph) and entries(graph)[7, 8] == 0  # a step of length zero is an edge


def test_held_out_frames_are_isolated():
    usable = SEQUENCE != 1
    usable[2] = False
    graph = build_graph(SEQUENCE, near((0, 10, 0.5)), None, False, usable)
    assert set(entries(graph)) == {
        (0, 1), (1, 0), (3, 4), (4, 3), (9, 10), (10, 9), (10, 11), (11, 10), (0, 10), (10, 0)
    }
    degree = np.diff(graph.indptr) + np.bincount(graph.indices, minlength=12)
    assert (degree[~usable] == 0).all() and (degree[usable] > 0).all() and graph.shape == (12, 12)


@pytest.mark.parametrize("directed", [False, True])
def test_closure_entries_are_those_that_were_not_recorded(directed):
    graph = build_graph(SEQUENCE, near((0, 7, 0.25), (2, 10, 0.0), (0, 3, 1.5), (4, 5, 1.0)), None, directed, ALL)
    marked = closure_entries(graph, SEQUENCE)
    found = {pair for pair, closure in zip(entries(graph), marked, strict=True) if closure}
    # 4 - 5 are neighbours in number only
    assert found == {(0, 7), (7, 0), (2, 10), (10, 2), (0, 3), (3, 0), (4, 5), (5, 4)}


def test_edge_rows_name_the_row_of_every_entry():
    graph = build_graph(SEQUENCE, CLOSURES, None, False, ALL)
    assert edge_rows(graph).tolist() == [i for i in range(12) for _ in range(graph.indptr[i], graph.indptr[i + 1])]


def test_a_place_where_one_stood_still_is_left_from_its_first_frame_and_costs_nothing():
    sequence, stretch = np.zeros(6, int), np.array([0, 1, 1, 1, 4, 5])
    none = NearPairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    graph = build_graph(sequence, none, None, False, np.ones(6, bool), stretch)
    assert [float(graph[i, i + 1]) for i in range(5)] == [1, 0, 0, 1, 1] and graph[1, 4] == graph[4, 1] == 1
    assert graph.nnz == 2 * 6  # five recorded steps and one way out, both ways
    assert distances_from(graph, np.array([0]))[0].tolist() == [0, 1, 1, 1, 2, 3]
    assert places(graph, sequence).tolist() == [0, 1, 1, 1, 4, 5]


def test_an_edge_found_twice_stands_once_as_the_recorded_step():
    stretch = np.array([0, 0, 2])
    closure = NearPairs(np.array([0]), np.array([2]), np.array([0.4], np.float32))
    graph = build_graph(np.zeros(3, int), closure, None, False, np.ones(3, bool), stretch)
    assert graph.nnz == 6 and graph[0, 2] == graph[2, 0] == 1


def test_frames_of_one_place_become_one_node_and_recorded_steps_count_before_closures():
    # places 0 1 | 1 2, and a closure 0 - 3 (places 0 and 2), one between the visits of place 1
    sequence = np.array([0, 0, 1, 1])
    closures = near((0, 2, 0.5), (0, 3, 0.9), (1, 2, 0.0))
    graph = build_graph(sequence, closures, None, False, np.ones(4, bool))
    joined = join_equal(graph, sequence, np.array([0, 1, 1, 2]))
    expected = [[0, 1, 0.9], [1, 0, 1], [0.9, 1, 0]]  # 0 - 1 was recorded with length 1, the closure 0.5 does not count
    assert joined.toarray() == pytest.approx(np.array(expected)) and joined.nnz == 6
