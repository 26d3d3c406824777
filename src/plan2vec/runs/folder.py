"""The run folder: every product is written whole or not at all, and a killed fit continues where it was.

plan2vec-run.txt       marks the folder as a run, written first
config.json            settings, with the format version          metrics.jsonl       one line a log step
data.json              source, fingerprint, shapes, domain        scorecard.json      `plan2vec evaluate`
frames.npy             frames, memory-mapped                      report.html         pictures: figures/
index.npz              sequence, and position, action, ...        checkpoints/        of a stage under way
local_metric.safetensors   graph.npz   embedding.safetensors   vectors.npy   features.npy (of a frozen encoder)

Growing a map and fitting it to struck closures replace several of these files: together, as `changing.py` says."""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from plan2vec.config import FORMAT_VERSION, SETTLED, Config, ReadOptions, from_json, setting
from plan2vec.data import RECORDED, Sequences, chunks
from plan2vec.embedding.network import build_embedding
from plan2vec.files import replacing, write_text
from plan2vec.learning import processes
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.frozen import FROZEN, NUM_FEATURES, features_of
from plan2vec.learning.gradient_loop import Journal
from plan2vec.local_metric import TrainedMetric, build_local_metric
from plan2vec.readers.refusals import shown
from plan2vec.runs import products
from plan2vec.runs.changing import finish_replacement
from plan2vec.runs.products import COVERED, FEATURES, MANIFEST, PRODUCTS, read_json, readable, require
from plan2vec.runs.struck import Pair, drop_struck

MEASURED = ("accuracy", "recognized")  # of a local metric, stored beside it
CPU = torch.device("cpu")
MARKER = "plan2vec-run.txt"  # the first file of a run folder: where it is not, this program touches nothing
MARKER_TEXT = "This folder is a run of plan2vec, which replaces and removes files of it. Keep your own elsewhere.\n"
INDEX_FIELDS = ("sequence", *RECORDED)


