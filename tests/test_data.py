"""How recordings are laid out, split and refused; naive loops are the oracle."""

import re

import numpy as np
import pytest

from plan2vec.data import (
    Sequences,
    equal_frames,
    frames_ahead,
    is_still,
    make_sequences,
    split_sequences,
    transitions,
)


def images(num=6, height=5, width=7, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (num, height, width, channels), dtype=np.uint8)


# ---------------------------------------------------------------------------------------------------- layout


def test_channels_last_images_stay_as_they_are():
    frames = images()
    assert np.array_equal(make_sequences(frames).frames, frames)


def test_channels_first_images_are_turned_to_channels_last():
    frames = images()
    turned = make_sequences(frames.transpose(0, 3, 1, 2)).frames
    assert turned.shape == (6, 5, 7, 3) and np.array_equal(turned, frames) and turned.flags.c_contiguous


def test_gray_images_get_a_channel_axis_from_either_layout():
    gray = images(channels=1)[..., 0]
    for given in (gray, gray[..., None], gray[:, None]):
        assert np.array_equal(make_sequences(given).frames, gray[..., None])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.uint8])
def test_vector_observations_become_float32(dtype):
    vectors = np.arange(12).reshape(4, 3).astype(dtype)
    frames = make_sequences(vectors).frames
    assert frames.dtype == np.float32 and np.array_equal(frames, vectors)


def test_without_labels_all_frames_are_one_sequence():
    sequences = make_sequences(images(4))
    assert sequences.sequence.tolist() == [0, 0, 0, 0] and sequences.sequence.dtype == np.int64
    assert sequences.num_frames == 4 and sequences.frame_shape == (5, 7, 3)


def test_a_flat_position_or_action_is_one_column():
    sequences = make_sequences(images(4), position=np.arange(4.0), action=[1, 0, 1, 0])
    assert sequences.position.tolist() == [[0], [1], [2], [3]] and sequences.action.tolist() == [[1], [0], [1], [0]]


def test_what_training_sees_has_no_truth_but_all_else():
    sequences = make_sequences(
        images(4), position=np.zeros((4, 2)), step_length=np.ones(4), domain="c-maze", source="x.npz",
        heading=np.arange(4.0), label=np.arange(4)
    )
    seen = sequences.without_truth()
    assert seen.position is seen.heading is seen.label is seen.domain is None
    assert seen.frames is sequences.frames and seen.step_length is sequences.step_length and seen.source == "x.npz"


# ---------------------------------------------------------------------------------------------------- transitions


@pytest.mark.parametrize("gap", [1, 2, 3])
def test_no_transition_crosses_from_one_sequence_into_the_next(gap):
    sequence = np.repeat([7, 3, 9, 4], [5, 3, 4, 1])
    naive = [i for i in range(len(sequence) - gap) if len(set(sequence[i : i + gap + 1])) == 1]
    assert frames_ahead(sequence, gap).tolist() == naive and len(naive) < len(sequence) - gap
    if gap == 1:
        assert transitions(sequence).tolist() == naive == [0, 1, 2, 3, 5, 6, 8, 9, 10]


def test_still_pairs_are_those_equal_to_the_last_pixel():
    frames = images(9000, 2, 2, 1)
    frames[frames < 128], frames[frames >= 128] = 0, 1  # equal frames are common
    first, second = np.random.default_rng(1).integers(0, 9000, (2, 9000))
    naive = [bool((frames[i] == frames[j]).all()) for i, j in zip(first, second, strict=True)]
    assert is_still(frames, first, second).tolist() == naive and 300 < sum(naive) < 900
    one_off = images(2)
    one_off[1] = one_off[0]
    one_off[1, 4, 6, 2] += 1
    assert is_still(one_off, np.array([0, 0]), np.array([0, 1])).tolist() == [True, False]


def test_no_pairs_are_no_still_pairs():
    for frames in (images(), np.zeros((3, 2), np.float32)):
        assert is_still(frames, np.empty(0, int), np.empty(0, int)).tolist() == []


