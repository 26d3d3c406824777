"""Search against scipy, networkx and naive loops; counts and refusals on tiny graphs."""

import math
import subprocess
import sys
from itertools import pairwise

import networkx
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

import plan2vec.search.shortest_paths
from plan2vec.search.balls import balls
from plan2vec.search.shortest_paths import (
    best_first,
    choose_workers,
    connected_parts,
    distances_from,
    path_length,
    paths_from,
    run_side_by_side,
    shortest_plans,
)


def graph_of(num_nodes, edges):
    """edges: {(from, to): weight}; a weight of zero is stored."""
    rows, columns = np.array(list(edges), int).reshape(-1, 2).T
    return csr_array((np.array(list(edges.values()), float), (rows, columns)), shape=(num_nodes, num_nodes))


def both_ways(edges):
    return edges | {(j, i): weight for (i, j), weight in edges.items()}


def random_edges(rng, continuous=False):
    """A small random graph with one-way edges, zero weights and unreachable nodes."""
    num_nodes = int(rng.integers(2, 13))
    present = rng.random((num_nodes, num_nodes)) < rng.choice([0.1, 0.2, 0.4])
    np.fill_diagonal(present, False)
    pairs = [(int(i), int(j)) for i, j in np.argwhere(present)]
    weights = rng.random(len(pairs)) if continuous else rng.choice([0.0, 0.0, 0.3, 1.0, 1.7, 10.0], len(pairs))
    edges = dict(zip(pairs, weights.tolist(), strict=True))
    return num_nodes, both_ways(edges) if rng.random() < 0.3 else edges


def random_tasks(num, seed, continuous=False):
    """(edges, graph, start, goal) each."""
    rng = np.random.default_rng(seed)
    for _ in range(num):
        num_nodes, edges = random_edges(rng, continuous)
        start, goal = (int(node) for node in rng.integers(0, num_nodes, 2))
        yield edges, graph_of(num_nodes, edges), start, goal


def networkx_of(graph):
    rows, columns = graph.tocoo().coords
    directed = networkx.DiGraph()
    directed.add_nodes_from(range(graph.shape[0]))
    directed.add_weighted_edges_from(zip(rows.tolist(), columns.tolist(), graph.data.tolist(), strict=True))
    return directed


def assert_is_path(path, edges, start, goal):
    """The nodes really lead from start to goal over edges, and their weights sum to the length."""
    assert path.nodes[0] == start and path.nodes[-1] == goal
    assert sum(edges[edge] for edge in pairwise(path.nodes)) == pytest.approx(path.length, abs=1e-12)


def true_distance_to(graph, goal):
    return dijkstra(graph.T.tocsr(), indices=goal)


def lookup(estimates):
    return lambda nodes: np.asarray(estimates)[nodes]


# ---------------------------------------------------------------------------------------------------- one start, one
# goal


def test_shortest_paths_equal_those_of_scipy_and_networkx_on_a_thousand_graphs():
    num_unreachable = num_zero_weight = num_one_way = 0
    for edges, graph, start, goal in random_tasks(1000, seed=0):
        path = best_first(graph, start, goal)
        assert path.length == dijkstra(graph, indices=start)[goal]
        lengths = networkx.single_source_dijkstra_path_length(networkx_of(graph), start)
        assert path.length == lengths.get(goal, math.inf)
        if path.nodes is None:
            assert path.length == math.inf
            num_unreachable += 1
        else:
            assert_is_path(path, edges, start, goal)
            num_zero_weight += any(edges[edge] == 0 for edge in pairwise(path.nodes))
        num_one_way += any((j, i) not in edges for i, j in edges)
    assert min(num_unreachable, num_zero_weight, num_one_way) > 50


