"""What positions, headings and labels say about a map: which hops are possible, which revisits were found.

A *step* is the median true length of the recorded steps that moved, so slow and fast recordings are judged alike. A hop
is *possible* if it was recorded, if its frames are less than 20 apart in one sequence, or if their places are at most 7
steps apart. One false closure ruins every plan that runs through it: `plan_validity` sees it, success does not."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from plan2vec.data import near_in_time, slices, transitions
from plan2vec.graph.build import closure_entries, edge_rows, graph_of_edges
from plan2vec.graph.direction import each_pair_once
from plan2vec.planner import Distance, walk_many
from plan2vec.search.shortest_paths import shortest_plans

POSSIBLE, LOOSER = 7.0, (10, 14)  # steps between the ends of a possible hop; what is reported beside it
SOON = 20  # frames of one sequence that are nearer in time than this are no revisit
EDGES_LOOKED_AT = 2e7  # by the searches of a measure: in a large graph they have few sources, each with more ends
NUM_PLANS, ARRIVED = 1500, 3.0  # plans judged; steps to the goal of a walk that has arrived
NUM_REVISITS, REVISIT_STEPS, REVISIT_DEGREES, REVISIT_FOUND = 400, 2.0, 20.0, 8.0  # the last: steps on the graph
POOL, NUM_WALKS = 50_000, 4000  # pairs among which revisits are drawn; whose walking distance is compared
WALK_STEPS, WALK_NEIGHBORS = 2.0, 48  # places so near are joined, each to so many, for the walking distance
TRUE_STEPS, TRUE_DEGREES = 3.0, 30.0  # a candidate within both is true; one that is not possible is false
MIN_TRUE_STEP = 1e-9  # recorded steps shorter than this did not move
EDGES_AT_ONCE = 2**18  # closures whose true distances are looked at together


def straight_line(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.linalg.norm(first - second, axis=-1)


@dataclass(frozen=True)
class Truth:
    """What only evaluation may know of n frames."""

    position: np.ndarray  # (n, k)
    distance: Callable[[np.ndarray, np.ndarray], np.ndarray]  # true distance between positions (m, k), (m, k) -> (m,)
    straight: Callable[[np.ndarray, np.ndarray], np.ndarray] = straight_line  # walls ignored: of steps and of arriving
    heading: np.ndarray | None = None  # (n,) degrees
    label: np.ndarray | None = None  # (n,) positions of two labels have nothing to do with each other
    knows_ways: bool = True  # `distance` is that of a domain; else ways are made of recorded places

    def of(self, numbers: np.ndarray) -> "Truth":
        heading, label = (None if value is None else value[numbers] for value in (self.heading, self.label))
        return replace(self, position=self.position[numbers], heading=heading, label=label)

    def between(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(m,) true distance; infinite between two labels. A part at a time, so that memory stays bounded."""
        parts = [self.distance(self.position[first[part]], self.position[second[part]])
                 for part in slices(len(first), EDGES_AT_ONCE)]
        apart = np.concatenate(parts or [np.empty(0)])
        return apart if self.label is None else np.where(self.label[first] == self.label[second], apart, np.inf)

    def straight_between(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return replace(self, distance=self.straight).between(first, second)

    def turned(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(m,) degrees between headings, 0 where they are not known."""
        if self.heading is None:
            return np.zeros(len(first))
        return np.abs((self.heading[first] - self.heading[second] + 180) % 360 - 180)


def true_steps(sequence: np.ndarray, truth: Truth) -> np.ndarray:
    """True lengths of the recorded steps that moved."""
    start = transitions(sequence)
    steps = truth.straight_between(start, start + 1)
    moved = steps[(steps > MIN_TRUE_STEP) & np.isfinite(steps)]
    return moved if len(moved) else np.ones(1)


def counted_closures(graph: csr_array, sequence: np.ndarray, min_gap: int) -> np.ndarray:
    """(nnz,) bool: closures, each pair once, without those of one sequence less than `min_gap` frames apart."""
    row, column = edge_rows(graph), graph.indices
    return closure_entries(graph, sequence) & each_pair_once(graph) & ~near_in_time(sequence, row, column, min_gap)


def validity_numbers(graph: csr_array, sequence: np.ndarray, distance: Distance, truth: Truth,
                     rng: np.random.Generator) -> dict[str, object]:
    """Whether plans on the graph, and greedy walks by `distance`, can be carried out; and which revisits it knows."""
    step = float(np.median(true_steps(sequence, truth)))

    def reach(first: np.ndarray, second: np.ndarray) -> np.ndarray:  # of hops, in steps; 0: recorded
        return np.where(near_in_time(sequence, first, second, SOON), 0.0, truth.between(first, second) / step)

    starts, goals = draw_tasks(graph, truth, rng)
    _, hops, worst = shortest_plans(graph, starts, goals, reach)
    near = lambda nodes, ends: truth.straight_between(nodes, ends) <= ARRIVED * step  # noqa: E731
    allowed = np.where(np.isfinite(hops), 4 * np.nan_to_num(hops, posinf=0) + 10, 0).astype(np.int64)
    nodes, arrived = walk_many(graph, distance, starts, goals, allowed, 0.0, True, near, rng)
    (hop, walk), impossible = np.nonzero(nodes[1:] >= 0), np.zeros(len(starts), bool)
    impossible[walk[reach(nodes[hop, walk], nodes[hop + 1, walk]) > POSSIBLE]] = True
    return {"plan_validity": float(np.mean(worst <= POSSIBLE)),
            **{f"plan_validity_{limit}": float(np.mean(worst <= limit)) for limit in LOOSER},
            "unreachable": float(np.mean(np.isinf(hops))),
            "greedy_validity": float(np.mean(arrived & ~impossible)),
            "revisit_recall": revisit_recall(graph, sequence, truth, step, rng)}


def draw_tasks(graph: csr_array, truth: Truth, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(m,) starts and (m,) goals, both uniform; of one label. Exact paths to few goals are cheap in a large graph."""
    goals = np.resize(rng.integers(graph.shape[0], size=_num_searches(graph, NUM_PLANS)), NUM_PLANS)
    starts = rng.integers(graph.shape[0], size=NUM_PLANS)
    if truth.label is not None:
        for label in np.unique(truth.label[goals]):
            asked = truth.label[goals] == label
            starts[asked] = rng.choice(np.flatnonzero(truth.label == label), np.count_nonzero(asked))
    return starts, goals


def revisit_recall(graph: csr_array, sequence: np.ndarray, truth: Truth, step: float,
                   rng: np.random.Generator) -> float | None:
    """Of random pairs that show one place at two times, the share that the graph joins within 8 steps."""
    first, second = draw_revisits(sequence, truth, step, rng)
    found = np.zeros(len(first), bool)
    for part in slices(len(first), 50):  # memory: 50 rows of all frames
        lengths = dijkstra(graph, indices=first[part], limit=REVISIT_FOUND)
        found[part] = lengths[np.arange(len(lengths)), second[part]] <= REVISIT_FOUND
    return float(found.mean()) if len(found) else None


def draw_revisits(sequence: np.ndarray, truth: Truth, step: float,
                  rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Up to 400 pairs of frames of one place (and heading, where known) that are 20 frames or more apart."""
    tree, order = cKDTree(truth.position), rng.permutation(len(sequence))
    found = [np.zeros((2, 0), np.int64)]
    for some in np.split(order, np.arange(100, len(order), 100)):  # frames by chance, until there are pairs enough
        around = tree.query_ball_point(truth.position[some], REVISIT_STEPS * step)
        first = np.repeat(some, [len(near) for near in around])
        second = np.concatenate([np.asarray(near, np.int64) for near in around])
        kept = ~near_in_time(sequence, first, second, SOON) & (truth.turned(first, second) <= REVISIT_DEGREES)
        pairs = np.stack((first, second))[:, kept]
        found.append(pairs[:, truth.between(*pairs) <= REVISIT_STEPS * step])  # not through a wall
        if sum(part.shape[1] for part in found) >= POOL:
            break
    pairs = np.concatenate(found, axis=1)
    first, second = pairs[:, rng.permutation(pairs.shape[1])[:NUM_REVISITS]]
    return first, second


def walking_pairs(sequence: np.ndarray, truth: Truth,
                  rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random pairs (m,), (m,) between which one can walk, and (m,) the walking distance in steps."""
    graph, place = walking_graph(sequence, truth)
    sources = rng.integers(len(sequence), size=_num_searches(graph, 100))
    ends = rng.integers(len(sequence), size=(len(sources), NUM_WALKS // len(sources)))
    walking = np.take_along_axis(dijkstra(graph, directed=False, indices=place[sources]), place[ends], axis=1).ravel()
    known = np.isfinite(walking)
    return np.repeat(sources, ends.shape[1])[known], ends.ravel()[known], walking[known]


def walking_graph(sequence: np.ndarray, truth: Truth) -> tuple[csr_array, np.ndarray]:
    """Places joined by recorded steps and, whatever the heading, within 2 steps; and (n,) the place of each frame."""
    step, begin = float(np.median(true_steps(sequence, truth))), transitions(sequence)
    label = np.zeros(len(sequence)) if truth.label is None else truth.label
    points = np.column_stack((10 * WALK_STEPS * label, truth.position / step))  # labels lie far apart
    points, place = np.unique(points, axis=0, return_inverse=True)
    place = place.reshape(-1)  # numpy 2.0 gives a column
    num_near = min(len(points), WALK_NEIGHBORS)
    found = cKDTree(points).query(points, num_near, distance_upper_bound=WALK_STEPS)
    length, near = (numbers.reshape(-1) for numbers in found)
    joined = np.isfinite(length)
    row = np.concatenate((np.repeat(np.arange(len(points)), num_near)[joined], place[begin]))
    column = np.concatenate((near[joined], place[begin + 1]))
    steps = np.concatenate((length[joined], truth.straight_between(begin, begin + 1) / step))
    return graph_of_edges(row, column, steps, len(points)), place


def ranking_numbers(first: np.ndarray, second: np.ndarray, confidence: np.ndarray, sequence: np.ndarray,
                    truth: Truth) -> dict[str, object]:
    """How well a confidence (m,) tells true from false candidates (m,), (m,) for closures, believed or not."""
    away = truth.between(first, second) / float(np.median(true_steps(sequence, truth)))
    is_true = (away <= TRUE_STEPS) & (truth.turned(first, second) <= TRUE_DEGREES)
    judged = (is_true | (away > POSSIBLE)) & ~near_in_time(sequence, first, second, SOON)
    return precision_numbers(is_true[judged], confidence[judged])


def precision_numbers(is_true: np.ndarray, confidence: np.ndarray) -> dict[str, object]:
    """Average precision, and the largest recall at which all, or 99 %, of what is more confident is true."""
    names = ("auprc", "recall_at_99_precision", "recall_at_100_precision")
    if not is_true.any():
        return dict.fromkeys(names)
    order = np.argsort(-confidence, kind="stable")
    last = np.flatnonzero(np.diff(confidence[order], append=np.inf))  # equals are believed together
    num_true = np.cumsum(is_true[order])[last]
    precision, recall = num_true / (last + 1), num_true / num_true[-1]
    at = [float(recall[precision >= least].max(initial=0)) for least in (0.99, 1.0)]
    return dict(zip(names, (float(np.sum(np.diff(recall, prepend=0) * precision)), *at), strict=True))


def closure_numbers(graph: csr_array, sequence: np.ndarray, truth: Truth, false_beyond: float | None,
                   min_gap: int) -> dict[str, object]:
    """Closures, and the share whose ends are truly farther apart than `false_beyond` (in units of position)."""
    counted, steps = counted_closures(graph, sequence, min_gap), true_steps(sequence, truth)
    if false_beyond is None:  # a simulator's steps hardly differ, and its rooms are small: it has a stricter rule
        false_beyond = 3 * float(steps.max()) if truth.knows_ways else POSSIBLE * float(np.median(steps))
    first, second = edge_rows(graph)[counted], graph.indices[counted]
    share = np.count_nonzero(truth.between(first, second) > false_beyond) / max(1, len(first))
    return {"false_edge_share": share, "loop_closures": len(first), "false_beyond": false_beyond}


def label_numbers(graph: csr_array, sequence: np.ndarray, label: np.ndarray, min_gap: int) -> dict[str, object]:
    """Closures that join two labels, which are all false, and those that stay inside one."""
    counted = counted_closures(graph, sequence, min_gap)
    crosses = label[edge_rows(graph)[counted]] != label[graph.indices[counted]]
    return {"cross_label_share": float(crosses.mean()) if len(crosses) else 0.0,
            "closures_within_label": int(np.count_nonzero(~crosses))}


def _num_searches(graph: csr_array, most: int) -> int:
    return int(np.clip(EDGES_LOOKED_AT / max(1, graph.nnz), 20, most))