@dataclass
class Run:
    """An open run folder, or one that lives in memory only (`folder` None): its recordings, settings and products."""

    folder: Path | None
    sequences: Sequences
    config: Config
    journal: Journal
    device: torch.device = CPU
    given: Mapping[str, Any] = field(default_factory=dict)  # products that the user brought, by name
    struck: tuple[Pair, ...] = ()  # closures that a person has struck: the graph that is read has them no more
    times: dict[str, float] = field(default_factory=dict)  # wall time of the stages made by this process, seconds

    def make(self, name: str, stage: Callable[..., Any], *arguments: Any) -> Any:
        """The product called `name`: read if it is there, else made by its stage (or given), timed and written."""
        self.device = next((part.device for part in arguments if isinstance(part, FrameTensors)), self.device)
        path = self.folder / PRODUCTS[name] if self.folder else None
        if path and processes.first_does(path.exists):
            processes.first_does(lambda: self._refuse_other(name, path))
            self.journal.say(f"{path.name} is there already: read, not made anew")
            return self.read(name)
        began = time.perf_counter()
        product = self.given.get(name)
        product = stage(*arguments, journal=self.journal) if product is None else product
        processes.first_does(lambda: self._keep(name, product, began))
        # one file for all, however machines round
        return product if path is None or processes.is_first() else self.read(name)

    def _keep(self, name: str, product: Any, began: float) -> None:
        if self.folder:
            self.write(name, product)
            if path := self.journal.checkpoint(name):
                for left in path.parent.glob("*metric*" if name == "local_metric" else f"{name}*"):
                    left.unlink()
        self.times[name] = round(time.perf_counter() - began, 3)
        self.journal.record(stage=name, finished=True, seconds=self.times[name])

    def _refuse_other(self, name: str, path: Path) -> None:
        """A product that the user brought must be the one that the folder holds already."""
        if self.given.get(name) is not None:
            with TemporaryDirectory() as folder:
                self._store(Path(folder) / path.name, name, self.given[name])
                if (Path(folder) / path.name).read_bytes() != path.read_bytes():
                    raise ValueError(f"{path} holds another {name} than the one that was given; choose another `out`")

    def write(self, name: str, product: Any) -> None:
        assert self.folder is not None
        with replacing(self.folder / PRODUCTS[name]) as temporary:
            self._store(temporary, name, product)

    def _store(self, path: Path, name: str, product: Any) -> None:
        """A product into a file; an embedding with the closures that were struck from the graph it was fitted to."""
        match name:
            case "local_metric":
                # one entry, because the format stores several in any order
                measured = json.dumps([getattr(product, name) for name in MEASURED])
                products.save_module(path, product.metric, {"measured": measured})
            case "graph":
                products.save_graph(path, product, self.sequences.sequence)
            case "embedding":
                products.save_module(path, product, {"struck": json.dumps(sorted(self.struck))})
            case _:
                products.save_vectors(path, product)

    def read(self, name: str) -> Any:
        """A product from its file; a graph without the closures that a person has struck."""
        assert self.folder is not None
        path, frames = self.folder / PRODUCTS[name], self.sequences.frames
        match name:
            case "local_metric":
                with readable(self.folder / "config.json"):
                    metric = build_local_metric(frames, self.config.encoder, self.config.local_metric)
                with readable(path):
                    measured = json.loads(products.load_module(path, metric)["measured"])
                    is_list = isinstance(measured, list) and len(measured) == len(MEASURED)
                    require(is_list and all(isinstance(value, float | None) for value in measured), "what was measured")
                return TrainedMetric(metric.to(self.device), *measured)
            case "graph":
                built = products.load_graph(path)
                if built.graph.shape[0] != self.sequences.num_frames:
                    raise ValueError(f"{path} is of {built.graph.shape[0]:,} frames, not {self.sequences.num_frames:,}")
                with readable(self.folder / "struck.json"):
                    return replace(built, graph=drop_struck(built.graph, self.sequences.sequence, self.struck))
            case "embedding":
                graph = self.folder / PRODUCTS["graph"]
                with readable(graph), np.load(graph, allow_pickle=False) as file:
                    directed = bool(file["directed"])
                with readable(self.folder / "config.json"):
                    embedding = build_embedding(frames, replace(self.config, directed=directed))
                products.load_module(path, embedding)
                return embedding.to(self.device)
            case _:
                return products.load_vectors(path, self.sequences.num_frames, self.config.dim)

    def finish(self) -> None:
        """The last file of a run: what its files must look like from now on."""
        if self.folder and (self.times or not (self.folder / MANIFEST).exists()):
            products.write_manifest(self.folder)

    def seconds(self) -> dict[str, float]:
        """Wall time of the finished stages, of earlier processes too."""
        known = {line["stage"]: line.get("seconds") for line in self.journal.records() if line.get("finished")}
        return {stage: took for stage, took in known.items() if isinstance(took, int | float)} | self.times


def is_run(folder: Path) -> bool:
    """Whether this program made the folder. Nothing in it is changed or removed before this is known."""
    marker = folder / MARKER
    return not marker.is_symlink() and marker.is_file() and (folder / "data.json").is_file() and is_marker(marker)


def is_marker(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(MARKER_TEXT) + 1) == MARKER_TEXT.encode()


def fingerprint(sequences: Sequences) -> str:
    """Of all that training sees."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (part for part in (sequences.frames, sequences.sequence, sequences.step_length) if part is not None):
        digest.update(f"{array.dtype}{array.shape}".encode())
        for part in chunks(array, len(array)):
            digest.update(np.ascontiguousarray(array[part]).data)
    return digest.hexdigest()


def write_data(folder: Path, sequences: Sequences) -> None:
    write_text(folder / MARKER, MARKER_TEXT)
    write_text(folder / "data.json", json.dumps(describe(sequences), indent=1))
    write_frames(folder / "frames.npy", sequences.frames)
    write_index(folder, sequences)


def write_frames(path: Path, *arrays: np.ndarray) -> None:
    """Arrays end to end as one .npy file, a part at a time. A memory map's writes would kill on a full disk."""
    shape = (sum(map(len, arrays)), *arrays[0].shape[1:])
    header = {"descr": np.lib.format.dtype_to_descr(arrays[0].dtype), "fortran_order": False, "shape": shape}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for array in arrays:
            for part in chunks(array, len(array)):
                file.write(np.ascontiguousarray(array[part]).data)


