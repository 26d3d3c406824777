"""Columns of parquet files as arrays: per row a number, a vector, or an encoded picture, read when asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.readers.folders import require_file
from plan2vec.readers.messages import DAMAGED, import_extra, refusing, require_memory, shown


@contextmanager
def open_parquet(file: Path, folder: Path) -> Iterator[Any]:
    """An open parquet file of the folder; whatever pyarrow finds wrong becomes one ValueError."""
    pyarrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
    require_file(file, shown(file.name), folder)
    clear = refusing(shown(file.name), (*DAMAGED, pyarrow.ArrowException), "cannot be read as parquet")
    with clear, parquet.ParquetFile(file) as opened:
        yield opened


def read_columns(file: Path, names: list[str], folder: Path) -> dict[str, np.ndarray]:
    """Columns by name: (n,) numbers, or (n, k) where every row is a list of k numbers."""
    with open_parquet(file, folder) as opened:
        if missing := [name for name in names if name not in opened.schema_arrow.names]:
            raise ValueError(f"{shown(file.name)} has no column {missing[0]}")
        require_memory(shown(file.name), opened.metadata.num_rows * 8 * len(names))
        table = opened.read(columns=names)
        return {name: _to_array(table[name], f"{shown(file.name)}: {name}") for name in names}


def _to_array(column: Any, name: str) -> np.ndarray:
    if column.null_count:
        raise ValueError(f"{name} has {column.null_count} empty rows")
    values = np.asarray(column.to_numpy())
    if len(values) and isinstance(values[0], np.ndarray):  # of a column of lists
        if len({row.shape for row in values}) > 1:
            raise ValueError(f"{name} has rows of unequal length")
        values = np.stack(list(values))
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, but holds {values.dtype}")
    return values


@dataclass(frozen=True)
class EncodedColumn:
    """A column of encoded pictures, {bytes, path} or bytes per row; only the row groups asked for are read."""

    file: Path
    name: str
    folder: Path
    dtype, shape = np.dtype(object), (0,)  # of an array of objects, as `Rows` asks

    def __getitem__(self, rows: slice) -> np.ndarray:
        with open_parquet(self.file, self.folder) as opened:
            groups = [opened.metadata.row_group(number) for number in range(opened.num_row_groups)]
            ends = np.cumsum([group.num_rows for group in groups])
            first, last = np.searchsorted(ends, (rows.start, rows.stop - 1), side="right").tolist()
            require_memory(shown(self.file.name), sum(group.total_byte_size for group in groups[first : last + 1]))
            column = opened.read_row_groups(range(first, last + 1), columns=[self.name])[self.name]
            begin = int(ends[first]) - groups[first].num_rows
        values = column.slice(rows.start - begin, rows.stop - rows.start).to_pylist()
        pictures = [value.get("bytes") if isinstance(value, dict) else value for value in values]
        if not all(isinstance(one, bytes) for one in pictures):
            raise ValueError(f"{shown(self.file.name)}: {self.name} holds no pictures as bytes")
        return np.fromiter(pictures, object)
