"""Struck closures leave the graph in both directions, everywhere it is read; recorded transitions never do."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.domains import maze
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.model import load
from plan2vec.pipeline import fit
from plan2vec.runs.struck import Judged, drop_struck, judge, read_judged, unstrike

SEQUENCE = np.array([0, 0, 0, 1, 1, 1])
FEW = Config(
    local_metric=LocalMetricConfig(num_updates=3, batch_size=16),
    embedding=EmbeddingConfig(num_updates=3, goals_per_update=8, nodes_per_update=16, goals_per_round=8),
)


def ladder() -> csr_array:
    """Two recorded sequences 0-1-2 and 3-4-5, joined by closures of length zero (1-4) and half a step (2-5)."""
    edges = {(0, 1): 1, (1, 2): 1, (3, 4): 1, (4, 5): 1, (1, 4): 0, (2, 5): 0.5}
    both = sorted([*edges.items(), *(((j, i), w) for (i, j), w in edges.items())])
    rows = np.array([i for (i, _), _ in both])
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=6))))
    return csr_array(
        (np.array([w for _, w in both], np.float32), np.array([j for (_, j), _ in both]), indptr), shape=(6, 6)
    )


def pairs_of(graph: csr_array) -> set[tuple[int, int]]:
    return set(zip(edge_rows(graph).tolist(), graph.indices.tolist(), strict=True))


def test_a_struck_closure_is_gone_in_both_directions_and_nothing_else_is():
    left = drop_struck(ladder(), SEQUENCE, ((2, 5),))
    assert pairs_of(ladder()) - pairs_of(left) == {(2, 5), (5, 2)}
    assert left[4, 1] == 0 and (4, 1) in pairs_of(left)  # an edge of length zero is still an edge


def test_without_strikes_the_graph_is_the_same_object():
    graph = ladder()
    assert drop_struck(graph, SEQUENCE, ()) is graph


def test_a_pair_the_graph_does_not_join_is_passed_over():
    assert pairs_of(drop_struck(ladder(), SEQUENCE, ((0, 5),))) == pairs_of(ladder())


def test_recorded_transitions_cannot_be_struck(tmp_path):
    with pytest.raises(ValueError, match="recorded transition"):
        judge(tmp_path, ladder(), SEQUENCE, [(1, 0)])
    with pytest.raises(ValueError, match="recorded transition"):
        drop_struck(ladder(), SEQUENCE, ((0, 1),))
    assert read_judged(tmp_path) == Judged()


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [(0, 5, "not joined"), (2, 99, "0..5"), (-1, 2, "0 or more"), (2, 2, "twice")],
)
def test_what_is_no_closure_cannot_be_judged(tmp_path, first, second, words):
    for verdict in ("struck", "kept"):
        with pytest.raises(ValueError, match=words):
            judge(tmp_path, ladder(), SEQUENCE, **{verdict: [(first, second)]})


def test_verdicts_are_remembered_the_last_one_counts_and_undo_forgets(tmp_path):
    judge(tmp_path, ladder(), SEQUENCE, [(5, 2)])
    assert json.loads((tmp_path / "struck.json").read_text()) == {"struck": [[2, 5]], "kept": []}
    judge(tmp_path, ladder(), SEQUENCE, kept=[(1, 4)])
    judge(tmp_path, ladder(), SEQUENCE, kept=[(2, 5)])
    assert read_judged(tmp_path) == Judged((), ((1, 4), (2, 5)))
    assert unstrike(tmp_path, 5, 2) == Judged((), ((1, 4),))
    with pytest.raises(ValueError, match="nothing to undo"):
        unstrike(tmp_path, 5, 2)


@pytest.mark.parametrize(
    "text",
    ["[", "[[1, 2]]", '{"struck": [[1]]}', '{"struck": [["a", 2]]}', '{"struck": [[1.5, 2]]}', '{"kept": 3}'],
)
def test_a_damaged_file_is_refused_with_its_name(tmp_path, text):
    (tmp_path / "struck.json").write_text(text)
    with pytest.raises(ValueError, match="struck.json"):
        read_judged(tmp_path)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "maze"
    fit(maze.simulate("open", 12, seed=0), FEW, out, device="cpu")
    return out


def test_loading_and_fitting_again_leave_struck_closures_out(run):
    model = load(run, "cpu")
    closures = np.flatnonzero(closure_entries(model.graph, model.sequences.sequence))
    first, second = int(edge_rows(model.graph)[closures[0]]), int(model.graph.indices[closures[0]])
    judge(run, model.graph, model.sequences.sequence, [(first, second)])
    for again in (load(run, "cpu"), fit(model.sequences, FEW, run, device="cpu")):
        assert pairs_of(model.graph) - pairs_of(again.graph) == {(first, second), (second, first)}
    unstrike(run, first, second)
    assert pairs_of(load(run, "cpu").graph) == pairs_of(model.graph)
