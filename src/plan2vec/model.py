"""What a fit gives: the graph, the metric map and the planner over one set of recordings."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.config import Config, head_of
from plan2vec.data import Sequences, transitions
from plan2vec.embedding.network import Embedding, map_vectors
from plan2vec.graph.build import BuiltGraph, joined_nodes, places
from plan2vec.graph.neighbors import nearest
from plan2vec.learning.frame_tensors import FrameTensors, choose_device
from plan2vec.learning.frozen import network_input
from plan2vec.learning.gradient_loop import Journal
from plan2vec.local_metric import NEAR, TrainedMetric, local_vectors, pair_distances
from plan2vec.planner import Plan, make_plans
from plan2vec.progress import goal_numbers, progress_curve, steps_left
from plan2vec.readers.picture_to_frame import prepare_image
from plan2vec.runs import folder as run_folder
from plan2vec.runs.products import FEATURES
from plan2vec.runs.resume import open_run
from plan2vec.runs.struck import read_judged
from plan2vec.search.shortest_paths import checked_nodes, connected_parts

USUAL_STEPS = 0.9  # share of the recorded steps that are no longer than an image may lie from a view
NUM_LOOKED_AT = 20  # nearest frames by vector that the local metric scores when an image is looked for on the map
Images = Any  # frames as recorded, raw camera frames of any size, PIL images, paths of image files, or lists of these


@dataclass(frozen=True)
class Located:
    number: int  # the nearest frame
    distance: float  # local distance to it, steps
    on_map: bool  # near enough to stand for the image


@dataclass(frozen=True)
class Learned:
    metric: TrainedMetric
    graph: BuiltGraph
    embedding: Embedding
    vectors: np.ndarray  # (n, dim) of all frames, in steps


class Model:
    """Graph, metric map and planner.

    Torch modules, batched, differentiable, on `device`: `encoder` is the map, images [b, c, h, w] in 0..1 or
    observations [b, d] -> vectors [b, dim]; `head` its distance, vectors [..., dim], [..., dim] -> steps [...];
    `local_metric` that of stage 1, two batches of images -> local distances in steps. `local_accuracy` is the local
    metric's on sequences that it had not seen; None where those hold no step."""

    def __init__(self, sequences: Sequences, config: Config, learned: Learned, seconds: dict[str, float] | None = None,
                 folder: Path | None = None):
        self.sequences, self.config, self.folder = sequences, config, folder
        self.trained, self.built = learned.metric, learned.graph
        self.local_metric, self.local_accuracy = learned.metric.metric, learned.metric.accuracy
        self.graph, self.radius, self.closure_report = learned.graph.graph, learned.graph.radius, learned.graph.report
        self.directed, self.reversibility = learned.graph.directed, learned.graph.reversibility
        self.found_config = replace(config, directed=self.directed)  # with the direction that the graph has
        self.embedding, self.vectors = learned.embedding, learned.vectors
        self.encoder, self.head = learned.embedding, learned.embedding.head
        self.seconds = seconds or {}  # wall time per stage

    def __repr__(self) -> str:
        num_parts, _ = self.parts
        kept = "in memory" if self.folder is None else f"in {self.folder}"
        return (f"Model of {self.sequences.num_frames:,} frames ({self.sequences.source}), {kept}\n"
                f"  graph: {self.graph.nnz:,} directed edges, {num_parts} part{'s' if num_parts > 1 else ''}; "
                f"map: {self.vectors.shape[1]}-d, head {head_of(self.found_config)}, on {self.device}")

    @property
    def graph(self) -> csr_array:
        """Steps of the hop from frame to frame; assigning another one forgets what was computed from the old."""
        return self._graph

    @graph.setter
    def graph(self, graph: csr_array) -> None:
        self._graph = graph
        for name in ("places", "parts"):
            vars(self).pop(name, None)

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return self.embedding.scale.device

    @cached_property
    def features(self) -> np.ndarray | None:
        """(n, d) what a frozen encoder says of the recorded frames; None with any other."""
        return run_folder.recorded_features(self.folder, self.sequences.frames, self.config.encoder, self.device)

    def images(self, keep: bool = True) -> FrameTensors:
        """The recorded frames as the networks take them."""
        return network_input(self.sequences.frames, self.config.encoder, self.device, keep, self.features)

    @cached_property
    def places(self) -> np.ndarray:
        """(n,) the frame that stands for each: the first of those in which nothing moved."""
        return places(self.graph, self.sequences.sequence)

    @cached_property
    def parts(self) -> tuple[int, np.ndarray]:
        """The number of parts of the graph, and (n,) the part of each frame, 0 the largest."""
        return connected_parts(self.graph)

    def embed(self, frames: Images) -> np.ndarray:
        """Vectors of frames: their places on the map.

        `frames`: one or more, as recorded, or images of any size, PIL images and paths of image files. These are
        prepared as the recording was. Returns (n, dim) float32, in steps."""
        return map_vectors(self.embedding, FrameTensors(self.prepare(frames), self.device))

    def distance(self, frames_a: Images, frames_b: Images) -> np.ndarray:
        """(n,) learned distance from each frame of a to the same row of b, in steps; frames as for `embed`."""
        return self.vector_distance(self.embed(frames_a), self.embed(frames_b))

    def distance_between(self, first: np.ndarray | int, second: np.ndarray | int) -> np.ndarray:
        """(m,) learned distance, in steps, between recorded frames by number; one number is compared with all."""
        if np.shape(first) != np.shape(second) or not np.shape(first):
            first, second = np.broadcast_arrays(np.atleast_1d(first), np.atleast_1d(second))
        return self.vector_distance(self.vectors.take(first, axis=0), self.vectors.take(second, axis=0))

    @torch.no_grad()
    def vector_distance(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(...,) steps from vectors (..., dim) of the map to others."""
        return self.head(torch.from_numpy(first), torch.from_numpy(second)).numpy()  # it has no parameters to move

    def local_distance(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(m,) local metric between recorded frames, by numbers (m,), in steps; large ones only say "not near"."""
        numbers, index = np.unique(np.concatenate((first, second)), return_inverse=True)  # only these go to the device
        images = FrameTensors(self.images().frames[numbers], self.device)
        return pair_distances(self.local_metric, images, *np.split(index, 2))

    @cached_property
    def local_vectors(self) -> np.ndarray:
        """(n, d) vectors of the recorded frames in which near ones are searched."""
        return local_vectors(self.local_metric, self.images(keep=False))

    def locate(self, frame: Images) -> Located:
        """The recorded frame nearest to an image by the local metric, and whether it is near enough to stand for it.

        `frame`: one image, as for `embed`. Frames that were held out are on no path, so none of them is the answer.
        Returns `Located` with number, distance in steps, and on_map."""
        images = network_input(self.prepare(frame), self.config.encoder, self.device)
        fitted, asked = joined_nodes(self.graph), local_vectors(self.local_metric, images)
        near = fitted[nearest(self.local_vectors[fitted], asked, NUM_LOOKED_AT, self.device)[0][0]]
        both = FrameTensors(np.concatenate((images.frames[:1], self.images().frames[near])), self.device)
        numbers = np.arange(1, len(both))
        distance = pair_distances(self.local_metric, both, np.zeros_like(numbers), numbers)
        best = int(distance.argmin())
        return Located(int(near[best]), float(distance[best]), bool(distance[best] <= self.reach_of_images))

    @cached_property
    def reach_of_images(self) -> float:
        """Local distance within which a recorded frame stands for an image. A moving camera's metric puts every image
        near some frame: 4 of 5 views of places seen before lie within, and 1 in 20 of another maze."""
        if self.config.view != "moving":
            return max(self.radius, NEAR * self.config.max_gap)
        start = transitions(self.sequences.sequence)
        steps = np.linalg.norm(self.local_vectors[start + 1] - self.local_vectors[start], axis=1)
        return float(np.quantile(steps, USUAL_STEPS))

    def progress(self, frames: Images, goals: Images) -> np.ndarray:
        """How much of an episode's way to the nearest goal is done at each of its frames, which come in order.

        `frames`, `goals`: images as for `embed`, or frame numbers. Returns (n,) float32: 1 - steps left / those at the
        start, from 0 to 1; NaN off the map, without a path to a goal, and in episodes from within 2 steps of one."""
        return progress_curve(steps_left(self, frames, goal_numbers(self, goals)))

    def plan(self, start: int | Images, goal: int | Images, method: str = "auto", lookahead: int = 3,
             memory: bool = False) -> Plan:
        """Plan between frame numbers, "sequence:index" or images; no path, or an image off the map, is an answer too.

        `method`: greedy and lookahead walk the map, astar searches with it, dijkstra without it. auto: greedy, and
        where it fails astar, as the answer's `method` and `reason` then say. `lookahead`: hops that it looks ahead.
        `memory`: walks choose no frame twice. Returns a `Plan`: `nodes` are its frames, None if none is found."""
        (first, first_off), (second, second_off) = self._asked(start, "start"), self._asked(goal, "goal")
        if first_off or second_off:
            return Plan(first, second, method, None, None, 0, 0, "; ".join(filter(None, (first_off, second_off))))
        ends = np.array([first]), np.array([second])
        made = self.plan_many(*ends, "greedy" if method == "auto" else method, lookahead, memory)[0]
        if method != "auto" or made.nodes is not None or self.parts[1][first] != self.parts[1][second]:
            return made
        searched = self.plan_many(*ends, "astar")[0]
        failed = made.reason.partition(";")[0]
        return replace(searched, reason=f"the greedy walk failed ({failed}), so A* searched with the map")

    def _asked(self, frame: int | Images, name: str) -> tuple[int, str]:
        """A frame number, and why there is none (-1)."""
        is_number = isinstance(frame, int | np.integer) or (isinstance(frame, np.ndarray) and frame.ndim == 0)
        if is_number or (isinstance(frame, str) and not is_file(frame)):  # "12" or "3:4", no image
            return self.frame_number(frame, name), ""
        found = self.locate(frame)
        away = f"nearest frame {found.number}, {found.distance:.1f} steps away"
        return (found.number, "") if found.on_map else (-1, f"the {name} image is not on the map ({away})")

    def plan_many(self, starts: np.ndarray, goals: np.ndarray, method: str = "greedy", lookahead: int = 3,
                  memory: bool = False) -> list[Plan]:
        """Plans from each start (m,) to the goal (m,) beside it, by frame numbers: thousands at once.

        `method`, `lookahead` and `memory`: as for `plan`, without "auto". Returns m plans."""
        starts, goals = checked_nodes(self.graph, starts, "starts"), checked_nodes(self.graph, goals, "goals")
        if len(starts) != len(goals):
            raise ValueError(f"every start needs one goal, but there are {len(starts)} starts and {len(goals)} goals")
        starts, goals = self.places[starts], self.places[goals]  # where one stood still, one frame will do
        made = make_plans(self.graph, self.distance_between, starts, goals, method, lookahead, memory)
        num, part = self.parts
        words = "no path: start lies in part {}, goal in part {} of {} (0 is the largest)"
        return [replace(plan, reason=words.format(part[plan.start], part[plan.goal], num))
                if plan.nodes is None and part[plan.start] != part[plan.goal] else plan for plan in made]

    def frame_number(self, asked: int | str | np.integer | np.ndarray, name: str = "frame") -> int:
        """A frame number from itself or from "sequence:index"; `name` is what a refusal calls it."""
        sequence, text = self.sequences.sequence, str(asked)
        if ":" in text:
            label, _, index = text.partition(":")
            members = np.flatnonzero(sequence == int(label)) if _is_number(label) else np.empty(0, int)
            if not _is_number(index) or not 0 <= int(index) < len(members):
                none = f"there is no sequence {label}, they are numbered {sequence.min()} to {sequence.max()}"
                known = f"sequence {label} has {len(members)} frames" if len(members) else none
                raise ValueError(f"{name} {text}: expected sequence:index of a recorded frame; {known}")
            return int(members[int(index)])
        if Path(text).suffix and not _is_number(text.replace(".", "", 1)):
            raise ValueError(f"{name} {text} does not exist; expected an image file, a frame number or sequence:index")
        if not _is_number(text) or not 0 <= int(text) < len(sequence):
            raise ValueError(f"{name} must be a frame number from 0 to {len(sequence) - 1}, sequence:index or an "
                             f"image, but is {text}")
        return int(text)

    def save(self, path: str | Path) -> None:
        """Write a run folder that `plan2vec.load` reads; `path` must be new or empty."""
        folder = Path(path)
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} exists and is not empty; choose another path")
        folder.mkdir(parents=True, exist_ok=True)
        run = open_run(folder, self.sequences, self.config, Journal(folder), {})
        products = (self.trained, replace(self.built, graph=self.graph), self.embedding, self.vectors)
        for name, product in zip(run_folder.PRODUCTS, products, strict=True):
            run.write(name, product)
        if self.features is not None:
            run_folder.write_frames(folder / FEATURES, self.features)
        for stage, seconds in self.seconds.items():
            run.journal.record(stage=stage, finished=True, seconds=seconds)
        run.finish()

    def prepare(self, frames: Images) -> np.ndarray:
        """(n, ...) frames as the networks were fitted on: as they are, or images prepared as the recording was."""
        shape, dtype = self.sequences.frame_shape, self.sequences.frames.dtype
        if isinstance(frames, np.ndarray):
            frames = frames[None] if len(shape) == 3 and frames.ndim == 2 else frames  # one gray picture
            if shape[-1] == 1 and frames.shape[1:] == shape[:-1]:
                frames = frames[..., None]
            if frames.shape == shape:
                frames = frames[None]
            if frames.shape[1:] == shape and (dtype == np.uint8) == (frames.dtype == np.uint8):
                return np.ascontiguousarray(frames, dtype=dtype)
            if len(shape) != 3 or frames.dtype != np.uint8 or frames.ndim not in (3, 4):
                wanted = f"(n, {', '.join(map(str, shape))}) and type {dtype}"
                raise ValueError(f"expected frames of shape {wanted}, but came {frames.shape} {frames.dtype}")
            frames = [frames] if frames.ndim == 3 and frames.shape[2] <= 4 else list(frames)
        images = list(frames) if isinstance(frames, Iterable) and not isinstance(frames, str | Path) else [frames]
        options, size = self.sequences.options, self.sequences.source_size
        return np.stack([prepare_image(image, shape, options, size) for image in images])


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,18}", text) is not None


def is_file(text: str) -> bool:
    """Whether what was typed is a file; "12" is a frame number, whatever files there are."""
    return not _is_number(text) and Path(text).is_file()


def load(path: str | Path, device: str = "auto", encoder: str | None = None) -> Model:
    """The model of a finished run folder.

    `path`: the folder. `device`: auto, cpu, cuda or mps. `encoder`: a network of your own (module:factory) that the map
    was fitted with must be named again, because a run starts no code by itself. Returns the `Model`."""
    folder, target = Path(path), choose_device(device)
    config = run_folder.require_finished(folder)
    run_folder.refuse_unasked_code(folder, config, encoder)
    sequences, struck = run_folder.read_data(folder), read_judged(folder).struck
    run = run_folder.Run(folder, sequences, config, Journal(folder), target, struck=struck)
    return Model(sequences, config, Learned(*map(run.read, run_folder.PRODUCTS)), run.seconds(), folder)
