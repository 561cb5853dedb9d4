"""Error law: how large the errors of releases have been, by what was known before them.

How far a release is from its table depends on how the columns hang together, which no public fact says: so
this is experience, with a range, and no promise.

For a mean L1 error e (0 to 2) of marginals, ln(-ln(1 - e / 2)) is a sum of the logarithms of public facts. It
is about ln(e / 2) where errors are small, and ends at 2. Fitted by `python scripts/bench planning fit` to the
releases that `planning run` made of parts of ten public tables (70 to 253,680 rows, 3 to 22 columns of 2 to
100 codes, epsilon .05 to 10, delta 1e-9 and 0): least squares in which every table weighs the same. A range
is what nine in ten of the releases of a table that the law was not fitted to fell into, by as much on either
side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Course = Literal["rounds", "once", "columns", "learnt"]
"""How a release goes: in rounds; all at once (small domains); single columns alone; under a learnt domain."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is known of a release before it."""

    course: Course
    scale: float
    """Rows over the noise of a measurement that takes all of the budget."""
    columns: int
    codes: float = 1.0
    """The geometric mean of the columns' numbers of codes; 1 where they are not known yet."""
    pure: bool = False
    alone: tuple[float, ...] = ()
    """At once: the errors that noise alone makes, by order."""

    def facts(self, order: int) -> tuple[float, ...]:
        """What the law of marginals of `order` multiplies with its constants."""
        if self.course == "once":
            alone = self.alone[min(order, len(self.alone)) - 1]
            return (1.0, math.log(max(alone, 1e-300)))
        facts = (1.0, math.log(self.scale), math.log(self.columns))
        return facts if self.course == "learnt" else (*facts, math.log(self.codes), float(self.pure))


@dataclass(frozen=True, slots=True)
class Law:
    """The constants of the facts, how far a range goes to either side, and how many releases and tables both
    rest on.
    """

    constants: tuple[float, ...]
    width: float
    releases: int
    tables: int


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The mean L1 error (0 to 2) of all marginals of `order` columns: of releases of tables like those of the
    law, half are expected above `error`, and nine in ten from `low` to `high`.
    """

    order: int
    error: float
    low: float
    high: float


LAWS: dict[tuple[Course, int], Law] = {
    ("columns", 1): Law((-1.695, -0.899, 0.611, 0.982, 1.114), 0.249, 29, 6),
    ("learnt", 1): Law((-1.488, -0.800, 1.316), 2.214, 66, 5),
    ("learnt", 2): Law((-1.343, -0.677, 1.298), 2.353, 57, 5),
    ("learnt", 3): Law((-2.450, -0.411, 1.098), 2.292, 27, 4),
    ("once", 1): Law((-1.504, 0.840), 0.948, 187, 6),
    ("once", 2): Law((-1.234, 0.887), 0.638, 153, 4),
    ("once", 3): Law((-0.938, 0.930), 0.576, 81, 4),
    ("rounds", 1): Law((-1.069, -0.769, 0.472, 0.659, 1.456), 0.452, 294, 7),
    ("rounds", 2): Law((-0.686, -0.629, 0.338, 0.746, 1.195), 0.611, 294, 7),
    ("rounds", 3): Law((-0.487, -0.557, 0.222, 0.899, 1.097), 0.709, 132, 7),
}


def expected_error(problem: Problem, order: int) -> ExpectedError:
    """What the law says; falls as `problem.scale` grows, and as `alone` falls."""
    law = LAWS[problem.course, order]
    middle = sum(c * fact for c, fact in zip(law.constants, problem.facts(order), strict=True))
    low, error, high = (_error(middle + side * law.width) for side in (-1, 0, 1))
    return ExpectedError(order, error, low, high)


def power_of(error: float) -> float:
    """What the law adds up, of an error; at most 2, by which rows that share nothing with a table are off."""
    return math.log(-math.log1p(-min(max(error, 1e-6), 2 - 1e-4) / 2))


def _error(power: float) -> float:
    return -2 * math.expm1(-math.exp(min(power, 50.0)))