def test_a_star_is_exact_for_every_heuristic_that_never_overestimates():
    rng = np.random.default_rng(1)
    num_inconsistent = 0
    for edges, graph, start, goal in random_tasks(1000, seed=2):
        true = true_distance_to(graph, goal)
        estimates = np.where(
            np.isinf(true), rng.choice([5.0, math.inf]), np.where(np.isinf(true), 0, true) * rng.random(len(true))
        )
        num_inconsistent += any(estimates[i] > weight + estimates[j] for (i, j), weight in edges.items())
        path = best_first(graph, start, goal, lookup(estimates))
        assert path.length == pytest.approx(true[start], abs=1e-12)
        if path.nodes is not None:
            assert_is_path(path, edges, start, goal)
    assert num_inconsistent > 300


@pytest.mark.parametrize("weight", [1.5, 3.0])
def test_weighted_a_star_is_at_most_its_weight_too_long(weight):
    rng = np.random.default_rng(3)
    num_longer = 0
    for edges, graph, start, goal in random_tasks(500, seed=4, continuous=True):
        true = true_distance_to(graph, goal)
        estimates = np.where(np.isinf(true), 0, true) * rng.choice([0, 1], len(true))
        path = best_first(graph, start, goal, lookup(estimates), heuristic_weight=weight)
        assert path.length <= weight * true[start] + 1e-12
        if path.nodes is not None:
            assert_is_path(path, edges, start, goal)
            num_longer += path.length > true[start] + 1e-12
    assert num_longer > 0


def test_greedy_search_finds_a_path_wherever_there_is_one_and_expands_no_node_twice():
    rng = np.random.default_rng(5)
    for edges, graph, start, goal in random_tasks(500, seed=6):
        path = best_first(graph, start, goal, lookup(rng.random(graph.shape[0])), cost_weight=0)
        assert (path.nodes is None) == np.isinf(dijkstra(graph, indices=start)[goal])
        assert path.num_expanded <= graph.shape[0]
        if path.nodes is not None:
            assert_is_path(path, edges, start, goal)


def test_a_cheap_detour_beats_an_expensive_edge():
    graph = csr_array(np.array([[0, 1, 10], [1, 0, 1], [10, 1, 0.0]]))
    path = best_first(graph, start=0, goal=2)
    assert path.nodes == [0, 1, 2] and path.length == 2


def test_an_edge_of_weight_zero_is_an_edge():
    graph = graph_of(3, {(0, 1): 0, (1, 2): 0, (0, 2): 0.5})
    assert graph.nnz == 3
    assert best_first(graph, 0, 2).nodes == [0, 1, 2] and best_first(graph, 0, 2).length == 0
    assert distances_from(graph, [0]).tolist() == [[0, 0, 0]]
    assert connected_parts(graph)[0] == 1


def test_a_one_way_edge_is_not_walked_backwards():
    graph = graph_of(2, {(0, 1): 1})
    assert best_first(graph, 0, 1).nodes == [0, 1]
    assert best_first(graph, 1, 0).nodes is None and best_first(graph, 1, 0).length == math.inf


def test_a_node_is_expanded_again_when_a_cheaper_way_to_it_appears():
    graph = graph_of(4, {(0, 1): 1, (0, 2): 3, (1, 2): 1, (2, 3): 10})
    path = best_first(graph, 0, 3, lookup([0, 11, 0, 0]))  # admissible, but 11 > 1 + 0
    assert path.nodes == [0, 1, 2, 3] and path.length == 12
    assert path.num_expanded == 4 and path.num_touched == 3  # 0, 2, 1, and 2 again; 1, 2, 3 came back


def test_counts_on_a_line():
    line = graph_of(10, both_ways({(i, i + 1): 1 for i in range(9)}))
    from_the_middle = best_first(line, 4, 7)
    assert from_the_middle.num_expanded == 6 and from_the_middle.num_touched == 8  # 2..6 and one of 1, 7; seen 0..7
    straight = best_first(line, 4, 7, lambda nodes: np.abs(nodes - 7))
    assert straight.nodes == [4, 5, 6, 7]
    assert straight.num_expanded == 3 and straight.num_touched == 5  # 4, 5, 6; seen 3..7


