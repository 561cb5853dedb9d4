"""FoundColumn: what is known of a column that nobody described, all of it public."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import MAX_NUMBER, WIDEST
from factored_mwem.domain.coarse_grids import MICROS_A_DAY, YEARS
from factored_mwem.domain.conditions import STEPS
from factored_mwem.domain.public_lists import ListedValues
from factored_mwem.domain.singles import SingleCells, Singles
from factored_mwem.tables.codes.kinds import (
    MOMENTS,
    NUMBERS,
    bounds_of_type,
    kind_of,
    most_whole,
    tick_of,
)
from factored_mwem.tables.codes.notation import CLOCKS, MOST_AMOUNT, is_amount
from factored_mwem.tables.codes.parsing import is_text, value_type
from factored_mwem.tables.codes.rest import CLAIM, LEAST_CLAIM, Known

FLAGS = 8
"""Popular values of a column at most that may be all there is: flags, ratings, classes."""
YEARS_OF_TWO_DIGITS = -365, 36_160
"""Days since 1970: 1969-01-01, and 2069-01-01, which is beyond."""
LEFT, HIDDEN = 2.0, 1 / 20
"""Deviations of noise below which what is left beside them may be nothing, and how large a part of the
column's numbers these may be.
"""


@dataclass(frozen=True, slots=True, eq=False)
class FoundColumn:
    """What is known of a column, all of it public: names and types, and noisy answers.

    `type`: of its numbers or moments, or "string" or "boolean". `zeros`: how many of them most whole numbers
    have behind a point. `format`: how its dates are written, if not by ISO 8601. `rows`, `present`,
    `numbers`: noisy counts of the table's rows, of this column's values that are not null, and of those that
    are numbers or moments. `vote_stddev`: of the noise of each of the votes that these are from.
    `values`, `texts`: noisy counts of its popular numbers or moments (by unit) and of other popular texts, of
    standard deviation `stddev`, each of at least `threshold`; of those in `rare` the counts are too low, for
    they were found by what rows that hold other rare values gave them. `enough`: a value that more rows hold
    was found, but for a chance of noise, whatever else they hold. `listed`: the public list that the values
    are from, if they are; of those rarer ones were looked for. `cells`: single values that were counted;
    `single_counts`: float64[single], those, with noise of `single_stddev`, None where only the step of the
    cells is believed; `singles`: those that are there, where not about all are; `few`: whether hardly any
    others are. `coarse`: noisy counts of what is left over
    the coarse grid, of `coarse_stddev`. `edges`, `noisy`: finer cells and their noisy counts, of
    `cell_stddev`; none if nothing stands out. `multiple_of`: what nearly all of what is left of whole numbers
    is rounded to. `mixed`: whether the votes say that there are texts beside the numbers or moments of a
    column of text, found or not. `looks`: what most values of a column of text look like, one of LOOKS, or
    "untold" where so few are there that noise hides of what kind they are, or "rare" where noisy counts tell
    that hardly any are shared by many rows. `rounded`: the noisy count of rows
    that hold decimals in a column of whole numbers, too few to be told for sure from its noise of
    `rounded_stddev`, which is 0 where it was not counted; 0 where it may well be noise alone.
    """

    column: pa.Field
    type: str
    rows: float
    present: float
    decimals: int | None = None
    zeros: int = 0
    resolution: str | None = None
    zone: str | None = None
    format: str | None = None
    values: dict[float, int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    stddev: float = 0.0
    threshold: int = 0
    rare: frozenset[float | str] = frozenset()
    enough: float = math.inf
    listed: ListedValues | None = None
    coarse: np.ndarray | None = None
    coarse_stddev: float = 0.0
    edges: np.ndarray | None = None
    noisy: np.ndarray | None = None
    cell_stddev: float = 0.0
    cells: SingleCells | None = None
    single_counts: np.ndarray | None = None
    single_stddev: float = 0.0
    singles: Singles | None = None
    few: bool = False
    multiple_of: int = 1
    numbers: float = 0.0
    vote_stddev: float = 0.0
    mixed: bool = False
    looks: str = ""
    rounded: float = 0.0
    rounded_stddev: float = 0.0

    @property
    def unit(self) -> str:
        """In what values and edges are counted: "number" as they are, or whole numbers of something:
        "integer" (of 10^-decimals), "date" (days), "datetime" (microseconds).
        """
        return "integer" if self.type == "number" and self.decimals is not None else self.type

    @property
    def scale(self) -> float:
        """How many whole numbers make 1."""
        return 10.0 ** (self.decimals or 0)

    @property
    def tick(self) -> int:
        """How many whole numbers lie from one value that the column's type, or format, can hold to the next
        one.
        """
        if self.type != "datetime":
            return 1
        return STEPS[self.resolution] if self.format and self.resolution else tick_of(self.column.type)

    @property
    def step(self) -> int:
        """The same from one value that nearly all are multiples of to the next."""
        return max(STEPS.get(self.resolution or "", 1), self.tick, self.multiple_of)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest unit that the column can hold, from its type and format alone."""
        if self.unit in MOMENTS:
            scale = 1 if self.unit == "date" else MICROS_A_DAY
            first, last = bounds_of_type(self.column)  # in microseconds, where it has any
            years = YEARS_OF_TWO_DIGITS if "%y" in (self.format or "") else (int(YEARS[0]), int(YEARS[-1]))
            apart = MICROS_A_DAY if self.zone else 0  # elsewhere the day may be another
            return max(years[0] * scale + apart, first), min(years[1] * scale - 1 - apart, last)
        if self.format in CLOCKS and self.unit == "integer" and self.scale == 1:
            return 0, 86_399 if "%S" in self.format else 1_439
        arrow = value_type(self.column.type)
        least, most = (-MAX_NUMBER, MAX_NUMBER) if is_text(arrow) else bounds_of_type(self.column)
        if is_amount(self.format or ""):
            least, most = -MOST_AMOUNT, MOST_AMOUNT
        if self.unit == "number":
            return max(least, -MAX_NUMBER), min(most, MAX_NUMBER)
        whole = min(float(WIDEST), most_whole(self.column) if self.type == "integer" else np.inf)
        return max(least * self.scale, -whole), min(most * self.scale, whole)

    def can_be(self, value: float) -> bool:
        """Whether a unit can be a value of its own: a format may not tell it from its neighbours."""
        least, most = self.bounds
        apart = abs(value) < MAX_NUMBER if self.unit == "number" else value % self.tick == 0
        return least <= value <= most and apart

    def reaches(self, edges: np.ndarray) -> np.ndarray:
        """bool[cell]: which cells between these edges, in its unit, hold anything that the column can."""
        least, most = self.bounds
        return (edges[1:] > least) & (edges[:-1] <= most)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What counts as a number or moment of the column's type; else a value is a text."""
        if self.type in ("string", "boolean"):
            return ()
        return NUMBERS if self.type in ("integer", "number") else MOMENTS

    @property
    def empty(self) -> bool:
        """Whether the empty text is a value: of a column of text that by its public type has no nulls, so
        that nothing else could stand for it, and holds empty cells, by the votes.
        """
        blank = self.rows - self.present > LEFT * LEFT * self.vote_stddev
        return blank and not self.column.nullable and kind_of(self.column) == "string"

    @property
    def known(self) -> Known:
        values, texts = frozenset(self.values), frozenset(self.texts)
        mostly = 2 * sum([*self.values.values(), *self.texts.values()]) >= self.present
        claim = CLAIM if values | texts and (mostly or self.listed) else LEAST_CLAIM
        if self.cells is not None:  # what they showed is all that is to be known of these
            values |= frozenset(self.cells.units.astype(np.float64).tolist())
        return Known(self.kinds, self.unit, self.scale, values, texts, claim, self.format)

    @property
    def all_popular(self) -> bool:
        """Whether few popular values seem to be all numbers or moments that there are: what is left of these
        does not stand out from the noise, and that could not hide more than a small part of them.
        """
        noise = math.hypot(self.vote_stddev, self.stddev * len(self.values) ** 0.5)
        left = self.numbers - sum(self.values.values())
        return 0 < len(self.values) <= FLAGS and left < LEFT * noise < HIDDEN * self.numbers

    @property
    def mostly_text(self) -> bool:
        """Whether most values of a column of text are neither numbers or moments nor popular texts."""
        if kind_of(self.column) != "string":
            return False
        return self.numbers + sum(self.texts.values()) < self.present / 2
