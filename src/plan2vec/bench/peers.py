"""Claim: on the same data and by the same rule, plan2vec is more than ten times faster than Isomap to the same success;
the paper's way of training has not reached its error after a hundred times its seconds.

Expected: at 10,000 frames Isomap's times_ours 10 or more, that of one pair a sample with the paper's network 100

C-Maze. The local metric is trained once and shared; its time is its own row. Then every method is timed: plan2vec joins
the frames, searches, trains and encodes; Isomap and UMAP get the local metric's vectors, as many dimensions as the map,
and Isomap the radius of our graph; the VAE sees the frames. All walk the same graph by the domain's rule.
`new_frames_ms`: 1,000 frames from outside to vectors. One pair a sample: the paper's way, 32 pairs an update, with
shortest distances given for free, until our error or 110 times our seconds; where it was not reached, times_ours is a
lower bound. Searches give plans for the same tasks: scipy's Dijkstra, networkx's both ways, ours along the map.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.baselines import l2_distance
from plan2vec.baselines.vae import VAEConfig, train_vae
from plan2vec.bench.measuring import Benchmark, Options, forget_peak, number_table, peak_memory, stopwatch
from plan2vec.bench.training_speed import PAIRS_PER_UPDATE, c_maze, fixed_view, train_pairs
from plan2vec.config import Config
from plan2vec.data import Sequences
from plan2vec.embedding.network import map_vectors
from plan2vec.evaluation import Episodes, default_rule, map_numbers, truth_numbers, truth_of
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.local_metric import local_vectors
from plan2vec.model import Learned
from plan2vec.pipeline import learn
from plan2vec.planner import Distance, make_plan
from plan2vec.results.comparisons import bars, panels
from plan2vec.results.rows import Groups, Row, select
from plan2vec.search.shortest_paths import path_length

NUM_NEW = 1000  # frames from outside
# packages that compile themselves when they are first called, with a few frames: not timed, and left out of smoke runs
COMPILED, MOST_FIRST = ("umap",), 500
NUM_NEIGHBORS = 50  # of UMAP: about the degree of our graph
PAPERS_NETWORK = "maze-global"
TIMES_OURS = 110  # the embedding stage's seconds, that one pair a sample may take
COLUMNS = ("fit_seconds", "times_ours", "memory_gb", "new_frames_ms", "success", "embedding_error", "reached",
           "ms_per_update")
SEARCH_COLUMNS = ("ms_per_plan", "length_ratio", "found")
SEARCHES = ("scipy, Dijkstra", "networkx, Dijkstra both ways", "plan2vec, greedy", "plan2vec, A*")
NUM_TASKS = 20
Embed = Callable[[FrameTensors], np.ndarray]  # frames -> vectors whose l2 distance is D
Planner = Callable[[int, int], list[int] | None]  # start, goal -> nodes
Fitted = tuple[Embed, np.ndarray, str]  # also the vectors of the shared frames, and the method's settings in words


@dataclass(frozen=True)
class Scene:
    """What all methods share, and what they are compared with: ours."""

    options: Options
    config: Config
    sequences: Sequences
    new_frames: np.ndarray  # of the same room, never trained on
    learned: Learned
    seconds: dict[str, float]  # of our stages

    @property
    def our_seconds(self) -> float:
        """From the local metric, which all share, to vectors."""
        return self.seconds["graph"] + self.seconds["embedding"] + self.seconds["vectors"]

    def images(self) -> FrameTensors:
        return FrameTensors(self.sequences.frames, self.options.device)

    def local(self, images: FrameTensors) -> np.ndarray:
        return local_vectors(self.learned.metric.metric, images)

    def rows(self, method: str, numbers: dict[str, Any], seconds: float, **setting: Any) -> list[Row]:
        return self.options.rows("c-maze", method, numbers, seconds, frames=self.sequences.num_frames, **setting)


def run(options: Options) -> Groups:
    scene = learn_ours(options)
    metric_seconds, graph = scene.seconds["local_metric"], scene.learned.graph.graph
    yield scene.rows("local metric (shared)", {"fit_seconds": metric_seconds}, metric_seconds)
    vectors, embed = scene.learned.vectors, partial(map_vectors, scene.learned.embedding)
    numbers, distance = scored(scene, embed, vectors), l2_distance(torch.from_numpy(vectors))
    rng = rng_at(options.seed, Stream.PEER_WALKS)
    error: Any = map_numbers(graph, distance, rng, scene.sequences.num_frames)["embedding_error"]
    numbers = {"fit_seconds": scene.our_seconds} | numbers | {"embedding_error": error}
    yield scene.rows("plan2vec", numbers, scene.our_seconds, settings="defaults")
    for method, (package, fit) in PEERS.items():
        if not (options.smoke and package in COMPILED):
            yield peer_rows(scene, method, package, fit)
    for method, numbers in time_searches(graph, distance, options).items():
        yield scene.rows(method, numbers, numbers["ms_per_plan"] or 0.0)
    yield pair_rows(scene, error, options.choose(PAPERS_NETWORK, scene.config.encoder))


def learn_ours(options: Options) -> Scene:
    """The stages of a fit, each timed; memory counts from the graph on."""
    sequences, new = c_maze(options), c_maze(replace(options, seed=options.seed + 1000, sizes=(NUM_NEW,)))
    config, seconds = fixed_view(options, sequences), dict[str, float]()

    def make(name: str, stage: Callable, *arguments: Any) -> Any:
        if name == "graph":
            forget_peak()
        with stopwatch(options.device) as watch:
            product = stage(*arguments)
        seconds[name] = watch.seconds
        return product

    learned = learn(sequences.without_truth(), config, FrameTensors(sequences.frames, options.device), make)
    return Scene(options, config, sequences, new.frames, learned, seconds)


def scored(scene: Scene, embed: Embed, vectors: np.ndarray) -> dict[str, Any]:
    """Peak memory so far, the time of new frames, and the success of walks on the shared graph."""
    memory = peak_memory()
    with stopwatch(scene.options.device) as watch:
        embed(FrameTensors(scene.new_frames, scene.options.device))
    sequences, truth = scene.sequences, truth_of(scene.sequences)
    assert truth is not None
    rule = replace(default_rule(sequences), episodes=scene.options.choose(2000, 50))
    nothing = Episodes(*(np.empty(0) for _ in range(4)))  # the rule draws starts and goals itself
    distance = l2_distance(torch.from_numpy(np.ascontiguousarray(vectors, np.float32)))
    rng = rng_at(scene.options.seed, Stream.PEER_WALKS)
    numbers = truth_numbers(scene.learned.graph.graph, sequences.sequence, distance, truth, nothing, rule, rng)
    return {"memory_gb": memory, "new_frames_ms": 1e3 * watch.seconds, "success": numbers["success"]}


def peer_rows(scene: Scene, method: str, package: str, fit: Callable[[Scene], Fitted]) -> list[Row]:
    """One peer, timed and scored; where its package is missing a row says so."""
    if importlib.util.find_spec(package) is None:
        return scene.rows(method, {"fit_seconds": None}, 0.0, settings=f"not run: {package} is not installed")
    if package in COMPILED:  # compiles what is compiled
        frames, sequence = scene.sequences.frames[:MOST_FIRST], scene.sequences.sequence[:MOST_FIRST]
        embed, _, _ = fit(replace(scene, sequences=Sequences(frames, sequence)))
        embed(FrameTensors(scene.new_frames[:10], scene.options.device))
    forget_peak()
    with stopwatch(scene.options.device) as watch:
        embed, vectors, settings = fit(scene)
    numbers = {"fit_seconds": watch.seconds, "times_ours": watch.seconds / scene.our_seconds}
    return scene.rows(method, numbers | scored(scene, embed, vectors), watch.seconds, settings=settings)


def fit_isomap(scene: Scene) -> Fitted:
    from sklearn.manifold import Isomap

    radius, dim = scene.learned.graph.radius, scene.config.dim
    isomap = Isomap(n_neighbors=None, radius=radius, n_components=dim)
    vectors = isomap.fit_transform(scene.local(scene.images()))
    return lambda images: isomap.transform(scene.local(images)), vectors, f"radius {radius:.2f}, {dim} dimensions"


def fit_umap(scene: Scene) -> Fitted:
    from umap import UMAP

    words = f"{NUM_NEIGHBORS} neighbours, {scene.config.dim} dimensions"
    umap = UMAP(n_neighbors=NUM_NEIGHBORS, n_components=scene.config.dim, random_state=scene.options.seed)
    vectors = umap.fit_transform(scene.local(scene.images()))
    return lambda images: umap.transform(scene.local(images)), vectors, words


def fit_vae(scene: Scene) -> Fitted:
    options, dim, stage = scene.options, scene.config.dim, scene.options.choose(VAEConfig(), VAEConfig(3, 8))
    scorer = train_vae(scene.sequences.frames, scene.config.encoder, dim, stage, options.seed, options.device)
    embed = partial(encode, scorer.encoder)
    return embed, embed(scene.images()), f"{stage.num_updates} updates of {stage.batch_size} frames, {dim} dimensions"


PEERS = {"Isomap": ("sklearn", fit_isomap), "UMAP": ("umap", fit_umap), "VAE": ("torch", fit_vae)}


def pair_rows(scene: Scene, error: float, network: str) -> list[Row]:
    ours = scene.seconds["embedding"]
    limit, config = round(scene.options.choose(TIMES_OURS * ours, 0.5), 1), replace(scene.config, encoder=network)
    made = train_pairs(scene.options, scene.sequences.frames, scene.learned.graph.graph, config, error, limit)
    numbers = {"fit_seconds": made.seconds, "times_ours": made.seconds / ours, "embedding_error": made.error,
               "reached": float(made.reached), "ms_per_update": made.ms_per_update}
    words = (f"{PAIRS_PER_UPDATE} pairs an update, {made.num_updates} updates, limit_seconds {limit:g}, "
             "against the embedding stage")
    return scene.rows(f"one pair a sample, {network}", numbers, made.seconds, settings=words)


def time_searches(graph: csr_array, distance: Distance, options: Options) -> dict[str, dict[str, Any]]:
    """Of every method: milliseconds per plan, mean length over the shortest, share of tasks that it solves."""
    rng = rng_at(options.seed, Stream.PEER_TASKS)
    tasks = rng.integers(graph.shape[0], size=(options.choose(NUM_TASKS, 3), 2)).tolist()
    shortest = {(start, goal): dijkstra(graph, indices=start)[goal] for start, goal in tasks}
    shortest = {task: length for task, length in shortest.items() if 0 < length < np.inf}
    answers = {}
    for method, plan in planners(graph, distance).items():
        with stopwatch(options.device) as watch:
            found = [plan(start, goal) for start, goal in shortest]
        ratios = [path_length(graph, nodes) / length for nodes, length in zip(found, shortest.values(), strict=True)
                  if nodes is not None]
        num_tasks, mean = max(1, len(shortest)), float(np.mean(ratios)) if ratios else None
        answers[method] = {"ms_per_plan": 1e3 * watch.seconds / num_tasks, "length_ratio": mean,
                           "found": len(ratios) / num_tasks}
    return answers


def planners(graph: csr_array, distance: Distance) -> dict[str, Planner]:
    """networkx only where it is installed."""
    known: dict[str, Planner] = {
        SEARCHES[0]: lambda start, goal: scipy_path(graph, start, goal),
        SEARCHES[2]: lambda start, goal: make_plan(graph, distance, start, goal, "greedy").nodes,
        SEARCHES[3]: lambda start, goal: make_plan(graph, distance, start, goal, "astar").nodes,
    }
    if importlib.util.find_spec("networkx") is not None:
        import networkx

        copied = networkx.from_scipy_sparse_array(graph, create_using=networkx.DiGraph)
        known[SEARCHES[1]] = lambda start, goal: networkx.bidirectional_dijkstra(copied, start, goal)[1]
    return known


def scipy_path(graph: csr_array, start: int, goal: int) -> list[int]:
    """The nodes of the shortest path, from scipy's tree of all of them."""
    before = dijkstra(graph, indices=start, return_predecessors=True)[1]
    nodes = [goal]
    while before[nodes[-1]] >= 0:
        nodes.append(int(before[nodes[-1]]))
    return nodes[::-1]


