"""Every head is held to what it promises, by hypothesis; closed forms, gradients and all pairs at once."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import plan2vec.embedding.heads
from plan2vec.config import Config, head_of, settle
from plan2vec.data import make_sequences
from plan2vec.embedding.heads import LpHead, MaxReluHead, MRNHead, make_head

ORDERS = [1.0, 1.2, 2.0, 3.0, 20.0, math.inf]
CASES = [("lp", order) for order in ORDERS] + [("max-relu", 2.0), ("mrn", 2.0), ("squared", 2.0)]
all_heads = pytest.mark.parametrize(("name", "norm_order"), CASES)

coordinates = st.floats(-100, 100).map(lambda number: round(number, 3))  # repeats and ties are likely


def vectors(num):
    """(num, dim) float64 with one dim for all."""
    rows = st.integers(2, 7).flatmap(
        lambda dim: st.lists(st.lists(coordinates, min_size=dim, max_size=dim), min_size=num, max_size=num)
    )
    return rows.map(lambda values: torch.tensor(values, dtype=torch.float64))


def random_vectors(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---------------------------------------------------------------------------------------------------- what all promise


@all_heads
@settings(max_examples=60, deadline=None)
@given(points=vectors(3))
def test_distances_are_not_negative_zero_to_oneself_and_keep_the_inequality_they_promise(name, norm_order, points):
    head = make_head(name, norm_order, points.shape[1])
    a, b, c = points
    assert head(a, b) >= 0
    assert head(a, a) == 0
    root = 1 / head.degree  # what is squared keeps it as a root
    assert head(a, c) ** root <= head(a, b) ** root + head(b, c) ** root + 1e-9
    assert (root == 1) == (head.guarantee != "semimetric")
    assert torch.isclose(head(3 * a, 3 * b), 3**head.degree * head(a, b))


@settings(max_examples=60, deadline=None)
@given(points=vectors(3), seed=st.integers(0, 2**32))
def test_every_head_that_calls_itself_a_metric_keeps_the_triangle_inequality_and_the_default_is_one(points, seed):
    default = settle(Config(), make_sequences(np.arange(8, dtype=np.float32)[:, None]))
    metrics = [make_head(name, norm_order, points.shape[1]) for name, norm_order in CASES]
    metrics = [head for head in metrics if head.guarantee == "metric"]
    metrics.append(make_head(head_of(default), default.norm_order, default.dim))
    assert len(metrics) == len(ORDERS) + 1 and metrics[-1].guarantee == "metric" and metrics[-1].norm_order == 1
    for head in metrics:
        a, b, c = points if head.dim == points.shape[1] else random_vectors(seed, 3, head.dim).double()
        assert head(a, c) <= head(a, b) + head(b, c) + 1e-9 and head(a, c) == head(c, a)


def test_the_squared_head_breaks_the_triangle_inequality_and_so_calls_itself_no_metric():
    head, (a, b, c) = make_head("squared", 2.0, 2), torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    assert head(a, c) == 4 > head(a, b) + head(b, c) == 2 and head.guarantee == "semimetric"


@all_heads
@settings(max_examples=60, deadline=None)
@given(points=vectors(2))
def test_a_head_that_claims_symmetry_is_symmetric_and_parts_all_that_differ(name, norm_order, points):
    head = make_head(name, norm_order, points.shape[1])
    a, b = points
    assert head.symmetric == (head.guarantee != "quasimetric")
    if head.symmetric:
        assert head(a, b) == head(b, a)
        assert (head(a, b) > 0) == (not torch.equal(a, b))


@pytest.mark.parametrize("name", ["max-relu", "mrn"])
def test_a_head_that_claims_no_symmetry_has_a_way_that_is_longer_than_the_way_back(name):
    head = make_head(name, 2.0, 2)
    low, high = torch.tensor([0.0, 0.0]), torch.tensor([0.0, 1.0])
    assert head(low, high) == 1
    assert head(high, low) == 0  # and so it is a pseudo quasimetric: zero between vectors that differ
    assert not head.symmetric and head.guarantee == "quasimetric"


@pytest.mark.parametrize("name", ["max-relu", "mrn"])
def test_an_asymmetric_head_fits_a_one_way_ring_of_three_exactly(name):
    around = torch.tensor([[0.0, 1.0, 2.0], [2.0, 0.0, 1.0], [1.0, 2.0, 0.0]])  # steps from row to column
    if name == "max-relu":
        points = around.T  # the coordinates of x are the steps to x from each point
    else:
        points = torch.cat((torch.zeros(3, 3), around.T), dim=1)
    assert torch.equal(make_head(name, 2.0, points.shape[1]).pairwise(points, points), around)


# ---------------------------------------------------------------------------------------------------- closed forms


def test_values_in_closed_form():
    a, b = torch.tensor([1.0, 1.0, 0.0, 5.0]), torch.tensor([4.0, -3.0, 2.0, 5.0])  # b - a = 3, -4, 2, 0
    assert LpHead(4, 1)(a, b) == 9
    assert LpHead(4, 2)(a, b).item() == pytest.approx(math.sqrt(29))
    assert LpHead(4, 1.2)(a, b).item() == pytest.approx((3**1.2 + 4**1.2 + 2**1.2) ** (1 / 1.2), rel=1e-6)
    assert LpHead(4, 20)(a, b).item() == pytest.approx((3**20 + 4**20 + 2**20) ** (1 / 20), rel=1e-6)
    assert LpHead(4, math.inf)(a, b) == 4
    assert MaxReluHead(4)(a, b) == 3 and MaxReluHead(4)(b, a) == 4
    assert MRNHead(4)(a, b) == 5 + 2 and MRNHead(4)(b, a) == 5 + 0
    assert MRNHead(3)(a[:3], b[:3]) == 5 + 2  # of an odd number the first part has one more


@pytest.mark.parametrize("norm_order", ORDERS)
def test_tiny_differences_of_large_vectors_do_not_vanish(norm_order):
    a = torch.full((1, 4), 8.0)
    b = a + torch.tensor([0.0, 0.0, 0.0, 2.0**-10])
    head = LpHead(4, norm_order)
    assert head(a, b).item() == pytest.approx(2.0**-10, rel=1e-5)
    many = head.pairwise(a.expand(40, 4), b.expand(40, 4))  # from 25 rows on torch.cdist would use inner products
    assert torch.allclose(many, torch.tensor(2.0**-10), rtol=1e-5, atol=0)


def test_the_squared_head_fits_every_path_exactly_where_each_edge_is_a_coordinate():
    points = torch.tril(torch.ones(5, 4), diagonal=-1)  # point k has gone k edges
    edges_between = (torch.arange(5.0)[:, None] - torch.arange(5.0)).abs()
    assert torch.allclose(make_head("squared", 2.0, 4).pairwise(points, points), edges_between)


# ---------------------------------------------------------------------------------------------------- shapes and pairs


@all_heads
def test_shapes_broadcast(name, norm_order):
    head = make_head(name, norm_order, 4)
    assert head(torch.zeros(4), torch.ones(4)).shape == ()
    assert head(random_vectors(0, 5, 1, 4), random_vectors(1, 3, 4)).shape == (5, 3)


@all_heads
@pytest.mark.parametrize("numbers_at_once", [2**22, 100, 1])
def test_all_pairs_equal_one_by_one_in_value_and_gradient(name, norm_order, numbers_at_once, monkeypatch):
    monkeypatch.setattr(plan2vec.embedding.heads, "NUMBERS_AT_ONCE", numbers_at_once)
    head = make_head(name, norm_order, 6)
    results = []
    for distance in (head.pairwise, lambda first, second: head(first[:, None], second)):
        first, second = random_vectors(2, 30, 6).requires_grad_(), random_vectors(3, 40, 6).requires_grad_()
        distances = distance(first, second)
        (distances * random_vectors(4, 30, 40)).sum().backward()
        results.append((distances.detach(), first.grad, second.grad))
    for pairs, one_by_one in zip(*results, strict=True):
        assert torch.allclose(pairs, one_by_one, rtol=1e-4, atol=1e-5)
    assert results[0][0].shape == (30, 40)


@all_heads
def test_all_pairs_of_none_are_an_empty_table(name, norm_order):
    head = make_head(name, norm_order, 4)
    assert head.pairwise(torch.zeros(0, 4), torch.zeros(3, 4)).shape == (0, 3)
    assert head.pairwise(torch.zeros(3, 4), torch.zeros(0, 4)).shape == (3, 0)


# ---------------------------------------------------------------------------------------------------- gradients


@all_heads
def test_the_gradient_at_equal_vectors_is_zero(name, norm_order):
    head = make_head(name, norm_order, 4)
    for distance in (head, head.pairwise):
        first, second = torch.ones(40, 4).requires_grad_(), torch.ones(40, 4).requires_grad_()
        distance(first, second).sum().backward()
        assert torch.equal(first.grad, torch.zeros(40, 4)) and torch.equal(second.grad, torch.zeros(40, 4))


@all_heads
def test_the_gradient_where_some_coordinates_are_equal_or_tied_is_finite(name, norm_order):
    head = make_head(name, norm_order, 4)
    for distance in (head, head.pairwise):
        first = torch.tensor([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1e-30]]).requires_grad_()
        distance(first, torch.zeros(2, 4)).sum().backward()
        assert first.grad.isfinite().all() and first.grad.abs().max() <= 2 * head.degree


@all_heads
def test_the_gradient_equals_finite_differences(name, norm_order):
    head = make_head(name, norm_order, 5)
    first, second = random_vectors(5, 3, 5).double().requires_grad_(), random_vectors(6, 4, 5).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: head(a[:, None], b), (first, second))
    assert torch.autograd.gradcheck(head.pairwise, (first, second))


@all_heads
def test_descent_on_vectors_reaches_given_distances(name, norm_order):
    head = make_head(name, norm_order, 4)
    target = head.pairwise(random_vectors(7, 6, 4), random_vectors(8, 6, 4))
    first, second = random_vectors(9, 6, 4).requires_grad_(), random_vectors(10, 6, 4).requires_grad_()
    optimizer = torch.optim.Adam([first, second], lr=0.03)
    errors = []
    for _ in range(400):
        error = (head.pairwise(first, second) - target).square().mean()
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        errors.append(error.item())
    assert errors[-1] < 0.05 * errors[0]


# ---------------------------------------------------------------------------------------------------- refusals


def test_refusals_say_what_was_expected_and_what_came():
    with pytest.raises(ValueError, match="one of lp, max-relu, mrn, squared, but is 'cosine'"):
        make_head("cosine", 2.0, 8)
    with pytest.raises(ValueError, match=r"at least 1 .* but is 0\.5"):
        make_head("lp", 0.5, 8)
    with pytest.raises(ValueError, match="at least 1 .* but is nan"):
        make_head("lp", math.nan, 8)
    with pytest.raises(ValueError, match="MRNHead needs vectors of at least 2 coordinates, but dim is 1"):
        make_head("mrn", 2.0, 1)
    with pytest.raises(ValueError, match="LpHead needs vectors of at least 1 coordinates, but dim is 0"):
        make_head("lp", 2.0, 0)
