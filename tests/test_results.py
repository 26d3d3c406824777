"""What experiments and benchmarks share: stamps, sizes, arrays; and that neither knows the other."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import plan2vec
from plan2vec.baselines.vae import VAEConfig
from plan2vec.results.comparisons import bars, panels
from plan2vec.results.experiment import SMOKE, Size
from plan2vec.results.rows import (
    KEY,
    Case,
    Stamp,
    commit,
    machine_name,
    make_rows,
    read_arrays,
    save_arrays,
    select,
    stamp_of,
    values,
)

PACKAGE = Path(plan2vec.__file__).parent


def imported_by(path: Path) -> set[str]:
    """All modules, by full name, that a file imports anywhere, as `import a.b`, `from a.b import c` or `from a import
    b`.
    """
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


@pytest.mark.parametrize(("room", "forbidden"), [
    ("bench", ("experiments",)), ("experiments", ("bench",)), ("results", ("bench", "experiments", "baselines")),
    ("baselines", ("bench", "experiments", "results")),
])
def test_a_room_of_results_imports_no_room_above_it(room, forbidden):
    files = list((PACKAGE / room).glob("**/*.py"))
    pattern = re.compile(rf"plan2vec\.({'|'.join(forbidden)})(\.|$)")
    assert files and not [(path.name, name) for path in files for name in imported_by(path) if pattern.match(name)]


def test_a_stamp_names_commit_and_machine():
    assert machine_name(torch.device("cpu")) == "cpu"
    assert re.fullmatch("[0-9a-f]{7,}|unknown", commit()) and stamp_of(torch.device("cpu")) == Stamp(commit(), "cpu")


def test_a_number_that_is_none_has_no_value_and_selections_read_settings_too():
    rows = make_rows(
        Case("e", "d", {"size": 3}, "m", 4), {"a": 0.12345678, "b": np.nan, "c": None}, 1.23456, Stamp("x", "y")
    )
    assert [row["value"] for row in rows] == [0.123457, None, None] and {row["seconds"] for row in rows} == {1.235}
    assert select(rows, size=3, seed=4) == rows and select(rows, size=2) == [] and len(values(rows, method="m")) == 1
    assert all(tuple(row)[: len(KEY)] == KEY for row in rows)


def test_smoke_sizes_shorten_a_stage_and_full_ones_do_not():
    assert Size().shorten(VAEConfig()) == VAEConfig()
    assert SMOKE.shorten(VAEConfig()) == VAEConfig(SMOKE.max_updates, SMOKE.max_batch)
    assert SMOKE.shorten(VAEConfig(2)) == VAEConfig(2, SMOKE.max_batch)


def test_arrays_of_all_parts_of_an_experiment_are_read_again(tmp_path):
    save_arrays(tmp_path, "table1", "open-0", path=np.arange(3), map=np.eye(2))
    save_arrays(tmp_path, "table1", "open-1", path=np.arange(2))
    save_arrays(tmp_path, "table2", "open-0", path=np.arange(9))
    found = read_arrays(tmp_path, "table1")
    assert {part: sorted(arrays) for part, arrays in found.items()} == {"open-0": ["map", "path"], "open-1": ["path"]}
    assert np.array_equal(found["open-0"]["path"], [0, 1, 2])


def test_bars_tell_ours_from_baselines_and_oracles_and_intervals_stay_within_0_and_100():
    _, (ax,) = panels(1)
    samples = [np.array([100.0, 99.0, 90.0]), np.array([50.0]), np.array([0.5, 9.0])]
    bars(ax, ["plan2vec", "VAE 2-d", "exact graph distance"], samples)
    assert len({bar.get_facecolor() for bar in ax.patches}) == 3
    spans = [line[:, 0] for lines in ax.collections for line in lines.get_segments() if len(line)]
    assert len(spans) == 2  # one seed has none
    assert max(span.max() for span in spans) == 100 and min(span.min() for span in spans) == 0
