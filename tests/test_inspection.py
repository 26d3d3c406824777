"""`plan2vec inspect` says what is there, the sheet shows it, and a fitted run prepares images as its recordings were
prepared.
"""

import json

import numpy as np
import pytest
import samples
from PIL import Image

from plan2vec.commands.main import main
from plan2vec.config import ReadOptions
from plan2vec.model import load
from plan2vec.pictures.frame_grids import inspection_sheet, sheet_words
from plan2vec.readers import describe, read, recorded_rate

QUICK = (
    "--local-metric.num-updates",
    "5",
    "--local-metric.batch-size",
    "16",
    "--embedding.num-updates",
    "3",
    "--dim",
    "2",
    "--device",
    "cpu",
)


def inspected(capsys, *arguments: str) -> dict:
    assert main(["inspect", *arguments, "--json"]) == 0
    told = capsys.readouterr()
    assert ("the sheet shows " in told.err) == ("--sheet" in arguments)
    return json.loads(told.out)


def test_inspect_names_what_would_be_read(tmp_path, capsys):
    film = samples.write_video(tmp_path / "film.mp4", samples.moving_block(20, 96, 128), rate=10)
    told = inspected(capsys, str(film), "--every", "2", "--sheet", str(tmp_path / "sheet.png"))
    assert told == {
        "source": str(film), "format": "video", "num_sequences": 1, "num_frames": 10,
        "lengths": {"shortest": 10, "median": 10.0, "longest": 10}, "kind": "images", "frame_shape": [64, 64, 3],
        "channels": 3, "source_size": [128, 96], "rate": 5.0, "position": 0, "action": 0, "step_length": False,
        "time": True, "warnings": [], "sheet": str(tmp_path / "sheet.png")
    }
    with Image.open(tmp_path / "sheet.png") as sheet:
        yellow = (np.abs(np.asarray(sheet.convert("RGB")).astype(int) - (250, 200, 20)).max(axis=2) < 40).mean()
    assert 0.003 < yellow < 0.2  # the frames are on it, in colour


def test_people_read_words_for_what_was_and_was_not_recorded(tmp_path, capsys):
    np.savez(tmp_path / "walk.npz", observations=np.arange(18.0).reshape(6, 3), position=np.zeros((6, 2)))
    assert main(["inspect", str(tmp_path / "walk.npz")]) == 0
    told = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert told["position"].strip() == "2 numbers per frame" and told["action"].strip() == "none recorded"


def test_inspect_counts_positions_actions_and_lengths(tmp_path, capsys):
    told = inspected(
        capsys, str(samples.write_d4rl(tmp_path / "some.hdf5", ends=(4, 19))), "--sheet", str(tmp_path / "sheet.png")
    )
    assert (told["format"], told["kind"], told["frame_shape"], told["channels"]) == ("HDF5", "vectors", [4], None)
    assert (told["position"], told["action"], told["rate"]) == (2, 2, None)
    assert told["lengths"] == {
        "shortest": 5, "median": 10.0, "longest": 15
    } and (tmp_path / "sheet.png").stat().st_size > 5000


def test_a_sheet_is_a_png(tmp_path, capsys):
    assert main(["inspect", str(tmp_path), "--sheet", "sheet.jpg"]) == 2
    assert "--sheet must end in .png" in capsys.readouterr().err


def test_the_sheet_of_vectors_draws_a_few_sequences(tmp_path):
    found = read(samples.write_robomimic(tmp_path / "some.hdf5", lengths=(5,) * 9))
    assert len(inspection_sheet(found).axes) == 4
    assert sheet_words(found) == "4 of 9 sequences, at most 12 numbers of each vector"
    assert describe(found, "HDF5", ["careful"])["warnings"] == ["careful"] and recorded_rate(found) is None


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A run on a folder of pictures of 80 x 48 pixels of which the right part, 64 x 48, is kept in gray."""
    place = tmp_path_factory.mktemp("fitted")
    block = np.pad(samples.moving_block(30), ((0, 0), (0, 0), (16, 0), (0, 0)))
    folder = samples.write_images(place / "shots", block)
    assert main(["fit", str(folder), "--crop", "16,0,80,48", "--gray", "--out", str(place / "run"), *QUICK]) == 0
    return place, folder


def test_a_run_remembers_how_its_recordings_were_read(fitted):
    place, folder = fitted
    kept = json.loads((place / "run" / "data.json").read_text())
    assert kept["options"]["crop"] == "16,0,80,48" and kept["options"]["gray"] and kept["source_size"] == [80, 48]
    model = load(place / "run", "cpu")
    assert model.sequences.options == ReadOptions(
        crop="16,0,80,48", gray=True
    ) and model.sequences.frame_shape == (48, 64, 1)
    assert (model.sequences.frames == read(folder, model.sequences.options).frames).all()


def test_a_recorded_picture_given_as_start_is_found_as_its_own_frame(fitted, capsys):
    place, folder = fitted
    capsys.readouterr()
    for start in (7, 21):
        arguments = ("--start", str(folder / f"frame{start}.png"), "--goal", "3", "--method", "dijkstra")
        assert main(["plan", str(place / "run"), *arguments, "--device", "cpu", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["start"] == start


def test_the_same_command_goes_on_and_another_crop_is_other_data(fitted, capsys):
    place, folder = fitted
    command = ["fit", str(folder), "--gray", "--out", str(place / "run"), *QUICK]
    assert main([*command, "--crop", "16,0,80,48"]) == 0
    assert main([*command, "--crop", "0,0,64,48"]) == 2
    assert "holds a run on other data" in capsys.readouterr().err
