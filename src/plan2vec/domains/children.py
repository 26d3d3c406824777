"""Long recordings made side by side in child processes."""

import sys
import tempfile
from itertools import pairwise

import numpy as np

from plan2vec.search.shortest_paths import run_side_by_side


def record_in_children(command: list[str], num: int, num_workers: int) -> dict[str, np.ndarray]:
    """The arrays of recordings 0 to `num`, end to end; `python COMMAND FIRST LAST FILE.npz` makes some of them."""
    limits = np.linspace(0, num, num_workers + 1).astype(int).tolist()
    with tempfile.TemporaryDirectory(prefix="plan2vec-recording-") as folder:
        parts = [[str(first), str(last), f"{folder}/{first}.npz"] for first, last in pairwise(limits)]
        run_side_by_side([[sys.executable, *command, *part] for part in parts])
        made = [dict(np.load(file)) for _, _, file in parts]
    return {name: np.concatenate([part[name] for part in made]) for name in made[0]}
