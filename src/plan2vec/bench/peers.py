"""Claim: on the same data and by the same rule, plan2vec is ten times faster than Isomap to the same success, and a
hundred times faster than the paper's way of training to the same error.

Command: plan2vec bench peers        Cost: on an H200 Isomap takes 190 s, one pair a sample 112 s
Expected: at 10,000 frames Isomap's times_ours 10 or more, that of one pair a sample with the paper's network 100 or
more

C-Maze. The local metric is trained once and shared; its time is its own row. From there on every method is timed:
plan2vec joins the frames, searches, trains and encodes; Isomap and UMAP get the local metric's vectors (they are lost
on pixels), as many dimensions as the map, and Isomap the radius of our graph; the VAE sees the frames. All walk the
same graph by the domain's rule. `new_frames_ms`: 1,000 frames from outside to vectors. One pair a sample: the paper's
way, 32 pairs an update, both frames of each encoded for it, with shortest distances given for free, until our error or
110 times our seconds; where it was not reached, times_ours is a lower bound. Searches give plans for the same tasks:
scipy's Dijkstra from the start, networkx's both ways, ours along the map.
"""

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.sparse import csr_array

from plan2vec.baselines import l2_distance
from plan2vec.baselines.vae import VAEConfig, train_vae
from plan2vec.bench.fit import BRIEF
from plan2vec.bench.measuring import Options, bar_figure, forget_peak, number_table, peak_memory, stopwatch
from plan2vec.bench.pair_training import PAIRS_PER_UPDATE, train_pairs
from plan2vec.bench.peer_searches import METHODS as SEARCHES
from plan2vec.bench.peer_searches import time_searches
from plan2vec.bench.training_step import recordings
from plan2vec.config import Config
from plan2vec.data import Sequences
from plan2vec.evaluation import Episodes, default_rule, map_numbers, truth_numbers, truth_of
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.learning.random_streams import rng_at
from plan2vec.learning.training import Journal
from plan2vec.local_metric import LocalMetric, local_vectors, train_local_metric
from plan2vec.pipeline import join_frames, train_map
from plan2vec.results.rows import Row

NAME, TITLE = "peers", "Against peers: same data, same rule, one run"
NUM_NEW = 1000  # frames from outside
# packages that compile themselves when they are first called: not timed, and left out of smoke runs
COMPILED = ("umap",)
NUM_NEIGHBORS = 50  # of UMAP: about the degree of our graph
PAPERS_NETWORK = "maze-global"
TIMES_OURS = 110  # the embedding stage's seconds, that one pair a sample may take
WALKS = 92  # stream of random numbers
COLUMNS = (
    "fit_seconds", "times_ours", "memory_gb", "new_frames_ms", "success", "embedding_error", "reached", "ms_per_update"
)
SEARCH_COLUMNS = ("ms_per_plan", "length_ratio", "found")
Embed = Callable[[np.ndarray], np.ndarray]  # frames -> vectors whose l2 distance is D


@dataclass(frozen=True)
class Scene:
    """What all methods share."""

    options: Options
    config: Config
    sequences: Sequences
    new_frames: np.ndarray  # of the same room, never trained on
    metric: LocalMetric

    @property
    def frames(self) -> np.ndarray:
        return self.sequences.frames

    def local(self, frames: np.ndarray) -> np.ndarray:
        """(n, 32) vectors of the local metric."""
        return local_vectors(self.metric, FrameTensors(frames, self.options.device))

    def rows(self, method: str, numbers: dict[str, Any], seconds: float, **setting: Any) -> list[Row]:
        return self.options.rows(NAME, "c-maze", method, numbers, seconds, frames=self.sequences.num_frames, **setting)


@dataclass(frozen=True)
class Ours:
    """What the others are compared with."""

    graph: csr_array
    radius: float
    seconds: float  # from the local metric to vectors
    training_seconds: float  # of the embedding alone, its searches included
    vectors: np.ndarray
    error: float


