"""How each product is written, read and checked. A file that came from elsewhere is believed only where it fits.

The manifest of a finished run has a digest per file, written last: damage is seen, and named. Opening a run compares
sizes and times, and reads files whose time has changed, as after copying; `evaluate` and `plan2vec check` read every
file. What a person edits (struck.json) and what is only looked at is not covered."""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from scipy.sparse import csr_array
from torch import nn

from plan2vec.files import read_text, write_text
from plan2vec.graph.build import BuiltGraph, closure_entries
from plan2vec.readers.refusals import UNREADABLE, refusing
from plan2vec.runs.struck import Pair
from plan2vec.version import __version__

MANIFEST = "manifest.json"
PRODUCTS = {"local_metric": "local_metric.safetensors", "graph": "graph.npz", "embedding": "embedding.safetensors",
            "vectors": "vectors.npy"}  # files, in the order in which they are made
COVERED = ("config.json", "data.json", "frames.npy", "index.npz", *PRODUCTS.values())
FEATURES = "features.npy"  # covered too, where a frozen encoder has made them
CSR = ("data", "indices", "indptr")  # the arrays of a sparse matrix
SHARES = ("estimated_false", "reversibility", "repeated", "flow")  # of a built graph, where they are known


def readable(path: Path) -> AbstractContextManager[None]:
    """Around the reading of a file, which may be damaged."""
    return refusing(str(path), (*UNREADABLE, SafetensorError), "is damaged", remedy(path.parent))


def read_json(path: Path) -> dict:
    with refusing(str(path), (OSError, ValueError), "cannot be read", remedy(path.parent)):
        return json.loads(read_text(path))


def read_beside(folder: Path | None, name: str, read: Callable[[Any], Any]) -> Any:
    """What `read` makes of a JSON file of the run; None where there is none, or it cannot be read, which is said."""
    path = None if folder is None else folder / name
    if path is None or not path.exists():
        return None
    try:
        return read(json.loads(read_text(path)))
    except UNREADABLE:
        print(f"{path} is no {path.stem} that this version reads; it is left out", file=sys.stderr)
        return None


def require(holds: bool, expected: str) -> None:
    if not holds:
        raise ValueError(f"expected {expected}")


def save_module(path: Path, module: nn.Module, metadata: dict[str, str] | None = None) -> None:
    # cloned, because the format refuses tensors that share memory, as layers that share weights do
    tensors = {name: tensor.cpu().contiguous().clone() for name, tensor in module.state_dict().items()}
    for part, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ValueError(f"no convergence: {part} is not finite; lower its learning rate or check the recording")
    try:
        save_file(tensors, path, metadata)
    except SafetensorError as error:
        raise OSError(f"{path.name} cannot be written ({error})") from None


def load_module(path: Path, module: nn.Module) -> dict[str, str]:
    """Fill the module's parameters; returns the file's metadata."""
    with readable(path), safe_open(path, "pt") as file:
        try:
            module.load_state_dict({name: file.get_tensor(name) for name in file.keys()})
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise ValueError(f"it does not fit its network: {reason}; was the --encoder's code changed?") from None
        return file.metadata() or {}


def fitted_struck(folder: Path) -> set[Pair]:
    """The closures that were struck when the embedding of a run folder was fitted."""
    path = folder / PRODUCTS["embedding"]
    with readable(path), safe_open(path, "pt") as file:
        return {(first, second) for first, second in json.loads(file.metadata()["struck"])}


def save_graph(path: Path, built: BuiltGraph, sequence: np.ndarray) -> None:
    graph = built.graph
    arrays = {"data": graph.data, "indices": graph.indices, "indptr": graph.indptr, "shape": np.array(graph.shape),
              "closure": closure_entries(graph, sequence), "radius": np.array(built.radius),
              "report": np.array(built.report), "directed": np.array(built.directed)}
    if built.confidence is not None:
        arrays |= {f"confidence_{name}": getattr(built.confidence, name) for name in CSR}
    arrays |= {name: np.array(share) for name in SHARES if (share := getattr(built, name)) is not None}
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load_graph(path: Path) -> BuiltGraph:
    """The graph, after a check that its numbers cannot lead outside it: compiled code trusts them."""
    with readable(path), np.load(path, allow_pickle=False) as file:
        graph = checked_matrix(file)
        confidence = checked_matrix(file, "confidence_") if "confidence_data" in file.files else None
        shares = {name: float(file[name]) for name in SHARES if name in file.files}
        require(all(0 <= share <= 1 for share in shares.values()), f"{' and '.join(SHARES)} from 0 to 1")
        radius, report, directed = float(file["radius"]), str(file["report"]), bool(file["directed"])
        return BuiltGraph(graph, radius, report, confidence=confidence, directed=directed, **shares)


