"""Acting in the rooms: what the agent of the experiment needs, on rooms small enough to learn in seconds."""

from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from plan2vec.acting.agent import Agent, AgentConfig, AgentMap
from plan2vec.acting.controller import Controller, ControllerConfig, FuturePairs, PairNetwork, train_controller
from plan2vec.data import Sequences, make_sequences
from plan2vec.domains import maze
from plan2vec.experiments.acting_in_rooms import Actor, has_arrived
from plan2vec.experiments.maze_scene import MazeScene
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import near_pairs
from plan2vec.results.settings import SMOKE

CPU = torch.device("cpu")


class SeenExactly(Actor):
    """The actor with an oracle for eyes: positions in steps instead of vectors of the local metric, and a graph made of them."""

    def __init__(self, room: str, num_rollouts: int, num_episodes: int):
        self.scene = MazeScene(room, 0, replace(SMOKE, max_updates=150, max_batch=128, episodes=num_episodes), CPU)
        self.room = maze.find_room(room)
        self.walks = maze.simulate(room, num_rollouts, seed=0)

    def look(self, frames: np.ndarray) -> np.ndarray:
        return (maze.locate(self.room, frames) / maze.AXIS_STEP).astype(np.float32)

    @cached_property
    def vectors(self) -> Sequences:
        return make_sequences(self.look(self.walks.frames), self.walks.sequence, action=self.walks.action)

    @cached_property
    def places(self) -> AgentMap:
        vectors = self.vectors.frames
        near = near_pairs(vectors, 1.3, 50, CPU)
        near = near.select(self.steps(near.first, near.second) < 2)  # not through a wall
        graph = build_graph(self.walks.sequence, near, None, False, np.ones(len(vectors), bool))
        return AgentMap(vectors, graph, self.steps, vectors, lambda views: views)

    def steps(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return maze.geodesic(self.room.name, self.walks.position[first], self.walks.position[second]) / maze.AXIS_STEP


@pytest.fixture(scope="module")
def rooms() -> SeenExactly:
    return SeenExactly("c-maze", 250, 30)


def test_a_trained_controller_arrives_where_an_untrained_one_does_not(rooms):
    trained, untrained = (rooms.episodes(method).arrived.mean() for method in ("greedy on the map", "greedy, controller untrained"))
    assert trained >= 0.95 and untrained <= 0.4


def test_a_map_leads_around_the_wall_where_the_controller_alone_is_caught(rooms):
    led, alone = (rooms.episodes(method).arrived for method in ("graph search", "controller alone"))
    assert led.mean() - alone.mean() >= 0.15


def test_episodes_are_the_same_for_every_method_and_never_take_more_than_fifty_actions(rooms):
    once, again = (rooms.episodes("random actions") for _ in range(2))
    assert np.array_equal(once.num_actions, again.num_actions)
    assert once.num_actions.max() == 50 and (once.num_actions[~once.arrived] == 50).all()
    measured = rooms.measure("random actions")
    assert measured["success"] == once.arrived.mean() < 0.4


def test_no_map_is_fitted_for_an_agent_that_follows_shortest_paths():
    scene = MazeScene("open", 0, SMOKE, CPU)

    def fit():
        raise AssertionError("nobody asked for a map")

    actor = Actor(scene, scene.large, scene.metric, fit)
    assert actor.episodes("graph search").num_actions.max() > 0
    with pytest.raises(AssertionError, match="nobody asked"):
        actor.episodes("greedy on the map")


def test_arrival_is_within_two_centimetres():
    assert has_arrived(np.array([[0.0, 0.0], [0.0, 0.0]]), np.array([[0.0199, 0.0], [0.015, 0.015]])).tolist() == [True, False]


def test_steps_that_changed_nothing_are_not_imitated():
    frames = np.array([[0.0], [0.0], [1.0], [2.0], [2.0], [5.0], [6.0]], np.float32)  # the second sequence begins at 5
    pairs = FuturePairs(np.array([0, 0, 0, 0, 0, 1, 1]), 10).where_moved(frames)
    assert pairs.first.tolist() == [1, 2, 5] and pairs.ahead.tolist() == [3, 2, 1]


class Stubborn(PairNetwork):
    """Prefers the actions in the order of their numbers, whatever it sees."""

    def __init__(self):
        torch.nn.Module.__init__(self)
        self.preference = torch.nn.Parameter(-torch.arange(4.0))

    def forward(self, images, goals):
        return self.preference.expand(len(images), 4).clone()


def test_an_action_that_changed_nothing_is_not_repeated_until_something_changes():
    vectors = np.zeros((2, 1), np.float32)
    graph = csr_array(np.array([[0, 1], [1, 0.0]]))
    places = AgentMap(vectors, graph, lambda nodes, goals: np.zeros(len(nodes)), vectors, lambda views: views)
    agent = Agent(Controller(Stubborn(), np.arange(4)[:, None]), places, AgentConfig(method="direct"))
    agent.reset(np.ones(1, np.float32))
    actions = [int(agent.act(np.array([view], np.float32))[0]) for view in (0, 0, 0, 1, 1, 0)]
    assert actions == [0, 1, 2, 0, 1, 0]
    agent.reset(np.ones(1, np.float32))
    views = (0, 1e-7, 2e-7, 1, 1)  # of the same frame thrice, each time in a batch of another size
    actions = [int(agent.act_many(np.array([[view]], np.float32), None, np.full((1, 2, 2), view >= 1))[0, 0]) for view in views]
    assert actions == [0, 1, 2, 0, 1]
    agent.reset(np.ones(1, np.float32))
    view = np.zeros(1, np.float32)
    assert int(agent.act(view)[0]) == 0
    view[:] = 1  # the environment writes into the array it showed
    assert int(agent.act(view)[0]) == 0


def test_recorded_actions_are_what_a_controller_needs():
    walks = maze.simulate("open", 3, seed=0)
    moved = maze.step(maze.ROOMS["open"], walks.position[:9], maze.ACTIONS[walks.action[:9, 0]])
    assert np.allclose(moved, walks.position[1:10]) and (walks.action[9::10] == -1).all()
    with pytest.raises(ValueError, match="recorded actions, but none"):
        train_controller(replace(walks, action=None), ControllerConfig(), 0, CPU)
