"""Which loop closures to believe. One false closure (a "worm-hole") shortens thousands of distances.

Without truth at hand, a closure i - j is believed when other recorded evidence supports it:
- *common neighbours*: at least two frames are near both i and j. A chance resemblance of two frames has none. Two whole regions that
  the metric half confuses have, but not where the common neighbours must be nearer than the closure is long (`common_reach`).
- *transition support*: some recorded step leads from a frame that looks like i to one that looks like j, (N (T + 1) N)_ij > 0.
  It also finds clusters of false closures, through a wall say, but needs dense recordings. The fewer frames there are, the farther
  apart two may be to look alike (`look_alikes`): else true closures at the rim lack support, and greedy walks end there.
- *short detour*, where recordings are too sparse for that: i and j are near each other already by recorded steps and
  surer closures, or a whole stretch before or after them is. Look-alike corridors give clusters of false closures, which
  have common neighbours but no detour.
The radius within which closures are looked for comes from the recorded steps.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.data import transitions
from plan2vec.graph import build_graph, closure_entries, edge_rows
from plan2vec.neighbors import NearPairs
from plan2vec.overlaps import share_columns
from plan2vec.search import connected_parts, distances_from

CPU = torch.device("cpu")
DISTANCES_AT_ONCE = 2**24  # entries of a block of distances kept in memory
MAX_ZIP_ROUNDS = 50  # times that newly believed closures may support others
SHORT_DETOUR = "short detour"
SOON = 10  # frames of one sequence nearer in time than this cannot be joined by a worm-hole worth a look
SAME, ALIKE = 0.5, 1.0  # frames nearer than this many steps look alike (N in N T N) in dense recordings, and in sparse ones at most
SURE, LIKELY = 0.3, 0.9  # quantiles of the recorded steps: up to there a closure needs no support, or only a stretch beside it
RETURNS = 0.5  # share of frames that equal another to the last pixel beyond which a place that one comes back to looks just as before
STRETCH = 4  # frames before or after both ends of a likely closure that must be near each other too


@dataclass(frozen=True)
class ClosureConfig:
    """Which loop closures are looked for and believed."""

    min_gap: int = 2  # frames of one sequence fewer than this apart are joined by their recorded steps only
    min_degree: float = 12.0  # on sparse recordings the radius grows until frames have this many neighbours on average
    max_radius: float = 1.7  # it never grows beyond this many `max_gap`s
    max_neighbors: int = 200  # candidates a frame
    prefer: Literal["nearest", "hubs"] = "nearest"  # where a frame has more: its nearest, or some anywhere in the radius, for long hops
    search: Literal["auto", "exact", "approximate"] = "auto"  # how they are found; auto: by usearch in large recordings on a CPU
    support: Literal["auto", "both", "common", "detour", "none"] = "auto"  # tests a closure must pass; auto: by local density
    look_alikes: float = 16.0  # frames look alike within half a step, or up to a whole one until they have so many; 0: half a step
    common_reach: float = 1.0  # share of the radius within which a frame is a common neighbour of both ends; less is stricter
    max_detour: float = 4.0  # steps within which a doubtful closure's ends must be joined by recorded steps and surer closures
    max_unsupported: float = 0.1  # the radius stops growing where more than this share of the candidates fails


@dataclass(frozen=True)
class Closures:
    """The believed closures, and why."""

    pairs: NearPairs
    radius: float
    reason: str  # one line for the user


def choose_closures(
    candidates: NearPairs, steps: np.ndarray, sequence: np.ndarray, kind: np.ndarray, radius: float | None, max_gap: int,
    config: ClosureConfig, device: torch.device = CPU,
) -> Closures:  # fmt: skip
    """Believed closures among the candidates.

    `steps` are the local distances of recorded one-frame steps that moved. `kind` (n,) is the first of the frames equal to a
    frame to the last pixel, its own number where it differs from all before, and -1 where a frame is not to be joined. How
    dense a recording is is counted over frames that differ: a camera that shows the same image twice is not denser for it.
    """
    min_gap = max(2, config.min_gap)  # a recorded step is never a closure too
    apart = (sequence[candidates.first] != sequence[candidates.second]) | (candidates.second - candidates.first >= min_gap)
    candidates = candidates.select(apart)
    is_new = kind == np.arange(len(kind))
    distinct, num_frames = candidates.distance[is_new[candidates.first] & is_new[candidates.second]], int(np.count_nonzero(is_new))
    start = float(np.quantile(steps, 0.95)) if radius is None else radius
    limit = max(start, config.max_radius * max_gap) if radius is None else radius
    grown, reason = _grow(distinct, num_frames, start, limit, config.min_degree)
    if radius is not None:
        reason = "as given"
    tests, tests_reason = choose_tests(distinct[distinct <= grown], num_frames, config)
    alike = alike_reach(distinct, num_frames, config.look_alikes)
    believed, share = _believe(candidates, grown, sequence, tests, config.common_reach, alike, device)
    while radius is None and share > config.max_unsupported and grown > start * 1.001:
        grown = max(start, grown * 0.95)
        reason = f"grown from {start:.2f} (95th percentile of recorded steps) for a sparse recording, stopped by unsupported candidates"
        believed, share = _believe(candidates, grown, sequence, tests, config.common_reach, alike, device)
    if SHORT_DETOUR in tests:
        num_before = len(believed)
        believed = believed.select(may_show_one_place(believed, kind))
        believed = believed.select(has_short_detour(believed, sequence, steps, config.max_detour))
        share += (1 - share) * (1 - len(believed) / max(1, num_before))
    degree = 2 * len(believed) / np.count_nonzero(kind >= 0)
    found = "" if candidates.recall is None else f"; approximate neighbours, recall {candidates.recall:.4f}"
    return Closures(
        believed, grown,
        f"radius {grown:.2f} steps ({reason}); {len(believed):,} closures, {degree:.1f} a frame; "
        f"tests: {' + '.join(tests) or 'none'} ({tests_reason}), {share:.2%} of the candidates failed{found}",
    )  # fmt: skip


def _grow(distance: np.ndarray, num_frames: int, start: float, limit: float, min_degree: float) -> tuple[float, str]:
    """The smallest radius from `start` up to `limit` at which frames have `min_degree` neighbours on average; of candidates' distances."""
    reached = _distance_of_degree(distance, num_frames, min_degree)
    if reached <= start or limit <= start:
        return start, "95th percentile of recorded steps"
    return min(reached, limit), f"grown from {start:.2f} (95th percentile of recorded steps) for a sparse recording"


