"""`plan2vec audit`: which episodes to look at, worst first, and why. Nothing is deleted."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from plan2vec.data import Sequences
from plan2vec.datasets import findings
from plan2vec.datasets.findings import Finding, fence, frames_words
from plan2vec.datasets.prints import Episodes, compare_all, difference, episodes_of, nearest_of
from plan2vec.graph.build import edge_rows
from plan2vec.model import Model
from plan2vec.readers import lerobot
from plan2vec.search.shortest_paths import distances_from

# two frames are equal below this share of the median step, or of the usual difference to another episode
EQUAL_STEPS, EQUAL_SHARE = 0.5, 1 / 3
COPIED_SHARE, LEAST_OVERLAP, LEAST_COUNTED = 0.75, 0.5, 5  # of a copy: equal frames; of the shorter episode; frames
LEAST_EPISODES = 8  # below this there is no "others" to compare a number with
NUM_PLACES = 5  # nearest frames at which an end is placed
LEAST_RANGE = 0.15  # of the logarithm: less than this factor of 1.6 beyond the others is never a detour
BROKEN = ("duplicate", "leak", "frozen", "black", "overexposed", "off-map", "jump", "wrong-end")  # why one may delete


@dataclass(frozen=True)
class Audited:
    episode: int  # number, as the recording has it
    num_frames: int
    findings: list[Finding]  # worst first

    @property
    def severity(self) -> float:
        return float(sum(one.severity for one in self.findings))


@dataclass(frozen=True)
class Audit:
    source: str
    rows: list[Audited]  # one per episode, worst first
    notes: list[str]  # what was not judged, and why

    @property
    def all_findings(self) -> list[Finding]:
        return [one for row in self.rows for one in row.findings]

    @property
    def broken(self) -> list[int]:
        """Episodes that one may want to delete: what was found is no matter of taste."""
        return sorted({one.episode for one in self.all_findings if one.kind in BROKEN})


def audit(sequences: Sequences, model: Model | None = None, against: Sequences | None = None) -> Audit:
    """Compare the episodes of a recording with each other.

    `model`: of these frames, for detours. `against`: another recording, whose episodes should not be in this one.
    Returns an `Audit`: every episode with its findings in words, worst first."""
    if (episodes := episodes_of(sequences)).num < 2:
        raise ValueError(f"{sequences.source}: an audit compares episodes with each other, but there is only one "
                         "sequence; give recordings of several episodes")
    place, near, unjoined = compare_all(episodes)
    equal_below = max(EQUAL_STEPS * episodes.step, EQUAL_SHARE * float(np.median(near)))
    found, notes = [*find_copies(episodes, place, near, equal_below)], []
    if against is not None:
        found += find_leaks(episodes, episodes_of(against), against.source, equal_below)
    if episodes.num < LEAST_EPISODES:
        notes.append(f"{episodes.num} episodes are too few to say what is usual: only copies were looked for")
    else:
        found += _compared(episodes, sequences, near, unjoined)
        detours, num_judged = find_detours(model, episodes) if model is not None else ([], episodes.num)
        found += detours
        if model is None:
            notes.append("detours were not judged: that needs a map (leave --no-fit out)")
        if num_judged < episodes.num:
            notes.append(f"detours were judged in {num_judged} of {episodes.num} episodes: in the others no way on the "
                         "graph leads from start to end over other episodes")
    if sequences.options.every > 1 or sequences.options.rate is not None:
        notes.append("frames are counted as they were read, with --every or --rate")
    found.sort(key=lambda one: -one.severity)
    rows = [Audited(label, length, [one for one in found if one.episode == label])
            for label, length in zip(episodes.label.tolist(), episodes.length.tolist(), strict=True)]
    return Audit(sequences.source, sorted(rows, key=lambda row: (-row.severity, row.episode)), notes)


def _compared(episodes: Episodes, sequences: Sequences, near: np.ndarray, unjoined: np.ndarray) -> list[Finding]:
    found = [*findings.find_still(episodes, sequences.frames), *findings.find_lengths(episodes),
             *findings.find_jumps(episodes, unjoined), *findings.find_wrong_ends(episodes)]
    if len(sequences.frame_shape) == 3:
        found += [*findings.find_light(episodes, sequences), *findings.find_shifts(episodes, sequences)]
    known = {one.episode for one in found if one.kind == "off-map"}
    return [*found, *(one for one in findings.find_strange(episodes, near) if one.episode not in known)]


def find_copies(episodes: Episodes, place: np.ndarray, near: np.ndarray, limit: float) -> Iterator[Finding]:
    """Episodes that repeat another; the shorter or later one is the copy. `place`, `near`: of `compare_all`.

    The most similar frame of another episode votes for a pair of episodes and a shift in time. The pair is a copy where
    the frames laid over each other are equal, but for what a codec changes. Frames in which nothing moves prove
    nothing: only those count that differ from the one counted before."""
    for first, second, shift in _alike(episodes, episodes, place, near, limit):
        keep, copy = sorted((first, second), key=lambda k: (-episodes.length[k], k))
        shift = shift if (first, second) == (copy, keep) else -shift
        yield _copy(episodes, copy, episodes, keep, shift, "duplicate", "episode")


def find_leaks(episodes: Episodes, known: Episodes, source: str, limit: float) -> list[Finding]:
    """Episodes that another recording holds too."""
    if episodes.grid != known.grid:
        raise ValueError(f"{source} has frames of another shape; read both with the same --size and --camera")
    place, near = nearest_of(episodes.prints, known.prints)
    found = _alike(episodes, known, place, near, limit)
    return [_copy(episodes, copy, known, keep, shift, "leak", f"{source}, episode") for copy, keep, shift in found]


def _alike(episodes: Episodes, known: Episodes, place: np.ndarray, near: np.ndarray,
           limit: float) -> list[tuple[int, int, int]]:
    """(episode, known one, shift): frame i of the episode is frame i + shift of the other. Each pair once."""
    i = np.flatnonzero(near <= limit)
    pairs = np.stack((episodes.number[i], known.number[place[i]], known.index[place[i]] - episodes.index[i]), axis=1)
    if known is episodes:
        turned = pairs[:, 0] > pairs[:, 1]
        pairs[turned] = pairs[turned][:, [1, 0, 2]] * (1, 1, -1)
    votes: dict[tuple[int, int], Counter[int]] = {}
    for first, second, shift in pairs.tolist():
        votes.setdefault((first, second), Counter())[shift] += 1
    best = {pair: counted.most_common(1)[0][0] for pair, counted in sorted(votes.items())
            if counted.total() >= LEAST_COUNTED}
    return [(*pair, shift) for pair, shift in best.items() if _is_copy(episodes, known, (*pair, shift), limit)]


def _is_copy(episodes: Episodes, known: Episodes, pair: tuple[int, int, int], limit: float) -> bool:
    mine, theirs = _overlap(episodes, known, pair)
    if len(mine) < LEAST_OVERLAP * min(episodes.length[pair[0]], known.length[pair[1]]):
        return False
    counted = [0]
    for k in range(1, len(mine)):
        if difference(episodes.prints[mine[k]], episodes.prints[mine[counted[-1]]]) > 2 * limit:
            counted.append(k)
    equal = difference(episodes.prints[mine[counted]], known.prints[theirs[counted]]) <= limit
    return len(counted) >= LEAST_COUNTED and bool(equal.mean() >= COPIED_SHARE)


def _overlap(episodes: Episodes, known: Episodes, pair: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Frames of the first and, beside each, of the second."""
    first, second, shift = pair
    index = np.arange(max(0, -shift), min(episodes.length[first], known.length[second] - shift))
    return episodes.first[first] + index, known.first[second] + index + shift


