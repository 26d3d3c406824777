"""The colours of all pictures and of the explorer: Okabe and Ito's, which the colour-blind can tell from each other."""

import numpy as np

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, YELLOW, LEMON, BLACK = "#56B4E9", "#E69F00", "#F0E442", "#000000"
RED = "#d0021b"  # doubtful closures, dotted too: dots tell them where colours cannot
PALETTE = (BLUE, YELLOW, GREEN, PURPLE, SKY, ORANGE, LEMON, BLACK)
GRAY = "#B8B8B8"
# [y, x]: blue to orange, dark to light
CORNERS = np.array([[(0.0, 0.22, 0.5), (0.55, 0.17, 0.0)], [(0.34, 0.71, 0.91), (0.96, 0.8, 0.0)]])


def place_colors(points: np.ndarray) -> np.ndarray:
    """(n, 3) a colour for every point (n, 2): from blue to orange along x, from dark to light along y."""
    low, high = points.min(axis=0), points.max(axis=0)
    x, y = ((points - low) / np.maximum(high - low, 1e-12)).T[:, :, None]
    return (1 - y) * ((1 - x) * CORNERS[0, 0] + x * CORNERS[0, 1]) + y * ((1 - x) * CORNERS[1, 0] + x * CORNERS[1, 1])
