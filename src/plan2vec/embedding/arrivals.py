"""Whether a map leads: greedy walks to neighbours of goals drawn for this alone. Training asks when to stop."""

from copy import deepcopy

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.embedding.network import Embedding, map_vectors
from plan2vec.graph.build import edge_rows, joined_nodes
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.planner import walk_many
from plan2vec.search.balls import is_neighbor
from plan2vec.search.gpu_search import distances_from_on

NUM_PHASES, FEW_PHASES = 5, 3  # of training, if walks fail; of pictures on a CPU, where more take a quarter of an hour
NUM_WALKS, NUM_GOALS = 1000, 32
DETOUR, MORE_HOPS = 4, 10  # a walk may take so many hops per step of the shortest path, and so many more
ENOUGH = 0.995  # of the walks that arrive
LITTLE = 0.8  # of the failures: where more are left than two phases before, more training does not help
NUMBERS_AT_ONCE = 2**22  # of vectors whose distances are computed together


def phases_for(images: FrameTensors) -> int:
    return FEW_PHASES if images.device.type == "cpu" and images.frames.ndim == 4 else NUM_PHASES


class Trial:
    """The same walks again and again, while a map learns."""

    def __init__(self, graph: csr_array, seed: int, device: torch.device):
        still = graph.indices[(graph.data == 0) & (graph.indices == edge_rows(graph) + 1)]  # no task of their own
        rng, nodes = rng_at(seed, Stream.MAP_TRIAL), np.setdiff1d(joined_nodes(graph), still)
        goals = rng.choice(nodes, min(NUM_GOALS, len(nodes)), replace=False)
        goals, starts = np.resize(goals, NUM_WALKS), rng.choice(nodes, NUM_WALKS)
        ends, which = np.unique(goals, return_inverse=True)
        length = distances_from_on(device, graph.T.tocsr(), ends)[which, starts]
        known = np.isfinite(length) & (length > 0)
        self.graph, self.starts, self.goals = graph, starts[known], goals[known]
        self.most = (DETOUR * length[known] + MORE_HOPS).astype(np.int64)
        self.failed: list[float] = []  # share of the walks, phase by phase

    def share_arrived(self, embedding: Embedding, images: FrameTensors) -> float:
        vectors, head = torch.from_numpy(map_vectors(embedding, images)), embedding.head
        size = max(1, NUMBERS_AT_ONCE // vectors.shape[1])

        @torch.no_grad()
        def distance(nodes: np.ndarray, goals: np.ndarray) -> np.ndarray:
            pairs = torch.from_numpy(np.stack((nodes, goals))).split(size, dim=1)
            return torch.cat([head(vectors[first], vectors[second]) for first, second in pairs]).numpy()

        rng = np.random.default_rng(0)  # no hop is random
        _, arrived = walk_many(self.graph, distance, self.starts, self.goals, self.most, 0.0, False,
                               lambda nodes, goals: is_neighbor(self.graph, nodes, goals), rng)
        return float(arrived.mean()) if len(self.starts) else 1.0

    def is_enough(self, arrived: float, embedding: Embedding) -> bool:
        """Whether to stop after this phase; `best` is the map of the best one so far."""
        if 1 - arrived <= min(self.failed, default=1.0):
            self.best = deepcopy(embedding.state_dict())
        self.failed.append(1 - arrived)
        return arrived >= ENOUGH or (len(self.failed) > 2 and self.failed[-1] > LITTLE * self.failed[-3])