def describe(sequences: Sequences) -> dict[str, object]:
    return {"source": sequences.source, "fingerprint": fingerprint(sequences), "domain": sequences.domain,
            "num_frames": sequences.num_frames, "frame_shape": list(sequences.frame_shape),
            "num_sequences": len(np.unique(sequences.sequence)), "options": dataclasses.asdict(sequences.options),
            "source_size": sequences.source_size}


def write_index(folder: Path, sequences: Sequences) -> None:
    with replacing(folder / "index.npz") as temporary:
        np.savez(temporary, **{name: value for name in INDEX_FIELDS if (value := getattr(sequences, name)) is not None})


def read_data(folder: Path) -> Sequences:
    """The recordings of a run, frames as a memory map."""
    described = read_json(folder / "data.json")
    with readable(folder / "index.npz"), np.load(folder / "index.npz", allow_pickle=False) as index:
        recorded = {name: index[name] for name in INDEX_FIELDS if name in index.files}
        require("sequence" in recorded and recorded["sequence"].dtype == np.int64, "a sequence label per frame")
    with readable(folder / "frames.npy"):
        frames = np.load(folder / "frames.npy", mmap_mode="r", allow_pickle=False)
        require(frames.dtype in (np.uint8, np.float32) and frames.ndim in (2, 4), "uint8 images or float32 vectors")
    with readable(folder / "data.json"):
        size, options = described.get("source_size"), described["options"] | {"trust_pickle": False}  # never consent
        read_as: dict[str, Any] = {"options": ReadOptions(**options), "source_size": tuple(size) if size else None}
        domain, source = described["domain"], described["source"]
        require(isinstance(source, str) and isinstance(domain, str | None), "source and domain in words")
    with readable(folder):
        return Sequences(frames, domain=domain, source=shown(source), **read_as, **recorded)


def recorded_features(folder: Path | None, frames: np.ndarray, encoder: str, device: torch.device) -> np.ndarray | None:
    """What a frozen encoder says of the frames, as a memory map where there is a folder; None with any other."""
    if encoder != FROZEN or folder is None:
        return features_of(FrameTensors(frames, device)) if encoder == FROZEN else None
    if not processes.first_does((folder / FEATURES).exists):
        features = features_of(FrameTensors(frames, device))
        processes.first_does(lambda: write_frames(folder / FEATURES, features))
    with readable(folder / FEATURES):
        features = np.load(folder / FEATURES, mmap_mode="r", allow_pickle=False)
        require(features.shape == (len(frames), NUM_FEATURES) and features.dtype == np.float16, "features per frame")
    return features


def require_finished(folder: Path) -> Config:
    """The configuration of a finished run folder, or a clear refusal."""
    if not is_run(folder):
        remedy = "give the folder that `plan2vec fit RECORDINGS --out FOLDER` wrote"
        raise ValueError(f"{folder} is not a run folder; {remedy}")
    finish_replacement(folder)
    if missing := [name for name in (*COVERED, MANIFEST) if not (folder / name).exists()]:
        raise ValueError(f"{folder} is no finished run, without {', '.join(missing)}; continue the same `plan2vec fit`")
    products.check_files(folder)
    return read_config(folder)


def is_finished(folder: Path) -> bool:
    return all((folder / name).exists() for name in (*COVERED, MANIFEST))


def refuse_unasked_code(folder: Path, config: Config, encoder: str | None) -> None:
    """A run folder is data. A network of somebody's own module is imported only where the user names it again."""
    named = config.encoder
    if ":" in named and named != encoder:
        asked = "" if encoder is None else f", but --encoder {encoder} was given"
        raise ValueError(f"{folder} was fitted with the network {named}, which is code and no part of the run{asked}. "
                         f"To trust it, add --encoder {named} to the command, or encoder={named!r} to plan2vec.load")


def read_config(folder: Path) -> Config:
    """The configuration of a run folder, finished or not, if this program can read its format."""
    settings = read_json(folder / "config.json")
    if (version := settings.pop("format_version", None)) != FORMAT_VERSION:
        raise ValueError(f"{folder} has run format {version}, this program reads {FORMAT_VERSION}; "
                         "fit again or use the matching version")
    with readable(folder / "config.json"):
        config = from_json(settings)
        require(all(setting(config, name) is not None for name in SETTLED), "every setting decided")
        return config
