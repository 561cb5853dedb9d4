"""Glance: what noisy counts that cost hardly anything tell of a table before anything else is paid for:
whether it holds so little that there is nothing to learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from factored_mwem.accounting.accountant import Charge, Mechanism, scale_for
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.tables.codes.kinds import kind_of
from factored_mwem.tables.codes.profile import ColumnProfile

GLANCES = (Fraction(1, 400), Fraction(3, 400), Fraction(12, 400))
"""What the looks at all columns cost, of the whole budget. There is another as long as those before leave a
doubt about the cells; after one, two, three about .05, .1 and .2 of epsilon are spent.
"""
COUNT = 4
"""What a count of the rows alone costs, in parts of the first look: 1 % of the budget. One number instead of
four for each column, it says four times as much for its cost.
"""
OUT = 2.0
"""Standard deviations from which a kind of cells is taken to be there: of four, three may be noise."""
RARE = 0.75
"""Of a text so many times the rows that one needs to be found tell nothing: noise hides texts that all have
fewer, however many there are.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Glance:
    """`counts: float64[column, 4]`, the noisy `ColumnProfile.told` of each of `fields`, of `stddev` each:
    truth values, others of which something may be told, missing ones, and texts that few rows share.
    `counted`: the noisy number of rows and its standard deviation, where that was asked for alone.
    """

    fields: Sequence[pa.Field]
    counts: np.ndarray
    stddev: float
    counted: tuple[float, float] | None = None

    @property
    def rows(self) -> tuple[float, float]:
        """(how many there are, standard deviation), from all that says so."""
        number, stddev = (
            float(self.counts.sum()) / len(self.fields),
            self.stddev * (4 / len(self.fields)) ** 0.5,
        )
        if self.counted is None:
            return number, stddev
        values, precisions = zip((number, stddev**-2), (self.counted[0], self.counted[1] ** -2), strict=True)
        return float(np.average(values, weights=precisions)), sum(precisions) ** -0.5

    @property
    def missing(self) -> float:
        """The share of the cells that are missing."""
        return float(self.counts[:, 2].sum() / max(self.counts.sum(), 1.0))

    def among(self, kinds: int) -> tuple[np.ndarray, float]:
        """(float64[column]: the cells of the first `kinds` in each, their standard deviation)."""
        return self.counts[:, :kinds].sum(axis=1), self.stddev * kinds**0.5

    def mean_of(self, truths: float, others: float, rest: float, typed: Callable[[str], float]) -> float:
        """The mean over the columns of a number that is known of the kinds of cells, as the cells of text
        columns are together, if they stand OUT, and of other columns is `typed` by what they hold.
        """
        kinds = [kind_of(field) for field in self.fields]
        text = np.array([kind == "string" for kind in kinds])
        held, each = np.maximum(self.counts[text].sum(axis=0), 0.0), [truths, others, rest, rest]
        out = held > OUT * self.stddev * text.sum() ** 0.5
        held = np.where(out, held, 0.0) if out.any() else held
        mean = held @ each / held.sum() if held.any() else others
        return float(np.mean([mean if kind == "string" else typed(kind) for kind in kinds]))


def glances(
    session: Session,
    fields: Sequence[pa.Field],
    profiles: Sequence[Sealed],
    few: float,
    most: Fraction,
    told: Callable[[Glance], tuple[bool, bool]],
) -> Fraction:
    """Looks at the columns `fields` until it is `told` that they hold enough (or that raises): whether there
    are rows enough, for which they are counted once where there is a doubt, and that noise does not hide
    nearly all cells. `few`: how many rows a text needs to be found, at least. Cost: GLANCES of the budget and
    COUNT, the first at most `most` and the others in proportion; what the first costs is handed back.
    """
    first = session.accountant.budget.amount * min(GLANCES[0], most)
    total, precision, rare = np.zeros((len(fields), 4)), 0.0, int(few * RARE)
    counted: tuple[float, float] | None = None
    for times in (again / GLANCES[0] for again in GLANCES):
        cost = first * times / len(fields)
        looks = [
            glance(session, field.name, sealed, rare, cost)
            for field, sealed in zip(fields, profiles, strict=True)
        ]
        stddev = looks[0][1]
        total, precision = total + np.stack([noisy for noisy, _ in looks]) / stddev**2, precision + stddev**-2
        seen = Glance(fields, total / precision, precision**-0.5, counted)
        rows, cells = told(seen)
        if not rows and counted is None:
            counted = count_rows(session, fields[0].name, profiles[0], first * COUNT)
            _, cells = told(replace(seen, counted=counted))
        if cells:
            break
    return first


def count_rows(session: Session, name: str, sealed: Sealed, cost: Fraction) -> tuple[float, float]:
    """(the noisy number of rows, as a column says it; its standard deviation). It is a marginal of one cell:
    k rows of a person (or its grains) move it by k; L2 k (add-remove), at most sqrt(2) k (replace).
    """
    sensitivity = session.unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    charge = Charge("discover", Mechanism.GAUSSIAN, (name, "rows"), scale, sensitivity)
    column: ColumnProfile = session._unseal(sealed, charge)
    return float(session.noise.add(column.told(0).sum(keepdims=True), scale=scale)[0]), scale


def glance(
    session: Session, name: str, sealed: Sealed, rare: int, cost: Fraction
) -> tuple[np.ndarray, float]:
    """(int64[4], the noisy `told` of a column; their standard deviation). Up to `rare` rows hold a rare text.

    Of a text that c rows hold min(c, rare) count in one place and what is left in another; all that hold
    another value count in one place. So one row more adds 1 in one of four places: k rows of a person (or
    its grains) add a vector of no negative numbers whose sum is k. L2: k (add-remove), or sqrt(2) k
    (replace), for that is one such vector less another.
    """
    sensitivity = session.unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    charge = Charge("discover", Mechanism.GAUSSIAN, (name, "glance"), scale, sensitivity)
    column: ColumnProfile = session._unseal(sealed, charge)
    return session.noise.add(column.told(rare), scale=scale), scale
