"""What a fit gives: the graph, the metric map and the planner over one set of recordings."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.config import Config
from plan2vec.data import Sequences
from plan2vec.embedding.heads import Head
from plan2vec.embedding.network import Embedding
from plan2vec.graph.build import BuiltGraph, places
from plan2vec.graph.neighbors import nearest
from plan2vec.learning.frame_tensors import FrameTensors, choose_device, encode
from plan2vec.learning.training import Journal
from plan2vec.local_metric import NEAR, TrainedMetric, local_vectors, pair_distances
from plan2vec.planner import Plan, make_plans
from plan2vec.runs.folder import PRODUCTS, open_run, read_run, refuse_unasked_code, require_finished
from plan2vec.search.shortest_paths import connected_parts

NUM_LOOKED_AT = 20  # nearest frames by vector that the local metric scores when an image is looked for on the map


@dataclass(frozen=True)
class Located:
    """Where an image lies on the map."""

    number: int  # the nearest frame
    distance: float  # local distance to it, steps
    on_map: bool  # near enough to count as that place


@dataclass(frozen=True)
class Learned:
    """The products of the four stages."""

    metric: TrainedMetric
    graph: BuiltGraph
    embedding: Embedding
    vectors: np.ndarray  # (n, dim) of all frames, in steps


class Model:
    """Graph, metric map and planner. `encoder` and `head` are torch modules: batched, differentiable, on `device`."""

    def __init__(
        self, sequences: Sequences, config: Config, learned: Learned, seconds: dict[str, float] | None = None,
        folder: Path | None = None
    ):
        self.sequences, self.config, self.folder = sequences, config, folder
        self.local_metric, self.local_accuracy = learned.metric.metric, learned.metric.accuracy
        self.graph, self.radius, self.closure_report = learned.graph.graph, learned.graph.radius, learned.graph.report
        self.embedding, self.vectors = learned.embedding, learned.vectors
        self.seconds = seconds or {}  # wall time per stage

    @property
    def graph(self) -> csr_array:
        return self._graph

    @graph.setter
    def graph(self, graph: csr_array) -> None:
        """A changed graph has other parts and places."""
        self._graph = graph
        for name in ("places", "parts"):
            vars(self).pop(name, None)

    @property
    def encoder(self) -> Embedding:
        return self.embedding

    @property
    def head(self) -> Head:
        return self.embedding.head

    @property
    def device(self) -> torch.device:
        return self.embedding.scale.device

    @cached_property
    def places(self) -> np.ndarray:
        """(n,) the frame that stands for each: the first of those in which nothing moved."""
        return places(self.graph, self.sequences.sequence)

    @cached_property
    def parts(self) -> tuple[int, np.ndarray]:
        """The number of parts of the graph, and (n,) the part of each frame, 0 the largest."""
        return connected_parts(self.graph)

    def embed(self, frames: np.ndarray) -> np.ndarray:
        """(n, dim) vectors of frames: uint8 (n, h, w, c), or (n, h, w) when gray, or observations (n, d)."""
        images = FrameTensors(self._arranged(frames), self.device)
        return float(self.embedding.scale) * encode(self.embedding.encoder, images)

    def distance(self, frames_a: np.ndarray, frames_b: np.ndarray) -> np.ndarray:
        """(n,) learned distance from each frame of a to the same row of b, in steps."""
        return self._head_distance(torch.from_numpy(self.embed(frames_a)), torch.from_numpy(self.embed(frames_b)))

    def distance_between(self, first: np.ndarray | int, second: np.ndarray | int) -> np.ndarray:
        """(m,) learned distance between recorded frames, by number, from vectors computed once."""
        if np.shape(first) != np.shape(second) or not np.shape(first):
            first, second = np.broadcast_arrays(np.atleast_1d(first), np.atleast_1d(second))
        return self._head_distance(
            *(torch.from_numpy(self.vectors.take(numbers, axis=0)) for numbers in (first, second))
        )

    def local_distance(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(m,) local metric between recorded frames, by number."""
        numbers, place = np.unique(np.concatenate((first, second)), return_inverse=True)  # only these go to the device
        images = FrameTensors(np.asarray(self.sequences.frames[numbers]), self.device)
        return pair_distances(self.local_metric, images, *np.split(place, 2))

    @cached_property
    def _local_vectors(self) -> np.ndarray:
        """(n, d) of all recorded frames, encoded a batch at a time."""
        return local_vectors(self.local_metric, FrameTensors(self.sequences.frames, self.device, keep=False))

    def locate(self, frame: np.ndarray) -> Located:
        """The recorded frame nearest to an image by the local metric, and whether it is near enough to stand for it."""
        images = FrameTensors(self._arranged(frame[None]), self.device)
        near, _ = nearest(self._local_vectors, local_vectors(self.local_metric, images), NUM_LOOKED_AT, self.device)
        both = np.concatenate((images.frames, self.sequences.frames[near[0]]))
        numbers = np.arange(1, len(both))
        distance = pair_distances(self.local_metric, FrameTensors(both, self.device), np.zeros_like(numbers), numbers)
        best = int(distance.argmin())
        limit = max(self.radius, NEAR * self.config.max_gap)
        return Located(int(near[0, best]), float(distance[best]), bool(distance[best] <= limit))

    def plan(
        self, start: int | str | np.ndarray, goal: int | str | np.ndarray, method: str = "greedy", lookahead: int = 3,
        memory: bool = False
    ) -> Plan:
        """Plan between frame numbers, "sequence:index" or images. No path, or an image off the map, is an answer with a
        reason.
        """
        numbers, off = [], []
        for name, asked in (("start", start), ("goal", goal)):
            if isinstance(asked, np.ndarray) and asked.ndim:
                place = self.locate(asked)
                if not place.on_map:
                    off.append(f"the {name} image is not on the map (nearest frame {place.number}, {place.distance:.1f} steps away)")
                numbers.append(place.number if place.on_map else -1)
            else:
                numbers.append(self.frame_number(asked, name))
        if off:
            return Plan(numbers[0], numbers[1], method, None, None, 0, 0, "; ".join(off))
        return self.plan_many(np.array(numbers[:1]), np.array(numbers[1:]), method, lookahead, memory)[0]

    def plan_many(
        self, starts: np.ndarray, goals: np.ndarray, method: str = "greedy", lookahead: int = 3, memory: bool = False
    ) -> list[Plan]:
        """Plans from each start to the goal beside it, by frame numbers (m,), (m,): as `plan` makes them, thousands at
        once.
        """
        starts, goals = self._checked_numbers(starts, "starts"), self._checked_numbers(goals, "goals")
        if len(starts) != len(goals):
            raise ValueError(f"every start needs one goal, but there are {len(starts)} starts and {len(goals)} goals")
        starts, goals = self.places[starts], self.places[goals]  # where one stood still, one frame will do
        return [
            self._explain(plan)
            for plan in make_plans(self.graph, self.distance_between, starts, goals, method, lookahead, memory)
        ]

    def _checked_numbers(self, numbers: np.ndarray, name: str) -> np.ndarray:
        """(m,) int64 frame numbers, or a clear refusal."""
        checked = np.asarray(numbers)
        if checked.ndim != 1 or (len(checked) and checked.dtype.kind not in "iu"):
            raise ValueError(
                f"{name} must be frame numbers in one dimension, but came as {checked.dtype} of shape {checked.shape}"
            )
        outside = checked[(checked < 0) | (checked >= len(self.places))]
        if len(outside):
            raise ValueError(f"{name} must be frame numbers from 0 to {len(self.places) - 1}, but {outside[0]} came")
        return checked.astype(np.int64)

    def _explain(self, plan: Plan) -> Plan:
        """Say which parts of the graph start and goal lie in where no path can exist."""
        if plan.nodes is not None:
            return plan
        num_parts, part = self.parts
        if part[plan.start] == part[plan.goal]:
            return plan
        reason = f"no path: start lies in part {part[plan.start]}, goal in part {part[plan.goal]} of {num_parts} (0 is the largest)"
        return replace(plan, reason=reason)

    def frame_number(self, asked: int | str | np.integer | np.ndarray, name: str = "frame") -> int:
        """A frame number from itself or from "sequence:index"."""
        sequence, text = self.sequences.sequence, str(asked)
        if ":" in text:
            label, _, index = text.partition(":")
            members = np.flatnonzero(sequence == int(label)) if _is_number(label) else np.empty(0, int)
            if not _is_number(index) or not 0 <= int(index) < len(members):
                raise ValueError(f"{name} {text}: expected sequence:index of a recorded frame; sequence {label} has {len(members)} frames")
            return int(members[int(index)])
        if not _is_number(text) or not 0 <= int(text) < len(sequence):
            raise ValueError(f"{name} must be a frame number from 0 to {len(sequence) - 1}, sequence:index or an image, but is {text}")
        return int(text)

    def save(self, path: str | Path) -> None:
        """Write a run folder that `plan2vec.load` reads."""
        folder = Path(path)
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} exists and is not empty; choose another path")
        run = open_run(folder, self.sequences, self.config, Journal(folder), {})
        graph = BuiltGraph(self.graph, self.radius, self.closure_report)
        products = {"local_metric": TrainedMetric(self.local_metric, self.local_accuracy), "graph": graph,
                    "embedding": self.embedding, "vectors": self.vectors}
        for name, product in products.items():
            run.write(name, product)
        for stage, seconds in self.seconds.items():
            run.journal.record(stage=stage, finished=True, seconds=seconds)

    def _arranged(self, frames: np.ndarray) -> np.ndarray:
        """Frames as the networks were fitted on, or a clear refusal."""
        shape = self.sequences.frame_shape
        kind = self.sequences.frames.dtype
        frames = np.asarray(frames)
        if frames.ndim == len(shape) and shape[-1] == 1:
            frames = frames[..., None]
        if frames.shape[1:] != shape or (kind == np.uint8) != (frames.dtype == np.uint8):
            raise ValueError(
                f"expected frames of shape (n, {', '.join(map(str, shape))}) and type {kind}, but came {frames.shape} {frames.dtype}"
            )
        return np.ascontiguousarray(frames, dtype=kind)

    @torch.no_grad()
    def _head_distance(self, first: torch.Tensor, second: torch.Tensor) -> np.ndarray:
        return self.head(first, second).numpy()  # heads hold no parameters, so they work where the vectors are


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()


def load(path: str | Path, device: str = "auto", encoder: str | None = None) -> Model:
    """The model of a finished run folder. One fitted with a network of your own (module:factory) needs it named again
    as `encoder`.
    """
    folder, target = Path(path), choose_device(device)
    config = require_finished(folder)
    refuse_unasked_code(folder, config, encoder)
    run = read_run(folder, config, target)
    learned = Learned(*(run.read(name) for name in PRODUCTS))
    return Model(run.sequences, config, learned, run.seconds(), folder)
