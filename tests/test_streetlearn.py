"""Processed StreetLearn folders, on small ones made here: walks in order, places in metres, pickles only where they are
trusted.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import samples

from plan2vec import ReadOptions, read
from plan2vec.commands.main import main
from plan2vec.domains import find_domain
from plan2vec.readers import ReadWarning, find_format, streetlearn

TRUSTED = ReadOptions(trust_pickle=True)


def write(place: Path, **more) -> Path:
    return samples.write_streetlearn(place / "streets", **more)


def objects(file: Path, values: list) -> None:
    array = np.empty(len(values), object)
    array[:] = values
    np.save(file, array, allow_pickle=True)


def left(frame: np.ndarray) -> int:
    """Which view a frame shows: the block's left edge moves by two of 104 pixels a view."""
    bright = (frame[12:24, :, 0] > 120).mean(axis=0) > 0.5
    return round(float(bright.argmax()) * 104 / 64 / 2)


def test_walks_come_back_in_order_as_gray_frames_of_the_views_they_name(tmp_path):
    path = write(tmp_path)
    found = read(path, TRUSTED)
    assert find_format(path) is streetlearn
    assert found.frames.shape == (9, 64, 64, 1) and found.source_size == (104, 52)
    assert found.sequence.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2]
    assert [left(frame) for frame in found.frames] == [0, 1, 2, 3, 5, 4, 3, 2, 3]  # across the chunks 0-2, 3-5, 6
    assert np.array_equal(found.frames[3], found.frames[6])


def test_positions_and_steps_are_metres_over_the_ground(tmp_path):
    found = read(write(tmp_path), TRUSTED)
    degree = np.pi / 180 * 6_371_000
    assert found.position is not None and np.allclose(found.position[:, 0], 0, atol=1e-6)
    assert np.diff(found.position[:4, 1]) == pytest.approx(1e-4 * degree)
    assert found.step_length[[0, 1, 2, 4, 5, 7]] == pytest.approx(1e-4 * degree) and np.isnan(
        found.step_length[[3, 6, 8]]
    ).all()


def test_a_degree_of_longitude_is_shorter_by_the_cosine_of_the_latitude(tmp_path):
    path = write(tmp_path)
    objects(path / "coords.npy", [{"lat": 60.0, "lng": 1e-4 * view} for view in range(7)])
    east = read(path, TRUSTED).position[:4, 0]
    assert np.diff(east) == pytest.approx(0.5 * 1e-4 * np.pi / 180 * 6_371_000, rel=1e-5)


def test_evaluation_knows_the_success_rule_of_streets(tmp_path):
    domain = find_domain(read(write(tmp_path), TRUSTED).domain)
    assert domain is not None and domain.success.radius == 20 and domain.unit == "m"


def test_options_thin_colour_and_size_the_views(tmp_path):
    path = write(tmp_path, walks=((0, 1, 2, 3), (5, 4, 3)))
    found = read(path, ReadOptions(trust_pickle=True, every=2, rgb=True, size=32))
    assert found.frames.shape == (4, 32, 32, 3) and found.sequence.tolist() == [0, 0, 1, 1]
    assert found.step_length[0] == pytest.approx(2e-4 * np.pi / 180 * 6_371_000)
    assert read(path, ReadOptions(trust_pickle=True, crop="0,0,52,52")).frames.shape == (7, 52, 52, 1)


def test_plain_arrays_need_no_trust(tmp_path):
    path = write(tmp_path)
    np.save(path / "coords.npy", np.stack([40.7 + 1e-4 * np.arange(7), np.full(7, -74.0)], axis=1))
    np.save(path / "trajs.npy", np.array([[0, 1, 2], [6, 5, 4]]))
    assert [left(frame) for frame in read(path).frames] == [0, 1, 2, 6, 5, 4]


def test_a_walk_breaks_where_a_view_cannot_be_read(tmp_path):
    path = write(tmp_path, walks=((0, 1, 2, 3, 4), (4, 3, 2)))
    chunk = np.load(path / "view_512" / "chunk_0000.npy")
    chunk[2] = b"no picture"
    np.save(path / "view_512" / "chunk_0000.npy", chunk)
    with pytest.warns(ReadWarning, match=r"1 of 5 views skipped: view 2 \("):
        found = read(path, TRUSTED)
    assert [
        left(frame) for frame in found.frames
    ] == [0, 1, 3, 4, 4, 3] and found.sequence.tolist() == [0, 0, 1, 1, 2, 2]


