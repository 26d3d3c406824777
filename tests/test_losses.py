"""Losses of distances against path lengths, by numbers made by hand."""

import numpy as np
import pytest
import torch

from plan2vec.embedding.targets import distance_loss


def test_the_loss_is_the_mean_relative_error_of_known_pairs_over_at_least_one_step():
    distance = torch.tensor([[1.0, 4.0], [0.5, 9.0]])
    target = torch.tensor([[2.0, torch.inf], [0.0, 6.0]])
    assert distance_loss(distance, target, "relative", 10.0).item() == pytest.approx((1 / 2 + 0.5 / 1 + 3 / 6) / 3)
    assert distance_loss(distance, target, "sammon", 10.0).item() == pytest.approx(
        (1 / 2 + 0.5**2 / 1 + 3**2 / 6) / 10 / 3
    )
    assert distance_loss(distance, target, "huber", 10.0).item() == distance_loss(
        distance, target, "sammon", 10.0
    ).item()


def test_hubers_loss_grows_with_a_large_error_as_fast_as_at_three_steps_of_error():
    distance = torch.tensor([8.0, 9.0, 20.0], requires_grad=True)
    loss = distance_loss(distance, torch.full((3,), 6.0), "huber", 10.0)
    loss.backward()
    expected = [2 * min(error, 3.0) / 6 / 10 / 3 for error in (2.0, 3.0, 14.0)]
    np.testing.assert_allclose(distance.grad.numpy(), expected, rtol=1e-5)
    assert loss.item() == pytest.approx((4 + 9 + 3 * (2 * 14 - 3)) / 6 / 10 / 3)


@pytest.mark.parametrize("kind", ["relative", "sammon", "huber"])
def test_unreachable_pairs_are_ignored_in_value_and_gradient(kind):
    distance = torch.tensor([1.0, 5.0, 2.0], requires_grad=True)
    distance_loss(distance, torch.tensor([3.0, torch.inf, 1.0]), kind, 2.0).backward()
    assert distance.grad[1] == 0 and (distance.grad[[0, 2]] != 0).all() and distance.grad.isfinite().all()
    nothing = distance_loss(distance, torch.full((3,), torch.inf), kind, 2.0)
    assert nothing.item() == 0