def _distance_of_degree(distance: np.ndarray, num_frames: int, degree: float) -> float:
    """The least distance within which frames have so many neighbours on average, by the distances of pairs; inf: they never have."""
    wanted = int(degree * num_frames / 2)  # a pair is two neighbours
    if not wanted:
        return 0.0
    return float(np.partition(distance, wanted - 1)[wanted - 1]) if wanted <= len(distance) else np.inf


def choose_tests(distance: np.ndarray, num_frames: int, config: ClosureConfig) -> tuple[tuple[str, ...], str]:
    """Which support tests this recording is dense enough for, by the distances of its candidates, and why."""
    named = {
        "both": ("common neighbours", "transition support"), "common": ("common neighbours",), "detour": (SHORT_DETOUR,), "none": (),
    }  # fmt: skip
    if config.support != "auto":
        return named[config.support], "as given"
    alike = 2 * np.count_nonzero(distance <= SAME) / num_frames
    near = 2 * len(distance) / num_frames
    words = f"a frame has {near:.1f} candidates, {alike:.1f} of them look alike"
    if alike >= 4 and near >= 8:
        return named["both"], words
    return named["detour"], words


def alike_reach(distance: np.ndarray, num_frames: int, look_alikes: float) -> float:
    """Steps within which frames look alike: half a step, or what gives them `look_alikes` on average, but at most one."""
    return float(np.clip(_distance_of_degree(distance, num_frames, look_alikes), SAME, ALIKE))


