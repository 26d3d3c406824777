"""Recordings from arrays that have names, wherever they were stored."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from plan2vec.data import RECORDED, Sequences
from plan2vec.readers.kept_frames import build, prepared, thinned
from plan2vec.readers.messages import Reading, refusing, shown

KINDS = ("frames", "observations", "features")


def to_sequences(reading: Reading, arrays: dict[str, Any], held: Iterable[str] = ()) -> Sequences:
    """Sequences from arrays by their names, thinned and prepared as the options ask; `held`: all names in the file."""
    source, given = reading.source, [name for name in KINDS if name in arrays]
    if len(given) != 1:
        names = list(held or arrays)
        words = shown(", ".join(names[:8])) + (" ..." if len(names) > 8 else "") or "nothing"
        raise ValueError(f"{source}: expected exactly one of `frames`, `observations` and `features`, but has {words}")
    frames, is_image = np.asanyarray(arrays[given[0]]), given == ["frames"]
    if frames.ndim not in ((3, 4) if is_image else (2,)):
        axes = "3 or 4" if is_image else "2"
        raise ValueError(f"{source}: {given[0]} must have {axes} axes, but has shape {frames.shape}")
    if not is_image:
        _numbers(source, given[0], frames)
    recorded: dict[str, Any] = {"domain": str(arrays["domain"]) if "domain" in arrays else None}
    recorded |= {name: _numbers(source, name, np.asarray(arrays[name])) for name in RECORDED if name in arrays}
    made = build(reading, frames, arrays.get("sequence"), **recorded)
    return prepared(thinned(made, reading), reading.options)


def _numbers(source: str, name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{source}: {name} must hold numbers, but its dtype is {values.dtype}")
    return values


def name_arrays(source: str, content: Any) -> dict[str, Any]:
    """Arrays by name: of a dict, of a list of dicts or of bare arrays (one sequence each), or a bare array."""
    if isinstance(content, np.ndarray) and content.dtype.hasobject:
        content = content.tolist()  # e.g. the rope of Wang et al., new_rope.npy: 18 arrays of (T, 64, 64, 1)
    if isinstance(content, np.ndarray):
        return {"frames" if content.dtype == np.uint8 else "observations": content}
    if isinstance(content, dict):
        return {str(name): value for name, value in content.items() if isinstance(value, np.ndarray)}
    listed = content if isinstance(content, list) else []
    plain = [part for part in listed if isinstance(part, np.ndarray) and not part.dtype.hasobject and part.ndim >= 2]
    if not listed or len(plain) + sum(isinstance(part, dict) for part in listed) < len(listed):
        raise ValueError(f"{source}: expected a dict of arrays, a list of such dicts or of arrays, or one array, "
                         f"but came {type(content).__name__}")
    parts = [name_arrays(source, part) for part in listed]
    common = set.intersection(*({name for name in part if np.ndim(part[name])} for part in parts)) - {"sequence"}
    names = [name for name in parts[0] if name in common]
    if not names:
        raise ValueError(f"{source}: its sequences have no array in common; expected `frames` or `observations`")
    with refusing(f"{source}:", (ValueError, TypeError), "the sequences of the list do not fit together"):
        joined = {name: np.concatenate([part[name] for part in parts]) for name in names}
    return joined | {"sequence": np.repeat(np.arange(len(parts)), [len(part[names[0]]) for part in parts])}
