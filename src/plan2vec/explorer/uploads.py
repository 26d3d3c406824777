"""An image from outside becomes a frame, or a message. Nothing of it is ever written to a file."""

import base64
import binascii
import io

import numpy as np

from plan2vec.data import Sequences
from plan2vec.readers.preparation import image_frame

LARGEST_FILE = 8_000_000  # bytes of an uploaded image
LARGEST_IMAGE = 25_000_000  # pixels


def decode_upload(contents: str, sequences: Sequences) -> np.ndarray:
    """A frame of these recordings from a browser's data address ("data:image/png;base64,..."); ValueError says what is
    wrong.
    """
    header, comma, text = contents.partition(",")
    if not comma or not header.endswith(";base64"):
        raise ValueError("the upload is no file")
    if len(text) > LARGEST_FILE * 4 // 3 + 4:
        raise ValueError(f"the image has more than {LARGEST_FILE // 1_000_000} MB; make it smaller")
    try:
        data = base64.b64decode(text, validate=True)
        return image_frame(
            io.BytesIO(data), sequences.frame_shape, sequences.options, sequences.source_size, LARGEST_IMAGE
        )
    except binascii.Error:
        raise ValueError("the upload is damaged") from None
    except ValueError as error:
        raise ValueError(f"the upload cannot be read as an image ({error})") from None
