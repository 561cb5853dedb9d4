"""Planted bugs: each is put into the running package from outside, and the checks named beside it must then
find a loss beyond the claim.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from audit.check import Make, real
from factored_mwem.accounting.accountant import Accountant, Charge, Mechanism, scale_for
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.ledger.journal import Journal
from factored_mwem.privacy import discover
from factored_mwem.privacy.edges import Asked, Edges
from factored_mwem.privacy.noise import Noise
from factored_mwem.tables.profile import ColumnProfile


@dataclass(frozen=True)
class Plant:
    """A bug, how to plant it (what to make the noise with, inside the context), and (check, runs) that must
    catch it; the first is the cheapest.
    """

    name: str
    plant: Callable[[], AbstractContextManager[Make]]
    checks: tuple[tuple[str, int], ...]


class Scaled:
    """Noise on another scale than the one it is asked for."""

    def __init__(self, noise: Noise, *, add: float = 1.0, select: float = 1.0) -> None:
        self.composition, self._noise, self._add, self._select = noise.composition, noise, add, select

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return self._noise.select(scores, scale=scale * self._select)

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        return self._noise.add(values, scale=scale * self._add)

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        return self._noise.threshold(counts, scale=scale * self._add, threshold=threshold)


class Reused(Scaled):
    """One vector of noise for all measurements of a run."""

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        if not hasattr(self, "_vector"):
            self._vector = self._noise.add(np.zeros(64, dtype=np.int64), scale=scale)
        found: np.ndarray = values + self._vector[: len(values)]
        return found


class Seeded(Scaled):
    """Noise from a generator that starts anew in every run."""

    def __init__(self, noise: Noise) -> None:
        super().__init__(noise)
        self._rng = np.random.default_rng(1)

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        draw = self._rng.normal if self.composition is Composition.ZCDP else self._rng.laplace
        return values + np.rint(draw(scale=scale, size=len(values))).astype(np.int64)

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return int(np.argmax(scores + self._rng.gumbel(scale=scale, size=len(scores))))


class Floating(Scaled):
    """Laplace noise by the textbook's formula in floating point; `late` rounds it, but only after it was
    scaled.
    """

    def __init__(self, noise: Noise, *, late: bool) -> None:
        super().__init__(noise)
        self._rng, self._late = np.random.default_rng(), late

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        uniform = self._rng.random(len(values)) - 0.5
        noise = -scale * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
        return values + np.rint(noise).astype(np.int64) if self._late else values + noise


def wrapped(wrap: Callable[[Noise], Noise]) -> Callable[[], AbstractContextManager[Make]]:
    """A plant that is an adapter around the real noise, made anew for every run."""
    return lambda: contextlib.nullcontext(lambda composition: wrap(real(composition)))


@contextlib.contextmanager
def patched(target: Any, name: str, value: Any) -> Iterator[Make]:
    with mock.patch.object(target, name, value):
        yield real


def uncharged() -> AbstractContextManager[Make]:
    """Whole tables are measured for nothing."""
    charge = Accountant.charge
    return patched(
        Accountant, "charge", lambda self, entry: None if entry.target == ("a", "b") else charge(self, entry)
    )


def all_values(self: discover.Reader, cost: Fraction, delta: Fraction) -> discover.Found:
    """Charged as it should be, and then every value that there is."""
    sensitivity = self.session.unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.THRESHOLD, cost, sensitivity=sensitivity)
    entry = Charge("discover", Mechanism.THRESHOLD, ("x", "values"), scale, sensitivity, delta)
    column = self.session._unseal(self.sealed, entry)
    return replace(self.found, texts=column.texts(()))


def min_max(self: discover.Reader, coarse: Fraction, fine: Fraction) -> discover.Found:
    """Charged, and then the least and the greatest value."""
    sensitivity = self.session.unit.l2_squared_of_marginal
    scale = scale_for(Mechanism.GAUSSIAN, coarse + fine, sensitivity=sensitivity)
    entry = Charge("discover", Mechanism.GAUSSIAN, ("x", "range"), scale, sensitivity)
    units, counts = self.session._unseal(self.sealed, entry).numbers(self.kinds, "integer")
    return replace(self.found, edges=units[[0, -1]], noisy=counts)


def shift_of_the_table() -> AbstractContextManager[Make]:
    """Half of the largest count is taken off all counts."""
    honest = ColumnProfile.texts

    def texts(self: ColumnProfile, without: Any, least: int = 0) -> dict[str, int]:
        return honest(self, without, int(self.counts.max()) // 2)

    return patched(ColumnProfile, "texts", texts)


def own_popular() -> AbstractContextManager[Make]:
    """Cells leave out what is popular in the table, not in the noisy answers."""
    honest = ColumnProfile.histogram

    def histogram(
        self: ColumnProfile, of: Any, unit: str, scale: float, edges: np.ndarray, special: np.ndarray
    ) -> np.ndarray:
        units, counts = self.numbers(of, unit, scale)
        return honest(self, of, unit, scale, edges, units[counts > 4])

    return patched(ColumnProfile, "histogram", histogram)


def measured_afresh(journal: Journal) -> None:
    """In the place of `Journal.replay`: what an earlier attempt drew is forgotten, and drawn again."""
    journal._records.clear()


def both_triangles() -> AbstractContextManager[Make]:
    """What a symmetric matrix gives where its two halves are added: an edge is 2, at the sensitivity of 1."""
    honest = Edges.exact

    def exact(self: Edges, what: Any) -> np.ndarray:
        found = honest(self, what)
        return 2 * found if what is Asked.PAIRS else found

    return patched(Edges, "exact", exact)


def quarter_of_delta() -> AbstractContextManager[Make]:
    """A threshold whose delta is four times what is charged for it."""
    honest = discover.threshold_for

    def lower(scale: float, delta: Fraction, *, l0: int, linf: int) -> tuple[int, Fraction]:
        return honest(scale, 4 * delta, l0=l0, linf=linf)[0], honest(scale, delta, l0=l0, linf=linf)[1]

    return patched(discover, "threshold_for", lower)


MARGINAL = "measure marginal: pure, add-remove, k=1"
ROWS = "measure rows: pure, add-remove, k=1"
RELEASE = "release mwem, marginals: epsilon 2, add-remove, k=1"
RESUMED = "release mwem, resumed after crashes: epsilon 2, add-remove, k=1"
HISTOGRAM = "release mwem, histogram first: epsilon 2, add-remove, k=1"

PLANTS = (
    Plant(
        "noise at half scale",
        wrapped(lambda noise: Scaled(noise, add=0.5)),
        (
            (ROWS, 2400),
            ("measure residuals of 2 x 2: zcdp, add-remove, k=2", 4000),
            ("measure sketch of 4 rows: zcdp, replace, k=1", 4000),
            ("discover votes: zcdp, add-remove, k=1", 4000),
            (RELEASE, 2400),
            ("measure pairs of a graph: pure, add-remove, k=1", 4000),
            ("measure cut of a graph: zcdp, add-remove, k=2", 4000),
        ),
    ),
    Plant(
        "an edge that counts in both triangles",
        both_triangles,
        (("measure pairs of a graph: pure, add-remove, k=1", 6000),),
    ),
    Plant(
        "selection with twice the epsilon",
        wrapped(lambda noise: Scaled(noise, select=0.5)),
        (("select marginal: zcdp, replace, k=1", 3200), ("select marginal: pure, add-remove, k=1", 6000)),
    ),
    Plant(
        "sensitivity 1 under replace",
        lambda: patched(Unit, "_people", property(lambda _: 1)),
        (
            ("measure question of parities: pure, replace, k=1", 4000),
            ("measure marginal: pure, replace, k=1", 6000),
            ("measure sketch of 1 rows: pure, replace, k=1", 4000),
        ),
    ),
    Plant(
        "contributions ignored",
        lambda: patched(Unit, "contributions", property(lambda _: 1, lambda self, value: None)),
        (
            ("measure rows: zcdp, add-remove, k=2", 3600),
            ("measure sketch of 4 rows: zcdp, add-remove, k=2", 4000),
            ("measure residuals of 2 x 2: zcdp, add-remove, k=2", 4000),
            ("discover span and finer cells: zcdp, add-remove, k=2", 4000),
        ),
    ),
    Plant("exact n", lambda: patched(Unit, "total_is_public", property(lambda _: True)), ((RELEASE, 640),)),
    Plant("a measurement not charged", uncharged, ((MARGINAL, 2000), (HISTOGRAM, 2400))),
    Plant(
        "values read off the data",
        lambda: patched(discover.Reader, "popular", all_values),
        (("discover value of one person: zcdp, add-remove, k=1", 400),),
    ),
    Plant(
        "bounds from min/max",
        lambda: patched(discover.Reader, "cells", min_max),
        (("discover span and finer cells: zcdp, add-remove, k=2", 600),),
    ),
    Plant(
        "a shift that follows the table",
        shift_of_the_table,
        (("discover popular values together: zcdp, add-remove, k=1", 2000),),
    ),
    Plant(
        "cells without what is popular in the table",
        own_popular,
        (("discover coarse cells: zcdp, add-remove, k=1", 600),),
    ),
    Plant("the same noise reused", wrapped(Reused), (("measure two marginals: pure, add-remove, k=1", 400),)),
    Plant("noise from a fixed seed", wrapped(Seeded), ((ROWS, 400), (RELEASE, 640))),
    Plant(
        "float rounding: low bits", wrapped(lambda noise: Floating(noise, late=False)), ((MARGINAL, 3200),)
    ),
    Plant(
        "float rounding: noise rounded, on a large scale",
        wrapped(lambda noise: Floating(noise, late=True)),
        (("measure rows on a scale of 2^57: pure, add-remove, k=1", 400),),
    ),
    Plant(
        "a resumed run that measures afresh",
        lambda: patched(Journal, "replay", measured_afresh),
        (("measure rows, resumed twice: pure, add-remove, k=1", 3600), (RESUMED, 1600)),
    ),
    Plant(
        "a threshold with four times its delta",
        quarter_of_delta,
        (("discover value of one person: zcdp, add-remove, k=1", 4000),),
    ),
)
