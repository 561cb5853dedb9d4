"""Total: the number of rows, public or estimated from noisy counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from factored_mwem.accounting.unit import Unit
from factored_mwem.mechanisms.shares import TOTAL_SHARE
from factored_mwem.model.estimation import estimate_total
from factored_mwem.privacy.session import Measurement, Session


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """`records` with their standard error (0 where their number is public), and the measurements they
    come from.
    """

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
    """The number of rows before anything else is known, or from what is `measured` already. Cost: else
    TOTAL_SHARE of what is left, where it is private.
    """
    public = session.public_total
    if public is not None:
        return Total(max(1.0, float(public)), measured=tuple(measured))  # steps divide by it
    if measured:
        return Total.estimated(measured)
    return Total.estimated([session.measure(session.rows, (), cost=session.left * TOTAL_SHARE)])
