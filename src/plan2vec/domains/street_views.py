"""Panoramas of a rendered city: rays are cast from a view until they meet the building fronts that line the streets.

What lies within HALF_WIDTH of a link is street, everything else is built over. Fronts stay in place while one walks
past. Nothing depends on the compass: no sun, no shadows. Facades are drawn once into an atlas, and again at half, a
quarter, ... of the resolution, for views from afar. Lots are scattered over the whole plane; the random bits of a lot
choose its facade, tone and offset. Everything is a function of the place.

    column of the panorama = direction, the middle one is the view's heading      row = elevation, TOP to BOTTOM degrees
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import distance_transform_edt, gaussian_filter

from plan2vec.data import slices

if TYPE_CHECKING:
    from plan2vec.domains.streets import Streets

HALF_WIDTH = 12.0  # metres from the middle of a street to the fronts: between a street and an avenue of Manhattan
PAVEMENT = 3.0  # metres of it before the fronts
EYE = 2.4  # metres of the camera above the ground
TOP, BOTTOM = 55.0, -30.0  # degrees of elevation at the upper and lower edge
FARTHEST = 150.0  # metres that a ray travels
HAZE = 120.0  # metres after which about a third of a front's contrast is left
SKY, SKY_TOP, PAVEMENT_GRAY, ROAD_GRAY = 225.0, 185.0, 150.0, 85.0
CELL = 1.0  # metres of the raster of distances
SHORTEST_STEP = 1.0  # metres that a ray advances at least
RAYS_PER_COLUMN = 2
VIEWS_AT_ONCE = 64
LOT = 15.0  # metres between buildings, on average
NUM_FACADES = 128
FACADE_WIDTH, FACADE_HEIGHT = 32.0, 48.0  # metres of a facade in the atlas
TEXEL = (0.5, 0.25)  # metres along the front and up: what a ray of a small panorama covers at 10 m
ATLAS = (64, 192)  # texels of a facade, before levels get coarser
NUM_LEVELS = 5  # of ever coarser atlases, each for twice the distance


@dataclass(frozen=True)
class ViewConfig:
    """How views look; with the last three at 0 every visit of a view gives the same image."""

    pixels: int = 64  # of both sides
    noise: float = 0.0  # standard deviation of a pixel, gray levels of 255
    exposure: float = 0.0  # standard deviation of the logarithm of a visit's brightness
    heading_jitter: float = 0.0  # degrees, standard deviation of a visit's heading


NOISY = ViewConfig(noise=10.0, exposure=0.25, heading_jitter=8.0)  # no two visits are alike


def render_views(streets: "Streets", nodes: np.ndarray, config: ViewConfig = ViewConfig(),
                 rng: np.random.Generator | None = None) -> np.ndarray:
    """(m, pixels, pixels, 1) uint8: one visit to each of `nodes` (m,), drawn from `rng` (None: seed 0)."""
    rng, nodes = np.random.default_rng(0) if rng is None else rng, np.asarray(nodes)
    frames = np.empty((len(nodes), config.pixels, config.pixels, 1), np.uint8)
    raster, atlas = _raster(streets), _facade_atlas()
    heading = streets.heading[nodes] + config.heading_jitter * rng.standard_normal(len(nodes))
    gain = np.exp(config.exposure * rng.standard_normal(len(nodes))).astype(np.float32)
    parts = slices(len(nodes), VIEWS_AT_ONCE)

    def render(part: slice, own: np.random.Generator) -> None:
        image = _panoramas(raster, atlas, streets.xy[nodes[part]], heading[part], config)
        image *= gain[part, None, None, None]
        if config.noise:
            image += config.noise * own.standard_normal(image.shape, np.float32)
        frames[part] = np.clip(image, 0, 255, out=image)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        list(pool.map(render, parts, rng.spawn(len(parts))))
    return frames


@dataclass(frozen=True)
class _Raster:
    """Distance from every place to the nearest street's middle, and how the fronts run that lie at equal distance."""

    origin: np.ndarray  # (2,) metres: the centre of cell 0, 0
    distance: np.ndarray  # (columns * rows,) float32 metres, y fastest
    tangent: np.ndarray  # (columns * rows, 2) float32 unit vectors, to the east
    shape: tuple[int, int]