def _believe(
    candidates: NearPairs, radius: float, sequence: np.ndarray, tests: tuple[str, ...], common_reach: float, alike: float,
    device: torch.device,
) -> tuple[NearPairs, float]:  # fmt: skip
    """Candidates within the radius that pass the tests of support by neighbours, and the share that fails."""
    within = candidates.select(candidates.distance <= radius)
    passed = np.ones(len(within), bool)
    if "common neighbours" in tests:
        passed &= has_common_neighbors(within, sequence, 2, device, common_reach * radius)
    if "transition support" in tests:
        passed &= has_transition_support(within, sequence, device, alike)
    return within.select(passed), float(1 - passed.mean()) if len(passed) else 0.0


def has_common_neighbors(pairs: NearPairs, sequence: np.ndarray, num: int, device: torch.device = CPU, reach: float = np.inf) -> np.ndarray:
    """(m,) bool: at least `num` frames are near both frames of a pair (by a candidate within `reach` or by a recorded step)."""
    near = _pattern(pairs, reach, len(sequence)) + _transition_pattern(sequence)
    return share_columns(near, near, pairs.first, pairs.second, num, device)


def has_transition_support(pairs: NearPairs, sequence: np.ndarray, device: torch.device = CPU, reach: float = SAME) -> np.ndarray:
    """(m,) bool: a recorded step joins the look-alikes of the two frames, (N (T + 1) N)_ij > 0, where N joins frames within `reach`."""
    n = len(sequence)
    alike = _pattern(pairs, reach, n) + eye_array(n, format="csr", dtype=np.int8)
    stays_or_steps = _transition_pattern(sequence) + eye_array(n, format="csr", dtype=np.int8)
    return share_columns((alike @ stays_or_steps).tocsr(), alike, pairs.first, pairs.second, 1, device)


def may_show_one_place(pairs: NearPairs, kind: np.ndarray) -> np.ndarray:
    """(m,) bool: false where each frame of a pair has come back to the last pixel, as most frames do, but not as the other."""
    joined = kind >= 0
    has_twin = np.zeros(len(kind), bool)
    has_twin[joined] = (np.bincount(kind[joined]) > 1)[kind[joined]]
    if has_twin[joined].mean() <= RETURNS:
        return np.ones(len(pairs), bool)
    return ~(has_twin[pairs.first] & has_twin[pairs.second]) | (kind[pairs.first] == kind[pairs.second])


def has_short_detour(pairs: NearPairs, sequence: np.ndarray, steps: np.ndarray, max_detour: float) -> np.ndarray:
    """(m,) bool: the ends are near each other already by recorded steps and surer closures, or lie in different parts.

    Closures that are shorter than most recorded `steps` need no support, those shorter than all but a few only a stretch
    beside them. From there on it works like a zip: a closure whose ends are joined within `max_detour` steps is believed
    and helps the next ones, so whole stretches that were seen twice close, while a lone look-alike far away, which nothing
    beside it supports, never does.
    """
    sure, likely = np.quantile(steps, (SURE, LIKELY))
    everywhere = np.ones(len(sequence), bool)
    believed = (pairs.distance <= sure) | ((pairs.distance <= likely) & runs_alongside(pairs, sequence))
    for _ in range(MAX_ZIP_ROUNDS):
        graph = build_graph(sequence, pairs.select(believed), None, False, everywhere)
        asked = np.flatnonzero(~believed)
        near = _within(graph, pairs.select(~believed), max_detour)
        believed[asked[near]] = True
        if not near.any():
            break
    part = connected_parts(build_graph(sequence, pairs.select(believed), None, False, everywhere))[1]
    return believed | (part[pairs.first] != part[pairs.second])


def runs_alongside(pairs: NearPairs, sequence: np.ndarray) -> np.ndarray:
    """(m,) bool: the `STRETCH` frames before or after one end lie near those before or after the other, frame by frame, both ways round."""
    known = np.sort(_codes(pairs.first, pairs.second, len(sequence)))
    found = np.zeros(len(pairs), bool)
    for first_way, second_way in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
        alongside = np.ones(len(pairs), bool)
        for ahead in range(1, STRETCH + 1):
            i, j = pairs.first + first_way * ahead, pairs.second + second_way * ahead
            inside = (np.minimum(i, j) >= 0) & (np.maximum(i, j) < len(sequence))
            i, j = np.where(inside, i, pairs.first), np.where(inside, j, pairs.second)
            inside &= (sequence[i] == sequence[pairs.first]) & (sequence[j] == sequence[pairs.second])
            code = _codes(np.minimum(i, j), np.maximum(i, j), len(sequence))
            alongside &= inside & (known[np.minimum(np.searchsorted(known, code), len(known) - 1)] == code)
        found |= alongside
    return found


