"""What a mechanism hands over at the end, and the number of rows that it begins from: public facts only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.attribute import Attribute
from factored_mwem.mechanisms.shares import TOTAL_SHARE
from factored_mwem.model.estimation import estimate_total
from factored_mwem.model.forest import Forest
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement, NoiseScale, Session
from factored_mwem.request.request import ToldColumn
from factored_mwem.tables.codes.codec import encode

UPPER = 1.96
"""Standard deviations of noise that a count lies below its bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """`records`, their standard error (0: public), and the measurements they come from."""

    records: float
    stderr: float = 0.0
    measured: tuple[Measurement, ...] = ()

    @classmethod
    def estimated(cls, measured: Sequence[Measurement]) -> Total:
        return cls(*estimate_total(measured), tuple(measured))

    @classmethod
    def assumed(cls, records: float, unit: Unit) -> Total:
        """A guess for a plan; exact where the number of rows will be public."""
        return cls(records, 0.0 if unit.total_is_public else math.inf)

    @property
    def known(self) -> bool:
        return self.stderr == 0


def first_total(session: Session, measured: Sequence[Measurement] = ()) -> Total:
    """The number of rows, first of all, or of what is `measured`. Cost: else TOTAL_SHARE, where private."""
    public = session.public_total
    if public is not None:
        return Total(max(1.0, float(public)), measured=tuple(measured))  # steps divide by it
    if measured:
        return Total.estimated(measured)
    return Total.estimated([session.measure(session.rows, (), cost=session.left * TOTAL_SHARE)])


def told_marginal(told: ToldColumn, attribute: Attribute, position: int, records: float) -> Measurement:
    """What a column's marginal over so many records is said to be, as if it had been measured: free, for it
    follows from what was released before. Its error is that of noise, and of the cells that were drawn.
    """
    counts = np.bincount(encode(attribute, told.cells), told.weights, attribute.size)
    mass = float(counts.sum())
    drawn = mass**2 / max(float((told.weights**2).sum()), 1e-300)
    error = math.hypot(told.stddev, 1 / math.sqrt(max(attribute.size * drawn, 1.0)))
    shares = counts / mass if mass > 0 else np.full(attribute.size, 1 / attribute.size)
    noisy = np.rint(shares * records).astype(np.int64)
    return Measurement((position,), noisy, NoiseScale(max(error * records, 1.0), Composition.ZCDP))


@dataclass(frozen=True, slots=True)
class Answered:
    """A question that was measured, in words; how many answers it has, and the scale of their noise."""

    question: str
    answers: int
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The fitted model, and what it is made from: marginals, residuals at once, or questions of other kinds.

    `notes`: what a reader should know of the plan, from public facts.
    """

    model: Forest
    measurements: list[Measurement]
    rounds: int
    total: Total
    residuals: Sequence[Residuals] = ()
    notes: tuple[str, ...] = ()
    questions: tuple[Answered, ...] = ()