def parked(noise, drift=0.0):
    """20 frames of a shifting texture, 30 at one place with camera noise and drift a frame, 20 that move again."""
    rng = np.random.default_rng(0)
    texture = rng.integers(0, 200, (16, 200))
    offset = np.concatenate((np.arange(20), np.full(30, 19), 20 + np.arange(20)))
    frames = np.stack([texture[:, k : k + 16] for k in offset]).astype(float)
    frames[20:50] += rng.normal(0, noise, (30, 16, 16)) + drift * np.arange(1, 31)[:, None, None]
    return np.clip(frames, 0, 255).round().astype(np.uint8)[..., None]


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_a_parked_camera_is_one_still_stretch_whatever_its_noise(noise):
    first = make_sequences(parked(noise)).still_since
    assert first[19:50].tolist() == [19] * 31
    assert first[:19].tolist() == list(range(19)) and first[50:].tolist() == list(range(50, 70))


def test_slow_motion_ends_a_still_stretch():
    first = make_sequences(parked(0.0, drift=1.0)).still_since
    assert 2 <= len(np.unique(first[19:50])) <= 10 and len(np.unique(first[50:])) == 20


def test_a_stretch_ends_with_its_sequence_and_vectors_are_still_only_where_equal():
    frames = np.zeros((6, 2), np.float32)
    frames[5] = 1e-3
    assert make_sequences(frames, np.array([0, 0, 0, 1, 1, 1])).still_since.tolist() == [0, 0, 0, 3, 3, 5]


def test_a_moving_camera_changes_the_picture_all_over_and_a_moving_object_does_not():
    block = np.full((50, 32, 32, 1), 200, np.uint8)
    for k in range(50):
        block[k, 10:16, k // 2 : k // 2 + 6] = 20
    assert make_sequences(parked(0.0)).camera_moves and not make_sequences(block).camera_moves
    assert not make_sequences(np.random.default_rng(0).normal(size=(50, 4))).camera_moves


def noisy(frames: np.ndarray, noise: float) -> np.ndarray:
    """The frames as a camera with this noise (gray levels) records them."""
    frames = frames + np.random.default_rng(1).normal(0, noise, frames.shape)
    return np.clip(frames, 0, 255).round().astype(np.uint8)[..., None]


def driving() -> np.ndarray:
    """(100, 64, 64): past houses before an almost uniform sky and ground, whose texture is hardly above the noise."""
    rng = np.random.default_rng(0)
    texture = rng.normal(0, 7, (16, 70)).repeat(4, 0).repeat(4, 1)
    height, shade = rng.integers(2, 12, 60).repeat(5), rng.integers(60, 140, 60).repeat(5)
    row, frames = np.arange(64)[:, None], []
    for k in range(0, 200, 2):
        sky_and_ground = np.where(row < 32, 190, 110) + texture[:, k : k + 64]
        frames.append(np.where((row < 32) & (row >= 32 - height[k : k + 64]), shade[k : k + 64], sky_and_ground))
    return np.stack(frames)


def crossing(light: float = 0.0) -> np.ndarray:
    """(100, 64, 64): a block before a fixed camera; the light of the whole picture changes by so many levels."""
    rng = np.random.default_rng(0)
    frames = rng.normal(130, 40, (16, 16)).repeat(4, 0).repeat(4, 1)[None] + light * rng.normal(size=(100, 1, 1))
    for k in range(100):
        frames[k, 20:36, k // 3 : k // 3 + 16] = 30
    return frames


@pytest.mark.parametrize("num_still", [0, 100, 500])
def test_a_camera_that_drives_moves_though_sky_and_ground_are_almost_uniform_and_it_often_stands(num_still):
    frames = noisy(np.concatenate((driving(), driving()[-1:].repeat(num_still, 0))), 2.0)
    changed = np.abs(frames[1:].astype(int) - frames[:-1]) > 8
    assert changed.mean() < 0.25  # few pixels change, but in most cells of the picture some do
    assert make_sequences(frames).camera_moves


@pytest.mark.parametrize(("noise", "light"), [(0, 0), (2, 0), (8, 0), (2, 5), (2, 20)])
def test_a_fixed_camera_is_fixed_whatever_its_noise_and_the_light(noise, light):
    assert not make_sequences(noisy(crossing(light), noise)).camera_moves


# ---------------------------------------------------------------------------------------------------- splits


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.1, 5), (0.3, 15), (0.001, 1), (0.99, 49)])
def test_whole_sequences_are_held_out_about_the_asked_share(share, expected):
    sequence = np.repeat(np.arange(50), 10)
    kept, held_out = split_sequences(sequence, share, np.random.default_rng(0))
    assert len(np.unique(sequence[held_out])) == expected and held_out.sum() == 10 * expected
    assert not (kept & held_out).any() and (kept | held_out).all()
    assert set(sequence[kept]).isdisjoint(sequence[held_out])


