"""Direction by evidence: what recordings say about steps that cannot be undone, and graphs that follow time."""

from dataclasses import replace
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
from scipy.sparse import csr_array

from plan2vec.commands.arguments import parse
from plan2vec.config import Config, EmbeddingConfig, head_of
from plan2vec.data import make_sequences
from plan2vec.evaluation import evaluate
from plan2vec.graph.build import edge_rows, graph_of_edges
from plan2vec.graph.direction import (
    EQUAL,
    Evidence,
    Steps,
    choose_direction,
    each_pair_once,
    follow_time,
    given_graph,
    measure_direction,
    measure_flow,
)
from plan2vec.graph.neighbors import NearPairs
from plan2vec.growing import add
from plan2vec.model import load
from plan2vec.pipeline import fit
from plan2vec.runs.struck import judge
from plan2vec.search.shortest_paths import distances_from

EVERY_TORQUE = np.linspace(-2, 2, 9)


def places_of(walk, size):
    """Pairs of frames at the same place of a walk on a ring of this size, at distance 0; next places are 1 apart."""
    first, second = np.triu_indices(len(walk), 1)
    apart = np.abs(walk[first] - walk[second]) % size
    distance = np.minimum(apart, size - apart).astype(np.float32)
    return NearPairs(first, second, distance).select(distance <= 1)


def steps_of(walk):
    moved = np.flatnonzero(walk[1:] != walk[:-1])
    return Steps(moved, moved + 1, np.ones(len(moved), np.float32), len(walk))


def evidence_of(walk, size):
    pairs, steps, rng = places_of(walk, size), steps_of(walk), np.random.default_rng(0)
    turn = walk[:, None] * 2 * np.pi / size
    vectors = np.concatenate((np.cos(turn), np.sin(turn)), axis=1) * size / (2 * np.pi)
    return replace(measure_direction(pairs, steps, rng), flow=measure_flow(vectors, pairs, steps, rng))


def directed_graph(walk, size):
    n, steps = len(walk), steps_of(walk)
    forward = graph_of_edges(steps.start, steps.end, steps.length, n)
    return follow_time(forward, places_of(walk, size), steps)


def test_of_a_ring_walked_one_way_every_step_is_repeated_and_none_is_undone():
    found = evidence_of(np.arange(30) % 10, 10)
    assert (found.undone, found.repeated) == (0, 1) and found.flow > 0.7 and found.is_one_way


def test_of_a_line_walked_both_ways_every_step_is_undone():
    found = evidence_of(np.abs(np.arange(81) % 20 - 10), 1000)
    assert (found.undone, found.repeated) == (1, 1) and not found.is_one_way


def test_a_way_walked_once_shows_no_direction():
    found = evidence_of(np.arange(30), 1000)
    assert (found.undone, found.repeated) == (0, 0) and not found.is_one_way


def test_a_step_so_short_that_its_ends_look_alike_does_not_undo_itself():
    pairs = NearPairs(np.array([0]), np.array([1]), np.array([0.2], np.float32))
    assert measure_direction(pairs, steps_of(np.arange(2)), np.random.default_rng(0)).undone == 0


def test_a_sample_of_the_steps_tells_what_all_of_them_do(monkeypatch):
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.choice([-1, 1], 600, p=[0.2, 0.8])) % 30
    whole = evidence_of(walk, 30)
    monkeypatch.setattr("plan2vec.graph.direction.NUM_JUDGED", 200)
    assert abs(evidence_of(walk, 30).undone - whole.undone) < 0.1 and 0 < whole.undone <= 1


def test_on_a_one_way_ring_the_way_back_leads_once_around():
    walk = np.arange(30) % 10
    length = distances_from(directed_graph(walk, 10), np.arange(30))
    expected = (walk[None] - walk[:, None]) % 10
    np.testing.assert_array_equal(length, expected)  # equal places are 0 apart, both ways


def test_no_hop_of_a_directed_graph_leads_back():
    graph = directed_graph(np.arange(30) % 10, 10)
    ahead = (graph.indices - edge_rows(graph)) % 10
    assert set(ahead.tolist()) == {0, 1} and (graph.data[ahead == 0] <= EQUAL).all()


