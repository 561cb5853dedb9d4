"""Public joint: how often the values of public columns come together, in place of measurements of them.

Privacy: the private rows are asked nothing about these columns alone. Candidates that lie among them are
left out (`Candidates.without`), single ones get no share of the budget (`single_shares`), and what stands
here for their counts is made of the public table and of the noisy number of rows. So the joint enters the
model as any other public fact would, and costs nothing: a release of two neighbours differs in what is
measured of other columns alone, each of which is charged as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import View
from factored_mwem.privacy.session import Measurement, NoiseScale

if TYPE_CHECKING:
    from factored_mwem.request.public_columns import PublicColumns

FIRMER = 4.0
"""How many times less noise a public count is taken to have than the least noisy single one, while the model
is fitted: it then holds to within noise, and at the end it is made exact. Of residuals at once it is the
weight of the weightiest.
"""


@dataclass(frozen=True, slots=True, eq=False)
class PublicJoint:
    """Of the attributes `positions` (ascending) of a model, `shares: float64` with an axis for each."""

    positions: View
    shares: np.ndarray = field(default_factory=lambda: np.ones(()))

    @classmethod
    def of(cls, public: PublicColumns | None, domain: Domain) -> PublicJoint:
        """In the modelled `domain`; of no columns, where none are public."""
        names = [name for name in domain.names if public is not None and name in public.names]
        positions = tuple(domain.index(name) for name in names)
        return NOTHING if public is None else cls(positions, public.shares_of(names))

    def beside(self, measured: Sequence[Measurement], total: float) -> list[Measurement]:
        """The single marginals of all attributes, in order: those that were `measured`, and the public ones
        of `total` records.
        """
        if not self.positions:
            return list(measured)
        scale = self._scale(measured)
        own = [Measurement((a,), self._sum(axis) * total, scale) for axis, a in enumerate(self.positions)]
        return sorted([*measured, *own], key=lambda m: m.positions)

    def counts(self, measured: Sequence[Measurement], total: float) -> Measurement:
        """All of it, as if it had been measured."""
        return Measurement(self.positions, self.shares.ravel() * total, self._scale(measured))

    def masks(self, shape: Sequence[int]) -> np.ndarray:
        """bool[mask]: the sets of attributes that lie among them."""
        wide = [a in self.positions for a, k in enumerate(shape) if k > 1]
        masks, others = np.arange(2 ** len(wide)), sum(1 << i for i, held in enumerate(wide) if not held)
        return (masks > 0) & (masks & others == 0)

    def raked(self, shape: Sequence[int], table: np.ndarray) -> np.ndarray:
        """`table: float64[cells]` of a domain with their counts made those that are known."""
        cells = table.reshape(shape)
        others = tuple(a for a in range(len(shape)) if a not in self.positions)
        now = cells.sum(axis=others, keepdims=True)
        wanted = self.shares.reshape(now.shape)
        return (cells * np.divide(wanted, now, out=np.zeros_like(now), where=now > 0)).ravel()

    def _sum(self, axis: int) -> np.ndarray:
        return self.shares.sum(axis=tuple(a for a in range(self.shares.ndim) if a != axis))

    def _scale(self, measured: Sequence[Measurement]) -> NoiseScale:
        least = min((m.scale for m in measured), key=lambda scale: scale.value)
        return NoiseScale(least.value / FIRMER, least.composition)


NOTHING = PublicJoint(())
