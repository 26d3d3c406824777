"""A million frames carried by a few thousand nodes.

Frames whose local distance to a node is at most `radius` steps lie in its *ball*. A node is one of the recorded frames,
every frame lies in some ball and belongs to the nearest node, and no two nodes lie in each other's. Recorded passages
from ball to ball are the edges: they weigh the steps recorded, and those from the nodes to the frames at both ends. So
a path found here is never shorter than the shortest in the graph of all frames with all closures up to `radius`."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.data import frames_ahead, slices
from plan2vec.graph.build import graph_of_edges

FRAMES_AT_ONCE = 1024


@dataclass(frozen=True)
class Cover:
    nodes: np.ndarray  # (m,) int64 frame numbers
    node_of: np.ndarray  # (n,) int64 which of them, 0 to m - 1, a frame belongs to
    offset: np.ndarray  # (n,) float32 steps between the frame and its node


def cover_frames(vectors: np.ndarray, radius: float) -> Cover:
    """Balls of `radius` around some of the vectors (n, d), whose l2 distances are steps, as frames need them."""
    if not radius > 0:
        raise ValueError(f"radius must be a positive number of steps, but is {radius}")
    points = torch.from_numpy(vectors - vectors.mean(axis=0))  # small numbers keep the matrix product exact
    nodes: list[int] = []
    for part in slices(len(points), FRAMES_AT_ONCE):
        numbers = np.arange(part.start, part.stop)
        if nodes:
            numbers = numbers[_nearest_node(points[numbers], points[nodes])[1].numpy() > radius]
        while len(numbers):
            nodes.append(int(numbers[0]))
            numbers = numbers[torch.linalg.vector_norm(points[numbers] - points[numbers[0]], dim=1).numpy() > radius]
    chosen, node_of, offset = points[nodes], np.empty(len(points), np.int64), np.empty(len(points), np.float32)
    for part in slices(len(points), FRAMES_AT_ONCE):  # in place: small results between large ones waste memory
        node_of[part], offset[part] = (found.numpy() for found in _nearest_node(points[part], chosen))
    return Cover(np.array(nodes, np.int64), node_of, offset)


def _nearest_node(points: torch.Tensor, nodes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[b] which node is nearest, and its distance, by subtraction: exact where the matrix product is not."""
    which = torch.addmm(nodes.square().sum(1), points, nodes.T, alpha=-2).argmin(1)
    return which, torch.linalg.vector_norm(points - nodes[which], dim=1)


def join_balls(cover: Cover, sequence: np.ndarray, max_steps: int) -> csr_array:
    """(m, m) the graph of the nodes, both ways: the shortest passages of at most `max_steps` recorded steps."""
    if max_steps < 1:
        raise ValueError(f"max_steps must be 1 or more, but is {max_steps}")
    starts = [frames_ahead(sequence, steps) for steps in range(1, max_steps + 1)]
    start, steps = np.concatenate(starts), np.repeat(np.arange(1, max_steps + 1), list(map(len, starts)))
    row, column = cover.node_of[start], cover.node_of[start + steps]
    length = cover.offset[start] + cover.offset[start + steps] + steps.astype(np.float32)
    row, column, length = np.append(row, column), np.append(column, row), np.append(length, length)
    order = np.argsort(length, kind="stable")
    order = order[row[order] != column[order]]
    return graph_of_edges(row[order], column[order], length[order], len(cover.nodes))
