"""Single values: looks at the numbers and moments of all columns together, one cell for each value.

What they show of a column are values that have codes of their own, and those that its bins are drawn from. A
second look is for columns of which the first one says that they hold few values, but noise hides which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from factored_mwem.accounting.accountant import SINGLE, Charge, Mechanism, price, scale_for
from factored_mwem.domain.coarse_grids import coarse_grid
from factored_mwem.domain.grids import LIKELY, MOST_BINS, level
from factored_mwem.domain.singles import ABSENT, CLASSES, FEWEST_ON_STEP, MOST, Signal, SingleCells, Singles
from factored_mwem.domain.steps import step_of
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.codes.rest import CLAIM, WEIGHT

VALUES = 500
"""Single values that are worth a look where no popular one was found: of more, noise hides each."""
OWN = 6.0
"""Deviations of noise from which a value has a code of its own."""
MOST_OF_ENDS = 0.25
"""How wide, in spans of the cells, what is looked at beyond one of their ends may be."""
LEAST_ROWS = 1 / 16
"""The share of the rows, at least, by which a column's claim counts."""
ANCHORS = 16
"""Parts of equal mass of a column of few values, in each of which one value at least is left to bins: what
else lies there, and noise hides, is drawn as it.
"""
OF_FEW = 0.33
"""The share of what was counted that the values must have that are there, where they are all there is."""
BESIDE_VALUES = 0.25
"""At most this share of the rows of a column may lie beside the values by which its step is believed."""
FEW = 32
"""Where values are so few, all have codes of their own."""
AGAIN = Fraction(3, 20)
"""Of the whole budget, what the second look may cost at most. Of 26,188 flights at epsilon 1 it took .09 to
.12, and the 3-way error fell by 2 to 4 %, that of single columns by a seventh or more; Adult has none.
"""
WEIGHTY = 0.2
"""It is for columns of which so large a part of the rows holds values that were not found."""
MAYBE = 2.5
"""Deviations of noise from which a column may hold few values: enough to look again, not to be believed."""
RARER = 2.0
"""How many times the mean count should lie above what noise alone reaches: most values are rarer."""
ENOUGH = 4
"""The second look is worth its cost for a column where what it may cost is such a part of what it needs."""
SPARE = Fraction(2)
"""How many times as much as it needs it gets, if there is as much to spare: the need is estimated."""
CLAIMS = 1000
"""In so many parts columns share a row's weight in the second look."""


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """A column and its single values; `classes: int64[single]`, in which they are counted, or each alone."""

    found: FoundColumn
    cells: SingleCells
    classes: np.ndarray | None = None

    @property
    def claim(self) -> int:
        """What the column claims of a row's squared weight in the first look: more where more cells hide few
        values, and where few rows hold any that was not found, so that others lose little.
        """
        cells = len(self.cells.units) if self.classes is None else CLASSES
        rows = 0.0 if self.found.noisy is None else float(self.found.noisy.sum())
        return round(CLAIM * cells**0.25 / min(max(rows / self.found.rows, LEAST_ROWS), 1.0))

    @property
    def special(self) -> np.ndarray:
        """int64 or float64[value]: the values that were found."""
        return np.array(list(self.found.values), dtype=self.cells.units.dtype)

    def counted(self, column: ColumnProfile) -> np.ndarray:
        """int64[single or class]: what rows give to each, in parts of WEIGHT."""
        one = self.found
        counts = column.histogram(one.kinds, one.unit, one.scale, self.cells.edges, self.special)
        counts = counts[self.cells.single]
        if self.classes is None:
            return counts
        return np.bincount(self.classes, counts, minlength=CLASSES).astype(np.int64)  # far below 2^53

    def after(self, told: FoundColumn | None) -> Looked:
        """The same without the values that the first look found."""
        if told is None:
            return self
        return replace(self, found=replace(self.found, values=told.values, rare=told.rare))

    def signal(self, noisy: np.ndarray, stddev: float) -> Signal | None:
        """What noisy counts say of how many values there are, if they may be few."""
        return self.cells.signal(noisy, stddev, self.special, self.classes, MAYBE)

    def needed(self, found: Signal) -> float:
        """Of how many deviations of noise the mean count should be to be told from none."""
        return level(len(self.cells.units), ABSENT[0] * found.values) * RARER


