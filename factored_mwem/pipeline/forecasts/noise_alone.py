"""Noise alone: the errors that noise makes in the marginals of a small domain that is measured at once, at
any budget; public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.mechanisms.residuals import predicted_errors
from factored_mwem.mechanisms.shares import signal
from factored_mwem.workload.candidates import Candidates

STEPS = 10
"""Powers of two of the scale that are computed; beyond them nothing that matters is too noisy."""


def scale_of(budget: Budget, unit: Unit, rows: int) -> float:
    """Rows over the noise of a marginal that takes all of the budget, under any relation of neighbours."""
    if budget.composition is Composition.PURE:
        return signal(budget, rows) / unit.l1_of_marginal
    return signal(budget, rows) / math.sqrt(unit.l2_squared_of_marginal)


@dataclass(frozen=True, slots=True)
class NoiseAlone:
    """The errors by order that noise alone makes if everything is measured at once, for every scale of a
    problem. Residuals that would be too noisy are not measured, so at some steps a larger scale gives larger
    errors. To make the law fall with the budget, each error is replaced by the largest at any larger scale.
    """

    candidates: Candidates
    budget: Budget
    unit: Unit
    errors_at: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """At scales of powers of two."""

    def at(self, scale: float) -> tuple[float, ...]:
        """Interpolated between the neighbouring powers of two, linearly in logarithms."""
        below, part = divmod(math.log2(scale), 1)
        low, high = (self._worst(int(below) + i) for i in (0, 1))
        return tuple(
            math.exp((1 - part) * math.log(a) + part * math.log(b)) for a, b in zip(low, high, strict=True)
        )

    def _worst(self, power: int) -> tuple[float, ...]:
        return tuple(map(max, *(self._errors(power + i) for i in range(STEPS))))

    def _errors(self, power: int) -> tuple[float, ...]:
        if power not in self.errors_at:
            rows = 2.0**power / scale_of(self.budget, self.unit, 1)
            self.errors_at[power] = predicted_errors(self.candidates, self.budget, self.unit, rows)
        return self.errors_at[power]
