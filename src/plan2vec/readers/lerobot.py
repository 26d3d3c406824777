"""LeRobot folders, versions 2.0, 2.1 and 3.0, without the lerobot package.

v2.1   meta/info.json  meta/episodes.jsonl  data/chunk-000/episode_000000.parquet  videos/chunk-000/KEY/episode_000000.mp4
v3.0   meta/info.json  meta/episodes/chunk-000/file-000.parquet  data/chunk-000/file-000.parquet  videos/KEY/chunk-000/file-000.mp4

In v3.0 a file holds many episodes. Frames are the pictures of one camera, else the vectors of `observation.state`;
`action` and `timestamp` go along.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.data import Sequences
from plan2vec.readers.episodes import Episode, Rows, read_episodes, whole
from plan2vec.readers.parquet import EncodedColumn, read_columns
from plan2vec.readers.reading import Reading, first_line, kept_frames, name_some, shown
from plan2vec.readers.video import Film, decode, import_av, picture_of

NAME = "LeRobot"
EXPECTED = "a LeRobot folder"
STATE = "observation.state"


@dataclass(frozen=True)
class Listed:
    """An episode as the folder lists it."""

    index: int
    video: Path | None  # the file its frames lie in
    begins: float  # seconds into that file


def recognizes(path: Path) -> bool:
    return os.path.isdir(path) and os.path.exists(path / "meta" / "info.json")


def read(path: Path, reading: Reading) -> Sequences:
    source = shown(path)
    info = _read_info(path / "meta" / "info.json")
    key = _choose_key(info["features"], reading.options.camera, source)
    kind = info["features"][key]["dtype"]
    listed = _list_episodes(path, info, key if kind == "video" else None, source)
    columns = ["action"] if "action" in info["features"] else []
    episodes, problems = _read_data(
        path, listed, columns, None if kind == "video" else key, kind == "image", reading, source
    )
    if kind != "video":
        _refuse_or_note(reading, source, problems, len(listed))
        return read_episodes(reading, source, episodes)
    found = {episode.label for episode in episodes}
    return _read_videos(source, [one for one in listed if one.index in found], episodes, problems, info["fps"], reading)


def _read_info(file: Path) -> dict[str, Any]:
    """meta/info.json: version, frames a second and the features, each a map with a dtype."""
    try:
        info = json.loads(file.read_text(encoding="utf-8"))
        features = {str(key): value for key, value in info["features"].items() if isinstance(value.get("dtype"), str)}
        return {"version": str(info["codebase_version"]), "fps": float(info["fps"]), "features": features,
                "chunks_size": max(1, int(info.get("chunks_size", 1000)))}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"{shown(file)} is no info.json of a LeRobot folder ({first_line(error)}); download the folder again"
        ) from None


def _choose_key(features: dict[str, dict], camera: str | None, source: str) -> str:
    cameras = sorted(key for key, value in features.items() if value["dtype"] in ("video", "image"))
    if camera is not None:
        if camera not in cameras and not (camera in features and camera.startswith("observation")):
            raise ValueError(
                f"{source} has no camera {shown(camera)}; choose with --camera from {', '.join(cameras) or STATE}"
            )
        return camera
    if len(cameras) > 1:
        raise ValueError(f"{source} has {len(cameras)} cameras; choose one with --camera from {', '.join(cameras)}")
    if not cameras and STATE not in features:
        raise ValueError(
            f"{source} has no camera and no {STATE}; its features are {', '.join(map(shown, features)) or 'missing'}"
        )
    return cameras[0] if cameras else STATE


def _list_episodes(path: Path, info: dict[str, Any], camera: str | None, source: str) -> list[Listed]:
    """The episodes in the order of their numbers; a ValueError if the list itself cannot be read."""
    try:
        listed = list((_listed_in_v3 if info["version"].startswith("v3") else _listed_in_v2)(path, info, camera))
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"{source}: the episodes listed in meta/ cannot be read ({first_line(error)}); download the folder again"
        ) from None
    if not listed:
        raise ValueError(f"{source}: meta/ lists no episodes; download the folder again")
    return sorted(listed, key=lambda one: one.index)


def _listed_in_v2(path: Path, info: dict[str, Any], camera: str | None) -> Iterator[Listed]:
    for line in (path / "meta" / "episodes.jsonl").read_text(encoding="utf-8").splitlines():
        if line.strip():
            index = int(json.loads(line)["episode_index"])
            chunk = f"chunk-{index // info['chunks_size']:03d}"
            video = path / "videos" / chunk / camera / f"episode_{index:06d}.mp4" if camera else None
            yield Listed(index, video, 0.0)


def _listed_in_v3(path: Path, info: dict[str, Any], camera: str | None) -> Iterator[Listed]:
    places = [f"videos/{camera}/{name}" for name in ("chunk_index", "file_index", "from_timestamp")] if camera else []
    for file in sorted((path / "meta" / "episodes").glob("chunk-*/file-*.parquet")):
        table = read_columns(file, ["episode_index", *places])
        for row, index in enumerate(table["episode_index"]):
            chunk, number, begins = (table[name][row] for name in places) if camera else (0, 0, 0.0)
            video = (
                path / "videos" / camera / f"chunk-{int(chunk):03d}" / f"file-{int(number):03d}.mp4" if camera else None
            )
            yield Listed(int(index), video, float(begins))


def _read_data(
    path: Path, listed: list[Listed], columns: list[str], key: str | None, encoded: bool, reading: Reading, source: str
):
    """Episodes with what the parquet files say of each, and (name, problem) of those that cannot be had."""
    files = sorted((path / "data").glob("chunk-*/*.parquet"))
    wanted, found, broken = {one.index for one in listed}, {}, []
    with reading.journal.bar("parquet", len(files)) as advance:
        for number, file in enumerate(files):
            try:
                for episode in _episodes_of(file, columns, key, encoded):
                    if episode.label in wanted:
                        found[episode.label] = episode
            except ValueError as error:
                broken.append(f"{shown(file.name)}: {first_line(error)}")
            advance(number + 1)
    why = broken[0] if broken else "no data file holds it"
    problems = [(f"episode {index}", why) for index in sorted(wanted - found.keys())]
    return [found[index] for index in sorted(found)], problems


def _episodes_of(file: Path, columns: list[str], key: str | None, encoded: bool) -> Iterator[Episode]:
    """The episodes of one parquet file."""
    table = read_columns(file, ["episode_index", "timestamp", *columns, *([key] if key and not encoded else [])])
    index = table["episode_index"]
    pictures = EncodedColumn(file, key, len(index)) if key and encoded else None
    starts = np.flatnonzero(np.diff(index, prepend=index[:1] - 1))
    for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(index)], strict=True):
        beside = {"time": table["timestamp"][first:last]} | {name: table[name][first:last] for name in columns}
        entries = {
            key: Rows(pictures, first, last) if pictures is not None else whole(table[key][first:last])
        } if key else {}
        yield Episode(int(index[first]), f"episode {index[first]}", entries, beside)


def _read_videos(
    source: str, listed: list[Listed], episodes: list[Episode], problems: list[tuple[str, str]], rate: float,
    reading: Reading
) -> Sequences:
    """The frames of the listed episodes at the times of their rows; every file is decoded once."""
    import_av()
    rows = {episode.label: episode.beside for episode in episodes}
    kept = {index: kept_frames(reading.options, len(beside["time"]), beside["time"]) for index, beside in rows.items()}
    taken: list[tuple[int, int]] = []  # (episode, row) of every frame
    ordered = sorted(listed, key=lambda one: (str(one.video), one.begins, one.index))
    with reading.journal.bar("video", sum(map(len, kept.values()))) as advance:
        film = Film(reading, advance)
        for file, group in groupby(ordered, key=lambda one: one.video):
            wanted = [
                (one.begins + float(rows[one.index]["time"][row]), one.index, int(row)) for one in group
                for row in kept[one.index]
            ]
            why = _take_frames(film, file, wanted, rows, rate, taken)
            got = {index for index, _ in taken}
            problems = problems + [
                (f"episode {index}", why) for index in sorted({index for _, index, _ in wanted} - got)
            ]
            advance(len(taken))
    _refuse_or_note(reading, source, problems, len(problems) + len({index for index, _ in taken}))
    if num_lost := sum(len(kept[index]) for index in {index for index, _ in taken}) - len(taken):
        reading.notes.append(f"{num_lost} frames are missing in the videos and were left out")
    recorded = {}
    if all("action" in beside for beside in rows.values()):
        recorded["action"] = np.array([rows[index]["action"][row] for index, row in taken])
    return film.finish(source, **recorded)


def _refuse_or_note(reading: Reading, source: str, problems: list[tuple[str, str]], num_episodes: int) -> None:
    if 2 * len(problems) > num_episodes:
        count = f"{len(problems)} of {num_episodes} episodes"
        raise ValueError(f"{source}: {count} cannot be read: {name_some(problems)}; download or record them again")
    reading.note_skipped(problems, num_episodes, "episodes")


def _take_frames(film: Film, file: Path, wanted: list, rows: dict, rate: float, taken: list[tuple[int, int]]) -> str:
    """Adds the frame nearest to each wanted (time, episode, row), within half a frame; returns why frames may be
    missing.
    """
    near, place = 0.5 / max(rate, 1e-3) + 1e-3, 0
    try:
        for time, frame in decode(file):
            while place < len(wanted) and wanted[place][0] < time - near:
                place += 1  # no frame lies there
            if place == len(wanted):
                break
            if wanted[place][0] <= time + near:
                _, index, row = wanted[place]
                film.add(picture_of(frame), index, float(rows[index]["time"][row]))
                taken.append((index, row))
                place += 1
    except ValueError as error:
        return f"{shown(file.name)}: {first_line(error)}"
    return f"{shown(file.name)} holds no frame of it"
