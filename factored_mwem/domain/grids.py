"""Grids: public places at which numbers and moments may be cut, and bins made from noisy counts between them.

Everything here is a function of public facts and noisy answers. Edges are int64 where values are whole
numbers of something (integers, hundredths, days, microseconds), else float64; a cell holds low <= x < high.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence

import numpy as np

from factored_mwem.domain.attribute import WIDEST

MICROS_A_DAY = 86_400 * 10**6
CLEAR = 4.5
"""Deviations of noise from which a cell is believed: noise lifts one of 130 in 2,000 columns."""
THIN = 2.0
"""A cell below this many standard deviations may be empty: it joins its like, not its full neighbours."""
PIECES = 64
"""Cells that a column's span is cut into for a second look, about."""
MOST_BINS = 128
"""Bins of a column at most, about."""
SINGLE = 64
"""Whole numbers within a span of at most so many have a bin each."""
TAILS = (1, 2, 3, 6)
"""Steps on the coarse grid, three a decade, of the bins beyond the span: what little lies there is measured,
and the bins are kept where it is clear.
"""


DECADES = 100.0
"""Numbers further apart than so many times are cut by their magnitude."""
TINY = (1e-100, 1e-30, 1e-20, 1e-15, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5)
HUGE = (1e20, 1e22, 1e25, 1e30, 1e50, 1e100, 1e200, 1e300)
"""Where the cells of numbers are wider: rarely is anything there, but then it must be seen."""
CENTURIES = (range(1800, 2201), (1, 1000, 1500, 1600, 1700, 1750), (2250, 2300, 2500, 3000))
"""The years that have cells of their own, and where those before and after them are cut."""


def _numbers() -> np.ndarray:
    steps = [float(f"{step}e{e}") for e in range(-4, 19) for step in (1, 2, 5)]
    positive = [*TINY, *steps, *HUGE]
    return np.array([*(-x for x in reversed(positive)), 0.0, *positive])


def _years() -> np.ndarray:
    epoch, years = datetime.date(1970, 1, 1), sorted(year for some in CENTURIES for year in some)
    days = [(datetime.date(year, 1, 1) - epoch).days for year in years]
    return np.array([*days, (datetime.date.max - epoch).days + 1])


NUMBERS, YEARS = _numbers(), _years()


def coarse_grid(unit: str) -> np.ndarray:
    """int64 or float64[cells + 1]: three cells a decade of a number, or one a year, and fewer where hardly
    anything is; from end to end of what a domain can hold.
    """
    if unit == "number":
        return NUMBERS
    if unit == "integer":
        whole = NUMBERS[(np.abs(NUMBERS) < WIDEST) & (NUMBERS % 1 == 0)].astype(np.int64)
        return np.concatenate([[-WIDEST], whole, [WIDEST + 1]])
    return YEARS if unit == "date" else YEARS * MICROS_A_DAY


def wide_grid(unit: str) -> np.ndarray:
    """int64 or float64[cells + 1]: small whole numbers and a cell a decade, where little is known."""
    if unit in ("date", "datetime"):
        return coarse_grid(unit)[len(CENTURIES[1]) :][: len(CENTURIES[0]) : 10]
    decades = 10.0 ** np.arange(1, 10)
    if unit == "number":
        return np.concatenate([-decades[::-1], [-1.0, 0.0, 0.01, 0.1, 1.0], decades])
    return np.concatenate([-decades[::-1], np.arange(-3, 10), decades]).astype(np.int64)


def clear_span(noisy: np.ndarray, stddev: float, level: float = CLEAR) -> tuple[int, int] | None:
    """The first and the last cell (beyond) whose noisy count stands out by `level` standard deviations, alone
    or together with neighbours; None if none does.
    """
    clear = noisy > level * stddev
    for width in (3, 10, 30):  # what is thin may be clear as a whole
        for start in range(0, len(noisy), width):
            block = slice(start, start + width)
            left = np.where(clear[block], 0, noisy[block])
            if left.sum() > level * stddev * math.sqrt(width):
                clear[block] = True
    places = np.flatnonzero(clear)
    return (int(places[0]), int(places[-1]) + 1) if len(places) else None


def filled(noisy: np.ndarray, stddev: float) -> tuple[int, int]:
    """The cells without those at both ends that may well be empty, one with the other."""
    ends = []
    for counts in (noisy, noisy[::-1]):
        sums, cells = np.cumsum(counts), np.arange(1, len(counts) + 1)
        empty = np.flatnonzero(sums < THIN * stddev * np.sqrt(cells))
        ends.append(int(empty[-1]) + 1 if len(empty) else 0)
    first, last = ends[0], len(noisy) - ends[1]
    return (first, last) if first < last else (0, len(noisy))