def test_an_exact_heuristic_expands_only_the_path_on_a_grid_full_of_ties():
    grid = csr_array(networkx.to_scipy_sparse_array(networkx.grid_graph((15, 15)), dtype=float))
    exact = distances_from(grid, [224])[0]
    path = best_first(grid, 0, 224, lookup(exact))
    assert path.length == 28 and path.num_expanded == 28
    assert best_first(grid, 0, 224).num_expanded > 200


def test_the_heuristic_is_asked_once_for_each_node_touched():
    graph = graph_of(4, {(0, 1): 1, (0, 2): 3, (1, 2): 1, (2, 3): 10})
    asked = []
    path = best_first(graph, 0, 3, lambda nodes: asked.extend(nodes.tolist()) or np.array([0, 11, 0, 0])[nodes])
    assert sorted(asked) == [1, 2, 3] and path.num_touched == 3


def test_a_start_that_is_the_goal_is_a_path_of_one_node_for_free():
    graph = graph_of(2, {(0, 1): 1})
    for start in (0, 1):
        path = best_first(graph, start, start)
        assert path.nodes == [start] and path.length == 0 and path.num_expanded == 0 and path.num_touched == 0


def test_path_length_of_a_missing_edge_is_infinite():
    graph = graph_of(3, {(0, 1): 2, (1, 2): 0})
    assert path_length(
        graph, [0, 1, 2]
    ) == 2 and path_length(graph, [0]) == 0 and path_length(graph, [0, 2]) == math.inf


def test_refusals_say_what_was_expected_and_what_came():
    graph = graph_of(3, {(0, 1): 1})
    with pytest.raises(ValueError, match="from 0 to 2, but 3 came"):
        best_first(graph, 0, 3)
    with pytest.raises(ValueError, match="from 0 to 2, but -1 came"):
        best_first(graph, -1, 0)
    with pytest.raises(ValueError, match="from 0 to 2, but 7 came"):
        distances_from(graph, [0, 7])
    with pytest.raises(ValueError, match="frame numbers .* float64"):
        best_first(graph, 0.5, 1)
    with pytest.raises(ValueError, match=r"return 1 numbers.*shape \(1,\) with 1 NaN"):
        best_first(graph, 0, 1, lambda nodes: np.full(len(nodes), np.nan))
    with pytest.raises(ValueError, match="cost_weight is -1"):
        best_first(graph, 0, 1, cost_weight=-1)
    with pytest.raises(ValueError, match="depth .* is -1"):
        balls(graph, np.array([0]), -1)


# ---------------------------------------------------------------------------------------------------- one start, some
# hops


def ways_of(found, starts):
    """[start, ..., node] of every node of the balls."""
    ways = [[starts[owner]] for owner in found.owner]
    for which, nodes in found.hops_to(np.arange(len(found.nodes))):
        for place, node in zip(which.tolist(), nodes.tolist(), strict=True):
            ways[place].append(node)
    return ways


@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_a_ball_holds_the_nodes_within_its_hops_nearest_first(depth):
    for edges, graph, start, _goal in random_tasks(200, seed=10):
        found = balls(graph, np.array([start]), depth)
        hops = networkx.single_source_shortest_path_length(networkx_of(graph), start, cutoff=depth)
        ways = ways_of(found, starts=[start])
        assert {way[-1]: len(way) - 1 for way in ways} == hops and len(ways) == len(hops)
        assert all(way[0] == start and all(edge in edges for edge in pairwise(way)) for way in ways)
        assert [way[-1] for way in ways] == found.nodes.tolist()
        assert sorted(map(len, ways)) == list(map(len, ways))
        expanded = {node for node, distance in hops.items() if distance < depth}
        assert found.num_expanded.tolist() == [len(expanded)]
        assert len(found.nodes) - 1 + found.start_touched[0] == len({j for i, j in edges if i in expanded})


