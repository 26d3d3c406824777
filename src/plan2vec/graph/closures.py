"""Which loop closures to believe. One false closure (a "worm-hole") shortens thousands of distances.

Without truth at hand, a closure i - j is believed when other recorded evidence supports it:
- *common neighbours*: at least two frames are near both i and j. A chance resemblance of two frames has none. Two whole
regions that
  the metric half confuses have, but not where the common neighbours must be nearer than the closure is long
  (`common_reach`).
- *transition support*: some recorded step leads from a frame that looks like i to one that looks like j, (N (T + 1)
N)_ij > 0.
  It also finds clusters of false closures, through a wall say, but needs dense recordings. The fewer frames there are,
  the farther apart two may be to look alike (`look_alikes`): else true closures at the rim lack support, and greedy
  walks end there.
- *short detour*, where recordings are too sparse for that: i and j are near each other already by recorded steps and
  surer closures, or a whole stretch before or after them is. Look-alike corridors give clusters of false closures,
  which have common neighbours but no detour.
The radius within which closures are looked for comes from the recorded steps.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.config import Config
from plan2vec.data import transitions
from plan2vec.graph.build import build_graph
from plan2vec.graph.common_columns import share_columns
from plan2vec.graph.neighbors import NearPairs
from plan2vec.search.shortest_paths import connected_parts

CPU = torch.device("cpu")
DISTANCES_AT_ONCE = 2**24  # entries of a block of distances kept in memory
MAX_ZIP_ROUNDS = 50  # times that newly believed closures may support others
SHORT_DETOUR = "short detour"
# frames nearer than this many steps look alike (N in N T N) in dense recordings, and in sparse ones at most
SAME, ALIKE = 0.5, 1.0
# quantiles of the recorded steps: up to there a closure needs no support, or only a stretch beside it
SURE, LIKELY = 0.3, 0.9
# share of frames that equal another to the last pixel beyond which a place that one comes back to looks just as before
RETURNS = 0.5
MAX_RADIUS = 1.7  # `max_gap`s beyond which the radius never grows
MAX_UNSUPPORTED = 0.1  # share of the candidates that may fail their tests; where more do, the radius stops growing
CLOSE_COMMON = 0.7  # share of the radius within which "close-common" looks for common neighbours
ALONGSIDE = 4  # frames before or after both ends of a likely closure that must be near each other too


@dataclass(frozen=True)
class Closures:
    """The believed closures, and why."""

    pairs: NearPairs
    radius: float
    reason: str  # one line for the user


def choose_closures(
    candidates: NearPairs, steps: np.ndarray, sequence: np.ndarray, first_duplicate: np.ndarray, config: Config,
    device: torch.device = CPU
) -> Closures:
    """Believed closures among the candidates.

    `steps` are the local distances of recorded one-frame steps that moved. `first_duplicate` (n,) is the first frame
    that a frame equals to the last pixel, its own number where it differs from all before, and -1 where it is not to be
    joined. How dense a recording is is counted over frames that differ: a camera that shows the same image twice is not
    denser for it.
    """
    settings, radius = config.closures, config.radius
    is_step = (sequence[candidates.first] == sequence[candidates.second]) & (candidates.second - candidates.first < 2)
    candidates = candidates.select(~is_step)
    is_new = first_duplicate == np.arange(len(first_duplicate))
    distinct, num_frames = candidates.distance[
        is_new[candidates.first] & is_new[candidates.second]
    ], int(np.count_nonzero(is_new))
    start = float(np.quantile(steps, 0.95)) if radius is None else radius
    limit = max(start, MAX_RADIUS * config.max_gap) if radius is None else radius
    grown, reason = _grow(distinct, num_frames, start, limit, settings.min_degree)
    if radius is not None:
        reason = "as given"
    tests, tests_reason = choose_tests(distinct[distinct <= grown], num_frames, settings.support)
    reach = alike_reach(distinct, num_frames, settings.look_alikes)
    common = CLOSE_COMMON if settings.support == "close-common" else 1.0
    believed, share = _believe(candidates, grown, sequence, tests, common, reach, device)
    while radius is None and share > MAX_UNSUPPORTED and grown > start * 1.001:
        grown = max(start, grown * 0.95)
        reason = f"grown from {start:.2f} (95th percentile of recorded steps) for a sparse recording, stopped by unsupported candidates"
        believed, share = _believe(candidates, grown, sequence, tests, common, reach, device)
    if SHORT_DETOUR in tests:
        num_before = len(believed)
        believed = believed.select(not_known_different(believed, first_duplicate))
        believed = believed.select(has_short_detour(believed, sequence, steps, settings.max_detour))
        share += (1 - share) * (1 - len(believed) / max(1, num_before))
    degree = 2 * len(believed) / np.count_nonzero(first_duplicate >= 0)
    found = "" if candidates.recall is None else f"; approximate neighbours, recall {candidates.recall:.4f}"
    return Closures(
        believed, grown,
        f"radius {grown:.2f} steps ({reason}); {len(believed):,} closures, {degree:.1f} per frame; "
        f"tests: {' + '.join(tests) or 'none'} ({tests_reason}), {share:.2%} of the candidates failed{found}",
    )


def _grow(distance: np.ndarray, num_frames: int, start: float, limit: float, min_degree: float) -> tuple[float, str]:
    """The smallest radius from `start` up to `limit` at which frames have `min_degree` neighbours on average; of
    candidates' distances.
    """
    reached = _distance_of_degree(distance, num_frames, min_degree)
    if reached <= start or limit <= start:
        return start, "95th percentile of recorded steps"
    return min(reached, limit), f"grown from {start:.2f} (95th percentile of recorded steps) for a sparse recording"


def _distance_of_degree(distance: np.ndarray, num_frames: int, degree: float) -> float:
    """The least distance within which frames have so many neighbours on average, by the distances of pairs; inf: they
    never have.
    """
    wanted = int(degree * num_frames / 2)  # a pair is two neighbours
    if not wanted:
        return 0.0
    return float(np.partition(distance, wanted - 1)[wanted - 1]) if wanted <= len(distance) else np.inf


def choose_tests(distance: np.ndarray, num_frames: int, support: str) -> tuple[tuple[str, ...], str]:
    """Which support tests this recording is dense enough for, by the distances of its candidates, and why."""
    named = {
        "both": ("common neighbours", "transition support"), "common": ("common neighbours",),
        "close-common": ("common neighbours",), "detour": (SHORT_DETOUR,), "none": ()
    }
    if support != "auto":
        return named[support], "as given"
    alike = 2 * np.count_nonzero(distance <= SAME) / num_frames
    near = 2 * len(distance) / num_frames
    words = f"a frame has {near:.1f} candidates, {alike:.1f} of them look alike"
    if alike >= 4 and near >= 8:
        return named["both"], words
    return named["detour"], words


def alike_reach(distance: np.ndarray, num_frames: int, look_alikes: float) -> float:
    """Steps within which frames look alike: half a step, or what gives them `look_alikes` on average, but at most one.
    """
    return float(np.clip(_distance_of_degree(distance, num_frames, look_alikes), SAME, ALIKE))


def _believe(
    candidates: NearPairs, radius: float, sequence: np.ndarray, tests: tuple[str, ...], common_reach: float,
    alike: float, device: torch.device
) -> tuple[NearPairs, float]:
    """Candidates within the radius that pass the tests of support by neighbours, and the share that fails."""
    within = candidates.select(candidates.distance <= radius)
    passed = np.ones(len(within), bool)
    if "common neighbours" in tests:
        passed &= has_common_neighbors(within, sequence, 2, device, common_reach * radius)
    if "transition support" in tests:
        passed &= has_transition_support(within, sequence, device, alike)
    return within.select(passed), float(1 - passed.mean()) if len(passed) else 0.0


def has_common_neighbors(
    pairs: NearPairs, sequence: np.ndarray, num: int, device: torch.device = CPU, reach: float = np.inf
) -> np.ndarray:
    """(m,) bool: at least `num` frames are near both frames of a pair (by a candidate within `reach` or by a recorded
    step).
    """
    near = _pattern(pairs, reach, len(sequence)) + _transition_pattern(sequence)
    return share_columns(near, near, pairs.first, pairs.second, num, device)


def has_transition_support(
    pairs: NearPairs, sequence: np.ndarray, device: torch.device = CPU, reach: float = SAME
) -> np.ndarray:
    """(m,) bool: a recorded step joins the look-alikes of the two frames, (N (T + 1) N)_ij > 0, where N joins frames
    within `reach`.
    """
    n = len(sequence)
    alike = _pattern(pairs, reach, n) + eye_array(n, format="csr", dtype=np.int8)
    stays_or_steps = _transition_pattern(sequence) + eye_array(n, format="csr", dtype=np.int8)
    return share_columns((alike @ stays_or_steps).tocsr(), alike, pairs.first, pairs.second, 1, device)


def not_known_different(pairs: NearPairs, first_duplicate: np.ndarray) -> np.ndarray:
    """(m,) bool: false where each frame of a pair has come back to the last pixel, as most frames do, but not as the
    other.
    """
    joined = first_duplicate >= 0
    has_twin = np.zeros(len(joined), bool)
    has_twin[joined] = (np.bincount(first_duplicate[joined]) > 1)[first_duplicate[joined]]
    if has_twin[joined].mean() <= RETURNS:
        return np.ones(len(pairs), bool)
    return ~(has_twin[pairs.first] & has_twin[pairs.second]) | (
        first_duplicate[pairs.first] == first_duplicate[pairs.second]
    )


def has_short_detour(pairs: NearPairs, sequence: np.ndarray, steps: np.ndarray, max_detour: float) -> np.ndarray:
    """(m,) bool: the ends are near each other already by recorded steps and surer closures, or lie in different parts.

    Closures that are shorter than most recorded `steps` need no support, those shorter than all but a few only a
    stretch beside them. From there on it works like a zip: a closure whose ends are joined within `max_detour` steps is
    believed and helps the next ones, so whole stretches that were seen twice close, while a lone look-alike far away,
    which nothing beside it supports, never does.
    """
    sure, likely = np.quantile(steps, (SURE, LIKELY))
    believed = (pairs.distance <= sure) | ((pairs.distance <= likely) & runs_alongside(pairs, sequence))
    for _ in range(MAX_ZIP_ROUNDS):
        graph = build_graph(sequence, pairs.select(believed))
        asked = np.flatnonzero(~believed)
        near = _within(graph, pairs.select(~believed), max_detour)
        believed[asked[near]] = True
        if not near.any():
            break
    part = connected_parts(build_graph(sequence, pairs.select(believed)))[1]
    return believed | (part[pairs.first] != part[pairs.second])


def runs_alongside(pairs: NearPairs, sequence: np.ndarray) -> np.ndarray:
    """(m,) bool: the `ALONGSIDE` frames before or after one end lie near those before or after the other, frame by
    frame, both ways round.
    """
    known = np.sort(_codes(pairs.first, pairs.second, len(sequence)))
    found = np.zeros(len(pairs), bool)
    for first_way, second_way in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
        alongside = np.ones(len(pairs), bool)
        for ahead in range(1, ALONGSIDE + 1):
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
    upper = csr_array(
        (np.ones(len(i), np.int8), j, np.searchsorted(i, np.arange(n + 1)).astype(np.int32)), shape=(n, n)
    )
    return upper + upper.T.tocsr()


def _transition_pattern(sequence: np.ndarray) -> csr_array:
    start = transitions(sequence)
    ones = np.ones(2 * len(start), np.int8)
    return csr_array(
        (ones, (np.concatenate((start, start + 1)), np.concatenate((start + 1, start)))), shape=(len(sequence),) * 2
    )