def _codes(first: np.ndarray, second: np.ndarray, n: int) -> np.ndarray:
    """One number a pair."""
    return first.astype(np.int64) * n + second


def _within(graph: csr_array, pairs: NearPairs, max_steps: float) -> np.ndarray:
    """(m,) bool: the graph joins the two frames of a pair by at most this many steps."""
    near = np.zeros(len(pairs), bool)
    sources = np.unique(pairs.first)
    num_blocks = 1 + len(sources) * graph.shape[0] // DISTANCES_AT_ONCE
    for some in np.array_split(sources, num_blocks) if len(sources) else ():
        here = slice(*np.searchsorted(pairs.first, (some[0], some[-1] + 1)))
        length = dijkstra(graph, indices=some, limit=max_steps)
        near[here] = length[np.searchsorted(some, pairs.first[here]), pairs.second[here]] <= max_steps
    return near


def _pattern(pairs: NearPairs, radius: float, n: int) -> csr_array:
    """Symmetric pattern of the pairs within the radius; what is stored counts, not its value."""
    keep = pairs.distance <= radius
    i, j = pairs.first[keep].astype(np.int32), pairs.second[keep].astype(np.int32)
    upper = csr_array((np.ones(len(i), np.int8), j, np.searchsorted(i, np.arange(n + 1)).astype(np.int32)), shape=(n, n))
    return upper + upper.T.tocsr()


def _transition_pattern(sequence: np.ndarray) -> csr_array:
    start = transitions(sequence)
    ones = np.ones(2 * len(start), np.int8)
    return csr_array((ones, (np.concatenate((start, start + 1)), np.concatenate((start + 1, start)))), shape=(len(sequence),) * 2)


def suspicious_closures(graph: csr_array, sequence: np.ndarray, num: int, rng: np.random.Generator, num_sources: int = 32) -> list[dict]:
    """The closures that most shortest paths run through: [{first, second, distance, paths}], the most used first.

    `paths` is the share of shortest paths from `num_sources` random frames that use the closure. A false closure is a
    short cut, so it draws paths; a person can look at these few frame pairs.
    """
    sources = rng.choice(graph.shape[0], min(num_sources, graph.shape[0]), replace=False)
    uses = count_path_uses(graph, sources)
    row, column = edge_rows(graph), graph.indices
    closure = closure_entries(graph, sequence) & ~((sequence[row] == sequence[column]) & (np.abs(row - column) < SOON))
    low, high = np.minimum(row, column)[closure], np.maximum(row, column)[closure]
    key, where = np.unique(low.astype(np.int64) * graph.shape[0] + high, return_inverse=True)
    total = np.bincount(where, uses[closure], len(key))
    distance = np.zeros(len(key))
    distance[where] = graph.data[closure]
    num_paths = len(sources) * graph.shape[0]
    return [
        {"first": int(key[k] // graph.shape[0]), "second": int(key[k] % graph.shape[0]),
         "distance": round(float(distance[k]), 3), "paths": round(float(total[k] / num_paths), 5)}
        for k in np.argsort(-total, kind="stable")[:num] if total[k] > 0
    ]  # fmt: skip


def count_path_uses(graph: csr_array, sources: np.ndarray) -> np.ndarray:
    """(nnz,) how many shortest paths from the sources to all frames run over each stored edge."""
    n = graph.shape[0]
    uses = np.zeros(graph.nnz, np.int64)
    _, before = distances_from(graph, sources, predecessors=True)
    entry = csr_array((np.arange(1, graph.nnz + 1), graph.indices, graph.indptr), shape=graph.shape)
    for tree in before:
        walker = np.flatnonzero(tree >= 0)
        while len(walker):
            previous = tree[walker]
            edges, times = np.unique(previous.astype(np.int64) * n + walker, return_counts=True)
            uses[np.asarray(entry[edges // n, edges % n]).ravel() - 1] += times
            walker = previous[tree[previous] >= 0]
    return uses