def test_other_random_numbers_hold_out_other_sequences_and_the_same_the_same():
    sequence = np.repeat(np.arange(50), 10)
    drawn = [split_sequences(sequence, 0.1, np.random.default_rng(seed))[1] for seed in (0, 0, 1)]
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])


@pytest.mark.parametrize("seed", range(10))
def test_the_share_is_one_of_frames_so_a_long_sequence_is_never_held_out_for_a_short_one(seed):
    sequence = np.repeat([0, 1, 2], [1000, 1, 60])
    kept, held_out = split_sequences(sequence, 0.1, np.random.default_rng(seed))
    assert kept[:1000].all() and 1 <= held_out.sum() <= 61
    kept, held_out = split_sequences(np.repeat([0, 1], [30, 30]), 0.1, np.random.default_rng(seed))
    assert kept.sum() == held_out.sum() == 30


@pytest.mark.parametrize("seed", range(5))
def test_one_long_sequence_is_held_out_in_blocks_with_a_gap_beside_each(seed):
    kept, held_out = split_sequences(np.zeros(1000, int), 0.2, np.random.default_rng(seed), gap=10)
    assert held_out.sum() == 200 and not (kept & held_out).any()
    borders = np.flatnonzero(np.diff(held_out.astype(int)))
    assert 1 <= len(borders) <= 8  # four blocks, some of them side by side
    apart = np.abs(np.flatnonzero(kept)[:, None] - np.flatnonzero(held_out)[None, :])
    assert apart.min() == 11  # ten frames between belong to neither
    naive = [not held_out[max(0, i - 10) : i + 11].any() for i in range(1000)]
    assert kept.tolist() == naive


def test_a_short_single_sequence_keeps_all_its_frames():
    kept, held_out = split_sequences(np.zeros(60, int), 0.1, np.random.default_rng(0))
    assert kept.all() and not held_out.any()


# ---------------------------------------------------------------------------------------------------- refusals


def refusal(frames, sequence=None, **recorded):
    with pytest.raises(ValueError) as caught:
        make_sequences(frames, sequence, **recorded)
    return str(caught.value)


