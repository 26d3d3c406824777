"""LeRobot folders, versions 2.0, 2.1 and 3.0, without the lerobot package.

v2.1   meta/info.json  meta/episodes.jsonl
       data/chunk-000/episode_000000.parquet  videos/chunk-000/KEY/episode_000000.mp4
v3.0   meta/info.json  meta/episodes/chunk-000/file-000.parquet
       data/chunk-000/file-000.parquet        videos/KEY/chunk-000/file-000.mp4

In v3.0 a file holds many episodes. Frames are the pictures of one camera, or of all side by side, else the vectors of
`observation.state`, with `action` and `timestamp`. Names and links that lead out of the folder are not followed."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.data import Sequences
from plan2vec.readers.episodes import Episode, Rows, choose_camera, read_episodes
from plan2vec.readers.folders import leads_outside, require_file, why_not_a_file
from plan2vec.readers.kept_frames import FrameStore, build, kept_frames
from plan2vec.readers.refusals import DAMAGED, Reading, first_line, import_extra, refusing, require_memory, shown
from plan2vec.readers.video import Film, decode

NAME = "LeRobot"
EXPECTED = "a LeRobot folder"
STATE = "observation.state"
AGAIN = "download the folder again"
REMEDY = f"{AGAIN} or record them again"
ALL_CAMERAS = "all"
Listed = tuple[Path, float, int]  # an episode's video file, if it has one; seconds into it; number of the episode


@dataclass(frozen=True)
class Info:
    """What meta/info.json says of a folder, and which feature the user wants."""

    folder: Path
    version: str
    rate: float  # frames per second
    episodes_per_chunk: int
    cameras: list[str]
    has_action: bool
    key: str  # of the feature that is the frame, or ALL_CAMERAS
    kind: str  # of that feature: "video", "image" or the type of its numbers


def recognizes(path: Path) -> bool:
    return os.path.isdir(path) and os.path.exists(path / "meta" / "info.json")


def read(path: Path, reading: Reading) -> Sequences:
    if (info := _read_info(path, reading)).key == ALL_CAMERAS:
        return _read_side_by_side(info, reading)
    with refusing(f"{reading.source}:", (*DAMAGED, ValueError), "the episodes listed in meta/ cannot be read", AGAIN):
        listed = sorted(_listed_in_v3(info) if info.version.startswith("v3") else _listed_in_v2(info))
    if not listed:
        raise ValueError(f"{reading.source}: meta/ lists no episodes; {AGAIN}")
    episodes, problems = _read_data(info, {number for _, _, number in listed}, reading)
    if info.kind == "video":
        return _read_videos(info, listed, {episode.label: episode.beside for episode in episodes}, problems, reading)
    reading.leave_out(problems, len(listed), "episodes", REMEDY)
    return read_episodes(reading, episodes)


def _read_side_by_side(info: Info, reading: Reading) -> Sequences:
    """The pictures of all cameras, in the order of their names; a frame that one lacks is left out."""
    parts = [read(info.folder, replace(reading, options=replace(reading.options, camera=name)))
             for name in info.cameras or (None,)]
    if len(parts) == 1:
        return parts[0]
    if len({part.frame_shape for part in parts}) > 1:
        sizes = ", ".join(f"{shown(name)} {part.frame_shape}" for name, part in zip(info.cameras, parts, strict=True))
        raise ValueError(f"{reading.source}: the cameras give frames of several shapes ({sizes}); give one with --size")
    rows = [{key: row for row, key in enumerate(zip(part.sequence.tolist(), np.asarray(part.time).tolist(),
                                                    strict=True))} for part in parts]
    taken = [[some[key] for some in rows] for key in rows[0] if all(key in some for some in rows)]
    height, width, channels = parts[0].frame_shape
    store = FrameStore(reading.options, (height, width * len(parts), channels))
    for numbers in taken:
        store.add(np.concatenate([part.frames[row] for part, row in zip(parts, numbers, strict=True)], axis=1))
    first = np.array([numbers[0] for numbers in taken], np.int64)
    along = {name: value[first] for name in ("action", "time") if (value := getattr(parts[0], name)) is not None}
    return build(reading, store.finish(), parts[0].sequence[first], None, **along)


def _read_info(folder: Path, reading: Reading) -> Info:
    file, source, camera = folder / "meta" / "info.json", reading.source, reading.options.camera
    require_file(file, shown(file), folder)
    with refusing(shown(file), (*DAMAGED, ValueError), "is no info.json of a LeRobot folder", AGAIN):
        said = json.loads(file.read_text(encoding="utf-8"))
        kinds = {str(key): kind for key, feature in said["features"].items()
                 if isinstance(kind := feature.get("dtype"), str)}
        version, rate = str(said["codebase_version"]), float(said["fps"])
        episodes_per_chunk = max(1, int(said.get("chunks_size", 1000)))
    cameras = sorted(key for key, kind in kinds.items() if kind in ("video", "image"))
    others = [key for key in kinds if key.startswith("observation") and key not in cameras]
    key = camera if camera == ALL_CAMERAS else choose_camera(source, cameras, others, camera) or STATE
    if key not in (*kinds, ALL_CAMERAS):
        features = ", ".join(map(shown, kinds)) or "missing"
        raise ValueError(f"{source} has no camera and no {STATE}; its features are {features}")
    if leads_outside(folder / key, folder):
        raise ValueError(f"{source}: the camera {shown(key)} leads out of the folder; {AGAIN}")
    return Info(folder, version, rate, episodes_per_chunk, cameras, "action" in kinds, key, kinds.get(key, ""))


def _listed_in_v2(info: Info) -> Iterator[Listed]:
    file = info.folder / "meta" / "episodes.jsonl"
    require_file(file, shown(file.name), info.folder)
    for line in filter(str.strip, file.read_text(encoding="utf-8").splitlines()):
        index = int(json.loads(line)["episode_index"])
        chunk = f"chunk-{index // info.episodes_per_chunk:03d}"
        yield info.folder / "videos" / chunk / info.key / f"episode_{index:06d}.mp4", 0.0, index


def _listed_in_v3(info: Info) -> Iterator[Listed]:
    """One row per episode, which says in which video it lies and where it begins there."""
    columns = [f"videos/{info.key}/{name}" for name in ("chunk_index", "file_index", "from_timestamp")
               if info.kind == "video"]
    for file in sorted((info.folder / "meta" / "episodes").glob("chunk-*/file-*.parquet")):
        table = read_columns(file, ["episode_index", *columns], info.folder)
        for row, index in enumerate(table["episode_index"]):
            chunk, number, begins = (table[name][row] for name in columns) if columns else (0, 0, 0.0)
            video = Path("videos", info.key, f"chunk-{int(chunk):03d}", f"file-{int(number):03d}.mp4")
            yield info.folder / video, float(begins), int(index)


def _read_data(info: Info, wanted: set[int], reading: Reading) -> tuple[list[Episode], list[tuple[str, str]]]:
    """The wanted episodes with what the parquet files say of each, and (name, problem) of those that are missing."""
    files = sorted((info.folder / "data").glob("chunk-*/*.parquet"))
    found, broken = dict[int, Episode](), list[str]()
    with reading.journal.bar("parquet", len(files)) as advance:
        for number, file in enumerate(files):
            try:
                found |= {episode.label: episode for episode in _episodes_of(file, info) if episode.label in wanted}
            except ValueError as error:
                broken.append(f"{shown(file.name)}: {first_line(error)}")
            advance(number + 1)
    why = broken[0] if broken else "no data file holds it"
    problems = [(f"episode {index}", why) for index in sorted(wanted - found.keys())]
    return [found[index] for index in sorted(found)], problems


def _episodes_of(file: Path, info: Info) -> Iterator[Episode]:
    beside = ["action"] if info.has_action else []
    vectors = [info.key] if info.kind not in ("image", "video") else []
    table = read_columns(file, ["episode_index", "timestamp", *beside, *vectors], info.folder)
    index = table["episode_index"]
    frames = EncodedColumn(file, info.key, info.folder) if info.kind == "image" else table.get(info.key)
    starts = np.flatnonzero(np.diff(index, prepend=index[:1] - 1)).tolist()
    for first, last in zip(starts, [*starts[1:], len(index)], strict=True):
        along = {"time": table["timestamp"][first:last]} | {name: table[name][first:last] for name in beside}
        entries = {} if info.kind == "video" else {info.key: Rows(frames, first, last)}
        yield Episode(int(index[first]), f"episode {index[first]}", entries, along)


def _read_videos(info: Info, listed: list[Listed], rows: dict[int, dict[str, np.ndarray]],
                 problems: list[tuple[str, str]], reading: Reading) -> Sequences:
    """The frames of the listed episodes at the times of their rows; every file is decoded once."""
    import_extra("av")
    kept = {index: kept_frames(reading.options, len(beside["time"]), beside["time"]) for index, beside in rows.items()}
    taken: list[tuple[int, int]] = []  # (episode, row) of every frame
    near = 0.5 / max(info.rate, 1e-3) + 1e-3
    with reading.journal.bar("video", sum(map(len, kept.values()))) as advance:
        film = Film(reading, advance)
        for file, group in groupby((one for one in listed if one[2] in rows), key=lambda one: one[0]):
            wanted = [(begins + float(rows[index]["time"][row]), index, int(row))
                      for _, begins, index in group for row in kept[index]]
            why = why_not_a_file(file, info.folder) or _take_frames(film, file, wanted, near, rows, taken)
            lost = {index for _, index, _ in wanted} - {index for index, _ in taken}
            problems = problems + [(f"episode {index}", f"{shown(file.name)}: {why}") for index in sorted(lost)]
            advance(len(taken))
    used = {index for index, _ in taken}
    reading.leave_out(problems, len(problems) + len(used), "episodes", REMEDY)
    if num_lost := sum(len(kept[index]) for index in used) - len(taken):
        reading.notes.append(f"{num_lost} frames are missing in the videos and were left out")
    action = np.array([rows[index]["action"][row] for index, row in taken]) if info.has_action else None
    return film.finish(action=action)


def _take_frames(film: Film, file: Path, wanted: list, near: float, rows: dict, taken: list[tuple[int, int]]) -> str:
    """Adds the frame within `near` seconds of each wanted (time, episode, row); returns why frames may be missing."""
    place = 0
    try:
        for time, frame in decode(file):
            while place < len(wanted) and wanted[place][0] < time - near:
                place += 1  # no frame lies there
            if place == len(wanted):
                break
            if wanted[place][0] <= time + near:
                _, index, row = wanted[place]
                film.add(frame, index, float(rows[index]["time"][row]))
                taken.append((index, row))
                place += 1
    except ValueError as error:
        return first_line(error)
    return "it holds no frame of it"


@contextmanager
def open_parquet(file: Path, folder: Path) -> Iterator[Any]:
    """An open parquet file of the folder; whatever pyarrow finds wrong becomes one ValueError."""
    pyarrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
    require_file(file, shown(file.name), folder)
    clear = refusing(shown(file.name), (*DAMAGED, pyarrow.ArrowException), "cannot be read as parquet")
    with clear, parquet.ParquetFile(file) as opened:
        yield opened


def read_columns(file: Path, names: list[str], folder: Path) -> dict[str, np.ndarray]:
    """Columns by name: (n,) numbers, or (n, k) where every row is a list of k numbers."""
    with open_parquet(file, folder) as opened:
        if missing := [name for name in names if name not in opened.schema_arrow.names]:
            raise ValueError(f"{shown(file.name)} has no column {missing[0]}")
        require_memory(shown(file.name), opened.metadata.num_rows * 8 * len(names))
        table = opened.read(columns=names)
        return {name: _to_array(table[name], f"{shown(file.name)}: {name}") for name in names}


def _to_array(column: Any, name: str) -> np.ndarray:
    if column.null_count:
        raise ValueError(f"{name} has {column.null_count} empty rows")
    values = np.asarray(column.to_numpy())
    if len(values) and isinstance(values[0], np.ndarray):  # of a column of lists
        if len({row.shape for row in values}) > 1:
            raise ValueError(f"{name} has rows of unequal length")
        values = np.stack(list(values))
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, but holds {values.dtype}")
    return values


@dataclass(frozen=True)
class EncodedColumn:
    """A column of encoded pictures, {bytes, path} or bytes per row; only the row groups asked for are read."""

    file: Path
    name: str
    folder: Path
    dtype, shape = np.dtype(object), ()  # how `Rows` knows it

    def __getitem__(self, rows: slice) -> np.ndarray:
        with open_parquet(self.file, self.folder) as opened:
            groups = [opened.metadata.row_group(number) for number in range(opened.num_row_groups)]
            ends = np.cumsum([group.num_rows for group in groups])
            first, last = np.searchsorted(ends, (rows.start, rows.stop - 1), side="right").tolist()
            require_memory(shown(self.file.name), sum(group.total_byte_size for group in groups[first : last + 1]))
            column = opened.read_row_groups(range(first, last + 1), columns=[self.name])[self.name]
            begin = int(ends[first]) - groups[first].num_rows
        values = column.slice(rows.start - begin, rows.stop - rows.start).to_pylist()
        pictures = [value.get("bytes") if isinstance(value, dict) else value for value in values]
        if not all(isinstance(one, bytes) for one in pictures):
            raise ValueError(f"{shown(self.file.name)}: {self.name} holds no pictures as bytes")
        return np.fromiter(pictures, object)


def frame_times(folder: Path) -> dict[int, np.ndarray]:
    """(m,) seconds of every frame that the folder lists, by episode, in LeRobot's order of both."""
    found: dict[int, np.ndarray] = {}
    for file in sorted((folder / "data").glob("chunk-*/*.parquet")):
        table = read_columns(file, ["episode_index", "timestamp"], folder)
        for index in np.unique(table["episode_index"]).tolist():
            found[int(index)] = np.sort(table["timestamp"][table["episode_index"] == index])
    return dict(sorted(found.items()))
