"""A fit killed at any moment and started again ends with the same bytes as one that was never killed."""

import hashlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.domains.maze import simulate
from plan2vec.readers.npz import write_npz
from plan2vec.runs.folder import PRODUCTS


def run(seed: int, num_kills: int = 20, num_rollouts: int = 60, *, command: tuple[str, ...]) -> dict:
    """Kill `num_kills` fits, each at a random moment of its life, start each again, and compare the products.

    `command` is called with the recordings' path, --out and the run folder, --seed and the seed.
    """
    rng, rows = np.random.default_rng(seed), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_npz(folder / "maze.npz", simulate("c-maze", num_rollouts, seed=seed))
        began = time.monotonic()
        finish(start_fit(command, folder, "whole", seed))
        whole_seconds = time.monotonic() - began
        wanted = product_digests(folder / "whole")
        for kill in range(num_kills):
            name, moment = f"killed-{kill}", float(rng.uniform(0, whole_seconds))
            left = kill_after(start_fit(command, folder, name, seed), moment, folder / name)
            finish(start_fit(command, folder, name, seed))
            equal = product_digests(folder / name) == wanted
            rows.append({"killed_after_seconds": round(moment, 2), "left": left, "equal": equal})
    num_equal, seconds = sum(row["equal"] for row in rows), round(whole_seconds, 1)
    return {"num_kills": num_kills, "num_equal": num_equal, "whole_seconds": seconds, "rows": rows}


def start_fit(command: tuple[str, ...], folder: Path, name: str, seed: int) -> subprocess.Popen:
    arguments = [*command, str(folder / "maze.npz"), "--out", str(folder / name), "--seed", str(seed)]
    return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def kill_after(process: subprocess.Popen, seconds: float, folder: Path) -> str:
    """SIGKILL after some time; returns what the run folder held then."""
    try:
        process.communicate(timeout=seconds)
        moment = "finished"
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        moment = "killed"
    held = sorted(path.name for path in folder.glob("**/*") if path.is_file()) if folder.exists() else []
    return f"{moment}: {' '.join(held) or 'nothing'}"


def finish(process: subprocess.Popen) -> None:
    _, errors = process.communicate()
    if process.returncode != 0:
        raise ValueError(f"a fit ended with exit code {process.returncode}: {errors.strip()[-500:]}")


def product_digests(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in PRODUCTS.values()}
