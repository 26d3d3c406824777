"""Claim: with default settings a recording that nobody tuned to becomes a graph whose plans can be carried out.

Command: plan2vec bench recordings --paths office1.npz rc_car_laps.npz --doom-data sptm --mazes branching --seeds 3
Cost: seconds, in the rows
Expected: plan_validity at least 0.97 on average, revisit_recall 0.7; with --joined closures between recordings 0.5 %

Every recording is fitted with the defaults, once per seed, and judged by `evaluate`: the reference names the measures.
`--doom-data` replays walks through mazes, `--joined` fits all recordings as one, each with a label of its own, so that
every closure between two of them is false. `--dynamics` rolls out simulators whose steps cannot all be undone.
With `phase` (laps of a loop, in [0, 1)): is the map a ring?
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from plan2vec.bench.dynamics import DYNAMICS, impossible_hops, roll_out
from plan2vec.config import Config
from plan2vec.data import Sequences, make_sequences
from plan2vec.domains import doom
from plan2vec.evaluation import evaluate, rank_agreement
from plan2vec.graph.build import edge_rows
from plan2vec.learning.frame_tensors import choose_device
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.readers import read
from plan2vec.results.rows import Case, Row, make_rows, markdown, stamp_of, values
from plan2vec.validity import SOON, counted_closures

IN_TABLE = {
    "plan_validity": "plans possible", "plan_validity_10": "hops to 10 steps", "plan_validity_14": "to 14",
    "unreachable": "no path", "greedy_validity": "greedy plans possible", "revisit_recall": "revisits found",
    "spearman_true": "rank agreement", "loop_closures": "closures", "false_edge_share": "false",
    "auprc": "AP of candidates", "recall_at_99_precision": "recall at 99 %", "recall_at_100_precision": "at 100 %",
    "cross_label_share": "between labels", "closures_within_label": "within labels",
    "estimated_false_closures": "false by own estimate", "reversibility": "steps undone",
    "largest_component_share": "largest part", "ring_spearman": "ring agreement", "ring_false_share": "false on ring",
    "impossible_hops": "impossible hops", "success": "success"
}
PICTURE = {"cuda": (72, 96), "cpu": (48, 64)}  # height and width of mazes' pictures, by what the device bears
MAX_PHASE = 0.1  # of a lap between the ends of a true closure
NUM_PAIRS = 20_000


class Recording(NamedTuple):
    """What is fitted, and what else is known of it."""

    name: str
    sequences: Sequences
    phase: np.ndarray | None = None  # (n,) laps of a loop, in [0, 1)


def run(seed: int, paths: tuple[Path, ...] = (), seeds: int = 1, config: Config = Config(), device: str = "auto",
        doom_data: Path | None = None, mazes: tuple[str, ...] = (), joined: bool = False,
        dynamics: tuple[str, ...] = (), encoder: str | None = None) -> dict:
    """Rows of every recording, and a table of them."""
    if not (paths or doom_data or dynamics):
        raise ValueError("bench recordings needs --paths (recordings to fit, e.g. --paths office1.npz), --doom-data or "
                         "--dynamics")
    if mazes and not doom_data:
        raise ValueError("--mazes needs --doom-data, the folder of SPTM's mazes")
    if unknown := set(dynamics) - set(DYNAMICS):
        raise ValueError(f"--dynamics knows {', '.join(DYNAMICS)}, but {unknown.pop()!r} came")
    rows: list[Row] = []
    size = PICTURE.get(choose_device(device).type, PICTURE["cpu"])
    configs = [replace(config, encoder=encoder or config.encoder, seed=number) for number in range(seed, seed + seeds)]
    for recording in recordings(paths, doom_data, mazes, joined, size):
        for one in configs:
            rows += rows_of(recording, one, device)
    for name, one in product(dynamics, configs):
        rows += rows_of(Recording(name, roll_out(name, one.seed)), one, device)
    return {"table": table(rows), "rows": rows}


def recordings(paths: tuple[Path, ...], doom_data: Path | None, mazes: tuple[str, ...], joined: bool,
               size: tuple[int, int]) -> Iterator[Recording]:
    """One after the other, or all as one; mazes are replayed with pictures of `size`, height and width."""
    names = mazes or (tuple(doom.read_setups(doom_data)) if doom_data else ())
    each = (Recording(path.stem, read(path), read_phase(path)) for path in paths)
    walks = (Recording(name, doom.replay(doom_data, name, *size)) for name in names if doom_data)
    if joined:
        yield join([*each, *walks])
    else:
        yield from each
        yield from walks


def join(parts: list[Recording]) -> Recording:
    """All recordings as one, with the number of the recording as label."""
    shapes = {part.name: part.sequences.frame_shape for part in parts}
    if len(parts) < 2 or len(set(shapes.values())) > 1:
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"--joined needs two or more recordings with frames of one shape, but got {told}")
    sequence = np.concatenate([part.sequences.sequence + 10**6 * number for number, part in enumerate(parts)])
    held = [name for name in ("position", "heading") if all(getattr(p.sequences, name) is not None for p in parts)]
    truth = {name: np.concatenate([getattr(part.sequences, name) for part in parts]) for name in held}
    label = np.repeat(np.arange(len(parts)), [part.sequences.num_frames for part in parts])
    frames = np.concatenate([part.sequences.frames for part in parts])
    return Recording("+".join(shapes), make_sequences(frames, sequence, label=label, **truth))


def read_phase(path: Path) -> np.ndarray | None:
    if path.suffix != ".npz":
        return None
    with np.load(path, allow_pickle=False) as file:
        return file["phase"].astype(np.float64) if "phase" in file.files else None


def rows_of(recording: Recording, config: Config, device: str) -> list[Row]:
    began = perf_counter()
    model = fit(recording.sequences, config, device=device)
    card = {name: value for name, value in evaluate(model).items() if isinstance(value, int | float) and name != "seed"}
    card |= ring_numbers(model, recording.phase)
    if recording.name in DYNAMICS:
        card |= impossible_hops(recording.name, model)
    method = f"plan2vec, {config.encoder} encoder" if config.encoder else "plan2vec"
    case = Case("recordings", recording.name, {"view": model.config.view}, method, model.config.seed)
    return make_rows(case, card, round(perf_counter() - began, 1), stamp_of(model.device))


def ring_numbers(model: Model, phase: np.ndarray | None) -> dict[str, float]:
    """For laps of one loop: is the map a ring, do distances and closures agree with it?"""
    if phase is None:
        return {}
    first, second = np.random.default_rng(0).integers(len(phase), size=(2, NUM_PAIRS))
    counted = counted_closures(model.graph, model.sequences.sequence, SOON)
    gaps = lap_gap(phase[edge_rows(model.graph)[counted]], phase[model.graph.indices[counted]])
    agreement = rank_agreement(model.distance_between(first, second), lap_gap(phase[first], phase[second]))
    return {"ring_spearman": agreement or 0.0, "ring_closures": len(gaps),
            "ring_false_share": float(np.mean(gaps > MAX_PHASE)) if len(gaps) else 0.0}


def lap_gap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Share of a lap between two phases, the short way round."""
    gap = np.abs(first - second) % 1
    return np.minimum(gap, 1 - gap)


def table(rows: list[Row]) -> list[str]:
    """Lines of a markdown table: a line per recording and method, the mean over seeds; columns that have a number."""
    names = [name for name in IN_TABLE if len(values(rows, metric=name))]
    lines = []
    for domain, method in dict.fromkeys((row["domain"], row["method"]) for row in rows):
        samples = [values(rows, domain=domain, method=method, metric=name) for name in names]
        lines.append([domain, method, *(f"{sample.mean():.4g}" if len(sample) else "-" for sample in samples)])
    return markdown(["recording", "method", *(IN_TABLE[name] for name in names)], lines)[:-1]
