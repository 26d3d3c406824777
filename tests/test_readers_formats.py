"""Every format comes back as what was stored: frames in order, sequences, and what was recorded beside them."""

import pickle
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import samples
from PIL import Image

from plan2vec import ReadOptions, read
from plan2vec.readers import ReadWarning
from plan2vec.readers.folders import natural_key
from plan2vec.readers.kept_frames import kept_frames

BLOCK = samples.moving_block(12)


def lefts(frames: np.ndarray) -> list[int]:
    """Where the block's left edge is in each frame."""
    return [int((frame[..., 0] > 120).any(axis=0).argmax()) for frame in frames]


def lengths(sequences) -> list[int]:
    return np.unique(sequences.sequence, return_counts=True)[1].tolist()


# ---------------------------------------------------------------------------------------------------- images


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".webp", ".ppm", ".jpg"])
def test_a_flat_folder_is_one_sequence_in_natural_order(tmp_path, suffix):
    """frame10 comes after frame9; lossless formats give the very pixels."""
    found = read(samples.write_images(tmp_path / "shots", BLOCK, suffix))
    assert lengths(found) == [12] and found.frame_shape == (48, 64, 3) and found.source_size == (64, 48)
    assert lefts(found.frames) == [2 * k for k in range(12)]
    if suffix not in (".jpg", ".webp"):
        assert (found.frames == BLOCK).all()


def test_natural_order_compares_numbers_as_numbers():
    names = ["a10.png", "a9.png", "A1.png", "b", "a", "a09.png", "2", "10", "²", "a" + "1" * 2000]
    assert [name for name in sorted(names, key=natural_key) if len(name) < 20][:2] == ["2", "10"]
    assert sorted(["a10", "a9", "a1"], key=natural_key) == ["a1", "a9", "a10"]


def test_every_sub_folder_is_a_sequence(tmp_path):
    samples.write_images(tmp_path / "run10", BLOCK[:3])
    samples.write_images(tmp_path / "run9", BLOCK[3:8])
    samples.write_images(tmp_path / "deep" / "er", BLOCK[8:])
    found = read(tmp_path)
    assert lengths(found) == [4, 5, 3] and found.time is None
    assert lefts(found.frames) == [16, 18, 20, 22, 6, 8, 10, 12, 14, 0, 2, 4]


def test_every_second_image_of_each_folder_is_kept(tmp_path):
    samples.write_images(tmp_path / "a", BLOCK[:5])
    samples.write_images(tmp_path / "b", BLOCK[5:])
    assert lefts(read(tmp_path, ReadOptions(every=2)).frames) == [0, 4, 8, 10, 14, 18, 22]


def test_large_images_are_squashed_small_ones_stay_and_options_win(tmp_path):
    folder = samples.write_images(tmp_path / "a", samples.moving_block(4, 96, 128), ".jpg")
    assert read(folder).frame_shape == (64, 64, 3)
    assert read(folder, ReadOptions(size=32, gray=True)).frame_shape == (32, 32, 1)
    cropped = read(folder, ReadOptions(crop="0,8,64,40"))
    assert cropped.frame_shape == (32, 64, 3) and cropped.source_size == (128, 96)
    assert lefts(cropped.frames) == [0, 2, 4, 6]


def test_gray_images_stay_gray_and_one_coloured_makes_all_coloured(tmp_path):
    folder = samples.write_images(tmp_path / "a", BLOCK[..., 0])
    assert read(folder).frame_shape == (48, 64, 1) and read(folder, ReadOptions(rgb=True)).frame_shape == (48, 64, 3)
    Image.fromarray(BLOCK[0]).save(folder / "frame99.png")
    assert read(folder).frame_shape == (48, 64, 3)


