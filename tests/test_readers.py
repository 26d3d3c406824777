"""The plain format comes back as written; every damaged file is refused by name, with a remedy, and no pickle is ever
opened.
"""

import pickle
import zipfile

import numpy as np
import pytest

from plan2vec.data import RECORDED, make_sequences
from plan2vec.readers import read
from plan2vec.readers.npz import write_npz


def frames(num=6):
    return np.random.default_rng(0).integers(0, 256, (num, 5, 7), dtype=np.uint8)


def refusal(path):
    """The message with which a path is refused; it names the path."""
    with pytest.raises(ValueError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.fixture
def refuse(tmp_path):
    """refuse(frames=..., ...): the message for a file of these arrays."""

    def refuse(**arrays):
        np.savez(tmp_path / "bad.npz", **arrays)
        return refusal(tmp_path / "bad.npz")

    return refuse


# ---------------------------------------------------------------------------------------------------- what is read


@pytest.mark.parametrize("kind", ["images", "vectors"])
def test_recordings_come_back_as_they_were_written(tmp_path, kind):
    rng = np.random.default_rng(1)
    written = make_sequences(
        rng.integers(0, 256, (6, 5, 7, 3), dtype=np.uint8) if kind == "images" else rng.normal(size=(6, 4)),
        np.array([3, 3, 3, 1, 1, 1]), position=rng.normal(size=(6, 2)), action=rng.normal(size=(6, 1)),
        step_length=np.array([1, 2, np.nan, 1, 1, np.nan]), time=np.arange(6.0), domain="c-maze",
        heading=np.arange(6.0), label=np.arange(6)
    )
    write_npz(tmp_path / "new" / "some.npz", written)
    back = read(str(tmp_path / "new" / "some.npz"))
    for name in ("frames", "sequence", *RECORDED):
        ours, theirs = getattr(back, name), getattr(written, name)
        assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"), name
    assert back.domain == "c-maze" and back.source.endswith("some.npz")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["some.npz"]


def test_what_is_not_given_is_none_and_unknown_names_are_ignored_even_when_they_are_pickles(tmp_path):
    np.savez(tmp_path / "some.npz", frames=frames(), notes=np.array([{}], object))
    back = read(tmp_path / "some.npz")
    assert back.frames.shape == (6, 5, 7, 1) and back.sequence.tolist() == [0] * 6
    assert back.position is back.action is back.step_length is back.time is back.domain is None


def test_a_floor_is_a_label(tmp_path):
    np.savez(tmp_path / "some.npz", frames=frames(), floor=np.arange(6), heading=np.arange(6.0))
    found = read(tmp_path / "some.npz")
    assert found.label.tolist() == found.heading.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_flat_position_is_one_coordinate(tmp_path):
    np.savez(tmp_path / "some.npz", frames=frames(), position=np.arange(6.0))
    assert read(tmp_path / "some.npz").position.shape == (6, 1)


# ---------------------------------------------------------------------------------------------------- what is refused


def test_a_missing_file_and_a_file_of_another_kind_are_refused(tmp_path):
    assert "does not exist" in (text := refusal(tmp_path / "none.npz")) and "expected an .npz file" in text
    (tmp_path / "film.xyz").write_bytes(b"film")
    assert "expected an .npz file" in refusal(tmp_path / "film.xyz")
    (tmp_path / "folder.npz").mkdir()
    assert "holds no images" in refusal(tmp_path / "folder.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_truncated_file_is_refused_wherever_it_was_cut(tmp_path, save):
    path = tmp_path / "some.npz"
    save(path, frames=frames(), sequence=np.zeros(6, int))
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        assert "is the file complete" in refusal(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_file_with_damaged_bytes_is_read_or_refused_but_raises_nothing_else(tmp_path, save):
    path = tmp_path / "some.npz"
    save(path, frames=frames(), sequence=np.zeros(6, int))
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    num_refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read(path)
        except ValueError as error:
            assert str(path) in str(error)
            num_refused += 1
    assert num_refused > 200


def test_text_and_a_bare_array_named_npz_are_refused(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    assert "is the file complete" in refusal(tmp_path / "text.npz")
    with open(tmp_path / "array.npz", "wb") as file:
        np.save(file, frames())
    assert "a bare array, not an archive of named arrays" in refusal(tmp_path / "array.npz")


def test_an_entry_that_is_no_array_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "some.npz", "w") as file:
        file.writestr("frames.npy", b"not an array at all")
    assert "frames is no array" in refusal(tmp_path / "some.npz")


class Trap:
    """Unpickling it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_inside_or_instead_of_the_file_never_runs(tmp_path):
    sprung = tmp_path / "sprung"
    pickle.loads(pickle.dumps(Trap(sprung))).close()
    assert sprung.exists()  # the trap works
    sprung.unlink()
    np.savez(tmp_path / "inside.npz", frames=np.array([Trap(sprung), Trap(sprung)], object))
    assert "plain arrays only" in refusal(tmp_path / "inside.npz")
    for name in ("sequence", "position", "domain"):
        np.savez(tmp_path / "beside.npz", frames=frames(), **{name: np.array([Trap(sprung)] * 6, object)})
        assert "plain arrays only" in refusal(tmp_path / "beside.npz")
    (tmp_path / "instead.npz").write_bytes(pickle.dumps(Trap(sprung)))
    assert "plain arrays only" in refusal(tmp_path / "instead.npz")
    assert not sprung.exists()


def test_both_or_none_of_frames_and_observations_are_refused(refuse):
    assert "exactly one of `frames`, `observations` and `features`, but has frames, observations" in refuse(
        frames=frames(), observations=np.zeros((6, 2))
    )
    assert "but has pictures" in refuse(pictures=frames())
    assert "but has nothing" in refuse()


def test_a_wrong_type_is_refused(refuse):
    assert "uint8 images" in (text := refuse(frames=frames() / 255)) and "astype('uint8')" in text
    assert "uint8 images" in refuse(frames=frames().astype(np.int32))
    assert "dtype is <U1" in refuse(frames=frames(), position=np.array(list("abcdef")))
    assert "sequence must hold integers" in refuse(frames=frames(), sequence=np.array(list("aaabbb")))
    assert "sequence must hold integers" in refuse(frames=frames(), sequence=np.zeros(6))


def test_a_wrong_shape_is_refused(refuse):
    assert "frames must have 3 or 4 axes, but has shape (6, 35)" in refuse(frames=frames().reshape(6, 35))
    assert "frames must have 3 or 4 axes, but has shape ()" in refuse(frames=np.uint8(3))
    assert "observations must have 2 axes, but has shape (6, 5, 7)" in refuse(observations=np.zeros((6, 5, 7)))
    assert "empty axis" in refuse(frames=np.zeros((6, 0, 7), np.uint8))
    assert "sequence must have shape (6,)" in refuse(frames=frames(), sequence=np.zeros((6, 1), int))
    assert "sequence has 0 entries" in refuse(frames=frames(), sequence=0)
    assert "position has 0 entries" in refuse(frames=frames(), position=1.5)
    assert "step_length must have shape (6,)" in refuse(frames=frames(), step_length=np.ones((6, 2)))


@pytest.mark.parametrize("name", ["sequence", "position", "action", "step_length", "time"])
def test_unequal_lengths_are_refused(refuse, name):
    assert f"{name} has 5 entries for 6 frames; give one a frame" in refuse(frames=frames(), **{name: np.zeros(5, int)})


def test_recordings_without_content_are_refused(refuse):
    assert "at least 2 frames, but has 0" in refuse(frames=frames(0))
    assert "at least 2 frames, but has 1" in refuse(frames=frames(1))
    assert "every sequence has length 1" in refuse(frames=frames(), sequence=np.arange(6))
    assert "all 6 frames are equal" in refuse(frames=np.full((6, 4, 4), 9, np.uint8))
    assert "must be contiguous" in refuse(frames=frames(), sequence=np.array([0, 1, 0, 1, 0, 1]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_numbers_that_are_not_finite_in_single_precision_are_refused(refuse, bad):
    observations = np.arange(12.0).reshape(6, 2)
    observations[4, 0] = bad
    assert "frame 4 has NaN or infinity; remove or repair it" in refuse(observations=observations)
