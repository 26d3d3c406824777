"""The plain formats: one .npz file of named arrays, or one .npy file with one sequence.

frames        uint8 (n, h, w), (n, h, w, c) or (n, c, h, w); or observations  float (n, d); or features  float (n, d)
sequence      int (n,), equal labels contiguous; missing: one sequence
position (n, k), action (n, a), step_length (n,), time (n,)   optional; other keys are ignored
heading (n,) degrees, label (n,) int, also called floor: optional, for evaluation as position is
domain        the name of the simulator the frames come from; optional

`features` are vectors that another network computed from the frames; they are treated as observations."""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from plan2vec.data import RECORDED, Sequences
from plan2vec.files import replacing
from plan2vec.readers.folders import is_file_of, require_file
from plan2vec.readers.kept_frames import KINDS, name_arrays, to_sequences
from plan2vec.readers.pickled import admit_arrays
from plan2vec.readers.refusals import UNREADABLE, Reading, refusing, require_memory, shown

NAME = ".npz or .npy arrays"
EXPECTED = "an .npz file with `frames` (or `observations`) and `sequence`, or one of OGBench, or an .npy file"


def recognizes(path: Path) -> bool:
    return is_file_of(path, (".npz", ".npy"))


def read(path: Path, reading: Reading) -> Sequences:
    held: list[str] = []
    with open_plainly(path):
        if path.suffix.lower() != ".npy":
            arrays, held = load_members(path, (*KINDS, "sequence", "domain", "floor", *RECORDED), reading)
        else:  # one array, as a memory map where it holds no objects
            with open(path, "rb") as file:
                has_objects = _read_header(file)[0].hasobject
                file.seek(0)
                content = load_array(file, str(path), reading) if has_objects else np.load(path, "r")
            arrays = name_arrays(str(path), content)
    if "floor" in arrays:
        arrays.setdefault("label", arrays.pop("floor"))
    return to_sequences(reading, arrays, held)


@contextmanager
def open_plainly(path: Path, remedy: str = "is the file complete, and does it hold plain arrays only?",
                 folder: Path | None = None) -> Iterator[None]:
    """Around the reading of a file of arrays (inside a folder): whatever a damaged one raises becomes one refusal."""
    source = shown(path)
    require_file(path, source, folder)
    with refusing(source, UNREADABLE, f"cannot be read as {path.suffix.lower()}", remedy):
        yield


def load_members(path: Path, wanted: tuple[str, ...], reading: Reading) -> tuple[dict[str, np.ndarray], list[str]]:
    """The wanted arrays that an archive holds, and the names of all that it holds."""
    with open(path, "rb") as opened:
        if opened.read(6) == b"\x93NUMPY":
            raise ValueError("a bare array, not an archive of named arrays; rename it to .npy")
        with zipfile.ZipFile(opened) as archive:
            members = {name: f"{name}.npy" for name in wanted if f"{name}.npy" in archive.namelist()}
            headers = [_read_header(archive.open(member), name) for name, member in members.items()]
            # by the headers alone: a small file can claim terabytes
            require_memory(shown(path), sum(math.prod(map(int, shape)) * dtype.itemsize for dtype, shape in headers))
            arrays = {name: load_array(archive.open(member), f"{shown(path)}: {name}", reading)
                      for name, member in members.items()}
            return arrays, [name.removesuffix(".npy") for name in archive.namelist()]


def _read_header(file: IO[bytes], name: str = "it") -> tuple[np.dtype, tuple[int, ...]]:
    """Type and shape of an array, before any of it is read."""
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        raise ValueError(f"{name} is no array") from None
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(file)
    return dtype, shape


def load_array(file: IO[bytes], name: str, reading: Reading) -> Any:
    """One array; an array of objects is a pickle inside."""
    start = file.tell()
    if not _read_header(file)[0].hasobject:
        file.seek(start)
        return np.lib.format.read_array(file, allow_pickle=False)
    if not reading.options.trust_pickle:
        raise ValueError(f"{name} is a pickle, which can run any program; plain arrays only, or --trust-pickle")
    return admit_arrays(file)


def write_npz(path: Path, sequences: Sequences) -> None:
    key = "frames" if sequences.frames.dtype == np.uint8 else "observations"
    arrays = {key: sequences.frames} | {name: getattr(sequences, name) for name in ("sequence", *RECORDED, "domain")}
    with replacing(path) as temporary:
        np.savez_compressed(temporary, **{name: value for name, value in arrays.items() if value is not None})
