"""Stage 3: shortest paths in the graph of frames (see `graph/build.py`), and what finding them costs.

One plan          best_first: Dijkstra, A*, weighted A* and greedy best-first are settings of it.
Training targets  distances_from: exact distances from many sources, in several processes if asked."""

import heapq
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

Heuristic = Callable[[np.ndarray], np.ndarray]  # (m,) node numbers -> (m,) estimated distances to the goal, steps
Reach = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (m,) nodes, (m,) the next ones -> (m,) how far a hop leads

SECONDS_PER_EDGE = 1e-8  # scipy's Dijkstra, for every stored edge and source, on one core
SECONDS_TO_START = 2.0  # child processes that search, on a slow file system
SOURCES_AT_ONCE = 64  # rows of float64 distances that scipy holds before they become float32
CHILD_INPUTS = ("data", "indices", "indptr", "sources")  # files that child processes read


@dataclass(frozen=True)
class Path:
    """A way from start to goal, or the answer that none was found."""

    nodes: list[int] | None  # start, ..., goal; None: no path found
    length: float  # steps; inf: no path found
    num_expanded: int  # times the neighbours of a node were asked for; a node expanded again counts again
    num_touched: int  # distinct nodes returned by these queries
    touched: frozenset[int] = field(default=frozenset(), compare=False, repr=False)  # these nodes


def best_first(graph: csr_array, start: int, goal: int, heuristic: Heuristic | None = None,
               heuristic_weight: float = 1.0, cost_weight: float = 1.0) -> Path:
    """Expands the open node of least cost_weight * steps so far + heuristic_weight * estimated steps to go, repeatedly.

    | method            | heuristic | its weight | cost_weight | path                                |
    |-------------------|-----------|------------|-------------|-------------------------------------|
    | Dijkstra          | None      |            | 1           | shortest                            |
    | A*                | given     | 1          | 1           | shortest if no estimate is too high |
    | weighted A*       | given     | w > 1      | 1           | then at most w times the shortest   |
    | greedy best-first | given     | 1          | 0           | some path, if there is one          |

    The heuristic is asked once per node seen. Where costs count, an expanded node opens again when a cheaper way to it
    is found, so a heuristic need not be consistent; else no node is expanded twice. The search ends when the goal is
    taken from the queue. Ties go to the smaller estimate, then number."""
    if not (heuristic_weight >= 0 and cost_weight >= 0):
        raise ValueError(f"weights must not be negative, but heuristic_weight is {heuristic_weight} "
                         f"and cost_weight is {cost_weight}")
    start, goal = (int(node) for node in checked_nodes(graph, [start, goal]))
    n = graph.shape[0]
    cost, parent, estimates = np.full(n, math.inf), np.full(n, -1), np.zeros(n)
    touched, expanded, num_expanded = np.zeros(n, bool), np.zeros(n, bool), 0
    cost[start] = 0.0
    queue = [(0.0, 0.0, start, 0.0)]  # priority, estimate, node, its cost then
    while queue:
        _, _, node, cost_then = heapq.heappop(queue)
        if node == goal:
            break
        if cost_then > cost[node]:  # a cheaper way to it was found since
            continue
        row = slice(graph.indptr[node], graph.indptr[node + 1])
        neighbors = graph.indices[row]
        num_expanded += 1
        expanded[node] = True
        new = neighbors[~touched[neighbors]]
        if len(new):
            touched[new] = True
            estimates[new] = 0.0 if heuristic is None else _estimates(heuristic, new.astype(np.int64))
        costs = cost[node] + graph.data[row].astype(np.float64)
        cheaper = costs < cost[neighbors]
        if cost_weight == 0:
            cheaper &= ~expanded[neighbors]
        offers = neighbors[cheaper], costs[cheaper], estimates[neighbors[cheaper]]
        for neighbor, new_cost, estimate in zip(*(numbers.tolist() for numbers in offers), strict=True):
            if new_cost < cost[neighbor]:  # a row may name a neighbour twice
                cost[neighbor], parent[neighbor] = new_cost, node
                priority = cost_weight * new_cost + heuristic_weight * estimate
                heapq.heappush(queue, (priority, estimate, neighbor, new_cost))
    answers = frozenset(np.flatnonzero(touched).tolist())
    if math.isinf(cost[goal]):
        return Path(None, math.inf, num_expanded, len(answers), answers)
    nodes = [goal]
    while parent[nodes[-1]] >= 0:
        nodes.append(int(parent[nodes[-1]]))
    return Path(nodes[::-1], path_length(graph, nodes[::-1]), num_expanded, len(answers), answers)


