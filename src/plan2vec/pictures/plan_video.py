"""A plan as a moving picture: one frame after the other, enlarged, with its name below. GIF by Pillow, MP4 by PyAV."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from plan2vec.data import Sequences
from plan2vec.files import replacing
from plan2vec.model import Model
from plan2vec.pictures.figures import displayable, frame_name, is_image
from plan2vec.planner import Plan

SMALLEST = 256  # pixels of the shorter side of an enlarged frame
CAPTION = 36  # pixels of the line of text below it
FRAMES_PER_SECOND = 4
LAST_FRAME_SECONDS = 1.5  # the goal stays


def save_video(model: Model, plan: Plan, path: Path) -> None:
    write = writer_of(path)
    if not is_image(model.sequences):
        shape = model.sequences.frame_shape
        raise ValueError(f"--video needs frames that are images, but these are vectors of shape {shape}")
    if plan.nodes is None:
        raise ValueError(f"there is no plan to show: {plan.reason}")
    pictures = [captioned(model.sequences, plan.nodes, index) for index in range(len(plan.nodes))]
    with replacing(path) as temporary:
        write(temporary, pictures)


def writer_of(path: Path) -> Callable[[Path, list[Image.Image]], None]:
    """The writer for a file of this ending, or a clear refusal before any work is done."""
    if path.suffix.lower() == ".gif":
        return write_gif
    if path.suffix.lower() != ".mp4":
        raise ValueError(f"--video must end in .gif or .mp4, but is {path}")
    try:
        import av  # noqa: F401
    except ModuleNotFoundError:
        message = "writing .mp4 needs the extra [video]: pip install 'plan2vec[video]' (a .gif needs no extra)"
        raise ValueError(message) from None
    return write_mp4


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
    """A frame of the plan; below it stand its name and its number in the plan."""
    image = enlarged(frame_picture(sequences, nodes[index])).convert("RGB")
    # H.264: even sides
    canvas = Image.new("RGB", (image.width + image.width % 2, image.height + CAPTION + image.height % 2), "white")
    canvas.paste(image)
    ends = {0: "start, ", len(nodes) - 1: "goal, "}
    text = f"{ends.get(index, '')}frame {frame_name(sequences, nodes[index])} ({index + 1} of {len(nodes)})"
    ImageDraw.Draw(canvas).text((8, image.height + 8), text, fill="black", font=ImageFont.load_default(16))
    return canvas


def write_gif(path: Path, pictures: list[Image.Image]) -> None:
    durations = [1000 // FRAMES_PER_SECOND] * (len(pictures) - 1) + [int(1000 * LAST_FRAME_SECONDS)]
    pictures[0].save(path, format="GIF", save_all=True, append_images=pictures[1:], duration=durations, loop=0)


def write_mp4(path: Path, pictures: list[Image.Image]) -> None:
    import av

    stay = round(FRAMES_PER_SECOND * LAST_FRAME_SECONDS) - 1
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=FRAMES_PER_SECOND)
        stream.width, stream.height = pictures[0].size
        stream.pix_fmt = "yuv420p"
        for picture in [*pictures, *[pictures[-1]] * stay]:
            container.mux(stream.encode(av.VideoFrame.from_image(picture)))
        container.mux(stream.encode())
