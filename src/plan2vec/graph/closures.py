"""Which loop closures to believe. One false closure (a "worm-hole") shortens thousands of distances.

A worked example. One recording: frames 0 to 9 walk down a corridor, 10 to 19 walk down it again, 30 to 39 walk down
another that looks much the same. Recorded steps are 0.9 to 1.1 long by the local metric. It puts 3 - 13 at 0.4 steps,
4 - 14 at 0.95 (one step: nearly alike), and by a chance resemblance 3 - 33 at 0.95.

    common neighbours   frames 2, 4, 12 and 14 are near both 3 and 13: believed. Few are near both 3 and 33: refused.
    transition support  3 - 14: frame 4 follows 3 and looks like 14, so a recorded step leads there: believed.
    short detour        3 - 13 is shorter than most steps: sure. 4 - 3 - 13 - 14 joins 4 and 14 within MAX_DETOUR, so
                        4 - 14 is believed, and helps 5 - 15, like a zip. The recorded way from 3 to 33 has 30 steps:
                        refused. (Were they of two recordings that nothing else joins, it would be believed.)

Common neighbours catch single false closures; with transition support also clusters of them, through a wall say. Both
need dense recordings. Sparse ones are tested by the short detour. Closures are looked for within a radius that comes
from the recorded steps; on sparse recordings it grows until frames have 12 neighbours.

This is for a fixed camera and for vectors. Views of a moving camera are judged by `closures_moving.py`."""

from dataclasses import dataclass

import numpy as np
import torch

from plan2vec.config import Config
from plan2vec.graph.neighbors import NearPairs
from plan2vec.graph.support import CPU, SAME, has_common_neighbors, has_short_detour, has_transition_support

MIN_DEGREE, LOOK_ALIKES = 12.0, 16.0  # wanted per frame on sparse recordings; frames look alike within 0.5 to 1 step
FARTHEST_ALIKE = 1.0  # steps within which frames of sparse recordings look alike at most
MAX_RADIUS = 1.7  # `max_gap`s beyond which the radius never grows
MAX_UNSUPPORTED = 0.1  # share of the candidates that may fail their tests; where more do, a grown radius shrinks again
RETURNS = 0.5  # above this share of bit-equal frames, returning to a place gives the same image again
MAX_DETOUR = 4.0  # steps of the longest detour that may support a doubtful closure
COMMON, TRANSITION, DETOUR = "common neighbours", "transition support", "short detour"
TESTS = {"both": (COMMON, TRANSITION), "common": (COMMON,), "detour": (DETOUR,), "none": ()}
PERCENTILE = "95th percentile of recorded steps"


@dataclass(frozen=True)
class Closures:
    pairs: NearPairs  # the believed ones
    radius: float
    reason: str  # one line for the user
    refused: float  # share of the candidates that a dense recording's tests refuse; 0: not dense enough to tell