@pytest.mark.parametrize("depth", [1, 3])
def test_many_balls_are_one_ball_after_another(depth):
    for _edges, graph, _start, _goal in random_tasks(50, seed=15):
        starts = np.random.default_rng(0).integers(graph.shape[0], size=7)
        found, alone = balls(graph, starts, depth), [balls(graph, starts[k : k + 1], depth) for k in range(7)]
        assert np.array_equal(found.nodes, np.concatenate([one.nodes for one in alone]))
        assert np.array_equal(found.owner, np.repeat(np.arange(7), [len(one.nodes) for one in alone]))
        ways = [way for one, start in zip(alone, starts.tolist(), strict=True) for way in ways_of(one, [start])]
        assert ways_of(found, starts.tolist()) == ways
        assert found.num_expanded.tolist() == [int(one.num_expanded[0]) for one in alone]
        assert found.start_touched.tolist() == [bool(one.start_touched[0]) for one in alone]


# ---------------------------------------------------------------------------------------------------- many sources, all
# nodes


@pytest.fixture(scope="module")
def large():
    """300 nodes on a ring, with one-way chords, zero weights, and 20 more nodes that nothing leads to."""
    rng = np.random.default_rng(11)
    ring = both_ways({(i, (i + 1) % 300): float(rng.choice([0, 1, 1.7])) for i in range(300)})
    chords = {(int(i), int(j)): float(rng.uniform(5, 9)) for i, j in rng.integers(0, 300, (200, 2)) if i != j}
    return graph_of(320, chords | ring | {(300 + i, i): 1.0 for i in range(20)})


def test_distances_from_sources_equal_networkx(large):
    sources = np.array([0, 7, 310])
    distances = distances_from(large, sources)
    assert distances.dtype == np.float32 and distances.shape == (3, 320)
    for row, source in zip(distances, sources.tolist(), strict=True):
        expected = networkx.single_source_dijkstra_path_length(networkx_of(large), source)
        assert row.tolist() == pytest.approx([expected.get(node, math.inf) for node in range(320)], rel=1e-6)
    assert np.isinf(distances[0, 300:]).all()


def search_in_all_cores(monkeypatch, num_cores):
    """However little there is to search."""
    monkeypatch.setattr(plan2vec.search.shortest_paths, "SECONDS_TO_START", -1.0)
    monkeypatch.setattr("os.cpu_count", lambda: num_cores)


@pytest.mark.parametrize("num_workers", [2, 3])
def test_distances_and_predecessors_are_the_same_for_any_number_of_workers(large, num_workers, monkeypatch):
    sources = np.random.default_rng(12).choice(320, 200, replace=False)
    alone = paths_from(large, sources)
    search_in_all_cores(monkeypatch, num_workers)
    assert choose_workers(large, 200) == num_workers
    together = paths_from(large, sources)
    for ours, theirs in zip(alone, together, strict=True):
        assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
    assert np.array_equal(distances_from(large, sources), alone[0])


def test_predecessors_lead_back_to_the_source_over_edges_of_the_right_length(large):
    distances, predecessors = paths_from(large, [5])
    for node in range(320):
        way = [node]
        while predecessors[0, way[-1]] >= 0:
            way.append(int(predecessors[0, way[-1]]))
        if np.isinf(distances[0, node]):
            assert way == [node]
        else:
            assert way[-1] == 5 and path_length(large, way[::-1]) == pytest.approx(distances[0, node], rel=1e-6)


def test_no_sources_and_more_cores_than_sources_are_fine(large, monkeypatch):
    alone = distances_from(large, [3, 4])
    search_in_all_cores(monkeypatch, 5)
    assert [choose_workers(large, num_sources) for num_sources in (1, 2, 9)] == [1, 2, 5]
    assert distances_from(large, np.array([], int)).shape == (0, 320)
    assert np.array_equal(distances_from(large, [3, 4]), alone)


def test_a_small_search_starts_no_workers(large):
    assert choose_workers(large, 320) == 1


