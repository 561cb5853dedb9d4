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
    for share in (SHARE, LITTLE):
        for most_attributes in (MAX_CORRECTED, 2):
            found = _finest(plan, levels, most_attributes, records, left * share)
            if not found:
                continue
            found = replace(found, candidates=_counted(found.views, plan.candidates, levels))
            if found.bytes <= plan.limits.memory / 2:  # the other half is for what rounds choose from
                return found
    return NO_SWEEP


def _finest(plan: Plan, levels: Levels, attributes: int, records: float, cost: Fraction) -> Sweep:
    """The largest marginals of a predicted error up to ERROR; none if they see too few of the pairs."""
    candidates, pairs = plan.candidates, int((plan.candidates.orders == 2).sum())
    which = np.flatnonzero((candidates.orders >= 2) & (candidates.orders <= attributes))
    if not len(which) or len(which) > MAX_VIEWS or not cost:
        return NO_SWEEP
    most = MAX_CELLS
    while most >= MIN_CELLS:
        found = dict.fromkeys(
            view for c in which.tolist() if (view := _coarse(levels, candidates.positions(c), most))
        )
        if sum(levels.cells(view) for view in found) > MAX_SWEPT:
            most //= 2
            continue
        if len({over for view in found for over in _pairs(view, levels)}) < MOST * pairs:
            break  # coarser levels see fewer still
        sweep = _priced(list(found), levels, records, cost, plan)
        if sweep and sweep.error <= ERROR:
            return sweep
        most //= 2
    return NO_SWEEP


def _coarse(levels: Levels, view: View, most: int) -> View | None:
    """The view at levels of at most `most` cells; None if that leaves an attribute no two codes."""
    found = levels.coarse_enough(view, most)
    return found if found and all(levels.sizes[v] > 1 for v in found) else None


def _priced(views: list[View], levels: Levels, records: float, cost: Fraction, plan: Plan) -> Sweep:
    """Parts of `cost` that make the summed error least: a marginal of c cells and part p errs by c / sqrt(p)
    under Gaussian noise, by c / p under Laplace noise.
    """
    if not views:
        return NO_SWEEP
    unit, composition = plan.policy.unit, plan.request.budget.composition
    power = 2 / 3 if composition is Composition.ZCDP else 1 / 2
    cells = np.array([levels.cells(view) for view in views], dtype=np.float64)
    weights = [Fraction(round(w * 64), 64) for w in (cells**power).tolist()]
    total = sum(weights)
    parts = [w / total for w in weights]
    mean_abs = {part: marginal_noise(cost * part, unit, composition).mean_abs for part in set(parts)}
    noise = [mean_abs[part] for part in parts]
    return Sweep(views, parts, cost, _pair_error(views, noise, levels) / records)


def _pair_error(views: Sequence[View], noise: Sequence[float], levels: Levels) -> float:
    """The mean over all pairs of attributes of the L1 error (records) that `noise` of each view's cells makes
    of the pair, as seen by all views that hold it.
    """
    found: dict[View, tuple[float, int]] = {}
    for view, each in zip(views, noise, strict=True):
        for over, pair in _pairs(view, levels).items():
            precision, most = found.get(over, (0.0, 0))
            cells = levels.cells(pair)
            found[over] = precision + cells / (levels.cells(view) * each**2), max(most, cells)
    return float(np.mean([cells / precision**0.5 for precision, cells in found.values()]))


def _pairs(view: View, levels: Levels) -> dict[View, View]:
    """The pairs of variables of a view, by the attributes they are of."""
    pairs = itertools.combinations(view, 2)
    return {tuple(levels.attribute[list(pair)].tolist()): pair for pair in pairs}


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
