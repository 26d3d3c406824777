"""Claim: turning frames into vectors costs what the network's forward pass costs; reading and converting frames hides
behind it.

Command: plan2vec bench encode        Cost: seconds
Expected: share_of_bare (frames a second of `encode` over those of the bare forward pass on images that lie ready) 0.8
or more

What a fit calls is `encode`: uint8 frames in, float32 vectors out, in order. Bare: the same network, in the same
batches of 1,024, on float images that are on the device already.
"""

from collections.abc import Iterator
from functools import partial

import torch
from matplotlib.figure import Figure

from plan2vec.bench.measuring import Options, bar_figure, best_of, number_table
from plan2vec.domains import rooms
from plan2vec.learning.encoders import make_encoder
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.results.rows import Row

NAME, TITLE = "encode", "Frames to vectors"
ENCODERS = ("small", "medium", "resnet18")
COLUMNS = ("frames_per_second", "bare_frames_per_second", "share_of_bare")


def run(options: Options) -> Iterator[list[Row]]:
    (size,) = options.choose_sizes((20_000,) if options.device.type == "cuda" else (4_000,), (400,))
    frames = rooms.simulate(size, options.seed).frames
    images = FrameTensors(frames, options.device)
    for name in options.choose(ENCODERS, ENCODERS[:1]):
        encoder = make_encoder(name, frames, 8).to(options.device).eval()
        bare = best_of(3, options.device, partial(forward, encoder, [images(numbers) for numbers in images.batches()]))
        seconds = best_of(3, options.device, partial(encode, encoder, images))
        numbers = {
            "frames_per_second": len(frames) / seconds, "bare_frames_per_second": len(frames) / bare,
            "share_of_bare": bare / seconds
        }
        yield options.rows(NAME, "rooms", name, numbers, seconds, frames=len(frames))


@torch.no_grad()
def forward(encoder: torch.nn.Module, batches: list[torch.Tensor]) -> None:
    for images in batches:
        encoder(images)


def table(rows: list[Row]) -> list[str]:
    return number_table(rows, COLUMNS, ("frames",))


def draw(rows: list[Row]) -> Figure:
    return bar_figure(rows, "frames_per_second")
