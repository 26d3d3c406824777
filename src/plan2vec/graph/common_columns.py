"""Whether rows of two sparse patterns have columns in common, asked at many pairs of rows; on a GPU where there is one.

That is left @ right.T >= num at the pairs. But most pairs are settled by a few entries of `right`, and what the product
has elsewhere, ten times as much, is never formed: the columns of some rows of `left` are marked, and each pair looks a
few of its marks up at a time.
"""

from collections.abc import Iterator

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from plan2vec.data import slices

MARKS_AT_ONCE = {"cuda": 2**31, "cpu": 2**26}  # bytes that mark the columns of as many rows as they suffice for
FIRST_ASKED = 4  # columns of a row of `right` that are looked up first; where they do not settle a pair, twice as many


def share_columns(left: csr_array, right: csr_array, first: np.ndarray, second: np.ndarray, num: int,
                  device: torch.device) -> np.ndarray:
    """(m,) bool: row `first` (m,), ascending, of left and row `second` (m,) of right share `num` columns."""
    if device.type == "cuda":
        return _looked_up_on(device, left, right, first, second, num)
    return _looked_up(left, right, first, second, num)


def _row_blocks(num_rows: int, first: np.ndarray, marks: int) -> Iterator[tuple[int, int, slice]]:
    """(from row, to row, pairs whose first is one of these rows), as many rows as there are marks for."""
    for rows in slices(num_rows, max(1, marks // num_rows)):
        yield rows.start, rows.stop, slice(*np.searchsorted(first, (rows.start, rows.stop)).tolist())


def _looked_up(left: csr_array, right: csr_array, first: np.ndarray, second: np.ndarray, num: int) -> np.ndarray:
    n, passed = left.shape[0], np.zeros(len(first), bool)
    marks = np.zeros(min(n, max(1, MARKS_AT_ONCE["cpu"] // n)) * n, bool)
    for begin, end, here in _row_blocks(n, first, len(marks)):
        row = np.repeat(np.arange(end - begin), np.diff(left.indptr[begin : end + 1]))
        marked = row * n + left.indices[left.indptr[begin] : left.indptr[end]]
        marks[marked] = True
        passed[here] = _enough_marked(marks, (first[here] - begin) * n, right, second[here], num)
        marks[marked] = False
    return passed


def _enough_marked(marks: np.ndarray, offset: np.ndarray, right: csr_array, row: np.ndarray, num: int) -> np.ndarray:
    """(m,) bool: of the columns in each `row` (m,) of right, `num` or more are marked at offset + column."""
    at, end = right.indptr[row], right.indptr[row + 1]
    count, asked, width = np.zeros(len(row), np.int32), np.arange(len(row)), FIRST_ASKED
    while len(asked):
        entry = at[asked] + np.arange(width)[:, None]
        marked = marks.take(right.indices.take(entry, mode="clip") + offset[asked])
        count[asked] += (marked & (entry < end[asked])).sum(axis=0, dtype=np.int32)
        at += width
        asked, width = asked[(count[asked] < num) & (at[asked] < end[asked])], 2 * width
    return count >= num


def _looked_up_on(device: torch.device, left: csr_array, right: csr_array, first: np.ndarray, second: np.ndarray,
                  num: int) -> np.ndarray:
    """As `_looked_up`, line by line: on one CPU core torch takes three times as long."""
    n, passed = left.shape[0], np.zeros(len(first), bool)
    at_once = MARKS_AT_ONCE.get(device.type, MARKS_AT_ONCE["cpu"])
    marks = torch.zeros(min(n, max(1, at_once // n)) * n, dtype=torch.bool, device=device)
    columns, *rows = (torch.from_numpy(numbers).to(device) for numbers in (left.indices, right.indices, right.indptr))
    for begin, end, here in _row_blocks(n, first, len(marks)):
        degree = torch.from_numpy(np.diff(left.indptr[begin : end + 1])).to(device)
        row = torch.repeat_interleave(torch.arange(end - begin, device=device), degree)
        marked = row * n + columns[int(left.indptr[begin]) : int(left.indptr[end])]
        marks[marked] = True
        offset, other = (torch.from_numpy(numbers).to(device) for numbers in ((first[here] - begin) * n, second[here]))
        passed[here] = _enough_marked_on(marks, offset, rows[0], rows[1][other], rows[1][other + 1], num).cpu().numpy()
        marks[marked] = False
    return passed


def _enough_marked_on(marks: Tensor, offset: Tensor, columns: Tensor, at: Tensor, end: Tensor, num: int) -> Tensor:
    """[m] bool: of columns[at:end] of each pair, `num` or more are marked at offset + column."""
    count, asked, width = torch.zeros_like(at), torch.arange(len(at), device=at.device), FIRST_ASKED
    while len(asked):
        entry = at[asked] + torch.arange(width, device=at.device)[:, None]
        marked = marks[columns[entry.clamp(max=len(columns) - 1)] + offset[asked]]
        count[asked] += (marked & (entry < end[asked])).sum(0, dtype=count.dtype)
        at = at + width
        asked, width = asked[(count[asked] < num) & (at[asked] < end[asked])], 2 * width
    return count >= num
