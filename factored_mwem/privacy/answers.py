"""PrivateAnswers: the true answers to questions of several kinds, sealed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.rows import SCORE_CUTOFF, SCORE_GRID, Ahead, Sealed, SealedQuery
from factored_mwem.tables.inputs.source import Private
from factored_mwem.workload.queries.base import Questions


class TrueAnswers(Private):
    """All answers, `int64[answer]`; question q has those from `starts[q]` to `starts[q + 1]`."""

    __slots__ = ("answers", "starts")

    def __init__(self, answers: np.ndarray, starts: np.ndarray) -> None:
        self.answers, self.starts = answers, starts

    def exact(self, question: int) -> np.ndarray:
        """int64: the answers to one question."""
        return self.answers[self.starts[question] : self.starts[question + 1]]

    def scores(self, answers: np.ndarray) -> np.ndarray:
        """int64[question]: the sum over its answers of |model - truth| (SCORE_GRID a record).

        `answers: float64` are the model's; they are rounded to the grid before the truth is taken off, so a
        score moves by no more than the question's answers do together.
        """
        kept = np.clip(np.nan_to_num(answers), -SCORE_CUTOFF, SCORE_CUTOFF)
        # a score adds up all cells of a table
        most = np.maximum(np.add.reduceat(np.abs(kept), self.starts[:-1]), SCORE_CUTOFF)
        scaled = kept * np.repeat(SCORE_CUTOFF / most, np.diff(self.starts)) * SCORE_GRID
        grid = np.rint(scaled).astype(np.int64)
        return np.add.reduceat(np.abs(grid - self.answers * SCORE_GRID), self.starts[:-1])


class PrivateAnswers(Sealed):
    """The answers to questions of several `kinds`, one after the other; where each begins is public."""

    __slots__ = ("kinds", "starts")

    def __init__(self, contents: TrueAnswers, names: Sequence[str], kinds: Sequence[Questions]) -> None:
        super().__init__(contents, names)
        self.kinds, self.starts = tuple(kinds), contents.starts

    @classmethod
    def of(cls, rows: PrivateRows, domain: Domain, kinds: Sequence[Questions]) -> PrivateAnswers:
        """The answers of `rows` to all questions of these kinds, sealed at once."""
        cells = np.concatenate([kind.cells for kind in kinds])
        starts = np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)
        ahead = Ahead(rows._contents, [kind.positions(q) for kind in kinds for q in range(len(kind.cells))])
        answers = np.concatenate([kind.answers(ahead) for kind in kinds]).astype(np.int64)
        return cls(TrueAnswers(answers, starts), domain.names, kinds)

    def kind_of(self, question: int) -> tuple[Questions, int]:
        """The kind of a question and its number within it."""
        for kind in self.kinds:
            if question < len(kind.cells):
                return kind, question
            question -= len(kind.cells)
        raise IndexError(question)

    def query(self, question: int, unit: Unit) -> SealedQuery:
        """A question moves as its kind says; its attributes are ascending."""
        kind, number = self.kind_of(question)
        at = kind.positions(number)
        return SealedQuery(tuple(self.names[a] for a in at), at, kind.l1(unit), kind.l2_squared(unit))

    def score_sensitivity(self, unit: Unit) -> int:
        """The largest among the kinds counts for all: questions of several kinds compete."""
        return max(kind.l1(unit) for kind in self.kinds)
