"""select and measure for questions of any kind, see factored_mwem/queries: one answer, or a table, instead of whole marginals alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from factored_mwem.counts import PrivateAnswers
from factored_mwem.privacy.access import MOST_ROWS, SCORE_GRID, Access, weighted
from factored_mwem.privacy.ledger import Entry, additive, scale_for, selecting
from factored_mwem.privacy.noise import Composition
from factored_mwem.queries import Questions


def select_question(
    private: PrivateAnswers, answers: np.ndarray, offered: np.ndarray, *, penalty: np.ndarray, weights: np.ndarray, cost: Fraction, access: Access
) -> int:
    """The question among `offered: int64[k]` (numbered over all kinds) that the model answers worst, by noisy maximum. Cost: `cost`.

    Score: the sum over a question's answers of |model - truth|, less `penalty: float64[k]` records, times `weights: float64[k]`. `answers: float64`
    are the model's, public; they are rounded to the grid before the truth is taken off, so a score is an integer and moves by no more than the
    question's answers do together (`l1` of its kind, times the grid). The largest `l1` among the kinds counts for all.
    Source: HLM12 Fig. 1 step 2(a).
    """
    mechanism = selecting(access.ledger.budget.composition)
    sensitivity = max(kind.l1(access.unit) for kind in private.kinds) * SCORE_GRID
    scale = scale_for(mechanism, cost, sensitivity=sensitivity)
    truth = access.open(private, Entry("select", mechanism, (), scale, sensitivity))
    kept = np.clip(np.nan_to_num(answers), -MOST_ROWS, MOST_ROWS)
    most = np.maximum(np.add.reduceat(np.abs(kept), private.starts[:-1]), MOST_ROWS)  # a score adds up all cells of a table
    grid = np.rint(kept * np.repeat(MOST_ROWS / most, np.diff(private.starts)) * SCORE_GRID).astype(np.int64)
    scores = np.add.reduceat(np.abs(grid - truth * SCORE_GRID), private.starts[:-1])[offered]
    scores = weighted(scores - np.rint(np.minimum(penalty, MOST_ROWS) * SCORE_GRID).astype(np.int64), weights)
    return int(offered[access.noise.select(scores, scale=scale)])


def measure_question(private: PrivateAnswers, question: int, *, cost: Fraction, access: Access) -> tuple[np.ndarray, float]:
    """(noisy answers: int64, noise scale) of one question. Cost: `cost`; sensitivity as its kind says. Source: HLM12 Fig. 1 step 2(b)."""
    composition = access.ledger.budget.composition
    kind, number = private.kind_of(question)
    sensitivity = question_sensitivity(kind, access)
    scale = scale_for(additive(composition), cost, sensitivity=sensitivity)
    names = tuple(private.names[p] for p in kind.positions(number))
    truth = access.open(private, Entry("measure", additive(composition), names, scale, sensitivity))
    return access.noise.add(truth[private.starts[question] : private.starts[question + 1]], scale=scale), scale


def question_sensitivity(kind: Questions, access: Access) -> int:
    """Squared L2 norm (Laplace: L1) of what one person changes in the answers to a question of this kind."""
    return kind.l2_squared(access.unit) if access.ledger.budget.composition is Composition.ZCDP else kind.l1(access.unit)


def question_scales(kinds: Sequence[Questions], cost: Fraction, access: Access) -> list[float]:
    """Noise scale of a question of each kind measured at `cost`: a public fact, nothing is spent."""
    mechanism = additive(access.ledger.budget.composition)
    return [scale_for(mechanism, cost, sensitivity=question_sensitivity(kind, access)) for kind in kinds]
