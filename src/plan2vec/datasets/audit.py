"""`plan2vec audit`: which episodes to look at, worst first, and why. Nothing is deleted."""

import csv
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from plan2vec.data import Sequences
from plan2vec.datasets import findings
from plan2vec.datasets.copies import find_copies, find_leaks
from plan2vec.datasets.findings import Finding, fence
from plan2vec.datasets.prints import Episodes, compare_all, episodes_of
from plan2vec.graph.build import edge_rows
from plan2vec.model import Model
from plan2vec.readers import lerobot
from plan2vec.search.shortest_paths import distances_from

# two frames are equal below this share of the median step, or of the usual difference to another episode
EQUAL_STEPS, EQUAL_SHARE = 0.5, 1 / 3
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
    Returns an `Audit`: every episode with its findings in words, worst first.
    """
    episodes = episodes_of(sequences)
    if episodes.num < 2:
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
    found = [*findings.find_still(episodes, findings.pixel_changes(sequences.frames)),
             *findings.find_lengths(episodes), *findings.find_jumps(episodes, unjoined),
             *findings.find_wrong_ends(episodes)]
    if len(sequences.frame_shape) == 3:
        found += [*findings.find_light(episodes, sequences), *findings.find_shifts(episodes, sequences)]
    known = {one.episode for one in found if one.kind == "off-map"}
    return [*found, *(one for one in findings.find_strange(episodes, near) if one.episode not in known)]


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
    limit = float(np.exp(fence(np.log(ratio[known]), LEAST_RANGE)[1]))
    found = []
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
