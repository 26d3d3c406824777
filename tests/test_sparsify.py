"""Few nodes for many frames: balls that hold every frame, and a graph that never promises a shorter way than there is.
"""

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import dijkstra

from plan2vec.data import transitions
from plan2vec.graph.build import graph_of_edges
from plan2vec.graph.neighbors import near_pairs
from plan2vec.graph.sparsify import cover_frames, join_balls

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def walks():
    """Random walks in a square of 10 x 10 steps, and their vectors: positions in steps."""
    position = np.clip(
        np.cumsum(RNG.normal(0, 0.7, size=(40, 50, 2)), axis=1) + RNG.uniform(2, 8, size=(40, 1, 2)), 0, 10
    )
    return position.reshape(-1, 2).astype(np.float32), np.repeat(np.arange(40), 50)


def test_every_frame_lies_in_a_ball_and_no_node_in_anothers(walks):
    vectors, _ = walks
    cover = cover_frames(vectors, 1.5)
    apart = np.linalg.norm(vectors[cover.nodes][:, None] - vectors[cover.nodes], axis=2)
    to_nodes = np.linalg.norm(vectors[:, None] - vectors[cover.nodes], axis=2)
    assert 10 < len(cover.nodes) < 100
    assert cover.offset.max() <= 1.5 and apart[~np.eye(len(apart), dtype=bool)].min() > 1.5
    assert (cover.node_of == to_nodes.argmin(axis=1)).all() and np.allclose(
        cover.offset, to_nodes.min(axis=1), atol=1e-5
    )


def test_distances_between_nodes_are_bounded_by_the_full_graphs(walks):
    """Never shorter; longer by no more than what the detours over the nodes cost. The full graph has every step and
    every closure.
    """
    vectors, sequence = walks
    cover = cover_frames(vectors, 1.0)
    sparse = join_balls(cover, sequence, max_steps=6)
    near, first = near_pairs(vectors, 1.0, 2000, torch.device("cpu")), transitions(sequence)
    ends = np.stack((np.append(near.first, first), np.append(near.second, first + 1)))
    full = graph_of_edges(
        *np.concatenate((ends, ends[::-1]), axis=1), np.tile(np.append(near.distance, np.ones(len(first))), 2),
        len(vectors)
    )
    exact = dijkstra(full, indices=cover.nodes[:20])[:, cover.nodes]
    found = dijkstra(sparse, indices=np.arange(20))
    assert np.isfinite(exact).all()
    assert (found >= exact - 1e-4).all()
    assert np.median(found[exact > 0] / exact[exact > 0]) < 1.6


@pytest.mark.parametrize(("radius", "max_steps"), [(0.0, 3), (1.0, 0)])
def test_a_cover_of_no_size_is_refused(walks, radius, max_steps):
    with pytest.raises(ValueError, match="must be"):
        join_balls(cover_frames(walks[0], radius), walks[1], max_steps)
