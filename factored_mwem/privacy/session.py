"""select and measure: with `discover`, the only functions that read private counts. Each goes through
`Access.open`, which charges first.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from factored_mwem.accounting.accountant import Accountant, Charge, additive, scale_for, selecting
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.kernels.scoring import Answers, Coarser, Counts, distances
from factored_mwem.privacy.counts import PrivateAnswers, PrivateCounts, PrivateRows, Rows, Sealed, Tables
from factored_mwem.privacy.noise import Noise
from factored_mwem.workload.queries.base import Questions

SCORE_GRID = 2**20
"""Scores count records in units of 2^-20, so that model answers become integers and the sensitivity stays
exact.
"""
SCORE_CUTOFF = 2.0**40
"""A model's total and a penalty are cut off here before they become scores: beyond 2^42 they would overflow,
and the sensitivity with them.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """What every reading of private counts must go through: the ledger that pays, the unit protected, the
    noise.
    """

    ledger: Accountant
    unit: Unit
    noise: Noise

    def open(self, sealed: Sealed, entry: Charge) -> Any:
        """The private contents, once `entry` is charged: the one door to private numbers. BudgetExceeded
        leaves it shut.
        """
        self.ledger.charge(entry)
        return sealed.reveal()


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Noisy counts of one marginal: `noisy: int64[cells]` in records, row-major over `positions`, which are
    variables (see levels.py).
    """

    positions: tuple[int, ...]
    noisy: np.ndarray
    scale: float
    composition: Composition

    @property
    def stddev(self) -> float:
        """Standard deviation of a cell's noise."""
        return stddev_of(self.scale, self.composition)


def stddev_of(scale: float, composition: Composition) -> float:
    """Standard deviation of additive noise: Laplace(b) has sqrt(2) b."""
    return scale if composition is Composition.ZCDP else scale * 2**0.5


def expected_noise(scale: float, composition: Composition) -> float:
    """Mean absolute noise of a cell: sqrt(2 / pi) sigma for a Gaussian, b for Laplace."""
    return scale * (2 / np.pi) ** 0.5 if composition is Composition.ZCDP else scale


def measurement_scale(cost: Fraction, access: Access) -> float:
    """Noise scale of a marginal measured at `cost`: a public fact, nothing is spent."""
    mechanism = additive(access.ledger.budget.composition)
    return scale_for(mechanism, cost, sensitivity=_sensitivity(access))


def _sensitivity(access: Access) -> int:
    gaussian = access.ledger.budget.composition is Composition.ZCDP
    return access.unit.l2_squared_of_marginal if gaussian else access.unit.l1_of_marginal


def select(
    counts: PrivateCounts,
    answers: Answers,
    offered: np.ndarray,
    *,
    penalty: np.ndarray,
    cost: Fraction,
    access: Access,
    weights: np.ndarray | None = None,
) -> int:
    """The candidate among `offered: int64[k]` that the model answers about worst, by noisy maximum. Cost:
    `cost`.

    Score: L1 distance of the true marginal to the model's, less `penalty: float64[k]` (records; the noise
    expected of measuring it). `answers` holds the bases whose distance may have changed since the last call;
    the others' distances are kept. A score moves by at most k (add-remove) or 2 k (replace) records between
    neighbours, k rows a person: the model and the penalty are public. `weights: float64[k]` in (0, 1] make an
    error count less: rounded down to 256ths, they can only shrink what a score moves by. Source: HLM12 Fig. 1
    step 2(a), over whole marginals as in their section 3.3.
    """
    mechanism = selecting(access.ledger.budget.composition)
    sensitivity = access.unit.l1_of_score * SCORE_GRID
    scale = scale_for(mechanism, cost, sensitivity=sensitivity)
    tables: Tables = access.open(counts, Charge("select", mechanism, (), scale, sensitivity))
    with ThreadPoolExecutor(max_workers=2) as pool:
        for job in [
            pool.submit(_score, tables, answers.part(half))
            for half in np.array_split(np.arange(len(answers.which)), 2)
            if len(half)
        ]:
            job.result()
    scores = tables.distances[offered] - np.rint(np.minimum(penalty, SCORE_CUTOFF) * SCORE_GRID).astype(
        np.int64
    )
    if weights is not None:
        scores = weighted(scores, weights)
    return int(offered[access.noise.select(scores, scale=scale)])