def _copy(episodes: Episodes, copy: int, known: Episodes, keep: int, shift: int, kind: str, whose: str) -> Finding:
    mine, theirs = _overlap(episodes, known, (copy, keep, shift))
    first, last = int(episodes.index[mine[0]]), int(episodes.index[mine[-1]])
    away = float(np.median(difference(episodes.prints[mine], known.prints[theirs]))) / max(episodes.step, 1e-9)
    also = frames_words(first + shift, last + shift)
    words = f"{frames_words(first, last)} repeat {also} of {whose} {known.label[keep]} ({away:.2f} steps apart)"
    other = int(known.label[keep]), first + shift
    return Finding(int(episodes.label[copy]), kind, first, last, words, 1 + 9 / (1 + 10 * away), other)


def find_detours(model: Model, episodes: Episodes) -> tuple[list[Finding], int]:
    """What episodes took, over the shortest way between their ends on the graph without them: the findings, and how
    many could be judged. Where the graph has several parts some ends cannot be joined."""
    way = ways_without(model.graph, model.local_vectors, episodes)
    moves = episodes.change > episodes.still_below
    taken = np.array([np.count_nonzero(moves[episodes.part(k)]) for k in range(episodes.num)])
    known = np.flatnonzero(np.isfinite(way) & (way > 0) & (taken > 0))
    ratio = taken / np.where(way > 0, way, np.inf)
    if len(known) < 4:
        return [], len(known)
    limit, found = float(np.exp(fence(np.log(ratio[known]), LEAST_RANGE)[1])), list[Finding]()
    for k in known[ratio[known] > limit]:
        words = f"{taken[k]} steps for a way of {way[k]:.1f} on the map of the other episodes "
        words += f"({ratio[k]:.1f} times as long; others up to {limit:.1f})"
        last = int(episodes.length[k]) - 1
        found.append(Finding(int(episodes.label[k]), "detour", 0, last, words, float(ratio[k] / limit)))
    return found, len(known)


