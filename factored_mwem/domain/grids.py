"""Grids: public places at which numbers and moments may be cut, and bins made from noisy counts between them.

Everything here is a function of public facts and noisy answers. Units are those of an attribute's cuts: whole
numbers (integers, days, microseconds) as int64, numbers as float64.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence

import numpy as np

MICROS_A_DAY = 86_400 * 10**6
WIDEST = 2**62 - 2**10
"""Integers of a domain lie within 2^62."""
CLEAR = 5.0
"""Standard deviations of noise from which a cell of a grid is believed: of some 460 noise alone lifts one in
7,000 columns.
"""
THIN = 2.0
"""A cell below this many standard deviations may be empty: it joins its like, not its full neighbours."""
PIECES = 64
"""Cells that a column's span is cut into for a second look, about."""
MOST_BINS = 128
"""Bins of a column at most, about."""
TAILS = (3, 7, 10, 20)
"""Steps on the coarse grid, ten a decade, of the bins beyond the span: what little lies there is measured,
and the bins are kept where it is clear.
"""


def _numbers() -> np.ndarray:
    steps = np.array([1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0])
    positive = np.unique(np.concatenate([np.round(steps * 10.0**e, 10) for e in range(-4, 19)]))
    return np.concatenate([-positive[::-1], [0.0], positive])


def _years() -> np.ndarray:
    epoch = datetime.date(1970, 1, 1)
    return np.array([(datetime.date(year, 1, 1) - epoch).days for year in range(1800, 2201)])


NUMBERS, YEARS = _numbers(), _years()


def coarse_grid(unit: str) -> np.ndarray:
    """int64 or float64[cells + 1]: ten cells a decade at every magnitude of a number, or one a year."""
    if unit == "number":
        return NUMBERS
    if unit == "integer":
        inside = NUMBERS[np.abs(NUMBERS) < WIDEST]
        return np.unique(np.ceil(inside).astype(np.int64))
    return YEARS if unit == "date" else YEARS * MICROS_A_DAY


def clear_span(noisy: np.ndarray, stddev: float) -> tuple[int, int] | None:
    """The first and the last cell (beyond) whose noisy count stands out, alone or together with neighbours;
    None where none does.
    """
    clear = noisy > CLEAR * stddev
    for width in (4, 16, 64):  # what is thin may be clear as a whole
        for start in range(0, len(noisy), width):
            block = slice(start, start + width)
            left = np.where(clear[block], 0, noisy[block])
            if left.sum() > CLEAR * stddev * math.sqrt(width):
                clear[block] = True
    found = np.flatnonzero(clear)
    return (int(found[0]), int(found[-1]) + 1) if len(found) else None


def cut(low: float, high: float, pieces: int, *, whole: bool, step: int = 1) -> np.ndarray:
    """The edges of about `pieces` equal cells from low to high, both included; whole ones at multiples of
    `step`.
    """
    if whole:
        inner = [int(low) + (int(high) - int(low)) * i // pieces for i in range(1, pieces)]
        inner = [-(-edge // step) * step for edge in inner]
        kept = sorted({edge for edge in inner if low < edge < high})
        return np.array([int(low), *kept, int(high)], dtype=np.int64)
    width = (high - low) / pieces
    digits = min(max(2 - math.floor(math.log10(width)), 0), 300) if width > 0 else 0
    inner_ = np.unique(np.round(np.linspace(low, high, pieces + 1)[1:-1], digits))
    return np.array([low, *inner_[(inner_ > low) & (inner_ < high)], high])


def refine(edges: np.ndarray, noisy: np.ndarray, stddev: float, *, pieces: int, step: int = 1) -> np.ndarray:
    """The same cells, each cut in proportion to its noisy count into `pieces` in all, about; those that may
    be empty as they are.
    """
    mass = np.where(noisy > THIN * stddev, noisy, 0).astype(np.float64)
    parts = np.ceil(mass / max(mass.sum(), 1e-9) * pieces).astype(int)
    whole = edges.dtype == np.int64
    made = [
        cut(low, high, max(int(n), 4 if m > CLEAR * stddev else 1), whole=whole, step=step)[:-1]
        for low, high, n, m in zip(edges[:-1], edges[1:], parts, mass, strict=True)
    ]
    return np.concatenate([*made, edges[-1:]])


def merge(edges: np.ndarray, noisy: np.ndarray, stddev: float, *, rows: float) -> np.ndarray:
    """Neighbouring cells together until a bin has about `rows`; cells that may be empty make bins of their
    own, so that steps and gaps stay where they are.
    """
    kept, mass, thin_before = [edges[0]], 0.0, None
    for low, count in zip(edges[:-1], noisy.tolist(), strict=True):
        thin = count < THIN * stddev
        if thin_before is not None and (thin != thin_before or (not thin and mass + count / 2 > rows)):
            kept.append(low)
            mass = 0.0
        mass += max(count, 0.0)
        thin_before = thin
    return np.array([*kept, edges[-1]], dtype=edges.dtype)


def with_tails(edges: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The edges with wider and wider bins on both sides, from the coarse grid."""
    first = int(np.searchsorted(grid, edges[0], side="left"))
    last = int(np.searchsorted(grid, edges[-1], side="right")) - 1
    below = grid[[first - step for step in TAILS if first - step >= 0]]
    above = grid[[last + step for step in TAILS if last + step < len(grid)]]
    return np.unique(np.concatenate([below[below < edges[0]], edges, above[above > edges[-1]]]))


def with_values_left(edges: np.ndarray, special: Sequence[float]) -> np.ndarray:
    """The edges but for those of bins of whole numbers that hold special values alone: their neighbour takes
    them in. Where nothing at all is left, one value beyond is.
    """
    if edges.dtype != np.int64:
        return edges
    taken = np.unique(np.asarray(special, dtype=np.int64))
    kept = [int(edges[0])]
    for high in edges[1:].tolist():
        inside = np.searchsorted(taken, high) - np.searchsorted(taken, kept[-1])
        if high - kept[-1] > inside:
            kept.append(high)
    if kept[-1] != edges[-1]:  # the last bins were full: the last that was not takes them in
        kept = [*kept[:-1], int(edges[-1])] if len(kept) > 1 else [kept[0], int(edges[-1]) + 1]
    return np.array(kept, dtype=np.int64)
