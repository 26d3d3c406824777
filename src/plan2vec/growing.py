"""A map that grows and is corrected: new recordings join a finished run, struck closures leave its embedding too.

    new frames -> local metric (as it is) -> closures within the run's radius, supported by old and new recordings
               -> edges appended to the graph -> embedding fine-tuned from where it stands -> vectors of all frames

Old frames keep their numbers and old edges their lengths; new frames get the numbers after them. The run folder changes
at one moment (`runs/changing.py`): killed at any time, it is the old run or the grown one."""

import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from plan2vec.config import with_settings
from plan2vec.data import RECORDED, Sequences, transitions
from plan2vec.embedding.network import map_vectors
from plan2vec.embedding.train import FIRST_PHASE, fine_tune
from plan2vec.evaluation import map_numbers
from plan2vec.files import write_text
from plan2vec.graph.build import BuiltGraph, closure_entries, edge_rows, graph_of_edges
from plan2vec.graph.direction import each_pair_once
from plan2vec.graph.join import join_frames
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.frozen import features_of, network_input
from plan2vec.learning.gradient_loop import Journal
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Model, load
from plan2vec.runs.changing import changing_run, replacing_together
from plan2vec.runs.folder import Run, describe, fingerprint, recorded_features, write_frames, write_index
from plan2vec.runs.products import FEATURES, load_graph, read_json, write_manifest
from plan2vec.runs.struck import drop_struck, read_judged
from plan2vec.search.shortest_paths import connected_parts

FINE_TUNING_SHARE = 1 / 3  # updates of a fine-tuning over those of the fit
NUM_NAMED = 10  # parts named in a warning


@dataclass(frozen=True)
class Grown:
    """The map after a change, and what changed."""

    model: Model  # of the grown run
    report: dict[str, object]  # frames, edges, parts and distances before and after; `already_on_the_map` if so


def add(run: str | Path, sequences: Sequences, num_updates: int | None = None, device: str = "auto",
        show_progress: bool = False, encoder: str | None = None) -> Grown:
    """Add recordings to a finished run folder: their frames join the graph by closures, and the map follows.

    `run`: the folder. `sequences`: what was recorded since; if it is on the map already, nothing is added.
    `num_updates` of the fine-tuning; None: a third of the fit's. `encoder`: as for `load`. Returns `Grown`: the model
    and a report. The folder changes at one moment; killed before, it is the old run."""
    old, data = load(run, device, encoder), read_json(Path(run) / "data.json")
    known = {data.get("fitted", data["fingerprint"]), *(part["fingerprint"] for part in data.get("added", []))}
    if fingerprint(sequences) in known:
        frames = dict.fromkeys(("before", "after"), old.sequences.num_frames)
        return Grown(old, {"frames": frames, "already_on_the_map": True, "updates": 0, "seconds": 0.0})
    then = old.sequences
    if then.frame_shape != sequences.frame_shape or then.frames.dtype != sequences.frames.dtype:
        expected, came = (f"shape {one.frame_shape} and type {one.frames.dtype}" for one in (then, sequences))
        raise ValueError(f"{sequences.source}: expected frames of {expected}, as on the map, but they have {came}")
    if old.config.holdout > 0:
        raise ValueError(f"a map of --holdout {old.config.holdout} cannot grow: its split would change; fit anew")
    cost = _change(old, num_updates, show_progress, sequences)
    model = load(run, device, encoder)
    return Grown(model, growth(old, model) | map_change(old, model) | cost)


def follow_strikes(run: str | Path, num_updates: int | None = None, device: str = "auto", show_progress: bool = False,
                   encoder: str | None = None) -> Grown:
    """Fine-tune the map of a run folder to its graph without the closures that are struck now."""
    old = load(run, device, encoder)
    cost = _change(old, num_updates, show_progress)
    model = load(run, device, encoder)
    return Grown(model, map_change(old, model) | cost)


