"""What recordings hold, in words and as a contact sheet, before anything is fitted to them."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from plan2vec.data import Sequences
from plan2vec.pictures.figures import WIDTH
from plan2vec.pictures.film import contact_sheet, is_image

NUM_DRAWN = 4  # sequences of vectors on the sheet


def describe(sequences: Sequences, format_name: str, warnings: list[str]) -> dict[str, Any]:
    """What was read: sizes in pixels, lengths in frames, rate in frames a second; names stay as they are, programs read
    them.
    """
    lengths = np.unique(sequences.sequence, return_counts=True)[1]
    shape = sequences.frame_shape
    size = sequences.source_size
    return {
        "source": sequences.source,
        "format": format_name,
        "num_sequences": len(lengths),
        "num_frames": sequences.num_frames,
        "lengths": {"shortest": int(lengths.min()), "median": float(np.median(lengths)), "longest": int(lengths.max())},
        "kind": "images" if is_image(sequences) else "vectors",
        "frame_shape": list(shape),
        "channels": shape[2] if is_image(sequences) else None,
        "source_size": list(size) if size is not None else None,  # (width, height)
        "rate": recorded_rate(sequences),
        "position": _columns(sequences.position),
        "action": _columns(sequences.action),
        "step_length": sequences.step_length is not None,
        "time": sequences.time is not None,
        "warnings": warnings,
    }


def recorded_rate(sequences: Sequences) -> float | None:
    """Frames a second, where the time of frames is known."""
    if sequences.time is None:
        return None
    apart = np.diff(sequences.time)[sequences.sequence[1:] == sequences.sequence[:-1]]
    middle = float(np.median(apart))
    return round(1 / middle, 3) if middle > 0 else None


def _columns(values: np.ndarray | None) -> int:
    """Numbers a frame; 0 where there are none."""
    return 0 if values is None else int(values.shape[1])


def inspection_sheet(sequences: Sequences) -> Figure:
    """A few frames of several sequences; vectors, which cannot be looked at, as curves over time."""
    if is_image(sequences):
        return contact_sheet(sequences)
    labels = np.unique(sequences.sequence)
    drawn = labels[np.unique(np.linspace(0, len(labels) - 1, NUM_DRAWN).round().astype(int))]
    figure = Figure((WIDTH, 1.6 * len(drawn)), layout="constrained")
    for row, (ax, label) in enumerate(zip(np.ravel(figure.subplots(len(drawn), 1)), drawn, strict=True)):
        ax.plot(sequences.frames[sequences.sequence == label][:, :12], linewidth=0.8)
        ax.set_ylabel(f"sequence {label}", fontsize=8)
        ax.tick_params(labelsize=7)
        if row == len(drawn) - 1:
            ax.set_xlabel("frame of the sequence (at most 12 numbers of each vector are drawn)", fontsize=8)
    return figure
