"""Run folders from elsewhere, and folders that are none: nothing of the user's is lost, and nothing received runs."""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import networkx
import numpy as np
import pytest

import plan2vec
from plan2vec.commands.main import main
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.runs.products import write_manifest

QUICK = Config(
    local_metric=LocalMetricConfig(num_updates=5, batch_size=16),
    embedding=EmbeddingConfig(num_updates=5, goals_per_update=8, nodes_per_update=16, goals_per_round=16),
)
COMMANDS = [
    ["plan", "--start", "0", "--goal", "5"], ["evaluate"], ["report"], ["add", "more.npz"], ["closures"],
    ["explore", "--no-browser"], ["relabel", "recordings.npz", "--out", "relabelled.npz"],
    ["progress", "--out", "progress.csv"], ["export", "--format", "csv", "--out", "tables"], ["audit"]
]
NETWORK = """
from pathlib import Path
Path({touched!r}).write_text("ran")
from plan2vec.learning.encoders import mlp
def make(shape, dim):
    return mlp(shape[0], dim)
"""


def recordings(seed: int) -> plan2vec.Sequences:
    walks = np.random.default_rng(seed).normal(0, 0.2, (6, 20, 2)).cumsum(axis=1)
    return plan2vec.make_sequences(walks.reshape(-1, 2), np.repeat(np.arange(6), 20))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fitted") / "run"
    plan2vec.fit(recordings(0), QUICK, folder, device="cpu")
    return folder


