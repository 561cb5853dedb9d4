"""discover: a domain learnt from the private table inside the budget, where nobody declared one.

Per column: a noisy vote on its kind and on nulls, then bounds by private quantiles over public grids, or
categories by thresholded counts. Every reading is charged first; the threshold's delta is charged too. One
pass over the rows serves all of them.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from factored_mwem.accounting.accountant import Charge, Mechanism, scale_for
from factored_mwem.accounting.conversion import threshold_delta
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.privacy.counts import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.tables.profile import (
    COARSE,
    GRIDS,
    KINDS,
    NARROWER,
    ColumnProfile,
    bounds_of_type,
    kind_of,
    most_whole,
    profile,
)
from factored_mwem.tables.source import Table

OTHER = "other"
WIDEST = 2.0**62 - 2.0**10
"""Integers of a domain lie within 2^62; a grid point of the quantiles may lie beyond."""
UNSEEN = "bounds could not be learnt: too few rows for this budget"
"""Description of an attribute whose bounds are a guess; a warning of the release repeats it."""
BINS = 32
VOTE_SHARE = Fraction(1, 4)
"""Share of a column's budget for its vote; the rest pays for its bounds or categories."""
TOLERANCE = 0.05
"""A column is of a kind when at most this share of its values is of no narrower or equal kind."""
CLEAR = 4.0
"""Standard deviations of noise from which missing values, or numbers that are codes, are believed: noise
alone gets there once in 30,000 columns.
"""
CLEAR_BUCKET = 5.5
"""The same for a bucket of values: of some 440 noise alone must lift none, once in 100,000 columns, for one
alone makes the bounds useless.
"""
PER_MILLE = 1000


def discover(session: Session, table: Table, columns: Sequence[str] | None, *, share: Fraction) -> Domain:
    """A domain for `columns` of the private `table`, at a cost of `share` of the whole budget and of the
    delta kept for it.

    Sensitivities, k rows a person: vote and thresholded counts L2 k (add-remove) or sqrt(2) k (replace); a
    quantile's score moves by at most k PER_MILLE under either relation. Sources: Smith 2011 (quantiles);
    Rogers 2023 (unknown domains). InputError where delta is 0.
    """
    if session.accountant.budget.delta == 0:
        raise InputError(
            "no domain is declared and --delta is 0: categories can only be learnt with delta > 0; write one "
            "with `fmwem domain draft`"
        )
    names = [name for name in table.schema.names if columns is None or name in columns]
    for name in columns or ():
        table.check_column(name)
    if not names:
        raise InputError("no columns are left to release; name at least one with --columns")
    profiles = {name: Sealed(found) for name, found in profile(table, names).items()}
    cost = session.accountant.budget.amount * share / len(names)
    delta = session.accountant.budget.discovery_delta / len(names)
    return Domain(_attribute(name, profiles[name], table, cost, delta, session) for name in names)


def _attribute(
    name: str, sealed: Sealed, table: Table, cost: Fraction, delta: Fraction, session: Session
) -> Attribute:
    field = table.schema.field(name)
    votes, stddev = _votes(name, sealed, cost * VOTE_SHARE, session)
    kind = _kind(votes, stddev) if table.text else kind_of(field)
    if kind == "number" and _kind(votes, stddev) == "integer":
        kind = "integer"
    nullable = bool(votes[0] > CLEAR * stddev) if table.text or field.nullable else False
    rest = cost * (1 - VOTE_SHARE)
    facts: dict[str, Any] = {"name": name, "type": kind, "learnt": True}
    if kind == "string":
        values = _categories(name, sealed, rest, delta, session)
        return Attribute.model_validate(
            {**facts, "categories": values, "other": OTHER, "constraints": {"required": not nullable}}
        )
    if kind == "boolean":
        return Attribute.model_validate({**facts, "constraints": {"required": not nullable}})
    lower, upper, seen = _bounds(name, kind, sealed, rest, max(votes[1:].sum(), 1.0), session)
    if not seen:
        facts["description"] = UNSEEN
    least, most = (-math.inf, math.inf) if table.text else bounds_of_type(field)
    if kind == "integer":
        least, most = math.ceil(max(least, -WIDEST)), math.floor(min(most, WIDEST))
        if most <= least or max(-lower, upper) > (
            math.inf if table.text else most_whole(field)
        ):  # fractions alone, or floats of fewer digits
            kind = facts["type"] = "number"
            least, most = bounds_of_type(field)
    lower, upper = _within(lower, upper, least, most)
    return Attribute.model_validate(
        {**facts, "edges": edges_for(kind, lower, upper), "constraints": {"required": not nullable}}
    )


