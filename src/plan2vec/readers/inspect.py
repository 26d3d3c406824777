"""`plan2vec inspect`: what recordings hold, before anything is fitted to them."""

from typing import Any

import numpy as np

from plan2vec.data import Sequences, transitions


def describe(sequences: Sequences, format_name: str, warnings: list[str]) -> dict[str, Any]:
    """What was read: sizes in pixels, lengths in frames, rate in frames per second. Programs read these names."""
    lengths = np.unique(sequences.sequence, return_counts=True)[1]
    shape, size = sequences.frame_shape, sequences.source_size
    is_image = len(shape) == 3
    return {
        "source": sequences.source, "format": format_name,
        "num_sequences": len(lengths), "num_frames": sequences.num_frames,
        "lengths": {"shortest": int(lengths.min()), "median": float(np.median(lengths)), "longest": int(lengths.max())},
        "kind": "images" if is_image else "vectors", "frame_shape": list(shape),
        "channels": shape[2] if is_image else None,
        "source_size": list(size) if size is not None else None,  # (width, height)
        "rate": recorded_rate(sequences),
        "position": _columns(sequences.position), "action": _columns(sequences.action),
        "step_length": sequences.step_length is not None, "time": sequences.time is not None, "warnings": warnings,
    }


def recorded_rate(sequences: Sequences) -> float | None:
    """Frames per second, where the time of frames is known."""
    if sequences.time is None:
        return None
    start = transitions(sequences.sequence)
    seconds = float(np.median(sequences.time[start + 1] - sequences.time[start]))
    return round(1 / seconds, 3) if seconds > 0 else None


def _columns(values: np.ndarray | None) -> int:
    return 0 if values is None else int(values.shape[1])
