"""Evidence: the parts of a release on which its answers rest; all of it public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from factored_mwem.answers.people import PeopleCounted
from factored_mwem.domain.domain import Domain
from factored_mwem.model.forest import Forest
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement, NoiseScale


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The whole `domain`, the `model` over its modelled attributes, and every noisy answer it was fitted to.

    `public_total`: whether the number of rows is public, and `model.total` it exactly. `engine`: what fitted
    the model, "tree" or "mwem". `settled`: the numbers of the measurements that decided the codes of a learnt
    attribute; their counts lack values that were then merged into others. `counted`: the noise of a count of
    all records that entered `model.total` and is not among `measurements`, or None. `moved`: by learnt
    column, the most records whose values are none of its domain's (NaN: nobody knows). `hidden`: by
    learnt column of numbers, by what part noise may hide that its deviation is larger. `people`: what makes
    rows and people of grains, where these were counted: then all counts, noise and `model` are in grains.
    `public`: attributes whose joint counts the model has from a public table.
    """

    domain: Domain
    model: Forest
    measurements: Sequence[Measurement]
    residuals: Sequence[Residuals]
    public_total: bool
    engine: str
    settled: frozenset[int] = frozenset()
    counted: NoiseScale | None = None
    people: PeopleCounted | None = None
    moved: Mapping[str, float] = field(default_factory=dict)
    hidden: Mapping[str, float] = field(default_factory=dict)
    public: tuple[int, ...] = ()

    @property
    def of_each(self) -> int:
        """What a record counts as: the grains of a person where people were counted, else 1."""
        return int(self.people.row_weights[0]) if self.people is not None else 1
