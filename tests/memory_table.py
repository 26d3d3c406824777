"""Announced against measured memory, of eight kinds of recordings: python tests/memory_table.py

Every fit is a process of its own with the least of updates. A ratio above 1.5, either way, ends with exit code 1.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from plan2vec.domains.maze import simulate

NUM_IMAGES = 600
KINDS = {
    "64 px gray, fixed": (64, 1, False), "64 px RGB, moving": (64, 3, True), "128 px gray, moving": (128, 1, True),
    "128 px RGB, fixed": (128, 3, False), "256 px gray, fixed": (256, 1, False), "256 px RGB, moving": (256, 3, True),
    "20,000 vectors, 2-d": None, "10,000 maze frames": None,
}
FEW = ("--local-metric.num-updates", "1", "--embedding.num-updates", "1", "--device", "cpu", "--json")


def picture_walk(side: int, channels: int, camera_moves: bool) -> np.ndarray:
    """A block that walks before a noisy wall, or a camera that walks over it."""
    rng = np.random.default_rng(0)
    wall = rng.integers(256, size=(2 * side, 2 * side, channels), dtype=np.uint8)
    place = np.clip(np.cumsum(rng.integers(-4, 5, size=(NUM_IMAGES, 2)), axis=0) + side // 2, 0, side - side // 8)
    if camera_moves:
        return np.stack([wall[y : y + side, x : x + side] for y, x in place])
    frames = np.repeat(wall[None, :side, :side], NUM_IMAGES, axis=0)
    for frame, (y, x) in zip(frames, place, strict=True):
        frame[y : y + side // 8, x : x + side // 8] = 255
    return frames


def recorded(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Frames and their sequence."""
    if KINDS[name] is not None:
        return picture_walk(*KINDS[name]), np.arange(NUM_IMAGES) // 100
    if name.startswith("10,000"):
        rooms = simulate("c-maze", 1000)
        return rooms.frames, rooms.sequence
    steps = np.random.default_rng(0).normal(0, 0.03, size=(200, 100, 2))
    return (np.cumsum(steps, axis=1).reshape(-1, 2) % 1).astype(np.float32), np.repeat(np.arange(200), 100)


def measure(name: str, folder: Path) -> tuple[float, float]:
    """Gigabytes announced, and the peak of the process."""
    frames, sequence = recorded(name)
    path, out, told = folder / "recording.npz", folder / "run", folder / "told.txt"
    np.savez(path, **{"frames" if frames.dtype == np.uint8 else "observations": frames}, sequence=sequence)
    view = ("--view", "moving" if "moving" in name else "fixed")
    with open(told, "w") as file:
        command = [sys.executable, "-m", "plan2vec", "fit", str(path), "--out", str(out), *view, *FEW]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)
        _, status, usage = os.wait4(child.pid, 0)
    said = re.search(r"and ([\d.]+) GB of memory", told.read_text())
    if status or said is None:
        raise SystemExit(f"{name}: {told.read_text()}")
    return float(said[1]), 1024 * usage.ru_maxrss / 1e9


def main() -> int:
    print("| recording | announced GB | measured GB | ratio |\n|---|---|---|---|")
    worst = 1.0
    for name in [name for name in KINDS if not sys.argv[1:] or name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder:
            announced, peak = measure(name, Path(folder))
        worst = max(worst, announced / peak, peak / announced)
        print(f"| {name} | {announced:.1f} | {peak:.2f} | {announced / peak:.2f} |", flush=True)
    return int(worst > 1.5)


if __name__ == "__main__":
    sys.exit(main())