def _estimates(heuristic: Heuristic, nodes: np.ndarray) -> np.ndarray:
    found = np.asarray(heuristic(nodes))
    if found.shape != nodes.shape or np.isnan(found).any():
        raise ValueError(f"the heuristic must return {len(nodes)} numbers, one per node, but returned shape "
                         f"{found.shape} with {int(np.isnan(found).sum())} NaN")
    return found


def path_length(graph: csr_array, nodes: Sequence[int]) -> float:
    """Steps along the edges from each node to the next; inf if one of these edges is missing."""
    length = 0.0
    for node, following in pairwise(nodes):
        row = slice(graph.indptr[node], graph.indptr[node + 1])
        length += min(graph.data[row][graph.indices[row] == following].tolist(), default=math.inf)
    return length


def distances_from(graph: csr_array, sources: np.ndarray) -> np.ndarray:
    """(len(sources), n) float32: steps from each source to every node along the edges; inf where no path leads. Where
    it pays (`choose_workers`), child processes share the sources, and this one only waits, so a thread may call it
    beside training. (Threads alone do not help: scipy holds the interpreter lock.) Their number changes no result."""
    return _search(graph, sources, {"distances": np.float32})[0]


def paths_from(graph: csr_array, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`distances_from`, and (len(sources), n) int32: the node before node j on a shortest path from the source to j;
    negative for the source itself and where no path leads."""
    distances, predecessors = _search(graph, sources, {"distances": np.float32, "predecessors": np.int32})
    return distances, predecessors


def choose_workers(graph: csr_array, num_sources: int) -> int:
    """Processes that `distances_from` should use: all cores where the time saved outweighs starting them, else one."""
    num_sharing = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # processes that torchrun started on this machine
    cores = max(1, (os.cpu_count() or 1) // num_sharing)
    alone = num_sources * graph.nnz * SECONDS_PER_EDGE
    return min(cores, num_sources) if alone * (1 - 1 / cores) > SECONDS_TO_START else 1


def shortest_plans(graph: csr_array, starts: np.ndarray, goals: np.ndarray, reach: Reach | None = None
                   ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(m,) steps and (m,) hops of the shortest paths, (m,) the farthest `reach` of a hop; all infinite: none leads."""
    ends, which = np.unique(goals, return_inverse=True)
    lengths, onward = paths_from(graph.T.tocsr(), ends)
    hops, worst = np.zeros(len(starts), np.float32), np.zeros(len(starts))
    walking, node = np.arange(len(starts)), starts
    while len(walking):  # each along its goal's tree: `onward` names the next node, and is negative at the end
        before, node = node, onward[which[walking], node]
        walking, before, node = walking[node >= 0], before[node >= 0], node[node >= 0]
        hops[walking] += 1
        if reach is not None:
            worst[walking] = np.maximum(worst[walking], reach(before, node))
    length = lengths[which, starts]
    return length, np.where(np.isinf(length), np.inf, hops), np.where(np.isinf(length), np.inf, worst)


def _search(graph: csr_array, sources: np.ndarray, results: dict[str, type]) -> list[np.ndarray]:
    """Distances and, where its name is given too, predecessors, each (len(sources), n) and of the type beside its name.
    Child processes run this very file and meet the parent in files of a temporary folder. Not `multiprocessing`:
    forking is unsafe beside torch's threads, and its other ways import the user's script again, which breaks scripts
    without a `__main__` guard. Running the file, not the module, spares the imports."""
    sources = checked_nodes(graph, sources)
    num_workers, shape = choose_workers(graph, len(sources)), (len(sources), graph.shape[0])
    if num_workers <= 1:
        found = [np.empty(shape, dtype) for dtype in results.values()]
        _search_from(graph, sources, *found)
        return found
    with tempfile.TemporaryDirectory(prefix="plan2vec-search-") as folder:
        for name, array in zip(CHILD_INPUTS, (graph.data, graph.indices, graph.indptr, sources), strict=True):
            np.save(f"{folder}/{name}.npy", array)
        for name, dtype in results.items():
            np.lib.format.open_memmap(f"{folder}/{name}.npy", "w+", dtype, shape)
        limits = [str(limit) for limit in np.linspace(0, len(sources), num_workers + 1).astype(int)]
        run_side_by_side([[sys.executable, "-P", __file__, folder, *rows, *results] for rows in pairwise(limits)])
        return [np.load(f"{folder}/{name}.npy") for name in results]


def _run_as_child(folder: str, first: str, last: str, *results: str) -> None:
    """The child's side of `_search`: rows first to last of the named results."""
    rows = slice(int(first), int(last))
    data, indices, indptr, sources = (np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in CHILD_INPUTS)
    graph = csr_array((data, indices, indptr), shape=(len(indptr) - 1,) * 2)
    _search_from(graph, sources[rows], *(np.load(f"{folder}/{name}.npy", mmap_mode="r+")[rows] for name in results))


def _search_from(graph: csr_array, sources: np.ndarray, distances: np.ndarray,
                 predecessors: np.ndarray | None = None) -> None:
    """Writes its answers into `distances` and, where given, `predecessors`; both (len(sources), n)."""
    for first in range(0, len(sources), SOURCES_AT_ONCE):
        part = slice(first, first + SOURCES_AT_ONCE)
        if predecessors is None:
            distances[part] = dijkstra(graph, indices=sources[part])
        else:
            distances[part], predecessors[part] = dijkstra(graph, indices=sources[part], return_predecessors=True)


def run_side_by_side(commands: list[list[str]]) -> None:
    """Runs the commands side by side; when one fails or this process is interrupted, none is left behind."""
    with ExitStack() as stack:
        children = [stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
                    for command in commands]
        for child in children:
            stack.callback(child.kill)
        for child in children:
            end = child.communicate()[1].strip()[-2000:]
            if child.returncode != 0:
                raise RuntimeError(f"a child process ended with exit code {child.returncode}: {end}")


def connected_parts(graph: csr_array, connection: Literal["weak", "strong"] = "weak") -> tuple[int, np.ndarray]:
    """Number of parts, and (n,) int64 the part of each node. 0 is the largest; ties go to the smaller first node.
    "weak": joined by edges in whatever direction. "strong": a path leads from each node of a part to each other; into
    another part it may lead, but not back."""
    num_parts, labels = connected_components(graph, directed=True, connection=connection)
    _, first_nodes, sizes = np.unique(labels, return_index=True, return_counts=True)
    return num_parts, np.argsort(np.lexsort((first_nodes, -sizes)))[labels]


def checked_nodes(graph: csr_array, nodes: Sequence[int] | np.ndarray, name: str = "nodes") -> np.ndarray:
    """(m,) int64 numbers of frames on this graph, or a ValueError."""
    checked = np.asarray(nodes)
    if checked.ndim != 1 or (len(checked) and checked.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be frame numbers in one dimension, "
                         f"but came as {checked.dtype} of shape {checked.shape}")
    outside = checked[(checked < 0) | (checked >= graph.shape[0])]
    if len(outside):
        raise ValueError(f"{name} must be frame numbers from 0 to {graph.shape[0] - 1}, but {outside[0]} came")
    return checked.astype(np.int64)


if __name__ == "__main__":
    _run_as_child(*sys.argv[1:])
