"""Which commit and which machine made a row."""

import subprocess
from pathlib import Path

import torch


def commit() -> str:
    """The commit the program stands at; "unknown" outside a checkout."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    return done.stdout.strip() or "unknown"


def machine_name(device: torch.device) -> str:
    """The GPU's name, else the kind of device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