def _votes(name: str, sealed: Sealed, cost: Fraction, session: Session) -> tuple[np.ndarray, float]:
    """(noisy votes: float64[kind], their standard deviation). A row votes once, so the votes are a marginal
    like any other.
    """
    sensitivity = session.unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    column: ColumnProfile = session._unseal(
        sealed, Charge("discover", Mechanism.GAUSSIAN, (name, "kind"), scale, sensitivity)
    )
    return session.noise.add(column.votes, scale=scale).astype(np.float64), scale


def _kind(votes: np.ndarray, stddev: float) -> str:
    """The narrowest kind that covers nearly all of the noisy votes; text where they say nothing."""
    count = dict(zip(KINDS, np.where(votes > 2 * stddev, votes, 0.0), strict=True))
    present = sum(count.values()) - count["null"]
    if present <= 0 or votes[KINDS.index("code")] > CLEAR * stddev:
        return "string"
    for kind, narrower in NARROWER.items():
        if sum(count[k] for k in narrower) >= (1 - TOLERANCE) * present:
            return kind
    return "string"


def _bounds(
    name: str, kind: str, sealed: Sealed, cost: Fraction, present: float, session: Session
) -> tuple[float, float, bool]:
    """A lower and an upper bound among public grid points: a third of `cost` for the magnitude, a third for
    each quantile.

    A quantile's score cannot tell the points beyond the data apart, so the quantiles are looked for only
    where a noisy histogram saw values.
    """
    grid = "number" if kind in ("integer", "number") else "month"
    lowest, highest, seen = _magnitude(name, grid, sealed, cost / 3, session)
    if kind == "integer":
        lowest, highest = math.floor(lowest), math.ceil(highest)
    inside = np.flatnonzero((GRIDS[grid] >= lowest) & (GRIDS[grid] <= highest))
    if kind == "integer":
        inside = inside[GRIDS[grid][inside] % 1 == 0]
    sensitivity = (
        session.unit.of_counting_query * PER_MILLE
    )  # a row adds between -quantile and PER_MILLE - quantile to a score
    scale = scale_for(Mechanism.EXPONENTIAL, cost / 3, sensitivity=sensitivity)
    rank = min(max(math.ceil((math.log(len(inside)) + 2) * scale / present), 2), PER_MILLE // 20)
    picked = []
    for side, quantile in (("lower", rank), ("upper", PER_MILLE - rank)):
        column: ColumnProfile = session._unseal(
            sealed, Charge("discover", Mechanism.EXPONENTIAL, (name, side), scale, sensitivity)
        )
        lower, higher = column.lower_and_higher(grid)
        scores = -np.abs((PER_MILLE - quantile) * lower - quantile * higher)[inside]
        picked.append(float(GRIDS[grid][inside[session.noise.select(scores, scale=scale)]]))
    lower_bound, upper_bound = min(picked), max(picked)
    if lower_bound == upper_bound:
        upper_bound = float(
            GRIDS[grid][min(int(np.searchsorted(GRIDS[grid], upper_bound)) + 1, len(GRIDS[grid]) - 1)]
        )
    return lower_bound, upper_bound, seen


def _within(lower: float, upper: float, least: float, most: float) -> tuple[float, float]:
    """The bounds moved to what the column's type can hold: a quantile of noisy counts may land beyond."""
    lower, upper = min(max(lower, least), most), max(min(upper, most), least)
    return (lower, upper) if lower < upper else (lower - 1, upper) if lower >= most else (lower, lower + 1)


def _magnitude(
    name: str, grid: str, sealed: Sealed, cost: Fraction, session: Session
) -> tuple[float, float, bool]:
    """The coarse grid points around all buckets whose noisy count stands out, and whether any does; else (0,
    1) or the like.
    """
    points = COARSE[grid]
    sensitivity = session.unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    column: ColumnProfile = session._unseal(
        sealed, Charge("discover", Mechanism.GAUSSIAN, (name, "magnitude"), scale, sensitivity)
    )
    lower, _ = column.lower_and_higher(grid)
    buckets = np.diff(lower[np.searchsorted(GRIDS[grid], points)])
    seen = np.flatnonzero(session.noise.add(buckets, scale=scale) > CLEAR_BUCKET * scale)
    if not len(seen):
        middle = int(np.searchsorted(points, 0.0))
        end = np.searchsorted(points, 1.0) if grid == "number" else middle + 10
        return float(points[middle]), float(points[end]), False
    return float(points[seen[0]]), float(points[seen[-1] + 1]), True


def _categories(name: str, sealed: Sealed, cost: Fraction, delta: Fraction, session: Session) -> list[str]:
    """Every text value whose noisy count passes the threshold, and `other` for the rest."""
    unit = session.unit
    sensitivity = unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.THRESHOLD, cost, sensitivity=sensitivity)
    threshold, charged = threshold_for(scale, delta, l0=unit.l0_of_marginal, linf=unit.linf_of_marginal)
    column: ColumnProfile = session._unseal(
        sealed, Charge("discover", Mechanism.THRESHOLD, (name, "categories"), scale, sensitivity, charged)
    )
    kept = session.noise.threshold(dict(column.texts), scale=scale, threshold=threshold)
    return [*sorted(set(kept) - {OTHER}), OTHER]  # just [OTHER] is reported as a warning, too


