"""Odd input on every command: exit code 2, one line that says what is wrong, and nothing is written."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import samples
from PIL import Image

import plan2vec
from plan2vec.commands.main import main
from plan2vec.config import EmbeddingConfig, LocalMetricConfig
from plan2vec.readers.picture_to_frame import prepare_image

h5py = pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def start(room, tmp_path_factory) -> Path:
    """A run of images, one of vectors, and the recording of the second."""
    place = tmp_path_factory.mktemp("odd")
    shutil.copytree(room.folder, place / "run")
    walks = np.random.default_rng(0).normal(0, 0.2, (6, 20, 2)).cumsum(axis=1).reshape(-1, 2)
    np.savez(place / "walks.npz", observations=walks, sequence=np.repeat(np.arange(6), 20))
    quick = plan2vec.Config(local_metric=LocalMetricConfig(num_updates=5, batch_size=16),
                            embedding=EmbeddingConfig(num_updates=5, goals_per_update=8, nodes_per_update=16,
                                                      goals_per_round=16))
    plan2vec.fit(plan2vec.read(place / "walks.npz"), quick, place / "walks", device="cpu")
    (place / "folder").mkdir()
    (place / "12").write_text("a file whose name is a number")
    return place


@pytest.fixture
def place(start, tmp_path, monkeypatch) -> Path:
    shutil.copytree(start, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FEW = ("--local-metric.num-updates", "3", "--embedding.num-updates", "3")
FIT = ("fit", "walks.npz", "--out", "new", *FEW)
ODD = [
    (("plan", "run", "--start", "³", "--goal", "5"), "start must be a frame number"),
    (("plan", "run", "--start", "--5", "--goal", "5"), "start must be a frame number"),
    (("plan", "run", "--start", "0:³", "--goal", "5"), "expected sequence:index"),
    (("plan", "run", "--start", "9" * 60, "--goal", "5"), "start must be a frame number"),
    (("plan", "run", "--start", "0", "--goal", "5", "--strip", "noending"), "a picture's name must end in"),
    (("plan", "walks", "--start", "0", "--goal", "5", "--video", "a.gif"), "--video needs frames that are images"),
    (("closures", "run", "--strike", "³-5"), "must be a frame number"),
    (("closures", "run", "--picture", "folder"), "a picture's name must end in"),
    (("evaluate", "run", "--success-radius", "nan"), "--success-radius must be at least 0"),
    (("evaluate", "run", "--success-radius", "-1"), "--success-radius must be at least 0"),
    (("evaluate", "run", "--epsilon", "2"), "--epsilon must be from 0 to 1"),
    (("evaluate", "run", "--max-hops", "9" * 25), "--max-hops must be from 0"),
    (("evaluate", "run", "--false-beyond", "nan"), "--false-beyond must be at least 0"),
    (("evaluate", "run", "--min-gap", "-5"), "--min-gap must be from 0"),
    (("audit", "run", "--num", "-3"), "--num must be at least 1"),
    (("audit", "walks.npz", "--no-fit", "--page", "folder"), "folder cannot be written: Is a directory"),
    (("audit", "walks.npz", "--no-fit", "--csv", "folder"), "folder cannot be written: Is a directory"),
    (("progress", "run", "--out", "p.csv", "--goals", "0:³"), "expected sequence:index"),
    (("export", "run", "--format", "csv", "--out", "/proc/new"), "/proc/new cannot be written"),
    (("relabel", "walks", "walks.npz", "--out", "new.npz", "--scale", "1e300"), "rewards would not be finite"),
    (("relabel", "walks", "walks.npz", "--out", "new.npz", "--seed", "-1"), "--seed must be from 0 to"),
    (("relabel", "walks", "walks.npz", "--out", "new.npz", "--goal", "³"), "goal must be a frame number"),
    (("bench", "fit", "--smoke", "--sizes", "-1"), "--sizes must be at least 0"),
    (("reproduce", "lookahead", "--smoke", "--seeds", "0"), "--seeds must be at least 1"),
    (("add", "walks", "run/frames.npy"), "expected frames of shape"),
    (("explore", "run", "--no-browser", "--port", "99999"), "--port must be from 0 to 65,535"),
    (("explore", "run", "--no-browser", "--host", ""), "--host must be an address"),
    ((*FIT, "--seed", "9" * 30), "--seed must be from 0 to"), ((*FIT, "--dim", "1000000000"), "not enough memory"),
    ((*FIT, "--local-metric.batch-size", "9" * 12), "not enough memory"),
    ((*FIT, "--checkpoint-seconds", "nan"), "--checkpoint-seconds must be at least 0"),
    (("fit", "walks.npz", "--out", "walks.npz", *FEW), "exists and is no run folder"),
]


@pytest.mark.parametrize("arguments, words", ODD, ids=[" ".join(arguments)[:60] for arguments, _ in ODD])
def test_odd_input_is_refused_in_one_line_and_nothing_is_written(arguments, words, place, capsys):
    before = contents(place)
    assert main([*arguments, "--device", "cpu"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("plan2vec: ") and words in lines[-1] and not any("Traceback" in line for line in lines)
    assert contents(place) == before


def test_a_number_is_a_frame_whatever_files_there_are(place, capsys):
    assert main(["plan", "run", "--start", "12", "--goal", "13", "--method", "dijkstra", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["start"] == 12
    assert main(["relabel", "walks", "walks.npz", "--out", "new.npz", "--goal", "12", "--device", "cpu"]) == 0


def test_looking_farther_ahead_than_the_graph_is_wide_takes_no_longer(place, room):
    far, all_of_it = (room.plan(0, 150, "lookahead", depth) for depth in (10**9, room.sequences.num_frames))
    assert far == all_of_it


@pytest.mark.parametrize("shape", [(64, 64, 3), (32, 48, 1)])
def test_a_jpeg_is_the_same_frame_by_its_path_and_as_an_image(shape, tmp_path):
    """A file is decoded at a smaller size, as recordings are; an image that Pillow has opened, the same way."""
    Image.fromarray(samples.moving_block(1, 480, 640)[0]).save(tmp_path / "some.jpg")
    options = plan2vec.ReadOptions()
    by_path = prepare_image(tmp_path / "some.jpg", shape, options, (640, 480))
    with Image.open(tmp_path / "some.jpg") as image:
        assert np.array_equal(prepare_image(image, shape, options, (640, 480)), by_path)
        image.paste((0, 0, 0), (0, 0, 640, 480))  # decoded and changed: what is in memory counts
        assert not prepare_image(image, shape, options, (640, 480)).any()


@pytest.mark.parametrize("name", ["mark[/up].npz", "[bold]walks.npz", "schnee ❄ [link=x].npz"])
def test_markup_in_names_of_files_is_a_name(name, place, capsys):
    (place / name).parent.mkdir(exist_ok=True)
    shutil.copy(place / "walks.npz", place / name)
    assert main(["inspect", name]) == 0 and name in " ".join(capsys.readouterr().out.split())
    assert main(["audit", name, "--no-fit"]) == 0
    assert main(["progress", "walks", "--goals", "0:19", "--out", f"{name}.csv", "--device", "cpu"]) == 0
    (place / name).write_text("damaged")
    assert main(["inspect", name]) == 2 and name in capsys.readouterr().err


@pytest.mark.parametrize("scale", [1e-7, 1e-10, 1e-30, 1e30])
def test_the_unit_of_vectors_does_not_change_the_graph(scale, place):
    config = plan2vec.load("walks", "cpu").config
    walks = plan2vec.read("walks.npz")
    scaled = plan2vec.make_sequences(walks.frames * np.float32(scale), walks.sequence)
    model = plan2vec.fit(scaled, config, device="cpu")
    assert model.graph.nnz == plan2vec.load("walks", "cpu").graph.nnz and np.isfinite(model.vectors).all()


# ---------------------------------------------------------------------------------------------------- full disks, kills

WRITERS = [
    ("plan", "run", "--start", "0", "--goal", "5", "--method", "dijkstra"), ("evaluate", "run"), ("report", "run"),
    ("closures", "run"), ("audit", "run"), ("progress", "run", "--out", "p.csv", "--goals", "0:5"),
    ("progress", "run", "--out", "p.json", "--goals", "0:5"), ("export", "run", "--format", "csv", "--out", "tables"),
    ("export", "run", "--format", "graphml", "--out", "map.graphml"), ("inspect", "walks.npz", "--sheet", "sheet.png"),
    ("relabel", "walks", "walks.npz", "--out", "new.npz"), ("progress", "run", "--out", "p.parquet", "--goals", "0:5"),
]
ON_A_FULL_DISK = """
import json, resource, sys
from plan2vec.commands.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
for line in sys.stdin:
    print(main(json.loads(line)), file=sys.stderr, flush=True)