def ways_without(graph: csr_array, vectors: np.ndarray, episodes: Episodes) -> np.ndarray:
    """(e,) steps of the shortest way from each episode's first to its last frame that enters no other frame of it. Both
    are placed at the nearest frames of other episodes, by the local metric."""
    row, n = edge_rows(graph), graph.shape[0]
    way = np.empty(episodes.num)
    for k in range(episodes.num):
        own = episodes.number == k
        start, end = (np.linalg.norm(vectors - vectors[frame], axis=1)
                      for frame in (episodes.first[k], episodes.stop[k] - 1))
        start[own], end[own] = np.inf, np.inf
        near_start, near_end = (np.argsort(far)[:NUM_PLACES] for far in (start, end))
        data = np.where(own[row] | own[graph.indices], np.inf, graph.data)
        placed = csr_array(  # the graph with one node more: the first frame, which leads to where it is placed
            (np.append(data, start[near_start]), np.append(graph.indices, near_start),
             np.append(graph.indptr, len(data) + NUM_PLACES)), shape=(n + 1, n + 1))
        way[k] = (distances_from(placed, np.array([n]))[0, near_end] + end[near_end]).min()
    return way


def as_json(answer: Audit) -> dict[str, Any]:
    """Programs read these names."""
    rows = [{"episode": row.episode, "num_frames": row.num_frames, "severity": round(row.severity, 3), "findings": [
        {name: value for name, value in asdict(one).items() if name != "episode"}
        | {"severity": round(float(one.severity), 3)} for one in row.findings]} for row in answer.rows]
    return {"source": answer.source, "num_episodes": len(rows), "num_findings": len(answer.all_findings),
            "episodes": rows, "notes": answer.notes, "broken": answer.broken, "lerobot": lerobot_line(answer)}


def as_csv(answer: Audit) -> str:
    """One line per episode, worst first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("episode", "num_frames", "severity", "kinds", "findings"))
    for row in answer.rows:
        kinds = " ".join(dict.fromkeys(one.kind for one in row.findings))
        words = "; ".join(one.words for one in row.findings)
        writer.writerow((row.episode, row.num_frames, f"{row.severity:.3f}", kinds, words))
    return text.getvalue()


def lerobot_line(answer: Audit) -> str | None:
    """What to type to get a copy without the broken episodes; None where none is broken or it is no LeRobot folder."""
    folder = Path(answer.source)
    if not answer.broken or not lerobot.recognizes(folder):
        return None
    name = quote(folder.resolve().name)
    return (f"lerobot-edit-dataset --repo_id {name} --root {quote(str(folder))} --new_repo_id {name}_cleaned "
            f"--operation.type delete_episodes --operation.episode_indices {quote(json.dumps(answer.broken))}")