def test_refusals_say_what_was_expected_and_what_came():
    assert "uint8 images" in (
        text := refusal(np.zeros((3, 4, 4)))
    ) and "float64 (3, 4, 4)" in text and "astype('uint8')" in text
    assert "uint8 (5,)" in refusal(np.zeros(5, np.uint8))
    assert "complex128 (3, 4)" in refusal(np.zeros((3, 4), complex))
    assert "at least 2 frames, but has 1" in refusal(images(1))
    assert "at least 2 frames, but has 0" in refusal(images(0))
    assert "empty axis: shape (4, 5, 0, 3)" in refusal(images(4, width=0))
    assert "integers" in (text := refusal(images(4), np.zeros(4))) and "float64" in text
    assert "sequence has 3 entries for 4 frames" in refusal(images(4), np.zeros(3, int))
    assert "sequence has 0 entries for 4 frames" in refusal(images(4), np.array(0))
    assert "sequence must have shape (4,)" in refusal(images(4), np.zeros((4, 1), int))
    assert "sort by sequence" in refusal(images(4), np.array([0, 1, 1, 0]))
    assert "every sequence has length 1" in refusal(images(4), np.arange(4))
    assert "all 5000 frames are equal" in refusal(np.full((5000, 2, 2), 7, np.uint8))
    assert "all 3 frames are equal" in refusal(np.ones((3, 2)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_observations_that_are_not_finite_are_refused_by_frame(bad):
    vectors = np.arange(12.0).reshape(4, 3)
    vectors[2, 1] = bad
    assert "frame 2 has NaN or infinity" in refusal(vectors)


@pytest.mark.parametrize("name", ["position", "heading", "label", "action", "step_length", "time"])
def test_what_was_recorded_beside_frames_must_have_one_entry_a_frame(name):
    assert f"{name} has 3 entries for 4 frames; give one a frame" in refusal(images(4), **{name: np.zeros(3)})
    shape = "(4, k)" if name in ("position", "action") else "(4,)"
    assert f"{name} must have shape {shape}, but has shape (4, 2, 2)" in refusal(
        images(4), **{name: np.zeros((4, 2, 2))}
    )


def test_a_refusal_names_the_source():
    with pytest.raises(ValueError, match=re.escape("kitchen.npz: a recording needs at least 2 frames")):
        Sequences(images(1), np.zeros(1, np.int64), source="kitchen.npz")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 0.0])
def test_step_lengths_that_are_no_lengths_are_refused(bad):
    observations, sequence = np.arange(24.0).reshape(12, 2), np.repeat([0, 1], 6)
    length = np.full(12, bad)
    with pytest.raises(ValueError, match="step_length must be finite, never negative and mostly above 0"):
        make_sequences(observations, sequence, step_length=length)


def test_headings_must_be_finite_and_labels_integers():
    with pytest.raises(ValueError, match="heading must be finite, but frame 2"):
        make_sequences(images(4), heading=np.array([0, 90, np.inf, 0]))
    with pytest.raises(ValueError, match="label must hold integers, but its dtype is float64"):
        make_sequences(images(4), label=np.array([0, 0.5, 1, 1]))


def test_positions_must_be_finite():
    with pytest.raises(ValueError, match="position must be finite, but frame 3"):
        make_sequences(np.arange(24.0).reshape(12, 2), position=np.where(np.arange(12)[:, None] == 3, np.nan, 1.0))


def test_equal_frames_are_one_wherever_they_stand():
    frames = np.random.default_rng(0).integers(0, 255, (3, 4, 4, 1), np.uint8)[[0, 1, 0, 2, 1]]
    kept, which = equal_frames(frames)
    assert kept.tolist() == [0, 1, 3] and which.tolist() == [0, 1, 0, 2, 1]
    frames[2, 0, 0, 0] += 1  # one pixel makes another frame
    assert equal_frames(frames)[1].tolist() == [0, 1, 2, 3, 1]


@pytest.mark.parametrize(
    "kind",
    [np.zeros((1, 5, 5, 1), np.uint8), np.zeros((1, 4, 6, 3), np.uint8), np.zeros((1, 3), np.float32)],
)
def test_equal_frames_are_those_of_a_naive_search_whatever_their_size(kind):
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 2, (30, *kind.shape[1:])).astype(kind.dtype)[rng.integers(0, 30, 200)]
    numbers = np.sort(rng.choice(200, 120, replace=False))
    seen = [frame.tobytes() for frame in frames[numbers]]
    first = sorted({seen.index(frame) for frame in seen})
    kept, which = equal_frames(frames, numbers)
    assert kept.tolist() == numbers[first].tolist() and [first[k] for k in which] == [
        seen.index(frame) for frame in seen
    ]
    assert 2 <= len(first) < 40