def run(options: Options) -> Iterator[list[Row]]:
    config = BRIEF if options.smoke else Config(seed=options.seed)
    sequences, new = recordings(options), recordings(replace(options, seed=options.seed + 1000, sizes=(NUM_NEW,)))
    with stopwatch(options.device) as watch:
        metric, _ = train_local_metric(
            sequences.frames, sequences.sequence, config.encoder, 1, config.local_metric, options.seed, options.device
        )
    scene = Scene(options, config, sequences, new.frames, metric)
    yield scene.rows("local metric (shared)", {"fit_seconds": watch.seconds}, watch.seconds)
    ours, rows = fit_ours(scene)
    yield rows
    for method, (package, fit) in PEERS.items():
        if not (options.smoke and package in COMPILED):
            yield peer_rows(scene, ours, method, package, fit)
    distance = l2_distance(torch.from_numpy(ours.vectors))
    for method, numbers in time_searches(ours.graph, distance, options).items():
        yield scene.rows(method, numbers, numbers["ms_per_plan"] or 0.0)
    yield pair_rows(scene, ours, options.choose(PAPERS_NETWORK, config.encoder))


def fit_ours(scene: Scene) -> tuple[Ours, list[Row]]:
    options, config, sequences = scene.options, scene.config, scene.sequences
    forget_peak()
    with stopwatch(options.device) as joining:
        built = join_frames(
            sequences.without_truth(), scene.metric, config, options.device, np.ones(sequences.num_frames, bool)
        )
    with stopwatch(options.device) as training:
        embedding = train_map(scene.frames, built.graph, config, options.device, Journal())
    embed = lambda frames: float(embedding.scale) * encode(embedding.encoder, FrameTensors(frames, options.device))
    with stopwatch(options.device) as encoding:
        vectors = embed(scene.frames)
    distance = l2_distance(torch.from_numpy(vectors))
    error = map_numbers(built.graph, distance, rng_at(options.seed, WALKS), sequences.num_frames)["embedding_error"]
    seconds = joining.seconds + training.seconds + encoding.seconds
    ours = Ours(built.graph, built.radius, seconds, training.seconds, vectors, float(error))  # type: ignore[arg-type]
    numbers = judged(scene, ours, embed, vectors) | {"embedding_error": error}
    return ours, scene.rows("plan2vec", {"fit_seconds": seconds} | numbers, seconds, settings="defaults")


def judged(scene: Scene, ours: Ours, embed: Embed, vectors: np.ndarray) -> dict[str, Any]:
    """Peak memory so far, the time of new frames, and the success of walks on the shared graph."""
    memory = peak_memory()
    with stopwatch(scene.options.device) as watch:
        embed(scene.new_frames)
    truth = truth_of(scene.sequences)
    assert truth is not None
    rule = replace(default_rule(scene.sequences), episodes=scene.options.choose(2000, 50))
    nothing = Episodes(*(np.empty(0) for _ in range(4)))  # the rule draws starts and goals itself
    distance = l2_distance(torch.from_numpy(np.ascontiguousarray(vectors, np.float32)))
    numbers = truth_numbers(
        ours.graph, scene.sequences.sequence, distance, truth, nothing, rule, rng_at(scene.options.seed, WALKS)
    )
    return {"memory_gb": memory, "new_frames_ms": 1e3 * watch.seconds, "success": numbers["success"]}


def peer_rows(
    scene: Scene, ours: Ours, method: str, package: str, fit: Callable[[Scene, Ours], tuple[Embed, np.ndarray, str]]
) -> list[Row]:
    """One peer, timed and judged; where its package is missing a row says so."""
    if importlib.util.find_spec(package) is None:
        return scene.rows(method, {"fit_seconds": None}, 0.0, settings=f"not run: {package} is not installed")
    if package in COMPILED:  # compiles what is compiled
        fit(replace(scene, sequences=first_frames(scene.sequences)), ours)[0](scene.new_frames[:10])
    forget_peak()
    with stopwatch(scene.options.device) as watch:
        embed, vectors, settings = fit(scene, ours)
    numbers = {
        "fit_seconds": watch.seconds, "times_ours": watch.seconds / ours.seconds
    } | judged(scene, ours, embed, vectors)
    return scene.rows(method, numbers, watch.seconds, settings=settings)


