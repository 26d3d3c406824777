"""The model behind the page, what the page asks of it, and what a person tells it."""

import math
import threading
from functools import lru_cache
from urllib.parse import parse_qs

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.domains import find_domain
from plan2vec.evaluation import truth_of
from plan2vec.learning.random_streams import Stream
from plan2vec.model import Located, Model
from plan2vec.pictures.hops import doubted_closures, unjudged
from plan2vec.pictures.scene import graph_scene, map_scene, room_scene
from plan2vec.planner import METHODS, Plan, plan_of
from plan2vec.runs.products import load_graph, read_beside
from plan2vec.runs.struck import Judged, drop_struck, judge, read_judged, unstrike
from plan2vec.search.shortest_paths import Path as Way
from plan2vec.validity import SOON, closure_numbers, counted_closures
from plan2vec.verdict import make_verdict

COLORS = ("sequence", "time", "distance", "component", "position")
NUM_AXES = {"2-d": 2, "3-d": 3, "graph": 2}  # principal components, or a layout by distances on the graph
PANELS = ("methods", "neighbours", "closures")
LONGEST = 40  # characters of a frame's name
NUM_SUSPICIOUS, NUM_LINES = 24, 200  # closures listed; drawn as lines
LEAST_SHARE = 0.6  # of the variance; below, principal components of the map mislead
LARGE_PART = 0.99  # of the frames; a map whose largest part has fewer is several maps
NUM_NEIGHBORS = 24  # neighbours listed
MANY_EDGES = 5_000_000  # graphs with more get fewer searches, and no comparison with the truth before the page opens
# the view that the address keeps, so that a link reproduces it: start and goal as typed, and how they are shown
VIEW = {"start": "", "goal": "", "method": "greedy", "color": "sequence", "axes": "2-d", "panel": PANELS[0]}


class Session:
    """One model, one page; several threads of the server ask it."""

    def __init__(self, model: Model):
        self.model, self.sequences, self.num_frames = model, model.sequences, model.sequences.num_frames
        self.room = room_scene(model.sequences)
        self.scene = lru_cache(len(NUM_AXES))(lambda axes: graph_scene(model.graph, model.directed) if axes == "graph"
                                              else map_scene(model.vectors, NUM_AXES[axes]))
        self.colors = COLORS if self.room else COLORS[:-1]  # the last are the true positions
        one = model.sequences.sequence[0] == model.sequences.sequence[-1]
        color = "position" if self.room else "time" if one else "sequence"
        self.default = VIEW | {"color": color, "axes": self._usual_axes()}
        self.card, self.evaluated = read_card(model)
        self._lock, self._search = threading.Lock(), threading.Lock()
        self._suspicious, self._struck = list[dict](), self.judged().struck
        self.revision = -1  # changes of the graph in this session
        self._forget_graph()

    def _usual_axes(self) -> str:
        """A layout of the graph where two principal components say little, or parts of it would lie over each other."""
        if self.model.vectors.shape[1] == 3:
            return "3-d"
        unclear = self.scene("2-d").share < LEAST_SHARE or np.mean(self.model.parts[1] == 0) < LARGE_PART
        return "graph" if unclear and self.model.graph.nnz <= MANY_EDGES else "2-d"

    def _forget_graph(self) -> None:
        """After a change of the graph, everything computed from it is computed again."""
        self.revision += 1
        self.plan = lru_cache(64)(self._make_plan)
        self._exact_graph = lru_cache(1)(lambda: self.model.graph.astype(np.float64))  # else scipy converts every time

    def follow_strikes(self) -> None:
        """What somebody, here or elsewhere, has struck leaves the graph; what was forgotten comes back."""
        if self.model.folder is not None and self.judged().struck != self._struck:
            with self._lock:
                self._struck, fitted = self.judged().struck, load_graph(self.model.folder / "graph.npz").graph
                self.model.graph = drop_struck(fitted, self.sequences.sequence, self._struck)
                self._forget_graph()

    def get_ready(self) -> None:
        """What every plan needs, before the first is asked for."""
        _ = self.model.places
        self._exact_graph()
        threading.Thread(target=self.suspicious, daemon=True).start()  # takes a second or so: not when it is asked for

    def far_frames(self) -> tuple[int, int]:
        """Two frames of the largest part that are far apart on the map: the farthest from some frame, and from it."""
        part = np.flatnonzero(self.model.parts[1] == 0)
        first = int(part[np.argmax(self.model.distance_between(part, int(part[0])))])
        return first, int(part[np.argmax(self.model.distance_between(part, first))])

    def number(self, text: str, name: str) -> int:
        """A frame number from what was typed or linked; ValueError says what is wrong."""
        return self.model.frame_number(str(text).strip()[:LONGEST], name)

    def locate(self, frame: np.ndarray) -> Located:
        with self._lock:  # the first search encodes all frames
            return self.model.locate(frame)

    def episodes(self) -> dict:
        """The recordings as the timeline draws them: label and number of frames of each, and what an audit found."""
        sequence = self.sequences.sequence
        first = np.flatnonzero(np.diff(sequence, prepend=sequence[0] - 1))
        start = dict(zip(sequence[first].tolist(), first.tolist(), strict=True))

        def numbered(audit: dict) -> list[dict]:  # an audit counts frames from the first of each episode
            return [{"kind": str(found["kind"]), "words": str(found["words"])}
                    | {end: start[one["episode"]] + int(found[end]) for end in ("first", "last")}
                    for one in audit["episodes"] for found in one["findings"]]

        found = read_beside(self.model.folder, "audit.json", numbered) or []
        return {"labels": list(start), "counts": np.diff(first, append=self.num_frames).tolist(), "findings": found}

    def _make_plan(self, start: int, goal: int, method: str) -> Plan:
        if method != "dijkstra":
            return self.model.plan(start, goal, method)
        known = self.plan(start, goal, "greedy").length
        return exact_plan(self._exact_graph(), start, goal, math.inf if known is None else 1.001 * known)

    def neighbors(self, number: int, goal: int | None) -> list[tuple[int, float, bool, float | None]]:
        """Recorded steps, then the nearest closures: (frame, steps of the hop, is recorded, learned steps to goal)."""
        graph, sequence = self.model.graph, self.sequences.sequence
        row = slice(graph.indptr[number], graph.indptr[number + 1])
        near, distance = graph.indices[row].astype(np.int64), graph.data[row]
        recorded = (np.abs(near - number) == 1) & (sequence[near] == sequence[number])
        order = np.lexsort((distance, ~recorded))[:NUM_NEIGHBORS]
        near, distance, recorded = near[order], distance[order], recorded[order]
        to_goal = [None] * len(near) if goal is None else self.model.distance_between(near, goal).tolist()
        return list(zip(near.tolist(), distance.tolist(), recorded.tolist(), to_goal, strict=True))

    def suspicious(self) -> list[dict]:
        """The most doubtful closures, not yet judged; searched for once, and again when all are judged."""
        num_sources = 32 if self.model.graph.nnz < MANY_EDGES else 4
        with self._search:
            judged = self.judged().all
            if not unjudged(self._suspicious, judged):
                self._suspicious = doubted_closures(self.model, NUM_LINES + len(judged), Stream.EXPLORER, num_sources)
            return unjudged(self._suspicious, judged)[:NUM_LINES]

    def judged(self) -> Judged:
        return read_judged(self.model.folder)

    def judge(self, verdict: str, first: int, second: int) -> None:
        """Strike, keep or undo; the graph of this session follows at once."""
        folder = self.model.folder
        if folder is None:
            raise ValueError("this model lies in no run folder, so nothing can be remembered; save it first")
        if verdict == "undo":
            unstrike(folder, first, second)
        elif (min(first, second), max(first, second)) in self.judged().struck:
            raise ValueError(f"the closure of frames {first} and {second} is already struck; undo brings it back")
        else:
            said = {"struck" if verdict == "strike" else "kept": [(first, second)]}
            judge(folder, self.model.graph, self.sequences.sequence, **said)
        self.follow_strikes()