@lru_cache(maxsize=4)
def _raster(streets: "Streets") -> _Raster:
    start, end = streets.xy[streets.links[:, 0]], streets.xy[streets.links[:, 1]]
    num = np.maximum(2, np.ceil(streets.link_lengths * 3 / CELL).astype(int))  # points a third of a cell apart
    link = np.repeat(np.arange(len(num)), num)
    share = (np.arange(num.sum()) - np.repeat(np.cumsum(num) - num, num)) / (num[link] - 1)
    points, margin = start[link] + share[:, None] * (end - start)[link], 2 * HALF_WIDTH
    origin = points.min(axis=0) - margin
    columns, rows = (np.ceil((points.max(axis=0) + margin - origin) / CELL).astype(int) + 2).tolist()
    sample = np.full((columns, rows), -1)
    sample[tuple(np.rint((points - origin) / CELL).astype(int).T)] = np.arange(len(points))
    nearest = sample[tuple(distance_transform_edt(sample < 0, return_distances=False, return_indices=True))]
    distance = np.linalg.norm(origin + CELL * np.indices((columns, rows)).transpose(1, 2, 0) - points[nearest], axis=2)
    rise_x, rise_y = np.gradient(gaussian_filter(distance, 1.0))
    tangent = np.stack([rise_y, -rise_x], axis=2) / np.maximum(np.hypot(rise_x, rise_y), 1e-9)[..., None]
    tangent *= np.where(tangent[..., :1] < 0, -1, 1)
    tangent = tangent.reshape(-1, 2).astype(np.float32)
    return _Raster(origin, distance.ravel().astype(np.float32), tangent, (columns, rows))


