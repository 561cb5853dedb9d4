"""What a mechanism hands over at the end, and the number of rows that it begins from: public facts only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from factored_mwem.accounting.unit import Unit
from factored_mwem.mechanisms.shares import TOTAL_SHARE
from factored_mwem.model.estimation import estimate_total
from factored_mwem.model.forest import Forest
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement, Session


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
