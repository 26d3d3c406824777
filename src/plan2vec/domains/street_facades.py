"""Facades of a rendered city, and the lots they stand on.

Facades are drawn once into an atlas, and again at half, a quarter, ... of the resolution, for views from afar. Lots are
scattered over the whole plane; the random bits of a lot choose its facade, tone and offset. Everything is a function of
the place and the seed.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

LOT = 15.0  # metres between buildings, on average
NUM_FACADES = 128
FACADE_WIDTH, FACADE_HEIGHT = 32.0, 48.0  # metres of a facade in the atlas
TEXEL = (0.5, 0.25)  # metres along the front and up: what a ray of a small panorama covers at 10 m
NUM_LEVELS = 5  # of ever coarser atlases, each for twice the distance


@dataclass(frozen=True)
class Facades:
    """An atlas of facades, coarser from level to level: gray levels times coverage, and coverage (0: sky)."""

    shade: np.ndarray  # flat float32
    cover: np.ndarray  # flat float32
    first: np.ndarray  # (levels,) where a level begins
    width: np.ndarray  # (levels,) texels along the front
    height: np.ndarray  # (levels,) texels up
    seed: int


@lru_cache(maxsize=4)
def facade_atlas(seed: int) -> Facades:
    rng = np.random.default_rng(seed)
    drawn = [_draw_facade(rng) for _ in range(NUM_FACADES)]
    levels = [np.array(drawn).swapaxes(0, 1).astype(np.float32)]  # (shade and cover, facade, along, up)
    for _ in range(NUM_LEVELS - 1):
        _, k, width, height = levels[-1].shape
        levels.append(levels[-1].reshape(2, k, width // 2, 2, height // 2, 2).mean(axis=(3, 5)))
    first = np.cumsum([0, *(level[0].size for level in levels[:-1])])
    widths, heights = (np.array([level.shape[axis] for level in levels]) for axis in (2, 3))
    shade, cover = (np.concatenate([level[kind].ravel() for level in levels]) for kind in (0, 1))
    return Facades(shade, cover, first, widths, heights, seed)


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
    window = in_column < rng.uniform(0.35, 0.75) * period
    window = window & (in_floor > 0.9) & (in_floor < rng.uniform(2.2, 0.9 * storey))
    blinds = rng.uniform(0.6, 1.4, (14, 40))[column.astype(int), np.maximum(floor, 0).astype(int)]
    shade = np.where(window, np.clip(glass * blinds, 15, 245), wall)
    shade = np.where(in_floor < rng.choice([0.0, 0.0, 0.4]), wall * 0.75, shade)  # a course between storeys
    shop = np.where(np.mod(along + rng.uniform(0, 8), rng.uniform(4, 9)) < 1.0, wall * 1.2, rng.uniform(20, 110))
    sign = rng.uniform(40, 240)
    shade = np.where(up < ground, np.where(up > ground - 1.0, sign, np.where(up < 0.5, wall * 0.6, shop)), shade)
    shade = np.where(up > roof - 0.8, np.clip(wall * rng.uniform(0.6, 1.5), 20, 245), shade)
    cover = np.broadcast_to(up < roof, shade.shape).astype(float)
    return np.clip(shade, 10, 245) * cover, cover


def find_buildings(at: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(k, 2) centres of the lots that own the points `at` (k, 2), the nearest of four; (k,) uint32 random bits."""
    x, y = (at / LOT).astype(np.float32).T
    column, row = np.floor(x - 0.5).astype(np.int32), np.floor(y - 0.5).astype(np.int32)
    best = np.full(len(at), np.inf, np.float32)
    centre_x, centre_y, bits = x.copy(), y.copy(), np.zeros(len(at), np.uint32)
    for right, up in np.ndindex(2, 2):
        drawn = _scramble(column + np.int32(right), row + np.int32(up), seed)
        lot_x = column + (right + 0.2 + (drawn & np.uint32(0xFFFF)) * np.float32(0.6 / 0xFFFF))
        lot_y = row + (up + 0.2 + (drawn >> np.uint32(16)) * np.float32(0.6 / 0xFFFF))
        apart = (x - lot_x) ** 2 + (y - lot_y) ** 2
        nearer = apart < best
        for kept, new in ((best, apart), (centre_x, lot_x), (centre_y, lot_y), (bits, drawn)):
            np.copyto(kept, new, where=nearer, casting="same_kind")
    return LOT * np.stack([centre_x, centre_y], axis=1), bits * np.uint32(2654435761)


def _scramble(column: np.ndarray, row: np.ndarray, seed: int) -> np.ndarray:
    """(k,) uint32 that look random, from the whole numbers of a lot."""
    bits = column.view(np.uint32) * np.uint32(73856093) ^ row.view(np.uint32) * np.uint32(19349663)
    bits = bits ^ np.uint32((seed + 1) % 2**32)
    for _ in range(2):
        bits = (bits ^ bits >> np.uint32(16)) * np.uint32(0x45D9F3B)
    return bits ^ bits >> np.uint32(16)