def test_memory_stays_bounded_while_a_folder_is_read_and_kept(tmp_path):
    """1,200 frames of 256 x 256 x 3 are 236 MB; the process grows by far less."""
    picture = np.kron(BLOCK[0, :32, :32], np.ones((8, 8, 1), np.uint8))
    samples.write_images(tmp_path / "a", np.stack((picture, 255 - picture)), ".jpg")
    for k in range(2, 1200):
        (tmp_path / "a" / f"frame{k}.jpg").hardlink_to(tmp_path / "a" / f"frame{k % 2}.jpg")
    code = """
import re, sys, pathlib, plan2vec
from plan2vec.config import settle
from plan2vec.learning.gradient_loop import Journal
from plan2vec.runs.resume import open_run
peak = lambda: int(re.search("VmHWM: *(.*) kB", pathlib.Path("/proc/self/status").read_text())[1])
read = plan2vec.read  # imported now, as everything above
before = peak()
recordings = read(sys.argv[1] + "/a", plan2vec.ReadOptions(size=256))
out = pathlib.Path(sys.argv[1]) / "run"
open_run(out, recordings, settle(plan2vec.Config(view="fixed"), recordings), Journal(out), {})
print(recordings.frames.nbytes, 1024 * (peak() - before))
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    num_bytes, growth = map(int, done.stdout.split())
    assert num_bytes == 1200 * 256 * 256 * 3 and growth < 0.6 * num_bytes
    kept = np.load(tmp_path / "run" / "frames.npy")
    assert kept.nbytes == num_bytes and (kept[::2] == kept[0]).all() and (kept[1::2] == kept[1]).all()


# ---------------------------------------------------------------------------------------------------- video


@pytest.mark.parametrize(
    ("name", "codec"),
    [("film.mp4", "libx264"), ("film.mp4", "libsvtav1"), ("film.mkv", "mpeg4"), ("film.webm", "libvpx")],
)
def test_a_video_is_one_sequence_with_time(tmp_path, name, codec):
    large = samples.moving_block(24, 64, 96)
    found = read(samples.write_video(tmp_path / name, large, rate=12, codec=codec))
    assert lengths(found) == [24] and found.frame_shape == (64, 64, 3) and found.source_size == (96, 64)
    assert found.time == pytest.approx(np.arange(24) / 12, abs=2e-3)
    assert np.abs(np.array(lefts(found.frames)) - np.arange(24) * 2 * 64 / 96).max() <= 2


def test_a_folder_of_videos_is_a_sequence_each_and_a_thumbnail_does_not_matter(tmp_path):
    for k, part in enumerate((BLOCK[:5], BLOCK[5:])):
        samples.write_video(tmp_path / f"take{k}.mp4", part)
    assert lengths(read(tmp_path)) == [5, 7]
    Image.fromarray(BLOCK[0]).save(tmp_path / "thumb.png")
    with pytest.warns(UserWarning, match=r"1 of 3 files skipped: thumb.png \(not a video\)"):
        assert lengths(read(tmp_path)) == [5, 7]


def test_a_video_is_thinned_by_count_or_by_rate(tmp_path):
    film = samples.write_video(tmp_path / "film.mp4", samples.moving_block(20), rate=10)
    assert lefts(read(film, ReadOptions(every=4)).frames) == [0, 8, 16, 24, 32]
    slow = read(film, ReadOptions(rate=3))
    assert slow.time == pytest.approx([0, 0.4, 0.7, 1.0, 1.4, 1.7], abs=1e-3)
    assert lefts(slow.frames) == [0, 8, 14, 20, 28, 34]
    assert len(read(film, ReadOptions(rate=100)).frames) == 20


def test_a_gray_video_gives_gray_frames(tmp_path):
    assert read(
        samples.write_video(tmp_path / "film.mkv", BLOCK, codec="ffv1", pixels="gray")
    ).frame_shape == (48, 64, 1)


def test_gray_pictures_stored_as_colour_give_gray_frames_and_one_coloured_spot_does_not(tmp_path):
    gray = np.repeat(np.random.default_rng(0).integers(0, 255, (10, 48, 64, 1), np.uint8), 3, axis=3)
    assert read(samples.write_video(tmp_path / "gray.mp4", gray)).frame_shape == (48, 64, 1)
    spot = gray.copy()
    spot[:, 20:24, 20:24] = (250, 20, 20)
    assert read(samples.write_video(tmp_path / "spot.mp4", spot)).frame_shape == (48, 64, 3)


def test_a_video_that_was_filmed_upright_is_turned(tmp_path):
    """Phones store the picture lying and a matrix that turns it by 90 degrees clockwise."""
    film = samples.write_video(tmp_path / "film.mp4", samples.moving_block(6, 48, 64))
    data = bytearray(film.read_bytes())
    matrix = data.index(b"tkhd") + 4 + 40
    turned = (0, 0x10000, 0, -0x10000, 0, 0, 48 << 16, 0, 0x40000000)
    data[matrix : matrix + 36] = b"".join(value.to_bytes(4, "big", signed=True) for value in turned)
    film.write_bytes(data)
    found = read(film)
    assert found.source_size == (48, 64)
    tops = [int((np.rot90(frame, 1)[..., 0] > 120).any(axis=0).argmax()) for frame in found.frames]
    assert tops == [0, 2, 4, 6, 8, 10]


# ---------------------------------------------------------------------------------------------------- arrays


def test_an_npy_file_is_one_sequence_of_frames_or_observations(tmp_path):
    np.save(tmp_path / "frames.npy", BLOCK)
    np.save(tmp_path / "walk.npy", np.eye(5))
    frames, walk = read(tmp_path / "frames.npy"), read(tmp_path / "walk.npy")
    assert (frames.frames == BLOCK).all() and isinstance(frames.frames, np.memmap) and lengths(frames) == [12]
    assert (walk.frames == np.eye(5)).all() and walk.frames.dtype == np.float32
    thin = read(tmp_path / "frames.npy", ReadOptions(every=5))
    assert isinstance(thin.frames, np.memmap) and lefts(thin.frames) == [0, 10, 20]


def test_features_take_the_place_of_frames(tmp_path):
    np.savez(tmp_path / "some.npz", features=np.eye(6), sequence=np.repeat([0, 1], 3))
    assert read(tmp_path / "some.npz").frame_shape == (6,)


def test_arrays_stay_as_large_as_they_are_unless_a_size_is_given(tmp_path):
    np.savez(tmp_path / "some.npz", frames=samples.moving_block(4, 96, 128))
    assert read(tmp_path / "some.npz").frame_shape == (96, 128, 3)
    small = read(tmp_path / "some.npz", ReadOptions(size=48, gray=True))
    assert small.frame_shape == (48, 48, 1) and small.source_size == (128, 96)


def test_step_lengths_add_up_over_frames_left_out(tmp_path):
    np.savez(
        tmp_path / "some.npz", frames=BLOCK[:7], sequence=np.array([0, 0, 0, 0, 1, 1, 1]), time=np.arange(7.0),
        step_length=np.array([1, 2, 3, np.nan, 4, 5, np.nan]), position=np.arange(7.0), action=np.arange(7.0),
    )
    found = read(tmp_path / "some.npz", ReadOptions(every=2))
    assert (
        found.sequence.tolist() == [0, 0, 1, 1]
        and found.position[:, 0].tolist() == [0, 2, 4, 6] == found.action[:, 0].tolist()
    )
    assert found.step_length[[0, 2]].tolist() == [3, 9] and np.isnan(found.step_length[[1, 3]]).all()
    assert read(tmp_path / "some.npz", ReadOptions(rate=0.5)).time.tolist() == [0, 2, 4, 6]


def test_at_a_rate_the_first_frame_of_every_tick_is_kept_and_none_without_a_time():
    time = 100 + np.array([0, 0.3, 0.6, np.nan, 0.9, 1.0, 0.2, 3.1])
    assert kept_frames(ReadOptions(rate=2), 8, time).tolist() == [0, 2, 5, 7]
    assert kept_frames(ReadOptions(rate=2), 0, time[:0]).tolist() == []
    assert kept_frames(ReadOptions(every=3), 8).tolist() == [0, 3, 6]


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_trusted_pickle_gives_its_arrays(tmp_path, protocol):
    episodes = [{"observations": np.full((4, 2), k) + np.eye(4, 2), "rewards": np.zeros(4)} for k in range(3)]
    (tmp_path / "some.pkl").write_bytes(pickle.dumps(episodes, protocol))
    found = read(tmp_path / "some.pkl", ReadOptions(trust_pickle=True))
    assert lengths(found) == [4, 4, 4] and found.frames[4].tolist() == [2, 1]


def test_a_few_bytes_of_a_trusted_pickle_cannot_ask_for_gigabytes(tmp_path):
    plain = pickle.dumps({"observations": np.arange(6.0).reshape(3, 2)}, 2)
    as_number = b"r\xff\xff\xff\x7f"  # keep what was just read, as object number 2,147,483,647
    (tmp_path / "some.pkl").write_bytes(plain[:-1] + as_number + plain[-1:])
    assert read(tmp_path / "some.pkl", ReadOptions(trust_pickle=True)).frames.tolist() == [[0, 1], [2, 3], [4, 5]]


def write_rope(path, sizes=(5, 3, 4)):
    """A file of the layout of new_rope.npy (Wang et al.): an array of objects, each the frames of one sequence."""
    sequences = np.empty(len(sizes), object)
    for k, size in enumerate(sizes):
        sequences[k] = np.full(
            (size, 64, 64, 1), 10 * k, np.uint8
        ) + np.arange(size, dtype=np.uint8)[:, None, None, None]
    np.save(path, sequences, allow_pickle=True)
    return path


def test_the_real_ropes_array_of_sequences_is_read_where_it_is_trusted(tmp_path):
    path = write_rope(tmp_path / "new_rope.npy")
    with pytest.raises(ValueError, match="--trust-pickle"):
        read(path)
    found = read(path, ReadOptions(trust_pickle=True))
    assert lengths(found) == [5, 3, 4] and found.frame_shape == (64, 64, 1) and found.frames.dtype == np.uint8
    assert found.frames[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 10, 11, 12, 20, 21, 22, 23]


def test_sequences_of_different_sizes_are_refused(tmp_path):
    sequences = np.empty(2, object)
    sequences[0], sequences[1] = np.zeros((3, 64, 64, 1), np.uint8), np.zeros((3, 32, 32, 1), np.uint8)
    np.save(tmp_path / "rope.npy", sequences, allow_pickle=True)
    with pytest.raises(ValueError, match="do not fit together"):
        read(tmp_path / "rope.npy", ReadOptions(trust_pickle=True))


# ---------------------------------------------------------------------------------------------------- datasets


def test_d4rl_is_cut_at_terminals_and_timeouts(tmp_path):
    found = read(samples.write_d4rl(tmp_path / "some.hdf5"))
    with h5py.File(tmp_path / "some.hdf5") as file:
        assert (found.frames == file["observations"][:]).all() and np.allclose(found.action, file["actions"][:])
        assert np.allclose(found.position, file["infos/qpos"][:, :2])
    assert lengths(found) == [10, 10, 10]
    assert read(samples.write_d4rl(tmp_path / "walker.h5", maze=False)).position is None


def test_d4rl_observations_can_be_pictures(tmp_path):
    with h5py.File(tmp_path / "some.hdf5", "w") as file:
        file["observations"] = BLOCK
        file["terminals"] = np.arange(12) == 4
    found = read(tmp_path / "some.hdf5")
    assert (found.frames == BLOCK).all() and lengths(found) == [5, 7]


def test_robomimic_gives_vectors_side_by_side_or_the_camera_asked_for(tmp_path):
    path = samples.write_robomimic(tmp_path / "some.hdf5")
    vectors = read(path)
    assert vectors.frame_shape == (8,) and lengths(vectors) == [12, 9, 10] and vectors.action.shape == (31, 7)
    assert vectors.frames[12, :3].tolist() == [1, 1, 1]  # eef_pos comes before object
    pictures = read(path, ReadOptions(camera="agentview_image", every=3))
    assert pictures.frame_shape == (64, 64, 3) and lengths(pictures) == [4, 3, 4]
    assert (pictures.action == vectors.action[[0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30]]).all()


def test_minari_gives_dicts_side_by_side_without_the_goal_and_the_place_as_position(tmp_path):
    found = read(samples.write_minari(tmp_path / "set"))
    assert found.frame_shape == (6,) and lengths(found) == [11, 8, 9]
    assert np.allclose(
        found.position, found.frames[:, :2]
    ) and np.isnan(found.action[10]).all() and np.isfinite(found.action[:10]).all()
    assert read(tmp_path / "set", ReadOptions(camera="observation")).frame_shape == (4,)


def test_minari_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    samples.write_minari(tmp_path / "maze" / "large-v1", "vectors")
    assert read("minari:maze/large-v1").frame_shape == (3,)


def test_minari_pictures_are_decoded(tmp_path):
    found = read(samples.write_minari(tmp_path / "set", "images"))
    assert found.frame_shape == (48, 64, 3) and lefts(found.frames)[:11] == [2 * k for k in range(11)]


def test_what_the_minari_package_writes_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    code = """
import numpy as np, minari, gymnasium as gym
from minari.data_collector import EpisodeBuffer
rng = np.random.default_rng(0)
box = lambda shape, kind: gym.spaces.Box(0, 255, shape, kind)
for name, space in (("pictures", box((20, 30, 3), np.uint8)), ("vectors", box((3,), np.float32))):
    episodes = [EpisodeBuffer(id=k, observations=[space.sample() for _ in range(5)], rewards=[0.0] * 4,
                              actions=[np.zeros(2, np.float32)] * 4, terminations=[False] * 4, truncations=[False] * 4)
                for k in range(2)]
    words = dict.fromkeys(("algorithm_name", "author", "code_permalink", "description"), "x")
    minari.create_dataset_from_buffers(f"test/{name}-v0", episodes, observation_space=space, author_email="x@x.org",
                                       action_space=box((2,), np.float32), **words)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert read("minari:test/pictures-v0").frames.shape == (10, 20, 30, 3)
    assert read(tmp_path / "test" / "vectors-v0").frames.shape == (10, 3)


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
@pytest.mark.parametrize("kind", ["video", "image"])
def test_lerobot_gives_the_frames_of_each_episode_with_action_and_time(tmp_path, version, kind):
    found = read(samples.write_lerobot(tmp_path / "robot", version, kind))
    assert lengths(found) == [12, 9, 10] and found.frame_shape == (48, 64, 3)
    assert lefts(found.frames) == [2 * (5 * k + i) for k, length in enumerate((12, 9, 10)) for i in range(length)]
    assert (found.action[:, 0] == found.sequence).all()
    assert found.time[10:14] == pytest.approx([1.0, 1.1, 0, 0.1])


