"""Certify: the error of the released rows, measured afresh, with bounds that hold whatever made the rows.

The error of a marginal is E = |t / n - s / m|, the L1 distance of shares, from 0 to 2: t are the counts of
the private rows, n of them, s those of the released rows, m of them, both as codes of the domain. What is
measured is D = |t - (N / m) s| in grains (`privacy/distances.py` has the proof of its sensitivity), where N
is a noisy count of the rows that is made first; so the other table is public. As n E = |t - (n / m) s| and s
adds up to m,

    D - |n - N|  <=  n E  <=  D + |n - N|,

and with N - u <= n <= N + u and |D' - D| + |n - N| <= w, where D' is the noisy answer,

    (D' - w) / (N + u)  <=  E  <=  (D' + w) / (N - u);

of a mean of E over marginals the same holds with the mean of D. u and w hold but with a probability each, and
all of these add up to `failure`: so with the rest of the probability all bounds hold at once. Nothing is
assumed of the model, the rows or the data; the noise is new, and its distribution known.

The worst: a noisy maximum over D names a marginal, which then is measured. No D is more than x above its own
(`tails.winner_within`), but with a probability that counts, too: so the largest error of all lies between the
lower bound of the named one, and its upper bound with x on top. `estimate` is the named one's error, which
lies there as well.

Where each person weighs one, n, N, m, t and s count grains of people (`accounting/unit.py`), and a record is
one of these: so E is of shares of people. Released people weigh what private ones do.

What D is rounded by (half a grain a cell, one for a mean, floats) is added to w.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from factored_mwem.accounting.accountant import scale_for, selecting
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.errors import InputError, shown
from factored_mwem.mechanisms.tails import both_within, noise_within, winner_within
from factored_mwem.privacy.distances import (
    ColumnDistances,
    MeanDistance,
    OneDistance,
    PrivateErrors,
    Reference,
    sensitivity_of,
)
from factored_mwem.privacy.rows import SCORE_CUTOFF, SCORE_GRID
from factored_mwem.privacy.session import Eligible, Measurement, NoiseScale, Session, noise_for
from factored_mwem.request.policy import Criterion
from factored_mwem.workload.candidates import Candidates

CONFIDENCE = 0.95
"""All bounds of a certificate hold at once with this probability."""


@dataclass(frozen=True, slots=True, eq=False)
class Extent:
    """What is certified: the `candidates`, marginals of two attributes or more, maybe a sample; the columns
    `asked` for by themselves, by position; how many marginals of each order were asked for.
    """

    candidates: Candidates
    asked: tuple[int, ...]
    wanted: dict[int, int]

    @property
    def orders(self) -> list[int]:
        """The orders of the candidates."""
        return sorted({int(order) for order in np.unique(self.candidates.orders)})

    @property
    def columns(self) -> int:
        return len(self.candidates.domain)

    @property
    def complete(self) -> bool:
        """Whether all that was asked for is certified."""
        return len(self.candidates) + len(self.asked) == sum(self.wanted.values())


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """How often each cell comes in the released rows: `columns: int64[code]` of every column, and `tables:
    int64[all cells]` of the candidates one after the other. Public.
    """

    number: int
    columns: tuple[np.ndarray, ...]
    tables: np.ndarray


@dataclass(frozen=True, slots=True)
class Error:
    """An error that was measured; see CertifiedError of the manifest. `sets`: the marginals it is about."""

    what: Literal["mean", "column", "worst"]
    order: int
    attributes: tuple[int, ...]
    sets: int
    estimate: float
    stderr: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PartPrices:
    """What each part costs, in the budget's unit: the number of rows, all columns, the mean of each order
    from two on, and naming and measuring the worst. 0 for what is not asked.
    """

    total: Fraction
    columns: Fraction
    means: dict[int, Fraction]
    naming: Fraction
    worst: Fraction

    @classmethod
    def of(cls, cost: Fraction, extent: Extent, unit: Unit, composition: Composition) -> PartPrices:
        """Parts of `cost` that make the summed widths of the bounds about least: a part p makes a width of c
        / sqrt(p) with Gaussian noise, of c / p with Laplace noise. The number of rows is in every bound;
        noise on a column is sqrt(d), or d, times that on a mean.
        """
        orders, columns = extent.orders, extent.columns
        gaussian = composition is Composition.ZCDP
        power = 2 / 3 if gaussian else 1 / 2
        wide = math.sqrt(columns) if gaussian else float(columns)
        widths = {
            "total": 0.0 if unit.total_is_public else 2.0 + len(orders),
            "columns": 1.0 + wide,
            "naming": 1.0 if orders else 0.0,
            "worst": 1.0 if orders else 0.0,
            **dict.fromkeys(map(str, orders), 2.0),
        }
        parts = {name: Fraction(round(width**power * 1024), 1024) for name, width in widths.items()}
        part = {name: cost * weight / sum(parts.values()) for name, weight in parts.items()}
        return cls(
            part["total"], part["columns"], {k: part[str(k)] for k in orders}, part["naming"], part["worst"]
        )

    @property
    def parts(self) -> list[Fraction]:
        """All that are paid."""
        return [p for p in (self.total, self.columns, *self.means.values(), self.naming, self.worst) if p]


def extent_of(candidates: Candidates, most: float, order: Sequence[int] = ()) -> Extent:
    """All marginals asked for, where their cells are at most `most`; else as many as fit, in this `order`, a
    public permutation (none without one); none of more than an eighth of them.
    """
    larger, wanted = candidates.orders > 1, {}
    for k in np.unique(candidates.orders).tolist():
        wanted[int(k)] = int((candidates.orders == k).sum())
    kept = larger & (candidates.cells <= most / 8)
    if candidates.cells[kept].sum() > most:
        which = np.array([c for c in order if kept[c]], dtype=np.int64)
        fits = np.cumsum(candidates.cells[which]) <= most
        kept = np.zeros(len(candidates), dtype=bool)
        kept[which[fits]] = True
    asked = candidates.members[candidates.orders == 1, 0]
    return Extent(candidates.keep(kept), tuple(int(a) for a in asked), wanted)


@dataclass(frozen=True, slots=True)
class Widths:
    """About how far bounds are from errors: the mean of each order, a column, the worst (below, above)."""

    means: dict[int, float]
    column: float
    worst: tuple[float, float]


def widths_of(
    prices: PartPrices, extent: Extent, unit: Unit, composition: Composition, rows: float, failure: float
) -> Widths:
    """The widths for a table of about so many rows whose errors are small: public facts."""
    fail = failure / (len(prices.parts) + 1)

    total = _Total(rows)
    if prices.total:
        total = _Total(rows, noise_for(prices.total, unit.of_marginal(composition), composition))

    def within(cost: Fraction, fail: float, answers: int = 1, draws: int = 1) -> float:
        noise = noise_for(cost, sensitivity_of(answers, unit, composition), composition)
        return total.distance_within(noise, fail, draws) / rows

    columns, asked = extent.columns, len(extent.asked)
    means = {1: within(prices.columns, fail, columns, asked)} if asked else {}
    means |= {k: within(cost, fail) for k, cost in prices.means.items()}
    column = within(prices.columns, fail / columns, columns)
    if not prices.naming:
        return Widths(means, column, (column, column))
    grains = unit.l1_of_score * SCORE_GRID
    scale = scale_for(selecting(composition), prices.naming, sensitivity=grains)
    slack = winner_within(scale, fail, len(extent.candidates) + asked) / SCORE_GRID / rows
    worst = within(prices.worst, fail)
    return Widths(means, column, (worst, worst + slack))


def check_certificate(
    extent: Extent, criteria: Sequence[Criterion], cost: Fraction, unit: Unit, composition: Composition
) -> None:
    """Raises InputError for criteria of what is not certified, BudgetExceeded if it is worth nothing."""
    names, orders = extent.candidates.domain.names, {*extent.orders, *([1] if extent.asked else [])}
    for criterion in criteria:
        why = ""
        if not set(criterion.columns) <= set(names):
            why = "the release models no such column"
        elif criterion.what == "unique" and unit.grains:
            why = "of a release of people it says nothing: rows that are alike may be one person's"
        elif criterion.what == "mean" and criterion.order not in extent.wanted:
            why = f"no marginals of {criterion.order} columns are asked for"
        elif criterion.what == "mean" and criterion.order not in orders:
            why = "those marginals are too large to be counted"
        if why:
            raise InputError(f"--accept {shown(criterion.text)}: {why}")
    for part in PartPrices.of(cost, extent, unit, composition).parts:
        noise_for(part, unit.of_marginal(composition), composition)


def certify(session: Session, extent: Extent, rows: Released, failure: float) -> list[Error]:
    """The errors of `rows`, for all that is left. All bounds hold at once but with probability `failure`."""
    prices = PartPrices.of(session.left, extent, session.unit, session.composition)
    fail = failure / (len(prices.parts) + 1)  # the mean of the columns has bounds of its own
    total = _total(session, prices.total, fail)
    reference = _reference(extent, rows, total.records)
    errors = PrivateErrors.of(session.rows, reference)
    bounds = _Bounds(extent, total, fail)
    noisy = session.measure(errors, ColumnDistances(), cost=prices.columns, stage="certify")
    means = [
        bounds.mean(k, session.measure(errors, MeanDistance(k), cost=cost, stage="certify"))
        for k, cost in prices.means.items()
    ]
    columns = list(bounds.columns(noisy))
    first = [bounds.mean_column(noisy)] if extent.asked else []
    if not means:
        return [*first, *columns, _worst_column(columns, extent)]
    number, slack = _named(session, errors, extent, prices.naming, fail)
    measured = session.measure(errors, OneDistance(number), cost=prices.worst, stage="certify")
    return [*first, *means, *columns, bounds.worst(number, slack, measured)]


def _named(
    session: Session, errors: PrivateErrors, extent: Extent, cost: Fraction, fail: float
) -> tuple[int, float]:
    """(the marginal of the largest distance by noisy maximum, how many grains others may be above it)."""
    count = len(extent.candidates) + len(extent.asked)
    eligible = Eligible(np.arange(count), np.zeros(count))
    number = session.select(errors, None, eligible, cost=cost, stage="certify")
    return number, winner_within(session.accountant.entries[-1].scale, fail, count)


@dataclass(frozen=True, slots=True)
class _Total:
    """The number of `records`, the noise on it (None: public), how far off it may be, what was cut off."""

    records: float
    noise: NoiseScale | None = None
    off: float = 0.0
    cut: float = 0.0

    def distance_within(self, grains: NoiseScale, fail: float, draws: int = 1) -> float:
        """Records that a noisy distance, or the mean of `draws`, is away from n E at most, but with
        probability `fail`: by its own noise, and as the number of rows is not known exactly.
        """
        if self.noise is None:
            return noise_within(grains, fail, draws) / SCORE_GRID
        records = NoiseScale(grains.value / SCORE_GRID, grains.composition)
        return both_within(records, draws, self.noise, fail) + self.cut


def _total(session: Session, cost: Fraction, fail: float) -> _Total:
    if (public := session.public_total) is not None:
        return _Total(float(public))
    counted = session.measure(session.rows, (), cost=cost, stage="certify")
    noisy = float(counted.noisy[0])
    # to put it above 0 brings it nearer to the truth, to cut it off may not
    records = min(max(noisy, 0.0), SCORE_CUTOFF)
    cut = max(noisy - records, 0.0)
    return _Total(records, counted.scale, noise_within(counted.scale, fail) + cut, cut)


def _reference(extent: Extent, rows: Released, records: float) -> Reference:
    """The released rows' tables, in grains, as if there were so many records."""
    scale = records * SCORE_GRID / max(rows.number, 1)
    columns, tables = (
        [np.rint(t * scale).astype(np.int64) for t in part] for part in (rows.columns, [rows.tables])
    )
    return Reference(extent.candidates, tuple(columns), tables[0], extent.asked)