def cut(low: float, high: float, pieces: int, *, whole: bool, step: int = 1) -> np.ndarray:
    """The edges of about `pieces` equal cells from low to high, both included; whole ones at multiples of
    `step`. Where magnitudes lie between, cells are equal in those.
    """
    if whole:
        width = (int(high) - int(low)) / pieces
        step = max(step, 10 ** math.floor(math.log10(width / 2)) if step == 1 and width > 2 else 1)
        inner = [int(low) + (int(high) - int(low)) * i // pieces for i in range(1, pieces)]
        inner = [-(-edge // step) * step for edge in inner]
        kept = sorted({edge for edge in inner if low < edge < high})
        return np.array([int(low), *kept, int(high)], dtype=np.int64)
    if (low > 0 and high / DECADES > low) or (high < 0 and low / DECADES < high):
        between = np.geomspace(low, high, pieces + 1)[1:-1].tolist()
        return np.array([low, *(float(f"{edge:.2e}") for edge in between), high])
    width = (high - low) / pieces
    digits = min(max(2 - math.floor(math.log10(width)), 0), 300) if width > 0 else 0
    inside = np.unique(np.round(np.linspace(low, high, pieces + 1)[1:-1], digits))
    return np.array([low, *inside[(inside > low) & (inside < high)], high])


def refine(edges: np.ndarray, noisy: np.ndarray, stddev: float, *, pieces: int, step: int = 1) -> np.ndarray:
    """The same cells, each cut in proportion to its noisy count into `pieces` in all, about; those that may
    be empty as they are. A short span of whole numbers: a cell each.
    """
    whole = edges.dtype == np.int64
    if whole and (edges[-1] - edges[0]) // step <= SINGLE:
        return cut(edges[0], edges[-1], int(edges[-1] - edges[0]) // step or 1, whole=True, step=step)
    mass = np.where(noisy > THIN * stddev, noisy, 0).astype(np.float64)
    parts = np.ceil(mass / max(mass.sum(), 1e-9) * pieces).astype(int)
    return _cut_up(edges, np.maximum(parts, np.where(mass > CLEAR * stddev, 4, 1)).tolist(), step)


def _cut_up(edges: Sequence[float] | np.ndarray, pieces: Sequence[int], step: int) -> np.ndarray:
    """The edges of each cell's pieces."""
    whole = isinstance(edges[0], np.int64)
    cells = zip(edges[:-1], edges[1:], pieces, strict=True)
    parts = [cut(low, high, count, whole=whole, step=step)[:-1] for low, high, count in cells]
    return np.concatenate([*parts, edges[-1:]])


def bins(edges: np.ndarray, noisy: np.ndarray, stddev: float, *, rows: float, step: int = 1) -> np.ndarray:
    """Edges of bins of about `rows` each: neighbouring cells together, large ones cut. Cells that may be
    empty make bins of their own, so that steps and gaps stay where they are. A short span of whole numbers
    stays.
    """
    whole = edges.dtype == np.int64
    if whole and (edges[-1] - edges[0]) // step <= SINGLE:
        return edges
    kept, masses, thin_before = [edges[0]], [0.0], None
    for low, count in zip(edges[:-1], noisy.tolist(), strict=True):
        thin = count < THIN * stddev
        if thin_before is not None and (thin != thin_before or (not thin and masses[-1] + count / 2 > rows)):
            kept.append(low)
            masses.append(0.0)
        masses[-1] += max(count, 0.0)
        thin_before = thin
    kept.append(edges[-1])
    return _cut_up(kept, [max(round(mass / rows), 1) for mass in masses], step)


def with_tails(edges: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The edges with wider and wider bins on both sides, from the coarse grid; one ends at 0 in any case."""
    first = int(np.searchsorted(grid, edges[0], side="left"))
    last = int(np.searchsorted(grid, edges[-1], side="right")) - 1
    below = grid[[first - step for step in TAILS if first - step >= 0]]
    above = grid[[last + step for step in TAILS if last + step < len(grid)]]
    extended = np.unique(np.concatenate([below[below < edges[0]], edges, above[above > edges[-1]]]))
    return np.unique(np.append(extended, grid.dtype.type(0))) if extended[0] < 0 < extended[-1] else extended


def with_values_left(edges: np.ndarray, special: Sequence[float], tick: int = 1) -> np.ndarray:
    """The edges but for those of bins of whole numbers that hold special values alone: their neighbour takes
    them in. Where nothing at all is left, one value beyond is. Values are `tick` apart.
    """
    if edges.dtype != np.int64:
        return edges
    if tick > 1:
        return with_values_left(edges // tick, [value // tick for value in special]) * tick
    taken = np.unique(np.asarray(special, dtype=np.int64))
    kept = [int(edges[0])]
    for high in edges[1:].tolist():
        inside = np.searchsorted(taken, high) - np.searchsorted(taken, kept[-1])
        if high - kept[-1] > inside:
            kept.append(high)
    if kept[-1] != edges[-1]:  # the last bins were full: the last that was not takes them in
        kept = [*kept[:-1], int(edges[-1])] if len(kept) > 1 else [kept[0], int(edges[-1]) + 1]
    return np.array(kept, dtype=np.int64)
