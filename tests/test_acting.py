"""What an agent learns from recorded actions, and what it does where nothing changes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from plan2vec.acting.agent import Agent, AgentConfig, AgentMap
from plan2vec.acting.controller import Controller, ControllerConfig, FuturePairs, PairNetwork, train_controller
from plan2vec.domains import maze

CPU = torch.device("cpu")


def test_steps_that_changed_nothing_are_not_imitated():
    frames = np.array([[0.0], [0.0], [1.0], [2.0], [2.0], [5.0], [6.0]], np.float32)  # the second sequence begins at 5
    pairs = FuturePairs(frames, np.array([0, 0, 0, 0, 0, 1, 1]), 10)
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
