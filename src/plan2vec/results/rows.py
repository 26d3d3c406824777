"""Result rows: one number each, as JSON lines, and how many of them become a cell of a table.

Files are appended to, so that processes side by side can share one and a killed run loses nothing. Where two rows are
about the same thing (`KEY`) the later one counts.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from plan2vec.files import replacing, write_text

Row = dict[str, Any]
Groups = Iterator[list[Row]]  # what an experiment or a benchmark gives, as soon as they are known
Arrays = dict[str, dict[str, np.ndarray]]  # part -> name -> array
KEY = ("experiment", "domain", "setting", "method", "seed", "metric")
FIELDS = (*KEY, "value", "seconds", "commit", "device")


@dataclass(frozen=True)
class Stamp:
    commit: str
    device: str


@dataclass(frozen=True)
class Case:
    """What a group of rows is about."""

    experiment: str
    domain: str
    setting: dict[str, Any]
    method: str
    seed: int


def make_rows(case: Case, metrics: dict[str, Any], seconds: float, stamp: Stamp) -> list[Row]:
    """A row per metric; what is no finite number becomes None. `seconds`: wall time of the whole group."""
    rows = ({"metric": metric, "value": _number(value)} for metric, value in metrics.items())
    return [vars(case) | row | {"seconds": round(seconds, 3)} | vars(stamp) for row in rows]


def _number(value: Any) -> float | None:
    return round(float(value), 6) if value is not None and math.isfinite(value) else None


def key_of(row: Row) -> str:
    return json.dumps([row[name] for name in KEY], sort_keys=True)


def case_key(case: Case) -> str:
    """What the groups of rows of a case have in common."""
    return json.dumps(vars(case), sort_keys=True)


def finished_cases(rows: list[Row]) -> set[str]:
    return {case_key(Case(*(row[name] for name in KEY[:-1]))) for row in rows}


def append_rows(path: Path, rows: list[Row]) -> None:
    """All rows in one write at the end of the file, which other processes may append to as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    with open(path, "ab", buffering=0) as file:
        file.write(text.encode())


def read_rows(path: Path) -> list[Row]:
    """The last row of every key; none where the file does not exist."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return merge_rows(json.loads(line) for line in lines if line.endswith("}"))  # a kill can cut a line


def merge_rows(rows: Iterable[Row]) -> list[Row]:
    return list({key_of(row): row for row in rows}.values())


def write_rows(path: Path, rows: list[Row]) -> None:
    """The file anew, without rows that were replaced, in the order of their keys."""
    write_text(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in sorted(merge_rows(rows), key=key_of)))


def select(rows: list[Row], **wanted: Any) -> list[Row]:
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


def interval(sample: np.ndarray) -> tuple[float, float]:
    """Mean and half-width of its 95 % confidence interval (Student's t over seeds); NaN where seeds are too few."""
    if len(sample) < 2:
        return (float(sample.mean()) if len(sample) else math.nan), math.nan
    half = float(student.ppf(0.975, len(sample) - 1) * sample.std(ddof=1) / math.sqrt(len(sample)))
    return float(sample.mean()), half


def cell(sample: np.ndarray, factor: float = 1.0, digits: int = 1) -> str:
    """ "98.4 ± 0.6": mean and 95 % interval, or the number alone, or "-"."""
    mean, half = interval(factor * sample)
    if not len(sample):
        return "-"
    return f"{mean:.{digits}f} ± {half:.{digits}f}" if math.isfinite(half) else f"{mean:.{digits}f}"


def markdown(header: list[str], body: Iterable[list[str]]) -> list[str]:
    """Lines of a markdown table, and an empty one after it."""
    lines = [header, ["---"] * len(header), *body]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def save_arrays(folder: Path, experiment: str, part: str, **arrays: np.ndarray) -> None:
    with replacing(folder / f"{experiment}--{part}.npz") as temporary:
        np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]


def read_arrays(folder: Path, experiment: str) -> Arrays:
    """All parts that were saved for an experiment."""
    found = {}
    for path in sorted(folder.glob(f"{experiment}--*.npz")):
        with np.load(path, allow_pickle=False) as file:
            found[path.stem.split("--", 1)[1]] = {name: file[name] for name in file.files}
    return found
