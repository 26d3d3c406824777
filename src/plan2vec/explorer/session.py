"""The model behind the page, what the page asks of it, and what a person tells it."""

import math
import threading
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.explorer.images import decode_upload
from plan2vec.explorer.view import COLORS, View
from plan2vec.graph.suspicious import suspicious_closures
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Located, Model
from plan2vec.pictures.figures import frame_name
from plan2vec.pictures.scene import room_scene
from plan2vec.planner import METHODS, Plan, plan_of
from plan2vec.runs.products import load_graph
from plan2vec.runs.struck import Judged, Pair, drop_struck, keep, read_judged, strike, unstrike
from plan2vec.search.shortest_paths import Path, connected_parts

NUM_SUSPICIOUS = 24  # closures listed
BELIEVED = 0.9  # confidence below which a closure is called doubtful
NUM_NEIGHBORS = 24  # neighbours listed
SEARCH_AFTER = 5.0  # seconds in which the first page is drawn; then the closures to look at are searched for
MANY_EDGES = 5_000_000  # graphs with more get fewer searches for suspicious closures


@dataclass(frozen=True)
class Hop:
    """From one frame of a plan to the next."""

    kind: str  # recorded, closure, or doubtful: a closure that is hardly believed
    confidence: float | None  # of a closure, where the graph knows it


@dataclass(frozen=True)
class Neighbor:
    """A frame that one hop leads to."""

    number: int
    distance: float  # steps of the hop
    recorded: bool  # a recorded transition, else a closure
    to_goal: float | None  # learned distance from it to the goal, steps


