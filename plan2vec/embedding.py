"""Stage 4, amortized search: an embedding whose distances are shortest-path lengths on the graph, in steps.

In the paper: D(x, x') = |phi(x) - phi(x')|_p, Algorithm 1, regressed towards the length of planned paths (equations 6
and 7). Here one batch supervises every pair of a block of goals and nodes, so 384 encodings carry 32,768 distances.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from plan2vec.augmentation import augment, draw_changes
from plan2vec.captured import Step
from plan2vec.classical_scaling import landmark_vectors
from plan2vec.device_graph import DeviceGraph
from plan2vec.device_search import DeviceSearch, distances_from_on
from plan2vec.encoder import Array, Encoder, FrameTensors, encode, make_encoder, on_device
from plan2vec.heads import Head, make_head
from plan2vec.losses import distance_loss, slope_loss
from plan2vec.processes import concatenated, in_shares, size
from plan2vec.search import best_first, choose_workers, distances_from
from plan2vec.training import Journal, rng_at, train


@dataclass(frozen=True)
class EmbeddingConfig:
    """How the embedding is learned."""

    num_updates: int = 600  # gradient updates
    goals_per_update: int = 128  # rows of the block of distances an update learns from
    nodes_per_update: int = 256  # its columns
    num_rounds: int = 2  # how often the goals that were searched from are replaced by new ones
    goals_per_round: int = 256  # goals searched from a round
    learning_rate: float = 1e-3  # Adam, at its highest
    loss: Literal["relative", "sammon", "huber", "absolute"] = "relative"  # of D and the path's length: see losses.py
    targets: Literal["full", "bootstrapped", "heuristic"] = "full"  # whole path | h hops + D (paper, eq. 7) | A* led by D itself (Alg. 1)
    depth: int = 10  # hops searched before D takes over, for bootstrapped targets
    target_scale: float | None = None  # steps that one unit of the network's output stands for; None: the mean path length
    shift: int = 0  # augmentation, as of the local metric: pixels
    brightness: float = 0.0  # share
    noise: float = 0.0  # share of white
    slope: float = 0.0  # weight, beside the loss, of how D changes over an edge: a greedy walk lives by it (for the squared head)
    guide: float = 0.0  # share of the updates, at first, in which vectors of classical scaling show the way; so a flat map does not fold


class Embedding(nn.Module):
    """Images -> vectors whose head distance is a number of steps."""

    scale: Tensor

    def __init__(self, encoder: Encoder, head: Head):
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.register_buffer("scale", torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        """[b, ...] -> [b, dim]; the scale keeps the network's own outputs near 1 (every head is homogeneous)."""
        return self.scale * self.encoder(images)

    def set_unit(self, steps: float) -> None:
        """Outputs of the network at distance 1 are so many steps apart."""
        self.scale.fill_(steps ** (1 / self.head.degree))

    @property
    def unit(self) -> float:
        """Steps that distance 1 between outputs of the network stands for."""
        return float(self.scale) ** self.head.degree


def build_embedding(frames: np.ndarray, encoder: str, dim: int, head: str, norm_order: float) -> Embedding:
    return Embedding(make_encoder(encoder, frames, dim), make_head(head, norm_order, dim))


@dataclass(frozen=True)
class Round:
    """Planned distances to learn from for a while: targets[k, v] is the length from frame v to goals[k]; inf: none."""

    goals: np.ndarray  # (r,)
    targets: Tensor  # [r, n] float32, steps, where the network is

    @cached_property
    def always_known(self) -> np.ndarray | None:
        """(m,) nodes that have a path, where each of them has one to every goal, as on a graph of one part; else None."""
        known = self.targets.isfinite()
        return _numbers_of(known[0]) if bool((known == known[0]).all()) else None

    def known_nodes(self, rows: np.ndarray) -> np.ndarray:
        """(m,) nodes that have a path to one of these goals."""
        if self.always_known is not None:
            return self.always_known
        return _numbers_of(self.targets[torch.from_numpy(rows).to(self.targets.device)].isfinite().any(dim=0))


