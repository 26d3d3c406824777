"""Adam in pieces is Adam, and its checkpoints know nothing of pieces."""

import numpy as np
import torch
from torch import nn

from plan2vec.learning.adam import Adam


def make(piece, seed=0):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 2))
    return network, Adam(network.parameters(), 0.01, piece)


def make_updates(network, optimizer, first, num):
    for update in range(first, first + num):
        optimizer.set_rate(0.01 / (1 + update))
        optimizer.zero_grad()
        network(torch.from_numpy(np.random.default_rng(update).normal(size=(8, 3))).float()).square().sum().backward()
        optimizer.step()


def numbers(network):
    return torch.cat([parameter.detach().reshape(-1) for parameter in network.parameters()]).numpy()


def test_in_pieces_parameters_move_as_whole_ones_do_and_as_torch_moves_them():
    (whole, first), (cut, second) = make(0), make(7)
    assert max(len(parts) for parts in first.pieces) == 1 and [len(parts) for parts in second.pieces] == [18, 6, 12, 1]
    before = numbers(whole)
    make_updates(whole, first, 0, 5)
    make_updates(cut, second, 0, 5)
    np.testing.assert_array_equal(numbers(whole), numbers(cut))
    assert np.abs(numbers(whole) - before).max() > 0.01
    theirs, _ = make(0)
    torchs = torch.optim.Adam(theirs.parameters())
    torchs.set_rate = lambda rate: torchs.param_groups[0].update(lr=rate)
    make_updates(theirs, torchs, 0, 5)
    np.testing.assert_array_equal(numbers(whole), numbers(theirs))


def test_what_one_remembers_another_goes_on_with_however_the_parameters_are_cut():
    whole, optimizer = make(0)
    make_updates(whole, optimizer, 0, 3)
    state = {
        number: {name: value.clone() for name, value in values.items()} for number, values in optimizer.state().items()
    }
    assert [
        values["exp_avg"].shape for values in state.values()
    ] == [parameter.shape for parameter in whole.parameters()]
    weights = {name: value.clone() for name, value in whole.state_dict().items()}
    make_updates(whole, optimizer, 3, 3)
    for piece in (0, 7, 64):
        other, later = make(piece, seed=1)
        other.load_state_dict(weights)
        later.load_state(state)
        for number, values in later.state().items():
            assert all(torch.equal(value, state[number][name]) for name, value in values.items())
        make_updates(other, later, 3, 3)
        np.testing.assert_array_equal(numbers(other), numbers(whole))


def test_what_has_no_gradient_is_not_moved_nor_remembered():
    network, optimizer = make(7)
    optimizer.zero_grad()
    network[0](torch.ones(1, 3)).sum().backward()
    before = network[2].weight.detach().clone()
    optimizer.step()
    assert torch.equal(network[2].weight, before) and sorted(optimizer.state()) == [0, 1]
    _, other = make(7)
    other.load_state(optimizer.state())
    assert sorted(other.state()) == [0, 1]