def from_query(query: str, default: dict[str, str], colors: tuple[str, ...] = COLORS) -> tuple[dict[str, str], str]:
    """The view that an address asks for, and a complaint about what it asks for wrongly."""
    try:
        asked = {name: values[-1] for name, values in parse_qs(query.lstrip("?"), max_num_fields=20).items()}
    except ValueError:
        return default, "The address asks for too much; the usual view is shown."
    allowed = {"method": METHODS, "color": colors, "axes": tuple(NUM_AXES), "panel": PANELS}
    wrong = [name for name, choices in allowed.items() if name in asked and asked[name] not in choices]
    wrong += [name for name in ("start", "goal") if len(asked.get(name, "")) > LONGEST]
    complaint = f"The address asks for an unknown {' and '.join(wrong)}; the usual one is shown." if wrong else ""
    return default | {name: asked[name] for name in default if name in asked and name not in wrong}, complaint


def read_card(model: Model) -> tuple[dict, bool]:
    """The scorecard that `fit` or `evaluate` left, and True; without one what the model itself knows, and False."""
    known = read_beside(model.folder, "scorecard.json", lambda card: make_verdict(card) and card)
    if known is not None:
        return known, True
    sequences, truth = model.sequences, truth_of(model.sequences)
    min_gap = 0 if find_domain(sequences.domain) else SOON
    num_parts, part = model.parts
    closures = int(np.count_nonzero(counted_closures(model.graph, sequences.sequence, min_gap)))
    recognized = model.trained.recognized if model.config.view == "moving" else None
    card = {
        "num_frames": sequences.num_frames, "num_components": num_parts, "largest_component_share": np.mean(part == 0),
        "local_accuracy": model.local_accuracy, "reversibility": model.reversibility, "directed": model.directed,
        "recognized": recognized, "view": model.config.view, "repeated": model.built.repeated, "flow": model.built.flow,
        "estimated_false_closures": model.built.estimated_false, "loop_closures": closures}
    if truth is not None and model.graph.nnz <= MANY_EDGES:
        card |= closure_numbers(model.graph, sequences.sequence, truth, None, min_gap)
    return card, False


def exact_plan(graph: csr_array, start: int, goal: int, limit: float = math.inf) -> Plan:
    """The shortest path, and what Dijkstra's search expands and touches. `limit`: steps of some path that is known."""
    # by scipy: in pure Python it takes many seconds on a large graph
    lengths, before = dijkstra(graph, indices=start, limit=limit, return_predecessors=True)
    length, nodes = float(lengths[goal]), [goal]
    expanded = lengths < length  # (n,) bool
    touched = frozenset(np.unique(graph.indices[np.repeat(expanded, np.diff(graph.indptr))]).tolist())
    while nodes[-1] != start and math.isfinite(length):
        nodes.append(int(before[nodes[-1]]))
    found = nodes[::-1] if math.isfinite(length) else None
    return plan_of(Way(found, length, int(expanded.sum()), len(touched), touched), start, goal, "dijkstra")