def _numbers_of(chosen: Tensor) -> np.ndarray:
    """(m,) the nodes that are chosen [n]."""
    return np.flatnonzero(chosen.cpu().numpy())


def train_embedding(
    frames: np.ndarray, graph: csr_array, encoder: str, dim: int, head: str, norm_order: float, config: EmbeddingConfig, seed: int,
    device: torch.device, journal: Journal = Journal(), allowed: np.ndarray | None = None, guide: np.ndarray | None = None,
    images: FrameTensors | None = None,
) -> Embedding:  # fmt: skip
    """Learn D(v, g) = the shortest path from v to g for all pairs of frames in one part of the graph.

    `allowed` (n, n) bool: allowed[g, v] says whether the task from v to g may be learned from; None: every task.
    `guide` (n, dim): vectors that show the way at first (`config.guide`); None: those of classical scaling.
    `images`: the frames where they are on the device already.
    """
    torch.manual_seed(seed)
    embedding = build_embedding(frames, encoder, dim, head, norm_order).to(device)
    images = FrameTensors(frames, device) if images is None else images
    teacher = Teacher(embedding, graph, images, config, seed, allowed, guide)
    embedding.set_unit(config.target_scale or mean_length(graph, seed, device))
    train(teacher, teacher.step, config.num_updates, config.learning_rate, "embedding", journal)
    return embedding


def fine_tune_embedding(
    embedding: Embedding, frames: np.ndarray, graph: csr_array, config: EmbeddingConfig, seed: int, journal: Journal = Journal()
) -> Embedding:
    """A copy of a learned embedding, taught the distances of a graph that has changed; its scale and standardization stay."""
    tuned, config = deepcopy(embedding), replace(config, guide=0.0)  # it stands where it should already
    teacher = Teacher(tuned, graph, FrameTensors(frames, tuned.scale.device), config, seed)
    train(teacher, teacher.step, config.num_updates, config.learning_rate, "fine_tuning", journal)
    return tuned


def joined_nodes(graph: csr_array) -> np.ndarray:
    """(m,) nodes that have an edge."""
    return np.flatnonzero(np.diff(graph.indptr) + np.bincount(graph.indices, minlength=graph.shape[0]))