def table(rows: list[Row]) -> list[str]:
    methods, searches = ([row for row in rows if (row["method"] in SEARCHES) == kind] for kind in (False, True))
    return number_table(methods, COLUMNS, ("frames", "settings")) + number_table(searches, SEARCH_COLUMNS, ("frames",))


def draw(rows: list[Row]) -> Figure:
    """Seconds of a fit, the fastest on top, beside the success or that it was never as good."""
    said = {row["method"]: f"{100 * row['value']:.0f} % success" for row in rows if row["metric"] == "success"}
    said |= {row["method"]: "as good" if row["value"] else "stopped before it was as good" for row in rows
             if row["metric"] == "reached"}
    timed = sorted((row for row in select(rows, metric="fit_seconds") if row["value"]), key=lambda row: row["value"])
    names = [f"{row['method']}: {said.get(row['method'], 'the same for all')}" for row in timed]
    figure, (ax,) = panels(1, 8, 1.2 + 0.3 * len(timed))
    bars(ax, names, [np.array([row["value"]]) for row in timed])
    ax.set(xscale="log", xlim=(1, 300), xlabel=f"seconds of a fit ({timed[0]['device']})")
    ax.xaxis.set_major_formatter("{x:g}")
    return figure


BENCHMARK = Benchmark("peers", "Against peers: same data, same rule, one run", __doc__, run, table, draw)
