"""An image from outside becomes a frame, or a message. Nothing of it is ever written to a file."""

import base64
import binascii
import io

import numpy as np
from PIL import Image, UnidentifiedImageError

LARGEST_FILE = 8_000_000  # bytes of an uploaded image
LARGEST_IMAGE = 25_000_000  # pixels; below Pillow's own limit against decompression bombs
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
BROKEN = (UnidentifiedImageError, Image.DecompressionBombError, Image.DecompressionBombWarning, OSError, SyntaxError, ValueError)


def decode_upload(contents: str, shape: tuple[int, ...]) -> np.ndarray:
    """A frame of the given shape from a browser's data address ("data:image/png;base64,..."); ValueError says what is wrong."""
    if len(shape) != 3 or shape[2] not in (1, 3):
        raise ValueError(f"an image can be looked up only on a map of gray or RGB frames, but these have shape {shape}")
    header, comma, text = contents.partition(",")
    if not comma or not header.endswith(";base64"):
        raise ValueError("the upload is no file")
    if len(text) > LARGEST_FILE * 4 // 3 + 4:
        raise ValueError(f"the image has more than {LARGEST_FILE // 1_000_000} MB; make it smaller")
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("the upload is damaged") from None
    return as_frame(data, shape)


def as_frame(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The bytes of an image file as a frame."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > LARGEST_IMAGE:
                raise ValueError(f"it has {image.width} x {image.height} pixels, more than {LARGEST_IMAGE // 1_000_000} million")
            pixels = image.convert("L" if shape[2] == 1 else "RGB")
            resized = pixels.resize((shape[1], shape[0]), Image.Resampling.BOX)  # gives back a frame that was enlarged
            return np.asarray(resized, np.uint8).reshape(shape)
    except BROKEN as error:
        reason = "it is no image of a known kind" if isinstance(error, UnidentifiedImageError) else str(error)
        raise ValueError(f"the upload cannot be read as an image ({reason}); expected {', '.join(FORMATS)}") from None
