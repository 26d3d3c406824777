"""How each product is written, read and checked. A file that came from elsewhere is believed only where it fits."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from scipy.sparse import csr_array
from torch import nn

from plan2vec.files import read_text
from plan2vec.graph.build import BuiltGraph, closure_entries
from plan2vec.readers.messages import UNREADABLE, refusing
from plan2vec.runs.manifest import PRODUCTS, remedy
from plan2vec.runs.struck import Pair

CSR = ("data", "indices", "indptr")  # the arrays of a sparse matrix
SHARES = ("estimated_false", "reversibility", "repeated", "flow")  # of a built graph, where they are known


def readable(path: Path) -> AbstractContextManager[None]:
    """Around the reading of a file, which may be damaged."""
    return refusing(str(path), (*UNREADABLE, SafetensorError), "is damaged", remedy(path.parent))


def read_json(path: Path) -> dict:
    with refusing(str(path), (OSError, ValueError), "cannot be read", remedy(path.parent)):
        return json.loads(read_text(path))


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
