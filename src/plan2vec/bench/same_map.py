"""Claim: the map belongs to what was seen, not to how it was stored: a folder of JPEGs and a video of them give the
same distances.

Command: plan2vec bench same-map --paths frames_jpg frames.mp4 --json
Cost: two fits
Expected: a rank correlation of 0.98 or more

Both recordings are fitted with the defaults. The same 4,000 random pairs of frames are compared, by the two maps and by
the two graphs.
"""

from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.bench.demo import commit, machine_name
from plan2vec.config import Config
from plan2vec.evaluation import rank_agreement
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.readers import read
from plan2vec.search.shortest_paths import distances_from

NUM_PAIRS = 4000


def run(seed: int, paths: tuple[Path, ...], config: Config = Config(), device: str = "auto") -> dict[str, Any]:
    """Rank correlations between two recordings of the same frames."""
    if len(paths) != 2:
        raise ValueError(f"bench same-map needs --paths with two recordings of the same frames, but got {len(paths)}")
    models = [fit(read(path), config, device=device) for path in paths]
    num_frames = [len(model.vectors) for model in models]
    if len(set(num_frames)) > 1:
        raise ValueError(
            f"bench same-map compares frame by frame, but {paths[0]} has {num_frames[0]} frames and {paths[1]} {num_frames[1]}"
        )
    first, second = np.random.default_rng(seed).integers(num_frames[0], size=(2, NUM_PAIRS))
    numbers = {
        "map_agreement": rank_agreement(*(model.distance_between(first, second) for model in models)),
        "graph_agreement": rank_agreement(*(graph_distances(model, first, second) for model in models)),
    }
    stamp = {"seconds": round(sum(sum(model.seconds.values()) for model in models), 1), "commit": commit()}
    names = {"experiment": "same-map", "domain": paths[0].stem, "setting": {}, "method": "plan2vec", "seed": seed}
    return {
        "rows": [
            names | {"metric": m, "value": v} | stamp | {"device": machine_name(models[0].device)} for m,
            v in numbers.items()
        ]
    }


def graph_distances(model: Model, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(m,) shortest lengths on the graph itself."""
    sources, which = np.unique(first, return_inverse=True)
    return distances_from(model.graph, sources)[which, second]
