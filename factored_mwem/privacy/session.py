"""Session: the one door to private numbers. Every verb charges the accountant before anything is read (a test
that `exceeds` asks was charged when it began), and hands out nothing without noise. Its own are `select`,
`measure` and `exceeds`; those of other mechanisms are functions that take a session: `discover`,
`measure_residuals`, `measure_smooth`, `measure_by_laplace`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from factored_mwem.accounting.accountant import (
    TESTED,
    Accountant,
    Charge,
    additive,
    scale_for,
    selecting,
    testing,
)
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.kernels.scoring import Answers
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.noise import Noise, NoisyThreshold
from factored_mwem.privacy.rows import SCORE_CUTOFF, SCORE_GRID, Sealed
from factored_mwem.tables.backends.source import IN_MEMORY, Source, Spill
from factored_mwem.workload.candidates import Candidates

Stage = Literal["discover", "select", "measure", "certify", "test"]
"""What a charge was for, as the ledger's entries name it."""


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """The scale of additive noise: standard deviation of a Gaussian, b of Laplace."""

    value: float
    composition: Composition

    @property
    def stddev(self) -> float:
        """Standard deviation: Laplace(b) has sqrt(2) b."""
        return self.value if self.composition is Composition.ZCDP else self.value * 2**0.5

    @property
    def mean_abs(self) -> float:
        """Mean absolute value: sqrt(2 / pi) sigma for a Gaussian, b for Laplace."""
        return self.value * (2 / np.pi) ** 0.5 if self.composition is Composition.ZCDP else self.value


def noise_for(cost: Fraction, sensitivity: int, composition: Composition) -> NoiseScale:
    """The noise that `cost` pays for: a public fact, nothing is spent."""
    return NoiseScale(scale_for(additive(composition), cost, sensitivity=sensitivity), composition)


def marginal_noise(cost: Fraction, unit: Unit, composition: Composition) -> NoiseScale:
    """The noise of a marginal measured at `cost`: a public fact, nothing is spent."""
    return noise_for(cost, unit.of_marginal(composition), composition)


@dataclass(frozen=True, slots=True, eq=False)
class Eligible:
    """The candidates `which: int64[k]` of a round; `penalty: float64[k]`, the noise (records) expected of
    measuring each; `weights: float64[k]` in (0, 1], how much an error counts (None: 1). Public.
    """

    which: np.ndarray
    penalty: np.ndarray
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.which)


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Noisy answers, `noisy: int64[cells]` in records. Of a marginal: all its cells, row-major over
    `positions`, which are variables (see levels.py). Of a query of another kind: what it is about, ascending.
    """

    positions: tuple[int, ...]
    noisy: np.ndarray
    scale: NoiseScale

    @property
    def stddev(self) -> float:
        """Standard deviation of a cell's noise."""
        return self.scale.stddev


