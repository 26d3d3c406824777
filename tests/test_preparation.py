"""A picture of any kind becomes the frame that a person would expect, and recordings and asked-for images are prepared
alike.
"""

import io

import numpy as np
import pytest
from PIL import Image

from plan2vec.config import ReadOptions, parse_crop
from plan2vec.readers.picture_to_frame import array_to_frame, frame_shape, image_frame, open_picture, to_frame

RAMP = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32)


def stored(image: Image.Image, kind: str = "PNG", **options) -> io.BytesIO:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    buffer.seek(0)
    return buffer


def pixels(image: Image.Image, kind: str = "PNG", **options) -> np.ndarray:
    return np.asarray(open_picture(stored(image, kind, **options))[0])


def test_gray_stays_gray_and_colour_stays_colour():
    assert (pixels(Image.fromarray(RAMP)) == RAMP).all()
    assert pixels(Image.new("RGB", (5, 4), (1, 2, 3))).tolist() == [[[1, 2, 3]] * 5] * 4
    assert pixels(Image.new("1", (5, 4), 1)).tolist() == [[255] * 5] * 4


def test_sixteen_bits_are_scaled_to_eight():
    deep = Image.fromarray(RAMP.astype(np.uint16) * 257)
    assert deep.mode == "I;16"
    assert (pixels(deep) == RAMP).all()


def test_transparent_parts_are_black():
    half = np.zeros((2, 4, 4), np.uint8)
    half[..., :3], half[:, :2, 3] = (200, 100, 50), 255
    assert pixels(Image.fromarray(half)).tolist() == [[[200, 100, 50]] * 2 + [[0, 0, 0]] * 2] * 2
    gray = Image.merge("LA", [Image.new("L", (2, 1), 90), Image.fromarray(np.array([[255, 0]], np.uint8))])
    assert pixels(gray).tolist() == [[90, 0]]


def test_cmyk_and_palettes_become_rgb():
    red = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    assert np.abs(pixels(red, "JPEG").astype(int) - (255, 0, 0)).max() < 8
    assert pixels(Image.new("RGB", (4, 4), (10, 200, 30)).quantize(2)).shape == (4, 4, 3)


def test_the_orientation_of_a_camera_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright
    picture, size = open_picture(stored(Image.fromarray(RAMP), exif=exif))
    assert size == (24, 32) == picture.size
    assert (np.asarray(picture) == np.rot90(RAMP, -1)).all()


def test_of_an_animated_file_the_first_picture_counts():
    shades = [Image.new("L", (4, 4), shade) for shade in (10, 200)]
    assert pixels(shades[0], "GIF", save_all=True, append_images=shades[1:]).max() == 10


def test_a_jpeg_decoded_small_equals_the_same_jpeg_decoded_whole():
    smooth = Image.fromarray(
        np.add.outer(np.arange(480), np.arange(640)).astype(np.float64) / 5 % 256
    ).convert("L").resize((640, 480))
    file = stored(smooth.point(lambda shade: shade // 2), "JPEG", quality=95)
    whole, _ = open_picture(file)
    file.seek(0)
    small, size = open_picture(file, (64, 64))
    assert size == (640, 480) and small.size < whole.size
    apart = to_frame(small, (64, 64, 1)).astype(int) - to_frame(whole, (64, 64, 1))
    assert np.abs(apart).mean() < 1.5


def test_a_frame_is_the_mean_over_areas_of_what_the_crop_leaves():
    checks = np.kron(np.array([[0, 200], [100, 60]], np.uint8), np.ones((4, 4), np.uint8))
    assert to_frame(Image.fromarray(checks), (2, 2, 1))[..., 0].tolist() == [[0, 200], [100, 60]]
    assert to_frame(Image.fromarray(checks), (1, 1, 1)).item() == 90
    assert to_frame(Image.fromarray(checks), (1, 1, 1), (4, 0, 8, 8)).item() == 130
    with pytest.raises(ValueError, match="8 x 8 pixels, smaller than --crop 0,0,9,8"):
        to_frame(Image.fromarray(checks), (1, 1, 1), (0, 0, 9, 8))


@pytest.mark.parametrize(
    ("size", "options", "shape"),
    [((64, 48), {}, (48, 64, 3)), ((65, 48), {}, (64, 64, 3)), ((640, 480), {"size": 32}, (32, 32, 3)),
     ((10, 10), {"size": 32}, (32, 32, 3)), ((640, 480), {"gray": True}, (64, 64, 1)),
     ((640, 480), {"crop": "0,0,50,20"}, (20, 50, 3)), ((640, 480), {"crop": "0,0,65,20"}, (64, 64, 3))],
)
def test_the_shape_of_frames_follows_the_options(size, options, shape):
    assert frame_shape(size, 3, ReadOptions(**options)) == shape


def test_gray_pictures_become_rgb_only_when_asked():
    assert frame_shape((9, 9), 1, ReadOptions()) == (9, 9, 1) and frame_shape(
        (9, 9), 1, ReadOptions(rgb=True)
    ) == (9, 9, 3)
    assert frame_shape((640, 480), 1, ReadOptions(), largest=None) == (480, 640, 1)


def test_arrays_of_any_number_of_channels_are_squashed_channel_by_channel():
    stack = np.stack([RAMP // 2, RAMP // 3, RAMP // 4, RAMP // 5], axis=2)
    small = array_to_frame(stack, (12, 16, 4))
    for k in range(4):
        assert (small[..., k : k + 1] == array_to_frame(stack[..., k : k + 1], (12, 16, 1))).all()
    with pytest.raises(ValueError, match="4 channels cannot become gray"):
        array_to_frame(stack, (12, 16, 1))


def test_an_image_of_the_recordings_own_size_is_cropped_as_they_were_and_any_other_is_not():
    options, shape = ReadOptions(crop="8,0,32,24"), (24, 24, 1)
    asked = lambda image: image_frame(stored(image), shape, options, (32, 24))  # noqa: E731
    assert (asked(Image.fromarray(RAMP))[..., 0] == RAMP[:, 8:]).all()
    assert (asked(Image.fromarray(RAMP[:, 8:]))[..., 0] == RAMP[:, 8:]).all()  # a frame of the map itself
    enlarged = Image.fromarray(np.kron(RAMP[:, 8:], np.ones((3, 3), np.uint8)))
    assert (asked(enlarged)[..., 0] == RAMP[:, 8:]).all()


def test_an_image_is_no_vector():
    with pytest.raises(ValueError, match=r"only on a map of gray or RGB frames, but these have shape \(3,\)"):
        image_frame(stored(Image.fromarray(RAMP)), (3,), ReadOptions(), None)


def test_a_crop_is_four_whole_numbers():
    assert parse_crop("1,2,30,40") == (1, 2, 30, 40) and parse_crop(None) is None
    for text in ("1,2,3", "a,b,c,d", "1.5,0,3,3", "-1,0,3,3", "5,0,3,3", "", "1,2,3,4,5", "9" * 30 + ",0,1,1"):
        with pytest.raises(ValueError, match="--crop must"):
            parse_crop(text)