def _change(old: Model, num_updates: int | None, show_progress: bool, new: Sequences | None = None) -> dict[str, float]:
    """Write graph (grown by what is new) and map of a finished run anew; returns the updates and seconds it took. Its
    metrics.jsonl goes on, without the lines of an older fine-tuning."""
    folder, began = old.folder, time.perf_counter()
    assert folder is not None
    with changing_run(folder), replacing_together(folder) as staged:
        lines = [line for line in Journal(folder).records() if line["stage"] != "fine_tuning"]
        write_text(staged / "metrics.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
        journal = Journal(staged, show_progress, math.inf, logs=True)
        change = Run(staged, old.sequences, old.config, journal, struck=read_judged(folder).struck)
        graph, images = (old.graph, old.images()) if new is None else write_grown(change, folder, old, new)
        updates = write_map(change, old, graph, images, num_updates)
        seconds = round(time.perf_counter() - began, 3)
        journal.record(stage="follow_strikes" if new is None else "add", finished=True, seconds=seconds)
        write_manifest(staged, folder)
    return {"updates": updates, "seconds": seconds}


def write_grown(change: Run, folder: Path, old: Model, new: Sequences) -> tuple[csr_array, FrameTensors]:
    """Recordings and graph with what is new; returns the graph without struck closures, and all frames."""
    assert change.folder is not None
    path, num_old = change.folder / "frames.npy", old.sequences.num_frames
    write_frames(path, old.sequences.frames, new.frames)  # a part at a time
    frames = np.load(path, mmap_mode="r", allow_pickle=False)
    joined = change.sequences = join_recorded(old.sequences, new, frames, change.journal)
    data, mark = read_json(folder / "data.json"), fingerprint(new)
    added = {"source": new.source, "fingerprint": mark, "num_frames": new.num_frames, "first_frame": num_old}
    parts = {"fitted": data.get("fitted", data["fingerprint"]), "added": [*data.get("added", []), added]}
    write_text(change.folder / "data.json", json.dumps(describe(joined) | parts, indent=1))
    write_index(change.folder, joined)
    if old.features is not None:
        write_frames(change.folder / FEATURES, old.features, features_of(FrameTensors(new.frames, old.device)))
    features = recorded_features(change.folder, joined.frames, old.config.encoder, old.device)
    images = network_input(joined.frames, old.config.encoder, old.device, features=features)
    built = append_to_graph(load_graph(folder / "graph.npz"), old, joined.without_truth(), images)
    change.write("graph", built)
    built = replace(built, graph=drop_struck(built.graph, joined.sequence, change.struck))
    warn_about_unreached(built, num_old, change.journal)
    return built.graph, images


def join_recorded(old: Sequences, new: Sequences, frames: np.ndarray, journal: Journal) -> Sequences:
    """What was recorded beside the frames: kept where both have it. New sequences are numbered after the old labels."""
    number = np.cumsum(np.diff(new.sequence, prepend=new.sequence[0]) != 0)
    recorded: dict[str, np.ndarray | None] = {}
    if old.step_length is not None:  # new recordings without them get the old median, which weighs 1
        steps = np.full(new.num_frames, median_step(old)) if new.step_length is None else new.step_length
        recorded["step_length"] = np.concatenate((old.step_length, steps))
    for name in (name for name in RECORDED if name != "step_length"):
        then, now = getattr(old, name), getattr(new, name)
        fits = then is not None and now is not None and then.shape[1:] == now.shape[1:]
        recorded[name] = np.concatenate((then, now)) if fits else None
        if then is not None and not fits:
            journal.say(f"warning: the new recordings have no {name} like the map's, so {name} is dropped from the run")
    domain = old.domain if old.domain == new.domain else None
    sequence = np.concatenate((old.sequence, old.sequence.max() + 1 + number))
    return replace(old, frames=frames, sequence=sequence, domain=domain, **recorded)  # type: ignore[arg-type]


def median_step(sequences: Sequences) -> float:
    """The recorded step length that weighs 1."""
    return float(np.median(np.asarray(sequences.step_length)[transitions(sequences.sequence)]))


def append_to_graph(built: BuiltGraph, old: Model, joined: Sequences, images: FrameTensors) -> BuiltGraph:
    """The old edges as they are, and the new frames' own: recorded steps, and closures within the run's radius."""
    num_old = built.graph.shape[0]
    joined_anew = join_frames(joined, old.trained, replace(old.found_config, radius=built.radius or None), images)
    found = joined_anew.graph
    if joined.step_length is not None:  # the unit stays that of the old recordings
        recorded = ~closure_entries(found, joined.sequence) | built.directed
        found.data[recorded] *= median_step(joined) / median_step(old.sequences)
    graph, confidence = appended(built.graph, found), joined_anew.confidence
    if confidence is not None and built.confidence is not None:
        confidence = appended(built.confidence, confidence)
    new_old, new_new = closure_counts(graph, joined.sequence, num_old)
    added = f"{joined.num_frames - num_old:,} frames added with {new_old + new_new:,} closures"
    report = f"{built.report}; {added}, {new_old:,} to old frames"
    return replace(joined_anew, graph=graph, radius=built.radius, report=report, confidence=confidence,
                   reversibility=built.reversibility, repeated=built.repeated, flow=built.flow)


def appended(old: csr_array, new: csr_array) -> csr_array:
    """The old entries as they are, and the new ones of frames that the old matrix lacks."""
    row, column = edge_rows(new), new.indices
    added = (row >= old.shape[0]) | (column >= old.shape[0])
    pairs = ((edge_rows(old), row), (old.indices, column), (old.data, new.data))
    rows, columns, lengths = (np.concatenate((then, now[added])) for then, now in pairs)
    return graph_of_edges(rows, columns, lengths, new.shape[0])


def closure_counts(graph: csr_array, sequence: np.ndarray, num_old: int) -> tuple[int, int]:
    """Closures between a new frame and an old one, and between two new frames."""
    row, column = edge_rows(graph), graph.indices
    counted = closure_entries(graph, sequence) & each_pair_once(graph)
    num_new = (row >= num_old).astype(int) + (column >= num_old)
    return int(np.count_nonzero(counted & (num_new == 1))), int(np.count_nonzero(counted & (num_new == 2)))


def warn_about_unreached(built: BuiltGraph, num_old: int, journal: Journal) -> None:
    """New frames that no path joins to an old one are no failure, but the user should know, and know what to do."""
    _, part = connected_parts(built.graph)
    if not len(unreached := np.setdiff1d(part[num_old:], part[:num_old])):
        return
    num_frames, names = int(np.isin(part, unreached).sum()), ", ".join(map(str, unreached[:NUM_NAMED]))
    names += ", ..." if len(unreached) > NUM_NAMED else ""
    journal.say(f"warning: {num_frames:,} of the {len(part) - num_old:,} new frames are joined to nothing on the old "
                f"map; they form parts of their own: {len(unreached):,} ({names}), and plans exist inside each. "
                "Remedy: record sequences that pass places on the map, or fit all recordings anew (the radius stays "
                f"{built.radius:.2f} steps)")


def write_map(change: Run, old: Model, graph: csr_array, images: FrameTensors, num_updates: int | None) -> int:
    """Fine-tune embedding and vectors to the graph, as the fit learned them; returns the number of updates."""
    num_updates = num_updates or max(1, round(FINE_TUNING_SHARE * (old.config.embedding.num_updates or FIRST_PHASE)))
    change.journal.say(f"fine-tuning the embedding with {num_updates} updates")
    seed = int(rng_at(old.config.seed, Stream.GROWING, graph.nnz).integers(2**31))  # other goals than the fit's
    config = with_settings(old.config, {"seed": seed, "embedding.num_updates": num_updates})
    embedding = fine_tune(old.embedding, images, graph, config, change.journal)
    change.write("embedding", embedding)
    change.write("vectors", map_vectors(embedding, images))
    return num_updates


def growth(old: Model, new: Model) -> dict[str, object]:
    num_old = old.sequences.num_frames
    new_old, new_new = closure_counts(new.graph, new.sequences.sequence, num_old)
    num_sequences = [len(np.unique(model.sequences.sequence)) for model in (old, new)]
    return {"frames": {"before": num_old, "after": new.sequences.num_frames},
            "sequences": {"before": num_sequences[0], "after": num_sequences[1]},
            "closures": {"new_old": new_old, "new_new": new_new},
            "parts": {"before": connected_parts(old.graph)[0], "after": connected_parts(new.graph)[0]},
            "embedding_error_all": map_error(new, new.sequences.num_frames)}


def map_change(old: Model, new: Model) -> dict[str, object]:
    before, after = (map_error(model, old.sequences.num_frames) for model in (old, new))
    return {"embedding_error": {"before": before, "after": after}}


def map_error(model: Model, num_frames: int) -> object:
    """Mean |D - path| / path between the first `num_frames` frames."""
    rng = rng_at(model.config.seed, Stream.GROWING)
    return map_numbers(model.graph, model.distance_between, rng, num_frames)["embedding_error"]
