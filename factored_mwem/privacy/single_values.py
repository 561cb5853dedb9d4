"""Single values: looks at the numbers and moments of all columns together, one cell for each value.

What they show of a column are values that have codes of their own, and those that its bins are drawn from. A
second look is for columns of which the first one says that they hold few values, but noise hides which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from factored_mwem.accounting.accountant import SINGLE, Charge, Mechanism, price, scale_for
from factored_mwem.domain.grids import level
from factored_mwem.domain.singles import ABSENT, CLASSES, MOST, Signal, SingleCells
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
AGAIN = Fraction(1, 10)
"""Of the whole budget, what the second look may cost at most."""
WEIGHTY = 0.2
"""It is for columns of which so large a part of the rows holds values that were not found."""
RARER = 2.0
"""How many times the mean count should lie above what noise alone reaches: most values are rarer."""
ENOUGH = 4
"""The second look is worth its cost where the most that it may cost is such a part of what it needs."""


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """A column and its single values; `classes: int64[single]`, in which they are counted, or each alone."""

    found: FoundColumn
    cells: SingleCells
    classes: np.ndarray | None = None

    @property
    def special(self) -> np.ndarray:
        """int64[value]: the values that were found."""
        return np.array(list(self.found.values), dtype=np.int64)

    def counted(self, column: ColumnProfile) -> np.ndarray:
        """int64[single or class]: what rows give to each, in parts of WEIGHT."""
        one = self.found
        counts = column.histogram(one.kinds, one.unit, one.scale, self.cells.edges, self.special)
        counts = counts[self.cells.single]
        if self.classes is None:
            return counts
        return np.bincount(self.classes, counts, minlength=CLASSES).astype(np.int64)  # far below 2^53

    def signal(self, noisy: np.ndarray, stddev: float) -> Signal | None:
        """What noisy counts say of how many values there are."""
        return self.cells.signal(noisy, stddev, self.special, self.classes)

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
    looked = [one for each in found if (one := looked_at(each, scale / WEIGHT)) is not None]
    if not looked:
        return list(found)
    parts, stddev = counts_together(session, table, looked, cost)
    told = {
        one.found.column.name: with_singles(one.found, one.cells, parts[one.found.column.name], stddev)
        for one in looked
        if one.classes is None
    }
    left = unclear(looked, parts, stddev)
    again, needed = worthwhile(session, left, most)
    if again:
        more, fine = counts_together(session, table, again, needed, equal=True)
        for one in again:
            name = one.found.column.name
            both = more[name], fine
            if name in told:
                both = combined(both, (parts[name], stddev), ~np.isin(one.cells.units, one.special))
            told[name] = with_singles(one.found, one.cells, *both)
    return [told.get(one.column.name, one) for one in found]


def counts_together(
    session: Session, table: Source, looked: Sequence[Looked], cost: Fraction, *, equal: bool = False
) -> tuple[dict[str, np.ndarray], float]:
    """(Noisy counts in rows: float64[single or class] by column; the deviation of their noise). `equal`:
    whether columns have equal claims.

    Which columns are looked at, which of their values were found before, and the cells, one for each value or
    class of values, are noisy answers and public facts. Given those, a row lies in one cell at most of each
    column, and gives it a part of its weight W, a function of that row alone whose squares add up to W^2 at
    most over all columns (`rest.shared`). The cells of all columns are one vector: a person's k rows move it
    by L2 <= k W, and where others take their place by squared L2 <= 2 (k W)^2, as `popular_together` shows;
    cells that are left out, and such that are added up to classes, move no further. All cells are public and
    get noise, so no threshold is needed, nor delta. The second look is the same over other cells, which the
    first one's noisy answers fix; it is charged like the first, and both costs add up.
    """
    sensitivity = session.unit.l2_squared_of_marginal * WEIGHT**2
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    names = [one.found.column.name for one in looked]
    known = {name: one.found.known for name, one in zip(names, looked, strict=True)}
    if equal:
        known = {name: replace(own, claim=CLAIM) for name, own in known.items()}
    rests = Sealed(table.weighed(known))
    charge = Charge("discover", Mechanism.GAUSSIAN, (*names, SINGLE), scale, sensitivity)
    profiles: dict[str, ColumnProfile] = session._unseal(rests, charge)
    counts = [one.counted(profiles[name]) for name, one in zip(names, looked, strict=True)]
    noisy = session.noise.add(np.concatenate(counts), scale=scale) / WEIGHT
    parts = np.split(noisy, np.cumsum([len(part) for part in counts])[:-1])
    return dict(zip(names, parts, strict=True)), scale / WEIGHT


def looked_at(found: FoundColumn, stddev: float) -> Looked | None:
    """The single values that are worth a look with noise of `stddev` rows: public. None where values are no
    whole numbers of anything, are too many, or where VALUES values would drown in the noise.
    """
    if found.unit == "number" or found.edges is None or found.noisy is None:
        return None
    if not found.values and found.numbers < VALUES * stddev:
        return None
    cells = SingleCells.of(found.edges, found.noisy, found.cell_stddev, found.step)
    if cells is None:
        return None
    return Looked(found, cells, cells.units // found.step % CLASSES if len(cells.units) > MOST else None)


def unclear(
    looked: Sequence[Looked], parts: Mapping[str, np.ndarray], stddev: float
) -> list[tuple[Looked, float]]:
    """The columns that hold few values, of which noise hides which, without classes; and what the deviation
    of noise must be where only one of them is looked at. Those first of which no value was counted alone.
    """
    left = []
    for one in looked:
        noisy, found = parts[one.found.column.name], one.found
        signal = one.signal(noisy, stddev)
        rows = 0.0 if found.noisy is None else float(found.noisy.sum())
        if signal is None or signal.values > VALUES or rows < WEIGHTY * found.rows:
            continue
        if one.classes is None and signal.each >= one.needed(signal) * stddev:
            continue
        cells = one.cells if one.classes is None else one.cells.only(noisy[one.classes] > 0)
        alone = Looked(found, cells)
        whole = signal.each * max(rows / signal.total, 1.0)
        left.append((alone, whole / alone.needed(signal), one.classes is None))
    left.sort(key=lambda each: (each[2], -each[1]))
    return [(one, stddev) for one, stddev, _ in left]


def worthwhile(
    session: Session, left: Sequence[tuple[Looked, float]], most: Fraction
) -> tuple[list[Looked], Fraction]:
    """As many of them, from the first, as `most` is enough for, and what they cost; the first one alone where
    it needs little more. m columns share a row's weight: each gets an m-th part, squared, at least.
    """
    sensitivity, chosen = session.unit.l2_squared_of_marginal * WEIGHT**2, (0, Fraction(0))
    for count in range(1, len(left) + 1):
        stddev = min(stddev for _, stddev in left[:count]) / count**0.5
        cost = price(Mechanism.GAUSSIAN, scale=stddev * WEIGHT, sensitivity=sensitivity)
        if cost <= (most if count > 1 else ENOUGH * most):
            chosen = count, min(cost, most)
    return [one for one, _ in left[: chosen[0]]], chosen[1]


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
    """`noisy: float64[single]`, in rows, with noise of `stddev`."""
    own = np.flatnonzero(noisy >= OWN * stddev)
    more = {float(cells.units[i]): int(noisy[i]) for i in own.tolist() if cells.units[i] not in found.values}
    special = np.array(list(found.values), dtype=np.int64)
    cells = cells.by_digits(noisy, stddev, special)
    singles = cells.seen(noisy, stddev, special)
    if singles is not None:
        singles = singles.of(~np.isin(singles.units, np.array(list(more), dtype=np.int64)))
    rare = found.rare | frozenset(more)
    known = replace(found, cells=cells, single_counts=noisy, single_stddev=stddev, singles=singles)
    return replace(known, values=found.values | more, rare=rare)
