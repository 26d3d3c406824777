"""Moving pictures: a plan, frame after frame, while a dot moves on the map; a drive, with the waypoint and the goal; an
episode with the curve of its progress. GIF by Pillow, MP4 by PyAV."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from plan2vec.data import Sequences
from plan2vec.files import replacing
from plan2vec.model import Model
from plan2vec.pictures.figures import displayable, frame_name, is_image
from plan2vec.pictures.palette import ORANGE
from plan2vec.pictures.scene import MAX_POINTS, Scene, even_choice, scene_of
from plan2vec.planner import Plan

SMALLEST, CAPTION = 256, 36  # pixels of the shorter side of an enlarged frame, and of the line of text below it
FRAMES_PER_SECOND, LAST_FRAME_SECONDS = 4, 1.5  # the goal stays
MARGIN, DOT = 16, 7  # pixels around the map beside the frames; half the width of the dot that moves there
SIDE, MOST = 240, 400  # of a drive: pixels, at least, of the shorter side of each picture; pictures, some left out
CURVE, EDGE, WORDS = 96, 8, 24  # pixels: height of a curve, space around it, the line of words above it
INK, FAINT, NOW = "#1f77b4", "#d9d9d9", "#d62728"


def save_video(model: Model, plan: Plan, path: Path, scene: Scene | None = None) -> None:
    """`scene`: where the map beside the frames draws them; None: true positions, else the map."""
    write = writer_of(path)
    require_images(model.sequences)
    if plan.nodes is None:
        raise ValueError(f"there is no plan to show: {plan.reason}")
    pictures = [captioned(model.sequences, plan.nodes, index) for index in range(len(plan.nodes))]
    write([*with_map(pictures, scene or scene_of(model), plan.nodes)])


def require_images(sequences: Sequences) -> None:
    if not is_image(sequences):
        shape = sequences.frame_shape
        raise ValueError(f"--video needs frames that are images, but these are vectors of shape {shape}")


def writer_of(path: Path) -> Callable[[list[Image.Image]], None]:
    """What writes pictures to this file, by its ending; a clear refusal before any work is done."""
    ending = path.suffix.lower()
    if ending not in (".gif", ".mp4"):
        raise ValueError(f"--video must end in .gif or .mp4, but is {path}")
    if ending == ".mp4" and find_spec("av") is None:
        raise ValueError("writing .mp4 needs the extra [video]: pip install 'plan2vec[video]' (a .gif needs no extra)")

    def write(pictures: list[Image.Image]) -> None:
        stay = round(FRAMES_PER_SECOND * LAST_FRAME_SECONDS) - 1
        times = [1000 // FRAMES_PER_SECOND] * (len(pictures) - 1) + [int(1000 * LAST_FRAME_SECONDS)]
        with replacing(path) as temporary:
            if ending == ".mp4":
                encode_mp4(temporary, [*pictures, *[pictures[-1]] * stay])
            else:
                pictures[0].save(temporary, "GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0)

    return write


def frame_picture(sequences: Sequences, number: int) -> Image.Image:
    """A recorded frame as an image; a vector as a row of gray cells."""
    frame = sequences.frames[number]
    if frame.ndim == 3:
        return Image.fromarray(np.ascontiguousarray(displayable(frame)))
    low, high = float(frame.min()), float(frame.max())
    return Image.fromarray(((frame - low) / max(high - low, 1e-12) * 255).astype(np.uint8)[None])


def enlarged(image: Image.Image, smallest: int = SMALLEST) -> Image.Image:
    """The image by a whole factor, pixels kept sharp, so that its shorter side has at least `smallest` pixels."""
    factor = -(-smallest // min(image.size))
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)


def captioned(sequences: Sequences, nodes: list[int], index: int) -> Image.Image:
    image, ends = enlarged(frame_picture(sequences, nodes[index])), {0: "start, ", len(nodes) - 1: "goal, "}
    canvas = _with_room_below(image, CAPTION)
    text = f"{ends.get(index, '')}frame {frame_name(sequences, nodes[index])} ({index + 1} of {len(nodes)})"
    ImageDraw.Draw(canvas).text((8, image.height + 8), text, fill="black", font=ImageFont.load_default(16))
    return canvas


def _with_room_below(image: Image.Image, height: int) -> Image.Image:
    """In colour, over so many white pixels; the sides become even, as H.264 wants them."""
    canvas = Image.new("RGB", (image.width + image.width % 2, image.height + height + image.height % 2), "white")
    canvas.paste(image.convert("RGB"))
    return canvas


def plan_ground(scene: Scene, nodes: list[int], height: int) -> tuple[Image.Image, np.ndarray]:
    """All frames as points with the plan drawn over them, `height` pixels high; and (m, 2) pixels of the plan."""
    points = scene.points[:, :2]
    low, side = points.min(axis=0), float(np.ptp(points, axis=0).max()) or 1.0
    pixels = (points - low) / side * (height - 2 * MARGIN) + MARGIN  # (n, 2)
    pixels[:, 1] = height - pixels[:, 1]
    width = int(pixels[:, 0].max()) + MARGIN
    ground = Image.new("RGB", (width + width % 2, height), "white")
    pen = ImageDraw.Draw(ground)
    pen.point([tuple(pixel) for pixel in pixels[even_choice(len(pixels), MAX_POINTS)]], fill="#999999")
    pen.line([tuple(pixel) for pixel in pixels[nodes]], fill="black", width=2, joint="curve")
    return ground, pixels[nodes]


def with_map(pictures: list[Image.Image], scene: Scene, nodes: list[int]) -> Iterator[Image.Image]:
    """Each picture and, to its right, the map with a dot at its node."""
    ground, places = plan_ground(scene, nodes, pictures[0].height)
    places[:, 0] += pictures[0].width
    for picture, (x, y) in zip(pictures, places.tolist(), strict=True):
        both = Image.new("RGB", (picture.width + ground.width, picture.height), "white")
        both.paste(picture)
        both.paste(ground, (picture.width, 0))
        ImageDraw.Draw(both).ellipse((x - DOT, y - DOT, x + DOT, y + DOT), fill=ORANGE, outline="black", width=2)
        yield both


def encode_mp4(path: Path, pictures: list[Image.Image]) -> None:
    """H.264; the sides of the pictures are even."""
    import av

    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=FRAMES_PER_SECOND)
        (stream.width, stream.height), stream.pix_fmt = pictures[0].size, "yuv420p"
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_image(picture)))
        container.mux(stream.encode())


def save_progress_video(sequences: Sequences, numbers: np.ndarray, progress: np.ndarray, path: Path) -> None:
    """The frames (m,) of one episode with their progress (m,); `path` ends in .gif or .mp4."""
    require_images(sequences)
    write = writer_of(path)
    write([_with_curve(enlarged(frame_picture(sequences, int(number))), progress, now,
                       f"episode {sequences.sequence[number]}, frame {now}") for now, number in enumerate(numbers)])


def _with_curve(image: Image.Image, progress: np.ndarray, now: int, words: str) -> Image.Image:
    """Below the frame: the words, and the curve from 0 (bottom) to 1 (top), drawn up to `now`; gaps where unknown."""
    canvas = _with_room_below(image, WORDS + CURVE)
    draw, value = ImageDraw.Draw(canvas), progress[now]
    told = "unknown" if np.isnan(value) else f"{value:.2f}"
    draw.text((EDGE, image.height + 4), f"{words}: progress {told}", fill="black", font=ImageFont.load_default(14))
    wide, high, bottom = image.width - 2 * EDGE, CURVE - 2 * EDGE, image.height + WORDS + CURVE - EDGE
    for level in (bottom, bottom - 0.5 * high, bottom - high):
        draw.line((EDGE, level, EDGE + wide, level), fill=FAINT)
    x, y = EDGE + wide * np.arange(len(progress)) / max(1, len(progress) - 1), bottom - high * progress
    for before, ends in enumerate(zip(x, y, x[1:], y[1:], strict=False)):
        if np.isfinite(ends).all():
            draw.line(ends, fill=INK if before < now else FAINT, width=2)
    if np.isfinite(value):
        draw.ellipse((x[now] - 4, y[now] - 4, x[now] + 4, y[now] + 4), fill=NOW)
    return canvas


@dataclass(frozen=True)
class Moment:
    """One decision of a drive."""

    view: np.ndarray  # (h, w, 3) uint8
    waypoint: np.ndarray | None  # the recorded view headed for; None: lost
    node: int | None  # the frame where the driver believes to be


def save_drive(model: Model, moments: list[Moment], goal: np.ndarray, path: Path) -> None:
    """`path` ends in .gif or .mp4. The dot stays where the driver was last sure to be."""
    write, shown = writer_of(path), moments[:: -(-len(moments) // MOST)]
    nodes = [next((moment.node for moment in shown if moment.node is not None), 0)]
    for moment in shown:
        nodes.append(nodes[-1] if moment.node is None else moment.node)
    write([*with_map([_side_by_side(moment, goal) for moment in shown], scene_of(model), nodes[1:])])


def _side_by_side(moment: Moment, goal: np.ndarray) -> Image.Image:
    """The view, the waypoint and the goal; without a waypoint its place stays white."""
    is_lost = moment.waypoint is None
    pictures = [enlarged(Image.fromarray(np.ascontiguousarray(image)), SIDE)
                for image in (moment.view, goal if is_lost else moment.waypoint, goal)]
    width, height = (max(sides) for sides in zip(*(picture.size for picture in pictures), strict=True))
    canvas = Image.new("RGB", (3 * width + width % 2, height + CAPTION + height % 2), "white")
    pen = ImageDraw.Draw(canvas)
    for number, name in enumerate(("view", "lost: looks around" if is_lost else "waypoint", "goal")):
        if number != 1 or not is_lost:
            canvas.paste(pictures[number], (number * width, 0))
        pen.text((number * width + 8, height + 8), name, fill="black", font=ImageFont.load_default(16))
    return canvas
