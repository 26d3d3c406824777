"""Panoramas of a rendered city: rays are cast from a view until they meet the building fronts that line the streets.

What lies within HALF_WIDTH of a link is street, everything else is built over (`street_facades`). Fronts stay in place
while one walks past. Nothing depends on the compass: no sun, no shadows.

    column of the panorama = direction, the middle one is the view's heading      row = elevation, TOP to BOTTOM degrees
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.ndimage import distance_transform_edt, gaussian_filter

from plan2vec.domains import street_facades
from plan2vec.domains.street_facades import NUM_LEVELS, TEXEL, Facades, facade_atlas, find_buildings
from plan2vec.domains.street_networks import Streets

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


@dataclass(frozen=True)
class ViewConfig:
    """How views look; with the last three at 0 every visit of a view gives the same image."""

    pixels: int = 64  # of both sides
    seed: int = 0  # of the city's buildings
    noise: float = 0.0  # standard deviation of a pixel, gray levels of 255
    exposure: float = 0.0  # standard deviation of the logarithm of a visit's brightness
    heading_jitter: float = 0.0  # degrees, standard deviation of a visit's heading


NOISY = ViewConfig(noise=10.0, exposure=0.25, heading_jitter=8.0)  # no two visits are alike


def render_views(streets: Streets, nodes: np.ndarray, config: ViewConfig = ViewConfig(),
                 rng: np.random.Generator | None = None) -> np.ndarray:
    """(m, pixels, pixels, 1) uint8: one visit to each of `nodes` (m,), drawn from `rng` (None: seed 0)."""
    rng = np.random.default_rng(0) if rng is None else rng
    nodes = np.asarray(nodes)
    frames = np.empty((len(nodes), config.pixels, config.pixels, 1), np.uint8)
    raster, facades = _raster(streets), facade_atlas(config.seed)
    heading = streets.heading[nodes] + config.heading_jitter * rng.standard_normal(len(nodes))
    gain = np.exp(config.exposure * rng.standard_normal(len(nodes))).astype(np.float32)
    parts = [slice(first, first + VIEWS_AT_ONCE) for first in range(0, len(nodes), VIEWS_AT_ONCE)]

    def render(part: slice, own: np.random.Generator) -> None:
        image = _panoramas(raster, facades, streets.xy[nodes[part]], heading[part], config)
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
def _raster(streets: Streets) -> _Raster:
    """The distances of a network, computed once."""
    points = _sample_links(streets)
    margin = 2 * HALF_WIDTH
    origin = points.min(axis=0) - margin
    columns, rows = (np.ceil((points.max(axis=0) + margin - origin) / CELL).astype(int) + 2).tolist()
    sample = np.full((columns, rows), -1)
    cell = np.rint((points - origin) / CELL).astype(int)
    sample[cell[:, 0], cell[:, 1]] = np.arange(len(points))
    nearest = distance_transform_edt(sample < 0, return_distances=False, return_indices=True)
    nearest = sample[nearest[0], nearest[1]]
    centre = origin + CELL * np.indices((columns, rows)).transpose(1, 2, 0)
    distance = np.linalg.norm(centre - points[nearest], axis=2)
    rise_x, rise_y = np.gradient(gaussian_filter(distance, 1.0))
    tangent = np.stack([rise_y, -rise_x], axis=2) / np.maximum(np.hypot(rise_x, rise_y), 1e-9)[..., None]
    tangent *= np.where(tangent[..., :1] < 0, -1, 1)
    tangent = tangent.reshape(-1, 2).astype(np.float32)
    return _Raster(origin, distance.ravel().astype(np.float32), tangent, (columns, rows))


def _sample_links(streets: Streets) -> np.ndarray:
    """(k, 2) points along all links, a third of a cell apart."""
    start, end = streets.xy[streets.links[:, 0]], streets.xy[streets.links[:, 1]]
    num = np.maximum(2, np.ceil(np.linalg.norm(end - start, axis=1) * 3 / CELL).astype(int))
    link = np.repeat(np.arange(len(num)), num)
    share = (np.arange(num.sum()) - np.repeat(np.cumsum(num) - num, num)) / (num[link] - 1)
    return start[link] + share[:, None] * (end - start)[link]


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
    x, y = x - column, y - row
    first = column * raster.shape[1] + row
    low, next_low = raster.distance.take(first), raster.distance.take(first + 1)
    high, next_high = raster.distance.take(first + raster.shape[1]), raster.distance.take(first + (raster.shape[1] + 1))
    low += (next_low - low) * y
    high += (next_high - high) * y
    return low + (high - low) * x


def _panoramas(raster: _Raster, facades: Facades, xy: np.ndarray, heading: np.ndarray, config: ViewConfig):
    """(m, pixels, pixels, 1) float32 gray levels of views at `xy` (m, 2) that look to `heading` (m,) degrees."""
    num_rays = RAYS_PER_COLUMN * config.pixels
    azimuth = np.radians(heading[:, None] + ((np.arange(num_rays) + 0.5) / num_rays - 0.5) * 360).ravel()
    direction = np.stack([np.sin(azimuth), np.cos(azimuth)], axis=1).astype(np.float32)
    start = np.repeat(xy, num_rays, axis=0)
    far = _cast(raster, start, direction)
    hits = _meet(raster, facades, far, start + (far + 1.0)[:, None] * direction, direction)  # a little inside the front
    image = _columns(facades, hits, config).reshape(len(xy), config.pixels, RAYS_PER_COLUMN, config.pixels)
    return np.add.reduce(image, axis=2).transpose(0, 2, 1)[..., None] / RAYS_PER_COLUMN


@dataclass(frozen=True)
class _Hits:
    """Where k rays met a front."""

    far: np.ndarray  # (k,) metres
    along: np.ndarray  # (k,) metres along the front from the middle of its building
    steepness: np.ndarray  # (k,) 1: straight at the front, 0: along it
    bits: np.ndarray  # (k,) uint32, random bits of the building


def _meet(raster: _Raster, facades: Facades, far: np.ndarray, at: np.ndarray, direction: np.ndarray) -> _Hits:
    """What rays that travelled `far` (k,) metres met at the points `at` (k, 2)."""
    cell = np.clip(np.rint((at - raster.origin) / CELL).astype(int), 0, np.array(raster.shape) - 1)
    tangent = raster.tangent[cell[:, 0] * raster.shape[1] + cell[:, 1]]
    centre, bits = find_buildings(at, facades.seed)
    steepness = np.abs(direction[:, 0] * tangent[:, 1] - direction[:, 1] * tangent[:, 0])
    return _Hits(far, ((at - centre) * tangent).sum(axis=1), steepness, bits)


def _columns(facades: Facades, hits: _Hits, config: ViewConfig) -> np.ndarray:
    """(k, rows) float32: what each of k rays sees from TOP to BOTTOM."""
    elevation = TOP - (TOP - BOTTOM) * (np.arange(config.pixels) + 0.5) / config.pixels  # degrees
    slope = np.tan(np.radians(elevation)).astype(np.float32)
    tone = 0.7 + 0.6 * (hits.bits >> np.uint32(20) & np.uint32(0xFF)).astype(np.float32) / 255
    clear = np.exp(-hits.far / HAZE)
    light = tone * (0.75 + 0.25 * hits.steepness) * clear
    texel = _texels(facades, hits, slope)
    shade, behind = facades.shade.take(texel), facades.cover.take(texel)
    endless = hits.far >= FARTHEST
    shade[endless] = behind[endless] = 0
    sky = np.linspace(SKY_TOP, SKY, config.pixels, dtype=np.float32)
    behind *= ((1 - clear) * SKY)[:, None] - sky  # in place: haze before fronts, sky elsewhere
    behind += sky
    ground, on_ground = _ground(hits, slope)
    image = shade * light[:, None] + behind
    np.copyto(image, ground, where=on_ground)
    return image


def _texels(facades: Facades, hits: _Hits, slope: np.ndarray) -> np.ndarray:
    """(k, rows) places in the atlas; the level grows with the distance."""
    level = np.clip(np.log2(hits.far / 10), 0, NUM_LEVELS - 1).astype(int)
    facade, offset = hits.bits & np.uint32(street_facades.NUM_FACADES - 1), hits.bits >> np.uint32(8) & np.uint32(0x3F)
    column = ((hits.along + street_facades.FACADE_WIDTH * 4) / TEXEL[0] + offset).astype(np.int64) >> level
    width, height = facades.width[level], facades.height[level]
    base = facades.first[level] + (facade * width + column % width) * height
    scale = (1 / (TEXEL[1] * 2.0**level)).astype(np.float32)
    row = ((hits.far * scale)[:, None] * slope + (EYE * scale)[:, None]).astype(np.int32)
    np.clip(row, 0, (height - 1).astype(np.int32)[:, None], out=row)
    row += base.astype(np.int32)[:, None]
    return row


def _ground(hits: _Hits, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(k, rows) gray of road and pavement, and (k, rows) bool: the ground is nearer than the front."""
    reach = np.where(slope < 0, -EYE / np.minimum(slope, -1e-6), np.inf).astype(np.float32)
    steepness = np.maximum(hits.steepness, 0.1)  # a ray along a front would see nothing but pavement
    on_pavement = (hits.far[:, None] - reach) * steepness[:, None] < PAVEMENT
    return np.where(on_pavement, np.float32(PAVEMENT_GRAY), np.float32(ROAD_GRAY)), reach < hits.far[:, None]
