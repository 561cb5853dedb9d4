"""A session of questions under way: which of them the model answers, which are measured, and what is said of
each.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.accounting.unit import Neighbours
from factored_mwem.answers.query import Query
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import BudgetExceeded, InputError
from factored_mwem.files import IfExists
from factored_mwem.interactive.factored import Factored
from factored_mwem.interactive.mechanism import Online, Source, Subject, Told
from factored_mwem.interactive.question import NOBODY, Question
from factored_mwem.pipeline.assumptions import Assumption
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.statement import Statement, statement_of
from factored_mwem.pipeline.task import Opened, Task
from factored_mwem.privacy.asked import Compared, Part
from factored_mwem.privacy.counts import PrivateQuestions
from factored_mwem.privacy.session import Measurement, grains_of
from factored_mwem.tables.labels import Label

MAX_KEPT = 512
"""Cells of one measurement that are kept as answers to questions of their own."""
NOTHING_TO_SAVE = "a session that began without --model has no release to save; leave out --save"
UNLEARNT = "the model could not take it in: its cliques would exceed the cell cap"


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """An answer: counts of the groups (`labels` by `columns`), `values: float64[group]`, each within `bound`
    records of the truth, all at once with the session's probability; their `source`; and the session's
    epsilon so far and what is left of it.
    """

    query: str
    columns: tuple[str, ...]
    labels: tuple[tuple[Label, ...], ...]
    values: np.ndarray
    bound: float
    source: Source
    spent: float
    left: float
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """The count of a question without groups."""
        (found,) = self.values.tolist()
        return float(found)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        groups = [
            {"labels": list(labels), "value": value}
            for labels, value in zip(self.labels, self.values.tolist(), strict=True)
        ]
        return {
            "query": self.query,
            "columns": list(self.columns),
            "groups": groups,
            "bound": self.bound,
            "source": self.source,
            "spent": self.spent,
            "left": self.left,
            "notes": list(self.notes),
        }


@dataclass(slots=True, eq=False)
class Asking:
    """A session under way; `ask` makes one."""

    domain: Domain
    model: Factored
    release: Release | None
    assumptions: tuple[Assumption, ...]
    """What the promise rests on."""
    _task: Task
    _opened: Opened
    _online: Online
    _sealed: PrivateQuestions = field(repr=False)
    _prices: dict[Fraction, float] = field(default_factory=dict)

    @property
    def alpha(self) -> float:
        """How far an answer may be off, in records."""
        return self._online.prices.alpha

    @property
    def counts(self) -> dict[str, int]:
        """Answers so far, by source."""
        return dict(self._online.counts)

    @property
    def tests(self) -> int:
        """Sparse vector tests begun so far."""
        return self._online.tests

    @property
    def spent(self) -> float:
        """Epsilon, at the session's delta, that what was drawn amounts to."""
        accountant = self._opened.session.accountant
        if accountant.spent not in self._prices:
            self._prices[accountant.spent] = accountant.guarantee()[0] if accountant.entries else 0.0
        return self._prices[accountant.spent]

    @property
    def left(self) -> float:
        """Epsilon that is left of the session's."""
        return max(0.0, self._opened.session.accountant.budget.epsilon - self.spent)

    def answer(self, query: Query | str) -> Response:
        """The answer to a query, or to a text that asks one. InputError, from public facts and with nothing
        spent, where it is none; BudgetExceeded where what is left is not enough for it.
        """
        question = Question.of(query, self.domain)
        asked = [cell for cell in question.wanted if cell != NOBODY]
        if not asked:
            self._online.counts["public"] += 1
            return self._response(question, Told(np.zeros(len(question.wanted)), 0.0, "public"))
        subject = self._subject(question)
        if subject.key not in self._online.known:
            run = self._opened.run
            if run.complete and run.noted is None:
                raise InputError(
                    "this session was closed: it repeats its answers and gives no others; begin another with "
                    "another --run-id"
                )
            run.note({"ask": question.text})
        told = self._online.answer(subject)
        values = np.zeros(len(question.wanted))
        values[np.array(question.wanted) != NOBODY] = told.values
        return self._response(question, replace(told, values=values))

    @property
    def unit(self) -> str:
        """What two tables differ in that the promise is about."""
        unit = self._opened.session.unit
        rows = "one row" if unit.contributions == 1 else f"up to {unit.contributions:,} rows of one person"
        change = "added or removed" if unit.neighbours is Neighbours.ADD_REMOVE else "exchanged for another's"
        return f"{rows} {change}"

    @property
    def promise(self) -> str:
        """What the session promises, to whom, in a line."""
        budget = self._opened.session.accountant.budget
        kind = f"({budget.epsilon:g}, {budget.delta:g})" if budget.delta else f"{budget.epsilon:g}"
        return f"{kind}-differential privacy for the whole session, of tables that differ in {self.unit}"

    def statement(self) -> Statement:
        """What may be published of the session: the promise, every charge so far, and what it rests on."""
        return statement_of(self._task, self._opened, unit=self.unit, assumptions=self.assumptions)

    def _subject(self, question: Question) -> Subject:
        """The question as the mechanism takes it; groups that must be empty are left out."""
        held = np.array(question.wanted) != NOBODY
        cells = tuple(cell for cell in question.wanted if cell != NOBODY)
        total = self.model.total
        believed = np.clip(self.model.answers(question)[held], 0.0, total)
        alone = len(cells) == 1 and self._opened.session.unit.neighbours is Neighbours.REPLACE
        part = Part(question.cut, cells[0] if alone else None)
        compared = Compared(question.cut, cells, tuple(grains_of(value) for value in believed))

        def learn(measured: Measurement) -> tuple[np.ndarray, bool]:
            values = measured.noisy if alone else measured.noisy[list(cells)]
            return np.maximum(values.astype(np.float64), 0.0), self._learn(question, part, measured)

        key = _key(question, cells)
        return Subject(
            key,
            self._kind(question, believed),
            believed,
            self._sealed,
            part,
            compared,
            learn,
        )

    def _kind(self, question: Question, believed: np.ndarray) -> Hashable:
        """Queries alike, for the rule: whether a clique holds the cut, and how large an error could be: as
        the greatest count, or what is left of the records.
        """
        total = self.model.total
        share = float(np.minimum(believed, total - believed).max()) / self.alpha
        return self.model.holds(question.cut), round(math.log2(max(share, 2**-3)))

    def _learn(self, question: Question, part: Part, measured: Measurement) -> bool:
        """Tell the model, and keep the cells that nobody has asked for yet."""
        cut, noisy = question.cut, measured.noisy
        if part.wanted is not None:  # of two cells: the one, and what is left of the records
            return self.model.learn_one(cut, part.wanted, float(noisy[0]), measured.stddev)
        if cut.cells <= MAX_KEPT:
            for cell, value in enumerate(noisy.tolist()):
                kept = Told(np.array([max(float(value), 0.0)]), self.alpha, "measured")
                self._online.known.setdefault(_key(question, (cell,)), kept)
        return self.model.learn(cut, noisy, measured.stddev)

    def _response(self, question: Question, told: Told) -> Response:
        notes = (UNLEARNT,) if told.source == "measured" and not told.updated else ()
        about = (question.text, question.columns, tuple(question.groups))
        return Response(*about, told.values, told.bound, told.source, self.spent, self.left, notes)

    def replay(self) -> None:
        """Ask again what an earlier attempt of the same run was asked: what it drew is not drawn again."""
        run = self._opened.run
        while (noted := run.noted) is not None:
            with contextlib.suppress(BudgetExceeded):  # as it ended then
                self.answer(noted["ask"])

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model as it is now, which `fmwem sample` and `fmwem answer` read. InputError for a
        session that began without a release's model.
        """
        if self.release is None:
            raise InputError(NOTHING_TO_SAVE)
        manifest = self.release.manifest
        note = (
            f"the model was updated by {self.counts['measured']} answers measured in a session of "
            f"`fmwem ask`, which spent epsilon {self.spent:.6g} more"
        )
        told = manifest.model_copy(update={"notes": (*manifest.notes, note), "certificate": None})
        updated = replace(self.release, model=self.model.forest, manifest=told)
        updated.save(path, overwrite=IfExists(overwrite))


def _key(question: Question, cells: Sequence[int]) -> Hashable:
    """The same for all questions that count the same records, group by group."""
    cut, found = question.cut, []
    for cell in cells:
        box = []
        rest = cell
        for a, classes, size in reversed(list(zip(*cut, cut.sizes, strict=True))):
            box.append((a, (classes == rest % size).tobytes()))
            rest //= size
        found.append(tuple(box))
    return tuple(found)
