"""Links in recordings: nothing outside the path that the user named is read, and what was left out is counted."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import samples
from PIL import Image

import plan2vec
from plan2vec.acting.relabel import episode_groups
from plan2vec.config import ReadOptions
from plan2vec.readers import ReadWarning, minari, read
from plan2vec.readers.hdf5_guard import PROBE

h5py, av = pytest.importorskip("h5py"), pytest.importorskip("av")
SECRET = 200  # the gray level of what lies outside
SHADES = np.repeat(np.arange(10, 90, 10, dtype=np.uint8), 64).reshape(8, 8, 8)


def write_pictures(folder: Path, shades: np.ndarray) -> Path:
    folder.mkdir(parents=True)
    for number, shade in enumerate(shades):
        Image.fromarray(shade).save(folder / f"{number}.png")
    return folder


@pytest.fixture
def outside(tmp_path) -> Path:
    """A folder of the user's that no recording names."""
    return write_pictures(tmp_path / "outside", np.full((3, 8, 8), SECRET, np.uint8))


@pytest.fixture
def inside(tmp_path) -> Path:
    return write_pictures(tmp_path / "inside", SHADES)


# ---------------------------------------------------------------------------------------------------- image folders


def test_a_link_to_a_folder_is_left_out_and_counted(inside, outside):
    (inside / "more").symlink_to(outside)
    with pytest.warns(ReadWarning, match=r"1 of 9 files skipped: more \(a link to a folder\)"):
        found = read(inside)
    assert found.num_frames == 8 and found.frames.max() < SECRET


def test_a_link_to_a_file_outside_is_left_out_and_counted(inside, outside):
    (inside / "9.png").symlink_to(outside / "0.png")
    with pytest.warns(ReadWarning, match=r"1 of 9 files skipped: 9.png \(a link out of the folder\)"):
        found = read(inside)
    assert found.num_frames == 8 and found.frames.max() < SECRET


def test_a_link_to_a_file_inside_is_read(inside, recwarn):
    (inside / "9.png").symlink_to(inside / "0.png")
    found = read(inside)
    assert found.num_frames == 9 and (found.frames[8] == found.frames[0]).all() and not list(recwarn)


def test_a_folder_that_the_user_names_may_itself_be_a_link(inside, tmp_path, recwarn):
    (tmp_path / "named").symlink_to(inside)
    assert read(tmp_path / "named").num_frames == 8 and not list(recwarn)


def test_a_folder_of_nothing_but_links_is_refused(tmp_path, outside):
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "more").symlink_to(outside)
    with pytest.raises(ValueError, match="holds no images .* found more"):
        read(tmp_path / "links")


# ---------------------------------------------------------------------------------------------------- HDF5


@pytest.fixture
def other_file(tmp_path) -> Path:
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["observations"] = np.full((9, 2), SECRET, np.float32)
        file["episode/obs/state"] = np.full((9, 2), SECRET, np.float32)
        file["goal"], file["qpos"] = np.full((9, 2), SECRET), np.full((9, 2), SECRET)
    return tmp_path / "other.hdf5"


def observed() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)


LINKED = {
    "external observations": ("observations", "observations", "observations lies in other files"),
    "a soft link": ("observations", None, "observations is a link to /hidden"),
    "an external group of demonstrations": ("data", "episode", "data lies in other files"),
    "an external demonstration": ("data/demo_0", "episode", "demo_0 lies in other files"),
    "an external group on the way to an array": ("infos", "/", "infos/goal lies in other files"),
    "external actions": ("actions", "observations", "actions lies in other files"),
    "softly linked terminals": ("terminals", None, "terminals is a link to /hidden"),
}


