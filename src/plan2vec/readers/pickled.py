"""Pickles, only where the user trusts them, and even then only arrays: what else a pickle asks for is refused.

A .pkl file holds what an .npz file holds, as a dict of arrays by name, or a list of such dicts: one sequence each.
"""

import pickle
from pathlib import Path
from typing import IO, Any

from plan2vec.data import Sequences
from plan2vec.readers.folders import is_file_of, require_file
from plan2vec.readers.messages import DAMAGED, Reading, refusing, shown
from plan2vec.readers.named_arrays import name_arrays, to_sequences

NAME = "pickle of arrays"
EXPECTED = "a .pkl file of arrays (with --trust-pickle)"
ADMITTED = {
    (f"numpy{core}.{module}", name)
    for core in ("", ".core", "._core")
    for module, name in (("multiarray", "_reconstruct"), ("multiarray", "scalar"), ("numeric", "_frombuffer"))
} | {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}
BROKEN_PICKLE = (*DAMAGED, pickle.UnpicklingError, ValueError, ImportError, EOFError, AssertionError, SystemError)


def latin1(text: str, encoding: str) -> bytes:
    """How old pickles keep bytes."""
    return text.encode("latin1")


class ArraysOnly(pickle.Unpickler):
    """Builds arrays, numbers, text, lists and dicts; nothing that could run a program."""

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle asks for by name; only what builds arrays is given."""
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, but only arrays are admitted")
        return latin1 if name == "encode" else super().find_class(module, name)


def admit_arrays(file: IO[bytes]) -> Any:
    """The content of a trusted pickle."""
    return ArraysOnly(file).load()


def recognizes(path: Path) -> bool:
    """By its suffix."""
    return is_file_of(path, (".pkl", ".pickle"))


def read(path: Path, reading: Reading) -> Sequences:
    """What the pickle holds, refused unless the user trusts it."""
    source = shown(path)
    if not reading.options.trust_pickle:
        raise ValueError(f"{source} is a pickle, which can run any program; convert it to .npz, or say --trust-pickle")
    require_file(path, source)
    clear = refusing(source, BROKEN_PICKLE, "cannot be read as a pickle of arrays", "convert it to .npz")
    with clear, open(path, "rb") as file:
        content = admit_arrays(file)
    return to_sequences(reading, source, name_arrays(source, content))
