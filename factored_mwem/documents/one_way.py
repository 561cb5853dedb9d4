"""One-way: what a release's noisy answers say of the values of one column, and how sure they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from factored_mwem.documents.groups import Groups
from factored_mwem.pipeline.result import Release

NORMAL_95 = 1.959964
"""Standard deviations on either side that hold 95 % of a normal distribution."""


class OneWay(NamedTuple):
    """float64[group]: `estimate` of the records of each group, and the bounds of its 95 % interval."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def one_way(made: Release, name: str, groups: Groups) -> OneWay | None:
    """From the least noisy measurement of the column; None where it was not measured by itself."""
    at = made.domain.modelled.names.index(name)
    found = [m for m in made.measurements if m.positions == (at,)]
    if not found:
        return None
    best = min(found, key=lambda m: m.stddev)
    estimate = groups.added(best.noisy)
    deviation = best.stddev * np.sqrt(groups.added(np.ones(len(best.noisy))))
    return OneWay(estimate, estimate - NORMAL_95 * deviation, estimate + NORMAL_95 * deviation)
