"""Video files by PyAV (H.264, AV1, ...): one file, or a folder of them; every file is one sequence."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from plan2vec.data import Sequences
from plan2vec.readers.folders import list_files, why_not_a_file
from plan2vec.readers.image_folders import SUFFIXES as IMAGE_SUFFIXES
from plan2vec.readers.kept_frames import FrameStore, build, tick_of
from plan2vec.readers.picture_to_frame import LARGEST_PICTURE
from plan2vec.readers.refusals import DAMAGED, Reading, first_line, import_extra, shown

NAME = "video"
EXPECTED = "a video or a folder of videos"
SUFFIXES = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg", ".ts", ".ogv", ".wmv", ".flv", ".3gp")
# files that hold their frames themselves; playlists (ffconcat, m3u8, mpd) would open their neighbours
CONTAINERS = "mov,mp4,matroska,webm,avi,mpeg,mpegts,mpegvideo,ogg,asf,flv,m4v,h264,hevc,av1,obu,ivf,wav,mp3,aac,flac"
PLAYLISTS = (b"ffconcat", b"#EXTM3U", b"<?xml", b"<MPD")  # how they begin
GRAY_SPREAD = 24  # levels of 255 by which the channels of a gray pixel may differ after a codec
COLOURED_SHARE = 0.001  # of the pixels beyond that: a small coloured object makes a picture coloured
COMPLETE = 0.9  # share of the promised frames below which a video counts as cut off


def recognizes(path: Path) -> bool:
    """A video file, or a folder with at least as many videos as images directly in it or, without images, below it."""
    if not os.path.isdir(path):
        return path.suffix.lower() in SUFFIXES and os.path.exists(path)
    here, *below = [[file.suffix.lower() for file in files] for files in list_files(path)[0]]
    num_videos, num_images = (sum(suffix in kind for suffix in here) for kind in (SUFFIXES, IMAGE_SUFFIXES))
    if num_videos or num_images:
        return num_videos >= num_images
    found = {suffix for suffixes in below for suffix in suffixes}
    return not found.isdisjoint(SUFFIXES) and found.isdisjoint(IMAGE_SUFFIXES)


def read(path: Path, reading: Reading) -> Sequences:
    found, links = list_files(path) if os.path.isdir(path) else ([[path]], [])
    files = [file for some in found for file in some]
    videos = [file for file in files if file.suffix.lower() in SUFFIXES]
    others = [(shown(file.name), "not a video") for file in files if file.suffix.lower() not in SUFFIXES]
    import_extra("av")
    problems = []
    with reading.journal.bar("video", sum(map(promised_frames, videos))) as advance:
        film = Film(reading, advance)
        for number, file in enumerate(videos):
            try:
                film.add_video(file, number)
            except ValueError as error:
                problems.append((shown(file.name), str(error)))
        advance(film.num_decoded)
    remedy = "repair or remove what is damaged, or convert it to .mp4"
    reading.leave_out(problems, len(videos), "videos", remedy, [*others, *links])
    return film.finish()


class Film:
    """Frames of several videos, prepared alike: the first video decides on size and channels."""

    def __init__(self, reading: Reading, advance: Callable[[int], None]):
        self.reading, self.advance, self.store = reading, advance, FrameStore(reading.options)
        self.num_decoded, self.shows_gray = 0, False
        self.labels, self.times = list[int](), list[float]()

    def add_video(self, file: Path, label: int) -> None:
        """The kept frames of a file; one that breaks off gives those before the break."""
        last_tick, num_before = -1, len(self.labels)
        if not self.labels:
            self.shows_gray = shows_gray(file)
        try:
            for index, (time, frame) in enumerate(decode(file)):
                self.num_decoded += 1
                if self.num_decoded % 100 == 0:
                    self.advance(self.num_decoded)
                if (tick := tick_of(self.reading.options, index, time)) > last_tick:
                    self.add(frame, label, time)
                    last_tick = tick
        except ValueError as error:
            if not (num_read := len(self.labels) - num_before):
                raise
            self.reading.notes.append(f"{shown(file.name)} breaks off after {num_read} frames ({error}); they are kept")
        if len(self.labels) == num_before:
            raise ValueError("it holds no frame that can be decoded")

    def add(self, frame: Any, label: int, time: float) -> None:
        """PyAV's frame, upright; in gray where the video is."""
        if frame.width * frame.height > LARGEST_PICTURE:
            raise ValueError(f"{frame.width} x {frame.height} pixels, more than {LARGEST_PICTURE // 1_000_000} million")
        with _decoding():
            is_gray = frame.format.name.startswith("gray")
            picture = Image.fromarray(frame.to_ndarray(format="gray")) if is_gray else frame.to_image()
            picture = picture.rotate(frame.rotation, expand=True) if frame.rotation else picture
        self.store.add_picture(np.atleast_3d(np.asarray(picture)), 1 if self.shows_gray else None)
        self.labels.append(label)
        self.times.append(time)

    def finish(self, **recorded: np.ndarray | None) -> Sequences:
        sequence, time = np.array(self.labels, np.int64), np.array(self.times)
        return build(self.reading, self.store.finish(), sequence, self.store.size, time=time, **recorded)


