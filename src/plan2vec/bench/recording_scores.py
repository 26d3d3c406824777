"""Claim: with default settings a first-person recording becomes a graph without worm-holes and a map that greedy walks
can follow.

Command: plan2vec bench recordings --paths office1.npz deepmind_small.npz rc_car_laps.npz --seeds 3 --json
Cost: seconds, in the rows
Expected: false_edge_share at most 0.01, success at least 0.95, with a visited set 0.99; SPTM's local metric, pixels and
a VAE far worse

Every path is fitted with the defaults, once per seed. All methods walk the same graph by the same rule. With
`position`: success within `success_radius` at most 4 x the shortest hop count + 10 hops, without memory and with a
visited set; false closures join frames more than `false_beyond` apart and at least `min_gap` frames in time. With
`phase` (laps of a loop, in [0, 1)): is the map a ring? Both are read here, for evaluation, and by nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from plan2vec.baselines.pixels import pixel_scorer
from plan2vec.baselines.sptm import MetricScorer
from plan2vec.baselines.vae import VAEConfig, train_vae
from plan2vec.config import Config
from plan2vec.data import SuccessRule
from plan2vec.evaluation import counted_closures, rank_agreement, scorecard, truth_of
from plan2vec.graph.build import edge_rows
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.planner import Distance
from plan2vec.readers import read
from plan2vec.results.rows import Case, Row, make_rows, markdown, values
from plan2vec.results.stamp import stamp_of
from plan2vec.search.shortest_paths import distances_from

SHOWN = ("success", "success_memory", "success_graph", "embedding_error", "path_ratio")
OF_GRAPH = ("num_frames", "num_edges", "num_components", "largest_component_share", "loop_closures", "false_edge_share")
IN_TABLE = {"success": "success", "success_memory": "with a visited set", "touched_per_step": "nodes touched a step"}
MAX_PHASE = 0.1  # of a lap between the ends of a true closure
NUM_PAIRS = 20_000


@dataclass(frozen=True)
class Rule:
    """How recordings with positions are scored, in their units."""

    success_radius: float = 150.0
    false_beyond: float = 150.0
    min_gap: int = 20  # frames


def run(
    seed: int, paths: tuple[Path, ...] = (), seeds: int = 1, config: Config = Config(), device: str = "auto",
    rule: Rule = Rule()
) -> dict:
    """Rows of every recording, and a table of the methods' success."""
    if not paths:
        raise ValueError("bench recordings needs --paths: one or more recordings to fit, e.g. --paths office1.npz")
    settings = [replace(config, seed=number) for number in range(seed, seed + seeds)]
    rows = [row for path in paths for one in settings for row in rows_of(path, one, device, rule)]
    return {"table": table(rows), "rows": rows}


def rows_of(path: Path, config: Config, device: str, rule: Rule) -> list[Row]:
    began, rows = perf_counter(), list[Row]()
    model = fit(read(path), config, device=device)
    fitted = perf_counter() - began
    for method, distance in methods(model).items():
        began = perf_counter()
        card = score(model, distance(), method, rule)
        if method == "plan2vec":
            card |= ring_numbers(model, path, rule.min_gap)
        seconds = perf_counter() - began + (fitted if method == "plan2vec" else 0)
        case = Case("recordings", path.stem, {"view": model.config.view}, method, config.seed)
        rows += make_rows(case, card, round(seconds, 1), stamp_of(model.device))
    return rows


def methods(model: Model) -> dict[str, Callable[[], Distance]]:
    """Who walks: the map, the baselines, and the exact distance on the graph."""
    frames, device, config = model.sequences.frames, model.device, model.config
    return {
        "plan2vec": lambda: model.distance_between,
        "SPTM": lambda: MetricScorer(model.local_metric, device).on(frames),
        "pixels": lambda: pixel_scorer(device).on(frames),
        "VAE": lambda: train_vae(frames, config.encoder, config.dim, VAEConfig(), config.seed, device).on(frames),
        "exact graph distance": lambda: exact_distance(model)
    }


def exact_distance(model: Model) -> Distance:
    """All shortest distances: recordings of a few thousand frames allow it."""
    lengths = distances_from(model.graph, np.arange(model.graph.shape[0]))
    return lambda frames, goals: lengths[frames, goals]


def score(model: Model, distance: Distance, method: str, rule: Rule) -> dict[str, Any]:
    """Both kinds of walk; what belongs to graph and map is kept for plan2vec only."""
    truth, sequence, seed = truth_of(model.sequences), model.sequences.sequence, model.config.seed
    walks = [SuccessRule(radius=rule.success_radius, memory=memory) for memory in (False, True)]
    cards = [
        scorecard(model.graph, sequence, distance, seed, truth, walk, rule.false_beyond, rule.min_gap) for walk in walks
    ]
    found = {name: cards[0].get(name) for name in SHOWN} | {"success_memory": cards[1].get("success")}
    costs: Any = cards[0]["touched_per_step"]
    found["touched_per_step"] = costs["greedy"]
    if method == "plan2vec":
        found |= {name: cards[0].get(name) for name in OF_GRAPH}
        found |= {"local_accuracy": model.local_accuracy, "radius": model.radius}
        found |= {f"touched_per_step_{name}": costs[name] for name in ("dijkstra", "astar")}
    return {name: value for name, value in found.items() if value is not None}


def ring_numbers(model: Model, path: Path, min_gap: int) -> dict[str, float]:
    """For laps of one loop, from the `phase` in an .npz: is the map a ring, do distances and closures agree with it?"""
    with np.load(path, allow_pickle=False) as file:
        if "phase" not in file.files:
            return {}
        phase = file["phase"].astype(np.float64)
    first, second = np.random.default_rng(0).integers(len(phase), size=(2, NUM_PAIRS))
    counted = counted_closures(model.graph, model.sequences.sequence, min_gap)
    gaps = lap_gap(phase[edge_rows(model.graph)[counted]], phase[model.graph.indices[counted]])
    agreement = rank_agreement(model.distance_between(first, second), lap_gap(phase[first], phase[second]))
    return {
        "ring_correlation": circular_correlation(angles(model.vectors), 2 * np.pi * phase),
        "ring_spearman": agreement or 0.0, "ring_closures": len(gaps),
        "ring_false_share": float(np.mean(gaps > MAX_PHASE))
    }


def lap_gap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Share of a lap between two phases, the short way round."""
    gap = np.abs(first - second) % 1
    return np.minimum(gap, 1 - gap)


def angles(vectors: np.ndarray) -> np.ndarray:
    """Angle of every vector about the centre, in the plane of the first two principal components."""
    centred = vectors - vectors.mean(axis=0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    return np.arctan2(plane[:, 1], plane[:, 0])


def circular_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Fisher and Lee's correlation of two angles, from random pairs; the direction of turning does not count."""
    i, j = np.random.default_rng(0).integers(len(first), size=(2, NUM_PAIRS))
    a, b = np.sin(first[i] - first[j]), np.sin(second[i] - second[j])
    return float(abs((a * b).sum()) / np.sqrt((a**2).sum() * (b**2).sum()))


def table(rows: list[Row]) -> list[str]:
    """Lines of a markdown table: a line per recording and method, the mean over seeds."""
    lines = []
    for domain, method in dict.fromkeys((row["domain"], row["method"]) for row in rows):
        samples = [values(rows, domain=domain, method=method, metric=name) for name in IN_TABLE]
        lines.append([domain, method, *(f"{sample.mean():.3f}" if len(sample) else "-" for sample in samples)])
    return markdown(["recording", "method", *IN_TABLE.values()], lines)[:-1]
