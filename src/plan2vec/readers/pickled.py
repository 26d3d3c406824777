"""Pickles, only where the user trusts them, and even then only arrays: what else a pickle asks for is refused.

A .pkl file holds what an .npz file holds, as a dict of arrays by name, or a list of such dicts: one sequence each."""

import math
import pickle
import re
from pathlib import Path
from typing import IO, Any

import numpy as np

from plan2vec.data import Sequences
from plan2vec.readers.folders import is_file_of, require_file
from plan2vec.readers.kept_frames import name_arrays, to_sequences
from plan2vec.readers.refusals import UNREADABLE, Reading, refusing

NAME = "pickle of arrays"
EXPECTED = "a .pkl file of arrays (with --trust-pickle)"


class Kind:
    """Stands for a numpy dtype while a pickle is read: numpy's own trusts what the pickle says, and can crash."""

    def __init__(self, code: str, *_: object):
        if not isinstance(code, str) or not re.fullmatch(r"[<>=|]?([biufc]\d{1,2}|[SU]\d{1,6}|O8?|\?)", code):
            raise pickle.UnpicklingError(f"it has values of the kind {code!r}, but only numbers and text are admitted")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple) -> None:
        if len(state) < 5 or any(part is not None for part in state[2:5]) or state[1] not in ("<", ">", "=", "|"):
            raise pickle.UnpicklingError("it has values of several kinds together, but only plain arrays are admitted")
        self.dtype = self.dtype.newbyteorder(state[1])


class Stored:
    """Stands for an array until all of the pickle is read."""

    def __init__(self, *_: object):
        self.state: tuple = ()

    def __setstate__(self, state: tuple) -> None:
        self.state = state

    def array(self) -> np.ndarray:
        """The array, after a check that its content is as large as it says."""
        _, shape, kind, is_fortran, content = self.state
        if not isinstance(kind, Kind) or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise pickle.UnpicklingError("it has an array without a plain kind and shape")
        if kind.dtype != object:
            flat = values_of(kind, content)
        elif len(content) != math.prod(shape):
            raise pickle.UnpicklingError(f"it has {len(content)} entries for an array of shape {shape}")
        else:
            flat = np.empty(len(content), object)
            for number, item in enumerate(content):
                flat[number] = as_arrays(item)
        return flat.reshape(shape, order="F" if is_fortran else "C").copy()


def values_of(kind: Kind, content: bytes | str = b"") -> np.ndarray:
    return np.frombuffer(content.encode("latin1") if isinstance(content, str) else content, kind.dtype)


STAND_INS: dict[tuple[str, str], Any] = {
    (f"numpy{core}.{module}", name): ours for core in ("", ".core", "._core") for module, name, ours in (
        ("multiarray", "_reconstruct", Stored), ("multiarray", "scalar", lambda *stored: values_of(*stored)[0]),
        ("numeric", "_frombuffer",  # of newer pickles
         lambda buffer, kind, shape, order: values_of(kind, buffer).reshape(shape, order="F" if order == "F" else "C")))
} | {("numpy", "ndarray"): Stored, ("numpy", "dtype"): Kind,
     ("_codecs", "encode"): lambda text, _: text.encode("latin1")}  # how old pickles keep bytes


class ArraysOnly(pickle._Unpickler):
    """Builds arrays, numbers, text, lists and dicts; nothing that could run a program. Python's own code does it: with
    the one in C five damaged bytes ask for gigabytes."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, but only arrays are admitted")
        return STAND_INS[module, name]


def as_arrays(content: Any) -> Any:
    if isinstance(content, Stored):
        return content.array()
    if isinstance(content, dict):
        return {as_arrays(name): as_arrays(value) for name, value in content.items()}
    return type(content)(map(as_arrays, content)) if type(content) in (list, tuple) else content


def admit_arrays(file: IO[bytes]) -> Any:
    return as_arrays(ArraysOnly(file).load())


def recognizes(path: Path) -> bool:
    return is_file_of(path, (".pkl", ".pickle"))


def read(path: Path, reading: Reading) -> Sequences:
    source = reading.source
    if not reading.options.trust_pickle:
        raise ValueError(f"{source} is a pickle, which can run any program; convert it to .npz, or say --trust-pickle")
    require_file(path, source)
    clear = refusing(source, UNREADABLE, "cannot be read as a pickle of arrays", "convert it to .npz")
    with clear, open(path, "rb") as file:
        content = admit_arrays(file)
    return to_sequences(reading, name_arrays(source, content))