def test_wide_indices_and_narrow_weights_are_accepted(large):
    wide = csr_array(
        (large.data.astype(np.float32), large.indices.astype(np.int64), large.indptr.astype(np.int64)),
        shape=large.shape
    )
    assert np.allclose(distances_from(wide, [0, 1]), distances_from(large, [0, 1]), rtol=1e-6)
    assert best_first(wide, 0, 150).length == pytest.approx(best_first(large, 0, 150).length, rel=1e-6)


def test_workers_run_from_a_script_without_a_main_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nfrom scipy.sparse import csr_array\n"
        "from plan2vec.search import shortest_paths\n"
        "shortest_paths.choose_workers = lambda graph, num_sources: 2\n"
        "print(shortest_paths.distances_from(csr_array(np.array([[0, 2.0], [3.0, 0]])), [0, 1]).tolist())\n"
    )
    done = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[[0.0, 2.0], [3.0, 0.0]]\n", done.stderr


def test_a_failing_worker_is_reported_with_its_message():
    with pytest.raises(RuntimeError, match="exit code 1: out of luck"):
        run_side_by_side(
            [
                [sys.executable, "-c", "import sys; sys.exit('out of luck')"],
                [sys.executable, "-c", "import time; time.sleep(60)"]
            ]
        )


def test_shortest_plans_have_the_hops_of_the_only_shortest_path():
    for _edges, graph, start, _goal in random_tasks(200, seed=13, continuous=True):
        nodes = np.arange(graph.shape[0])
        paths = networkx.single_source_dijkstra_path(networkx_of(graph), start)
        expected = [len(paths[node]) - 1 if node in paths else math.inf for node in nodes.tolist()]
        assert shortest_plans(graph, np.full(len(nodes), start), nodes)[1].tolist() == expected


def test_shortest_plans_have_the_hops_of_a_naive_loop_over_predecessors(large):
    goals, nodes = np.arange(0, 320, 3), np.arange(320)
    assert len(goals) > plan2vec.search.shortest_paths.SOURCES_AT_ONCE
    distances, predecessors = paths_from(large.T.tocsr(), goals)
    starts, ends = np.tile(nodes, len(goals)), np.repeat(goals, len(nodes))
    length, hops, farthest = (found.reshape(-1, 320) for found in shortest_plans(
        large, starts, ends, lambda node, following: np.maximum(node, following)))
    assert np.array_equal(length, distances)
    for row in range(0, len(goals), 10):
        for node in range(320):
            count, place, largest = 0, node, 0
            while predecessors[row, place] >= 0:
                largest = max(largest, place, predecessors[row, place])
                count, place = count + 1, predecessors[row, place]
            none = np.isinf(distances[row, node])
            assert hops[row, node] == (math.inf if none else count)
            assert farthest[row, node] == (math.inf if none else largest)


def test_shortest_plans_along_a_line_have_as_many_hops_as_it_is_long():
    line, nodes = graph_of(100, {(i, i + 1): 0.5 for i in range(99)}), np.arange(100)
    assert shortest_plans(line, np.zeros(100, int), nodes)[1].tolist() == list(range(100))
    assert shortest_plans(line, np.full(100, 40), nodes)[1].tolist() == [math.inf] * 40 + list(range(60))


# ---------------------------------------------------------------------------------------------------- parts


@pytest.mark.parametrize(
    ("connection", "oracle"),
    [("weak", networkx.weakly_connected_components), ("strong", networkx.strongly_connected_components)],
)
def test_parts_equal_those_of_networkx_the_largest_first(connection, oracle):
    for _edges, graph, _start, _goal in random_tasks(200, seed=14):
        num_parts, labels = connected_parts(graph, connection)
        parts = [frozenset(np.flatnonzero(labels == part).tolist()) for part in range(num_parts)]
        assert set(parts) == set(map(frozenset, oracle(networkx_of(graph))))
        assert parts == sorted(parts, key=lambda part: (-len(part), min(part)))


def test_a_one_way_edge_joins_weakly_but_not_strongly():
    graph = graph_of(4, {(2, 3): 1})
    assert connected_parts(graph)[1].tolist() == [1, 2, 0, 0]
    assert connected_parts(graph, "strong")[0] == 4
