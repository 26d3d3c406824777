"""Stage 2a: all pairs of frames within a distance of each other, by tiles, without an n x n array."""

from dataclasses import dataclass

import numpy as np
import torch

TILE = 2048  # rows and columns of one block of distances


@dataclass(frozen=True)
class NearPairs:
    """Pairs of frames and their local distance; every pair stands once, first < second, sorted."""

    first: np.ndarray  # (m,) int64
    second: np.ndarray  # (m,) int64
    distance: np.ndarray  # (m,) float32, steps

    def __len__(self) -> int:
        return len(self.first)

    def select(self, keep: np.ndarray) -> "NearPairs":
        return NearPairs(self.first[keep], self.second[keep], self.distance[keep])


def near_pairs(vectors: np.ndarray, max_distance: float, max_neighbors: int, device: torch.device) -> NearPairs:
    """Pairs with |u - v| <= max_distance; of a frame with more than `max_neighbors` only its nearest count, so memory is O(n k)."""
    points = torch.from_numpy(vectors - vectors.mean(axis=0)).to(device)  # small numbers keep the matrix product exact
    squares = points.square().sum(1)
    num_nearest = min(max_neighbors + 1, len(points))
    found = []
    for first in range(0, len(points), TILE):
        rows = slice(first, min(first + TILE, len(points)))
        distance = _tile_distances(points, squares, rows)  # [tile, n]
        near = distance <= max_distance
        crowded = near.sum(1) > num_nearest
        if crowded.any():
            limit = distance[crowded].kthvalue(num_nearest, dim=1).values
            near[crowded] &= distance[crowded] <= limit[:, None]
        row, column = torch.nonzero(near, as_tuple=True)
        found.append(torch.stack((row + first, column)).cpu().numpy())
    return _unique_pairs(np.concatenate(found, axis=1), vectors)


def nearest(vectors: np.ndarray, queries: np.ndarray, num: int, device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    """The `num` nearest vectors of every query: (numbers (q, num), distances (q, num)), nearest first."""
    points, asked = torch.from_numpy(vectors).to(device), torch.from_numpy(queries).to(device)
    exact = torch.cdist(asked, points, compute_mode="donot_use_mm_for_euclid_dist")
    distance, number = exact.topk(min(num, len(points)), dim=1, largest=False)
    return number.cpu().numpy(), distance.cpu().numpy()


def _tile_distances(points: torch.Tensor, squares: torch.Tensor, rows: slice) -> torch.Tensor:
    product = points[rows] @ points.T
    return (squares[rows, None] + squares[None, :] - 2 * product).clamp_(min=0).sqrt_()


def _unique_pairs(found: np.ndarray, vectors: np.ndarray) -> NearPairs:
    """Each unordered pair once; distances anew by subtraction, which is exact near 0 where the matrix product is not."""
    low, high = found.min(axis=0), found.max(axis=0)
    key = np.sort(low[low < high] * np.int64(len(vectors)) + high[low < high])
    key = key[np.diff(key, prepend=-1) > 0]  # numpy's unique hashes first, which is 20 times slower here
    first, second = key // len(vectors), key % len(vectors)
    distance = np.empty(len(key), np.float32)
    for part in np.array_split(np.arange(len(key)), max(1, len(key) // 100_000)):
        distance[part] = np.linalg.norm(vectors[first[part]] - vectors[second[part]], axis=1)
    return NearPairs(first, second, distance)
