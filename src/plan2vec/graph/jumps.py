"""Recorded jumps that chance decides: a teleporter that leads elsewhere each time, a reset inside a recording.

A recorded step is a *jump* if the local metric holds its ends for unrelated. Where most jumps from look-alikes of a
frame ended elsewhere, no plan can count on this one. So the sequence counts as ended there, and no edge leads across.
Who passes close by may be caught: a hop also costs the share of passages that chance took over, times a mean path."""

import numpy as np
import torch
from scipy.sparse import csr_array

from plan2vec.data import slices, transitions
from plan2vec.graph.build import edge_rows, joined_nodes
from plan2vec.search.shortest_paths import distances_from

UNRELATED = 2  # `max_gap`s: what training asks of unrelated frames at least
MOST_JUMPS = 0.1  # share of the recorded steps: where more jump, the metric fits badly, and nothing is cut
LIKELY = 0.5  # share of the jumps from look-alikes that must end as this one does
STEPS_AT_ONCE, JUMPS_AT_ONCE = 2**20, 2**8  # that are measured together, and compared with all others


def jumps_by_chance(sequence: np.ndarray, vectors: np.ndarray, max_gap: int, usable: np.ndarray) -> np.ndarray:
    """(k,) frames after which chance decided what was recorded next. `vectors` (n, d): the local metric's."""
    start = transitions(sequence, usable)
    parts = np.array_split(start, 1 + len(start) // STEPS_AT_ONCE)
    length = [np.linalg.norm(vectors[part + 1] - vectors[part], axis=1) for part in parts]
    jumps = start[np.concatenate(length) > UNRELATED * max_gap]
    if len(jumps) > MOST_JUMPS * len(start):
        return jumps[:0]
    begin, end = (torch.from_numpy(np.ascontiguousarray(vectors[frames])) for frames in (jumps, jumps + 1))
    likely = np.ones(len(jumps), bool)
    for part in slices(len(jumps), JUMPS_AT_ONCE):
        alike = torch.cdist(begin[part], begin) <= max_gap
        same = alike & (torch.cdist(end[part], end) <= max_gap)
        likely[part] = (same.sum(1) >= LIKELY * alike.sum(1)).numpy()
    return jumps[~likely]


def cut_after(sequence: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """(n,) labels of the sequences, which also end after these frames."""
    begins = np.diff(sequence, prepend=sequence[0]) != 0
    begins[frames + 1] = True
    return np.cumsum(begins)


def soon_by_chance(sequence: np.ndarray, jumps: np.ndarray, ahead: int) -> np.ndarray:
    """(n,) bool: within so many steps chance decided. `sequence` (n,): as recorded."""
    earlier, soon = np.maximum(jumps[:, None] - np.arange(ahead), 0), np.zeros(len(sequence), bool)
    soon[earlier[sequence[earlier] == sequence[jumps][:, None]]] = True
    return soon


def price_risk(graph: csr_array, risk: np.ndarray) -> csr_array:
    """The graph whose hops cost more: half of the risk (n,) of either end, so that ways there and back stay alike."""
    nodes = joined_nodes(graph)
    lengths = distances_from(graph, nodes[np.linspace(0, len(nodes) - 1, 8, dtype=int)])  # enough for a mean
    lost = float(lengths[np.isfinite(lengths) & (lengths > 0)].mean())
    priced = graph.data + lost * (risk[edge_rows(graph)] + risk[graph.indices]) / 2
    return csr_array((priced.astype(np.float32), graph.indices, graph.indptr), shape=graph.shape)