@dataclass(frozen=True, slots=True)
class _Distance:
    """A `noisy` distance and its noise's `stddev`, in grains; in records how far off it is at most, `within`,
    and how far `above` it another may be that stands behind it.
    """

    noisy: float
    stddev: float
    within: float
    above: float = 0.0


class _Bounds:
    """Noisy distances to errors with bounds, each kind of which fails with probability `fail`."""

    def __init__(self, extent: Extent, total: _Total, fail: float) -> None:
        self._extent, self._total, self._fail = extent, total, fail
        self._floats = total.records * 2.0**-50

    def columns(self, measured: Measurement) -> Iterator[Error]:
        """The error of each column."""
        within = self._total.distance_within(measured.scale, self._fail / len(measured.noisy))
        for a, (noisy, size) in enumerate(
            zip(measured.noisy, self._extent.candidates.domain.shape, strict=True)
        ):
            distance = _Distance(float(noisy), measured.stddev, within + _rounding(size))
            yield self._error("column", (a,), distance)

    def mean_column(self, measured: Measurement) -> Error:
        """The mean over the columns asked for, from the same noisy answers."""
        asked, shape = list(self._extent.asked), self._extent.candidates.domain.shape
        within = self._total.distance_within(measured.scale, self._fail, len(asked))
        stddev = measured.stddev / math.sqrt(len(asked))
        slack = within + _rounding(float(np.mean([shape[a] for a in asked])))
        distance = _Distance(float(measured.noisy[asked].mean()), stddev, slack)
        return self._error("mean", (), distance, sets=len(asked))

    def mean(self, order: int, measured: Measurement) -> Error:
        """The mean over the candidates of an order."""
        cells = self._extent.candidates.cells[self._extent.candidates.orders == order]
        within = self._total.distance_within(measured.scale, self._fail) + _rounding(cells.mean() + 2)
        distance = _Distance(float(measured.noisy[0]), measured.stddev, within)
        return self._error("mean", (), distance, order, len(cells))

    def worst(self, number: int, slack: float, measured: Measurement) -> Error:
        """The largest of all errors, that of the marginal named; none is `slack` grains above it."""
        candidates, at = self._extent.candidates, number - len(self._extent.candidates)
        positions = (self._extent.asked[at],) if at >= 0 else candidates.positions(number)
        cells = float(max(candidates.cells.max(), *candidates.domain.shape))
        within = self._total.distance_within(measured.scale, self._fail) + _rounding(cells)
        sets = len(candidates) + len(self._extent.asked)
        above = slack / SCORE_GRID + _rounding(cells)
        distance = _Distance(float(measured.noisy[0]), measured.stddev, within, above)
        return self._error("worst", positions, distance, len(positions), sets)

    def _error(
        self,
        what: Literal["mean", "column", "worst"],
        attributes: tuple[int, ...],
        measured: _Distance,
        order: int = 1,
        sets: int = 1,
    ) -> Error:
        # no distance is below 0, so a noisy one that is, is brought nearer to the truth
        total, distance = self._total, max(measured.noisy, 0.0) / SCORE_GRID
        slack = measured.within + self._floats
        least, most = total.records - total.off, total.records + total.off
        low = min(max((distance - slack) / most, 0.0), 2.0) if most > 0 else 0.0
        high = min(max((distance + measured.above + slack) / least, low), 2.0) if least > 0 else 2.0
        records = max(total.records, 1.0)
        estimate = min(max(distance / records, low), high)
        counted = total.noise.stddev if total.noise is not None else 0.0
        stderr = math.hypot(measured.stddev / SCORE_GRID, (1 + estimate) * counted) / records
        return Error(what, order, attributes, sets, estimate, stderr, low, high)


def _rounding(cells: float) -> float:
    """Records by which a distance over so many cells may be off for its grains."""
    return cells / 2 / SCORE_GRID


def _worst_column(columns: Sequence[Error], extent: Extent) -> Error:
    """The worst where only single columns are asked for: their bounds hold together."""
    asked = [columns[a] for a in extent.asked] or list(columns)
    named = max(asked, key=lambda e: e.estimate)
    low, high = max(e.low for e in asked), max(e.high for e in asked)
    estimate = min(max(named.estimate, low), high)
    return Error("worst", 1, named.attributes, len(asked), estimate, named.stderr, low, high)
