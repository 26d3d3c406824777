"""The world of many rooms: no walk passes a wall, pictures tell where one is, true distances lead through doors."""

import numpy as np
import pytest

from plan2vec.domains import find_domain, rooms
from plan2vec.evaluation import truth_of

SIZE = rooms.world_size(60_000)
RECORDING = rooms.simulate(16_000, seed=3, size=SIZE)


def test_walks_leave_a_room_through_its_doors_alone():
    position = RECORDING.position
    room = rooms.room_of(position)
    moved = np.flatnonzero((RECORDING.sequence[1:] == RECORDING.sequence[:-1]) & (room[1:] != room[:-1]).any(axis=1))
    assert len(moved) > 100 and (room >= 0).all() and (room < SIZE).all()
    for i in moved:
        visited, here = [room[i]], room[i].copy()
        for axis in (0, 1):  # first along x, then along y
            if room[i + 1, axis] != here[axis]:
                door = rooms._door_middle(SIZE, here[None], axis, room[i + 1, axis] - here[axis])[0]
                across = position[i if axis == 0 else i + 1, 1 - axis] - here[1 - axis] * rooms.ROOM
                assert abs(across - door) < rooms.DOOR / 2
                here[axis] = room[i + 1, axis]
                visited.append(here.copy())
        assert len(visited) > 1


def test_every_room_can_be_reached_and_every_recording_grows_the_same_world():
    length = rooms.geodesic("rooms-9x7", np.full((63, 2), 8.0), rooms.ROOM * np.argwhere(np.ones((9, 7))) + 8)
    assert np.isfinite(length).all() and length[0] == 0 and length.max() < 9 * 7 * rooms.ROOM
    assert (
        rooms.world_size(1_000_000) == (10, 10) and rooms.world_size(40_000) == (2, 2)
        and rooms.world_size(20) == (1, 1)
    )


def test_a_recording_of_any_length_explores_the_part_of_the_world_that_is_asked_for():
    recording = rooms.simulate_positions(4_000, seed=1, size=(4, 4))
    assert recording.domain == "rooms-4x4" and rooms.simulate_positions(4_000, seed=1).domain == "rooms-1x1"
    room = rooms.room_of(recording.position)
    assert len(np.unique(room, axis=0)) == 16 and room.min() == 0 and room.max() == 3
    length = rooms.geodesic("rooms-4x4", recording.position[:1].repeat(16, axis=0), recording.position[::250])
    assert np.isfinite(length).all() and truth_of(recording) is not None


def test_the_marks_on_a_picture_tell_the_room_and_the_block_its_place():
    room, frames = rooms.room_of(RECORDING.position), RECORDING.frames[..., 0]
    column = np.argmax(frames[:, 0, 1:] == rooms.LIGHT, axis=1) + 1
    row = np.argmax(frames[:, 1:, 0] == rooms.LIGHT, axis=1) + 1
    known = (room > 0).all(axis=1) & ~faded()  # the corner of the first column and row is shared
    assert np.array_equal((column // 2)[known], room[known, 0]) and np.array_equal((row // 2)[known], room[known, 1])
    dark = (frames[~faded(), rooms.STRIP :, rooms.STRIP :] == rooms.BLOCK_GRAY).astype(float)
    middle = (dark.sum(axis=1) * np.arange(rooms.STRIP, 64)).sum(axis=1) / dark.sum(axis=(1, 2)) + 0.5
    local = RECORDING.position[:, 0] - room[:, 0] * rooms.ROOM
    assert np.abs(middle - (rooms.RING + rooms.SCALE * local)[~faded()]).max() < 1


def faded():
    """(n,) bool: another camera has a share of the picture."""
    return rooms._fading(SIZE, rooms.room_of(RECORDING.position), RECORDING.position)[1] > 0


def test_the_picture_changes_as_little_in_a_door_as_elsewhere():
    room = rooms.room_of(RECORDING.position)
    recorded = RECORDING.sequence[1:] == RECORDING.sequence[:-1]
    crossing = recorded & (room[1:] != room[:-1]).any(axis=1)
    change = np.abs(RECORDING.frames[1:].astype(np.int16) - RECORDING.frames[:-1]).mean(axis=(1, 2, 3))
    unrelated = np.abs(RECORDING.frames[:200].astype(int) - RECORDING.frames[-200:]).mean(axis=(1, 2, 3))
    assert 0 < faded().mean() < 0.3 and np.median(change[crossing]) < np.median(unrelated)
    here = np.array(
        [[rooms.ROOM - 1e-4, float(rooms._doors()[0][0, 0])], [rooms.ROOM + 1e-4, float(rooms._doors()[0][0, 0])]]
    )
    pictures = np.empty((2, 64, 64, 1), np.uint8)
    rooms.render(SIZE, here, pictures)
    assert np.isfinite(here).all() and np.abs(pictures[0].astype(int) - pictures[1]).max() <= 1


def test_frames_in_a_file_equal_frames_in_memory(tmp_path):
    stored = rooms.simulate(6000, seed=3, file=tmp_path / "frames.npy")
    assert isinstance(stored.frames, np.memmap) and np.array_equal(stored.frames, rooms.simulate(6000, seed=3).frames)


def test_true_distances_are_straight_inside_a_room_and_lead_through_doors_between_rooms():
    truth, rng = truth_of(RECORDING), np.random.default_rng(0)
    first, second = rng.integers(len(RECORDING.position), size=(2, 3000))
    length, straight = truth.between(first, second), np.linalg.norm(
        RECORDING.position[first] - RECORDING.position[second], axis=1
    )
    same = (rooms.room_of(RECORDING.position[first]) == rooms.room_of(RECORDING.position[second])).all(axis=1)
    assert np.array_equal(length[same], straight[same]) and (length >= straight - 1e-9).all()
    assert np.median(length[~same] / straight[~same]) > 1.02 and np.allclose(length, truth.between(second, first))
    assert find_domain(RECORDING.domain).longest_step == pytest.approx(2**0.5)


def test_a_recording_shorter_than_a_walk_is_refused():
    with pytest.raises(ValueError, match="at least 20 frames, but is 19"):
        rooms.simulate(19)
