"""Stage 4, second variant: fitted value iteration (the paper's appendix). Walks led by D itself teach D.

Rounds of walks: from random frames towards random goals, each hop to the frame of the `lookahead`-hop ball that D puts
nearest to the goal, now and then to a random one. Every later node of a walk is then a goal too (hindsight). The
distance from x to a goal is regressed towards the length of the next `target_hops` hops (no more than reach the goal) +
D_target(where they lead, goal). D_target follows D slowly. The paper calls it unstable.

    a walk      x_0 -> x_1 -> ... -> x_T with a goal g         one update sees all pairs (x_t, x_j), t < j, and (x_t, g)
    target      len(x_t ... x_t+h) + D_target(x_t+h, x_j)                  h = target_hops; D_target(x_j, x_j) = 0"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor, nn

from plan2vec.config import EmbeddingConfig
from plan2vec.embedding.network import Embedding
from plan2vec.embedding.targets import distance_loss
from plan2vec.graph.build import edge_rows, joined_nodes, select_edges
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.learning.gradient_loop import frozen_copy, move_towards
from plan2vec.learning.processes import in_shares
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.planner import walk_many
from plan2vec.search.gpu_search import distances_from_on
from plan2vec.search.shortest_paths import connected_parts

SOURCES_AT_ONCE = 1024  # rows of shortest distances held while the lookahead graph is made


@dataclass(frozen=True)
class Walks:
    """What only experiments change of how value iteration learns."""

    lookahead: int = 1  # hops within which a walk chooses its next frame
    num_rounds: int = 150  # how often walks are made anew, led by D as it is then
    rollouts: int = 64  # walks per round (paper: 20)
    hops: int = 20  # hops of a walk
    target_hops: int = 4  # hops that are added up before D_target takes over
    replay_rounds: int = 8  # rounds whose walks are learned from
    rollouts_per_update: int = 24  # walks that an update learns from: all pairs of the frames of each
    epsilon: float = 0.05  # probability of a random hop
    polyak: float = 0.1  # share of the way that D_target goes per update (paper: 0.1)
    learning_rate: float = 1e-3  # Adam, at its highest


class Walker(nn.Module):
    """Walks, and the loss of every update from them. A checkpoint holds walks and target network."""

    nodes: Tensor
    lengths: Tensor
    newest: Tensor

    def __init__(self, embedding: Embedding, graph: csr_array, images: FrameTensors, config: EmbeddingConfig,
                 seed: int, walks: Walks):
        super().__init__()
        self.embedding, self.target, self.tasks = embedding, frozen_copy(embedding), Tasks(graph)
        self.images, self.config, self.seed, self.num_updates = images, walks, seed, config.num_updates
        self.graph = lookahead_graph(self.tasks.graph, walks.lookahead, images.device)
        kept = (walks.replay_rounds, walks.rollouts)
        self.register_buffer("nodes", torch.zeros(*kept, walks.hops + 2, dtype=torch.int64))  # x_0, ..., x_T, goal
        self.register_buffer("lengths", torch.zeros(*kept, walks.hops))  # of the hops, steps
        self.register_buffer("newest", torch.tensor(-1))  # round of the newest walks

    def loss_at(self, update: int) -> Tensor:
        """Errors of all pairs of nodes that a walk visits, and of these with its goal."""
        config, rng = self.config, rng_at(self.seed, Stream.VALUE_UPDATE, update)
        move_towards(self.target, self.embedding, config.polyak)
        number = update * min(config.num_rounds, self.num_updates) // self.num_updates
        if int(self.newest) != number:
            self._walk(number)
        num_kept = min(number + 1, config.replay_rounds) * config.rollouts
        chosen = torch.from_numpy(rng.choice(num_kept, min(config.rollouts_per_update, num_kept), replace=False))
        nodes, lengths = self.nodes.flatten(0, 1)[chosen], self.lengths.flatten(0, 1)[chosen]
        lengths = lengths.to(self.images.device)  # walks [w, T + 2], lengths of their hops [w, T]
        distinct, inverse = np.unique(nodes.numpy(), return_inverse=True)
        place = torch.from_numpy(inverse.reshape(nodes.shape)).to(lengths.device)
        at_once = self.images.at_once_in_training(self.embedding)
        encoded = in_shares(len(distinct), lambda part: self._encode(distinct[part]), at_once)
        vectors, slow = encoded[:, 0][place], encoded[:, 1].detach()[place]  # [w, T + 2, dim]
        with torch.no_grad():
            onward = self.embedding.head(slow[:, :-1, None], slow[:, None])  # [w, T + 1, T + 2]
        distance = self.embedding.head(vectors[:, :-2, None], vectors[:, None])  # [w, T, T + 2]
        target = hop_targets(lengths, onward, self.config.target_hops)
        target[:, :, :-1].masked_fill_(~first_visits(nodes[:, :-1]).to(target.device), torch.inf)
        visited, goal = (distance_loss(distance[:, :, some], target[:, :, some], "relative", self.embedding.unit)
                         for some in (slice(None, -1), -1))
        return visited + goal

    def _encode(self, numbers: np.ndarray) -> Tensor:
        """[b, 2, dim] vectors of frames: by D, and by D_target."""
        images = self.images(numbers)
        with torch.no_grad():
            slow = self.target(images)
        return torch.stack((self.embedding(images), slow), dim=1)

    @torch.no_grad()
    def _walk(self, number: int) -> None:
        """A round of walks, led by D as it is now; they replace the oldest."""
        config, rng = self.config, rng_at(self.seed, Stream.VALUE_WALKS, number)
        vectors = torch.from_numpy(encode(self.embedding, self.images))
        self.embedding.train()
        head = self.embedding.head  # holds no parameters, so it works where the vectors are
        starts, goals = self.tasks.draw(config.rollouts, rng)
        distance = lambda nodes, goals: head(vectors[nodes], vectors[goals]).numpy()  # noqa: E731
        walks, _ = walk_many(self.graph, distance, starts, goals, np.full(config.rollouts, config.hops), config.epsilon,
                             False, np.equal, rng)
        nodes, slot = staying(walks), number % config.replay_rounds
        self.nodes[slot] = torch.from_numpy(np.vstack((nodes, goals)).T)
        hops = self.graph[nodes[:-1].ravel(), nodes[1:].ravel()]  # 0 where a walk stays
        self.lengths[slot] = torch.from_numpy(np.asarray(hops, np.float32).reshape(len(nodes) - 1, -1).T)
        self.newest.fill_(number)


class Tasks:
    """Random starts and goals of the same part of the graph, which walks never leave."""

    def __init__(self, graph: csr_array):
        part = connected_parts(graph, "strong")[1]
        self.graph = select_edges(graph, part[edge_rows(graph)] == part[graph.indices])
        self.starts = joined_nodes(self.graph)
        if not len(self.starts):
            raise ValueError("value iteration needs frames that can be reached again after they were left; "
                             "use --variant amortized")
        self.part, self.by_part = part, np.argsort(part, kind="stable")
        self.size = np.bincount(part)
        self.offset = np.cumsum(self.size) - self.size

    def draw(self, num: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        starts = rng.choice(self.starts, num)
        part = self.part[starts]
        return starts, self.by_part[self.offset[part] + rng.integers(self.size[part])]


def lookahead_graph(graph: csr_array, hops: int, device: torch.device) -> csr_array:
    """Frames at most `hops` hops apart, joined by the shortest way: one hop on it looks `hops` ahead."""
    if hops == 1:
        return graph
    step = csr_array((np.ones(graph.nnz, np.float32), graph.indices, graph.indptr), shape=graph.shape)
    reach = step
    for _ in range(hops - 1):
        reach = (reach @ step + reach).tocsr()
        reach.data[:] = 1
    reach = select_edges(reach, edge_rows(reach) != reach.indices)
    row = edge_rows(reach)
    for sources in np.array_split(np.arange(graph.shape[0]), -(-graph.shape[0] // SOURCES_AT_ONCE)):
        lengths = distances_from_on(device, graph, sources)
        entries = slice(reach.indptr[sources[0]], reach.indptr[sources[-1] + 1])
        reach.data[entries] = lengths[row[entries] - sources[0], reach.indices[entries]]
    return reach


def staying(walks: np.ndarray) -> np.ndarray:
    """(T + 1, w) walks whose entries after the last hop, -1, are replaced by where they ended."""
    last = np.maximum.accumulate(np.where(walks >= 0, np.arange(len(walks))[:, None], 0), axis=0)
    return np.take_along_axis(walks, last, axis=0)


def hop_targets(lengths: Tensor, onward: Tensor, hops: int) -> Tensor:
    """[w, T, T + 2] targets from x_t to x_j and (last) to the goal, for t < j; below them is nothing of meaning.
    lengths [w, T] of the hops; onward [w, T + 1, T + 2] is D_target from each visited node to each and to the goal."""
    num_hops = lengths.shape[1]
    travelled = F.pad(lengths.cumsum(1), (1, 0))  # [w, T + 1]
    start, end = (torch.arange(size, device=lengths.device) for size in (num_hops, num_hops + 2))
    ahead = torch.minimum(start[:, None] + hops, end.clamp(max=num_hops))  # [T, T + 2]: not past x_j or the walk's end
    return travelled[:, ahead] - travelled[:, :-1, None] + onward[:, ahead, end]


def first_visits(nodes: Tensor) -> Tensor:
    """[w, T, T + 1] bool: after t the walk [w, T + 1] comes to x_j at j for the first time."""
    order = torch.arange(nodes.shape[1], device=nodes.device)
    is_earlier = (nodes[:, :, None] == nodes[:, None]) & (order[:, None] < order)
    before = (is_earlier * (order[:, None] + 1)).amax(1) - 1  # [w, T + 1]: when it was there last; -1: never
    return (order[:-1, None] < order) & (before[:, None] < order[:-1, None])
