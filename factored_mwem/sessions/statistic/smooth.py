"""The formulas of smooth sensitivity and of the centre of attention, of numbers that the caller holds: NOT
PRIVATE by themselves. What is sealed is measured with the same ones, in `privacy/other`.

The centre is the one of the M points whose ball that holds t = floor((M + s) / 2) + 1 of them is smallest.
Where s of the points may change, two such balls hold an unchanged point in common, for 2 t > M + s: the
centres are at most R + R' apart. With d_i(t) the distance from point i to its t-th nearest, itself
included, and rho(t, j) the j-th smallest of d_1(t), ..., d_M(t): R = rho(t, 1), and as at least j of the j
+ s best centres of a neighbour's are unchanged, rho'(t, j) <= rho(t + s, j + s). So the terms below are at
most those of one step further at a neighbour, and S is smooth. (The slides' bound, 2 max rho(t + (k + 1) s)
e^{-beta k}, takes the best centre alone, which a neighbour may not have.) Source: Nissim, Raskhodnikova,
Smith 2007, section 4.
"""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.accounting.admissible import Admissible, Shape
from factored_mwem.errors import InputError
from factored_mwem.privacy.other.local import (
    local_of_order,
    local_of_spanning_tree,
    local_of_triangles,
    spanning_tree,
    triangles,
)
from factored_mwem.privacy.other.order import smooth_bound

__all__ = [
    "Admissible", "Shape", "attention_bound", "center_of_attention", "local_of_order",
    "local_of_spanning_tree", "local_of_triangles", "smooth_bound", "spanning_tree", "triangles",
]  # fmt: skip


def center_of_attention(distances: np.ndarray, changed: int = 1) -> int:
    """The number of the centre, the first of several; `distances: float64[point, point]`."""
    nearest = _nearest(distances)
    count = min((len(nearest) + changed) // 2 + 1, len(nearest))
    return int(np.argmin(nearest[:, count - 1]))


def attention_bound(distances: np.ndarray, beta: float, width: float, changed: int = 1) -> float:
    """max over k of e^{-beta k} (rho(t + k s, 1 + k s) + rho(t + (k + 1) s, 1 + (k + 1) s)), with `width`,
    the largest distance that there may be, from where there are not so many points.
    """
    nearest = np.sort(_nearest(distances), axis=0)  # of each t, d_i(t) ascending
    m, step, bound = len(nearest), 0, 0.0
    count = (m + changed) // 2 + 1
    while count + (step + 1) * changed <= m:
        here, there = step * changed, (step + 1) * changed
        both = nearest[here, count + here - 1] + nearest[there, count + there - 1]
        bound = max(bound, math.exp(-beta * step) * min(float(both), width))
        step += 1
    return max(bound, math.exp(-beta * step) * width)


def _nearest(distances: np.ndarray) -> np.ndarray:
    """float64[point, t - 1]: d_i(t)."""
    points = np.asarray(distances, dtype=np.float64)
    if points.ndim != 2 or points.shape[0] != points.shape[1] or not len(points):
        raise InputError("distances: a square matrix of one point or more is needed")
    return np.sort(points, axis=1)