@pytest.fixture
def place(fitted, tmp_path, monkeypatch) -> Path:
    """A working directory with a run, recordings to add, and a folder of the user's."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(fitted, tmp_path / "run")
    for name, seed in (("recordings", 0), ("more", 1)):
        taken = recordings(seed)
        np.savez(tmp_path / f"{name}.npz", observations=taken.frames, sequence=taken.sequence)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("three years")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def on(run: str, command: list[str]) -> list[str]:
    return [command[0], run, *command[1:]]


# ---------------------------------------------------------------------------------------------------- folders that are
# no run


def test_a_refused_fit_deletes_nothing(place, capsys):
    for name in (".thesis.tex.tmp", ".data.json.1.tmp.json", "deep/.notes.tmp.txt"):
        (place / "mine" / name).parent.mkdir(exist_ok=True)
        (place / "mine" / name).write_text("mine")
    before = contents(place)
    for out in ("mine", "."):
        assert main(["fit", "recordings.npz", "--out", out]) == 2
        assert "is no run folder" in capsys.readouterr().err
    assert contents(place) == before


@pytest.mark.parametrize("marked", ["no data.json", "a data.json of another program"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_folder_that_is_no_run_is_left_as_it_is(place, command, marked, capsys):
    for replacement in ("grown", ".plan2vec-replacement"):
        (place / "mine" / replacement).mkdir()
        (place / "mine" / replacement / "report.html").write_text("inner")
    for name in ("report.html", "scorecard.json"):
        (place / "mine" / name).write_text("outer")
    if marked.startswith("a data.json"):
        (place / "mine" / "data.json").write_text("{}")
    before = contents(place)
    assert main(on("mine", command)) == 2
    words = "holds no images" if command[0] == "audit" else "is not a run folder"  # an audit also takes recordings
    assert words in capsys.readouterr().err and contents(place) == before


# ---------------------------------------------------------------------------------------------------- links inside a
# run


def test_a_link_in_place_of_a_replacement_is_not_followed(place):
    os.symlink(place / "mine", place / "run" / ".plan2vec-replacement")
    (place / "mine" / "graph.npz").write_text("mine")
    before = contents(place / "mine")
    assert plan2vec.load("run", "cpu").graph.nnz > 0
    with pytest.raises(ValueError, match="replacement must be a folder, but is a link"):
        plan2vec.add("run", recordings(1), num_updates=1, device="cpu")
    assert contents(place / "mine") == before


@pytest.mark.parametrize(
    "command", [["report"], ["plan", "--start", "0", "--goal", "5", "--method", "dijkstra"]],
    ids=lambda command: command[0],
)
def test_pictures_are_not_written_through_a_link(place, command, capsys):
    shutil.rmtree(place / "run" / "figures", ignore_errors=True)
    os.symlink(place / "mine", place / "run" / "figures")
    (place / "mine" / "map.png").write_text("mine")
    before = contents(place / "mine")
    assert main(on("run", command)) == 2
    assert "figures must be a folder, but is a link" in capsys.readouterr().err and contents(place / "mine") == before


def test_a_log_that_is_a_link_is_not_written_through(place):
    (place / "run" / "metrics.jsonl").unlink()
    os.symlink(place / "mine" / "thesis.txt", place / "run" / "metrics.jsonl")
    (place / "run" / "vectors.npy").unlink()
    with pytest.raises(ValueError, match=r"metrics\.jsonl must be a file, but is a link"):
        plan2vec.fit(recordings(0), QUICK, "run", device="cpu")
    assert (place / "mine" / "thesis.txt").read_text() == "three years"


@pytest.mark.parametrize("command, written", [
    (["evaluate"], ["scorecard.json"]), (["report"], ["scorecard.json", "report.html"]),
    (["audit"], ["audit.html", "audit.json"]), (["progress", "--goals", "0:19", "--out", "run/p.csv"], ["p.csv"]),
], ids=lambda value: value[0])
def test_files_that_are_links_are_replaced_and_not_written_through(place, command, written):
    for name in written:
        for link in (name, f".{name}.{os.getpid()}.tmp{Path(name).suffix}"):  # its temporary name can be guessed too
            (place / "run" / link).unlink(missing_ok=True)
            (place / "run" / link).symlink_to(place / "mine" / "thesis.txt")
    assert main([*on("run", command), "--device", "cpu"]) == 0
    assert contents(place / "mine") == {"thesis.txt": b"three years"}
    assert not any((place / "run" / name).is_symlink() for name in written) and not list(place.glob("run/.*.tmp*"))


def test_a_name_that_no_file_can_hold_is_shown_in_letters(place, capsys):
    data = json.loads((place / "run" / "data.json").read_text())
    (place / "run" / "data.json").write_text(json.dumps(data | {"source": "\x01 <script> \ud800"}))
    write_manifest(place / "run")
    for command in (["report"], ["audit"], ["export", "--format", "graphml", "--out", "map.graphml"]):
        assert main([*on("run", command), "--device", "cpu"]) == 0, capsys.readouterr().err
    assert networkx.read_graphml(place / "map.graphml").number_of_nodes() == 120
    pages = [(place / "run" / name).read_text() for name in ("report.html", "audit.html")]
    assert all(r"\x01 &lt;script&gt; \ud800" in page for page in pages)


# ---------------------------------------------------------------------------------------------------- code


@pytest.fixture
def with_code(place) -> Path:
    """A run that names a module lying in it, as a received one may."""
    (place / "run" / "net.py").write_text(NETWORK.format(touched=str(place / "touched")))
    plan2vec.fit(recordings(0), replace(QUICK, encoder="run.net:make"), place / "fresh", device="cpu")
    shutil.copytree(place / "fresh", place / "run", dirs_exist_ok=True)
    for name in ("run.net", "run"):  # nobody has imported them yet
        sys.modules.pop(name, None)
    (place / "touched").unlink()
    write_manifest(place / "run")  # as who made the folder can
    return place


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_received_run_starts_no_code_of_its_own(with_code, command, capsys):
    searched = list(sys.path)
    assert main(on("run", command)) == 2
    assert "add --encoder run.net:make to the command" in capsys.readouterr().err
    assert not (with_code / "touched").exists() and sys.path == searched


def test_code_that_the_user_names_again_runs_and_the_working_directory_is_searched_no_longer(with_code, capsys):
    searched = list(sys.path)
    assert main(["evaluate", "run", "--encoder", "run.net:make", "--device", "cpu"]) == 0
    assert (with_code / "touched").exists() and sys.path == searched
    assert main(
        ["evaluate", "run", "--encoder", "other:make"]
    ) == 2 and "but --encoder other:make was given" in capsys.readouterr().err
    assert plan2vec.load("run", "cpu", encoder="run.net:make").vectors.shape[1] == 32


@pytest.mark.parametrize("name", ["..x:y", "kitchen-map.net:make", ":make", "os:"])
def test_what_is_no_name_of_a_module_and_a_factory_is_refused(place, name, capsys):
    assert main(["fit", "recordings.npz", "--out", "new", "--encoder", name]) == 2
    assert "must be module:factory" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- the same command
# twice


def test_an_add_that_was_killed_at_its_report_adds_nothing_when_it_is_repeated(place, capsys):
    command = ["add", "run", "more.npz", "--num-updates", "1", "--device", "cpu", "--json"]
    assert main(command) == 0
    (place / "run" / "report.html").unlink()  # as a kill at that moment leaves it
    (place / "run" / "scorecard.json").unlink()
    capsys.readouterr()
    assert main(command) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["frames"] == {
        "before": 240, "after": 240
    } and "is on this map already" in printed.err
    assert (place / "run" / "report.html").exists() and plan2vec.load("run", "cpu").sequences.num_frames == 240
