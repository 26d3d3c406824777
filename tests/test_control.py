"""Acting: the controller imitates what led to a frame, the agent walks the map around a wall."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from plan2vec.acting.agent import Agent, AgentConfig, AgentMap, agent_map
from plan2vec.acting.controller import Controller, ControllerConfig, FuturePairs, train_controller
from plan2vec.data import make_sequences
from plan2vec.domains import maze
from plan2vec.planner import hop_lengths
from plan2vec.search.shortest_paths import distances_from

CPU = torch.device("cpu")
WALL = 0.6  # of the room 1 x 1: at x = 0.5, up to this y


def step(position, action):
    """A point in a room with a wall that leaves a gap above; a step is at most 0.1 long in each direction, and walls
    stop it.
    """
    moved = np.clip(position + 0.1 * np.clip(action, -1, 1), 0, 1)
    crosses = ((position[..., 0] < 0.5) != (moved[..., 0] < 0.5)) & (moved[..., 1] < WALL)
    return np.where(crosses[..., None], position, moved)


def recorded_walks(num_walks=60, num_steps=20, seed=0):
    rng = np.random.default_rng(seed)
    position = rng.random((num_walks, 2))
    frames, actions = [position], rng.uniform(-1, 1, (num_steps, num_walks, 2))
    for action in actions[:-1]:
        frames.append(step(frames[-1], action))
    frames = np.stack(frames, axis=1).reshape(-1, 2)
    return make_sequences(
        frames, np.repeat(np.arange(num_walks), num_steps), action=actions.transpose(1, 0, 2).reshape(-1, 2)
    )


@pytest.fixture(scope="module")
def sequences():
    return recorded_walks()


@pytest.fixture(scope="module")
def controller(sequences) -> Controller:
    return train_controller(sequences, ControllerConfig(max_ahead=3, num_updates=250), seed=0, device=CPU)


@pytest.fixture(scope="module")
def places():
    """A grid of nodes, 0.1 apart; no hop crosses the wall; distances are exact."""
    frames = np.stack(
        np.meshgrid(np.arange(0.05, 1, 0.1), np.arange(0.05, 1, 0.1)), axis=-1
    ).reshape(-1, 2).astype(np.float32)
    apart = np.linalg.norm(frames[:, None] - frames, axis=2)
    crosses = ((frames[:, None, 0] < 0.5) != (frames[:, 0] < 0.5)) & (
        (frames[:, None, 1] < WALL) | (frames[:, 1] < WALL)
    )
    graph = csr_array(np.where((apart < 0.15) & ~crosses, apart / 0.1, 0))
    exact = distances_from(graph, np.arange(len(frames)))
    return AgentMap(
        frames, graph, lambda nodes, goals: exact[nodes, goals], frames / 0.1,
        lambda seen: np.asarray(seen / 0.1, np.float32)
    )


def act_out(agent, starts, goals, max_steps=60):
    """Share of the episodes that come within half a step of the goal."""
    agent.reset_many(goals)
    position, arrived = starts.astype(np.float32), np.zeros(len(starts), bool)
    for _ in range(max_steps):
        running = np.flatnonzero(~arrived)
        position[running] = step(position[running], agent.act_many(position[running], running))
        arrived |= np.linalg.norm(position - goals, axis=1) < 0.05
        if arrived.all():
            break
    return arrived.mean()


def across(num=20):
    """Starts left and goals right of the wall, both below the gap."""
    rng = np.random.default_rng(5)
    starts, goals = rng.random((2, num, 2)).astype(np.float32)
    return starts * (0.4, 0.5), (goals * (0.4, 0.5) + (0.6, 0)).astype(np.float32)


def test_a_controller_heads_for_a_near_goal(controller):
    frames = np.full((4, 2), 0.25, np.float32)
    goals = frames + np.array([[0.08, 0], [-0.08, 0], [0, 0.08], [0, -0.08]], np.float32)
    action = controller.act(frames, goals)
    wanted = (goals - frames) / 0.08
    assert (np.sum(action * wanted, axis=1) > 0.3).all()
    assert (np.abs(action[[0, 1], 1]) < 0.2).all()


def test_actions_stay_within_the_recorded_ones(sequences, controller):
    action = controller.act(np.zeros((1, 2), np.float32), np.full((1, 2), 50, np.float32))
    assert (np.abs(action) <= np.abs(sequences.action).max()).all()


def test_integer_actions_are_choices():
    moves = np.array([[0.1, 0], [-0.1, 0], [0, 0.1], [0, -0.1]])
    choice = np.random.default_rng(0).integers(4, size=(50, 20))
    frames = np.cumsum(moves[choice], axis=1) - moves[choice]
    recorded = make_sequences(frames.reshape(-1, 2), np.repeat(np.arange(50), 20), action=choice.reshape(-1, 1) + 7)
    controller = train_controller(recorded, ControllerConfig(max_ahead=1, num_updates=200), seed=0, device=CPU)
    here = np.zeros((4, 2), np.float32)
    assert controller.act(here, here + moves.astype(np.float32))[:, 0].tolist() == [7, 8, 9, 10]


def test_the_same_seed_gives_the_same_controller(sequences):
    first, second = (train_controller(sequences, ControllerConfig(num_updates=5), seed=3, device=CPU) for _ in range(2))
    assert all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )


def test_recordings_without_actions_are_refused(sequences):
    with pytest.raises(ValueError, match="learns from recorded actions, but none are there"):
        train_controller(replace(sequences, action=None), ControllerConfig(), seed=0, device=CPU)


def test_goals_lie_ahead_in_the_same_sequence():
    sequence = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 2])
    pairs = FuturePairs(np.arange(len(sequence))[:, None], sequence, max_ahead=3)
    frame, goal = pairs.draw(500, np.random.default_rng(0))
    assert (sequence[frame] == sequence[goal]).all() and (goal > frame).all() and (goal - frame).max() == 3


def test_the_controller_alone_does_not_pass_the_wall(controller, places):
    assert act_out(Agent(controller, places, AgentConfig(method="direct")), *across()) < 0.2


@pytest.mark.parametrize("method", ["graph", "greedy", "lookahead", "astar"])
def test_an_agent_reaches_its_goals_around_the_wall(controller, places, method):
    agent = Agent(controller, places, AgentConfig(method=method, ahead=2, off_path=3, patience=10))
    assert act_out(agent, *across()) == 1


def test_an_agent_that_is_moved_off_its_plan_makes_a_new_one(controller, places):
    agent = Agent(controller, places, AgentConfig(ahead=2, off_path=3))
    agent.reset(np.array([0.9, 0.1], np.float32))
    agent.act(np.array([0.1, 0.1], np.float32))
    agent.act(np.array([0.12, 0.15], np.float32))
    assert agent.num_plans == 1
    agent.act(np.array([0.9, 0.9], np.float32))
    assert agent.num_plans == 2


def test_a_heavier_heuristic_touches_fewer_nodes_for_a_plan_at_most_so_much_longer(controller, places):
    touched = set()

    def straight(nodes, goals):
        touched.update(np.ravel(nodes).tolist())
        return np.linalg.norm(places.vectors[nodes] - places.vectors[goals], axis=-1)

    lengths, num_touched = [], []
    for weight in (1.0, 1.5):
        touched.clear()
        config = AgentConfig("astar", heuristic_weight=weight)
        plan = Agent(controller, replace(places, distance=straight), config).plan(0, 9)
        lengths.append(sum(hop_lengths(places.graph, plan)))
        num_touched.append(len(touched))
    assert lengths[0] <= lengths[1] <= 1.5 * lengths[0] and num_touched[1] < num_touched[0]


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="method must be one of direct, graph, greedy, lookahead, astar"):
        AgentConfig(method="dijkstra")


def test_an_agent_acts_on_the_map_of_a_fit(room):
    controller = train_controller(room.sequences, ControllerConfig(num_updates=3, max_ahead=2), seed=0, device=CPU)
    places = agent_map(room)
    agent = Agent(controller, places)
    agent.reset(places.frames[-1])
    assert agent.act(places.frames[0])[0] in range(len(maze.ACTIONS))
    assert places.locate(places.vectors[[5]]).tolist() == [5]
