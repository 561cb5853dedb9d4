"""Coarse grids: public places at which numbers and moments are cut before anything is known of a column.

Edges are int64 where values are whole numbers of something (integers, hundredths, days, microseconds), else
float64; a cell holds low <= x < high.
"""

from __future__ import annotations

import datetime

import numpy as np

from factored_mwem.domain.attribute import WIDEST

MICROS_A_DAY = 86_400 * 10**6
NINES = tuple(10**digits - 1 for digits in range(2, 7))
"""Whole numbers that often stand for something else, for missing or for a limit: cells of their own."""
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
        nines = np.array(NINES)
        return np.unique(np.concatenate([[-WIDEST], whole, nines, -nines, 1 - nines, [WIDEST + 1]]))
    return YEARS if unit == "date" else YEARS * MICROS_A_DAY


def wide_grid(unit: str) -> np.ndarray:
    """int64 or float64[cells + 1]: small whole numbers and two cells a decade, where little is known; those
    of a decade, of which the coarse grid has no edge, are counted together, too.
    """
    if unit in ("date", "datetime"):
        return coarse_grid(unit)[len(CENTURIES[1]) :][: len(CENTURIES[0]) : 10]
    decades = 10.0 ** np.arange(1, 10)
    beyond = np.sort(np.concatenate([decades, 3 * decades[:-1]]))
    if unit == "number":
        return np.concatenate([-beyond[::-1], [-3.0, -1.0, 0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0], beyond])
    return np.concatenate([-beyond[::-1], np.arange(-3, 10), beyond]).astype(np.int64)