@dataclass(slots=True, eq=False)
class SparseVector:
    """A sparse vector test: is a true answer further from the model's than a public threshold? Asked of one
    query after another, whatever they are, for one charge, until it says yes.
    """

    charge: Charge
    sensitivity: int
    """The most that any score may change, in records."""
    _begun: NoisyThreshold = field(repr=False)
    open: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """The accountant that pays, the unit protected, the noise, the sealed rows, and where their codes lie.
    Its verbs, and the functions that the head of this file names, are the only way to these rows.
    """

    accountant: Accountant
    unit: Unit
    noise: Noise
    _rows: PrivateRows | None = None
    spill: Spill = IN_MEMORY

    def _unseal(self, sealed: Sealed, charge: Charge) -> Any:
        """The private contents, once `charge` is paid: the one door. BudgetExceeded leaves it shut."""
        self.accountant.charge(charge)
        return sealed.reveal()

    def _unseal_again(self, sealed: Sealed, test: SparseVector) -> Any:
        """The private contents for one more look of a test, which was paid for when it began."""
        check_paid(test, self.accountant)
        return sealed.reveal()

    def encode(self, domain: Domain, table: Source) -> Session:
        """The same session over the rows of `table`, encoded and sealed at once."""
        return replace(self, _rows=PrivateRows.of(domain, table, self.spill))

    def foresee(self, candidates: Candidates) -> Session:
        """The same session, told which marginals may be counted: see `PrivateRows.foresee`."""
        return replace(self, _rows=self.rows.foresee(candidates))

    def paid_by(self, accountant: Accountant) -> Session:
        """The same session, paid by another part of the same budget."""
        if accountant.root is not self.accountant.root:
            raise AssertionError("an accountant of another release")
        return replace(self, accountant=accountant)

    def protecting(self, unit: Unit) -> Session:
        """The same session, before any rows are encoded, for a table in which `unit` is what one person
        comes to.
        """
        if self._rows is not None:
            raise AssertionError("rows were encoded for another unit")
        return replace(self, unit=unit)

    def recode(self, domain: Domain, codes: Mapping[str, np.ndarray]) -> Session:
        """The session with its rows in another domain, by new codes `codes[name]: int64[old code]`."""
        return replace(self, _rows=self.rows.recode(domain, codes))

    @property
    def rows(self) -> PrivateRows:
        assert self._rows is not None, "nothing was encoded yet"
        return self._rows

    @property
    def public_total(self) -> int | None:
        """The number of rows where all neighbouring tables share it; else None."""
        return self.rows.public_total(self.unit)

    @property
    def composition(self) -> Composition:
        return self.accountant.budget.composition

    @property
    def left(self) -> Fraction:
        """What is left to spend."""
        return self.accountant.left

    def marginal_noise(self, cost: Fraction) -> NoiseScale:
        """The noise of a marginal measured at `cost`: a public fact, nothing is spent."""
        return marginal_noise(cost, self.unit, self.composition)

    def noise_of(self, sealed: Sealed, what: Any, cost: Fraction) -> NoiseScale:
        """The noise with which `measure` would answer at `cost`: a public fact, nothing is spent."""
        return noise_for(cost, sealed.sensitivity(what, self.unit, self.composition), self.composition)

    def select(
        self,
        sealed: Sealed,
        answers: Answers | np.ndarray | None,
        eligible: Eligible,
        *,
        cost: Fraction,
        stage: Stage = "select",
    ) -> int:
        """The candidate among `eligible` that the model answers worst, by noisy maximum. Cost: `cost`.

        Score: L1 distance of the true answers to the model's `answers`, less the penalty (and what `answers`
        say that noise does to the model's cells), times the weight. The model, what is taken off and the
        weights are public, so a score moves as far as the true answers do:
        `score_sensitivity`, which is k or 2 k for marginals. Source: HLM12 Fig. 1 step 2(a); over whole
        marginals as in their section 3.3.
        """
        mechanism = selecting(self.composition)
        sensitivity = sealed.score_sensitivity(self.unit) * SCORE_GRID
        scale = scale_for(mechanism, cost, sensitivity=sensitivity)
        contents = self._unseal(sealed, Charge(stage, mechanism, (), scale, sensitivity))
        penalty = np.rint(np.minimum(eligible.penalty, SCORE_CUTOFF) * SCORE_GRID).astype(np.int64)
        scores = contents.scores(answers)[eligible.which] - penalty
        if eligible.weights is not None:
            scores = weighted(scores, eligible.weights)
        return int(eligible.which[self.noise.select(scores, scale=scale)])

    def measure(self, sealed: Sealed, what: Any, *, cost: Fraction, stage: Stage = "measure") -> Measurement:
        """Discrete noise on every true answer. Of rows, `what` is the variables of a marginal (none: the
        number of rows); of answers, the number of a question; else see what is sealed. Cost: `cost`.

        Sensitivity: as `sealed` says; of a marginal L1 k (add-remove) or 2 k (replace), L2 k or sqrt(2) k,
        whatever the number of cells. Source: HLM12 Fig. 1 step 2(b) and section 3.3; noise: Canonne, Kamath,
        Steinke 2020.
        """
        query = sealed.query(what, self.unit)
        sensitivity = query.sensitivity(self.composition)
        scale = noise_for(cost, sensitivity, self.composition)
        charge = Charge(stage, additive(self.composition), query.subject, scale.value, sensitivity)
        contents = self._unseal(sealed, charge)
        return Measurement(query.positions, self.noise.add(contents.exact(what), scale=scale.value), scale)

    def begin(self, sensitivity: int, *, cost: Fraction) -> SparseVector:
        """A test of queries whose answers move by at most `sensitivity` (records, L1). Cost: `cost`."""
        mechanism, grains = testing(self.composition), sensitivity * SCORE_GRID
        scale = scale_for(mechanism, cost, sensitivity=grains)
        charge = Charge("test", mechanism, (), scale, grains)
        self.accountant.charge(charge)
        return SparseVector(charge, sensitivity, self.noise.begin(scale=scale))

    def exceeds(
        self, test: SparseVector, sealed: Sealed, what: Any, *, answer: float, threshold: float
    ) -> bool | None:
        """Whether the true answer to `what` lies further than `threshold` (records) from the model's
        `answer`, as far as noise can tell; None if the noise on the threshold went with an attempt that
        died, and another test must be begun. After either of yes and None the test is over. Cost: none beside
        the test's own.

        Score: |answer - truth| - threshold in grains of SCORE_GRID a record; answer and threshold are public,
        so it moves as far as the true answer does. Source: sparse vector, Dwork and Roth 2014, algorithm 1;
        noise as Lyu, Su, Li 2017, algorithm 7 with c = 1, on whole numbers.
        """
        if sealed.sensitivity(what, self.unit, Composition.PURE) > test.sensitivity:
            raise AssertionError("the answer may move further than the test was begun for")
        level = grains_of(threshold)
        contents = self._unseal_again(sealed, test)
        score = contents.gap(what, grains_of(answer)) - level
        said = self.noise.exceeds(score, test._begun, scale=scale_on_score(test.charge.scale))
        test.open = said is False
        return said


def scale_on_score(scale: float) -> float:
    """The noise on a score, rounded up, where that on its threshold is of `scale`."""
    return math.nextafter(scale * float(TESTED), math.inf)


def grains_of(records: float) -> int:
    """Public records in grains of SCORE_GRID a record, as scores count."""
    return round(min(max(records, -SCORE_CUTOFF), SCORE_CUTOFF) * SCORE_GRID)


def check_paid(test: SparseVector, accountant: Accountant) -> None:
    """AssertionError if a test is over, or was paid by somebody else."""
    if not test.open or not any(entry is test.charge for entry in accountant.entries):
        raise AssertionError("a test that is over, or was never paid for")


def weighted(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """int64: scores times weights in 256ths, rounded down; below zero, where noise is all there is to win, a
    score stays as it is. Two whole scores that differ by d end at most d apart, for no weight is above 1.
    """
    parts = np.clip(np.floor(weights * 256), 1, 256).astype(np.int64)
    return np.where(scores < 0, scores, (scores >> 8) * parts + ((scores & 255) * parts >> 8))