def _cast(raster: _Raster, start: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """(k,) metres that rays travel from `start` (k, 2) until they leave the street, at most FARTHEST. The room that is
    left at a place is also a distance that a ray can travel from there in any direction."""
    x, y = ((start - raster.origin) / CELL).astype(np.float32).T
    along_x, along_y = np.ascontiguousarray(direction.T) / np.float32(CELL)
    travelled = np.zeros(len(start), np.float32)
    ray, room = np.arange(len(start)), HALF_WIDTH - _distance_at(raster, x, y)
    while len(ray):
        step = np.maximum(room, SHORTEST_STEP)
        x, y = x + step * along_x, y + step * along_y
        before, room = room, HALF_WIDTH - _distance_at(raster, x, y)
        step += np.minimum(room, 0) * step / np.maximum(before - room, 1e-6)  # back to the front where it was passed
        travelled[ray] += step
        going = np.flatnonzero((room > 0) & (travelled[ray] < FARTHEST))
        if len(going) < len(ray):
            ray, room, x, y = ray[going], room[going], x[going], y[going]
            along_x, along_y = along_x[going], along_y[going]
    return np.minimum(travelled, FARTHEST)


def _distance_at(raster: _Raster, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(k,) metres to the nearest street's middle, interpolated between the four cells around x, y (in cells)."""
    column, row = x.astype(np.int32), y.astype(np.int32)
    x, y, num_rows = x - column, y - row, raster.shape[1]
    first = column * num_rows + row
    low, next_low, high, next_high = (raster.distance.take(first + k) for k in (0, 1, num_rows, num_rows + 1))
    low += (next_low - low) * y
    high += (next_high - high) * y
    return low + (high - low) * x


def _panoramas(raster: _Raster, atlas: np.ndarray, xy: np.ndarray, heading: np.ndarray, config: ViewConfig):
    """(m, pixels, pixels, 1) float32 gray levels of views at `xy` (m, 2) that look to `heading` (m,) degrees."""
    num_rays = RAYS_PER_COLUMN * config.pixels
    azimuth = np.radians(heading[:, None] + ((np.arange(num_rays) + 0.5) / num_rays - 0.5) * 360).ravel()
    direction = np.stack([np.sin(azimuth), np.cos(azimuth)], axis=1).astype(np.float32)
    start = np.repeat(xy, num_rays, axis=0)
    far = _cast(raster, start, direction)
    at = start + (far + 1.0)[:, None] * direction  # a little inside the front
    cell = np.clip(np.rint((at - raster.origin) / CELL).astype(int), 0, np.array(raster.shape) - 1)
    tangent = raster.tangent[cell[:, 0] * raster.shape[1] + cell[:, 1]]
    centre, bits = find_buildings(at)
    along = ((at - centre) * tangent).sum(axis=1)  # metres along the front from the middle of its building
    steepness = np.abs(direction[:, 0] * tangent[:, 1] - direction[:, 1] * tangent[:, 0])  # 1: straight at the front
    image = _columns(atlas, far, along, steepness, bits, config.pixels)
    image = image.reshape(len(xy), config.pixels, RAYS_PER_COLUMN, config.pixels)
    return np.add.reduce(image, axis=2).transpose(0, 2, 1)[..., None] / RAYS_PER_COLUMN


def _columns(atlas: np.ndarray, far: np.ndarray, along: np.ndarray, steepness: np.ndarray, bits: np.ndarray,
             pixels: int) -> np.ndarray:
    """(k, pixels) float32: what each of k rays sees from TOP to BOTTOM; (k,) random bits of the building it meets."""
    slope = np.tan(np.radians(TOP - (TOP - BOTTOM) * (np.arange(pixels) + 0.5) / pixels)).astype(np.float32)
    tone, clear = 0.7 + 0.6 * (bits >> np.uint32(20) & np.uint32(0xFF)).astype(np.float32) / 255, np.exp(-far / HAZE)
    light, texel = tone * (0.75 + 0.25 * steepness) * clear, _texels(far, along, bits, slope)
    shade, behind = (levels.take(texel) for levels in atlas)
    shade[far >= FARTHEST] = behind[far >= FARTHEST] = 0
    sky = np.linspace(SKY_TOP, SKY, pixels, dtype=np.float32)
    behind *= ((1 - clear) * SKY)[:, None] - sky  # in place: haze before fronts, sky elsewhere
    behind += sky
    image = shade * light[:, None] + behind
    ground = np.where(slope < 0, -EYE / np.minimum(slope, -1e-6), np.inf).astype(np.float32)  # metres away
    front = (far[:, None] - ground) * np.maximum(steepness, 0.1)[:, None]  # a ray along a front would see no road
    gray = np.where(front < PAVEMENT, np.float32(PAVEMENT_GRAY), np.float32(ROAD_GRAY))
    np.copyto(image, gray, where=ground < far[:, None])  # where it is nearer than the front
    return image


def _texels(far: np.ndarray, along: np.ndarray, bits: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """(k, rows) places in the atlas; the level grows with the distance."""
    level = np.clip(np.log2(far / 10), 0, NUM_LEVELS - 1).astype(int)
    facade, offset = bits & np.uint32(NUM_FACADES - 1), bits >> np.uint32(8) & np.uint32(0x3F)
    column = ((along + FACADE_WIDTH * 4) / TEXEL[0] + offset).astype(np.int64) >> level
    sizes = np.array(ATLAS)[:, None] >> np.arange(NUM_LEVELS)  # texels along the front and up, of every level
    first = np.append(0, np.cumsum(NUM_FACADES * sizes.prod(axis=0)))[level]
    width, height = sizes[:, level]
    scale = (1 / (TEXEL[1] * 2.0**level)).astype(np.float32)
    row = ((far * scale)[:, None] * slope + (EYE * scale)[:, None]).astype(np.int32)
    np.clip(row, 0, (height - 1).astype(np.int32)[:, None], out=row)
    return row + (first + (facade * width + column % width) * height).astype(np.int32)[:, None]


@cache
def _facade_atlas() -> np.ndarray:
    """(2, texels) float32: gray times coverage, and coverage (0: sky); facades get coarser from level to level."""
    rng = np.random.default_rng(0)
    levels = [np.array([_draw_facade(rng) for _ in range(NUM_FACADES)]).swapaxes(0, 1).astype(np.float32)]
    for _ in range(NUM_LEVELS - 1):  # (shade and cover, facade, along, up)
        _, k, width, height = levels[-1].shape
        levels.append(levels[-1].reshape(2, k, width // 2, 2, height // 2, 2).mean(axis=(3, 5)))
    return np.concatenate([level.reshape(2, -1) for level in levels], axis=1)


def _draw_facade(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Shade and coverage (along, up) of one facade: shop front, storeys of windows, cornice, sky."""
    along = np.arange(TEXEL[0] / 2, FACADE_WIDTH, TEXEL[0])[:, None]
    up = np.arange(TEXEL[1] / 2, FACADE_HEIGHT, TEXEL[1])[None, :]
    ground, storey = rng.uniform(3.5, 5.0), rng.uniform(3.0, 4.2)
    roof = ground + storey * rng.choice([2, 3, 4, 4, 5, 5, 6, 7, 9, 11])
    wall, glass = rng.uniform(60, 190), rng.choice([30.0, 45.0, 60.0, 200.0, 225.0])
    period = FACADE_WIDTH / rng.choice([5, 6, 8, 10, 13])
    column, in_column = np.divmod(along, period)
    floor, in_floor = np.divmod(up - ground, storey)
    in_window = in_column < rng.uniform(0.35, 0.75) * period
    window = in_window & (in_floor > 0.9) & (in_floor < rng.uniform(2.2, 0.9 * storey))
    blinds = rng.uniform(0.6, 1.4, (14, 40))[column.astype(int), np.maximum(floor, 0).astype(int)]
    shade = np.where(window, np.clip(glass * blinds, 15, 245), wall)
    shade = np.where(in_floor < rng.choice([0.0, 0.0, 0.4]), wall * 0.75, shade)  # a course between storeys
    shop = np.where(np.mod(along + rng.uniform(0, 8), rng.uniform(4, 9)) < 1.0, wall * 1.2, rng.uniform(20, 110))
    sign = rng.uniform(40, 240)
    shade = np.where(up < ground, np.where(up > ground - 1.0, sign, np.where(up < 0.5, wall * 0.6, shop)), shade)
    shade = np.where(up > roof - 0.8, np.clip(wall * rng.uniform(0.6, 1.5), 20, 245), shade)
    cover = np.broadcast_to(up < roof, shade.shape).astype(float)
    return np.clip(shade, 10, 245) * cover, cover


def find_buildings(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(k, 2) centres of the lots that own the points `at` (k, 2), the nearest of four; (k,) uint32 random bits."""
    x, y = (at / LOT).astype(np.float32).T
    column, row = np.floor(x - 0.5).astype(np.int32), np.floor(y - 0.5).astype(np.int32)
    best = np.full(len(at), np.inf, np.float32)
    centre_x, centre_y, bits = x.copy(), y.copy(), np.zeros(len(at), np.uint32)
    for right, up in np.ndindex(2, 2):
        drawn = _scramble(column + np.int32(right), row + np.int32(up))
        lot_x = column + (right + 0.2 + (drawn & np.uint32(0xFFFF)) * np.float32(0.6 / 0xFFFF))
        lot_y = row + (up + 0.2 + (drawn >> np.uint32(16)) * np.float32(0.6 / 0xFFFF))
        apart = (x - lot_x) ** 2 + (y - lot_y) ** 2
        nearer = apart < best
        for kept, new in ((best, apart), (centre_x, lot_x), (centre_y, lot_y), (bits, drawn)):
            np.copyto(kept, new, where=nearer, casting="same_kind")
    return LOT * np.stack([centre_x, centre_y], axis=1), bits * np.uint32(2654435761)


def _scramble(column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """(k,) uint32 that look random, from the whole numbers of a lot."""
    bits = column.view(np.uint32) * np.uint32(73856093) ^ row.view(np.uint32) * np.uint32(19349663) ^ np.uint32(1)
    for _ in range(2):
        bits = (bits ^ bits >> np.uint32(16)) * np.uint32(0x45D9F3B)
    return bits ^ bits >> np.uint32(16)