@contextmanager
def _decoding() -> Iterator[None]:
    """Turns whatever PyAV finds wrong into a ValueError."""
    try:
        yield
    except (*DAMAGED, import_extra("av").FFmpegError) as error:
        raise ValueError(f"cannot be decoded: {first_line(error)}") from None


@contextmanager
def _open(file: Path) -> Iterator[tuple[Any, Any]]:
    """PyAV's container and its first video stream; a ValueError says what is wrong, also inside the block."""
    av = import_extra("av")
    if problem := why_not_a_file(file):
        raise ValueError(problem)
    with open(file, "rb") as opened:
        if opened.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(PLAYLISTS):
            raise ValueError("cannot be decoded: a playlist, and the files it names are not opened")
    only = {"format_whitelist": CONTAINERS, "protocol_whitelist": "file"}
    # an absolute path: "concat:a.mp4|b.mp4" can be the name of a file
    with _decoding(), av.open(os.path.abspath(file), metadata_errors="replace", options=only) as container:
        if not container.streams.video:
            raise ValueError("no video stream in it")
        stream = container.streams.video[0]
        stream.codec_context.options = {"max_pixels": str(LARGEST_PICTURE)}
        yield container, stream


def decode(file: Path) -> Iterator[tuple[float, Any]]:
    """(seconds since the first frame, PyAV's frame) of every frame; a ValueError says where and why it breaks off."""
    with _open(file) as (container, stream):
        stream.thread_type = "AUTO"
        first, num_frames = None, 0
        for frame in container.decode(stream):
            time = float(frame.time) if frame.time is not None else num_frames / float(stream.average_rate or 25)
            first = time if first is None else first
            num_frames += 1
            yield time - first, frame
        if num_frames < COMPLETE * _promised(stream):
            raise ValueError(f"{num_frames} frames where its header promises {_promised(stream)}")


def shows_gray(file: Path) -> bool:
    """Whether a video shows gray pictures only, judged at five places; most codecs store gray as colour."""
    try:
        with _open(file) as (container, stream):
            for share in (0.0, 0.2, 0.4, 0.6, 0.8):
                container.seek(int(share * (container.duration or 0)))
                picture = next(container.decode(stream)).to_ndarray(format="rgb24").astype(np.int16)
                if np.mean(picture.max(axis=2) - picture.min(axis=2) > GRAY_SPREAD) > COLOURED_SHARE:
                    return False
        return True
    except (ValueError, StopIteration):
        return False


def promised_frames(file: Path) -> int:
    with suppress(ValueError), _open(file) as (_, stream):
        return _promised(stream)
    return 0


def _promised(stream: Any) -> int:
    """How many frames the header says a stream holds, by its length where it gives no number; 0 if it does not say."""
    duration = stream.container.duration
    return stream.frames or (int(duration / 1e6 * float(stream.average_rate or 0)) if duration else 0)
