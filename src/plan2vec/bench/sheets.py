"""Made data of any size for benchmarks of single stages: frames of a flat place, as a local metric and a map see them.

Not fitted: what a stage works through has the number, the dimension and the density of a fitted one, not its errors.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from plan2vec.graph.build import graph_of_edges

RADIUS, DEGREE = 1.28, 50.0  # steps within which frames are joined, and how many others lie there, as in the demo


def places(num: int, rng: np.random.Generator) -> np.ndarray:
    """(num, 2) positions in steps, uniform in a square."""
    return rng.uniform(0, np.sqrt(num * np.pi * RADIUS**2 / DEGREE), (num, 2))


def lift(position: np.ndarray, dim: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    """(n, dim) float32: the same distances in more dimensions, with some noise."""
    turned = np.linalg.qr(rng.normal(size=(dim, dim)))[0][:2]
    return (position @ turned + noise * rng.normal(size=(len(position), dim))).astype(np.float32)


def joined(position: np.ndarray) -> csr_array:
    """The graph of all pairs within RADIUS, edges as long as the way."""
    first, second = cKDTree(position).query_pairs(RADIUS, output_type="ndarray").T
    length = np.linalg.norm(position[first] - position[second], axis=1)
    ends = np.concatenate((first, second)), np.concatenate((second, first))
    return graph_of_edges(*ends, np.concatenate((length, length)), len(position))