def first_frames(sequences: Sequences) -> Sequences:
    few = slice(0, 10 * NUM_NEIGHBORS)
    return replace(
        sequences, frames=sequences.frames[few], sequence=sequences.sequence[few], position=None, action=None
    )


def fit_isomap(scene: Scene, ours: Ours) -> tuple[Embed, np.ndarray, str]:
    from sklearn.manifold import Isomap

    isomap = Isomap(n_neighbors=None, radius=ours.radius, n_components=scene.config.dim)
    vectors = isomap.fit_transform(scene.local(scene.frames))
    return lambda frames: isomap.transform(
        scene.local(frames)
    ), vectors, f"radius {ours.radius:.2f}, {scene.config.dim} dimensions"


def fit_umap(scene: Scene, ours: Ours) -> tuple[Embed, np.ndarray, str]:
    from umap import UMAP

    umap = UMAP(n_neighbors=NUM_NEIGHBORS, n_components=scene.config.dim, random_state=scene.options.seed)
    vectors = umap.fit_transform(scene.local(scene.frames))
    return lambda frames: umap.transform(
        scene.local(frames)
    ), vectors, f"{NUM_NEIGHBORS} neighbours, {scene.config.dim} dimensions"


def fit_vae(scene: Scene, ours: Ours) -> tuple[Embed, np.ndarray, str]:
    options, config = scene.options, VAEConfig() if not scene.options.smoke else VAEConfig(num_updates=3, batch_size=8)
    judge = train_vae(scene.frames, scene.config.encoder, scene.config.dim, config, options.seed, options.device)
    embed = lambda frames: encode(judge.encoder, FrameTensors(frames, options.device))  # noqa: E731
    return embed, embed(
        scene.frames
    ), f"{config.num_updates} updates of {config.batch_size} frames, {scene.config.dim} dimensions"


PEERS = {"Isomap": ("sklearn", fit_isomap), "UMAP": ("umap", fit_umap), "VAE": ("torch", fit_vae)}


def pair_rows(scene: Scene, ours: Ours, network: str) -> list[Row]:
    """One pair a sample, until our error or the limit."""
    limit = round(scene.options.choose(TIMES_OURS * ours.training_seconds, 0.5), 1)
    made = train_pairs(scene.options, scene.frames, ours.graph, network, scene.config.dim, ours.error, limit)
    numbers = {
        "fit_seconds": made.seconds, "times_ours": made.seconds / ours.training_seconds, "embedding_error": made.error,
        "reached": float(made.reached), "ms_per_update": made.ms_per_update,
    }
    words = f"{PAIRS_PER_UPDATE} pairs an update, {made.num_updates} updates, limit_seconds {limit:g}, against the embedding stage"
    return scene.rows(f"one pair a sample, {network}", numbers, made.seconds, settings=words)


def table(rows: list[Row]) -> list[str]:
    searches = [row for row in rows if row["method"] in SEARCHES]
    methods = [row for row in rows if row["method"] not in SEARCHES]
    return number_table(methods, COLUMNS, ("frames", "settings")) + number_table(searches, SEARCH_COLUMNS, ("frames",))


def draw(rows: list[Row]) -> Figure:
    stopped = {row["method"] for row in rows if row["metric"] == "reached" and not row["value"]}
    shown = [
        row | {"method": f"{row['method']} (stopped, not as good yet)"} if row["method"] in stopped else row
        for row in rows
    ]
    return bar_figure([row for row in shown if row["value"] is not None], "fit_seconds")
