"""Single values: a look at the numbers and moments of all columns together, one cell for each value.

What it shows of a column are values that have codes of their own, and those that its bins are drawn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from factored_mwem.accounting.accountant import SINGLE, Charge, Mechanism, scale_for
from factored_mwem.domain.singles import SingleCells
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.codes.rest import WEIGHT

VALUES = 500
"""Single values that are worth a look where no popular one was found: of more, noise hides each."""
OWN = 6.0
"""Deviations of noise from which a value has a code of its own."""


def single_values(
    session: Session, table: Source, found: Sequence[FoundColumn], cost: Fraction
) -> list[FoundColumn]:
    """The columns with the single values of numbers and moments that are there.

    Which columns are looked at, which of their values were found before, and the cells, one for each value,
    are noisy answers and public facts. Given those, a row lies in one cell at most of each column, and gives
    it a part of its weight W, a function of that row alone whose squares add up to W^2 at most over all
    columns (`rest.shared`). The cells of all columns are one vector: a person's k rows move it by L2 <= k W,
    and where others take their place by squared L2 <= 2 (k W)^2, as `popular_together` shows; cells that are
    left out only shorten it. All cells are public and get noise, so no threshold is needed, nor delta.
    """
    unit = session.unit
    if not cost:
        return list(found)
    sensitivity = unit.l2_squared_of_marginal * WEIGHT**2
    scale = scale_for(Mechanism.GAUSSIAN, cost, sensitivity=sensitivity)
    cells = {one.column.name: own for one in found if (own := cells_of(one, scale / WEIGHT)) is not None}
    if not cells:
        return list(found)
    looked = [one for one in found if one.column.name in cells]
    rests = Sealed(table.weighed({one.column.name: one.known for one in looked}))
    charge = Charge("discover", Mechanism.GAUSSIAN, (*cells, SINGLE), scale, sensitivity)
    profiles: dict[str, ColumnProfile] = session._unseal(rests, charge)
    counts = [counts_of(one, cells[one.column.name], profiles[one.column.name]) for one in looked]
    noisy = session.noise.add(np.concatenate(counts), scale=scale) / WEIGHT
    parts = dict(zip(cells, np.split(noisy, np.cumsum([len(part) for part in counts])[:-1]), strict=True))
    return [
        with_singles(one, cells[name], parts[name], scale / WEIGHT)
        if (name := one.column.name) in cells
        else one
        for one in found
    ]


def cells_of(found: FoundColumn, stddev: float) -> SingleCells | None:
    """The single values that are worth a look with noise of `stddev` rows: public. None where values are no
    whole numbers of anything, are too many, or where VALUES values would drown in the noise.
    """
    if found.unit == "number" or found.edges is None or found.noisy is None:
        return None
    if not found.values and found.numbers < VALUES * stddev:
        return None
    return SingleCells.of(found.edges, found.noisy, found.cell_stddev, found.step)


def counts_of(found: FoundColumn, cells: SingleCells, column: ColumnProfile) -> np.ndarray:
    """int64[single]: what rows give to each single value, in parts of WEIGHT."""
    special = np.array(list(found.values), dtype=np.int64)
    counts = column.histogram(found.kinds, found.unit, found.scale, cells.edges, special)
    return counts[cells.single]


def with_singles(found: FoundColumn, cells: SingleCells, noisy: np.ndarray, stddev: float) -> FoundColumn:
    """`noisy: float64[single]`, in rows, with noise of `stddev`."""
    own = np.flatnonzero(noisy >= OWN * stddev)
    more = {float(cells.units[i]): int(noisy[i]) for i in own.tolist() if cells.units[i] not in found.values}
    singles = cells.seen(noisy, stddev, np.array(list(found.values), dtype=np.int64))
    if singles is not None:
        singles = singles.of(~np.isin(singles.units, np.array(list(more), dtype=np.int64)))
    rare = found.rare | frozenset(more)
    return replace(found, values=found.values | more, rare=rare, cells=cells, singles=singles)