def weighted(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """int64: scores times weights in 256ths, rounded down; below zero, where noise is all there is to win, a
    score stays as it is.

    Two whole scores that differ by d end at most d apart, for no weight is above 1.
    """
    parts = np.clip(np.floor(weights * 256), 1, 256).astype(np.int64)
    return np.where(scores < 0, scores, (scores >> 8) * parts + ((scores & 255) * parts >> 8))


def _score(tables: Tables, answers: Answers) -> None:
    """Bring the distances of the bases in `answers`, and of what is added up from them, up to date; still
    private.
    """
    candidates = tables.candidates
    capped = answers._replace(total=float(min(answers.total, SCORE_CUTOFF)))
    sizes, counts = candidates.sizes[answers.which], Counts(tables.counts, candidates.offsets)
    distances(capped, sizes, counts, float(SCORE_GRID), Coarser(*candidates.coarse), tables.distances)


def measure(
    counts: PrivateCounts | PrivateRows, positions: tuple[int, ...], *, cost: Fraction, access: Access
) -> Measurement:
    """The whole marginal over the variables `positions` with discrete noise on every cell; over none, the
    number of rows. Cost: `cost`.

    Cells are disjoint in rows, so the marginal's L1 sensitivity is k (add-remove) or 2 k (replace) and its L2
    sensitivity k or sqrt(2) k, whatever the number of cells. Source: HLM12 Fig. 1 step 2(b) and section 3.3;
    noise: Canonne, Kamath, Steinke 2020.
    """
    composition = access.ledger.budget.composition
    scale = measurement_scale(cost, access)
    names = tuple(counts.names[p] for p in positions)
    tables: Rows = access.open(
        counts, Charge("measure", additive(composition), names, scale, _sensitivity(access))
    )
    return Measurement(
        positions, access.noise.add(tables.marginal(positions), scale=scale), scale, composition
    )


def select_question(
    private: PrivateAnswers,
    answers: np.ndarray,
    offered: np.ndarray,
    *,
    penalty: np.ndarray,
    weights: np.ndarray,
    cost: Fraction,
    access: Access,
) -> int:
    """The question among `offered: int64[k]` (numbered over all kinds) that the model answers worst, by noisy
    maximum. Cost: `cost`.

    Score: the sum over a question's answers of |model - truth|, less `penalty: float64[k]` records, times
    `weights: float64[k]`. `answers: float64` are the model's, public; they are rounded to the grid before the
    truth is taken off, so a score is an integer and moves by no more than the question's answers do together
    (`l1` of its kind, times the grid). The largest `l1` among the kinds counts for all. Source: HLM12 Fig. 1
    step 2(a).
    """
    mechanism = selecting(access.ledger.budget.composition)
    sensitivity = max(kind.l1(access.unit) for kind in private.kinds) * SCORE_GRID
    scale = scale_for(mechanism, cost, sensitivity=sensitivity)
    truth = access.open(private, Charge("select", mechanism, (), scale, sensitivity))
    kept = np.clip(np.nan_to_num(answers), -SCORE_CUTOFF, SCORE_CUTOFF)
    most = np.maximum(
        np.add.reduceat(np.abs(kept), private.starts[:-1]), SCORE_CUTOFF
    )  # a score adds up all cells of a table
    grid = np.rint(kept * np.repeat(SCORE_CUTOFF / most, np.diff(private.starts)) * SCORE_GRID).astype(
        np.int64
    )
    scores = np.add.reduceat(np.abs(grid - truth * SCORE_GRID), private.starts[:-1])[offered]
    scores = weighted(
        scores - np.rint(np.minimum(penalty, SCORE_CUTOFF) * SCORE_GRID).astype(np.int64), weights
    )
    return int(offered[access.noise.select(scores, scale=scale)])


def measure_question(
    private: PrivateAnswers, question: int, *, cost: Fraction, access: Access
) -> tuple[np.ndarray, float]:
    """(noisy answers: int64, noise scale) of one question. Cost: `cost`; sensitivity as its kind says.
    Source: HLM12 Fig. 1 step 2(b).
    """
    composition = access.ledger.budget.composition
    kind, number = private.kind_of(question)
    sensitivity = question_sensitivity(kind, access)
    scale = scale_for(additive(composition), cost, sensitivity=sensitivity)
    names = tuple(private.names[p] for p in kind.positions(number))
    truth = access.open(private, Charge("measure", additive(composition), names, scale, sensitivity))
    return access.noise.add(
        truth[private.starts[question] : private.starts[question + 1]], scale=scale
    ), scale


def question_sensitivity(kind: Questions, access: Access) -> int:
    """Squared L2 norm (Laplace: L1) of what one person changes in the answers to a question of this kind."""
    return (
        kind.l2_squared(access.unit)
        if access.ledger.budget.composition is Composition.ZCDP
        else kind.l1(access.unit)
    )


def question_scales(kinds: Sequence[Questions], cost: Fraction, access: Access) -> list[float]:
    """Noise scale of a question of each kind measured at `cost`: a public fact, nothing is spent."""
    mechanism = additive(access.ledger.budget.composition)
    return [scale_for(mechanism, cost, sensitivity=question_sensitivity(kind, access)) for kind in kinds]
