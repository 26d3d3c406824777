"""The model behind the page, what the page asks of it, and what a person tells it."""

import io
import math
import threading
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from plan2vec.data import Sequences
from plan2vec.explorer.plans import exact_plan
from plan2vec.explorer.uploads import decode_upload
from plan2vec.explorer.view import View
from plan2vec.graph.suspicious import suspicious_closures
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Located, Model
from plan2vec.pictures.figures import frame_name, room_scene
from plan2vec.pictures.film_video import enlarged, frame_picture
from plan2vec.planner import METHODS, Plan
from plan2vec.runs.products import load_graph
from plan2vec.runs.struck import Judged, drop_struck, keep, read_judged, strike, unstrike
from plan2vec.search.shortest_paths import connected_parts

NUM_SUSPICIOUS = 24  # closures listed
NUM_NEIGHBORS = 24  # neighbours listed
MANY_EDGES = 5_000_000  # graphs with more get fewer searches for suspicious closures


@dataclass(frozen=True)
class Neighbor:
    """A frame that one hop leads to."""

    number: int
    distance: float  # steps of the hop
    recorded: bool  # a recorded transition, else a closure
    to_goal: float | None  # learned distance from it to the goal, steps


def frame_png(sequences: Sequences, number: int) -> bytes:
    """A frame as PNG, small ones enlarged by a whole factor."""
    buffer = io.BytesIO()
    enlarged(frame_picture(sequences, number), 64).save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


class Session:
    """One model, one page; several threads of the server ask it."""

    def __init__(self, model: Model):
        self.model = model
        self.sequences = model.sequences
        self.num_frames = model.sequences.num_frames
        self.room = room_scene(model.sequences)
        self.default = View(
            color="position" if self.room else "sequence", axes="3-d" if model.vectors.shape[1] == 3 else "2-d"
        )
        self._lock = threading.Lock()
        self._suspicious: list[dict] | None = None
        self.revision = -1  # changes of the graph in this session
        self._forget_graph()

    def _forget_graph(self) -> None:
        """After a change of the graph nothing computed from it counts."""
        self.revision += 1
        self._plan = lru_cache(64)(self._make_plan)
        # as scipy wants it, else it converts every time
        self._exact_graph = lru_cache(1)(lambda: self.model.graph.astype(np.float64))
        self.parts = lru_cache(1)(lambda: connected_parts(self.model.graph)[1])

    def get_ready(self) -> None:
        """What every plan needs, before the first is asked for."""
        _ = self.model.places
        self._exact_graph()

    # ------------------------------------------------------------------------------------------------ frames

    def number(self, text: str, name: str) -> int:
        """A frame number from what was typed or linked; ValueError says what is wrong."""
        return self.model.frame_number(str(text).strip()[:40], name)

    def name(self, number: int) -> str:
        return frame_name(self.sequences, number)

    def picture(self, number: int) -> bytes:
        return frame_png(self.sequences, number)

    def locate_upload(self, contents: str) -> Located:
        with self._lock:  # the first search encodes all frames
            return self.model.locate(decode_upload(contents, self.sequences))

    # ------------------------------------------------------------------------------------------------ plans

    def plan(self, start: int, goal: int, method: str) -> Plan:
        return self._plan(start, goal, method)

    def _make_plan(self, start: int, goal: int, method: str) -> Plan:
        if method != "dijkstra":
            return self.model.plan(start, goal, method)
        known = self._plan(start, goal, "greedy").length
        return exact_plan(self._exact_graph(), start, goal, math.inf if known is None else 1.001 * known)

    def compare(self, start: int, goal: int) -> list[Plan]:
        return [self._plan(start, goal, method) for method in METHODS]

    def neighbors(self, number: int, goal: int | None) -> list[Neighbor]:
        """The neighbours of a frame on the graph: recorded steps, then the nearest closures."""
        graph, sequence = self.model.graph, self.sequences.sequence
        row = slice(graph.indptr[number], graph.indptr[number + 1])
        near, distance = graph.indices[row].astype(np.int64), graph.data[row]
        recorded = (np.abs(near - number) == 1) & (sequence[near] == sequence[number])
        order = np.lexsort((distance, ~recorded))[:NUM_NEIGHBORS]
        near, distance, recorded = near[order], distance[order], recorded[order]
        to_goal = (
            self.model.distance_between(near, goal).tolist() if goal is not None and len(near) else [None] * len(near)
        )
        return [
            Neighbor(*facts) for facts in zip(near.tolist(), distance.tolist(), recorded.tolist(), to_goal, strict=True)
        ]

    # ------------------------------------------------------------------------------------------------ closures

    def suspicious(self) -> list[dict]:
        """Closures that most shortest paths use, not yet judged; searched for once, and again when all are judged."""
        with self._lock:
            judged = self.judged().all
            if self._suspicious is None or all(_ends(closure) in judged for closure in self._suspicious):
                num_sources = 32 if self.model.graph.nnz < MANY_EDGES else 4
                rng = rng_at(self.model.config.seed, Stream.EXPLORER)
                wanted = NUM_SUSPICIOUS + len(judged)
                self._suspicious = suspicious_closures(
                    self.model.graph, self.sequences.sequence, wanted, rng, num_sources
                )
            return [closure for closure in self._suspicious if _ends(closure) not in judged][:NUM_SUSPICIOUS]

    def judged(self) -> Judged:
        return read_judged(self.model.folder)

    def judge(self, verdict: str, first: int, second: int) -> None:
        """Strike, keep or undo; the graph of this session follows at once."""
        if self.model.folder is None:
            raise ValueError("this model lies in no run folder, so nothing can be remembered; save it first")
        with self._lock:
            if verdict == "undo":
                struck = unstrike(self.model.folder, first, second).struck
                graph = load_graph(self.model.folder / "graph.npz").graph
            else:
                write = strike if verdict == "strike" else keep
                struck = write(self.model.folder, self.model.graph, self.sequences.sequence, first, second).struck
                graph = self.model.graph
            self.model.graph = drop_struck(graph, self.sequences.sequence, struck)
            self._forget_graph()


def _ends(closure: dict) -> tuple[int, int]:
    return closure["first"], closure["second"]
