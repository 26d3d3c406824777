"""Images out of the page and into it: frames as PNG, an uploaded image as a frame. No upload is written to a file."""

import base64
import binascii
import io
from collections.abc import Callable

import numpy as np
from flask import Flask, Response, abort

from plan2vec.data import Sequences
from plan2vec.pictures.plan_video import enlarged, frame_picture
from plan2vec.readers.picture_to_frame import image_frame

LARGEST_FILE = 8_000_000  # bytes of an uploaded image
LARGEST_IMAGE = 25_000_000  # pixels


def serve_frames(server: Flask, recordings: Callable[[], Sequences | None]) -> None:
    """Answer /frame/12.png with that frame, small ones enlarged by a whole factor; anything else is not found."""

    @server.route("/frame/<int:number>.png")
    def frame(number: int) -> Response:
        sequences = recordings()
        if sequences is None or number >= sequences.num_frames:
            abort(404)
        buffer = io.BytesIO()
        enlarged(frame_picture(sequences, number), 64).save(buffer, format="PNG", compress_level=1)
        return Response(buffer.getvalue(), mimetype="image/png", headers={"Cache-Control": "no-store"})

    @server.route("/frame/<path:anything>")
    def no_frame(anything: str) -> Response:  # else Dash would answer with the page
        abort(404)


def decode_upload(contents: str, sequences: Sequences) -> np.ndarray:
    """A frame from a browser's data address ("data:image/png;base64,..."); ValueError says what is wrong."""
    header, comma, text = contents.partition(",")
    if not comma or not header.endswith(";base64"):
        raise ValueError("the upload is no file")
    if len(text) > LARGEST_FILE * 4 // 3 + 4:
        raise ValueError(f"the image has more than {LARGEST_FILE // 1_000_000} MB; make it smaller")
    try:
        data = io.BytesIO(base64.b64decode(text, validate=True))
        return image_frame(data, sequences.frame_shape, sequences.options, sequences.source_size, LARGEST_IMAGE)
    except binascii.Error:
        raise ValueError("the upload is damaged") from None
    except ValueError as error:
        raise ValueError(f"the upload cannot be read as an image ({error})") from None
