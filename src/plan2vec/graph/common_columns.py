"""Whether rows of two sparse patterns have columns in common, asked at many pairs of rows; on a GPU where there is one.

That is left @ right.T >= num at the pairs. But most pairs are settled by a few entries of `right`, and what the product
has elsewhere, ten times as much, is never formed: the columns of some rows of `left` are marked, and each pair looks a
few of its marks up at a time.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.data import slices

MARKS_AT_ONCE = {"cuda": 2**31, "cpu": 2**26}  # bytes that mark the columns of as many rows as they suffice for
FIRST_ASKED = 4  # columns of a row of `right` that are looked up first; where they do not settle a pair, twice as many


def share_columns(left: csr_array, right: csr_array, first: np.ndarray, second: np.ndarray, num: int,
                  device: torch.device) -> np.ndarray:
    """(m,) bool: row `first` (m,), ascending, of left and row `second` (m,) of right share `num` columns."""
    n, passed, on_gpu = left.shape[0], np.zeros(len(first), bool), device.type == "cuda"
    # numpy's arrays on a CPU, where torch takes three times as long; torch's tensors, which work alike, on a GPU
    of = partial(torch.as_tensor, device=device) if on_gpu else np.asarray
    marks = of(np.zeros(1, bool)).repeat(min(n, max(1, MARKS_AT_ONCE["cuda" if on_gpu else "cpu"] // n)) * n)
    columns, right_columns, limits = of(left.indices), of(right.indices), of(right.indptr)
    for rows in slices(n, max(1, len(marks) // n)):
        here = slice(*np.searchsorted(first, (rows.start, rows.stop)))
        entries = slice(int(left.indptr[rows.start]), int(left.indptr[rows.stop]))
        row = np.repeat(np.arange(rows.stop - rows.start), np.diff(left.indptr[rows.start : rows.stop + 1]))
        marked, other = of(row) * n + columns[entries], of(second[here])
        marks[marked] = True
        found = _enough_marked(marks, of((first[here] - rows.start) * n), right_columns, limits[other],
                               limits[other + 1], num)
        passed[here] = found.cpu().numpy() if on_gpu else found
        marks[marked] = False
    return passed


def _enough_marked(marks: Any, offset: Any, columns: Any, at: Any, end: Any, num: int) -> Any:
    """(m,) bool: of columns[at:end] of each pair, `num` or more are marked at offset + column."""
    arange = partial(torch.arange, device=at.device) if isinstance(at, torch.Tensor) else np.arange
    count, asked, width = 0 * at, arange(len(at))[at < end], FIRST_ASKED
    while len(asked):
        entry = at[asked] + arange(width)[:, None]
        marked = marks.take(columns.take(entry.clip(max=len(columns) - 1)) + offset[asked])
        count[asked] += (marked & (entry < end[asked])).sum(0, dtype=count.dtype)
        at = at + width
        asked, width = asked[(count[asked] < num) & (at[asked] < end[asked])], 2 * width
    return count >= num
