"""Growing a map: old numbers stay, new frames are joined and planned over, and a kill leaves the old run or the grown
one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import plan2vec
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import Sequences, make_sequences
from plan2vec.domains.maze import simulate
from plan2vec.evaluation import default_rule
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.readers.npz import write_npz
from plan2vec.runs.changing import finish_replacement, replacing_together
from plan2vec.runs.products import load_graph, write_manifest
from plan2vec.runs.struck import judge

QUICK = Config(
    local_metric=LocalMetricConfig(num_updates=40, batch_size=32),
    embedding=EmbeddingConfig(num_updates=30, goals_per_update=16, nodes_per_update=32, goals_per_round=32),
)


def part_of(sequences: Sequences, chosen: np.ndarray) -> Sequences:
    recorded = {name: getattr(sequences, name) for name in ("position", "action", "step_length", "time")}
    kept = {name: value[chosen] for name, value in recorded.items() if value is not None}
    return replace(sequences, frames=sequences.frames[chosen], sequence=sequences.sequence[chosen], **kept)


@pytest.fixture(scope="module")
def everything() -> Sequences:
    return simulate("c-maze", 50, seed=1)


@pytest.fixture(scope="module")
def halves(everything) -> tuple[Sequences, Sequences]:
    first = everything.sequence < 25
    return part_of(everything, first), part_of(everything, ~first)


@pytest.fixture(scope="module")
def half(halves, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("half") / "run"
    plan2vec.fit(halves[0], QUICK, folder, device="cpu")
    return folder


@pytest.fixture(scope="module")
def grown(half, halves, tmp_path_factory):
    folder = tmp_path_factory.mktemp("grown") / "run"
    shutil.copytree(half, folder)
    return plan2vec.add(folder, halves[1], device="cpu")


@pytest.fixture
def copy(half, tmp_path) -> Path:
    shutil.copytree(half, tmp_path / "run")
    return tmp_path / "run"


def edges_of(graph) -> dict[tuple[int, int], float]:
    return dict(
        zip(zip(edge_rows(graph).tolist(), graph.indices.tolist(), strict=True), graph.data.tolist(), strict=True)
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------------------------------------------- what a grown map
# is


def test_old_frames_keep_numbers_bytes_labels_and_edges(half, grown, halves):
    old, new = plan2vec.load(half, "cpu"), grown.model
    num_old = old.sequences.num_frames
    assert new.sequences.num_frames == num_old + halves[1].num_frames
    assert (
        new.sequences.frames[:num_old] == halves[0].frames
    ).all() and (new.sequences.frames[num_old:] == halves[1].frames).all()
    assert (new.sequences.sequence[:num_old] == old.sequences.sequence).all()
    assert (new.sequences.position[num_old:] == halves[1].position).all()
    between_old = {pair: value for pair, value in edges_of(new.graph).items() if max(pair) < num_old}
    assert between_old == edges_of(old.graph)


def test_the_report_counts_what_the_grown_graph_holds(half, grown):
    old, new, report = plan2vec.load(half, "cpu"), grown.model, grown.report
    num_old = old.sequences.num_frames
    closure = closure_entries(new.graph, new.sequences.sequence)
    row, column = edge_rows(new.graph)[closure], new.graph.indices[closure]
    assert report["closures"]["new_old"] == np.count_nonzero((row < num_old) & (column >= num_old)) > 0
    assert report["closures"]["new_new"] == np.count_nonzero((row >= num_old) & (column > row)) > 0
    assert report["frames"] == {"before": 250, "after": 500} and report["sequences"] == {"before": 25, "after": 50}
    assert report["updates"] == 10  # a third of the fit's
    # 0: the block pressed a wall
    assert new.radius == old.radius and set(new.graph.data[~closure].tolist()) == {0.0, 1.0}
    assert (new.graph.data[closure] <= old.radius).all()


def test_labels_of_new_sequences_are_numbered_after_the_old_ones_whatever_they_were(copy, halves):
    clashing = replace(halves[1], sequence=halves[1].sequence[::-1] * 0 + np.repeat(np.arange(25)[::-1], 10))
    model = plan2vec.add(copy, clashing, num_updates=1, device="cpu").model
    assert model.sequences.sequence.tolist() == np.repeat(np.arange(50), 10).tolist()


def test_a_grown_map_is_about_as_good_as_a_map_of_everything(tmp_path):
    """C-Maze seen as smooth functions of the position instead of images, so that 1,000 frames are quick to learn."""
    rooms = simulate("c-maze", 100, seed=3)
    waves = np.concatenate([np.sin(scale * rooms.position) for scale in (3, 7)] + [rooms.position], axis=1)
    seen = make_sequences(waves, rooms.sequence, position=rooms.position, domain=rooms.domain)
    config = replace(
        QUICK, local_metric=LocalMetricConfig(num_updates=150, batch_size=128),
        embedding=EmbeddingConfig(num_updates=600)
    )
    rule = replace(default_rule(rooms), episodes=500)
    whole = plan2vec.evaluate(plan2vec.fit(seen, config, device="cpu"), rule)
    plan2vec.fit(part_of(seen, seen.sequence < 50), config, tmp_path / "run", device="cpu")
    grown = plan2vec.evaluate(
        plan2vec.add(tmp_path / "run", part_of(seen, seen.sequence >= 50), device="cpu").model, rule
    )
    assert whole["success"] > 0.5 and whole["spearman_true"] > 0.95  # the map of everything is good
    assert grown["num_frames"] == 1000 and grown["false_edge_share"] <= whole["false_edge_share"] + 1e-3
    assert grown["success"] > whole["success"] - 0.05 and grown["spearman_true"] > whole["spearman_true"] - 0.03


def test_fine_tuning_teaches_the_map_the_new_frames(half, grown, halves):
    untaught = plan2vec.load(half, "cpu")
    model = grown.model
    first, second = np.random.default_rng(0).integers(250, 500, (2, 500))
    from plan2vec.search.shortest_paths import distances_from

    exact = distances_from(model.graph, first)[np.arange(500), second]
    known = np.isfinite(exact) & (exact > 0)
    error = lambda distance: np.mean(np.abs(distance - exact)[known] / exact[known])  # noqa: E731
    before = error(untaught.distance(halves[1].frames[first - 250], halves[1].frames[second - 250]))
    assert error(model.distance_between(first, second)) < before


def test_data_json_remembers_where_every_frame_came_from(copy, halves):
    more = simulate("c-maze", 5, seed=9)
    plan2vec.add(copy, replace(halves[1], source="tuesday.npz"), num_updates=1, device="cpu")
    plan2vec.add(copy, replace(more, source="friday.npz"), num_updates=1, device="cpu")
    data = json.loads((copy / "data.json").read_text())
    assert [(part["source"], part["first_frame"], part["num_frames"]) for part in data["added"]] == [
        ("tuesday.npz", 250, 250), ("friday.npz", 500, 50),
    ]
    assert data["num_frames"] == 550 and data["num_sequences"] == 55


def test_struck_closures_stay_struck_and_other_numbers_mean_the_same(copy, halves):
    model = plan2vec.load(copy, "cpu")
    entry = int(np.flatnonzero(closure_entries(model.graph, model.sequences.sequence))[0])
    pair = tuple(sorted((int(edge_rows(model.graph)[entry]), int(model.graph.indices[entry]))))
    judge(copy, model.graph, model.sequences.sequence, [pair])
    grown = plan2vec.add(copy, halves[1], num_updates=1, device="cpu").model
    assert pair not in edges_of(grown.graph) and pair in edges_of(load_graph(copy / "graph.npz").graph)


def test_step_lengths_keep_the_unit_of_the_old_recordings(tmp_path):
    """New steps twice as long as the old ones weigh 2, and recordings without step lengths weigh 1."""
    walk = np.random.default_rng(0).normal(0, 1, (60, 3)).cumsum(axis=0).astype(np.float32)
    labels = np.repeat([0, 1, 2], 20)
    with_length = lambda length: make_sequences(walk, labels, step_length=np.full(60, length))  # noqa: E731
    plan2vec.fit(with_length(0.5), QUICK, tmp_path / "run", device="cpu")
    plan2vec.add(tmp_path / "run", with_length(1.0), num_updates=1, device="cpu")
    graph = plan2vec.add(tmp_path / "run", make_sequences(walk, labels), num_updates=1, device="cpu").model.graph
    assert [round(float(graph[first, first + 1]), 5) for first in (0, 59 - 1, 60, 118, 120, 178)] == [1, 1, 2, 2, 1, 1]


def test_recordings_that_meet_the_map_nowhere_are_added_with_a_warning(tmp_path, caplog):
    walk = np.random.default_rng(0).normal(0, 0.1, (80, 2)).cumsum(axis=0).astype(np.float32)
    plan2vec.fit(make_sequences(walk), QUICK, tmp_path / "run", device="cpu")
    report = plan2vec.add(tmp_path / "run", make_sequences(walk + 1000), num_updates=1, device="cpu").report
    assert report["parts"]["after"] == report["parts"]["before"] + 1 and report["closures"]["new_old"] == 0
    assert "80 of the 80 new frames are joined to nothing on the old map" in caplog.text


# ---------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("sequences", "words"),
    [
        (make_sequences(np.random.default_rng(0).integers(0, 255, (20, 32, 32), dtype=np.uint8)),
         r"\(64, 64, 1\).*\(32, 32, 1\)"),
        (make_sequences(np.random.default_rng(0).normal(size=(20, 5))), r"uint8.*float32"),
    ],
    ids=["shape", "type"],
)
def test_unlike_frames_are_refused_and_nothing_changes(copy, sequences, words):
    before = contents(copy)
    with pytest.raises(ValueError, match=words):
        plan2vec.add(copy, sequences, device="cpu")
    assert contents(copy) == before and not list(copy.glob(".plan2vec-replacing-*"))


def test_a_map_with_held_out_sequences_is_refused(copy, halves):
    settings = json.loads((copy / "config.json").read_text()) | {"holdout": 0.2}
    (copy / "config.json").write_text(json.dumps(settings))
    write_manifest(copy)
    with pytest.raises(ValueError, match="holdout 0.2 cannot grow"):
        plan2vec.add(copy, halves[1], device="cpu")


def test_an_unfinished_run_is_refused(copy, halves):
    (copy / "vectors.npy").unlink()
    with pytest.raises(ValueError, match="no finished run, without vectors.npy"):
        plan2vec.add(copy, halves[1], device="cpu")


def test_a_grown_folder_is_not_taken_for_a_fit_of_the_old_recordings(grown, halves, everything):
    for recordings in (halves[0], everything):
        with pytest.raises(ValueError, match="has grown by .* not fitted again"):
            plan2vec.fit(recordings, QUICK, grown.model.folder, device="cpu")


# ---------------------------------------------------------------------------------------------------- killed at any
# moment


def frames_and_vectors(folder: Path) -> tuple[int, int, int, int]:
    """Sizes of everything that must agree in a loaded run."""
    model = plan2vec.load(folder, "cpu")
    return model.sequences.num_frames, len(model.sequences.sequence), model.graph.shape[0], len(model.vectors)


def test_at_every_change_of_a_file_name_the_folder_is_the_old_run_or_the_grown_one(copy, halves, tmp_path, monkeypatch):
    """Before and after each rename, what a kill would leave is copied; each copy must open whole, and never go back to
    the old run.
    """
    snapshots: list[Path] = []

    def watched(change):
        def wrapper(*arguments, **named):
            snapshots.append(Path(shutil.copytree(copy, tmp_path / f"killed-{len(snapshots)}")))
            return change(*arguments, **named)

        return wrapper

    with monkeypatch.context() as patch:
        for name in ("rename", "replace", "rmdir", "unlink"):
            patch.setattr(os, name, watched(getattr(os, name)))
        plan2vec.add(copy, halves[1], num_updates=1, device="cpu")
    between = [
        len([name for name in contents(folder) if name.startswith(".plan2vec-replacement/")]) for folder in snapshots
    ]
    sizes = [frames_and_vectors(folder) for folder in snapshots]
    assert {num for num in between if num} >= {1, 2, 3, 4, 5, 6}  # the test did look between all the moves
    assert set(sizes) == {(250,) * 4, (500,) * 4} and sizes == sorted(sizes)
    leftover = next(folder for folder in reversed(snapshots) if list(folder.glob(".plan2vec-replacing-*")))
    assert plan2vec.add(leftover, halves[1], num_updates=1, device="cpu").report["frames"]["after"] == 500
    assert not list(leftover.glob(".plan2vec-[dr]*")) and not (leftover / ".plan2vec-replacement").exists()


ADD_ALONE = """
import sys, plan2vec
print("started", flush=True)
plan2vec.add(sys.argv[1], plan2vec.read(sys.argv[2]), device="cpu")
"""


def test_a_killed_add_can_be_repeated(copy, halves, tmp_path):
    write_npz(tmp_path / "new.npz", halves[1])
    process = subprocess.Popen([sys.executable, "-c", ADD_ALONE, copy, tmp_path / "new.npz"], stdout=subprocess.PIPE)
    process.stdout.readline()
    while process.poll() is None and not list(copy.glob(".plan2vec-replacing-*/frames.npy")):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert frames_and_vectors(copy) == (250,) * 4 and list(copy.glob(".plan2vec-replacing-*"))
    assert plan2vec.add(copy, halves[1], num_updates=1, device="cpu").report["frames"]["after"] == 500
    assert not list(copy.glob(".plan2vec-replacing-*"))


def test_a_failure_inside_a_replacement_leaves_everything_as_it_was(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(RuntimeError), replacing_together(tmp_path) as staged:
        (staged / "a").write_text("new")
        raise RuntimeError
    assert contents(tmp_path) == {"a": b"old"} and [path.name for path in tmp_path.iterdir()] == ["a"]


def test_settling_moves_the_rest_and_removes_what_describes_the_old_files(tmp_path):
    for name, text in (
        ("data.json", "new"), ("graph.npz", "old"), ("scorecard.json", "of the old"), ("struck.json", "a person's")
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / ".plan2vec-replacement").mkdir()
    (tmp_path / ".plan2vec-replacement" / "graph.npz").write_text("new")
    finish_replacement(tmp_path)
    assert contents(tmp_path) == {"data.json": b"new", "graph.npz": b"new", "struck.json": b"a person's"}


def test_recordings_that_are_on_the_map_are_not_added_again(grown, halves):
    for recordings in halves:
        again = plan2vec.add(grown.model.folder, recordings, device="cpu")
        assert again.report["already_on_the_map"] and again.report["frames"] == {"before": 500, "after": 500}
        assert again.model.sequences.num_frames == 500