def choose_closures(candidates: NearPairs, steps: np.ndarray, sequence: np.ndarray, first_duplicate: np.ndarray,
                    config: Config, device: torch.device = CPU) -> Closures:
    """Believed closures among the candidates.

    `steps` are the local distances of recorded steps that moved. `first_duplicate` (n,) is the first frame that a frame
    equals to the last pixel, -1 for frames that get no closure. Density is counted over frames that differ: a camera
    that shows the same image twice is not denser for it."""
    given = config.radius
    is_step = (sequence[candidates.first] == sequence[candidates.second]) & (candidates.second - candidates.first < 2)
    candidates = candidates.select(~is_step)
    is_new = first_duplicate == np.arange(len(first_duplicate))
    distinct = candidates.distance[is_new[candidates.first] & is_new[candidates.second]]
    num_frames = int(np.count_nonzero(is_new))
    start = float(np.quantile(steps, 0.95)) if given is None else given
    limit = max(start, MAX_RADIUS * config.max_gap) if given is None else given
    radius, reason = start, PERCENTILE
    if (reached := _distance_of_degree(distinct, num_frames, MIN_DEGREE)) > start and limit > start:
        radius, reason = min(reached, limit), f"grown from {start:.2f} ({PERCENTILE}) for a sparse recording"
    tests, tests_reason = choose_tests(distinct[distinct <= radius], num_frames, config.closures.support)
    alike = alike_reach(distinct, num_frames, LOOK_ALIKES)
    believed, failed = _believe(candidates, radius, sequence, tests, alike, device)
    while given is None and failed > MAX_UNSUPPORTED and radius > start * 1.001:
        radius = max(start, radius * 0.95)
        reason = f"grown from {start:.2f} ({PERCENTILE}) for a sparse recording, reduced as too many candidates failed"
        believed, failed = _believe(candidates, radius, sequence, tests, alike, device)
    if DETOUR in tests:
        num_before = len(believed)
        believed = believed.select(not_known_different(believed, first_duplicate))
        believed = believed.select(has_short_detour(believed, sequence, steps, MAX_DETOUR))
        failed += (1 - failed) * (1 - len(believed) / max(1, num_before))
    num_moved = np.count_nonzero(first_duplicate >= 0)
    recall = "" if candidates.recall is None else f"; approximate neighbours, recall {candidates.recall:.4f}"
    words = (f"radius {radius:.2f} steps ({reason if given is None else 'as given'}); {len(believed):,} closures, "
             f"{2 * len(believed) / num_moved:.1f} at each of the {num_moved:,} frames that moved; "
             f"tests: {' + '.join(tests) or 'none'} ({tests_reason}), {failed:.2%} of the candidates failed{recall}")
    return Closures(believed, radius, words, 0.0 if DETOUR in tests else failed)


def not_known_different(pairs: NearPairs, first_duplicate: np.ndarray) -> np.ndarray:
    """(m,) bool: false where both frames have exact copies elsewhere, yet are no copies of each other.

    Asked only where most frames have copies: there, what does not look the same is not the same."""
    joined = first_duplicate >= 0
    has_twin = np.zeros(len(joined), bool)
    has_twin[joined] = (np.bincount(first_duplicate[joined]) > 1)[first_duplicate[joined]]
    if has_twin[joined].mean() <= RETURNS:
        return np.ones(len(pairs), bool)
    are_equal = first_duplicate[pairs.first] == first_duplicate[pairs.second]
    return ~(has_twin[pairs.first] & has_twin[pairs.second]) | are_equal


def _distance_of_degree(distance: np.ndarray, num_frames: int, degree: float) -> float:
    """The least distance within which frames have so many neighbours on average; inf: they never have."""
    wanted = int(degree * num_frames / 2)  # a pair is two neighbours
    if not wanted:
        return 0.0
    return float(np.partition(distance, wanted - 1)[wanted - 1]) if wanted <= len(distance) else np.inf


def choose_tests(distance: np.ndarray, num_frames: int, support: str) -> tuple[tuple[str, ...], str]:
    """Which tests this recording is dense enough for, by the distances of its candidates, and why."""
    if support != "auto":
        return TESTS[support], "as given"
    alike, near = 2 * np.count_nonzero(distance <= SAME) / num_frames, 2 * len(distance) / num_frames
    words = f"each of {num_frames:,} different frames has {near:.1f} candidates, {alike:.1f} of them look alike"
    return TESTS["both" if alike >= 4 and near >= 8 else "detour"], words


def alike_reach(distance: np.ndarray, num_frames: int, look_alikes: float) -> float:
    """Steps within which frames look alike: from 0.5 up to 1, as far as `look_alikes` neighbours on average need."""
    return float(np.clip(_distance_of_degree(distance, num_frames, look_alikes), SAME, FARTHEST_ALIKE))


def _believe(candidates: NearPairs, radius: float, sequence: np.ndarray, tests: tuple[str, ...],
             alike: float, device: torch.device) -> tuple[NearPairs, float]:
    """Candidates within the radius that pass the tests by neighbours, and the share that fails. `alike`: steps."""
    within = candidates.select(candidates.distance <= radius)
    passed = np.ones(len(within), bool)
    if COMMON in tests:
        passed &= has_common_neighbors(within, sequence, 2, device)
    if TRANSITION in tests:
        passed &= has_transition_support(within, sequence, device, alike)
    return within.select(passed), float(1 - passed.mean()) if len(passed) else 0.0
