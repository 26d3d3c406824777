"""How a picture of any size and kind becomes a frame: the same way for recordings and for an image that is asked for.

crop (pixels of the source) -> gray or RGB, 8 bits, upright -> squashed to height x width (mean over areas)

Whatever the source: 16-bit gray is scaled to 8 bits, CMYK and palettes become RGB, transparent parts are laid on black,
the EXIF orientation is applied, and of an animated file the first picture counts."""

from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from plan2vec.config import Box, ReadOptions, parse_crop
from plan2vec.readers.refusals import UNREADABLE, first_line, refusing

# what Pillow may try; never EPS and others that start programs
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
LARGEST_PICTURE = 50_000_000  # pixels; larger ones are taken for decompression bombs
LARGEST_SIDE = 64  # pixels above which a picture is made small when --size is not given
BROKEN_PICTURE = (*UNREADABLE, Image.DecompressionBombError, Image.DecompressionBombWarning)
EXIF_ORIENTATION, TURNED = 0x0112, (5, 6, 7, 8)  # of these orientations width and height change places


def frame_shape(size: tuple[int, int], channels: int, options: ReadOptions,
                largest: int | None = LARGEST_SIDE) -> tuple[int, int, int]:
    """(height, width, channels) of frames from pictures of `size` (width, height); `largest` None leaves the size."""
    left, top, right, bottom = parse_crop(options.crop) or (0, 0, *size)
    width, height = right - left, bottom - top
    if options.size is not None:
        width = height = options.size
    elif largest is not None and max(width, height) > largest:
        width = height = largest
    return height, width, 1 if options.gray else 3 if options.rgb else channels


def open_picture(file: Path | BinaryIO, at_least: tuple[int, int] | None = None,
                 largest: int = LARGEST_PICTURE) -> tuple[Image.Image, tuple[int, int]]:
    """A picture in mode L or RGB, upright, and its size in the file; a JPEG may come smaller, down to `at_least`."""
    with Image.open(file, formats=FORMATS) as image:
        width, height = size = image.size
        if width * height > largest:
            raise ValueError(f"{width} x {height} pixels, more than {largest // 1_000_000} million")
        if at_least is not None:
            image.draft(None, at_least)
        image.load()
        turned = image.getexif().get(EXIF_ORIENTATION) in TURNED
        return _eight_bits(ImageOps.exif_transpose(image)), size[::-1] if turned else size


def _eight_bits(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image).astype(np.uint16) // 257).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError("32-bit pixels, whose range is unknown; convert to 8 bits")
    mode = "L" if image.mode in ("1", "L", "LA", "La") else "RGB"
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    return image.convert(mode)


def to_frame(picture: Image.Image, shape: tuple[int, ...], box: Box | None = None) -> np.ndarray:
    """A frame of the given shape (height, width, 1 or 3)."""
    if box is not None and (box[2] > picture.width or box[3] > picture.height):
        raise ValueError(f"{picture.width} x {picture.height} pixels, smaller than --crop {','.join(map(str, box))}")
    picture = (picture.crop(box) if box else picture).convert("L" if shape[2] == 1 else "RGB")
    if picture.size != (shape[1], shape[0]):
        picture = picture.resize((shape[1], shape[0]), Image.Resampling.BOX)  # gives back a frame that was enlarged
    return np.asarray(picture, np.uint8).reshape(shape)


def array_to_frame(array: np.ndarray, shape: tuple[int, ...], box: Box | None = None) -> np.ndarray:
    """A frame from a uint8 array (height, width, channels) of any number of channels."""
    if (channels := array.shape[2]) in (1, 3):
        return to_frame(Image.fromarray(np.ascontiguousarray(array[..., 0] if channels == 1 else array)), shape, box)
    if shape[2] != channels:
        raise ValueError(f"frames with {channels} channels cannot become gray or RGB; leave --gray and --rgb out")
    planes = [array_to_frame(array[..., k : k + 1], (*shape[:2], 1), box) for k in range(channels)]
    return np.concatenate(planes, axis=2)


def image_frame(file: Path | BinaryIO, shape: tuple[int, ...], options: ReadOptions,
                source_size: tuple[int, int] | None, largest: int = LARGEST_PICTURE) -> np.ndarray:
    """An image from outside as a frame of a map; it is cropped as the recordings were where it has their size."""
    if len(shape) != 3 or shape[2] not in (1, 3):
        raise ValueError(f"an image can be looked up only on a map of gray or RGB frames, but these have shape {shape}")
    box = parse_crop(options.crop)
    try:
        picture, size = open_picture(file, None if box else (shape[1], shape[0]), largest)
        return to_frame(picture, shape, box if size == source_size else None)
    except UnidentifiedImageError:
        raise ValueError(f"it is no image of a known kind: {', '.join(FORMATS)}") from None
    except BROKEN_PICTURE as error:
        raise ValueError(first_line(error)) from None


def prepare_image(image: object, shape: tuple[int, ...], options: ReadOptions,
                  source_size: tuple[int, int] | None) -> np.ndarray:
    """A frame of a map from an image: the path of a file, a PIL image, or a uint8 array (h, w) or (h, w, c). One of the
    recordings' own size (`source_size`) is cropped as they were; any other shows the frame itself."""
    if isinstance(image, JpegImageFile) and image.tile and image.filename:  # opened, not decoded: as its file
        image = image.filename
    if isinstance(image, str | Path):
        with refusing(str(image), (ValueError,), "cannot be read as an image"):
            return image_frame(Path(image), shape, options, source_size)
    if len(shape) != 3:
        raise ValueError(f"an image can be looked up only on a map of images, but its frames have shape {shape}")
    array = np.asarray(_eight_bits(ImageOps.exif_transpose(image)) if isinstance(image, Image.Image) else image)
    array = array[..., None] if array.ndim == 2 else array
    if array.dtype != np.uint8 or array.ndim != 3:
        raise ValueError("an image must be a path, a PIL image or a uint8 array (h, w, c), but came "
                         f"{array.dtype} {array.shape}")
    box = parse_crop(options.crop) if (array.shape[1], array.shape[0]) == source_size else None
    return array_to_frame(array, shape, box)
