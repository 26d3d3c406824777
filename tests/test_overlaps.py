"""Columns that rows have in common: numpy and torch against the whole product of the patterns."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from plan2vec.graph import common_columns as overlaps

CPU = torch.device("cpu")


def pattern(rng, n, share):
    """A random 0/1 matrix; every seventh row is empty."""
    return csr_array((rng.random((n, n)) < share) & (np.arange(n)[:, None] % 7 > 0))


@pytest.mark.parametrize("rows_at_once", [0, 1, 13, 1000])
@pytest.mark.parametrize("num", [1, 2, 7])
def test_both_ways_of_looking_up_equal_the_whole_product(monkeypatch, rows_at_once, num):
    rng = np.random.default_rng(num)
    monkeypatch.setitem(overlaps.MARKS_AT_ONCE, "cpu", 60 * rows_at_once)
    left, right = pattern(rng, 60, 0.4), pattern(rng, 60, 0.3)
    first, second = np.sort(rng.integers(0, 60, 900)), rng.integers(0, 60, 900)
    common = (left.toarray().astype(int) @ right.toarray().T.astype(int))[first, second]
    assert len(np.unique(common)) > 10 and common.min() == 0
    assert np.array_equal(overlaps.share_columns(left, right, first, second, num, CPU), common >= num)
    assert np.array_equal(overlaps._looked_up_on(CPU, left, right, first, second, num), common >= num)


def test_no_pairs_have_nothing_in_common():
    nothing, some = np.empty(0, np.int64), pattern(np.random.default_rng(0), 5, 0.5)
    assert overlaps.share_columns(some, some, nothing, nothing, 1, CPU).tolist() == []
    assert overlaps._looked_up_on(CPU, some, some, nothing, nothing, 1).tolist() == []