@pytest.mark.parametrize("name", LINKED)
def test_links_of_hdf5_files_are_refused_by_name(name, tmp_path, other_file):
    place, target, words = LINKED[name]
    with h5py.File(tmp_path / "some.hdf5", "w") as file:
        file["hidden"] = observed()
        if place not in ("observations", "data", "data/demo_0"):
            file["observations"] = observed()
        file[place] = h5py.SoftLink("/hidden") if target is None else h5py.ExternalLink(other_file, target)
    with pytest.raises(ValueError, match=words):
        read(tmp_path / "some.hdf5")


def test_the_guard_of_hdf5_rows_follows_no_links(tmp_path, other_file):
    """Its process reads all rows of variable length: those of another file would be a file outside."""
    pipe = tmp_path / "pipe.hdf5"
    os.mkfifo(pipe)  # opening it would wait for ever
    with h5py.File(tmp_path / "some.hdf5", "w") as file:
        file["elsewhere"] = h5py.ExternalLink(pipe, "/")
    command = [sys.executable, "-c", PROBE, str(tmp_path / "some.hdf5"), "5", "3"]
    assert subprocess.run(command, timeout=60).returncode == 0


def test_a_minari_name_does_not_climb_out_of_the_datasets(tmp_path, monkeypatch):
    samples.write_minari(tmp_path / "secret")
    (tmp_path / "datasets").mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    with pytest.raises(ValueError, match="a link out of the folder"):
        read("minari:../secret")
    (tmp_path / "datasets" / "linked").symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match="a link out of the folder"):
        read("minari:linked")


def test_the_file_of_a_minari_folder_is_no_link(tmp_path):
    folder, secret = samples.write_minari(tmp_path / "some"), samples.write_minari(tmp_path / "secret")
    (folder / "data" / minari.MAIN_FILE).unlink()
    (folder / "data" / minari.MAIN_FILE).symlink_to(secret / "data" / minari.MAIN_FILE)
    with pytest.raises(ValueError, match="a link out of the folder"):
        read(folder)


@pytest.mark.parametrize("name", ["rewards", "infos"])
def test_relabelling_writes_through_no_link(name, tmp_path):
    """`relabel` opens its copy of the dataset for writing; the refusal comes before anything is written."""
    folder = samples.write_minari(tmp_path / "some")
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["rewards"], file["infos/goal"] = np.zeros(9), np.zeros(9)
    with h5py.File(minari.data_file(folder), "r+") as file:
        if name in file["episode_0"]:
            del file["episode_0"][name]
        file["episode_0"][name] = h5py.ExternalLink(tmp_path / "other.hdf5", name)
        with pytest.raises(ValueError, match=f"{name} lies in other files"):
            episode_groups(file)


# ---------------------------------------------------------------------------------------------------- LeRobot


def rename_camera(folder: Path, key: str) -> None:
    """Renames the only camera in meta/info.json, and nothing else."""
    file = folder / "meta" / "info.json"
    info = json.loads(file.read_text())
    (old,) = [name for name, feature in info["features"].items() if feature["dtype"] == "video"]
    info["features"][key] = info["features"].pop(old)
    file.write_text(json.dumps(info))


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize("absolute", [False, True])
def test_the_key_of_a_camera_does_not_lead_out_of_the_folder(version, absolute, tmp_path):
    folder = samples.write_lerobot(tmp_path / "robot", version, "video", cameras=("left",))
    secret = samples.write_lerobot(tmp_path / "secret", version, "video", cameras=("left",))
    rename_camera(folder, str(secret / "videos") if absolute else "../../../secret/videos")
    with pytest.raises(ValueError, match="leads out of the folder"):
        read(folder)


