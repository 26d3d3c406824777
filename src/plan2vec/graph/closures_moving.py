"""Which closures of a moving camera to believe, and how many of them are false, without any truth.

A single pair of views proves little: corridors look alike. A camera that comes back sees a whole *run* of views again.
So a closure i - j is scored by the mean local distance of i-5 and j-5, ..., i+5 and j+5: its run.

    decoys     The same pair is scored three times more, in ways in which no place is ever seen again: with one run
               backwards, with one run mirrored, and both. A chance match scores best in each of the four ways
               equally often. So the pairs whose backward mirrored run scores best are as many as the chance closures
               among those whose plain run scores best. (Target-decoy competition; proteomics counts false matches so.)
               Views that look like their own mirror image tell nothing: they are left out of both counts.
    threshold  A run counts if its mean is within `max_gap` steps, what training calls neighbours; and the threshold
               falls until decoys are at most the share `max_false` of the closures.
    alignment  Of neighbouring closures (i - j, i - j+1, ...) those that fit best stay. The others are a few steps off.
    hops       Frames up to `max_gap` recorded steps apart are joined too: greedy plans need long hops.
    refusal    No closure is believed if the metric does not even recognize recorded steps that it has not seen; nor if
               most look-alikes soon part: who comes back sees the same views for long, but a wall is like any other."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from plan2vec.config import Neighbors
from plan2vec.data import frames_ahead, slices
from plan2vec.graph.neighbors import NearPairs, near_pairs

HALF_RUN = 5  # frames before and after both ends of a closure that are compared too
REACH = 1.7  # `max_gap`s: candidates lie within; and in the mean of a run, larger distances count as this
SYMMETRIC = 4 / 3  # `max_gap`s between frames and their mirror images below which a run looks symmetric
MIN_TELLING = 0.5  # share of the closures: where fewer tell anything, all count, and the estimate is too high
MIN_TIME = 20  # frames of one recording nearer in time than this need no closure
BESIDE = 3  # frames to either side within which the best aligned closures stay
SLACK = 0.1  # recorded steps by which a closure may be worse than the best beside it
MIN_RECOGNIZED = 0.4  # share of the unseen recorded steps that the metric must take for neighbours
LONG, MIN_LASTING = 20, 0.6  # frames for which views must go on being the same, and share of the closures that must
ALIKE_ON, PACES = 4 / 3, ((1, 1), (1, 0), (0, 1), (2, 1), (1, 2))  # `max_gap`s; frames by which the two sides move on
PER_BIN, PAIRS_AT_ONCE, NUM_JUDGED = 50, 2**16, 20_000  # closures per confidence, pairs scored together, and followed
PLAIN, BACKWARD, MIRRORED, BOTH = range(4)


@dataclass(frozen=True)
class Scored:
    """Candidate pairs and the four means of their runs. Frames are numbered as the vectors that were given."""

    pairs: NearPairs
    means: np.ndarray  # (4, m) float32: plain, backward, mirrored, both
    telling: np.ndarray  # (m,) bool: neither frame, with its run, looks like its own mirror image

    def best(self, which: int, n: int, slack: float) -> np.ndarray:
        """(m,) bool: of the four runs this one is best, and beside one end at least no pair is better by `slack`."""
        key, mean = self.pairs.first * n + self.pairs.second, self.means[which]
        better = np.zeros((2, len(key)), bool)
        for beside in range(-BESIDE, BESIDE + 1):
            for side, other in enumerate((key + beside, key + beside * n)):
                where = np.minimum(np.searchsorted(key, other), len(key) - 1)
                better[side] |= (key[where] == other) & (mean[where] < mean - slack)
        return (self.means.argmin(axis=0) == which) & ~(better[0] & better[1])


@dataclass(frozen=True)
class Believed:
    """Closures, the most certain first, and what they are worth."""

    pairs: NearPairs  # distances in recorded steps
    confidence: np.ndarray  # (m,) 0 to 1
    estimated_false: float  # share of them that is false, as estimated
    threshold: float  # of the mean of a run, in steps of the local metric

    def select(self, which: np.ndarray) -> "Believed":
        return replace(self, pairs=self.pairs.select(which), confidence=self.confidence[which])


def score_runs(vectors: np.ndarray, mirrored: np.ndarray, run: np.ndarray, max_gap: int, most: int,
               device: torch.device, search: Neighbors = "exact") -> Scored:
    """Candidates for closures among frames in order; `run` (n,) labels frames recorded without a gap.

    `vectors`, `mirrored` (n, d): the local metric's, of the frames and of their mirror images."""
    n = len(vectors)
    found = near_pairs(np.concatenate((vectors, mirrored)), REACH * max_gap, most, device, search)
    is_real, is_mixed = found.second < n, (found.first < n) & (found.second >= n)
    earlier, later = found.second[is_mixed] - n, found.first[is_mixed]  # the mirrored frame is the earlier one
    keys = found.first[is_real] * n + found.second[is_real], (earlier * n + later)[earlier < later]
    first, second = np.divmod(np.unique(np.concatenate(keys)), n)
    apart = (run[first] != run[second]) | (second - first >= MIN_TIME)
    first, second = first[apart], second[apart]
    means = np.empty((4, len(first)), np.float32)
    for part in slices(len(first), PAIRS_AT_ONCE):
        for row, (others, way) in enumerate(((vectors, 1), (vectors, -1), (mirrored, 1), (mirrored, -1))):
            means[row, part] = run_means((others, vectors), first[part], second[part], run, way, REACH * max_gap)
    distance, every = np.linalg.norm(vectors[first] - vectors[second], axis=1), np.arange(n)
    telling = run_means((mirrored, vectors), every, every, run, 1, REACH * max_gap) >= SYMMETRIC * max_gap
    pairs = NearPairs(first, second, distance.astype(np.float32), found.recall)
    return Scored(pairs, means, telling[first] & telling[second])


