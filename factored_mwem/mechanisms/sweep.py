"""Sweep: small marginals, all measured once after the rounds, whether trees can hold them or not. At high
budgets the trees are full long before the budget is spent; what they miss is then read off cheaply.

Which marginals, at which levels and at what price is decided before the rounds, from public facts and noisy
counts alone. Those that fit into the trees are fitted with all the others; those that do not are kept
beside them and correct what the forest answers, see model/corrections.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.levels import Levels, View, padded
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.model.estimation import Estimate
from factored_mwem.privacy.counts import PrivateCounts, bytes_of
from factored_mwem.privacy.session import Measurement, Session, marginal_noise
from factored_mwem.workload.candidates import Candidates

SHARE, LITTLE = Fraction(1, 2), Fraction(3, 10)
"""Of what is left before the rounds: tried in this order. Mean 3-way error at epsilon 10 with none, .3 and .5
of it: brfss2015 .0223, .0124 and .0111, discretised Adult .1010, .0896 and .0880, its categorical part .0322,
.0278 and .0251.
"""
ERROR = 0.02
"""Most mean L1 error (shares) that noise is predicted to make of a pair of attributes. Where it is less, a
sweep lowered the error of rows by 7 to 50 % (.0077 on brfss2015 at epsilon 1, .02 on discretised Adult at
10); at .028 and .053 (Adult's categorical part and all of it at 1) it raised it by 3 %.
"""
MIN_CELLS, MAX_CELLS = 2**6, 2**14
"""Of a marginal, the most that are tried: levels get coarser until the noise is bearable."""
MAX_SWEPT = 2**20
"""Cells of all marginals together: their noise takes about 10 microseconds a cell to draw."""
MOST = 0.75
"""Of all pairs, a sweep sees at least this share: the budget of a few small ones would be lost to all others.
"""
MAX_CORRECTED = 3
"""Attributes of a swept marginal."""
MAX_VIEWS = 10_000
"""More marginals are not measured: the rows could not be moved towards them."""


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """The `views` to measure, what part of `cost` each gets, the L1 error (shares) that noise is predicted to
    make of a pair of attributes, the mean over all, and the views as an index of what is counted.
    """

    views: list[View]
    parts: list[Fraction]
    cost: Fraction
    error: float
    candidates: Candidates | None = None

    def __bool__(self) -> bool:
        return bool(self.views)

    @property
    def bytes(self) -> float:
        """Memory that its counts take at most."""
        return bytes_of(self.candidates) if self.candidates is not None else 0.0


NO_SWEEP = Sweep([], [], Fraction(0), 0.0)


def choose_sweep(plan: Plan, levels: Levels, records: float, left: Fraction) -> Sweep:
    """The marginals of two and three attributes, or of two, at the finest levels at which their noise is
    bearable; none if it is at no level. `left`: what the rounds and the sweep may cost together. Public
    facts and noisy counts only.
    """
    if plan.limits is None or not plan.limits.adaptive or plan.limits.hurried:
        return NO_SWEEP
    listed = [_by_size(plan.candidates, levels, most) for most in (MAX_CORRECTED, 2)]
    if plan.candidates.orders.max() <= 2:  # both are the same marginals
        listed = listed[:1]
    for share in (SHARE, LITTLE):
        for by_size in listed:
            found = _finest(plan, levels, by_size, records, left * share)
            if not found:
                continue
            found = replace(found, candidates=_counted(found.views, plan.candidates, levels))
            if found.bytes <= plan.limits.memory / 2:  # the other half is for what rounds choose from
                return found
    return NO_SWEEP


def _by_size(candidates: Candidates, levels: Levels, attributes: int) -> list[np.ndarray]:
    """int64[view, slot] each: the marginals of two attributes and more, at levels of at most MAX_CELLS cells,
    then of half as many, and so on, each once; as long as these see MOST of the pairs.
    """
    which = np.flatnonzero((candidates.orders >= 2) & (candidates.orders <= attributes))
    least = MOST * int((candidates.orders == 2).sum())
    if not 0 < len(which) <= MAX_VIEWS:
        return []
    views, most = candidates.members[which, :attributes].astype(np.int64), MAX_CELLS
    found: list[np.ndarray] = []
    while most >= MIN_CELLS:
        views = levels.all_coarse_enough(views, most)
        told = views[(np.append(levels.sizes, 2)[views] > 1).all(axis=1)]  # else an attribute has one code
        if levels.cells_of(told).sum() <= MAX_SWEPT and not (found and np.array_equal(found[-1], told)):
            if not len(told) or len(np.unique(_pairs(told, levels)[1])) < least:
                break  # coarser levels see fewer still
            found.append(told)
        most //= 2
    return found


def _finest(
    plan: Plan, levels: Levels, by_size: Sequence[np.ndarray], records: float, cost: Fraction
) -> Sweep:
    """The largest marginals of a predicted error up to ERROR, if there are any."""
    for views in by_size if cost else ():
        sweep = _priced(views, levels, records, cost, plan)
        if sweep.error <= ERROR:
            return sweep
    return NO_SWEEP


def _priced(views: np.ndarray, levels: Levels, records: float, cost: Fraction, plan: Plan) -> Sweep:
    """Parts of `cost` that make the summed error least: a marginal of c cells and part p errs by c / sqrt(p)
    under Gaussian noise, by c / p under Laplace noise.
    """
    unit, composition = plan.policy.unit, plan.request.budget.composition
    power = 2 / 3 if composition is Composition.ZCDP else 1 / 2
    weights, kind, count = np.unique(
        np.rint(levels.cells_of(views) ** power * 64), return_inverse=True, return_counts=True
    )
    total = sum(int(w) * n for w, n in zip(weights.tolist(), count.tolist(), strict=True))
    parts = [Fraction(int(w), total) for w in weights.tolist()]
    least = marginal_noise(cost, unit, composition).mean_abs  # of a marginal that gets all of it
    power = 1 / 2 if composition is Composition.ZCDP else 1
    noise = (least / np.array([float(part) for part in parts]) ** power)[kind]
    rows = [tuple(v for v in row if v >= 0) for row in views.tolist()]
    error = _pair_error(views, noise, levels) / records
    return Sweep(rows, [parts[k] for k in kind.tolist()], cost, error)


def _pair_error(views: np.ndarray, noise: np.ndarray, levels: Levels) -> float:
    """The mean over all pairs of attributes of the L1 error (records) that `noise` of each view's cells makes
    of the pair, as seen by all views that hold it.
    """
    of, over, cells = _pairs(views, levels)
    each = np.unique(over, return_inverse=True)[1]
    precision = np.bincount(each, cells / (levels.cells_of(views) * noise**2)[of])
    most = np.zeros(len(precision))
    np.maximum.at(most, each, cells)
    return float(np.mean(most / precision**0.5))


def _pairs(views: np.ndarray, levels: Levels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs of variables of all views: (the view, a number for the attributes they are of, cells)."""
    sizes, pairs = levels.sizes, itertools.combinations(range(views.shape[1]), 2)
    found = []
    for i, j in pairs:
        of = np.flatnonzero((views[:, i] >= 0) & (views[:, j] >= 0))
        a, b = views[of, i], views[of, j]
        attribute = levels.attribute
        found.append((of, attribute[a] * len(levels.shape) + attribute[b], sizes[a] * sizes[b]))
    of, over, cells = (np.concatenate(each) for each in zip(*found, strict=True))
    return of, over, cells.astype(np.float64)


def _counted(views: Sequence[View], candidates: Candidates, levels: Levels) -> Candidates:
    return Candidates(candidates.domain, padded(views), levels)


def measure_sweep(session: Session, estimate: Estimate, sweep: Sweep, counts: PrivateCounts) -> None:
    """Measure all of a sweep, for what is left: the trees get what a clique holds, `correct` the rest."""
    forest, left = estimate.forest, session.left
    inside: list[Measurement] = []
    for view, part in zip(sweep.views, sweep.parts, strict=True):
        measured = session.measure(counts, view, cost=left * part)
        (inside if forest.holds(view) else estimate.beyond).append(measured)
    estimate.take(inside)
