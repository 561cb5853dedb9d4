"""Spectral: weights in [0, 1] near a noisy graph in spectral norm, for more vertices than a linear program.

The program of section 6.2 of Gupta, Roth and Ullman (2012), with sigma_1(x - d) in place of the normalised
cut norm that it bounds (Nikiforov). The private graph lies in the box [0, 1] and, with r at least sigma_1 of
the noise, in the ball sigma_1(x - d) <= r: so the two meet, and projections onto one and the other in turn
come near a common point. What is reached is measured at the end, `distance`; then every cut of x is within
distance * sqrt(|S| |T|) of the noisy graph's, and so is every rank-1 query within distance * |u| |v| (Remark
6.4), whatever the number of steps was. The start keeps the eigenvalues y of d that stand out of the noise,
each made (y + sqrt(y^2 - r^2)) / 2, what it is likely to be without it (Gavish, Donoho 2017); and every step
gives x the sum that d has, which noise hides least, by one number added to all pairs before the box.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

WHOLE = 1500
"""Vertices up to which all eigenvalues are computed; beyond, those that are needed (Lanczos, by SciPy)."""
STEPS = 30
SLACK = 1.02
"""A distance within this of the radius ends the projections."""
MOST_VECTORS = 96
HALVINGS = 30
"""How often the interval is halved that holds the number added to all pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class Denoised:
    """`matrix: float32[vertex, vertex]`, symmetric, in [0, 1], zero diagonal; `distance`: sigma_1 of its
    difference from the noisy matrix; `radius`: about sigma_1 of the noise; `steps`: the number of steps made.
    """

    matrix: np.ndarray
    distance: float
    radius: float
    steps: int


def noise_radius(vertices: int, stddev: float) -> float:
    """About sigma_1 of symmetric independent noise: 2 sigma sqrt(n), the semicircle's edge, and a little."""
    return 2 * stddev * math.sqrt(vertices) * (1 + vertices ** (-2 / 3))


def denoise(noisy: np.ndarray, stddev: float) -> Denoised:
    """The projection of `noisy: float[vertex, vertex]`, symmetric, with noise of `stddev` on each pair."""
    n = len(noisy)
    noisy = np.array(noisy, dtype=np.float32)
    np.fill_diagonal(noisy, 0.0)
    radius = noise_radius(n, stddev)
    total = float(noisy.sum(dtype=np.float64))
    values, vectors = _outside(noisy, radius)
    kept = np.sign(values) * (np.abs(values) + np.sqrt(np.maximum(values**2 - radius**2, 0))) / 2
    kept[np.abs(values) <= radius] = 0
    current = _boxed((vectors * kept) @ vectors.T, total)
    best, nearest, steps = current, math.inf, 0
    for steps in range(1, STEPS + 1):
        apart = current - noisy
        values, vectors = _outside(apart, radius)
        distance = float(np.abs(values).max(initial=0.0))
        if distance < nearest:
            best, nearest = current, distance
        if distance <= radius * SLACK or steps == STEPS:
            break
        excess = np.sign(values) * np.maximum(np.abs(values) - radius, 0)
        current = _boxed(current - (vectors * excess) @ vectors.T, total)
    return Denoised(best, nearest, radius, steps)


def _boxed(matrix: np.ndarray, total: float) -> np.ndarray:
    """The matrix clipped to the box, with a sum as near to `total` as possible; symmetric, its diagonal 0."""
    matrix = ((matrix + matrix.T) / 2).astype(np.float32)
    np.fill_diagonal(matrix, -np.inf)  # the box makes it 0
    low, high = -float(matrix.max()), 1 - float(matrix[np.isfinite(matrix)].min())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if np.clip(matrix + np.float32(middle), 0, 1).sum(dtype=np.float64) < total:
            low = middle
        else:
            high = middle
    return np.clip(matrix + np.float32(high), 0, 1)


def _outside(matrix: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """(float[k], float[vertex, k]): the eigenvalues beyond +-radius with their vectors, always the largest
    one, and at most the MOST_VECTORS most extreme ones.
    """
    n = len(matrix)
    if n <= WHOLE:
        values, vectors = np.linalg.eigh(matrix)
    else:
        from scipy.sparse.linalg import eigsh

        count = 6
        values, vectors = eigsh(matrix, k=count, which="LM", tol=1e-3)
        while np.abs(values).min() > radius and count < MOST_VECTORS:
            count *= 4
            values, vectors = eigsh(matrix, k=count, which="LM", tol=1e-3)
    some = np.abs(values) > radius
    some[int(np.argmax(np.abs(values)))] = True
    return values[some], vectors[:, some]
