"""Question: which statistic of which column, within which public bounds; checked before a row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, get_args

from factored_mwem.accounting.admissible import Shape
from factored_mwem.errors import InputError, shown
from factored_mwem.sessions.statistic.grid import Grid

What = Literal["count", "mean", "variance", "median", "quantile", "min", "max"]
EXPONENTIAL = "exponential"
"""The mechanism that chooses a value of the grid by its rank, instead of adding noise to a number."""
KINDS: tuple[str, ...] = get_args(What)
RANKED = ("median", "quantile", "min", "max")
"""Statistics that are a value of the table, and can be measured by smooth sensitivity."""
MOST_ROWS = 2**30
"""Most rows, as for sums (privacy/other/column.py); ranks are 64-bit integers."""


class QuestionOptions(TypedDict, total=False):
    """See Question; anybody's."""

    at: Any
    noise: Any
    rows: Any
    complete: Any


@dataclass(frozen=True, slots=True)
class Question:
    """`at`: the quantile's share, in (0, 1). `rows`: the number of rows with a value, where that is public.
    `complete`: whether every row counts as having a value (one that cannot be read as the lower bound).
    """

    column: str
    what: What
    grid: Grid
    at: float | None
    noise: Shape | Literal["exponential"] | None
    rows: int | None
    complete: bool

    @classmethod
    def of(
        cls, column: Any, what: Any, grid: Grid, delta: float, **more: Unpack[QuestionOptions]
    ) -> Question:
        """Raises InputError if the arguments do not fit together; by default `noise` follows from delta."""
        at, noise, rows = more.get("at"), more.get("noise"), more.get("rows")
        if what not in KINDS:
            raise InputError(f"what={shown(what)}: must be one of {', '.join(KINDS)}")
        if what == "median" and at is None:
            at = 0.5
        if (what in ("median", "quantile")) != (at is not None):
            need = "needs a share, such as 0.9 (--at)" if what == "quantile" else "takes no share (--at)"
            raise InputError(f"{what} {need}")
        if at is not None and not (isinstance(at, float | int) and 0 < at < 1):
            raise InputError(f"at={shown(at)}: the share of a quantile lies between 0 and 1; see min and max")
        if rows is not None and (type(rows) is not int or not 1 <= rows <= MOST_ROWS):
            raise InputError(f"rows={shown(rows)}: must be the public number of rows, 1 to {MOST_ROWS:,}")
        if rows is not None and what not in ("mean", "variance", "median", "quantile"):
            raise InputError(f"{what} does not use the number of rows; leave out rows (--rows)")
        shape = _noise(what, noise, delta)
        if shape == EXPONENTIAL and rows is not None:
            raise InputError("rows (--rows) is for noise=cauchy or laplace; leave it out")
        return cls(column, what, grid, at, shape, rows, bool(more.get("complete")))

    @property
    def needs_rows(self) -> bool:
        """Whether the number of rows with a value must be known, or measured."""
        ranked = self.what in ("median", "quantile") and isinstance(self.noise, Shape)
        return ranked or self.what in ("mean", "variance")

    def rank(self, rows: int) -> int:
        """The rank, from 1, of the quantile among so many values; of the median the lower one."""
        assert self.at is not None
        return max(1, math.ceil(self.at * max(rows, 1)))


def _noise(what: str, noise: Any, delta: float) -> Shape | Literal["exponential"] | None:
    if what not in RANKED:
        if noise is not None or delta:
            raise InputError(f"{what} has Laplace noise and needs no delta; leave out noise and delta")
        return None
    if noise == EXPONENTIAL or (noise is None and not delta and what in ("median", "quantile")):
        if what not in ("median", "quantile") or delta:
            raise InputError("noise=exponential is for medians and quantiles, and pure; leave out delta")
        return "exponential"
    shape = noise if noise is not None else (Shape.LAPLACE if delta else Shape.CAUCHY)
    if shape not in (Shape.CAUCHY, Shape.LAPLACE):
        raise InputError(
            f"noise={shown(noise)}: must be cauchy, which is pure, or laplace, which needs a delta"
        )
    if (shape == Shape.LAPLACE) != (delta > 0):
        need = "needs a delta, such as 1e-9" if shape == Shape.LAPLACE else "is pure; leave out delta"
        raise InputError(f"noise={shape}: {need}")
    return Shape(shape)
