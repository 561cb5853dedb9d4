"""PrivateProjection: a sum of public columns of signs, one for each record's key, sealed.

A record adds its key's column, 1 or -1, to T whole numbers, or nothing if its key is missing or not
listed. So one record moves each of them by at most 1, and k records of a person by at most k, whatever they
hold and whatever hash was drawn; where a person is exchanged, by at most 2 k, from k columns of -1 to k of 1.
All T rows may move so at once: two keys can have opposite columns. Hence L1 is T or 2 T times k, and squared
L2 is T k^2 or 4 T k^2: `Unit.of_parity` in every row.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from factored_mwem.accounting.accountant import Charge, Mechanism, scale_for
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy.rows import Sealed, SealedQuery
from factored_mwem.privacy.session import Measurement, NoiseScale, Session
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.inputs.source import Private
from factored_mwem.workload.projection import Projection, Universe


class Projected(Private):
    """What PrivateProjection reveals: the rows' sums."""

    __slots__ = ("_profile", "_projection", "_universe")

    def __init__(self, profile: ColumnProfile, universe: Universe, projection: Projection) -> None:
        self._profile, self._universe, self._projection = profile, universe, projection

    def exact(self, what: tuple[()]) -> np.ndarray:
        """int64[row]: the sum over records of their columns. Keys are added up by their numbers, so that two
        values that share one count as often as they come.
        """
        texts, counts = self._profile.keys()
        numbers = [self._universe.number(text) for text in texts]
        which = [at for at, number in enumerate(numbers) if number is not None]
        keys = np.array([numbers[at] for at in which], dtype=np.uint64)
        return self._projection.project(keys, counts[which])


class PrivateProjection(Sealed):
    """The projected column, for `Session.measure` alone: all rows' sums together."""

    __slots__ = ("size",)

    def __init__(self, contents: Projected, column: str, size: int) -> None:
        super().__init__(contents, [column])
        self.size = size

    @classmethod
    def of(cls, table: Source, column: str, universe: Universe, projection: Projection) -> PrivateProjection:
        """The keys of a table's column, read and sealed at once. One pass."""
        return cls(Projected(table.profile([column])[column], universe, projection), column, projection.size)

    def query(self, what: tuple[()], unit: Unit) -> SealedQuery:
        """Every row moves by `of_parity`; no attributes of a domain."""
        return SealedQuery.each(self.names, (), unit.of_parity, self.size)


def measure_by_laplace(session: Session, sealed: PrivateProjection, *, cost: Fraction) -> Measurement:
    """As `Session.measure` under zCDP, with discrete Laplace noise, as SparseProject prints it. Cost: `cost`,
    of rho: row by row it is pure, and that in rho adds up to the price of a Gaussian of the same scale, whose
    variance is half.
    """
    sensitivity = sealed.sensitivity((), session.unit, Composition.ZCDP)
    scale = scale_for(Mechanism.LAPLACE_IN_RHO, cost, sensitivity=sensitivity)
    charge = Charge("measure", Mechanism.LAPLACE_IN_RHO, sealed.names, scale, sensitivity)
    if session.noise.composition is not Composition.PURE:
        raise AssertionError("noise of another kind than is charged")
    contents: Projected = session._unseal(sealed, charge)
    noisy = session.noise.add(contents.exact(()), scale=scale)
    return Measurement((), noisy, NoiseScale(scale, Composition.PURE))
