"""Claim: the map belongs to what was seen, not to how it was stored: JPEGs and a video of them give the same distances.

Command: plan2vec bench same-map --paths frames_jpg frames.mp4 --json
Cost: two fits
Expected: a rank correlation of 0.98 or more

Both recordings are fitted with the defaults. The same 4,000 random pairs of frames are compared, by maps and by graphs.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.config import Config
from plan2vec.evaluation import rank_agreement
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.readers import read
from plan2vec.results.rows import Case, Row, make_rows
from plan2vec.results.stamp import stamp_of
from plan2vec.search.shortest_paths import distances_from

NUM_PAIRS = 4000


def run(seed: int, paths: tuple[Path, ...] = (), seeds: int = 1, config: Config = Config(),
        device: str = "auto") -> dict[str, Any]:
    if len(paths) != 2:
        raise ValueError(f"bench same-map needs --paths with two recordings of the same frames, but got {len(paths)}")
    numbers = range(seed, seed + seeds)
    return {"rows": [row for one in numbers for row in rows_of(paths, replace(config, seed=one), device)]}


def rows_of(paths: tuple[Path, ...], config: Config, device: str) -> list[Row]:
    models = [fit(read(path), config, device=device) for path in paths]
    num_frames = [len(model.vectors) for model in models]
    if len(set(num_frames)) > 1:
        words = f"{paths[0]} has {num_frames[0]} frames and {paths[1]} {num_frames[1]}"
        raise ValueError(f"bench same-map compares frame by frame, but {words}")
    first, second = np.random.default_rng(config.seed).integers(num_frames[0], size=(2, NUM_PAIRS))
    numbers = {"map_agreement": rank_agreement(*(model.distance_between(first, second) for model in models)),
               "graph_agreement": rank_agreement(*(graph_distances(model, first, second) for model in models))}
    seconds = round(sum(sum(model.seconds.values()) for model in models), 1)
    case = Case("same-map", paths[0].stem, {}, "plan2vec", config.seed)
    return make_rows(case, numbers, seconds, stamp_of(models[0].device))


def graph_distances(model: Model, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    sources, which = np.unique(first, return_inverse=True)
    return distances_from(model.graph, sources)[which, second]