def test_inspect_prints_one_object(tmp_path, capsys):
    assert main(["inspect", str(write(tmp_path)), "--trust-pickle", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["format"] == "processed StreetLearn folder" and answer["num_frames"] == 9 and answer[
        "num_sequences"
    ] == 3
    assert answer["position"] == 2 and answer["step_length"] is True and answer["frame_shape"] == [64, 64, 1]


class Trap:
    def __reduce__(self):
        return print, ("sprung",)


def chunk(path: Path, number: int, array: np.ndarray) -> None:
    np.save(path / "view_512" / f"chunk_{number:04d}.npy", array)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def remove_chunks(path: Path) -> None:
    for file in (path / "view_512").iterdir():
        file.unlink()


REFUSED = {
    "a chunk in the middle is missing": (
        lambda p: (p / "view_512/chunk_0001.npy").unlink(), "4 images for 7 views of coords.npy"
    ),
    "the last chunk is missing": (
        lambda p: (p / "view_512/chunk_0002.npy").unlink(), "6 images for 7 views of coords.npy"
    ), "no chunk at all": (remove_chunks, "0 images for 7 views of coords.npy"),
    "a chunk of numbers": (
        lambda p: chunk(p, 1, np.zeros((3, 4), np.uint8)), "expected byte strings (n,), one JPEG each"
    ), "a chunk of text": (lambda p: chunk(p, 1, np.array(["a", "b", "c"])), "expected byte strings"),
    "a chunk of objects": (lambda p: objects(p / "view_512/chunk_0001.npy", [b"a"] * 3), "does it hold bytes?"),
    "a cut chunk": (lambda p: cut(p / "view_512/chunk_0001.npy"), "chunk_0001.npy cannot be read as .npy"),
    "chunks without pictures": (
        lambda p: [chunk(p, k, np.array([b"x"] * (3, 3, 1)[k])) for k in range(3)],
        "none of 6 views that were tried can be read: view 0 ("
    ),
    "a walk to a view that is not there": (
        lambda p: objects(p / "trajs.npy", [[0, 1], [6, 7]]), "names view 7, beyond the last, 6"
    ), "a walk to a view before the first": (lambda p: objects(p / "trajs.npy", [[0, -1]]), "walk 0 names view -1"),
    "a walk of words": (lambda p: objects(p / "trajs.npy", [[0, 1], ["a"]]), "but walk 1 is none"),
    "walks that are numbers": (lambda p: objects(p / "trajs.npy", [1, 2]), "but walk 0 is none"),
    "walks of fractions": (lambda p: np.save(p / "trajs.npy", np.zeros((2, 3))), "but walk 0 is none"),
    "no walks": (lambda p: objects(p / "trajs.npy", [[], []]), "it holds no walk"),
    "a walk that is no list": (lambda p: np.save(p / "trajs.npy", np.int64(3)), "it holds no walk"),
    "walks of one view each": (lambda p: objects(p / "trajs.npy", [[0], [1]]), "every sequence has length 1"),
    "coordinates without longitude": (lambda p: objects(p / "coords.npy", [{"lat": 1.0}] * 7), "not so view 0"),
    "coordinates that are text": (
        lambda p: objects(p / "coords.npy", [{"lat": "1", "lng": "2"}] * 7), "not so view 0"
    ),
    "coordinates off the globe": (
        lambda p: np.save(p / "coords.npy", np.full((7, 2), 200.0)), "view 0 must have a latitude"
    ),
    "coordinates that are not numbers": (
        lambda p: np.save(p / "coords.npy", np.full((7, 2), np.nan)), "view 0 must have a latitude"
    ),
    "coordinates of three columns": (lambda p: np.save(p / "coords.npy", np.zeros((7, 3))), "not float64 (7, 3)"),
    "cut coordinates": (lambda p: cut(p / "coords.npy"), "coords.npy cannot be read as .npy"),
    "a trap": (lambda p: objects(p / "coords.npy", [Trap()]), "only arrays are admitted"),
    "all views at one place": (
        lambda p: np.save(p / "coords.npy", np.ones((7, 2))), "step_length must be finite, never negative"
    )
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line(name, tmp_path, capsys):
    change, words = REFUSED[name]
    path = write(tmp_path)
    change(path)
    assert main(["inspect", str(path), "--trust-pickle", "--json"]) == 2
    captured = capsys.readouterr()
    line = captured.err.strip().splitlines()[-1]
    assert captured.out == "" and "sprung" not in captured.err and line.startswith("plan2vec: ")
    assert words in line and str(path) in line and len(line) < 1000


def test_pickles_are_refused_unless_trusted(tmp_path):
    path = write(tmp_path)
    with pytest.raises(
        ValueError, match=r"coords.npy is a pickle, which can run any program; plain arrays only, or --trust-pickle"
    ):
        read(path)


def test_a_rate_is_refused_and_a_crop_beyond_the_views(tmp_path):
    with pytest.raises(ValueError, match="use --every here"):
        read(write(tmp_path), ReadOptions(trust_pickle=True, rate=2.0))
    with pytest.raises(
        ValueError, match=r"6 of 6 views cannot be read: view 0 \(104 x 52 pixels, smaller than --crop 0,0,200,50\)"
    ):
        read(tmp_path / "streets", ReadOptions(trust_pickle=True, crop="0,0,200,50"))
