"""Where rows come from: the commit and the machine."""

import subprocess
from pathlib import Path

import torch

from plan2vec.results.rows import Stamp


def commit() -> str:
    """The commit the program stands at; "unknown" outside a checkout."""
    command, here = ["git", "rev-parse", "--short", "HEAD"], Path(__file__).parent
    return subprocess.run(command, capture_output=True, text=True, cwd=here).stdout.strip() or "unknown"


def machine_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def stamp_of(device: torch.device) -> Stamp:
    return Stamp(commit(), machine_name(device))
