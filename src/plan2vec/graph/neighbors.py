"""Stage 2a: all pairs of frames within a distance of each other, without an n x n array.

Exact, by tiles, on a GPU and for recordings of moderate size; beyond that approximately, by a graph of small worlds
(HNSW, of the package usearch), whose recall is measured. Memory is O(n k) either way: of a frame with too many near
frames some count, its nearest or its *hubs*. In a dense recording the nearest are all but equal to the frame, and a
path of such short hops is long. Hubs are the first of the near frames in one random order of all frames; they lie
anywhere within the distance, and frames that are near each other have many in common."""

import importlib.util
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from plan2vec.config import Neighbors
from plan2vec.data import slices
from plan2vec.learning.processes import concatenated

TILE = 2048  # most rows of one block of distances
NUMBERS_AT_ONCE = {"cuda": 2**29, "cpu": 2**26}  # most distances in one block: 2 GB and 256 MB of float32
FIRST_HUBS = 2**13  # frames that a frame is compared with first, in the order of hubs; then twice as many
PACKED = 16  # times as many near frames as count: there the nearest are found before all are listed
FIRST_ASKED = 64  # nearest frames asked for; where all of them lie within the distance, twice as many
PAIRS_AT_ONCE = {"cuda": 2**23, "cpu": 2048}  # distances taken together; of a CPU the vectors fit into a core's cache
NUM_CHECKED = 500  # frames that the recall is measured on


@dataclass(frozen=True)
class NearPairs:
    """Pairs of frames and their local distance; every pair stands once, first < second, sorted."""

    first: np.ndarray  # (m,) int64
    second: np.ndarray  # (m,) int64
    distance: np.ndarray  # (m,) float32, steps
    recall: float | None = None  # share of the near pairs that an approximate search found; None: it was exact

    def __len__(self) -> int:
        return len(self.first)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.first, self.second, self.distance

    def select(self, keep: np.ndarray) -> "NearPairs":
        return NearPairs(self.first[keep], self.second[keep], self.distance[keep], self.recall)

    def renumbered(self, numbers: np.ndarray) -> "NearPairs":
        """Frames that were known by their index into `numbers` (n,), ascending, by their own numbers."""
        return replace(self, first=numbers[self.first], second=numbers[self.second])


def near_pairs(vectors: np.ndarray, max_distance: float, max_neighbors: int, device: torch.device,
               search: Neighbors = "exact") -> NearPairs:
    """Pairs with |u - v| <= max_distance; of more than `max_neighbors` the nearest count, or the hubs."""
    if search != "approximate":
        keys = (_hub_keys if search == "hubs" else _exact_keys)(vectors, max_distance, max_neighbors, device)
        return _unique_pairs(keys, vectors, device)
    if not usearch_installed():
        raise ValueError("approximate neighbours need usearch; install the extra: pip install 'plan2vec[large]', "
                         "or search exactly")
    found = _approximate_pairs(vectors, max_distance, max_neighbors)
    keys = found.min(axis=0) * len(vectors) + found.max(axis=0)
    recall = _measured_recall(found, vectors, max_distance, max_neighbors, device)
    return replace(_unique_pairs(keys, vectors, device), recall=recall)


def usearch_installed() -> bool:
    return importlib.util.find_spec("usearch") is not None