def run_means(sides: tuple[np.ndarray, np.ndarray], first: np.ndarray, second: np.ndarray, run: np.ndarray, way: int,
              largest: float) -> np.ndarray:
    """(m,) mean distance of frames beside both ends, the second side walked forwards (1) or backwards (-1)."""
    n, total, count = len(run), np.zeros(len(first), np.float32), np.zeros(len(first), np.int64)
    for ahead in range(-HALF_RUN, HALF_RUN + 1):
        i, j = first + ahead, second + way * ahead
        inside = (np.minimum(i, j) >= 0) & (np.maximum(i, j) < n)
        i, j = np.where(inside, i, first), np.where(inside, j, second)
        inside &= (run[i] == run[first]) & (run[j] == run[second])
        total += np.where(inside, np.minimum(np.linalg.norm(sides[0][i] - sides[1][j], axis=1), largest), 0)
        count += inside
    return np.where(count > HALF_RUN, total / np.maximum(count, 1), np.inf).astype(np.float32)  # inf: half is missing


def believe(scored: Scored, steps: np.ndarray, limit: float, max_false: float, num_frames: int) -> Believed:
    """The closures whose runs are within a threshold that decoys set, at most `limit` steps of the local metric.

    `steps` (k,): median local distance of frames 0, 1, ..., k - 1 recorded steps apart, which makes distances steps."""
    real, decoy = (scored.best(which, num_frames, SLACK * float(steps[1])) for which in (PLAIN, BOTH))
    order = np.flatnonzero(real & (scored.means[PLAIN] <= limit))
    order = order[np.argsort(scored.means[PLAIN][order], kind="stable")]
    telling = scored.telling | (np.mean(scored.telling[order]) < MIN_TELLING if len(order) else True)
    mean, chance = scored.means[PLAIN][order], np.sort(scored.means[BOTH][decoy & telling])
    num_chance, num_real = np.searchsorted(chance, mean, side="right"), np.cumsum(telling[order])
    allowed = np.flatnonzero(num_chance <= max_false * num_real)
    kept = order[: allowed[-1] + 1] if len(allowed) else order[:0]
    share = (num_chance[len(kept) - 1] + 1) / (num_real[len(kept) - 1] + 1) if len(kept) else 0.0
    pairs = replace(scored.pairs.select(kept), distance=in_steps(scored.pairs.distance[kept], steps))
    threshold = float(mean[len(kept) - 1]) if len(kept) else 0.0
    return Believed(pairs, confidences(num_chance[: len(kept)]), float(share), threshold)