def single_values(
    session: Session, table: Source, found: Sequence[FoundColumn], cost: Fraction, most: Fraction
) -> list[FoundColumn]:
    """The columns with the single values of numbers and moments that are there. Cost: `cost`, and up to
    `most` beside it for the second look.
    """
    if not cost:
        return list(found)
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=session.unit.l2_squared_of_marginal * WEIGHT**2)
    step = step_of(value for each in found if each.unit == "number" for value in each.values)
    looked = [one for each in found if (one := looked_at(each, scale / WEIGHT, step)) is not None]
    if not looked:
        return list(found)
    parts, stddev = counts_together(session, table, looked, cost, [one.claim for one in looked])
    told = {
        one.found.column.name: with_singles(one.found, one.cells, parts[one.found.column.name], stddev)
        for one in looked
        if one.classes is None
    }
    again, costs = worthwhile(unclear(session, looked, parts, stddev), most)
    if again:
        again = [one.after(told.get(one.found.column.name)) for one in again]
        claims = [max(int(CLAIMS * each / sum(costs)), 1) for each in costs]
        more, fine = counts_together(session, table, again, sum(costs, Fraction(0)), claims)
        for one in again:
            name = one.found.column.name
            both = more[name], fine
            if name in told:
                both = combined(both, (parts[name], stddev), ~np.isin(one.cells.units, one.special))
            told[name] = with_singles(one.found, one.cells, *both)
    return [told.get(one.column.name, one) for one in found]


def counts_together(
    session: Session, table: Source, looked: Sequence[Looked], cost: Fraction, claims: Sequence[int]
) -> tuple[dict[str, np.ndarray], float]:
    """(Noisy counts in rows: float64[single or class] by column; the deviation of their noise). `claims`: in
    which proportion the columns share a row's squared weight.

    Which columns are looked at, what they claim, which of their values were found before, and the cells, one
    for each value or class of values, are noisy answers and public facts. Given those, a row lies in one cell
    at most of each column, and gives it a part of its weight W, a function of that row alone whose squares
    add up to W^2 at most over all columns, whatever they claim (`rest.shared`). The cells of all columns are
    one vector: a person's k rows move it by L2 <= k W, and where others take their place by squared L2 <= 2
    (k W)^2, as `popular_together` shows; cells that are left out, and such that are added up to classes, move
    no further. Multiples of a `step`, which popular values show, have cells as wide as rounding, and none
    overlaps another. All cells are public and get noise, so no threshold is needed, nor delta. The second
    look is the same over other cells, without the values that the first one found; the first one's noisy
    answers fix both. It is charged like the first, and both costs add up.
    """
    sensitivity = session.unit.l2_squared_of_marginal * WEIGHT**2
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    names = [one.found.column.name for one in looked]
    known = {
        name: replace(one.found.known, claim=claim)
        for name, one, claim in zip(names, looked, claims, strict=True)
    }
    rests = Sealed(table.weighed(known))
    charge = Charge("discover", Mechanism.GAUSSIAN, (*names, SINGLE), scale, sensitivity)
    profiles: dict[str, ColumnProfile] = session._unseal(rests, charge)
    counts = [one.counted(profiles[name]) for name, one in zip(names, looked, strict=True)]
    noisy = session.noise.add(np.concatenate(counts), scale=scale) / WEIGHT
    parts = np.split(noisy, np.cumsum([len(part) for part in counts])[:-1])
    return dict(zip(names, parts, strict=True)), scale / WEIGHT


