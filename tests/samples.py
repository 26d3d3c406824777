"""Small valid recordings of every format: a bright block that moves over a dark ground."""

import io
import json
import os
from pathlib import Path

import av
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def moving_block(num: int, height: int = 48, width: int = 64, first: int = 0) -> np.ndarray:
    """(num, height, width, 3) uint8: the block moves by two pixels a frame; its left edge is at 2 (first + k)."""
    frames = np.zeros((num, height, width, 3), np.uint8)
    frames[..., 2] = 40
    for k in range(num):
        left = 2 * (first + k) % (width - 12)
        frames[k, 10:26, left : left + 12] = (250, 200, 20)
    return frames


def write_images(folder: Path, frames: np.ndarray, suffix: str = ".png") -> Path:
    """frame0, frame1, ... frame10, without leading zeros."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / f"frame{k}{suffix}")
    return folder


def write_video(
    path: Path, frames: np.ndarray, rate: int = 10, codec: str = "libx264", pixels: str = "yuv420p"
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    policy = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else None
    with av.open(str(path), "w") as container:
        options = {"svtav1-params": "lp=1"} if codec == "libsvtav1" else {}
        stream = container.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = pixels
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    # run by root, SVT-AV1 makes the whole process real-time
    if policy is not None and os.sched_getscheduler(0) != policy:
        os.sched_setscheduler(0, policy, os.sched_param(0))
    return path


def write_d4rl(path: Path, num: int = 30, ends: tuple[int, ...] = (9, 19), maze: bool = True) -> Path:
    walk = np.cumsum(np.random.default_rng(0).normal(size=(num, 4)), axis=0).astype(np.float32)
    flags = np.isin(np.arange(num), ends)
    with h5py.File(path, "w") as file:
        file["observations"], file["actions"] = walk, walk[:, :2] / 10
        file["terminals"], file["timeouts"] = flags & (np.arange(num) < 15), flags & (np.arange(num) >= 15)
        file["infos/qpos"] = walk
        if maze:
            file["infos/goal"] = walk[:, :2]
    return path


def write_robomimic(
    path: Path, lengths: tuple[int, ...] = (12, 9, 10), cameras: tuple[str, ...] = ("agentview_image",)
) -> Path:
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for k, length in enumerate(lengths):
            demo = file.create_group(f"data/demo_{k}")
            demo["actions"] = rng.normal(size=(length, 7))
            demo["obs/object"], demo["obs/eef_pos"] = rng.normal(size=(length, 5)), np.full((length, 3), float(k))
            for camera in cameras:
                demo.create_dataset(
                    f"obs/{camera}", data=moving_block(length, 84, 84, first=k), compression="gzip",
                    chunks=(1, 84, 84, 3)
                )
    return path


def write_minari(folder: Path, kind: str = "dict", lengths: tuple[int, ...] = (10, 7, 8)) -> Path:
    """As the minari package lays it out: one observation more than actions, images as JPEG bytes."""
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "metadata.json").write_text(json.dumps({"data_format": "hdf5", "total_episodes": len(lengths)}))
    rng = np.random.default_rng(0)
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        for k, length in enumerate(lengths):
            episode = file.create_group(f"episode_{k}")
            episode["actions"] = rng.normal(size=(length, 2)).astype(np.float32)
            if kind == "images":
                encoded = [np.frombuffer(jpeg(frame), np.uint8) for frame in moving_block(length + 1)]
                rows = episode.create_dataset("observations", (length + 1,), h5py.vlen_dtype(np.uint8))
                for row, one in enumerate(encoded):
                    rows[row] = one
            elif kind == "vectors":
                episode["observations"] = rng.normal(size=(length + 1, 3))
            else:
                for name, width in (("observation", 4), ("achieved_goal", 2), ("desired_goal", 2)):
                    episode[f"observations/{name}"] = rng.normal(size=(length + 1, width))
    return folder


def jpeg(frame: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, format="JPEG")
    return buffer.getvalue()


def write_streetlearn(
    folder: Path, walks=((0, 1, 2, 3), (5, 4, 3), (2, 3)), num_views: int = 7, per_chunk: int = 3
) -> Path:
    """A processed StreetLearn folder: views on a line, 1e-4 degrees of latitude apart."""
    (folder / "view_512").mkdir(parents=True)
    coords = np.array([{"lat": 40.7 + 1e-4 * view, "lng": -74.0} for view in range(num_views)], object)
    trajs = np.empty(len(walks), object)
    trajs[:] = [list(walk) for walk in walks]
    np.save(folder / "coords.npy", coords, allow_pickle=True)
    np.save(folder / "trajs.npy", trajs, allow_pickle=True)
    images = [jpeg(frame) for frame in moving_block(num_views, 52, 104)]
    for number, first in enumerate(range(0, num_views, per_chunk)):
        np.save(folder / "view_512" / f"chunk_{number:04d}.npy", np.array(images[first : first + per_chunk]))
    return folder


def write_lerobot(
    folder: Path, version: str = "v2.1", kind: str = "video", lengths: tuple[int, ...] = (12, 9, 10), cameras=("cam",),
    films: list[np.ndarray] | None = None
) -> Path:
    """A LeRobot folder of 10 frames a second; `kind` is video, image (in the parquet files) or state (no pictures)."""
    keys = [f"observation.images.{camera}" for camera in cameras] if kind != "state" else []
    features = {"observation.state": {"dtype": "float32", "shape": [3]}, "action": {"dtype": "float32", "shape": [2]}}
    features |= {key: {"dtype": kind, "shape": [48, 64, 3]} for key in keys}
    info = {
        "codebase_version": version, "fps": 10, "features": features, "chunks_size": 1000,
        "total_episodes": len(lengths)
    }
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    tables = [_episode_table(k, length, keys if kind == "image" else []) for k, length in enumerate(lengths)]
    films = films or [moving_block(length, first=5 * k) for k, length in enumerate(lengths)]
    (_write_v3 if version.startswith("v3") else _write_v2)(folder, tables, films, keys if kind == "video" else [])
    return folder


def _episode_table(number: int, length: int, keys: list[str]) -> pa.Table:
    rng = np.random.default_rng(number)
    columns = {
        "observation.state": pa.array(list(rng.normal(size=(length, 3)).astype(np.float32)), pa.list_(pa.float32(), 3)),
        "action": pa.array(list(np.full((length, 2), number, np.float32)), pa.list_(pa.float32(), 2)),
        "timestamp": pa.array(np.arange(length, dtype=np.float32) / 10),
        "episode_index": pa.array(np.full(length, number)),
    }
    for key in keys:
        columns[key] = pa.array(
            [{"bytes": jpeg(frame), "path": None} for frame in moving_block(length, first=5 * number)]
        )
    return pa.table(columns)


def _write_v2(folder: Path, tables: list[pa.Table], films: list[np.ndarray], keys: list[str]) -> None:
    lines = [json.dumps({"episode_index": k, "length": len(table), "tasks": []}) for k, table in enumerate(tables)]
    (folder / "meta" / "episodes.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "data" / "chunk-000").mkdir(parents=True)
    for k, (table, film) in enumerate(zip(tables, films, strict=True)):
        pq.write_table(table, folder / "data" / "chunk-000" / f"episode_{k:06d}.parquet")
        for key in keys:
            write_video(folder / "videos" / "chunk-000" / key / f"episode_{k:06d}.mp4", film)


def _write_v3(folder: Path, tables: list[pa.Table], films: list[np.ndarray], keys: list[str]) -> None:
    """Two episodes to a file."""
    rows = []
    for k, table in enumerate(tables):
        row = {"episode_index": k, "length": len(table), "data/chunk_index": 0, "data/file_index": k // 2}
        for key in keys:
            begins = len(films[k - 1]) / 10 if k % 2 else 0.0
            row |= {
                f"videos/{key}/chunk_index": 0, f"videos/{key}/file_index": k // 2,
                f"videos/{key}/from_timestamp": begins
            }
        rows.append(row)
    for part in ("data", "meta/episodes"):
        (folder / part / "chunk-000").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
    for number in range((len(tables) + 1) // 2):
        pair = slice(2 * number, 2 * number + 2)
        pq.write_table(pa.concat_tables(tables[pair]), folder / "data" / "chunk-000" / f"file-{number:03d}.parquet")
        for key in keys:
            write_video(folder / "videos" / key / "chunk-000" / f"file-{number:03d}.mp4", np.concatenate(films[pair]))