def share_lasting(vectors: np.ndarray, run: np.ndarray, pairs: NearPairs, max_gap: int) -> float:
    """Share of the closures around which views stay the same for `LONG` frames in all; where recordings end soon, 1."""
    closed = np.stack((pairs.first, pairs.second))[:, :: 1 + len(pairs) // NUM_JUDGED]
    lasted, cut_off = np.zeros(closed.shape[1], np.int64), np.zeros(closed.shape[1], bool)
    for way in (-1, 1):
        ends, alike = closed, np.ones(len(lasted), bool)
        for _ in range(LONG):
            others = np.clip(ends[:, None] + way * np.array(PACES).T[:, :, None], 0, len(run) - 1)  # (2, paces, m)
            inside = (run[others] == run[ends][:, None]).all(axis=0) & (others != ends[:, None]).any(axis=0)
            distance = np.where(inside, np.linalg.norm(vectors[others[0]] - vectors[others[1]], axis=-1), np.inf)
            cut_off |= alike & ~inside.all(axis=0)
            alike &= distance.min(axis=0) <= ALIKE_ON * max_gap
            ends = np.where(alike, others[:, distance.argmin(axis=0), np.arange(len(lasted))], ends)
            lasted += alike
    known = (lasted >= LONG) | ~cut_off
    return float(np.mean(lasted[known] >= LONG)) if known.any() else 1.0


def confidences(num_chance: np.ndarray) -> np.ndarray:
    """(m,) of closures in the order of their means, from the number of decoys (m,) up to each: 1 - the share of decoys
    among those of about the same mean, and never above a surer one's."""
    m = len(num_chance)
    bins = np.arange(m) // PER_BIN
    upto = num_chance[np.minimum((bins + 1) * PER_BIN, m) - 1] if m else num_chance
    since = np.where(bins > 0, num_chance[np.maximum(bins * PER_BIN - 1, 0)], 0) if m else num_chance
    share = (upto - since + 0.5) / (np.minimum((bins + 1) * PER_BIN, m) - bins * PER_BIN + 1)
    return 1 - np.minimum(1, np.maximum.accumulate(share))


def recorded_hops(run: np.ndarray, clock: np.ndarray, max_gap: int) -> NearPairs:
    """Frames 2 to `max_gap` recorded frames apart, as pairs. `clock` (n,): steps before each frame."""
    starts = [frames_ahead(run, gap) for gap in range(2, max_gap + 1)]
    first = np.concatenate([np.empty(0, np.int64), *starts])
    second = first + np.repeat(np.arange(2, max_gap + 1), [len(start) for start in starts])
    return NearPairs(first, second, (clock[second] - clock[first]).astype(np.float32))


def in_steps(distance: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Local distances as recorded steps: at the median distance of frames g steps apart it is g."""
    rising = np.maximum.accumulate(steps) + 1e-6 * np.arange(len(steps))
    return np.interp(distance, rising, np.arange(len(steps))).astype(np.float32)


def describe(believed: Believed, scored: Scored, recognized: float | None, lasting: float, strange: int) -> str:
    """One line for the user: how closures were chosen."""
    if not len(believed.pairs) and lasting < MIN_LASTING:
        return (f"no closures: only {lasting:.0%} of the look-alikes go on being alike for {LONG} frames (at least "
                f"{MIN_LASTING:.0%} needed), so they may be places that look alike everywhere; --radius believes them")
    if recognized is not None and recognized < MIN_RECOGNIZED:
        return (f"no closures: the local metric takes only {recognized:.0%} of recorded steps it has not seen for "
                f"neighbours (at least {MIN_RECOGNIZED:.0%} needed), so it cannot say which places were seen again")
    recall = "" if scored.pairs.recall is None else f" (approximate neighbours, recall {scored.pairs.recall:.4f})"
    apart = f"; {strange:,} more, between recordings of which no stretch looks alike, are left out" if strange else ""
    return (f"{len(believed.pairs):,} closures of {len(scored.pairs):,} candidates{recall}, by runs of "
            f"{2 * HALF_RUN + 1} frames within {believed.threshold:.2f} steps; about {believed.estimated_false:.2%} of "
            f"them may be false{apart}")
