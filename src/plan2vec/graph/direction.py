"""Whether recorded steps can be undone, as the recordings show it, and the graph that follows time where they cannot.

Frames *look alike* within `ALIKE` steps. A recorded step a -> b is *undone* if another one leads from a look-alike of b
to a look-alike of a, and *repeated* if another one leads from a look-alike of a to a look-alike of b. The *flow* is how
alike look-alikes move on: the mean cosine between their next steps. A pendulum that swings to the left goes on to the
left, so its flow is near 1; a walker may turn round anywhere, so that of walks is near 0. Where there is a flow, and
steps are undone less than half as often as repeated, they have a direction.

In a directed graph i leads to j if a recorded step does, up to one look-alike: j looks like the frame after i, or j
comes right after a frame that looks like i. Such a hop is as long as that step. Equal places are joined both ways."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, eye_array

from plan2vec.config import DIRECTED_HEADS, Config
from plan2vec.data import Sequences
from plan2vec.graph.build import BuiltGraph, build_graph, edge_rows, graph_of_edges, transition_weights
from plan2vec.graph.neighbors import NearPairs
from plan2vec.learning.gradient_loop import Journal
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.recorded_pairs import recorded_pairs

# Steps within which frames look alike. Pendulum, 3,000 random steps: at 0.3 1.5 % of a plan's hops are impossible
# and 95 % of the pairs have a plan, at 0.35 2.5 and 100 %, at 0.4 6 and 100 %, at 0.5 9 and 100 %.
ALIKE = 1 / 3
EQUAL = 0.1  # steps within which frames show the same place
# Undone over repeated, and flow, over seeds: acrobot 0 to 0.02 and 0.65 to 0.71, pendulum 0.02 and 0.86, mountain car
# 0.16 to 0.19 and 0.37 to 0.49, cart-pole 0.40 to 0.47 and 0.14 to 0.16; rooms, halls, rope and random walks 0.5 to 3
# and at most 0.05; who is guided flows too, but comes back: OGBench's point mazes 0.9 to 1.1 and 0.2 to 0.5, a robot
# that does one task again and again (g1_bottle) 0.83 and 0.16.
ONE_WAY_BELOW, LEAST_FLOW = 1 / 2, 0.1
FLOW_REACH, FLOW_APART = 1.0, 20  # steps between look-alikes whose next steps are compared; frames between them
NUM_JUDGED = 20_000  # steps that are looked at, and twice as many look-alikes


@dataclass(frozen=True)
class Steps:
    """Recorded steps that moved, from the first frame of a pause on; a frame has one step out and one in at most."""

    start: np.ndarray  # (m,)
    end: np.ndarray  # (m,)
    length: np.ndarray  # (m,) float32, steps
    n: int  # frames

    def pattern(self, length: np.ndarray) -> csr_array:
        """[n, n] from start to end."""
        return csr_array((length, (self.start, self.end)), shape=(self.n, self.n))


@dataclass(frozen=True)
class Evidence:
    undone: float  # share of the recorded steps that moved
    repeated: float  # likewise
    flow: float = 0.0  # mean cosine between the next steps of look-alikes, less two standard errors; 0 if not measured

    @property
    def is_one_way(self) -> bool:
        return self.flow >= LEAST_FLOW and self.undone < ONE_WAY_BELOW * self.repeated


def steps_that_moved(recorded: Sequences, moved: np.ndarray, usable: np.ndarray) -> Steps:
    """`moved` (m,): frames whose next one differs."""
    length, start = transition_weights(moved, recorded.step_length), recorded.still_since[moved]
    known = usable[start]
    return Steps(start[known], moved[known] + 1, length[known], len(usable))


def look_alikes(pairs: NearPairs, n: int, reach: float = ALIKE) -> csr_array:
    """[n, n] int32, 1 where two frames look alike; a frame looks like itself."""
    near = pairs.select(pairs.distance <= reach)
    ends = np.append(near.first, near.second), np.append(near.second, near.first)
    joined = csr_array((np.ones(len(ends[0]), np.int32), ends), shape=(n, n))
    return csr_array(joined + eye_array(n, format="csr", dtype=np.int32))


def measure_direction(pairs: NearPairs, steps: Steps, rng: np.random.Generator) -> Evidence:
    """How many of the steps are undone, and repeated, by others."""
    start, end = steps.start, steps.end
    if len(start) > NUM_JUDGED:
        judged = np.sort(rng.choice(len(start), NUM_JUDGED, replace=False))
        start, end = start[judged], end[judged]
    alike, recorded = look_alikes(pairs, steps.n), steps.pattern(np.ones(len(steps.start), np.int32))

    def num_between(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(m,) steps from a look-alike of `first` (m,) to one of `second` (m,)."""
        return np.asarray((alike[first] @ recorded).multiply(alike[second]).sum(axis=1)).ravel()

    is_short = np.asarray(alike[end, start]).ravel()  # so short that it would undo itself
    undone, repeated = num_between(end, start) - is_short, num_between(start, end) - 1
    return Evidence(float(np.mean(undone > 0)), float(np.mean(repeated > 0)))