def test_pictures_of_a_parquet_file_are_read_across_its_row_groups(tmp_path):
    folder = samples.write_lerobot(tmp_path / "robot", "v3.0", "image")
    whole = read(folder).frames
    for file in (folder / "data" / "chunk-000").iterdir():
        pq.write_table(pq.read_table(file), file, row_group_size=5)
    assert pq.ParquetFile(file).num_row_groups >= 2 and np.array_equal(read(folder).frames, whole)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_lerobot_without_cameras_gives_the_state(tmp_path, version):
    found = read(samples.write_lerobot(tmp_path / "robot", version, "state"))
    assert found.frame_shape == (3,) and lengths(found) == [12, 9, 10] and found.time[:2] == pytest.approx([0, 0.1])


def test_lerobot_cameras_are_chosen_by_name_and_thinned_by_rate(tmp_path):
    folder = samples.write_lerobot(tmp_path / "robot", "v3.0", "video", cameras=("left", "right"))
    found = read(folder, ReadOptions(camera="observation.images.right", rate=5))
    assert lengths(found) == [6, 5, 5] and lefts(found.frames)[:3] == [0, 4, 8]
    assert read(folder, ReadOptions(camera="observation.state")).frame_shape == (3,)


def test_every_format_has_its_place(tmp_path):
    from plan2vec.readers import FORMATS

    assert [known.NAME for known in FORMATS] == [
        "OGBench data set", ".npz or .npy arrays", "pickle of arrays", "HDF5", "Minari", "LeRobot",
        "processed StreetLearn folder", "video", "folder of images"
    ]
    assert not any(known.recognizes(Path(tmp_path / "nothing")) for known in FORMATS)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize("kind", ["video", "image"])
