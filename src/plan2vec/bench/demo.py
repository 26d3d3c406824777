"""Claim: the demo's success holds over rooms and seeds, at the default settings and with a 2-d map.

Command: plan2vec bench demo --json     Cost: 5 minutes on one H200, an hour on two CPU cores
Expected (success): C-Maze 1.00, Open 1.00, Table 0.99 or more, C-Maze in 2-d 0.87 to 1.00 by seed; no false edge
anywhere
"""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plan2vec.config import Config
from plan2vec.domains.maze import simulate
from plan2vec.evaluation import evaluate
from plan2vec.pipeline import fit

CASES = (("c-maze", 8), ("open", 8), ("table", 8), ("c-maze", 2))  # room, dimensions of the map
METRICS = (
    "success", "success_graph", "spearman_true", "embedding_error", "local_accuracy", "false_edge_share",
    "largest_component_share"
)


def run(
    seed: int, num_seeds: int = 5, num_rollouts: int = 1000, config: Config = Config(), device: str = "auto"
) -> dict:
    """Rows for every case and seed from `seed` on, and a table of their means with the range over seeds."""
    tasks = [(room, dim, number) for room, dim in CASES for number in range(seed, seed + num_seeds)]
    rows = [row for task in tasks for row in rows_of(*task, num_rollouts, config, device)]
    return {"table": table(rows), "rows": rows}


def rows_of(room: str, dim: int, seed: int, num_rollouts: int, config: Config, device: str) -> Iterator[dict]:
    settings = replace(config, dim=dim, seed=seed)
    card: dict[str, Any] = evaluate(fit(simulate(room, num_rollouts, seed=seed), settings, device=device))
    for metric in METRICS:
        yield {
            "experiment": "demo", "domain": room, "setting": {"dim": dim, "frames": card["num_frames"]},
            "method": "plan2vec", "seed": seed, "metric": metric, "value": card[metric],
            "seconds": card["seconds"]["total"], "commit": commit(), "device": card["device"]
        }


def table(rows: list[dict]) -> list[str]:
    """Lines of a markdown table: mean (least - greatest) over seeds."""
    lines = ["| room | map | " + " | ".join(METRICS) + " |", "|---" * (len(METRICS) + 2) + "|"]
    for room, dim in CASES:
        cells = []
        for metric in METRICS:
            case = (room, dim, metric)
            values = [
                r["value"] for r in rows
                if (r["domain"], r["setting"]["dim"], r["metric"]) == case and r["value"] is not None
            ]
            cells.append(f"{np.mean(values):.4f} ({min(values):.4f} - {max(values):.4f})" if values else "-")
        lines.append(f"| {room} | {dim}-d | " + " | ".join(cells) + " |")
    return lines


def commit() -> str:
    """The commit the program stands at; "unknown" outside a checkout."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    return done.stdout.strip() or "unknown"


def machine_name(device: torch.device) -> str:
    """The GPU's name, else the kind of device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
