"""Result rows: one number each, as JSON lines, and how many of them become a cell of a table.

Files are appended to: processes side by side can share one, a killed run loses nothing. The last row of a `KEY` counts.
"""

import json
import math
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

from plan2vec.files import replacing, write_text
from plan2vec.version import METHOD_VERSION

Row = dict[str, Any]
Groups = Iterator[list[Row]]  # what an experiment or a benchmark gives, as soon as they are known
Lines = Iterable[str]  # of markdown
Arrays = dict[str, dict[str, np.ndarray]]  # part -> name -> array
KEY = ("experiment", "domain", "setting", "method", "seed", "metric")
FIELDS = (*KEY, "value", "seconds", "commit", "device", "method_version")


@dataclass(frozen=True)
class Stamp:
    commit: str
    device: str
    method_version: int = METHOD_VERSION


def commit() -> str:
    """The commit the program stands at; "unknown" outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def machine_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def stamp_of(device: torch.device, known: str | None = None) -> Stamp:
    return Stamp(known or commit(), machine_name(device))


@dataclass(frozen=True)
class Case:
    experiment: str
    domain: str
    setting: dict[str, Any]
    method: str
    seed: int


def make_rows(case: Case, metrics: dict[str, Any], seconds: float, stamp: Stamp) -> list[Row]:
    """A row per metric; what is no finite number becomes None. `seconds`: wall time of the whole group."""
    numbers = {name: round(float(value), 6) if value is not None and math.isfinite(value) else None
               for name, value in metrics.items()}
    return [vars(case) | {"metric": name, "value": number, "seconds": round(seconds, 3)} | vars(stamp)
            for name, number in numbers.items()]


def append_rows(path: Path, rows: list[Row]) -> None:
    """All rows in one write at the end of the file, which other processes may append to as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    with open(path, "ab", buffering=0) as file:
        file.write(text.encode())


def read_rows(path: Path) -> list[Row]:
    """The last row of every key; none where the file does not exist."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return list(by_key(json.loads(line) for line in lines if line.endswith("}")).values())  # a kill can cut a line


def by_key(rows: Iterable[Row]) -> dict[str, Row]:
    return {json.dumps([row[name] for name in KEY], sort_keys=True): row for row in rows}


def write_rows(path: Path, rows: list[Row]) -> None:
    """The file anew, without rows that were replaced, in the order of their keys."""
    write_text(path, "".join(json.dumps(row, allow_nan=False) + "\n" for _, row in sorted(by_key(rows).items())))


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Rows whose fields, or entries of `setting`, have the wanted values."""
    asked = wanted.items()
    return [row for row in rows if all(row.get(name, row["setting"].get(name)) == value for name, value in asked)]


def values(rows: list[Row], **wanted: Any) -> np.ndarray:
    """(m,) the values of the selected rows, those without a number left out."""
    return np.array([row["value"] for row in select(rows, **wanted) if row["value"] is not None], float)


def in_order(rows: list[Row], name: str, known: Iterable[Any] = ()) -> list[Any]:
    """Values of a field, or of an entry of `setting`, that occur: the known ones first, in their order."""
    found = {row.get(name, row["setting"].get(name)) for row in rows} - {None}
    first = [value for value in known if value in found]
    return first + sorted(found - set(first))


def parts_of(rows: list[Row], **known: Iterable[Any]) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """By these fields, or entries of `setting`, in order: their values, and the rows that have them."""
    for key in product(*(in_order(rows, name, first) for name, first in known.items())):
        if part := select(rows, **dict(zip(known, key, strict=True))):
            yield key, part


def interval(sample: np.ndarray) -> tuple[float, float]:
    """Mean and half-width of its 95 % confidence interval (Student's t over seeds); NaN where seeds are too few."""
    num = len(sample)
    half = float(student.ppf(0.975, num - 1) * sample.std(ddof=1) / math.sqrt(num)) if num > 1 else math.nan
    return float(sample.mean()) if num else math.nan, half


def fitted_exponent(sizes: Sequence[float], amounts: Sequence[float]) -> float | None:
    """The power of size that an amount grows with: the slope of a line through the logarithms."""
    if len(set(sizes)) < 2:
        return None
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(np.asarray(amounts, float)), 1)[0])


def cell(sample: np.ndarray, factor: float = 1.0, digits: int = 1) -> str:
    """ "98.4 ± 0.6": mean and 95 % interval, or the number alone, or "-"."""
    mean, half = interval(factor * sample)
    if not len(sample):
        return "-"
    return f"{mean:.{digits}f} ± {half:.{digits}f}" if math.isfinite(half) else f"{mean:.{digits}f}"


def markdown(header: list[str], body: Iterable[list[str]]) -> list[str]:
    """Lines of a markdown table, and an empty one after it."""
    return ["| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *body)] + [""]


def part_of(row: Row) -> str:
    """Of the arrays that were kept beside a group of rows."""
    setting = dict(sorted(row["setting"].items())).values()
    return " ".join(map(str, (row["domain"], *setting, row["method"], row["seed"])))


def pictured(rows: list[Row], arrays: Arrays) -> Arrays:
    """By method, the arrays that were kept of the first seed, where they are at hand."""
    first = select(rows, seed=min((row["seed"] for row in rows), default=0))
    return {row["method"]: arrays[part] for row in first if (part := part_of(row)) in arrays}


def save_arrays(folder: Path, experiment: str, part: str, **arrays: np.ndarray) -> None:
    with replacing(folder / f"{experiment}--{part}.npz") as temporary:
        np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]


def read_arrays(folder: Path, experiment: str) -> Arrays:
    found = {}
    for path in sorted(folder.glob(f"{experiment}--*.npz")):
        with np.load(path, allow_pickle=False) as file:
            found[path.stem.split("--", 1)[1]] = {name: file[name] for name in file.files}
    return found
