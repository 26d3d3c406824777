"""A digest per file of a finished run, written last: damage is seen, and named.

Opening a run compares sizes and times, and reads files whose time has changed, as after copying; `evaluate` and
`plan2vec check` read every file. What a person edits (struck.json) and what is only looked at is not covered.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from plan2vec.files import read_text, write_text
from plan2vec.readers.messages import refusing
from plan2vec.version import __version__

FILE = "manifest.json"
PRODUCTS = {"local_metric": "local_metric.safetensors", "graph": "graph.npz", "embedding": "embedding.safetensors",
            "vectors": "vectors.npy"}  # files, in the order in which they are made
COVERED = ("config.json", "data.json", "frames.npy", "index.npz", *PRODUCTS.values())
FEATURES = "features.npy"  # covered too, where a frozen encoder has made them


def write_manifest(folder: Path, base: Path | None = None) -> None:
    """The manifest of all covered files; those that are not in `folder` lie, unchanged, in `base`."""
    known, entries = json.loads((base / FILE).read_text())["files"] if base else {}, {}
    for name in (*COVERED, *([FEATURES] if FEATURES in known or (folder / FEATURES).exists() else [])):
        facts = (folder / name).stat() if (folder / name).exists() else None
        entries[name] = known[name] if facts is None else {
            "bytes": facts.st_size, "modified": facts.st_mtime_ns, "digest": digest(folder / name)}
    made_with = {"plan2vec": __version__, "torch": torch.__version__, "threads": torch.get_num_threads()}
    write_text(folder / FILE, json.dumps({"files": entries, "made_with": made_with}, indent=1))


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def check_files(folder: Path, thoroughly: bool = False, names: Iterable[str] = ()) -> dict[str, Any]:
    """What the run was made with, by its manifest. A ValueError names the first file that is not as it was written."""
    with refusing(str(folder / FILE), (OSError, ValueError, KeyError, TypeError), "cannot be read", remedy(folder)):
        manifest = json.loads(read_text(folder / FILE))
        listed = names or (*COVERED, *([FEATURES] if FEATURES in manifest["files"] else []))
        written = {name: [manifest["files"][name][fact] for fact in ("bytes", "modified", "digest")] for name in listed}
        made_with = dict(manifest["made_with"])
    for name, (size, modified, expected) in written.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing; {remedy(folder)}")
        facts = path.stat()
        if facts.st_size != size or ((thoroughly or facts.st_mtime_ns != modified) and digest(path) != expected):
            raise ValueError(f"{path} is not as it was written; {remedy(folder)}")
    return made_with


def remedy(folder: Path) -> str:
    return f"restore it from a copy, or delete {folder} and fit again"
