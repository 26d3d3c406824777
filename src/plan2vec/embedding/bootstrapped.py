"""The paper's own targets, for comparison: beyond a few hops distances come from D itself (equation 7, Algorithm 1)."""

from functools import partial

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from plan2vec.config import EmbeddingConfig
from plan2vec.embedding.network import Embedding
from plan2vec.embedding.targets import Rounds, Targets
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.learning.processes import concatenated, size
from plan2vec.search.shortest_paths import best_first, distances_from


class BootstrappedRounds(nn.Module, Rounds):
    """The reference is equation 7's target network: vectors as the round began. A checkpoint holds it."""

    reference: Tensor
    reference_round: Tensor

    def __init__(self, embedding: Embedding, graph: csr_array, images: FrameTensors, config: EmbeddingConfig, seed: int,
                 targets: Targets, depth: int):
        nn.Module.__init__(self)
        Rounds.__init__(self, graph, config, seed, images.device)
        self.learner = (embedding,)  # no part of this module: a checkpoint holds it once
        self.images, self.targets, self.depth = images, targets, depth
        self.register_buffer("reference", torch.zeros(graph.shape[0], embedding.head.dim, device=images.device))
        self.register_buffer("reference_round", torch.tensor(-1))

    @property
    def embedding(self) -> Embedding:
        return self.learner[0]

    @property
    def takes_child_processes(self) -> bool:
        return False  # a round needs D as it is when it begins

    def _lengths_to(self, goals: np.ndarray, number: int, rng: np.random.Generator) -> Tensor:
        if int(self.reference_round) != number:
            vectors = encode(self.embedding.encoder, self.images)
            self.embedding.train()
            self.reference.copy_(self.embedding.scale * torch.from_numpy(vectors).to(self.reference.device))
            self.reference_round.fill_(number)
        if self.targets == "bootstrapped":
            lengths = concatenated(np.array_split(goals, size()), partial(self._bootstrapped, self.backward))
        else:
            lengths = self._astar_targets(goals, rng)
        return torch.from_numpy(lengths).to(self.device)

    @torch.no_grad()
    def _reference_distance(self, nodes: np.ndarray, goal: int) -> np.ndarray:
        numbers = torch.from_numpy(nodes).to(self.reference.device)
        return self.embedding.head(self.reference[numbers], self.reference[goal]).cpu().numpy()

    def _bootstrapped(self, backward: csr_array, goals: np.ndarray) -> np.ndarray:
        """Equation 7: the first `depth` hops of the shortest path, then D of the round's beginning; 0 past the goal."""
        lengths, onward = distances_from(backward, goals, predecessors=True)
        for row, goal in enumerate(goals):
            ahead = np.arange(lengths.shape[1])
            for _ in range(self.depth):
                ahead = np.where(onward[row, ahead] >= 0, onward[row, ahead], ahead)
            rest = np.where(ahead == goal, 0.0, self._reference_distance(ahead, goal))
            known = np.isfinite(lengths[row])
            lengths[row, known] += rest[known] - lengths[row, ahead[known]]
        return lengths

    def _astar_targets(self, goals: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Algorithm 1: A* with D as heuristic. Every node on a found path gives a target, not only its start."""
        targets = np.full((len(goals), self.graph.shape[0]), np.inf, np.float32)
        for row, goal in enumerate(goals):
            targets[row, goal] = 0
            path = best_first(self.graph, int(rng.choice(self.reachable)), int(goal),
                              partial(self._reference_distance, goal=goal))
            if path.nodes is not None:
                hops = [self.graph[a, b] for a, b in zip(path.nodes, path.nodes[1:], strict=False)]
                targets[row, path.nodes] = np.append(np.cumsum(hops[::-1])[::-1], 0)
        return targets