LEFT_OUT = {
    "a video": "videos/chunk-000/observation.images.left/episode_000001.mp4",
    "a data file": "data/chunk-000/episode_000001.parquet",
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_linked_file_of_a_lerobot_folder_is_left_out_and_counted(name, tmp_path):
    place = LEFT_OUT[name]
    folder = samples.write_lerobot(tmp_path / "robot", "v2.1", "video", cameras=("left",))
    whole = read(folder, ReadOptions(camera="observation.images.left"))
    shutil.move(folder / place, tmp_path / "moved")
    (folder / place).symlink_to(tmp_path / "moved")
    skipped = r"1 of 3 episodes skipped: episode 1 \(episode_000001.*a link out of the folder"
    with pytest.warns(ReadWarning, match=skipped):
        found = read(folder)
    assert found.num_frames < whole.num_frames and len(np.unique(found.sequence)) == 2


@pytest.mark.parametrize("place", ["meta/info.json", "meta/episodes.jsonl"])
def test_a_linked_list_of_a_lerobot_folder_is_refused(place, tmp_path):
    folder = samples.write_lerobot(tmp_path / "robot", "v2.1", "video", cameras=("left",))
    shutil.move(folder / place, tmp_path / "moved")
    (folder / place).symlink_to(tmp_path / "moved")
    with pytest.raises(ValueError, match="a link out of the folder"):
        read(folder)


# ---------------------------------------------------------------------------------------------------- video


@pytest.fixture
def film(tmp_path) -> Path:
    """A video beside the recordings, of one bright gray."""
    samples.write_video(tmp_path / "secret.mp4", np.full((12, 32, 32, 3), SECRET, np.uint8))
    return tmp_path / "secret.mp4"


PLAYLISTS = {
    "ffconcat": "ffconcat version 1.0\nfile 'secret.mp4'\n",
    "m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nsecret.mp4\n#EXT-X-ENDLIST\n",
}


@pytest.mark.parametrize("kind", PLAYLISTS)
@pytest.mark.parametrize("before", ["", "\ufeff", "\n"])
def test_a_playlist_called_mp4_opens_no_neighbour(kind, before, tmp_path, film):
    (tmp_path / "list.mp4").write_text(before + PLAYLISTS[kind])
    with pytest.raises(ValueError, match="cannot be decoded"):
        read(tmp_path / "list.mp4")


def test_a_playlist_that_is_not_seen_through_opens_no_neighbour_either(tmp_path, film, monkeypatch):
    """The first bytes make the message; what guards is the list of containers that PyAV may try."""
    monkeypatch.setattr(plan2vec.readers.video, "PLAYLISTS", ())
    (tmp_path / "list.mp4").write_text(PLAYLISTS["ffconcat"])
    with pytest.raises(ValueError, match="cannot be decoded"):
        read(tmp_path / "list.mp4")


def test_a_file_name_is_no_protocol(tmp_path, film, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("concat:secret.mp4").write_text("no video")
    with pytest.raises(ValueError, match="cannot be decoded"):
        read("concat:secret.mp4")


def test_a_linked_video_of_a_folder_is_left_out_and_counted(tmp_path, film):
    (tmp_path / "films").mkdir()
    for number in (0, 1):
        shades = np.repeat(SHADES[..., None], 3, axis=3).repeat(4, 1).repeat(4, 2)
        samples.write_video(tmp_path / "films" / f"{number}.mp4", shades)
    (tmp_path / "films" / "2.mp4").symlink_to(film)
    with pytest.warns(ReadWarning, match=r"1 of 3 files skipped: 2.mp4 \(a link out of the folder\)"):
        found = read(tmp_path / "films")
    assert len(np.unique(found.sequence)) == 2 and found.frames.max() < SECRET - 50


# ---------------------------------------------------------------------------------------------------- StreetLearn


@pytest.mark.parametrize("place", ["coords.npy", "trajs.npy", "view_512/chunk_0000.npy", "view_512"])
def test_a_linked_part_of_a_streetlearn_folder_is_refused(place, tmp_path):
    folder = samples.write_streetlearn(tmp_path / "city")
    assert read(folder, ReadOptions(trust_pickle=True)).num_frames == 9
    shutil.move(folder / place, tmp_path / "moved")
    (folder / place).symlink_to(tmp_path / "moved")
    with pytest.raises(ValueError, match="a link out of the folder"):
        read(folder, ReadOptions(trust_pickle=True))
