"""A drive as a moving picture: the view, the waypoint and the goal beside each other, and the map with a moving dot."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from plan2vec.files import replacing
from plan2vec.model import Model
from plan2vec.pictures.films import CAPTION, beside, enlarged, plan_ground, writer_of
from plan2vec.pictures.scene import scene_of

SIDE = 240  # pixels, at least, of the shorter side of each picture
MOST = 400  # pictures of a film; of a longer drive some are left out


@dataclass(frozen=True)
class Moment:
    """One decision."""

    view: np.ndarray  # (h, w, 3) uint8
    waypoint: np.ndarray | None  # the recorded view headed for; None: lost
    node: int | None  # the frame where the driver believes to be


def save_drive(model: Model, moments: list[Moment], goal: np.ndarray, path: Path) -> None:
    """`path` ends in .gif or .mp4. The dot stays where the driver was last sure to be."""
    write = writer_of(path)
    shown = moments[:: -(-len(moments) // MOST)]
    nodes, last = list[int](), next((moment.node for moment in shown if moment.node is not None), 0)
    for moment in shown:
        last = last if moment.node is None else moment.node
        nodes.append(last)
    pictures = [_side_by_side(moment, goal) for moment in shown]
    ground, places = plan_ground(scene_of(model), nodes, pictures[0].height)
    with replacing(path) as temporary:
        write(temporary, [beside(picture, ground, place) for picture, place in zip(pictures, places, strict=True)])


def _side_by_side(moment: Moment, goal: np.ndarray) -> Image.Image:
    parts = {"view": moment.view, "waypoint": moment.waypoint, "goal": goal}
    pictures = {name: enlarged(Image.fromarray(np.ascontiguousarray(goal if image is None else image)), SIDE)
                for name, image in parts.items()}
    width, height = max(one.width for one in pictures.values()), max(one.height for one in pictures.values())
    canvas = Image.new("RGB", (3 * width + width % 2, height + CAPTION + height % 2), "white")
    pen = ImageDraw.Draw(canvas)
    for number, (name, picture) in enumerate(pictures.items()):
        if parts[name] is not None:
            canvas.paste(picture, (number * width, 0))
        words = "lost: looks around" if parts[name] is None else name
        pen.text((number * width + 8, height + 8), words, fill="black", font=ImageFont.load_default(16))
    return canvas
