"""What passes beside the callbacks: frames, distances to a goal, plans as figure and film, the verdict; uploads."""

import base64
import io
import re
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from flask import Flask, Response, abort, request

from plan2vec.data import Sequences
from plan2vec.explorer.session import NUM_AXES, Session
from plan2vec.pictures.figures import figure_bytes, verdict_figure
from plan2vec.pictures.films import enlarged, frame_picture, save_video
from plan2vec.pictures.frame_grids import plan_figure
from plan2vec.planner import METHODS
from plan2vec.readers.picture_to_frame import image_frame
from plan2vec.verdict import make_verdict

LARGEST_FILE, LARGEST_IMAGE = 8_000_000, 25_000_000  # bytes and pixels of an uploaded image
TYPES = {"png": "image/png", "svg": "image/svg+xml", "gif": "image/gif", "mp4": "video/mp4"}


def serve_frames(server: Flask, recordings: Callable[[], Sequences | None]) -> None:
    """Answer /frame/12.png with that frame, small ones enlarged by a whole factor; anything else is not found."""

    @server.route("/frame/<path:name>")  # any name, else Dash would answer with the page
    def frame(name: str) -> Response:
        sequences, number = recordings(), re.fullmatch("([0-9]{1,18})[.]png", name)
        if sequences is None or number is None or int(number[1]) >= sequences.num_frames:
            abort(404)
        buffer, picture = io.BytesIO(), enlarged(frame_picture(sequences, int(number[1])), 64)
        picture.save(buffer, format="PNG", compress_level=1)
        return Response(buffer.getvalue(), mimetype="image/png", headers={"Cache-Control": "no-store"})


def serve_exports(server: Flask, session: Session) -> None:
    """Answer /distances/12, /verdict.png and /plan.png, .svg, .gif, .mp4; what cannot be made is 400 and one line."""
    drawing = threading.Lock()  # figures take seconds and memory: one at a time
    reason = next(iter(make_verdict(session.card).look_at), None)
    picture = lru_cache(1)(lambda: figure_bytes(verdict_figure(session.model, reason)))

    @server.route("/distances/<int:goal>")
    def distances(goal: int) -> Response:
        if goal >= session.num_frames:
            abort(404)
        found = session.model.distance_between(np.arange(session.num_frames), goal).astype("<f4")
        return Response(found.tobytes(), mimetype="application/octet-stream")

    @server.route("/verdict.png")
    def verdict() -> Response:
        with drawing:
            return Response(picture(), mimetype="image/png")

    @server.route("/plan.<ending>")
    def plan(ending: str) -> Response:
        if ending not in TYPES:
            abort(404)
        try:
            with drawing:
                return Response(plan_bytes(session, request.args, ending), mimetype=TYPES[ending])
        except ValueError as error:
            return Response(f"{error}.", 400, mimetype="text/plain")


def plan_bytes(session: Session, asked: dict, ending: str) -> bytes:
    """The plan as a figure (map, true positions, strip, caption) or as a film with a dot that moves on the map."""
    method = asked.get("method", "greedy")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, but is {method[:20]}")
    start, goal = (session.number(asked.get(name, ""), name) for name in ("start", "goal"))
    plan, axes = session.plan(start, goal, method), asked.get("axes", "2-d")
    if "touched" not in asked:  # as the page does not show them
        plan = replace(plan, touched=frozenset())
    scene = session.scene(axes if NUM_AXES.get(axes) == 2 else "2-d")
    if ending in ("png", "svg"):
        scenes = [scene] if session.room is None else [scene, session.room]
        return figure_bytes(plan_figure(session.model, plan, scenes), ending)
    with tempfile.TemporaryDirectory(prefix="plan2vec-film-") as folder:
        path = Path(folder) / f"plan.{ending}"
        save_video(session.model, plan, path, scene)
        return path.read_bytes()


def decode_upload(contents: str, sequences: Sequences) -> np.ndarray:
    """A frame from a browser's data address ("data:image/png;base64,..."), in memory; ValueError says what is wrong."""
    header, comma, text = contents.partition(",")
    if not comma or not header.endswith(";base64"):
        raise ValueError("the upload is no file")
    if len(text) > LARGEST_FILE * 4 // 3 + 4:
        raise ValueError(f"the image has more than {LARGEST_FILE // 1_000_000} MB; make it smaller")
    try:
        data = io.BytesIO(base64.b64decode(text, validate=True))
        return image_frame(data, sequences.frame_shape, sequences.options, sequences.source_size, LARGEST_IMAGE)
    except ValueError as error:  # also of base64
        raise ValueError(f"the upload cannot be read as an image ({error})") from None
