"""Video files by PyAV (H.264, AV1, ...): one file, or a folder of them; every file is one sequence."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image

from plan2vec.config import parse_crop
from plan2vec.data import Sequences
from plan2vec.readers.folders import list_files, why_not_a_file
from plan2vec.readers.images import SUFFIXES as IMAGE_SUFFIXES
from plan2vec.readers.preparation import LARGEST_PICTURE, frame_shape, to_frame
from plan2vec.readers.reading import FrameStore, Picker, Reading, build, first_line, name_some, shown

NAME = "video"
EXPECTED = "a video or a folder of videos"
SUFFIXES = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg", ".ts", ".ogv", ".wmv", ".flv", ".3gp")
# beside PyAV's own errors
UNREADABLE = (OSError, RuntimeError, MemoryError, ArithmeticError, LookupError, TypeError, AttributeError)
GRAY_SPREAD = 24  # levels of 255 by which the channels of a gray pixel may differ after a codec
COLOURED_SHARE = 0.001  # of the pixels beyond that: a small coloured object makes a picture coloured
COMPLETE = 0.9  # share of the promised frames below which a video counts as cut off


def recognizes(path: Path) -> bool:
    """A video file, or a folder with at least as many videos as images directly in it or, without images, below it."""
    if not os.path.isdir(path):
        return path.suffix.lower() in SUFFIXES and os.path.exists(path)
    try:
        suffixes = [Path(name).suffix.lower() for name in os.listdir(path) if not name.startswith(".")]
    except OSError:
        return False
    num_videos, num_images = (sum(suffix in kind for suffix in suffixes) for kind in (SUFFIXES, IMAGE_SUFFIXES))
    if num_videos or num_images:
        return num_videos >= max(num_images, 1)
    files = [file.suffix.lower() for _, files in list_files(path) for file in files]
    return any(suffix in SUFFIXES for suffix in files) and not any(suffix in IMAGE_SUFFIXES for suffix in files)


def read(path: Path, reading: Reading) -> Sequences:
    source = shown(path)
    files = [path] if not os.path.isdir(path) else [file for _, files in list_files(path) for file in files]
    videos = [file for file in files if file.suffix.lower() in SUFFIXES]
    skipped = [(shown(file.name), "not a video") for file in files if file.suffix.lower() not in SUFFIXES]
    import_av()
    problems = []
    with reading.journal.bar("video", sum(map(promised_frames, videos))) as advance:
        film = Film(reading, advance)
        for number, file in enumerate(videos):
            try:
                film.add_video(file, number)
            except ValueError as error:
                problems.append((shown(file.name), str(error)))
        advance(film.num_decoded)
    if 2 * len(problems) > len(videos):
        tried = (
            f"{len(problems)} of {len(videos)} videos cannot be read: {name_some(problems)}" if len(videos) > 1
            else problems[0][1]
        )
        raise ValueError(f"{source}: {tried}; repair or remove what is damaged, or convert it to .mp4")
    reading.note_skipped([*problems, *skipped], len(files), "files")
    return film.finish(source)


class Film:
    """Frames of several videos, prepared alike: the first video decides on size and channels."""

    def __init__(self, reading: Reading, advance: Callable[[int], None]):
        self.reading, self.box, self.advance = reading, parse_crop(reading.options.crop), advance
        self.num_decoded = 0
        self.store: FrameStore | None = None
        self.shows_gray = False
        self.size: tuple[int, int] | None = None
        self.labels: list[int] = []
        self.times: list[float] = []

    def add_video(self, file: Path, label: int) -> None:
        """The kept frames of a file; one that breaks off gives those before the break."""
        picker, num_before = Picker(self.reading.options), len(self.labels)
        if self.store is None:
            self.shows_gray = shows_gray(file)
        try:
            for index, (time, frame) in enumerate(decode(file)):
                self.num_decoded += 1
                if self.num_decoded % 100 == 0:
                    self.advance(self.num_decoded)
                if picker.keeps(index, time):
                    self.add(picture_of(frame), label, time)
        except ValueError as error:
            num_read = len(self.labels) - num_before
            if not num_read:
                raise
            self.reading.notes.append(
                f"{shown(file.name)} breaks off after {num_read} frames ({error}); those are used"
            )
        if len(self.labels) == num_before:
            raise ValueError("it holds no frame that can be decoded")

    def add(self, picture: Image.Image, label: int, time: float) -> None:
        if self.store is None:
            self.size = picture.size
            channels = 1 if self.shows_gray else len(picture.getbands())
            self.store = FrameStore(frame_shape(picture.size, channels, self.reading.options))
        self.store.add(to_frame(picture, self.store.shape, self.box))
        self.labels.append(label)
        self.times.append(time)

    def finish(self, source: str, **recorded: np.ndarray | None) -> Sequences:
        frames = self.store.finish() if self.store else np.empty((0, 1, 1, 1), np.uint8)
        return build(
            self.reading, source, frames, np.array(self.labels, np.int64), self.size, time=np.array(self.times),
            **recorded
        )


def decode(file: Path) -> Iterator[tuple[float, Any]]:
    """(seconds since the first frame, PyAV's frame) of every frame; a ValueError says where and why it breaks off."""
    av = import_av()
    if problem := why_not_a_file(file):
        raise ValueError(problem)
    try:
        with av.open(str(file), metadata_errors="replace") as container:
            if not container.streams.video:
                raise ValueError("no video stream in it")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            stream.codec_context.options = {"max_pixels": str(LARGEST_PICTURE)}
            first, index = None, -1
            for frame in container.decode(stream):
                index += 1
                time = float(frame.time) if frame.time is not None else index / float(stream.average_rate or 25)
                first = time if first is None else first
                yield time - first, frame
            if index + 1 < COMPLETE * _promised(stream):
                raise ValueError(f"{index + 1} frames where its header promises {_promised(stream)}")
    except (*UNREADABLE, av.FFmpegError) as error:
        raise ValueError(f"cannot be decoded: {first_line(error)}") from None


def shows_gray(file: Path) -> bool:
    """Whether a video shows gray pictures only, judged at five places; most codecs store them as colour all the same.
    """
    av = import_av()
    if why_not_a_file(file):
        return False
    try:
        with av.open(str(file), metadata_errors="replace") as container:
            stream = container.streams.video[0]
            stream.codec_context.options = {"max_pixels": str(LARGEST_PICTURE)}
            for share in (0.0, 0.2, 0.4, 0.6, 0.8):
                container.seek(int(share * (container.duration or 0)))
                picture = next(container.decode(stream)).to_ndarray(format="rgb24").astype(np.int16)
                if np.mean(picture.max(axis=2) - picture.min(axis=2) > GRAY_SPREAD) > COLOURED_SHARE:
                    return False
        return True
    except (*UNREADABLE, ValueError, StopIteration, av.FFmpegError):
        return False


def promised_frames(file: Path) -> int:
    """How many frames the header of a file says it holds; 0 if it does not say."""
    av = import_av()
    if why_not_a_file(file):
        return 0
    try:
        with av.open(str(file), metadata_errors="replace") as container:
            return _promised(container.streams.video[0]) if container.streams.video else 0
    except (*UNREADABLE, av.FFmpegError):
        return 0


def _promised(stream) -> int:
    if stream.frames:
        return stream.frames
    duration = stream.container.duration
    return int(duration / 1e6 * float(stream.average_rate or 0)) if duration else 0


def picture_of(frame: Any) -> Image.Image:
    """PyAV's frame as a picture, upright; in gray where the video is."""
    av = import_av()
    if frame.width * frame.height > LARGEST_PICTURE:
        raise ValueError(f"{frame.width} x {frame.height} pixels, more than {LARGEST_PICTURE // 1_000_000} million")
    try:
        if frame.format.name.startswith("gray"):
            picture = Image.fromarray(np.ascontiguousarray(frame.to_ndarray(format="gray")))
        else:
            picture = frame.to_image()
        return picture.rotate(frame.rotation, expand=True) if frame.rotation else picture
    except (*UNREADABLE, av.FFmpegError) as error:
        raise ValueError(f"cannot be decoded: {first_line(error)}") from None


def import_av() -> ModuleType:
    try:
        import av
    except ModuleNotFoundError:
        raise ValueError("reading video needs the extra [video]: pip install 'plan2vec[video]'") from None
    return av