def test_all_cameras_of_a_lerobot_folder_lie_side_by_side(tmp_path, version, kind):
    folder = samples.write_lerobot(tmp_path / "robot", version, kind, cameras=("left", "right"))
    one = read(folder, ReadOptions(camera="observation.images.left"))
    both = read(folder, ReadOptions(camera="all"))
    assert both.frame_shape == (one.frame_shape[0], 2 * one.frame_shape[1], 3)
    assert np.array_equal(both.frames[:, :, : one.frame_shape[1]], one.frames)
    assert np.array_equal(both.frames[:, :, one.frame_shape[1] :], one.frames)  # the sample's cameras see the same
    assert np.array_equal(both.sequence, one.sequence) and np.array_equal(both.action, one.action)
    assert np.array_equal(both.time, one.time) and both.options.camera == "all"


def test_a_frame_that_one_camera_lacks_is_left_out_of_all(tmp_path):
    folder = samples.write_lerobot(tmp_path / "robot", "v2.1", "video", cameras=("left", "right"))
    short = folder / "videos" / "chunk-000" / "observation.images.right" / "episode_000001.mp4"
    samples.write_video(short, samples.moving_block(6, first=5))
    with pytest.warns(ReadWarning, match="3 frames are missing"):
        both = read(folder, ReadOptions(camera="all"))
    assert np.unique(both.sequence, return_counts=True)[1].tolist() == [12, 6, 10]


def test_all_cameras_of_a_folder_with_one_or_none(tmp_path):
    one = samples.write_lerobot(tmp_path / "one", "v2.1", "video")
    assert np.array_equal(read(one, ReadOptions(camera="all")).frames, read(one).frames)
    state = samples.write_lerobot(tmp_path / "state", "v2.1", "state")
    assert read(state, ReadOptions(camera="all")).frame_shape == (3,)