"""


def test_a_full_disk_is_said_in_one_line_by_every_command_that_writes(place):
    """Files may not grow beyond 600 bytes. The line names the file, and nothing half-written stays."""
    typed = [[*command, *(() if command[0] == "inspect" else ("--device", "cpu"))] for command in WRITERS]
    before = contents(place)
    done = subprocess.run([sys.executable, "-c", ON_A_FULL_DISK], input="\n".join(map(json.dumps, typed)),
                          capture_output=True, text=True, env=os.environ | {"MPLBACKEND": "agg"})
    refusals = [line for line in done.stderr.splitlines() if line.startswith("plan2vec: ")]
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert [line for line in done.stderr.splitlines() if line.isdigit()] == ["2"] * len(typed), done.stderr
    assert all("cannot be written: File too large; make room" in line for line in refusals), refusals
    after = {name: data for name, data in contents(place).items() if not name.endswith(".plan2vec-lock")}
    assert after == {name: data for name, data in before.items() if not name.endswith(".plan2vec-lock")}


STOPPED_BEFORE_ITS_RENAME = """
import os, signal, sys
from plan2vec.commands.main import main
def stop(event, arguments):
    if event == "os.rename" and "new" in str(arguments[1]):
        os.kill(os.getpid(), signal.SIGTERM)
sys.addaudithook(stop)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("dataset", ["walks.npz", "minari"])
def test_a_relabelling_that_is_stopped_leaves_no_copy_of_the_dataset(dataset, place):
    if dataset == "minari":
        samples.write_minari(place / "minari", "vectors")
        with h5py.File(place / "minari" / "data" / "main_data.hdf5", "r+") as file:
            for episode in file.values():
                positions = np.random.default_rng(0).normal(size=(len(episode["actions"]) + 1, 2))
                del episode["observations"]
                episode["observations"], episode["rewards"] = positions, np.zeros(len(positions) - 1)
    out = "new.npz" if dataset == "walks.npz" else "new"
    command = ["relabel", "walks", dataset, "--out", out, "--device", "cpu"]
    before = contents(place)
    done = subprocess.run([sys.executable, "-c", STOPPED_BEFORE_ITS_RENAME, *command], capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGTERM and "interrupted" in done.stderr, done.stderr
    assert contents(place) == before
    assert main(command) == 0 and (place / out).exists()