def threshold_for(scale: float, delta: Fraction, *, l0: int, linf: int) -> tuple[int, Fraction]:
    """The least threshold whose delta is at most `delta`; and that delta."""
    low, high = linf, math.ceil(linf + 2 + scale * (math.sqrt(2 * math.log(l0 / float(delta))) + 2))
    while high - low > 1:
        middle = (low + high) // 2
        ok = threshold_delta(scale=scale, threshold=middle, l0=l0, linf=linf) <= delta
        low, high = (low, middle) if ok else (middle, high)
    return high, Fraction(threshold_delta(scale=scale, threshold=high, l0=l0, linf=linf))


def edges_for(kind: str, lower: float, upper: float) -> list[Any]:
    """Edges of BINS equal bins between the bounds; zero, the commonest special value, gets a bin of its
    own.
    """
    if kind in ("date", "datetime"):
        days = np.linspace(lower, upper, min(BINS, int(upper - lower)) + 1)
        start = datetime.datetime(1970, 1, 1)
        moments = [start + datetime.timedelta(days=float(d)) for d in days]
        return [m.date().isoformat() if kind == "date" else m.isoformat() for m in moments]
    if kind == "integer":
        low, high = math.floor(lower), max(math.ceil(upper), math.floor(lower) + 1)
        cuts = {low + (high + 1 - low) * i // BINS for i in range(BINS)}
        # The last edge is inclusive: naming `high` twice gives the last bin its end and, where bins are
        # single values, `high` its own.
        return [*sorted(cuts | ({0, 1} if low <= 0 < high else set())), high]
    cuts = set(np.linspace(lower, upper, BINS + 1).tolist())
    return sorted(cuts | ({0.0, 5e-324} if lower <= 0 < upper else set()))