def measure_flow(vectors: np.ndarray, pairs: NearPairs, steps: Steps, rng: np.random.Generator) -> float:
    """How alike look-alikes move on, at least: the mean cosine less two standard errors, or 0. `vectors` (n, d): the
    local metric's. Frames that follow each other closely are left out: they look alike and move on as one."""
    onward = np.full(steps.n, -1)
    onward[steps.start] = steps.end
    moves_on = (onward[pairs.first] >= 0) & (onward[pairs.second] >= 0) & (pairs.distance <= FLOW_REACH)
    known = np.flatnonzero(moves_on & (np.abs(pairs.first - pairs.second) >= FLOW_APART))
    if len(known) > 2 * NUM_JUDGED:
        known = np.sort(rng.choice(known, 2 * NUM_JUDGED, replace=False))
    first, second = (vectors[onward[end[known]]] - vectors[end[known]] for end in (pairs.first, pairs.second))
    size = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosine = np.einsum("md,md->m", first, second)[size > 0] / size[size > 0]
    num_frames = len(np.unique(pairs.first[known]))  # pairs of one frame are no evidence of their own
    return float(np.clip(cosine.mean() - 2 * cosine.std() / np.sqrt(num_frames), 0, 1)) if len(cosine) else 0.0


def choose_direction(evidence: Evidence, config: Config) -> tuple[bool, str]:
    """Whether the graph is directed, and what the user should know; given settings go first."""
    if config.directed is not None or not evidence.is_one_way:
        return bool(config.directed), ""
    words = f"Only {100 * evidence.undone:.0f} % of the recorded steps are ever undone"
    if config.head is not None and config.head not in DIRECTED_HEADS:
        return False, (f"warning: {words}, but --head {config.head} cannot tell there from back: plans may run time "
                       "backwards. Remedy: leave --head out")
    return True, f"{words}, so the graph is directed: plans follow time."


def find_direction(recorded: Sequences, vectors: np.ndarray, candidates: NearPairs, usable: np.ndarray, config: Config,
                   journal: Journal) -> BuiltGraph:
    """The directed graph, where settings or recordings ask for one; else a graph without edges. `vectors` (n, d): the
    local metric's. A radius that was given says how near look-alikes are."""
    steps = steps_that_moved(recorded, recorded_pairs(recorded, usable, 1).first[0], usable)
    flow = measure_flow(vectors, candidates, steps, rng_at(config.seed, Stream.FLOW))
    evidence = replace(measure_direction(candidates, steps, rng_at(config.seed, Stream.DIRECTION)), flow=flow)
    directed, words = choose_direction(evidence, config)
    if words:
        journal.say(words)
    none = csr_array((steps.n, steps.n), dtype=np.float32)
    built = BuiltGraph(none, directed=directed, reversibility=evidence.undone, repeated=evidence.repeated, flow=flow)
    if not directed:
        return built
    unjoined, reach = candidates.select(np.zeros(len(candidates), bool)), config.radius or ALIKE
    forward = build_graph(recorded.sequence, unjoined, recorded.step_length, True, usable, recorded.still_since)
    graph = follow_time(forward, candidates, steps, reach)
    report = f"directed: {graph.nnz - forward.nnz:,} closures by recorded steps of look-alikes ({reach:.2f} steps)"
    return replace(built, graph=graph, radius=reach, report=report)


def follow_time(graph: csr_array, pairs: NearPairs, steps: Steps, reach: float = ALIKE) -> csr_array:
    """The graph of recorded steps, which lead forward only, with closures in the direction of the steps behind them."""
    alike, recorded = look_alikes(pairs, steps.n, reach).astype(np.float32), steps.pattern(steps.length)
    equal = pairs.select(pairs.distance <= min(EQUAL, reach))
    onward, likewise = recorded @ alike, alike @ recorded
    row = np.concatenate((edge_rows(graph), equal.first, equal.second, edge_rows(onward), edge_rows(likewise)))
    column = np.concatenate((graph.indices, equal.second, equal.first, onward.indices, likewise.indices))
    length = np.concatenate((graph.data, equal.distance, equal.distance, onward.data, likewise.data))
    apart = row != column
    return graph_of_edges(row[apart], column[apart], length[apart], steps.n)


def given_graph(graph: csr_array, config: Config) -> BuiltGraph:
    """A graph of the user's own; directed where the way back is not as long as the way there."""
    may_differ = config.directed is not False and (config.head is None or config.head in DIRECTED_HEADS)
    return BuiltGraph(graph, directed=may_differ and (config.directed or (graph != graph.T).nnz > 0))


def each_pair_once(graph: csr_array) -> np.ndarray:
    """(nnz,) bool: of two entries that join the same frames there and back, the one from the smaller number."""
    row, column, n = edge_rows(graph), graph.indices.astype(np.int64), graph.shape[0]
    once = row < column
    there, back = row[once] * n + column[once], column[~once] * n + row[~once]
    once[~once] = ~np.isin(back, there, assume_unique=True)
    return once