class Session:
    """One model, one page; several threads of the server ask it."""

    def __init__(self, model: Model):
        self.model = model
        self.sequences = model.sequences
        self.num_frames = model.sequences.num_frames
        self.room = room_scene(model.sequences)
        axes = "3-d" if model.vectors.shape[1] == 3 else "2-d"
        self.colors = COLORS if self.room else COLORS[:-1]  # the last are the true positions
        one = model.sequences.sequence[0] == model.sequences.sequence[-1]
        self.default = View(color="position" if self.room else "time" if one else "sequence", axes=axes)
        self._lock, self._search = threading.Lock(), threading.Lock()
        self._suspicious: list[dict] | None = None
        self._struck = read_judged(model.folder).struck
        self.revision = -1  # changes of the graph in this session
        self._forget_graph()

    def _forget_graph(self) -> None:
        """After a change of the graph, everything computed from it is computed again."""
        self.revision += 1
        self.plan = lru_cache(64)(self._make_plan)
        # as scipy wants it, else it converts every time
        self._exact_graph = lru_cache(1)(lambda: self.model.graph.astype(np.float64))
        self.parts = lru_cache(1)(lambda: connected_parts(self.model.graph)[1])

    def follow_strikes(self) -> None:
        """Somebody else may have struck closures of this run."""
        if self.model.folder is not None and self.judged().struck != self._struck:
            with self._lock:
                self._use(load_graph(self.model.folder / "graph.npz").graph, self.judged().struck)

    def _use(self, graph: csr_array, struck: tuple[Pair, ...]) -> None:
        self._struck = struck
        self.model.graph = drop_struck(graph, self.sequences.sequence, struck)
        self._forget_graph()

    def get_ready(self) -> None:
        """What every plan needs, before the first is asked for."""
        _ = self.model.places
        self._exact_graph()
        search = threading.Timer(SEARCH_AFTER, self.suspicious)  # takes seconds, so not when somebody opens the list
        search.daemon = True
        search.start()

    def far_frames(self) -> tuple[str, str]:
        """Two frames of the largest part that are far apart on the map: the farthest from some frame, and from it."""
        part = np.flatnonzero(self.parts() == 0)
        ends = [int(part[0])]
        for _ in range(2):
            ends.append(int(part[np.argmax(self.model.distance_between(part, ends[-1]))]))
        return str(ends[1]), str(ends[2])

    # ------------------------------------------------------------------------------------------------ frames

    def number(self, text: str, name: str) -> int:
        """A frame number from what was typed or linked; ValueError says what is wrong."""
        return self.model.frame_number(str(text).strip()[:40], name)

    def name(self, number: int) -> str:
        return frame_name(self.sequences, number)

    def locate_upload(self, contents: str) -> Located:
        with self._lock:  # the first search encodes all frames
            return self.model.locate(decode_upload(contents, self.sequences))

    # ------------------------------------------------------------------------------------------------ plans

    def _make_plan(self, start: int, goal: int, method: str) -> Plan:
        if method != "dijkstra":
            return self.model.plan(start, goal, method)
        known = self.plan(start, goal, "greedy").length
        return exact_plan(self._exact_graph(), start, goal, math.inf if known is None else 1.001 * known)

    def compare(self, start: int, goal: int) -> list[Plan]:
        return [self.plan(start, goal, method) for method in METHODS]

    def hops(self, nodes: list[int]) -> list[Hop]:
        """What each hop of a plan rests on: a recorded transition, or a closure and how far it is believed."""
        sequence, known, hops = self.sequences.sequence, self.model.built.confidence, []
        for low, high in (sorted(pair) for pair in pairwise(nodes)):
            if high - low == 1 and sequence[low] == sequence[high]:
                hops.append(Hop("recorded", None))
                continue
            confidence = None if known is None else round(float(known[low, high]), 4) or None  # 0: not stored
            hops.append(Hop("closure" if confidence is None or confidence >= BELIEVED else "doubtful", confidence))
        return hops

    def neighbors(self, number: int, goal: int | None) -> list[Neighbor]:
        """The neighbours of a frame on the graph: recorded steps, then the nearest closures."""
        graph, sequence = self.model.graph, self.sequences.sequence
        row = slice(graph.indptr[number], graph.indptr[number + 1])
        near, distance = graph.indices[row].astype(np.int64), graph.data[row]
        recorded = (np.abs(near - number) == 1) & (sequence[near] == sequence[number])
        order = np.lexsort((distance, ~recorded))[:NUM_NEIGHBORS]
        near, distance, recorded = near[order], distance[order], recorded[order]
        to_goal = [None] * len(near) if goal is None else self.model.distance_between(near, goal).tolist()
        facts = zip(near.tolist(), distance.tolist(), recorded.tolist(), to_goal, strict=True)
        return [Neighbor(*fact) for fact in facts]

    # ------------------------------------------------------------------------------------------------ closures

    def suspicious(self) -> list[dict]:
        """The most doubtful closures, not yet judged; searched for once, and again when all are judged."""
        with self._search:
            judged = self.judged().all
            if self._suspicious is None or all(_ends(closure) in judged for closure in self._suspicious):
                graph, num = self.model.graph, NUM_SUSPICIOUS + len(judged)
                rng = rng_at(self.model.config.seed, Stream.EXPLORER)
                num_sources = 32 if graph.nnz < MANY_EDGES else 4
                self._suspicious = suspicious_closures(graph, self.sequences.sequence, num, rng, num_sources,
                                                       self.model.built.confidence)
            return [closure for closure in self._suspicious if _ends(closure) not in judged][:NUM_SUSPICIOUS]

    def judged(self) -> Judged:
        return read_judged(self.model.folder)

    def judge(self, verdict: str, first: int, second: int) -> None:
        """Strike, keep or undo; the graph of this session follows at once."""
        if self.model.folder is None:
            raise ValueError("this model lies in no run folder, so nothing can be remembered; save it first")
        with self._lock:
            if verdict != "undo" and (min(first, second), max(first, second)) in self.judged().struck:
                raise ValueError(f"the closure of frames {first} and {second} is already struck; undo brings it back")
            if verdict == "undo":
                struck = unstrike(self.model.folder, first, second).struck
                graph = load_graph(self.model.folder / "graph.npz").graph
            else:
                write = strike if verdict == "strike" else keep
                struck = write(self.model.folder, self.model.graph, self.sequences.sequence, first, second).struck
                graph = self.model.graph
            self._use(graph, struck)


def _ends(closure: dict) -> tuple[int, int]:
    return closure["first"], closure["second"]


def exact_plan(graph: csr_array, start: int, goal: int, limit: float = math.inf) -> Plan:
    """The shortest path, and what Dijkstra's search expands and touches. `limit`: steps of some path that is known."""
    # by scipy: in pure Python it takes many seconds on a large graph
    lengths, before = dijkstra(graph, indices=start, limit=limit, return_predecessors=True)
    length = float(lengths[goal])
    expanded = lengths < length  # (n,) bool
    touched = frozenset(np.unique(graph.indices[np.repeat(expanded, np.diff(graph.indptr))]).tolist())
    nodes = [goal]
    while nodes[-1] != start and math.isfinite(length):
        nodes.append(int(before[nodes[-1]]))
    found = nodes[::-1] if math.isfinite(length) else None
    return plan_of(Path(found, length, int(expanded.sum()), len(touched), touched), start, goal, "dijkstra")