def checked_matrix(file: Mapping[str, np.ndarray], prefix: str = "") -> csr_array:
    """The square sparse matrix of a graph file's arrays of this prefix."""
    shape, data, indices, indptr = file["shape"], *(file[f"{prefix}{name}"] for name in CSR)
    require(shape.shape == (2,) and shape[0] == shape[1] >= 0, "a square matrix")
    num = int(shape[0])
    require(indptr.shape == (num + 1,) and indptr.dtype.kind == indices.dtype.kind == "i", "row limits")
    require(indptr[0] == 0 and indptr[-1] == len(data) == len(indices), "as many entries as the rows say")
    require(bool((np.diff(indptr) >= 0).all()), "rows in order")
    require(not len(indices) or 0 <= indices.min() <= indices.max() < num, "frame numbers inside the graph")
    require(data.dtype == np.float32 and bool((np.isfinite(data) & (data >= 0)).all()), "finite lengths of 0 or more")
    return csr_array((data, indices, indptr), shape=(num, num))


def describe_graph(path: Path) -> str:
    """What a graph file holds, without reading its edges."""
    with readable(path), np.load(path, allow_pickle=False) as file:
        return f"{file['indptr'][-1]:,} directed edges; {file['report']}"


def save_vectors(path: Path, vectors: np.ndarray) -> None:
    if not np.isfinite(vectors).all():
        raise ValueError("the map did not converge: its vectors are not finite; lower --embedding.learning-rate")
    np.save(path, vectors)


def load_vectors(path: Path, num_frames: int, dim: int) -> np.ndarray:
    with readable(path):
        vectors = np.load(path, allow_pickle=False)
        is_map = vectors.shape == (num_frames, dim) and vectors.dtype == np.float32 and np.isfinite(vectors).all()
        require(bool(is_map), f"vectors of shape ({num_frames}, {dim}), float32 and finite")
    return vectors


def write_manifest(folder: Path, base: Path | None = None) -> None:
    """The manifest of all covered files; those that are not in `folder` lie, unchanged, in `base`."""
    known, entries = json.loads((base / MANIFEST).read_text())["files"] if base else {}, {}
    for name in (*COVERED, *([FEATURES] if FEATURES in known or (folder / FEATURES).exists() else [])):
        facts = (folder / name).stat() if (folder / name).exists() else None
        entries[name] = known[name] if facts is None else {
            "bytes": facts.st_size, "modified": facts.st_mtime_ns, "digest": digest(folder / name)}
    made_with = {"plan2vec": __version__, "torch": torch.__version__, "threads": torch.get_num_threads()}
    write_text(folder / MANIFEST, json.dumps({"files": entries, "made_with": made_with}, indent=1))


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def check_files(folder: Path, thoroughly: bool = False, names: Iterable[str] = ()) -> dict[str, Any]:
    """What the run was made with, by its manifest. A ValueError names the first file that is not as it was written."""
    with refusing(str(folder / MANIFEST), (OSError, ValueError, KeyError, TypeError), "cannot be read", remedy(folder)):
        manifest = json.loads(read_text(folder / MANIFEST))
        listed = names or (*COVERED, *([FEATURES] if FEATURES in manifest["files"] else []))
        written = {name: [manifest["files"][name][fact] for fact in ("bytes", "modified", "digest")] for name in listed}
        made_with = dict(manifest["made_with"])
    for name, (size, modified, expected) in written.items():
        if not (path := folder / name).is_file():
            raise ValueError(f"{path} is missing; {remedy(folder)}")
        facts = path.stat()
        if facts.st_size != size or ((thoroughly or facts.st_mtime_ns != modified) and digest(path) != expected):
            raise ValueError(f"{path} is not as it was written; {remedy(folder)}")
    return made_with


def remedy(folder: Path) -> str:
    return f"restore it from a copy, or delete {folder} and fit again"
