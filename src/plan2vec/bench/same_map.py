"""Claim: the map belongs to what was seen, not to how it was stored: JPEGs and a video of them give the same distances.

Command: plan2vec bench same-map --paths office1.npz --seeds 2 --json
Cost: two fits per seed
Expected: a rank correlation of 0.97 or more

A recording is stored as JPEGs and as videos (H.264), one per sequence; two recordings of the same frames are taken as
they are. Both are fitted with the defaults. The same 4,000 random pairs of frames are compared, by maps and by graphs.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from plan2vec.config import Config
from plan2vec.evaluation import rank_agreement
from plan2vec.pictures.figures import displayable
from plan2vec.pictures.films import encode_mp4
from plan2vec.pipeline import fit
from plan2vec.readers import read
from plan2vec.results.rows import Case, Row, make_rows, stamp_of
from plan2vec.search.shortest_paths import distances_from

NUM_PAIRS = 4000


def run(seed: int, paths: tuple[Path, ...] = (), seeds: int = 1, config: Config = Config(),
        device: str = "auto") -> dict[str, Any]:
    if len(paths) not in (1, 2):
        raise ValueError("bench same-map needs --paths with two recordings of the same frames, or one to be stored in "
                         f"two ways, but got {len(paths)}")
    with tempfile.TemporaryDirectory(prefix="plan2vec-same-map-") as folder:
        both = paths if len(paths) == 2 else store_twice(paths[0], Path(folder))
        configs = [replace(config, seed=number) for number in range(seed, seed + seeds)]
        return {"rows": [row for one in configs for row in rows_of(paths[0].stem, both, one, device)]}


def store_twice(path: Path, folder: Path) -> tuple[Path, Path]:
    recorded = read(path)
    height, width = (side // 2 * 2 for side in recorded.frame_shape[:2])  # what a video can have
    (folder / "mp4").mkdir()
    for number, label in enumerate(np.unique(recorded.sequence)):
        frames = recorded.frames[recorded.sequence == label, :height, :width]
        pictures, jpegs = [Image.fromarray(displayable(frame)) for frame in frames], folder / "jpg" / f"{number:04}"
        jpegs.mkdir(parents=True)
        for index, picture in enumerate(pictures):
            picture.save(jpegs / f"{index:06}.jpg", quality=90)
        encode_mp4(folder / "mp4" / f"{number:04}.mp4", [picture.convert("RGB") for picture in pictures])
    return folder / "jpg", folder / "mp4"


def rows_of(name: str, paths: tuple[Path, ...], config: Config, device: str) -> list[Row]:
    models = [fit(read(path), config, device=device) for path in paths]
    num_frames = [len(model.vectors) for model in models]
    if len(set(num_frames)) > 1:
        raise ValueError(f"bench same-map compares frame by frame, but {paths[0]} has {num_frames[0]} frames and "
                         f"{paths[1]} {num_frames[1]}")
    first, second = np.random.default_rng(config.seed).integers(num_frames[0], size=(2, NUM_PAIRS))
    sources, which = np.unique(first, return_inverse=True)
    by_map = [model.distance_between(first, second) for model in models]
    by_graph = [distances_from(model.graph, sources)[which, second] for model in models]
    numbers = {"map_agreement": rank_agreement(*by_map), "graph_agreement": rank_agreement(*by_graph)}
    seconds = round(sum(sum(model.seconds.values()) for model in models), 1)
    return make_rows(Case("same-map", name, {}, "plan2vec", config.seed), numbers, seconds, stamp_of(models[0].device))
