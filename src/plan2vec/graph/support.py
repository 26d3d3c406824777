"""Tests of a single closure: what else was recorded that supports it. `closures.py` says which test is for what."""

from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.data import slices, transitions
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import NearPairs
from plan2vec.search.shortest_paths import connected_parts

CPU = torch.device("cpu")
MARKS_AT_ONCE = {"cuda": 2**31, "cpu": 2**26}  # bytes that mark the columns of as many rows as they suffice for
FIRST_ASKED = 4  # columns of a row of `right` that are looked up first; where they do not settle a pair, twice as many
DISTANCES_AT_ONCE, MAX_ZIP_ROUNDS = 2**24, 50  # entries of a block of distances; times that new closures help others
SAME = 0.5  # frames nearer than this many steps look alike in dense recordings
SURE, LIKELY = 0.3, 0.9  # quantiles of recorded steps: closures below need no support, or frames alongside
ALONGSIDE = 4  # frames before or after both ends of a likely closure that must be near each other too


def has_common_neighbors(pairs: NearPairs, sequence: np.ndarray, num: int, device: torch.device = CPU) -> np.ndarray:
    """(m,) bool: at least `num` frames are near both ends, by a candidate or by a recorded step."""
    near = _pattern(pairs, np.inf, len(sequence)) + _transition_pattern(sequence)
    return share_columns(near, near, pairs.first, pairs.second, num, device)


def has_transition_support(pairs: NearPairs, sequence: np.ndarray, device: torch.device = CPU,
                           reach: float = SAME) -> np.ndarray:
    """(m,) bool: a recorded step joins look-alikes of both ends, (N (T + 1) N)_ij > 0; N: frames within `reach`."""
    n = len(sequence)
    alike = _pattern(pairs, reach, n) + eye_array(n, format="csr", dtype=np.int8)
    stays_or_steps = _transition_pattern(sequence) + eye_array(n, format="csr", dtype=np.int8)
    return share_columns((alike @ stays_or_steps).tocsr(), alike, pairs.first, pairs.second, 1, device)


def has_short_detour(pairs: NearPairs, sequence: np.ndarray, steps: np.ndarray, max_detour: float) -> np.ndarray:
    """(m,) bool: the ends are near each other already by recorded steps and surer closures, or lie in different parts.

    A closure among the shortest SURE of the recorded `steps` needs no support. One among the shortest LIKELY needs only
    a stretch beside it. From there on it works like a zip: a closure whose ends are joined within `max_detour` steps is
    believed and helps the next ones, so whole stretches that were seen twice close, but no lone look-alike far away."""
    sure, likely = np.quantile(steps, (SURE, LIKELY))
    believed = (pairs.distance <= sure) | ((pairs.distance <= likely) & runs_alongside(pairs, sequence))
    for _ in range(MAX_ZIP_ROUNDS):
        near = _within(build_graph(sequence, pairs.select(believed)), pairs.select(~believed), max_detour)
        believed[~believed] = near
        if not near.any():
            break
    part = connected_parts(build_graph(sequence, pairs.select(believed)))[1]
    return believed | (part[pairs.first] != part[pairs.second])


def runs_alongside(pairs: NearPairs, sequence: np.ndarray) -> np.ndarray:
    """(m,) bool: the frames before or after one end lie near those before or after the other, in either direction."""
    n, found = len(sequence), np.zeros(len(pairs), bool)
    known = np.sort(pairs.first.astype(np.int64) * n + pairs.second)  # one number per pair
    for first_way, second_way in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
        alongside = np.ones(len(pairs), bool)
        for ahead in range(1, ALONGSIDE + 1):
            i, j = pairs.first + first_way * ahead, pairs.second + second_way * ahead
            inside = (np.minimum(i, j) >= 0) & (np.maximum(i, j) < n)
            i, j = np.where(inside, i, pairs.first), np.where(inside, j, pairs.second)
            inside &= (sequence[i] == sequence[pairs.first]) & (sequence[j] == sequence[pairs.second])
            code = np.minimum(i, j).astype(np.int64) * n + np.maximum(i, j)
            alongside &= inside & (known[np.minimum(np.searchsorted(known, code), len(known) - 1)] == code)
        found |= alongside
    return found


def _within(graph: csr_array, pairs: NearPairs, max_steps: float) -> np.ndarray:
    """(m,) bool: the graph joins the two frames of a pair by at most this many steps."""
    near, sources = np.zeros(len(pairs), bool), np.unique(pairs.first)
    for some in np.array_split(sources, 1 + len(sources) * graph.shape[0] // DISTANCES_AT_ONCE) if len(sources) else ():
        here = slice(*np.searchsorted(pairs.first, (some[0], some[-1] + 1)))
        length = dijkstra(graph, indices=some, limit=max_steps)
        near[here] = length[np.searchsorted(some, pairs.first[here]), pairs.second[here]] <= max_steps
    return near


def _pattern(pairs: NearPairs, radius: float, n: int) -> csr_array:
    """Symmetric pattern of the pairs within the radius; what is stored counts, not its value."""
    near = pairs.select(pairs.distance <= radius)
    begins = np.searchsorted(near.first, np.arange(n + 1)).astype(np.int32)
    upper = csr_array((np.ones(len(near), np.int8), near.second.astype(np.int32), begins), shape=(n, n))
    return upper + upper.T.tocsr()


def _transition_pattern(sequence: np.ndarray) -> csr_array:
    start = transitions(sequence)
    ends = np.append(start, start + 1), np.append(start + 1, start)
    return csr_array((np.ones(2 * len(start), np.int8), ends), shape=(len(sequence),) * 2)


def share_columns(left: csr_array, right: csr_array, first: np.ndarray, second: np.ndarray, num: int,
                  device: torch.device) -> np.ndarray:
    """(m,) bool: row `first` (m,), ascending, of left and row `second` (m,) of right share `num` columns.

    That is left @ right.T >= num at the pairs. But most pairs are settled by a few entries of `right`, and what the
    product has elsewhere, ten times as much, is never formed: the columns of some rows of `left` are marked, and each
    pair looks a few of its marks up at a time."""
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
