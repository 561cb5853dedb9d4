"""What a mechanism reports while it runs, and what it hands over at the end: public facts only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from factored_mwem.mechanisms.schedule import Schedule
from factored_mwem.mechanisms.total import Total
from factored_mwem.model.forest import Forest
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement


@dataclass(frozen=True, slots=True)
class Progress:
    """A round: what it measured, how large the model is now, and the share of the budget that is spent.

    >>> import pyarrow as pa
    >>> from factored_mwem import release
    >>> rounds = []
    >>> bits = pa.table({name: [0, 1, 1] for name in "abc"})
    >>> _ = release(bits, 2, domain=dict.fromkeys("abc", 2), rounds=2, report=rounds.append)
    >>> all(0 < each.spent <= 1 for each in rounds)
    True
    """

    round: int
    rounds: int
    attributes: tuple[str, ...]
    components: int
    largest: int
    cliques: int
    cells: int
    spent: float

    @classmethod
    def of(
        cls, schedule: Schedule, attributes: Sequence[str], components: int, tables: Sequence[int]
    ) -> Progress:
        """`tables`: the cells of each of the model's tables."""
        cells, done = sum(tables), schedule.done
        return cls(
            done,
            schedule.rounds,
            tuple(attributes),
            components,
            max(tables),
            len(tables),
            cells,
            schedule.spent,
        )


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Answered:
    """A question that was measured, in words; how many answers it has, and the scale of their noise."""

    question: str
    answers: int
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The fitted model, and what it is made from: marginals, residuals at once, or questions of other kinds.

    `notes`: what a reader should know of the plan, from public facts.
    """

    model: Forest
    measurements: list[Measurement]
    rounds: int
    total: Total
    residuals: Sequence[Residuals] = ()
    notes: tuple[str, ...] = ()
    questions: tuple[Answered, ...] = ()
