"""Plans: greedy, lookahead, memory and circles on tiny worlds; many walks at once against one at a time."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from plan2vec.planner import METHODS, Plan, make_plan, make_plans, walk_many
from plan2vec.search.balls import neighbor_lists
from plan2vec.search.shortest_paths import best_first, distances_from, path_length, shortest_plans


def graph_of(num_nodes, edges):
    rows, columns = np.array(list(edges), int).reshape(-1, 2).T
    return csr_array((np.array(list(edges.values()), float), (rows, columns)), shape=(num_nodes, num_nodes))


def both_ways(edges):
    return edges | {(j, i): weight for (i, j), weight in edges.items()}


def grid(width, height):
    """Frame x + width * y at (x, y), joined to its four neighbours."""
    right = {(x + width * y, x + 1 + width * y): 1.0 for y in range(height) for x in range(width - 1)}
    up = {(x + width * y, x + width * (y + 1)): 1.0 for y in range(height - 1) for x in range(width)}
    return graph_of(width * height, both_ways(right | up))


def exact_distance(graph):
    table = distances_from(graph, np.arange(graph.shape[0])).astype(np.float64)
    return lambda first, second: table[first, second]


def lookup(*to_goal):
    """A distance that depends on the frame alone, for worlds with one goal."""
    return lambda first, second: np.array(to_goal, float)[first]


def random_world(seed, num_nodes=40):
    rng = np.random.default_rng(seed)
    edges = {(i, i + 1): float(rng.uniform(0.5, 1.5)) for i in range(num_nodes - 1)}
    edges |= {(int(i), int(j)): float(rng.uniform(0.5, 3)) for i, j in rng.integers(0, num_nodes, (60, 2)) if i != j}
    return graph_of(num_nodes, both_ways(edges)), rng


# ---------------------------------------------------------------------------------------------------- one plan


@pytest.mark.parametrize("method", METHODS)
def test_with_the_exact_distance_every_method_finds_a_shortest_path(method):
    graph = grid(7, 6)
    distance, table = exact_distance(graph), distances_from(graph, np.arange(42))
    rng = np.random.default_rng(0)
    for start, goal in rng.integers(0, 42, (40, 2)).tolist():
        plan = make_plan(graph, distance, start, goal, method)
        assert (plan.nodes[0], plan.nodes[-1], plan.method) == (start, goal, method)
        assert plan.length == plan.hops == table[start, goal] and path_length(graph, plan.nodes) == plan.length


def test_a_start_that_is_the_goal_is_a_plan_for_free():
    for method in METHODS:
        plan = make_plan(grid(3, 3), exact_distance(grid(3, 3)), 4, 4, method)
        assert plan.nodes == [4] and plan.length == 0 and plan.num_expanded == plan.num_touched == 0


# 2 is a dead end that looks near the goal 5
TRAP = graph_of(6, both_ways({(0, 1): 1, (1, 2): 1, (0, 3): 1, (3, 4): 1, (4, 5): 1}))
TRAP_DISTANCE = lookup(4, 2, 1, 3.5, 3, 0)


def test_greedy_walks_into_a_trap_and_says_so():
    plan = make_plan(TRAP, TRAP_DISTANCE, 0, 5, "greedy")
    assert plan.nodes is None and plan.length is None and plan.hops is None
    assert "greedy goes in a circle at frame 1" in plan.reason and "try lookahead, astar or dijkstra" in plan.reason


def test_a_lookahead_that_fails_recommends_other_methods_only():
    plan = make_plan(TRAP, TRAP_DISTANCE, 0, 5, "lookahead", lookahead=1)
    assert plan.nodes is None and plan.reason == "lookahead goes in a circle at frame 1; try astar or dijkstra"


def test_lookahead_sees_past_the_trap():
    for depth in (1, 2):
        assert make_plan(TRAP, TRAP_DISTANCE, 0, 5, "lookahead", lookahead=depth).nodes is None
    plan = make_plan(TRAP, TRAP_DISTANCE, 0, 5, "lookahead", lookahead=3)
    assert plan.nodes == [0, 3, 4, 5] and plan.length == 3


def test_the_goal_is_recognized_even_where_the_distance_prefers_another_frame():
    graph = graph_of(3, both_ways({(0, 1): 1, (0, 2): 1}))
    assert make_plan(graph, lookup(5, 1, 3), 0, 2, "greedy").nodes == [0, 2]


def test_memory_leaves_a_circle_and_without_it_the_circle_is_detected():
    graph = graph_of(5, both_ways({(0, 1): 1, (1, 2): 1, (2, 3): 1, (3, 4): 1}))
    distance = lookup(1, 2, 3, 4, 0)  # leads away from the goal 4
    without, with_memory = (make_plan(graph, distance, 1, 4, "greedy", memory=memory) for memory in (False, True))
    assert without.nodes is None and "goes in a circle at frame 1" in without.reason and without.num_expanded == 2
    assert with_memory.nodes is None and "stuck at frame 0: every neighbour was visited" in with_memory.reason
    ring = graph_of(5, both_ways({(i, (i + 1) % 5): 1.0 for i in range(5)}))
    distance = lookup(1, 1.5, 3, 0, 2)  # 0 and 1 prefer each other
    for start, expected in ((0, [0, 1, 2, 3]), (1, [1, 0, 4, 3])):
        assert make_plan(ring, distance, start, 3, "greedy").nodes is None
        assert make_plan(ring, distance, start, 3, "greedy", memory=True).nodes == expected


def test_a_frame_that_was_only_passed_on_the_way_is_no_circle():
    graph = graph_of(5, both_ways({(0, 1): 1, (1, 2): 1, (1, 3): 1, (3, 4): 1}))
    plan = make_plan(graph, lookup(5, 2, 1, 9, 0), 0, 4, "lookahead", lookahead=2)
    assert plan.nodes == [0, 1, 2, 1, 3, 4]  # two hops to 2, back to 1, which is seen anew and finds the goal
    assert "circle" in make_plan(graph, lookup(5, 2, 1, 9, 0), 0, 4, "greedy").reason


def test_plans_with_memory_never_enter_a_frame_twice():
    num_found = 0
    for seed in range(40):
        graph, rng = random_world(seed)
        noise = rng.uniform(0, 10, 40)
        plan = make_plan(graph, lookup(*noise), 0, 39, "greedy", memory=True)
        if plan.nodes is not None:
            num_found += 1
            assert len(set(plan.nodes)) == len(plan.nodes) and plan.length == pytest.approx(
                path_length(graph, plan.nodes)
            )
    assert num_found > 10


@pytest.mark.parametrize("method", METHODS)
def test_no_path_is_an_answer(method):
    graph = graph_of(5, both_ways({(0, 1): 1, (2, 3): 1}))
    for start, goal in ((0, 3), (4, 0), (0, 4)):
        plan = make_plan(graph, lookup(0, 1, 2, 3, 4), start, goal, method)
        assert plan.nodes is None and plan.length is None and plan.hops is None and plan.reason
    one_way = graph_of(2, {(0, 1): 1.0})
    assert make_plan(one_way, lookup(1, 0), 0, 1, method).nodes == [0, 1]
    assert make_plan(one_way, lookup(0, 1), 1, 0, method).nodes is None


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="one of greedy, lookahead, astar, dijkstra, but is 'teleport'"):
        make_plan(grid(2, 2), exact_distance(grid(2, 2)), 0, 1, "teleport")


# ---------------------------------------------------------------------------------------------------- cost


def test_search_led_by_the_exact_distance_touches_less_than_dijkstra():
    graph = grid(15, 15)
    distance = exact_distance(graph)
    plans = {method: make_plan(graph, distance, 112, 224, method) for method in METHODS}  # from the centre to a corner
    assert {plan.length for plan in plans.values()} == {14}
    assert plans["greedy"].num_expanded == plans["astar"].num_expanded == 14 < plans["dijkstra"].num_expanded / 10
    assert plans["greedy"].num_touched == plans["astar"].num_touched < 40 < 200 < plans["dijkstra"].num_touched


@pytest.mark.parametrize(("method", "depth"), [("greedy", 1), ("lookahead", 2), ("lookahead", 3)])
def test_the_cost_counts_queries_and_the_distinct_frames_they_returned(method, depth):
    num_walks = 0
    for seed in range(20):
        graph, _ = random_world(seed)
        plan = make_plan(graph, exact_distance(graph), 0, 39, method, lookahead=depth)
        hops = np.array([shortest_plans(graph, np.full(40, node), np.arange(40))[1] for node in range(40)])
        unweighted = distances_from(
            csr_array((np.ones(graph.nnz), graph.indices, graph.indptr), shape=graph.shape), np.arange(40)
        )
        if depth == 1:
            asked = plan.nodes[:-1]
            assert plan.num_expanded == len(asked) and np.isfinite(hops).all()
            assert plan.num_touched == len(set(neighbor_lists(graph, np.array(asked))[1].tolist()))
            num_walks += 1
        elif unweighted[0, 39] <= depth:  # one ball: every frame less than `depth` hops away was asked
            asked = np.flatnonzero(unweighted[0] < depth)
            assert plan.num_expanded == len(asked)
            assert plan.num_touched == len(set(neighbor_lists(graph, asked)[1].tolist()))
            num_walks += 1
    assert num_walks > 0


def test_the_start_is_touched_only_if_a_query_returned_it():
    line = graph_of(3, {(0, 1): 1.0, (1, 2): 1.0})
    assert make_plan(line, lookup(2, 1, 0), 0, 2, "greedy").num_touched == 2
    back = graph_of(3, both_ways({(0, 1): 1.0, (1, 2): 1.0}))
    assert make_plan(back, lookup(2, 1, 0), 0, 2, "greedy").num_touched == 3
    assert make_plan(back, lookup(2, 1, 0), 0, 1, "greedy").num_touched == 1


# ---------------------------------------------------------------------------------------------------- many plans


def naive_ball(graph, start, depth):
    """Nodes and the places they were reached from, by a loop; expanded nodes and all that their queries returned."""
    nodes, parents, expanded, touched = [start], [-1], [], set()
    for _ in range(depth):
        for place in range(len(expanded), len(nodes)):
            expanded.append(nodes[place])
            for neighbor in graph.indices[graph.indptr[nodes[place]] : graph.indptr[nodes[place] + 1]].tolist():
                touched.add(neighbor)
                if neighbor not in nodes:
                    nodes.append(neighbor)
                    parents.append(place)
    return nodes, parents, len(expanded), touched


def naive_plan(graph, table, start, goal, method, depth, memory):
    """One walk or search at a time, as the text of the paper says it."""
    if method == "astar":
        path = best_first(graph, start, goal, lambda nodes: table[nodes, goal])
        return Plan(
            start, goal, method, path.nodes, path.length if path.nodes else None, path.num_expanded, path.num_touched
        )
    walk, visited, touched, num_expanded = [start], {start}, set(), 0
    while walk[-1] != goal:
        nodes, parents, asked, answers = naive_ball(graph, walk[-1], depth)
        num_expanded, touched = num_expanded + asked, touched | answers
        choices = [place for place in range(1, len(nodes)) if not (memory and nodes[place] in visited)]
        if not choices:
            return Plan(start, goal, method, None, None, num_expanded, len(touched))
        place = min(choices, key=lambda place: -1 if nodes[place] == goal else table[nodes[place], goal])
        hops = []
        while place > 0:
            hops.insert(0, nodes[place])
            place = parents[place]
        if hops[-1] in visited:
            return Plan(start, goal, method, None, None, num_expanded, len(touched))
        walk += hops
        visited.update(hops if memory else hops[-1:])
    return Plan(start, goal, method, walk, path_length(graph, walk), num_expanded, len(touched))


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize(("method", "depth"), [("greedy", 1), ("lookahead", 2), ("lookahead", 3), ("astar", 1)])
def test_many_plans_equal_plans_one_at_a_time(monkeypatch, method, depth, memory):
    monkeypatch.setattr("plan2vec.planner.WALKS_AT_ONCE", 100)
    num_found = num_lost = 0
    for seed in range(6):
        graph, rng = random_world(seed)
        table = np.round(exact_distance(graph)(*np.indices((40, 40))) + rng.uniform(0, 9, (40, 40)), 1)  # rounded: ties
        starts, goals = rng.integers(0, 40, (2, 60))
        plans = make_plans(graph, lambda a, b, table=table: table[a, b], starts, goals, method, depth, memory)
        for plan, start, goal in zip(plans, starts.tolist(), goals.tolist(), strict=True):
            expected = naive_plan(graph, table, start, goal, method, depth, memory)
            assert (plan.start, plan.goal, plan.nodes, plan.length) == (start, goal, expected.nodes, expected.length)
            assert (plan.num_expanded, plan.num_touched) == (expected.num_expanded, expected.num_touched)
            assert len(plan.touched) == plan.num_touched
            num_found, num_lost = num_found + (plan.nodes is not None), num_lost + (plan.nodes is None)
    assert num_found > 50 and (num_lost > 0 or memory or method == "astar" or depth == 3)


@pytest.mark.parametrize("method", METHODS)
def test_a_model_plans_many_tasks_as_it_plans_each(islands, method):
    starts, goals = np.random.default_rng(0).integers(96, size=(2, 30))
    plans = islands.plan_many(starts, goals, method)
    assert plans == [islands.plan(int(start), int(goal), method) for start, goal in zip(starts, goals, strict=True)]
    apart = [islands.parts[1][a] != islands.parts[1][b] for a, b in zip(starts, goals, strict=True)]
    assert any(apart) and all(
        "start lies in part" in plan.reason for plan, parted in zip(plans, apart, strict=True) if parted
    )
    assert islands.plan_many(np.array([], int), np.array([], int), method) == []


def test_a_model_refuses_tasks_that_name_no_frames(islands):
    for starts, goals, words in (
        (np.array([96]), np.array([0]), "starts must be frame numbers from 0 to 95, but 96 came"),
        (np.array([0]), np.array([0.5]), "goals must be frame numbers in one dimension, but came as float64"),
        (np.array([0, 1]), np.array([0]), "2 starts and 1 goals"),
    ):
        with pytest.raises(ValueError, match=words):
            islands.plan_many(starts, goals)


def test_frames_that_are_not_on_the_graph_are_refused():
    for method in METHODS:
        with pytest.raises(ValueError, match=r"from 0 to 3, but 4 came"):
            make_plans(grid(2, 2), exact_distance(grid(2, 2)), np.array([0, 4]), np.array([1, 1]), method)


# ---------------------------------------------------------------------------------------------------- many walks


def at_goal(nodes, goals):
    return nodes == goals


def naive_walk(graph, distance, start, goal, max_hops, memory):
    nodes = [start]
    while nodes[-1] != goal and len(nodes) <= max_hops:
        options = graph.indices[graph.indptr[nodes[-1]] : graph.indptr[nodes[-1] + 1]].tolist()
        options = [node for node in options if not (memory and node in nodes)]
        if not options:
            break
        scores = [-1.0 if node == goal else distance(np.array([node]), np.array([goal]))[0] for node in options]
        nodes.append(options[int(np.argmin(scores))])
    return nodes


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_many_walks_at_once_equal_walks_one_at_a_time(memory, directed):
    lengths = []
    for seed in range(10):
        graph, rng = random_world(seed)
        if directed:
            keep = rng.random(graph.nnz) < 0.4
            rows = np.repeat(np.arange(40), np.diff(graph.indptr))
            graph = csr_array((graph.data[keep], (rows[keep], graph.indices[keep])), shape=(40, 40))
        noise = rng.uniform(0, 10, (40, 40))
        starts, goals = rng.integers(0, 40, (2, 60))
        max_hops = rng.integers(0, 25, 60)
        nodes, arrived = walk_many(
            graph, lambda a, b, noise=noise: noise[a, b], starts, goals, max_hops, 0.0, memory, at_goal, rng
        )
        assert nodes.shape == (max_hops.max() + 1, 60)
        for column in range(60):
            start, goal = int(starts[column]), int(goals[column])
            expected = naive_walk(graph, lambda a, b, noise=noise: noise[a, b], start, goal, max_hops[column], memory)
            trace = nodes[:, column]
            assert trace[: len(expected)].tolist() == expected and (trace[len(expected) :] == -1).all()
            assert arrived[column] == (expected[-1] == goal)
            lengths.append(len(expected))
    assert len(set(lengths)) > 8


def test_a_walk_hops_no_more_than_its_own_maximum():
    line = grid(30, 1)
    starts, goals, max_hops = np.zeros(5, int), np.full(5, 10), np.array([0, 5, 9, 10, 20])
    nodes, arrived = walk_many(
        line, exact_distance(line), starts, goals, max_hops, 0.0, False, at_goal, np.random.default_rng(0)
    )
    assert (nodes >= 0).sum(axis=0).tolist() == [1, 6, 10, 11, 11]
    assert arrived.tolist() == [False, False, False, True, True]


def test_arrival_is_asked_before_the_first_hop_and_ends_the_walk():
    line = grid(10, 1)
    near = lambda nodes, goals: np.abs(nodes - goals) <= 2  # noqa: E731
    nodes, arrived = walk_many(
        line, exact_distance(line), np.array([0, 5, 7]), np.array([7, 7, 7]), np.full(3, 9), 0.0, False, near,
        np.random.default_rng(0)
    )
    assert arrived.all() and (nodes >= 0).sum(axis=0).tolist() == [6, 1, 1]


def test_with_epsilon_one_every_neighbour_is_as_likely_also_the_goal():
    star = graph_of(6, both_ways({(0, i): 1.0 for i in range(1, 6)}))
    num = 5000
    goals = np.full(num, 3)
    nodes, arrived = walk_many(
        star, lookup(0, 9, 9, 0, 9, 9), np.zeros(num, int), goals, np.ones(num, int), 1.0, False, at_goal,
        np.random.default_rng(0)
    )
    counts = np.bincount(nodes[1], minlength=6)
    assert counts[0] == 0 and (np.abs(counts[1:] - num / 5) < 4 * math.sqrt(num * 0.2 * 0.8)).all()
    assert arrived.sum() == counts[3]


def test_epsilon_is_the_share_of_random_hops():
    star = graph_of(6, both_ways({(0, i): 1.0 for i in range(1, 6)}))
    num = 5000
    distance = lookup(9, 9, 9, 9, 0, 9)
    nodes, _ = walk_many(
        star, distance, np.zeros(num, int), np.full(num, 5), np.ones(num, int), 0.25, False, lambda a, b: a < 0,
        np.random.default_rng(0)
    )
    counts = np.bincount(nodes[1], minlength=6)
    assert abs(counts[5] / num - (0.75 + 0.25 / 5)) < 0.02  # the goal is recognized by the hops that are not random
    assert abs(counts[4] / num - 0.25 / 5) < 0.015


def test_a_random_walk_stays_on_edges_and_repeats_with_the_same_random_numbers():
    graph, _ = random_world(0)
    distance = exact_distance(graph)
    walks = [
        walk_many(
            graph, distance, np.zeros(20, int), np.full(20, 39), np.full(20, 30), 1.0, False, at_goal,
            np.random.default_rng(5)
        ) for _ in range(2)
    ]
    assert np.array_equal(walks[0][0], walks[1][0])
    for trace in walks[0][0].T.tolist():
        nodes = [node for node in trace if node >= 0]
        assert all(
            graph.indices[graph.indptr[a] : graph.indptr[a + 1]].tolist().count(b) == 1 for a, b in pairwise(nodes)
        )


def test_a_walk_that_stands_alone_ends_where_it_began():
    graph = graph_of(3, both_ways({(0, 1): 1}))
    nodes, arrived = walk_many(
        graph, lookup(0, 0, 0), np.array([2]), np.array([0]), np.array([4]), 0.0, False, at_goal,
        np.random.default_rng(0)
    )
    assert nodes[:, 0].tolist() == [2, -1, -1, -1, -1] and not arrived[0]


def test_no_walks_are_no_walks():
    nothing = np.empty(0, int)
    nodes, arrived = walk_many(
        grid(2, 2), lookup(0, 0, 0, 0), nothing, nothing, nothing, 0.0, False, at_goal, np.random.default_rng(0)
    )
    assert nodes.shape == (1, 0) and arrived.shape == (0,)


def test_neighbour_lists_equal_a_naive_loop():
    graph, rng = random_world(3)
    nodes = rng.integers(0, 40, 25)
    naive = [
        (place, j) for place,
        i in enumerate(nodes) for j in graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist()
    ]
    owner, neighbor = neighbor_lists(graph, nodes)
    assert list(zip(owner.tolist(), neighbor.tolist(), strict=True)) == naive


def test_a_heavier_heuristic_touches_fewer_frames_for_a_plan_at_most_so_much_longer():
    graph = grid(12, 12)
    straight = lambda first, second: np.hypot(first % 12 - second % 12, first // 12 - second // 12)  # noqa: E731
    plain, heavy = (make_plan(graph, straight, 0, 143, "astar", heuristic_weight=weight) for weight in (1.0, 1.5))
    assert plain.length == 22 and heavy.length <= 1.5 * 22
    assert heavy.num_touched < 0.8 * plain.num_touched
