"""Error law: a regression of the errors of earlier releases on public facts that are known before a release.

How far a release is from its table depends on how its columns depend on each other, which no public fact
shows. So this is experience, with a range, and not a promise.

For a mean L1 error e (0 to 2) of marginals, ln(-ln(1 - e / 2)) is modelled as a weighted sum of the
logarithms of public facts. It is about ln(e / 2) for small errors, and e cannot exceed 2. Fitted by `python
scripts/bench planning fit` to the releases that `planning run` made of parts of ten public tables (70 to
253,680 rows, 3 to 22 columns of 2 to 100 codes, epsilon .05 to 10, delta 1e-9 and 0): least squares in which
every table weighs the same. The range is such that nine in ten releases of a table left out of the fit fell
into it, half of them on either side of the prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Course = Literal["rounds", "once", "columns", "learnt"]
"""How a release goes: in rounds; all at once (small domains); single columns alone; under a learnt domain."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The public facts about a release that the law uses."""

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
        """The facts that the law for marginals of `order` multiplies by its constants."""
        if self.course == "once":
            alone = self.alone[min(order, len(self.alone)) - 1]
            return (1.0, math.log(max(alone, 1e-300)))
        facts = (1.0, math.log(self.scale), math.log(self.columns))
        return facts if self.course == "learnt" else (*facts, math.log(self.codes), float(self.pure))


@dataclass(frozen=True, slots=True)
class Law:
    """The constants of the facts, a range's half width, and how many releases and tables they rest on."""

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
    ("columns", 1): Law((-1.085, -0.870, 0.350, 0.892, 0.918), 0.423, 51, 7),
    ("learnt", 1): Law((-0.152, -0.886, 1.180), 1.997, 116, 10),
    ("learnt", 2): Law((1.352, -0.907, 1.038), 2.462, 97, 8),
    ("learnt", 3): Law((-1.512, -0.557, 1.263), 2.486, 48, 5),
    ("once", 1): Law((-1.424, 0.860), 0.804, 232, 7),
    ("once", 2): Law((-1.191, 0.897), 0.638, 187, 4),
    ("once", 3): Law((-0.880, 0.946), 0.608, 105, 4),
    ("rounds", 1): Law((-1.083, -0.770, 0.482, 0.659, 1.474), 0.431, 359, 7),
    ("rounds", 2): Law((-0.712, -0.631, 0.351, 0.745, 1.222), 0.581, 359, 7),
    ("rounds", 3): Law((-0.470, -0.557, 0.225, 0.895, 1.082), 0.687, 159, 7),
}


def expected_error(problem: Problem, order: int) -> ExpectedError:
    """The prediction of the law; it falls as `problem.scale` grows, and as `alone` falls."""
    law = LAWS[problem.course, order]
    middle = sum(c * fact for c, fact in zip(law.constants, problem.facts(order), strict=True))
    low, error, high = (_error(middle + side * law.width) for side in (-1, 0, 1))
    return ExpectedError(order, error, low, high)


def power_of(error: float) -> float:
    """ln(-ln(1 - error / 2)), the quantity that the law predicts; an error is at most 2, that of rows that
    share nothing with the table.
    """
    return math.log(-math.log1p(-min(max(error, 1e-6), 2 - 1e-4) / 2))


def _error(power: float) -> float:
    return -2 * math.expm1(-math.exp(min(power, 50.0)))
