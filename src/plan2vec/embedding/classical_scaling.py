"""Vectors whose distances are near path lengths: classical scaling from landmarks (de Silva and Tenenbaum, 2004).

A flat map that a network learns from random beginnings may fold. Classical scaling does not: its vectors project all
distances on their main directions. They guide the first updates of the training."""

import numpy as np

MAX_LANDMARKS = 1000  # an eigenvalue problem of so many rows is solved


def landmark_vectors(lengths: np.ndarray, landmarks: np.ndarray, dim: int, degree: int = 1) -> np.ndarray:
    """(n, dim) float32 vectors from the path lengths (r, n) to the landmarks (r,); NaN for nodes without a path.
    `degree` 2: for vectors whose squared l2 distance is the length. Landmarks that the first has no path to are left
    out, and so are those beyond MAX_LANDMARKS, from the end."""
    together = np.isfinite(lengths[0, landmarks]) & np.isfinite(lengths[:, landmarks[0]])
    chosen = np.flatnonzero(together)[:MAX_LANDMARKS]
    known = np.isfinite(lengths[chosen]).all(axis=0)
    squares = lengths[np.ix_(chosen, known)].astype(np.float64) ** (2 / degree)
    between = lengths[np.ix_(chosen, landmarks[chosen])].astype(np.float64) ** (2 / degree)
    mean = between.mean(axis=1)
    values, directions = np.linalg.eigh(-0.5 * (between - mean - mean[:, None] + mean.mean()))
    kept = np.flatnonzero(values > 1e-9 * values.max())[::-1][:dim]
    vectors = np.full((lengths.shape[1], dim), np.nan, np.float32)
    vectors[known] = 0
    vectors[known, : len(kept)] = -0.5 * (squares - mean[:, None]).T @ (directions[:, kept] / np.sqrt(values[kept]))
    return vectors
