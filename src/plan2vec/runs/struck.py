"""What a person said about loop closures: struck ones leave the graph, kept ones are not asked about again.

`struck.json` of a run folder: {"struck": [[12, 480]], "kept": [[3, 907]]}, frame numbers, the smaller one first.
`graph.npz` stays as it was found; loading and fitting drop the struck closures from what they read. The embedding's
file says which closures were struck when it was fitted; `plan2vec closures RUN --update` fits it to what is struck now.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from plan2vec.files import read_text, write_text
from plan2vec.graph.build import edge_rows, select_edges
from plan2vec.readers.refusals import refusing
from plan2vec.runs.changing import WAIT, changing_run

FILE = "struck.json"
Pair = tuple[int, int]


@dataclass(frozen=True)
class Judged:
    """Closures a person has judged, in the order of judging; every pair has its smaller frame number first."""

    struck: tuple[Pair, ...] = ()
    kept: tuple[Pair, ...] = ()

    @property
    def all(self) -> set[Pair]:
        return {*self.struck, *self.kept}


def read_judged(folder: Path | None) -> Judged:
    """What was judged in a run folder; nothing where there is no file or no folder."""
    if folder is None or not (path := Path(folder) / FILE).exists():
        return Judged()
    expected = '{"struck": [[first, second], ...], "kept": [...]}'
    errors = (OSError, ValueError, TypeError, AttributeError)
    with refusing(str(path), errors, f"must hold {expected} with frame numbers, but does not", "repair or delete it"):
        values = json.loads(read_text(path))
        return Judged(*(tuple(_pair(*pair) for pair in values.get(name, [])) for name in ("struck", "kept")))


def judge(folder: Path, graph: csr_array, sequence: np.ndarray, struck: Iterable[Pair] = (),
          kept: Iterable[Pair] = ()) -> Judged:
    """Remember closures of the graph as false and true; if one of them is no closure, none is remembered."""
    false, true = ([_closure(graph, sequence, *pair) for pair in pairs] for pairs in (struck, kept))
    with changing_run(Path(folder), WAIT):
        before = _without(read_judged(folder), *false, *true)
        return _write(folder, Judged((*before.struck, *dict.fromkeys(false)), (*before.kept, *dict.fromkeys(true))))


def unstrike(folder: Path, first: int, second: int) -> Judged:
    """Forget what was said about a pair, struck or kept."""
    pair = _pair(first, second)
    with changing_run(Path(folder), WAIT):
        if pair not in (judged := read_judged(folder)).all:
            raise ValueError("frames {} and {} were neither struck nor kept, so there is nothing to undo".format(*pair))
        return _write(folder, _without(judged, pair))


def drop_struck(graph: csr_array, sequence: np.ndarray, struck: tuple[Pair, ...]) -> csr_array:
    """The graph without the struck closures, in both directions; a pair that the graph does not join is passed over."""
    if not struck:
        return graph
    for pair in struck:
        _refuse_transition(sequence, *pair)
    n = graph.shape[0]
    row, column = edge_rows(graph).astype(np.int64), graph.indices.astype(np.int64)
    keys = np.array([first * n + second for first, second in struck])
    return select_edges(graph, ~np.isin(np.minimum(row, column) * n + np.maximum(row, column), keys))


def _closure(graph: csr_array, sequence: np.ndarray, first: int, second: int) -> Pair:
    low, high = _pair(first, second)
    if high >= graph.shape[0]:
        raise ValueError(f"frame numbers must lie in 0..{graph.shape[0] - 1}, but {high} came")
    _refuse_transition(sequence, low, high)
    ways = ((low, high), (high, low))  # a directed graph may have one of them only
    if not any(end in graph.indices[graph.indptr[start] : graph.indptr[start + 1]] for start, end in ways):
        raise ValueError(f"frames {low} and {high} are not joined in the graph, so there is no closure to judge")
    return low, high


def _refuse_transition(sequence: np.ndarray, first: int, second: int) -> None:
    if second - first == 1 and second < len(sequence) and sequence[first] == sequence[second]:
        raise ValueError(f"frames {first} and {second} are a recorded transition; only closures can be struck or kept")


def _pair(first: int, second: int) -> Pair:
    for number in (first, second):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
            raise ValueError(f"a closure joins two frame numbers, 0 or more, but {number!r} came")
    if first == second:
        raise ValueError(f"a closure joins two different frames, but frame {first} came twice")
    return int(min(first, second)), int(max(first, second))


def _without(judged: Judged, *pairs: Pair) -> Judged:
    return Judged(*(tuple(pair for pair in some if pair not in pairs) for some in (judged.struck, judged.kept)))


def _write(folder: Path, judged: Judged) -> Judged:
    write_text(Path(folder) / FILE, json.dumps({"struck": judged.struck, "kept": judged.kept}))
    return judged
