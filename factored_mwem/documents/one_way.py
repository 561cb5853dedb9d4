"""One-way: what a release's noisy answers say of the values of one column, and how sure they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from factored_mwem.answers.bases import Measured, Sums
from factored_mwem.answers.figures import half_width
from factored_mwem.answers.least_squares import least_squares
from factored_mwem.answers.looks import Noisy
from factored_mwem.answers.terms import Terms
from factored_mwem.documents.groups import Groups


class OneWay(NamedTuple):
    """float64[group]: `estimate` of the records of each group, and the bounds of its 95 % interval."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def one_way(noisy: Noisy, position: int, groups: Groups) -> OneWay | None:
    """The best that all noisy answers together say of an attribute, by least squares, which trusts no model;
    None where they do not fix its values.
    """
    count = len(groups)
    found = least_squares(noisy, Terms((position,), (groups.weights,), count))
    if found is None:
        return None
    each = Sums(np.arange(count)[:, None], np.ones((count, 1)))
    half = half_width(Measured([found]).spread(each))
    return OneWay(found.values, found.values - half, found.values + half)
