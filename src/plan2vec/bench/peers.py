"""Claim: on the same data and by the same rule, plan2vec is more than ten times faster than Isomap to the same success.

Expected: at 10,000 frames Isomap's times_ours 10 or more

C-Maze. The local metric is trained once and shared; its time is its own row. Then every method is timed: plan2vec joins
the frames, searches, trains and encodes; Isomap gets the local metric's vectors, as many dimensions as the map, and the
radius of our graph; the VAE sees the frames. All walk the same graph by the domain's rule.
`new_frames_ms`: 1,000 frames from outside to vectors."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from plan2vec.baselines import VectorScorer, l2_distance, pair_distance
from plan2vec.baselines.vae import VAEConfig, train_vae
from plan2vec.bench.measuring import LINES, choose_sizes, forget_peak, number_table, peak_memory, speed_rows, stopwatch
from plan2vec.config import Config, settle
from plan2vec.data import Sequences
from plan2vec.domains.maze import simulate
from plan2vec.evaluation import Episodes, default_rule, truth_numbers, truth_of
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.local_metric import local_vectors
from plan2vec.model import Learned
from plan2vec.pipeline import learn
from plan2vec.planner import Distance
from plan2vec.results.experiment import Experiment, Settings
from plan2vec.results.rows import Groups, Row

NUM_NEW = 1000  # frames from outside
COLUMNS = ("fit_seconds", "times_ours", "memory_gb", "new_frames_ms", "success")
Embed = Callable[[np.ndarray], np.ndarray]  # frames -> vectors; of a peer D is their l2 distance
Fitted = tuple[Embed, np.ndarray, str]  # also the vectors of the shared frames, and the method's settings in words


@dataclass(frozen=True)
class Scene:
    """What all methods share, and what they are compared with: ours."""

    settings: Settings
    config: Config
    sequences: Sequences
    new_frames: np.ndarray  # of the same room, never trained on
    learned: Learned
    our_seconds: float  # from the local metric, which all share, to vectors

    def rows(self, method: str, numbers: dict[str, Any], seconds: float, **setting: Any) -> list[Row]:
        frames, seed = self.sequences.num_frames, self.config.seed
        return speed_rows(self.settings, seed, "c-maze", method, numbers, seconds, frames=frames, **setting)


def run(settings: Settings) -> Groups:
    for seed in settings.seeds:
        scene, shared_seconds = learn_ours(settings, seed)
        yield scene.rows("local metric (shared)", {"fit_seconds": shared_seconds}, shared_seconds)
        ours, embed = torch.from_numpy(scene.learned.vectors), VectorScorer(scene.learned.embedding, settings.device)
        numbers = {"fit_seconds": scene.our_seconds}
        numbers |= scored(scene, embed.vectors, pair_distance(ours, ours, scene.learned.embedding.head))
        yield scene.rows("plan2vec", numbers, scene.our_seconds, settings="defaults")
        yield from (peer_rows(scene, method, *peer) for method, peer in PEERS.items())


def c_maze(num_frames: int, seed: int, is_smoke: bool) -> Sequences:
    """The demo's frames; of a smoke run in a sixteenth of the pixels."""
    seen = simulate("c-maze", num_frames // 10, seed=seed)
    return replace(seen, frames=np.ascontiguousarray(seen.frames[:, ::4, ::4])) if is_smoke else seen


def learn_ours(settings: Settings, seed: int) -> tuple[Scene, float]:
    """The stages of a fit, each timed, and the seconds of the local metric; memory counts from the graph on."""
    (size,), is_smoke, device = choose_sizes(settings, (10_000,), (300,)), settings.size.is_smoke, settings.device
    sequences, new = c_maze(size, seed, is_smoke), c_maze(NUM_NEW, seed + 1000, is_smoke)
    # the few pixels of a smoke run are not asked whether the camera moves
    config = settle(replace(settings.size.config, seed=seed, view="fixed"), sequences, device.type)
    seconds = dict[str, float]()

    def make(name: str, stage: Callable, *arguments: Any) -> Any:
        if name == "graph":
            forget_peak()
        with stopwatch(device) as watch:
            product = stage(*arguments)
        seconds[name] = watch.seconds
        return product

    learned = learn(sequences.without_truth(), config, FrameTensors(sequences.frames, device), make)
    shared_seconds = seconds.pop("local_metric")
    return Scene(settings, config, sequences, new.frames, learned, sum(seconds.values())), shared_seconds


def scored(scene: Scene, embed: Embed, distance: Distance) -> dict[str, Any]:
    """Peak memory so far, the time of new frames, and the success of walks on the shared graph."""
    memory = peak_memory()
    with stopwatch(scene.settings.device) as watch:
        embed(scene.new_frames)
    sequences, truth = scene.sequences, truth_of(scene.sequences)
    assert truth is not None
    rule = replace(default_rule(sequences), episodes=scene.settings.size.episodes)
    nothing = Episodes(*(np.empty(0) for _ in range(4)))  # the rule draws starts and goals itself
    rng = rng_at(scene.config.seed, Stream.PEER_WALKS)
    numbers = truth_numbers(scene.learned.graph.graph, sequences.sequence, distance, truth, nothing, rule, rng)
    return {"memory_gb": memory, "new_frames_ms": 1e3 * watch.seconds, "success": numbers["success"]}


def peer_rows(scene: Scene, method: str, package: str, fit: Callable[[Scene], Fitted]) -> list[Row]:
    """One peer, timed and scored; where its package is missing a row says so."""
    if importlib.util.find_spec(package) is None:
        return scene.rows(method, {"fit_seconds": None}, 0.0, settings=f"not run: {package} is not installed")
    forget_peak()
    with stopwatch(scene.settings.device) as watch:
        embed, vectors, settings = fit(scene)
    numbers = {"fit_seconds": watch.seconds, "times_ours": watch.seconds / scene.our_seconds}
    distance = l2_distance(torch.from_numpy(np.ascontiguousarray(vectors, np.float32)))
    return scene.rows(method, numbers | scored(scene, embed, distance), watch.seconds, settings=settings)


def fit_isomap(scene: Scene) -> Fitted:
    from sklearn.manifold import Isomap

    radius, dim = scene.learned.graph.radius, scene.config.dim
    local = lambda frames: local_vectors(  # noqa: E731
        scene.learned.metric.metric, FrameTensors(frames, scene.settings.device))
    isomap = Isomap(n_neighbors=None, radius=radius, n_components=dim)
    vectors, words = isomap.fit_transform(local(scene.sequences.frames)), f"radius {radius:.2f}, {dim} dimensions"
    return lambda frames: isomap.transform(local(frames)), vectors, words


def fit_vae(scene: Scene) -> Fitted:
    config, frames, stage = scene.config, scene.sequences.frames, scene.settings.size.shorten(VAEConfig())
    embed = train_vae(frames, config.encoder, config.dim, stage, config.seed, scene.settings.device).vectors
    return embed, embed(frames), f"{stage.num_updates} updates of {stage.batch_size} frames, {config.dim} dimensions"


PEERS = {"Isomap": ("sklearn", fit_isomap), "VAE": ("torch", fit_vae)}
BENCHMARK = Experiment("bench-peers", "Against peers: same data, same rule, one run", __doc__, run,
                       partial(number_table, columns=COLUMNS, lines=LINES | {"settings": "settings"}))