def random_neighbors(graph: csr_array, nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(m,) a neighbour of each node (m,); of a node that leads nowhere, itself."""
    first, num = graph.indptr[nodes], graph.indptr[nodes + 1] - graph.indptr[nodes]
    chosen = np.minimum(first + (rng.random(len(nodes)) * num).astype(first.dtype), graph.nnz - 1)
    return np.where(num > 0, graph.indices[chosen], nodes)


def mean_length(graph: csr_array, seed: int, device: torch.device) -> float:
    """Mean finite distance to a few goals: the natural scale of the targets."""
    lengths = distances_from_on(device, graph, rng_at(seed, 10).choice(joined_nodes(graph), 8))
    return float(lengths[np.isfinite(lengths) & (lengths > 0)].mean())


class Teacher(nn.Module):
    """Gives the loss of every update, from rounds of searches. A round is a function of its number, so a run can resume in it."""

    reference: Tensor
    reference_round: Tensor

    def __init__(
        self, embedding: Embedding, graph: csr_array, images: FrameTensors, config: EmbeddingConfig, seed: int,
        allowed: np.ndarray | None = None, guide: np.ndarray | None = None,
    ):  # fmt: skip
        super().__init__()
        self.embedding = embedding
        self.graph, self.images, self.config, self.seed = graph, images, config, seed
        self.allowed, self.given_guide = allowed, guide
        self.reachable = joined_nodes(graph)
        self.rounds: dict[int, Round] = {}  # holds the current one only
        self.targets = torch.empty(0)  # of the current one, where the network is: to copy blocks of them there would stop every update
        self.begun: dict[int, Future[Round]] = {}  # the next one, where it is searched beside training
        if config.targets != "full":  # the target network of equation 7: vectors as they were when the round began
            self.register_buffer("reference", torch.zeros(graph.shape[0], embedding.head.dim, device=images.device))
            self.register_buffer("reference_round", torch.tensor(-1))

    def draw(self, update: int) -> tuple[Array, ...]:
        """A block of nodes and goals: which rows of the targets, whose frames, how much the guide weighs, and how the frames change."""
        config, rng = self.config, rng_at(self.seed, 11, update)
        current = self.round_at(update * config.num_rounds // config.num_updates)
        rows = rng.choice(len(current.goals), min(config.goals_per_update, len(current.goals)), replace=False)
        nodes = rng.choice(current.known_nodes(rows), config.nodes_per_update)
        if config.slope:
            half = len(nodes) // 2
            nodes[len(nodes) - half :] = random_neighbors(self.graph, nodes[:half], rng)
        seen = np.concatenate((nodes, current.goals[rows]))
        led = [np.array(max(0.0, 1 - update / (config.guide * config.num_updates)), np.float32)] if config.guide else []
        return rows, seen, *led, *draw_changes(config, self.images, min(len(seen), len(self.reachable)), rng)

    def loss(self, rows: Array, seen: Array, *more: Array) -> Tensor:
        device, config = self.images.device, self.config
        rows, seen = on_device(rows, device), on_device(seen, device)
        led, changes = (more[:1], more[1:]) if config.guide else ((), more)
        vectors, num_nodes = self.encode(seen, changes), len(seen) - len(rows)
        distance = self.embedding.head.pairwise(*vectors.split((num_nodes, len(rows))))  # [nodes, goals]
        target = self.targets[rows, seen[:num_nodes, None]]
        loss = distance_loss(distance, target, config.loss, self.unit)
        if config.slope:
            loss = loss + config.slope * slope_loss(distance, target, self.unit)
        for weight in led:
            loss = loss.lerp(self.guide_loss(vectors, seen), on_device(weight, device))
        return loss

    def encode(self, seen: Tensor, changes: tuple[Array, ...]) -> Tensor:
        """[b, dim] vectors of the numbered frames; on a graph of fewer nodes than that, of each node once."""
        numbers = seen if len(seen) <= len(self.reachable) else self.all_nodes
        vectors = in_shares(len(numbers), lambda part: self.embedding(augment(self.images(numbers[part]), self.config, changes, part)))
        return vectors if numbers is seen else vectors[torch.searchsorted(numbers, seen)]

    @cached_property
    def all_nodes(self) -> Tensor:
        return on_device(self.reachable, self.images.device)

    @property
    def step(self) -> Step:
        return Step(self.draw, self.loss, self.images)

    @cached_property
    def unit(self) -> float:
        """The embedding's, read once: to ask a GPU for it stops the update until all before it are done."""
        return self.embedding.unit

    @cached_property
    def guide(self) -> Tensor:
        """[n, dim] the vectors given, or those of classical scaling; NaN where a node has none."""
        head, vectors = self.embedding.head, self.given_guide
        if vectors is None:
            first = self.rounds.get(0) or self.search(0)
            vectors = landmark_vectors(first.targets.cpu().numpy(), first.goals, head.dim, head.degree)
        return torch.from_numpy(vectors).to(self.images.device)

    def guide_loss(self, vectors: Tensor, numbers: Tensor) -> Tensor:
        """Mean squared distance of vectors [b, dim] from their guides, where they have one, in units of the network's output."""
        guide = self.guide[numbers]
        known = guide.isfinite().all(dim=1)
        apart = torch.where(known[:, None], vectors - guide.nan_to_num(), 0) / self.embedding.scale
        return apart.square().sum() / known.sum().clamp(min=1)

    def round_at(self, number: int) -> Round:
        if number not in self.rounds:
            found = self.begun.pop(number).result() if number in self.begun else self.search(number)
            self._begin(number + 1)
            if self.allowed is not None:
                allowed = torch.from_numpy(self.allowed[found.goals]).to(self.device)
                found = Round(found.goals, found.targets.masked_fill(~allowed, torch.inf))
            self.rounds = {number: found}
            self._show(found.targets)
        return self.rounds[number]

    def _show(self, targets: Tensor) -> None:
        """The targets of a new round, always in the same place: an update that was captured reads them there."""
        if self.targets.shape != targets.shape:
            self.targets = torch.empty_like(targets, device=self.images.device)
        self.targets.copy_(targets)

    def _begin(self, number: int) -> None:
        """Search for a round beside training, where that takes child processes anyway: this one has only to wait for them."""
        worth_it = size() == 1 and self.device.type == "cpu" and choose_workers(self.graph, self.config.goals_per_round) > 1
        if worth_it and number < self.config.num_rounds and self.config.targets == "full":
            waiting = ThreadPoolExecutor(1)
            self.begun = {number: waiting.submit(self.search, number)}
            waiting.shutdown(wait=False)

    @property
    def device(self) -> torch.device:
        return self.embedding.scale.device

    @cached_property
    def device_search(self) -> DeviceSearch:
        """On a GPU the graph goes there once, and what is found stays there."""
        return DeviceSearch(DeviceGraph.of(self.graph, self.device).reversed)

    @cached_property
    def backward(self) -> csr_array:
        """The graph to search from a goal, so that rows hold distances *to* it."""
        return self.graph.T.tocsr()

    def search(self, number: int) -> Round:
        """Plan towards new random goals."""
        rng = rng_at(self.seed, 12, number)
        goals = rng.choice(self.reachable, min(self.config.goals_per_round, len(self.reachable)), replace=False)
        if self.config.targets == "full":
            return Round(goals, self._lengths_to(goals))
        self._refresh_reference(number)
        if self.config.targets == "bootstrapped":
            lengths = concatenated(np.array_split(goals, size()), partial(self._bootstrapped, self.backward))
        else:
            lengths = self._led_by_itself(goals, rng)
        return Round(goals, torch.from_numpy(lengths).to(self.device))

    def _lengths_to(self, goals: np.ndarray) -> Tensor:
        """[goals, n] the lengths of the shortest paths from every node."""
        if self.device.type == "cuda":
            return self.device_search.shared_distances_from(goals)
        return torch.from_numpy(distances_from_on(self.device, self.backward, goals)).to(self.device)

    def _refresh_reference(self, number: int) -> None:
        if int(self.reference_round) != number:
            vectors = encode(self.embedding.encoder, self.images)
            self.embedding.train()
            self.reference.copy_(self.embedding.scale * torch.from_numpy(vectors).to(self.reference.device))
            self.reference_round.fill_(number)

    @torch.no_grad()
    def _reference_distance(self, nodes: np.ndarray, goal: int) -> np.ndarray:
        return self.embedding.head(self.reference[torch.from_numpy(nodes).to(self.reference.device)], self.reference[goal]).cpu().numpy()

    def _bootstrapped(self, backward: csr_array, goals: np.ndarray) -> np.ndarray:
        """Equation 7: the first `depth` hops of the shortest path, then D of the round's beginning; 0 past the goal."""
        lengths, onward = distances_from(backward, goals, predecessors=True)
        for row, goal in enumerate(goals):
            ahead = np.arange(lengths.shape[1])
            for _ in range(self.config.depth):
                ahead = np.where(onward[row, ahead] >= 0, onward[row, ahead], ahead)
            rest = np.where(ahead == goal, 0.0, self._reference_distance(ahead, goal))
            known = np.isfinite(lengths[row])
            lengths[row, known] += rest[known] - lengths[row, ahead[known]]
        return lengths

    def _led_by_itself(self, goals: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Algorithm 1 to the letter: A* with D as heuristic. Every node on a found path gives a target, not only its start."""
        targets = np.full((len(goals), self.graph.shape[0]), np.inf, np.float32)
        for row, goal in enumerate(goals):
            targets[row, goal] = 0
            path = best_first(self.graph, int(rng.choice(self.reachable)), int(goal), partial(self._reference_distance, goal=goal))
            if path.nodes is not None:
                hops = [self.graph[a, b] for a, b in zip(path.nodes, path.nodes[1:], strict=False)]
                targets[row, path.nodes] = np.append(np.cumsum(hops[::-1])[::-1], 0)
        return targets
