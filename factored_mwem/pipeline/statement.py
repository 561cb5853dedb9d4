"""Statement: the publishable manifest of what is no table: a graph, a sketch, a statistic, a session of
queries. It holds only facts safe to publish.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pydantic import BaseModel, ConfigDict

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.conversion import Composition, library_version
from factored_mwem.pipeline.assumptions import Assumption
from factored_mwem.pipeline.describe import charge_record
from factored_mwem.pipeline.manifest import ChargeRecord, recomputed, tool_version
from factored_mwem.pipeline.task import Opened, Task

VERSION = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Promise(_Part):
    """What holds, as long as the assumptions do: `spent_epsilon` is what the entries amount to, never above
    `epsilon`. `unit` says in words what two neighbouring inputs differ in.
    """

    epsilon: float
    delta: float
    spent_epsilon: float
    unit: str
    neighbours: str
    contributions: int
    composition: Composition
    statement: str


class Statement(_Part):
    """The statement as a whole. `settings` are public choices; `chain_head` is a release's."""

    statement_version: int = VERSION
    tool: str = "factored-mwem"
    tool_version: str
    kind: str
    created: datetime.date
    promise: Promise
    ledger: tuple[ChargeRecord, ...]
    settings: dict[str, Any]
    assumptions: tuple[Assumption, ...]
    noise_library: str
    chain_head: str | None = None

    def recompute(self) -> float:
        """epsilon from the entries alone, as a third party would compute it."""
        p = self.promise
        return recomputed(self.ledger, Budget(p.epsilon, p.delta, p.composition, Fraction(0), Fraction(0)))


def statement_of(task: Task, opened: Opened, *, unit: str, assumptions: Sequence[Assumption]) -> Statement:
    """The statement of a task whose noise is drawn; `unit`: what neighbours differ in, such as "one edge
    added or removed". Everything in it is public.
    """
    accountant, policy = opened.session.accountant, task.policy
    epsilon, _ = accountant.guarantee()
    delta = policy.delta
    kind = f"({policy.epsilon:g}, {delta:g})" if delta else f"{policy.epsilon:g}"
    return Statement(
        tool_version=tool_version(),
        kind=task.kind,
        created=datetime.date.fromisoformat(opened.created),
        promise=Promise(
            epsilon=policy.epsilon,
            delta=delta,
            spent_epsilon=epsilon,
            unit=unit,
            neighbours=policy.neighbours.value,
            contributions=policy.contributions,
            composition=accountant.budget.composition,
            statement=f"{kind}-differential privacy against inputs with {unit}, under the assumptions listed",
        ),
        ledger=tuple(map(charge_record, accountant.entries)),
        settings=task.settings,
        assumptions=tuple(assumptions),
        noise_library=library_version(),
        chain_head=opened.run.chain_head,
    )
