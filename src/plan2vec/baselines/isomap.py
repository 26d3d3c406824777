"""scikit-learn's Isomap on our graph: what a user would pick today for a map from a neighbour graph. Needs [sklearn].

It needs all n x n distances and an eigenvalue problem of that size, and has no network that could place new frames."""

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.baselines import l2_distance
from plan2vec.planner import Distance
from plan2vec.search.shortest_paths import connected_parts

MOST_NODES = 10_000  # 0.8 GB for every n x n matrix it holds


def fit_isomap(graph: csr_array, dim: int) -> Distance:
    """D = l2 between coordinates, in steps; inf from and to frames outside the largest part; edges lead both ways."""
    try:
        from sklearn.manifold import Isomap
        from sklearn.neighbors import sort_graph_by_row_values
    except ImportError:
        raise ValueError("Isomap needs scikit-learn; install the extra: pip install 'plan2vec[sklearn]'") from None
    member = np.flatnonzero(connected_parts(graph)[1] == 0)
    if not dim < len(member) <= MOST_NODES:
        raise ValueError(f"Isomap in {dim} dimensions takes {dim + 1} to {MOST_NODES} connected frames, "
                         f"but the graph joins {len(member)}")
    part = sort_graph_by_row_values(graph[member][:, member], warn_when_not_sorted=False)
    longest = float(part.data.max())  # with this radius scikit-learn's neighbour step keeps the graph as it is
    isomap = Isomap(n_neighbors=None, radius=longest, n_components=dim, metric="precomputed", path_method="D")
    vectors = np.full((graph.shape[0], dim), np.nan, np.float32)
    vectors[member] = isomap.fit_transform(part)
    known = l2_distance(torch.from_numpy(vectors))
    return lambda first, second: np.nan_to_num(known(first, second), nan=np.inf)