def test_masses_that_go_on_as_they_go_have_a_flow_and_walkers_have_none():
    rng = np.random.default_rng(0)
    place, speed, states = rng.normal(size=200), rng.normal(size=200), []
    for _ in range(10):
        states.append(np.stack((place, speed), axis=1))
        place, speed = place + 0.3 * speed, speed - 0.3 * place  # on a spring
    masses = np.stack(states, axis=1).reshape(-1, 2)
    walkers = np.cumsum(rng.normal(size=(200, 10, 2)) * 0.4, axis=1).reshape(-1, 2)
    start = np.flatnonzero(np.arange(2000) % 10 < 9)
    steps, (first, second) = Steps(start, start + 1, np.ones(len(start), np.float32), 2000), np.triu_indices(2000, 1)
    flow = []
    for points in (masses, walkers):
        near = NearPairs(first, second, np.linalg.norm(points[first] - points[second], axis=1).astype(np.float32))
        flow.append(measure_flow(points, near.select(near.distance < 0.3), steps, rng))
    assert flow[0] > 0.8 and flow[1] < 0.05


ONE_WAY, BOTH_WAYS = Evidence(0.02, 0.5, 0.8), Evidence(0.4, 0.5, 0.8)


@pytest.mark.parametrize(("config", "evidence", "directed", "words"), [
    (Config(), ONE_WAY, True, "Only 2 % of the recorded steps are ever undone"),
    (Config(), BOTH_WAYS, False, ""),
    (Config(), Evidence(0.0, 0.05, 0.6), True, "Only 0 % of the recorded steps"),  # sparse, but it flows
    (Config(), Evidence(0.02, 0.5, 0.02), False, ""),  # look-alikes go anywhere
    (Config(head="lp"), ONE_WAY, False, "cannot tell there from back"),
    (Config(view="moving", directed=True), BOTH_WAYS, True, ""),
    (Config(directed=False), ONE_WAY, False, ""),
])
def test_what_is_given_goes_before_the_evidence_and_views_of_a_moving_camera_stay_symmetric(
    config, evidence, directed, words
):
    decided, said = choose_direction(evidence, config)
    assert decided == directed and words in said and bool(words) == bool(said)


def test_both_flags_can_be_typed_and_neither_is_a_decision():
    typed = [parse(["fit", "a", "--out", "b", *flag]).config for flag in ((), ("--directed",), ("--no-directed",))]
    assert [config.directed for config in typed] == [None, True, False]
    assert [head_of(config) for config in typed] == ["lp", "mrn", "lp"]


def test_each_pair_counts_once_whichever_way_it_is_joined():
    graph = csr_array(np.array([[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0.0]]))
    once = each_pair_once(graph)
    pairs = zip(edge_rows(graph)[once].tolist(), graph.indices[once].tolist(), strict=True)
    assert sorted(pairs) == [(0, 1), (2, 0), (2, 3)]


def test_a_graph_of_ones_own_is_directed_where_the_way_back_differs():
    ring = graph_of_edges(np.arange(4), (np.arange(4) + 1) % 4, np.ones(4), 4)
    assert given_graph(ring, Config()).directed and not given_graph(ring, Config(head="lp")).directed
    assert not given_graph(csr_array(ring + ring.T), Config()).directed


# ---------------------------------------------------------------------------------------------------- a pendulum


def swing(state, torque):
    """Gymnasium's pendulum: states (..., 2), angle and speed, 0.05 s later."""
    angle, speed = state[..., 0], state[..., 1]
    speed = np.clip(speed + 0.05 * (15 * np.sin(angle) + 3 * torque), -8, 8)
    return np.stack((angle + 0.05 * speed, speed), axis=-1)


def seen(state):
    return np.stack((np.cos(state[..., 0]), np.sin(state[..., 0]), state[..., 1]), axis=-1)


def swings(num_episodes, seed):
    """(episodes * 150, 2) states of random rollouts, and their sequences."""
    rng = np.random.default_rng(seed)
    states = [np.stack((rng.uniform(-np.pi, np.pi, num_episodes), rng.uniform(-1, 1, num_episodes)), axis=1)]
    for _ in range(149):
        states.append(swing(states[-1], rng.uniform(-2, 2, num_episodes)))
    return np.stack(states, axis=1).reshape(-1, 2), np.repeat(np.arange(num_episodes), 150)


STATES, EPISODE = swings(12, 0)
PENDULUM = make_sequences(seen(STATES).astype(np.float32), EPISODE)
BRIEF = Config(embedding=EmbeddingConfig(num_updates=60))


def impossible_share(first, second):
    """Of hops that no torques lead along within three steps, up to half a median step in standardized coordinates."""
    points, recorded = seen(STATES) / seen(STATES).std(axis=0), np.flatnonzero(np.diff(EPISODE) == 0)
    tolerance = 0.5 * np.median(np.linalg.norm(points[recorded + 1] - points[recorded], axis=1))
    here, nearest = STATES[first][:, None], np.full(len(first), np.inf)
    for _ in range(3):
        here = swing(here[:, :, None], EVERY_TORQUE).reshape(len(first), -1, 2)
        apart = np.linalg.norm(seen(here) / seen(STATES).std(axis=0) - points[second][:, None], axis=2)
        nearest = np.minimum(nearest, apart.min(axis=1))
    return float(np.mean(nearest > tolerance))


