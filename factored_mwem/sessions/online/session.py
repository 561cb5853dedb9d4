"""An open session of questions: which of them the model answers, which are measured, and what each answer
states.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.accounting.unit import Neighbours
from factored_mwem.answers.query import Query
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import BudgetExceeded, InputError
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.record.assumptions import Assumption
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.saving import model_file
from factored_mwem.pipeline.spending import Spent
from factored_mwem.privacy.other.cuts import CutCells, CutGap, PrivateQuestions
from factored_mwem.privacy.session import Measurement, grains_of
from factored_mwem.sessions.online.factored import Factored
from factored_mwem.sessions.online.mechanism import Online, OnlineAnswer, OnlineQuery, Source, Standing
from factored_mwem.sessions.online.question import NOBODY, CountQuestion
from factored_mwem.tables.codes.decode import Label
from factored_mwem.tables.outputs.targets import Target, target_of

MAX_KEPT = 512
"""Most cells of one measurement that are kept as answers to later questions."""
NOTHING_TO_SAVE = "a session that began without --model has no release to save; leave out --save"
UNLEARNT = "the answer could not be added to the model: its cliques would exceed the cell cap"


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """Counts of the groups (`labels` by `columns`), `values: float64[group]`, all within `bound` records of
    the truth with the session's probability; their `source`; the epsilon `spent` so far, and what is `left`.
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
        (value,) = self.values.tolist()
        return float(value)

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
class Asking(Standing):
    """An open session; `ask` makes one."""

    domain: Domain
    model: Factored
    release: Release | None
    assumptions: dict[str, Assumption]
    """The assumptions of the promise."""
    _spent: Spent
    _online: Online
    _sealed: PrivateQuestions = field(repr=False)

    @property
    def tests(self) -> int:
        """Sparse vector tests begun so far."""
        return self._online.tests

    def answer(self, query: Query | str) -> Response:
        """The answer to a query, or to its text. Raises InputError, from public facts and with nothing spent,
        if it is not a query that can be asked; BudgetExceeded if the budget left is not enough.
        """
        question = CountQuestion.of(query, self.domain)
        cells = [cell for cell in question.wanted if cell != NOBODY]
        if not cells:
            self._online.counts["public"] += 1
            return self._response(question, OnlineAnswer(np.zeros(len(question.wanted)), 0.0, "public"))
        online = self._query(question)
        if online.key not in self._online.known:
            run = self._spent.run
            if run.complete and run.noted is None:
                raise InputError(
                    "this session was closed: it repeats its answers and gives no others; begin another with "
                    "another --run-id"
                )
            run.note({"ask": question.text})
        answer = self._online.answer(online)
        values = np.zeros(len(question.wanted))
        values[np.array(question.wanted) != NOBODY] = answer.values
        return self._response(question, replace(answer, values=values))

    @property
    def unit(self) -> str:
        """The privacy unit: what two neighbouring tables differ in."""
        return self._spent.spending.promise.in_words()

    @property
    def promise(self) -> str:
        """What the session promises, to whom, in a line."""
        promise = self._spent.spending.promise
        numbers = f"({promise.epsilon:g}, {promise.delta:g})" if promise.delta else f"{promise.epsilon:g}"
        return f"{numbers}-differential privacy for the whole session, of tables that differ in {self.unit}"

    def statement(self) -> Statement:
        """The public record of the session: the promise, every charge so far, and its assumptions."""
        return self._spent.statement(self.assumptions)

    def _query(self, question: CountQuestion) -> OnlineQuery:
        """The question as a query of the mechanism; groups that must be empty are left out."""
        held = np.array(question.wanted) != NOBODY
        cells = tuple(cell for cell in question.wanted if cell != NOBODY)
        total = self.model.total
        believed = np.clip(self.model.answers(question)[held], 0.0, total)
        alone = len(cells) == 1 and self._spent.session.unit.neighbours is Neighbours.REPLACE
        part = CutCells(question.cut, cells[0] if alone else None)
        compared = CutGap(question.cut, cells, tuple(grains_of(value) for value in believed))

        def learn(measured: Measurement) -> tuple[np.ndarray, bool]:
            values = measured.noisy if alone else measured.noisy[list(cells)]
            return np.maximum(values.astype(np.float64), 0.0), self._learn(question, part, measured)

        key = _key(question, cells)
        return OnlineQuery(key, self._kind(question, believed), believed, self._sealed, part, compared, learn)

    def _kind(self, question: CountQuestion, believed: np.ndarray) -> Hashable:
        """The kind of a query, for the rule: whether a clique holds the cut, and how large errors may be."""
        total = self.model.total
        share = float(np.minimum(believed, total - believed).max()) / self.alpha
        return self.model.holds(question.cut), round(math.log2(max(share, 2**-3)))

    def _learn(self, question: CountQuestion, part: CutCells, measured: Measurement) -> bool:
        """Update the model, and keep the cells that no question has asked for yet."""
        cut, noisy = question.cut, measured.noisy
        if part.wanted is not None:  # a cut of two cells: the one, and all other records
            return self.model.learn_one(cut, part.wanted, float(noisy[0]), measured.stddev)
        if cut.cells <= MAX_KEPT:
            for cell, value in enumerate(noisy.tolist()):
                kept = OnlineAnswer(np.array([max(float(value), 0.0)]), self.alpha, "measured")
                self._online.known.setdefault(_key(question, (cell,)), kept)
        return self.model.learn(cut, noisy, measured.stddev)

    def _response(self, question: CountQuestion, answer: OnlineAnswer) -> Response:
        notes = (UNLEARNT,) if answer.source == "measured" and not answer.updated else ()
        about = (question.text, question.columns, tuple(question.groups))
        return Response(*about, answer.values, answer.bound, answer.source, self.spent, self.left, notes)

    def replay(self) -> None:
        """Repeat the questions of an earlier attempt of the same run; its noise is not drawn again."""
        run = self._spent.run
        while (noted := run.noted) is not None:
            with contextlib.suppress(BudgetExceeded):  # as it ended then
                self.answer(noted["ask"])

    def save(
        self, path: str | Path | Target, *, overwrite: bool = False, exists: IfExists | None = None
    ) -> None:
        """Write the model as it is now. Raises InputError if the session began without one."""
        if self.release is None:
            raise InputError(NOTHING_TO_SAVE)
        manifest = self.release.manifest
        note = (
            f"the model was updated by {self.counts['measured']} answers measured in a session of "
            f"`fmwem ask`, which spent epsilon {self.spent:.6g} more"
        )
        described = manifest.model_copy(update={"notes": (*manifest.notes, note), "certificate": None})
        updated = replace(self.release, model=self.model.forest, manifest=described)
        model_file.save(updated, target_of(path), exists or IfExists(overwrite))


def _key(question: CountQuestion, cells: Sequence[int]) -> Hashable:
    """A key that is equal for all questions that count the same records, group by group."""
    cut, boxes = question.cut, []
    for cell in cells:
        box = []
        rest = cell
        for a, classes, size in reversed(list(zip(*cut, cut.sizes, strict=True))):
            box.append((a, (classes == rest % size).tobytes()))
            rest //= size
        boxes.append(tuple(box))
    return tuple(boxes)
