"""Columns that rows have in common: looked up, against the whole product of the patterns."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from plan2vec.graph import support as overlaps

CPU = torch.device("cpu")


def pattern(rng, n, share):
    """A random 0/1 matrix; every seventh row is empty."""
    return csr_array((rng.random((n, n)) < share) & (np.arange(n)[:, None] % 7 > 0))


@pytest.mark.parametrize("rows_at_once", [0, 1, 13, 1000])
@pytest.mark.parametrize("num", [1, 2, 7])
def test_looking_up_equals_the_whole_product(monkeypatch, rows_at_once, num):
    rng = np.random.default_rng(num)
    monkeypatch.setitem(overlaps.MARKS_AT_ONCE, "cpu", 60 * rows_at_once)
    left, right = pattern(rng, 60, 0.4), pattern(rng, 60, 0.3)
    first, second = np.sort(rng.integers(0, 60, 900)), rng.integers(0, 60, 900)
    common = (left.toarray().astype(int) @ right.toarray().T.astype(int))[first, second]
    assert len(np.unique(common)) > 10 and common.min() == 0
    assert np.array_equal(overlaps.share_columns(left, right, first, second, num, CPU), common >= num)


@pytest.mark.parametrize("num", [1, 2, 7])
def test_arrays_and_tensors_are_looked_up_alike(num):
    rng = np.random.default_rng(num)
    right, row, offset = pattern(rng, 60, 0.3), rng.integers(0, 60, 900), rng.integers(0, 20, 900) * 60
    given = (rng.random(20 * 60) < 0.4, offset, right.indices, right.indptr[row], right.indptr[row + 1])
    found = overlaps._enough_marked(*given, num)
    assert 0 < found.mean() < 1
    assert np.array_equal(overlaps._enough_marked(*map(torch.as_tensor, given), num).numpy(), found)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_answer():
    rng = np.random.default_rng(0)
    left, right = pattern(rng, 60, 0.4), pattern(rng, 60, 0.3)
    asked = np.sort(rng.integers(0, 60, 900)), rng.integers(0, 60, 900), 2
    on_cpu, on_gpu = (overlaps.share_columns(left, right, *asked, torch.device(name)) for name in ("cpu", "cuda"))
    assert np.array_equal(on_cpu, on_gpu)


def test_no_pairs_have_nothing_in_common():
    nothing, some = np.empty(0, np.int64), pattern(np.random.default_rng(0), 5, 0.5)
    assert overlaps.share_columns(some, some, nothing, nothing, 1, CPU).tolist() == []
