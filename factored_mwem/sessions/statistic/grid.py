"""Grid: where the values of a column may lie, in public steps between public bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from factored_mwem.errors import InputError
from factored_mwem.privacy.other.column import GRAINS, MOST_CELLS
from factored_mwem.request.table import PrivateTable
from factored_mwem.tables.codes.parsing import is_number, is_text, value_type


@dataclass(frozen=True, slots=True)
class Grid:
    """`cells` values `lower`, `lower + step`, ..., `upper`; others are rounded to the nearest."""

    lower: float
    upper: float
    cells: int

    @classmethod
    def of(cls, lower: Any, upper: Any, step: float | None = None) -> Grid:
        """Without a `step` as fine as possible, because the noise depends on the bounds alone; between whole
        bounds the step is a power of 1/2, so that whole numbers are values of the grid. Raises InputError if
        the numbers make no grid.
        """
        numbers = (lower, upper) if step is None else (lower, upper, step)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) < 1e15:
                raise InputError(
                    "lower, upper and grid must be numbers below 1e15, such as lower=0, upper=120"
                )
        lower, upper = float(lower), float(upper)
        span = upper - lower
        if not span > 0:
            raise InputError(f"lower={lower:g} must be less than upper={upper:g}")
        if step is None:
            most = MOST_CELLS - 1
            if not (lower.is_integer() and upper.is_integer() and span <= most):
                return cls(lower, upper, MOST_CELLS)
            halvings = (most // int(span)).bit_length() - 1
            return cls(lower, upper, (int(span) << halvings) + 1)
        steps = round(span / step) if 0 < step <= span else 0
        if steps < 1 or not math.isclose(steps * step, span, rel_tol=1e-9):
            raise InputError(f"grid={step:g} does not divide upper - lower = {span:g}; choose one that does")
        if steps >= MOST_CELLS:
            raise InputError(f"grid={step:g} makes {steps + 1:,} values; at most {MOST_CELLS:,} are allowed")
        return cls(lower, upper, steps + 1)

    @property
    def step(self) -> float:
        return (self.upper - self.lower) / (self.cells - 1)

    @property
    def top(self) -> int:
        """The upper bound in units of noise."""
        return (self.cells - 1) * GRAINS

    def at(self, units: int) -> float:
        """The value of the grid nearest to this many units of noise above the lower bound."""
        cell = (2 * min(max(units, 0), self.top) + GRAINS) // (2 * GRAINS)
        return min(self.lower + cell * self.step, self.upper)

    def field(self, name: str, *, required: bool) -> dict[str, Any]:
        """The column as a domain describes it: a bin around each value."""
        half = self.step / 2
        ends = {"minimum": self.lower - half, "maximum": self.upper + half, "required": required}
        return {"name": name, "type": "number", "constraints": ends, "bins": self.cells}


def check_numbers(request: PrivateTable, column: str) -> None:
    """Raises InputError for a column that is missing or holds no numbers, by names and types alone."""
    request.private.check_column(column)
    kind = value_type(request.private.schema.field(column).type)
    if not (is_number(kind) or is_text(kind)):
        raise InputError(f"column {column!r} is {kind}; statistics are of numbers, or of numbers in text")
