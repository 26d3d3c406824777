"""An episode as a moving picture, with the curve of its progress growing below."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from plan2vec.data import Sequences
from plan2vec.files import replacing
from plan2vec.pictures.plan_video import enlarged, frame_picture, require_images, writer_of

CURVE, MARGIN, TEXT = 96, 8, 24  # pixels: height of the curve, space around it, the line of words above it
INK, FAINT, NOW = "#1f77b4", "#d9d9d9", "#d62728"


def save_progress_video(sequences: Sequences, numbers: np.ndarray, progress: np.ndarray, path: Path) -> None:
    """The frames (m,) of one episode with their progress (m,); `path` ends in .gif or .mp4."""
    require_images(sequences)
    write = writer_of(path)
    pictures = [_with_curve(enlarged(frame_picture(sequences, int(number))).convert("RGB"), progress, now,
                            f"episode {sequences.sequence[number]}, frame {now}") for now, number in enumerate(numbers)]
    with replacing(path) as temporary:
        write(temporary, pictures)


def _with_curve(image: Image.Image, progress: np.ndarray, now: int, words: str) -> Image.Image:
    """Below the frame: the words, and the curve from 0 (bottom) to 1 (top), drawn up to `now`; gaps where unknown."""
    height = image.height + TEXT + CURVE
    canvas = Image.new("RGB", (image.width + image.width % 2, height + height % 2), "white")  # H.264: even sides
    canvas.paste(image)
    draw, value = ImageDraw.Draw(canvas), progress[now]
    told = "unknown" if np.isnan(value) else f"{value:.2f}"
    draw.text((MARGIN, image.height + 4), f"{words}: progress {told}", fill="black", font=ImageFont.load_default(14))
    left, right = MARGIN, image.width - MARGIN
    top, bottom = image.height + TEXT + MARGIN, image.height + TEXT + CURVE - MARGIN
    for share in (0, 0.5, 1):
        level = bottom - share * (bottom - top)
        draw.line((left, level, right, level), fill=FAINT)
    x = left + (right - left) * np.arange(len(progress)) / max(1, len(progress) - 1)
    y = bottom - (bottom - top) * progress
    for before in range(len(progress) - 1):
        ends = (x[before], y[before], x[before + 1], y[before + 1])
        if np.isfinite(ends).all():
            draw.line(ends, fill=INK if before < now else FAINT, width=2)
    if np.isfinite(value):
        draw.ellipse((x[now] - 4, y[now] - 4, x[now] + 4, y[now] + 4), fill=NOW)
    return canvas