def looked_at(found: FoundColumn, stddev: float, step: float | None = None) -> Looked | None:
    """The single values that are worth a look with noise of `stddev` rows: public. None where values are no
    whole numbers of anything, nor may be multiples of a `step`, are too many, or where VALUES values would
    drown in the noise.
    """
    if found.edges is None or found.noisy is None:
        return None
    if not found.values and found.numbers < VALUES * stddev and found.unit != "number":
        return None
    edges, noisy = with_ends(found, found.edges, found.noisy)
    if found.unit == "number":
        cells = None if step is None else SingleCells.apart(edges, noisy, step, list(found.values))
        return None if cells is None else Looked(found, cells)
    cells = SingleCells.of(edges, noisy, found.cell_stddev, found.step)
    if cells is None:
        return None
    return Looked(found, cells, cells.units // found.step % CLASSES if len(cells.units) > MOST else None)


class Wanted(NamedTuple):
    """A column for the second look, what that costs where it is looked at alone, and how many rows would hold
    values that nobody has without it, about.
    """

    looked: Looked
    cost: Fraction
    rows: float


def with_ends(found: FoundColumn, edges: np.ndarray, noisy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cells and their noisy counts, with one cell more at each end, to the next edge but one of the
    coarse grid: little of what lies there was seen. Not where it is wide.
    """
    grid, likely = coarse_grid(found.unit), int(LIKELY * found.cell_stddev) + 1
    first, last = edges[[0, -1]].tolist()
    low = grid[max(int(np.searchsorted(grid, first)) - 2, 0)].item()
    high = grid[min(int(np.searchsorted(grid, last, side="right")) + 1, len(grid) - 1)].item()
    most = (last - first) * MOST_OF_ENDS
    before, after = (int(0 < width <= most) for width in (first - low, high - last))
    edges = np.concatenate([[low] * before, edges, [high] * after]).astype(edges.dtype)
    return edges, np.pad(noisy, (before, after), constant_values=likely)


def unclear(
    session: Session, looked: Sequence[Looked], parts: Mapping[str, np.ndarray], stddev: float
) -> list[Wanted]:
    """The columns that may hold few values, of which noise hides which, without classes. Not those of which
    each value that there may be has a bin of its own.
    """
    sensitivity, left = session.unit.l2_squared_of_marginal * WEIGHT**2, []
    for one in looked:
        noisy, found = parts[one.found.column.name], one.found
        signal, candidates = one.signal(noisy, stddev), len(one.cells.units)
        rows = 0.0 if found.noisy is None else float(found.noisy.sum())
        if signal is None or signal.values > VALUES or rows < WEIGHTY * found.rows or candidates <= MOST_BINS:
            continue
        if one.classes is None and signal.each >= one.needed(signal) * stddev:
            continue
        alone = Looked(found, one.cells if one.classes is None else one.cells.only(noisy[one.classes] > 0))
        each = signal.each * max(rows / signal.total, 1.0)
        scale = each / alone.needed(signal) * WEIGHT
        cost = price(Mechanism.GAUSSIAN, scale=scale, sensitivity=sensitivity)
        left.append(Wanted(alone, cost, rows * max(1 - signal.values / candidates, 0.0)))
    return left


def worthwhile(left: Sequence[Wanted], most: Fraction) -> tuple[list[Looked], list[Fraction]]:
    """As many of them as `most` is enough for, those first that spare most rows for their cost, and what each
    costs; the last one may get less than it needs. Columns that share a row's weight in proportion to what
    they cost have together what each has alone.
    """
    chosen: list[Looked] = []
    costs: list[Fraction] = []
    for one in sorted(left, key=lambda one: one.rows / float(one.cost), reverse=True):
        spare = most - sum(costs)
        if one.cost <= ENOUGH * spare:
            chosen.append(one.looked)
            costs.append(min(one.cost, spare))
    more = min(SPARE, most / sum(costs)) if costs else Fraction(1)
    return chosen, [cost * more for cost in costs]


def combined(
    one: tuple[np.ndarray, float], other: tuple[np.ndarray, float], which: np.ndarray
) -> tuple[np.ndarray, float]:
    """(counts as of `one`, the deviation of their noise), from two looks at the same cells by precision; they
    count other parts of the rows, as the sums over `which: bool[single]` show.
    """
    (counts, noise), (more, coarse) = one, other
    total, part = max(float(counts[which].sum()), 1.0), max(float(more[which].sum()), 0.0)
    signal = (total / noise) ** 2 + (part / coarse) ** 2
    both = (counts * total / noise**2 + more * part / coarse**2) * (total / signal)
    return both, float(total / signal**0.5)


def with_singles(found: FoundColumn, cells: SingleCells, noisy: np.ndarray, stddev: float) -> FoundColumn:
    """`noisy: float64[single]`, in rows, with noise of `stddev`. Where the values that are there explain
    enough of what was counted, they are few, and what is left is judged without those that have codes of
    their own: false ones would not show beside those. Of numbers that are no whole ones of anything nothing
    is told where counts do not show that they are a step apart, unless most were found, and are.
    """
    special = np.array(list(found.values), dtype=cells.units.dtype)
    if found.unit == "number" and not cells.all_there_is(noisy, stddev):
        beside = math.inf if found.noisy is None else float(found.noisy.sum())
        most = len(found.values) >= FEWEST_ON_STEP and beside <= BESIDE_VALUES * found.rows
        return replace(found, cells=cells) if most else found
    total = noisy[~np.isin(cells.units, special)].sum()
    own = np.flatnonzero((noisy >= OWN * stddev) & ~np.isin(cells.units, special))
    every, popular = np.append(special, cells.units[own]), float(sum(found.values.values()))
    on_steps = cells.on_steps(noisy, stddev, special, every, popular)
    cells = on_steps or cells.by_digits(noisy, stddev, special)
    singles, few = cells.seen(noisy, stddev, special), False
    if singles is not None:
        left = cells.seen(noisy, stddev, np.append(special, cells.units[own]), few=True)
        there = cells.units[own] if left is None else np.append(cells.units[own], left.units)
        few = bool(noisy[np.isin(cells.units, there)].sum() >= OF_FEW * total)
        if few and len(own) + len(special) > FEW and len(cells.units) > MOST_BINS:
            parts = parts_of(found)
            own = without_anchors(own[np.argsort(noisy[own])], cells.units, parts, left)
            left = cells.seen(noisy, stddev, np.append(special, cells.units[own]), few=True)
        singles = left or Singles.none() if few else singles.of(~np.isin(singles.units, cells.units[own]))
    more = {float(cells.units[i]): int(noisy[i]) for i in own.tolist()}
    known = replace(found, cells=cells, single_counts=noisy, single_stddev=stddev, singles=singles, few=few)
    return replace(known, values=found.values | more, rare=found.rare | frozenset(more))


def parts_of(found: FoundColumn) -> np.ndarray:
    """Where a column is cut into ANCHORS parts of about equal mass."""
    assert found.edges is not None and found.noisy is not None, "single values lie in cells"
    mass = np.cumsum(np.maximum(found.noisy, 0))
    return np.unique(found.edges[1 + np.searchsorted(mass, mass[-1] * np.arange(1, ANCHORS) / ANCHORS)])


def without_anchors(
    own: np.ndarray, units: np.ndarray, parts: np.ndarray, left: Singles | None
) -> np.ndarray:
    """`own: int64[own]`, places of values, those of few rows first, but for the first one in each part that
    nothing `left` lies in.
    """
    held = np.searchsorted(parts, left.units, side="right") if left is not None else np.zeros(0, dtype=int)
    place = np.searchsorted(parts, units[own], side="right")
    _, first = np.unique(place, return_index=True)
    return np.delete(own, first[~np.isin(place[first], held)])