def _exact_keys(vectors: np.ndarray, max_distance: float, max_neighbors: int, device: torch.device) -> np.ndarray:
    """(p,) int64 keys of pairs, low * n + high, most of them twice, and of frames with themselves."""
    points, num_nearest = Points.of(vectors, device), min(max_neighbors + 1, len(vectors))
    size = max(1, min(TILE, numbers_at_once(device) // max(1, len(vectors))))

    def search(first: int) -> np.ndarray:
        rows = slice(first, first + size)
        limit = max_distance**2 - points.squares[rows]
        row, column = _least_within(points.squares_to(rows, slice(None)), limit, num_nearest)
        return pair_keys(row + first, column, len(vectors)).cpu().numpy()

    return concatenated(range(0, len(vectors), size), search)


def _hub_keys(vectors: np.ndarray, max_distance: float, max_neighbors: int, device: torch.device) -> np.ndarray:
    """As `_exact_keys`, but the hubs of a frame that has too many near frames: few pairs are compared."""
    order = np.random.default_rng(0).permutation(len(vectors))
    points, number = Points.of(vectors[order], device), torch.from_numpy(order).to(device)

    def search(first: int) -> np.ndarray:
        asked = torch.arange(first, min(first + TILE, len(vectors)), device=device)
        missing = torch.full_like(asked, max_neighbors + 1)  # a frame is near itself
        begin, width, found = 0, FIRST_HUBS, [number[:0]]
        while len(asked) and begin < len(vectors):
            limit = (max_distance**2 - points.squares[asked])[:, None]
            within = points.squares_to(asked, slice(begin, begin + width)) <= limit
            row, column = torch.nonzero(within, as_tuple=True)  # by row, and in it in the order of all frames
            in_row = torch.bincount(row, minlength=len(asked))
            rank = torch.arange(len(row), device=device) - (in_row.cumsum(0) - in_row)[row]
            counts = rank < missing[row]
            found.append(pair_keys(number[asked[row[counts]]], number[column[counts] + begin], len(vectors)))
            missing = missing - in_row
            asked, missing = asked[missing > 0], missing[missing > 0]
            begin, width = begin + width, min(2 * width, max(1, numbers_at_once(device) // max(1, len(asked))))
        return torch.cat(found).cpu().numpy()

    return concatenated(range(0, len(vectors), TILE), search)


@dataclass(frozen=True)
class Points:
    """Vectors about their middle, where small numbers keep the matrix product exact."""

    vectors: Tensor  # [n, d]
    squares: Tensor  # [n] of their lengths

    @classmethod
    def of(cls, vectors: np.ndarray, device: torch.device) -> "Points":
        points = torch.from_numpy(vectors - vectors.mean(axis=0)).to(device)
        return cls(points, points.square().sum(1))

    def squares_to(self, rows: slice | Tensor, columns: slice) -> Tensor:
        """[rows, columns] squared distances less those of the rows from the middle."""
        return torch.addmm(self.squares[columns], self.vectors[rows], self.vectors[columns].T, alpha=-2)


def numbers_at_once(device: torch.device) -> int:
    return NUMBERS_AT_ONCE.get(device.type, NUMBERS_AT_ONCE["cpu"])


def pair_keys(first: Tensor, second: Tensor, num_frames: int) -> Tensor:
    """[p] one number a pair, the same both ways round."""
    return torch.minimum(first, second) * num_frames + torch.maximum(first, second)


def _least_within(values: Tensor, limit: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """Row and column of the values [r, n] within the limit [r] of their row; of more than `num` in a row the least."""
    within = values <= limit[:, None]
    packed = within.sum(1) > PACKED * num
    if packed.any():  # to list all of them would take much memory; ties are left for below
        within[packed] &= values[packed] <= values[packed].kthvalue(num, dim=1).values[:, None]
    row, column = torch.nonzero(within, as_tuple=True)
    in_row = torch.bincount(row, minlength=len(values))
    if int(in_row.max()) <= num:
        return row, column
    order = values[row, column].argsort(stable=True)
    order = order[row[order].argsort(stable=True)]  # by row, and in it by value
    rank = torch.arange(len(row), device=row.device) - (in_row.cumsum(0) - in_row)[row]
    kept = order[rank < num]
    return row[kept], column[kept]


def _approximate_pairs(vectors: np.ndarray, max_distance: float, max_neighbors: int) -> np.ndarray:
    """(2, p) pairs, some of them twice, the other way round, and of frames with themselves. Frames join the index one
    after another in one thread: so it is the same index every time."""
    from usearch.index import Index

    index = Index(ndim=vectors.shape[1], metric="l2sq", dtype="f32")
    index.add(np.arange(len(vectors), dtype=np.uint64), vectors, threads=1)
    most = min(max_neighbors + 1, len(vectors))
    asked, num, found = np.arange(len(vectors)), min(FIRST_ASKED, most), []
    while len(asked):
        matches = index.search(vectors[asked], num)
        numbers, squares = np.atleast_2d(matches.keys).astype(np.int64), np.atleast_2d(matches.distances)
        near = np.less_equal(squares, max_distance**2)
        full = np.flatnonzero(near.all(axis=1) & (num < most))
        near[full] = False  # they are asked again
        row, column = np.nonzero(near)
        found.append(np.stack((asked[row], numbers[row, column])))
        asked, num = asked[full], min(2 * num, most)
    return np.concatenate(found, axis=1)


def _measured_recall(found: np.ndarray, vectors: np.ndarray, max_distance: float, max_neighbors: int,
                     device: torch.device) -> float:
    """Share of the near frames of some frames, drawn at random, that were found."""
    drawn = np.unique(np.random.default_rng(0).integers(len(vectors), size=NUM_CHECKED))
    numbers, distances = nearest(vectors, vectors[drawn], max_neighbors + 1, device)
    row, column = np.nonzero(distances <= max_distance)
    wanted = drawn[row] * len(vectors) + numbers[row, column]
    of_drawn = np.isin(found[0], drawn)
    return float(np.isin(wanted, found[0, of_drawn] * len(vectors) + found[1, of_drawn]).mean())


def nearest(vectors: np.ndarray, queries: np.ndarray, num: int, device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    """The `num` nearest vectors of every query: (numbers (q, num), distances (q, num)), nearest first."""
    points, asked = torch.from_numpy(vectors).to(device), torch.from_numpy(queries).to(device)
    exact = torch.cdist(asked, points, compute_mode="donot_use_mm_for_euclid_dist")
    distance, number = exact.topk(min(num, len(points)), dim=1, largest=False)
    return number.cpu().numpy(), distance.cpu().numpy()


def _unique_pairs(keys: np.ndarray, vectors: np.ndarray, device: torch.device) -> NearPairs:
    """Each unordered pair once, with its distance."""
    if device.type == "cuda":
        keys = torch.from_numpy(keys).to(device).sort().values.cpu().numpy()
    else:
        keys.sort()  # numpy's unique hashes first, which is 20 times slower here
    keys = keys[np.diff(keys, prepend=-1) > 0]
    first, second = keys // len(vectors), keys % len(vectors)
    apart = first < second
    first, second = first[apart], second[apart]
    points, distance = torch.from_numpy(vectors).to(device), np.empty(len(first), np.float32)
    for part in slices(len(first), PAIRS_AT_ONCE.get(device.type, PAIRS_AT_ONCE["cpu"])):
        from_, to = (points.index_select(0, torch.from_numpy(ends[part]).to(device)) for ends in (first, second))
        distance[part] = (from_ - to).square_().sum(1).sqrt_().cpu().numpy()  # exact near 0, unlike a matrix product
    return NearPairs(first, second, distance)
