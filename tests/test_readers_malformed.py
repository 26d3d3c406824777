"""Malformed recordings: each is refused in one line that names it and says what to do (exit code 2), or read with a
warning that counts.
"""

import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import wave
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import samples
from PIL import Image

from plan2vec.commands.fitting import read_recordings
from plan2vec.commands.main import main
from plan2vec.config import ReadOptions
from plan2vec.readers import hdf5_guard

FRAMES = samples.moving_block(8, 24, 32)


def images(place: Path, num: int = 8, suffix: str = ".png") -> Path:
    return samples.write_images(place / "shots", FRAMES[:num], suffix)


def cut(file: Path, share: float = 0.5) -> Path:
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    return file


def put(place: Path, name: str, data: bytes | str = b"") -> Path:
    file = place / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return file


def saved(place: Path, name: str = "some.npz", **arrays: np.ndarray) -> Path:
    np.savez(place / name, **arrays)
    return place / name


def saved_array(place: Path, array: np.ndarray) -> Path:
    np.save(place / "some.npy", array)
    return place / "some.npy"


def npy_header(shape: tuple[int, ...], kind: str = "|u1") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def zip_bomb(place: Path) -> Path:
    """A few kilobytes that claim 100 TB."""
    with zipfile.ZipFile(place / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("frames.npy", npy_header((10**10, 100, 100)) + bytes(1_000_000))
    return place / "bomb.npz"


def png_bomb() -> bytes:
    """A valid header of 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(bytes(99)))
    )


class Trap:
    def __reduce__(self):
        return os.system, ("echo sprung",)


def object_array(place: Path) -> Path:
    return saved(place, frames=np.array([Trap(), Trap()], object))


def with_image(place: Path, image: Image.Image, name: str = "frame3.png") -> Path:
    folder = images(place)
    image.save(folder / name)
    return folder


def with_file(place: Path, name: str, data: bytes | str) -> Path:
    folder = images(place)
    put(folder, name, data)
    return folder


def all_text(place: Path) -> Path:
    folder = images(place)
    for file in folder.iterdir():
        file.write_text("no image")
    return folder


def mostly_empty(place: Path) -> Path:
    folder = images(place)
    for k in range(5):
        put(folder, f"frame{k}.png")
    return folder


def looped(place: Path) -> Path:
    folder = images(place)
    (folder / "again").symlink_to(folder)
    (folder / "dead.png").symlink_to(folder / "nowhere.png")
    return folder


def piped(place: Path) -> Path:
    folder = images(place)
    os.mkfifo(folder / "pipe.png")
    return folder


def undecodable_name(place: Path) -> Path:
    folder = images(place)
    with open(os.fsencode(folder) + b"/caf\xe9\n.png", "wb") as file:
        file.write(b"no image")
    return folder


def audio_only(place: Path) -> Path:
    with wave.open(str(place / "sound.avi"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(8000))
    return place / "sound.avi"


def film(place: Path, name: str = "film.mp4") -> Path:
    return samples.write_video(place / name, samples.moving_block(40))


def films(place: Path) -> Path:
    for k in range(3):
        film(place / "films", f"{k}.mkv")
    put(place / "films", "1.mkv", b"no video")
    return place / "films"


def hdf5(place: Path, **arrays: np.ndarray) -> Path:
    with h5py.File(place / "some.hdf5", "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return place / "some.hdf5"


def hdf5_bomb(place: Path) -> Path:
    with h5py.File(place / "bomb.hdf5", "w") as file:
        file.create_dataset("observations", (10**9, 10**4), "f4", chunks=(1, 10**4))
    return place / "bomb.hdf5"


def hdf5_elsewhere(place: Path) -> Path:
    with h5py.File(place / "some.hdf5", "w") as file:
        layout = h5py.VirtualLayout((8, 2), "f4")
        layout[:] = h5py.VirtualSource("other.hdf5", "observations", (8, 2))
        file.create_virtual_dataset("observations", layout)
    return place / "some.hdf5"


def hdf5_ring(place: Path) -> Path:
    """Groups that hold themselves."""
    path = samples.write_robomimic(place / "some.hdf5", cameras=())
    with h5py.File(path, "a") as file:
        file["data/demo_0/obs/again"] = file["data/demo_0/obs"]
    return path


def robomimic_without(place: Path, name: str) -> Path:
    path = samples.write_robomimic(place / "some.hdf5")
    with h5py.File(path, "a") as file:
        del file[name]
    return path


def minari_arrow(place: Path) -> Path:
    folder = samples.write_minari(place / "set")
    (folder / "data" / "main_data.hdf5").unlink()
    return folder


def minari_empty(place: Path) -> Path:
    folder = samples.write_minari(place / "set")
    h5py.File(folder / "data" / "main_data.hdf5", "w").close()
    return folder


def lerobot(place: Path, change, version: str = "v2.1", kind: str = "state", **more) -> Path:
    folder = samples.write_lerobot(place / "robot", version, kind, **more)
    change(folder)
    return folder


def rewrite_parquet(folder: Path) -> None:
    file = folder / "data" / "chunk-000" / "episode_000001.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["timestamp"]), file)


def ragged_state(folder: Path) -> None:
    import pyarrow as pa

    file = folder / "data" / "chunk-000" / "episode_000001.parquet"
    table = pq.read_table(file)
    values = pa.array([[1.0] * (1 + k % 3) for k in range(len(table))])
    pq.write_table(table.set_column(table.column_names.index("observation.state"), "observation.state", values), file)


DATA = "data/chunk-000/episode_00000{}.parquet"
VIDEO = "videos/chunk-000/observation.images.cam/episode_00000{}.mp4"

REFUSED = {
    "a path that does not exist": (lambda p: p / "nowhere", (), "does not exist; expected"),
    "a file of an unknown kind": (lambda p: put(p, "some.xyz", "?"), (), ": of no known kind; expected"),
    "a device": (lambda p: Path("/dev/zero"), (), "not a regular file"),
    "a name longer than the system allows": (lambda p: p / ("x" * 5000), (), "cannot be looked at: file name too long"),
    "an empty npz": (lambda p: put(p, "some.npz"), (), "is the file complete"),
    "a cut npz": (lambda p: cut(saved(p, frames=FRAMES)), (), "is the file complete"),
    "text named npz": (lambda p: put(p, "some.npz", "hello"), (), "is the file complete"),
    "a zip bomb": (zip_bomb, (), "claims 100,000.0 GB"), "a pickle inside an npz": (object_array, (), "--trust-pickle"),
    "a trap inside an npz that is trusted": (object_array, ("--trust-pickle",), "only arrays are admitted"),
    "an npz without frames": (lambda p: saved(p, pictures=FRAMES), (), "but has pictures"),
    "observations that are not numbers": (
        lambda p: saved(p, observations=np.full((5, 2), np.nan)), (), "NaN or infinity"
    ), "labels that come back": (lambda p: saved(p, frames=FRAMES, sequence=np.arange(8) % 2), (), "contiguous"),
    "frames and features": (lambda p: saved(p, frames=FRAMES, features=np.zeros((8, 2))), (), "exactly one"),
    "features that are text": (lambda p: saved(p, features=np.full((8, 2), "a")), (), "must hold numbers"),
    "an npy of float images": (lambda p: saved_array(p, FRAMES / 255), (), "must have 2 axes"),
    "a cut npy": (lambda p: cut(saved_array(p, FRAMES)), (), "is the file complete"),
    "an npy that claims 100 TB": (
        lambda p: put(p, "some.npy", npy_header((10**10, 100, 100))), (), "is the file complete"
    ), "an npy of records": (lambda p: saved_array(p, np.zeros(8, [("a", "f4")])), (), "must have 2 axes"),
    "an npy of objects": (lambda p: saved_array(p, np.array([Trap()], object)), (), "--trust-pickle"),
    "a pickle": (lambda p: put(p, "some.pkl", pickle.dumps(FRAMES)), (), "say --trust-pickle"),
    "a trap that is trusted": (
        lambda p: put(p, "some.pkl", pickle.dumps(Trap())), ("--trust-pickle",), "only arrays are admitted"
    ),
    "a cut pickle": (
        lambda p: cut(put(p, "some.pkl", pickle.dumps(FRAMES))), ("--trust-pickle",), "convert it to .npz"
    ),
    "a pickle of text": (
        lambda p: put(p, "some.pkl", pickle.dumps("hi")), ("--trust-pickle",), "expected a dict of arrays"
    ), "an empty folder": (lambda p: p, (), "holds no images"),
    "a folder of text": (lambda p: put(p, "a.txt", "hi").parent, (), "found a.txt"),
    "images that are text": (all_text, (), "none of 8 images that were tried can be read: frame0.png (not an image)"),
    "a cut one of two images": (
        lambda p: cut(images(p, num=2, suffix=".jpg") / "frame1.jpg").parent, (), "1 of 2 cannot be read: frame1.jpg ("
    ),
    "images of which most are empty": (mostly_empty, (), "5 of 8 images cannot be read: frame0.png (empty file)"),
    "a single image": (lambda p: images(p, 1), (), "at least 2 frames, but has 1"),
    "images that never change": (
        lambda p: samples.write_images(p / "s", np.zeros((5, 9, 9), np.uint8)), (), "all 5 frames are equal"
    ), "a crop larger than the images": (images, ("--crop", "0,0,99,99"), "smaller than --crop 0,0,99,99"),
    "a rate for images": (images, ("--rate", "5"), "use --every here"),
    "a crop that is no crop": (images, ("--crop", "1,2,3"), "LEFT,TOP,RIGHT,BOTTOM"),
    "a crop inside out": (images, ("--crop", "9,9,3,3"), "LEFT below RIGHT"),
    "a size of nothing": (images, ("--size", "0"), "from 4 to 1024"),
    "gray and rgb": (images, ("--gray", "--rgb"), "exclude each other"),
    "a cut mp4": (lambda p: cut(film(p)), (), "cannot be decoded"),
    "an empty video": (lambda p: put(p, "film.mp4"), (), "cannot be decoded"),
    "text named mkv": (lambda p: put(p, "film.mkv", "hello" * 99), (), "cannot be decoded"),
    "a file with sound only": (audio_only, (), "no video stream"),
    "an hdf5 without observations": (lambda p: hdf5(p, rewards=np.zeros(9)), (), "but has rewards"),
    "an empty hdf5 file": (lambda p: put(p, "some.hdf5"), (), "is the file complete"),
    "a cut hdf5": (lambda p: cut(samples.write_d4rl(p / "some.hdf5")), (), "is the file complete"),
    "text named h5": (lambda p: put(p, "some.h5", "hello"), (), "is the file complete"),
    "terminals of another length": (
        lambda p: hdf5(p, observations=np.eye(9), terminals=np.zeros(5)), (), "shape (5,) for 9"
    ),
    "actions of another length": (
        lambda p: hdf5(p, observations=np.eye(9), actions=np.zeros((5, 1))), (), "5 rows for 9"
    ),
    "observations of four axes": (
        lambda p: hdf5(p, observations=np.zeros((9, 2, 2, 2))), (), "expected uint8 pictures or vectors"
    ), "an hdf5 that claims 40 TB": (hdf5_bomb, (), "but holds less"),
    "an hdf5 that points elsewhere": (hdf5_elsewhere, (), "lies in other files"),
    "an hdf5 that links elsewhere": (
        lambda p: hdf5(p, observations=h5py.ExternalLink("/dev/zero", "x")), (), "lies in other files"
    ),
    "demonstrations without observations": (
        lambda p: hdf5(p, **{"data/demo_0/actions": np.eye(9)}), (), "holds no observations"
    ),
    "a camera that is not there": (
        lambda p: samples.write_robomimic(p / "some.hdf5"), ("--camera", "front"),
        "from agentview_image, eef_pos, object"
    ),
    "a rate for demonstrations": (
        lambda p: samples.write_robomimic(p / "some.hdf5"), ("--rate", "3"), "use --every here"
    ), "a Minari dataset that is not here": (lambda p: Path("minari:no/such-v9"), (), "minari download no/such-v9"),
    "a Minari folder of another kind": (minari_arrow, (), "holds no images"),
    "a Minari dataset without episodes": (minari_empty, (), "holds no episodes"),
    "a cut Minari dataset": (
        lambda p: cut(samples.write_minari(p / "s") / "data/main_data.hdf5").parent.parent, (), "is the file complete"
    ), "a broken info.json": (lambda p: lerobot(p, lambda f: put(f, "meta/info.json", "{")), (), "is no info.json"),
    "an info.json of other things": (
        lambda p: lerobot(p, lambda f: put(f, "meta/info.json", "[1]")), (), "is no info.json"
    ),
    "no list of episodes": (
        lambda p: lerobot(p, lambda f: (f / "meta/episodes.jsonl").unlink()), (), "episodes listed in meta/"
    ),
    "an empty list of episodes": (
        lambda p: lerobot(p, lambda f: put(f, "meta/episodes.jsonl")), (), "lists no episodes"
    ),
    "no data at all": (lambda p: lerobot(p, lambda f: shutil.rmtree(f / "data")), (), "3 of 3 episodes cannot be read"),
    "no videos at all": (
        lambda p: lerobot(p, lambda f: shutil.rmtree(f / "videos"), kind="video"), (), "3 of 3 episodes cannot be read"
    ),
    "two cameras": (
        lambda p: lerobot(p, lambda f: None, kind="image", cameras=("a", "b")), (), "choose one with --camera"
    ), "another camera": (lambda p: lerobot(p, lambda f: None), ("--camera", "front"), "has no camera front"),
    "a list of episodes that is cut": (
        lambda p: lerobot(p, lambda f: cut(f / "meta/episodes/chunk-000/file-000.parquet"), "v3.0"), (),
        "episodes listed in meta/"
    )
}

WARNED = {
    "text among images": (
        lambda p: with_file(p, "notes.txt", "hi"), (), "1 of 9 files skipped: notes.txt (not an image)"
    ),
    "an empty image": (lambda p: with_file(p, "frame3.png", ""), (), "1 of 8 files skipped: frame3.png (empty file)"),
    "text named jpg": (lambda p: with_file(p, "z.jpg", "hi"), (), "1 of 9 files skipped: z.jpg (not an image)"),
    "a cut image": (
        lambda p: (cut(images(p, suffix=".jpg") / "frame3.jpg").parent), (), "1 of 8 files skipped: frame3.jpg ("
    ),
    "an image that is a bomb": (
        lambda p: with_file(p, "frame3.png", png_bomb()), (), "frame3.png (Image size (3600000000 pixels)"
    ),
    "images of other sizes": (
        lambda p: with_image(p, Image.new("RGB", (60, 10), "red")), (), "1 of 8 images have another size than 32 x 24"
    ),
    "an image of floats": (
        lambda p: with_image(p, Image.new("F", (32, 24)), "frame3.tif"), (), "frame3.tif (32-bit pixels"
    ),
    "a loop of links, and a dead one": (
        looped, (), "2 of 10 files skipped: dead.png (does not exist), again ("
    ), "a pipe": (piped, (), "1 of 9 files skipped: pipe.png (not a regular file)"),
    "a name that is no text": (undecodable_name, (), "1 of 9 files skipped: caf\\udce9\\n.png (not an image)"),
    "a very long name": (lambda p: with_file(p, "x" * 240 + ".png", "?"), (), "1 of 9 files skipped: xxxx"),
    "a name in other letters": (lambda p: with_file(p, "картина 🚗.png", "?"), (), "картина 🚗.png (not an image)"),
    "a folder of a single image": (
        lambda p: images(p) and images(p / "shots", 1).parent, (), "1 of 2 sequences hold a single frame"
    ), "a video that breaks off": (lambda p: cut(film(p, "film.mkv"), 0.8), (), "film.mkv breaks off after"),
    "a broken video among others": (films, (), "1 of 3 files skipped: 1.mkv (cannot be decoded"),
    "a demonstration without the camera": (
        lambda p: robomimic_without(p, "data/demo_1/obs/agentview_image"), ("--camera", "agentview_image"),
        "1 of 3 episodes skipped: demo_1 (no agentview_image)"
    ),
    "a demonstration without a vector": (
        lambda p: robomimic_without(p, "data/demo_2/obs/object"), (), "1 of 3 episodes skipped: demo_2 (no object)"
    ),
    "a missing episode": (
        lambda p: lerobot(p, lambda f: (f / DATA.format(1)).unlink()), (),
        "1 of 3 episodes skipped: episode 1 (no data file holds it)"
    ),
    "a cut parquet": (
        lambda p: lerobot(p, lambda f: cut(f / DATA.format(2))), (),
        "1 of 3 episodes skipped: episode 2 (episode_000002"
    ), "a parquet without a column": (lambda p: lerobot(p, rewrite_parquet), (), "has no column timestamp"),
    "a parquet of unequal rows": (lambda p: lerobot(p, ragged_state), (), "rows of unequal length"),
    "a missing video": (
        lambda p: lerobot(p, lambda f: (f / VIDEO.format(1)).unlink(), kind="video"), (),
        "1 of 3 episodes skipped: episode 1 (episode_000001.mp4"
    ),
    "an empty video among others": (
        lambda p: lerobot(p, lambda f: put(f, VIDEO.format(0)), kind="video"), (),
        "1 of 3 episodes skipped: episode 0 (episode_000000.mp4"
    )
}


def test_the_tables_hold_many_kinds_of_damage():
    assert len(REFUSED) + len(WARNED) >= 80


# of every kind of file one, to see what the command makes of it
BY_COMMAND = (
    "a path that does not exist", "a trap inside an npz that is trusted", "images that are text", "gray and rgb",
    "a cut mp4", "an hdf5 that claims 40 TB", "a Minari dataset that is not here", "no data at all"
)


def read_as_typed(path, arguments):
    """The recordings and the warnings of `plan2vec inspect PATH ARGUMENTS`, without its parser."""
    words, given = iter(arguments), {}
    for flag in words:
        kind = {"--size": int, "--rate": float, "--crop": str, "--camera": str}.get(flag)
        given[flag.removeprefix("--").replace("-", "_")] = kind(next(words)) if kind else True
    return read_recordings(path, ReadOptions(**given))


def check_refusal(path, arguments, words, line):
    assert words in line and len(line) < 1000 + len(str(path)) and "sprung" not in line
    if not {"--gray", "--size"} & set(arguments) and "LEFT" not in words:
        assert str(path) in line


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_refused(name, tmp_path, capsys, monkeypatch):
    make, arguments, words = REFUSED[name]
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    path = make(tmp_path)
    with pytest.raises((ValueError, OSError)) as refused:
        read_as_typed(path, arguments)
    check_refusal(path, arguments, words, " ".join(str(refused.value).split()))
    captured = capsys.readouterr()
    assert captured.out == "" and "sprung" not in captured.err


@pytest.mark.parametrize("name", BY_COMMAND)
def test_a_command_says_what_cannot_be_used_in_one_line(name, tmp_path, capsys, monkeypatch):
    make, arguments, words = REFUSED[name]
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    path = make(tmp_path)
    assert main(["inspect", str(path), *arguments, "--json"]) == 2
    captured = capsys.readouterr()
    line = captured.err.strip().splitlines()[-1]
    assert captured.out == "" and "Traceback" not in captured.err and "sprung" not in captured.err
    assert line.startswith("plan2vec: ")
    check_refusal(path, arguments, words, line)


@pytest.mark.parametrize("name", WARNED)
def test_what_can_be_left_out_is_counted_and_the_rest_is_read(name, tmp_path, capsys):
    make, arguments, words = WARNED[name]
    found, notes = read_as_typed(make(tmp_path), arguments)
    assert found.num_frames >= 5 and any(words in note for note in notes), notes
    said = capsys.readouterr().err
    assert all(f"warning: {note}" in said for note in notes)


@pytest.mark.parametrize("name", ["text among images", "a missing video", "a missing episode"])
def test_a_command_answers_with_its_warnings(name, tmp_path, capsys):
    make, arguments, words = WARNED[name]
    assert main(["inspect", str(make(tmp_path)), *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer["num_frames"] >= 5
    assert any(words in warning for warning in answer["warnings"]), answer["warnings"]
    assert all(f"warning: {warning}" in captured.err for warning in answer["warnings"])


def test_a_file_that_may_not_be_read_is_refused(capsys):
    """Root may read all, so the test gives that right up for a moment."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as place:
        folder = images(Path(place))
        npz = saved(Path(place), frames=FRAMES)
        assert main(["inspect", str(npz)]) == 0 and main(["inspect", str(folder)]) == 0
        os.chmod(place, 0o755)
        npz.chmod(0)
        (folder / "frame3.png").chmod(0)
        try:
            if root:
                os.seteuid(65534)
            refused, read = main(["inspect", str(npz)]), main(["inspect", str(folder)])
        finally:
            if root:
                os.seteuid(0)
    captured = capsys.readouterr().err
    assert (refused, read) == (2, 0)
    assert f"plan2vec: {npz} cannot be read as .npz ([Errno 13] Permission denied" in captured
    assert "1 of 8 files skipped: frame3.png ([Errno 13] Permission denied" in captured


def test_a_ring_of_groups_ends(tmp_path, capsys):
    assert main(["inspect", str(hdf5_ring(tmp_path)), "--camera", "object", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["frame_shape"] == [5]


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [("av", film, "video"), ("h5py", lambda p: samples.write_d4rl(p / "some.hdf5"), "formats"),
     ("pyarrow", lambda p: samples.write_lerobot(p / "robot", kind="state"), "formats")],
)
def test_a_missing_extra_is_named(module, make, extra, tmp_path, capsys, monkeypatch):
    path = make(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, module, None)
    assert main(["inspect", str(path)]) == 2
    assert f"pip install 'plan2vec[{extra}]'" in capsys.readouterr().err


def test_rows_that_never_end_or_crash_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5_guard, "STALLED", 1)
    monkeypatch.setattr(hdf5_guard, "PROBE", "import signal, time; signal.alarm(1); time.sleep(60)")
    with pytest.raises(ValueError, match="rows that never end"):
        hdf5_guard.require_sound(tmp_path / "some.hdf5", 1)
    monkeypatch.setattr(hdf5_guard, "PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(ValueError, match="crash the reader"):
        hdf5_guard.require_sound(tmp_path / "some.hdf5", 2)


def test_a_large_process_reads_rows_of_variable_length_as_a_small_one_does(tmp_path):
    """The memory of the process that asks is no evidence against the file."""

    path = tmp_path / "rows.hdf5"
    with h5py.File(path, "w") as file:
        rows = file.create_dataset("observations", (3,), dtype=h5py.vlen_dtype(np.uint8))
        for number in range(3):
            rows[number] = np.arange(10, dtype=np.uint8)
    code = (
        "import numpy as np; held = np.ones(300_000_000, np.float32); from pathlib import Path; "
        f"from plan2vec.readers.hdf5_guard import require_sound; require_sound(Path({str(path)!r}), 0); "
        "print(held.nbytes)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.strip() == "1200000000", done.stderr