def hops_of(model):
    starts, goals = np.random.default_rng(1).integers(len(STATES), size=(2, 40))
    plans = [plan.nodes for plan in model.plan_many(starts, goals, "astar") if plan.nodes]
    hops = np.array([hop for nodes in plans for hop in pairwise(nodes)])
    drawn = np.random.default_rng(2).choice(len(hops), min(400, len(hops)), replace=False)
    return hops[drawn].T, len(plans) / len(starts)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pendulum") / "run"
    return fit(PENDULUM, BRIEF, folder, device="cpu")


def test_plans_of_a_pendulum_do_not_run_time_backwards(run):
    recorded = np.flatnonzero(np.diff(EPISODE) == 0)[::7]
    assert impossible_share(recorded, recorded + 1) < 0.01 < 0.7 < impossible_share(recorded + 1, recorded)
    hops, share_found = hops_of(run)
    assert run.directed and not run.head.symmetric and run.reversibility < 0.05
    assert impossible_share(*hops) <= 0.05 and share_found >= 0.7
    assert evaluate(run, costs=False)["reversibility"] == run.reversibility


def test_an_acrobot_is_too_sparse_to_repeat_itself_and_yet_its_plans_follow_time():
    environment = gymnasium.make("Acrobot-v1", max_episode_steps=10_000)
    environment.action_space.seed(0)
    frames = []
    for number in range(10):
        frames.append(environment.reset(seed=number)[0])
        frames += [environment.step(environment.action_space.sample())[0] for _ in range(149)]
    model = fit(make_sequences(np.stack(frames), np.repeat(np.arange(10), 150)), BRIEF, device="cpu")
    assert model.directed and model.built.repeated < 0.1 and model.built.flow > 0.4


def test_no_directed_overrides_the_evidence(run):
    model = fit(PENDULUM, replace(BRIEF, directed=False), device="cpu", local_metric=run.local_metric)
    assert not model.directed and model.head.symmetric and (model.graph != model.graph.T).nnz == 0
    assert impossible_share(*hops_of(model)[0]) > 0.2


def test_a_resumed_and_a_loaded_fit_follow_the_direction_that_was_found(run, tmp_path):
    whole = {name: (run.folder / name).read_bytes() for name in ("graph.npz", "embedding.safetensors", "vectors.npy")}
    for name in ("embedding.safetensors", "vectors.npy", "manifest.json"):
        (run.folder / name).unlink(missing_ok=True)
    again = fit(PENDULUM, BRIEF, run.folder, device="cpu")
    assert again.directed and {name: (run.folder / name).read_bytes() for name in whole} == whole
    again.save(tmp_path / "copy")
    for folder in (run.folder, tmp_path / "copy"):
        loaded = load(folder, "cpu")
        assert loaded.directed and loaded.reversibility == run.reversibility and not loaded.head.symmetric
        assert loaded.vectors.tobytes() == run.vectors.tobytes()


def test_a_directed_map_grows_as_a_directed_map(run, tmp_path):
    run.save(tmp_path / "copy")
    states, episode = swings(2, 7)
    grown = add(tmp_path / "copy", make_sequences(seen(states).astype(np.float32), episode), 5, "cpu").model
    assert grown.directed and grown.radius == run.radius and grown.reversibility == run.reversibility
    new = (edge_rows(grown.graph) >= len(STATES)) != (grown.graph.indices >= len(STATES))
    assert new.any()
    first, second = edge_rows(grown.graph), grown.graph.indices
    steps = (second == first + 1) & (first < len(STATES)) & (second < len(STATES))
    assert len(set(zip(second[steps].tolist(), first[steps].tolist(), strict=True)) & set(
        zip(first.tolist(), second.tolist(), strict=True))) < 0.1 * steps.sum()


def test_a_closure_that_leads_one_way_can_be_struck(run, tmp_path):
    run.save(tmp_path / "copy")
    row, column = edge_rows(run.graph), run.graph.indices
    back_only = np.flatnonzero((row > column + 1) & each_pair_once(run.graph))
    first, second = int(row[back_only[0]]), int(column[back_only[0]])
    judge(tmp_path / "copy", run.graph, EPISODE, [(first, second)])
    assert load(tmp_path / "copy", "cpu").graph.nnz == run.graph.nnz - 1
