"""Learn: a domain alone, paid for once and in the books; every release under it saves that cost, and all of
them have the same columns, types and values.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack

from factored_mwem.domain.dialect import PLAIN
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.public_lists import ListedValues
from factored_mwem.errors import NothingLearnt
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms.learn import Learning, Serves
from factored_mwem.mechanisms.learn import learn as learn_within
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Scope
from factored_mwem.mechanisms.prune import Fate
from factored_mwem.mechanisms.worth import LOOKS
from factored_mwem.pipeline.record.describe_learnt import (
    order_in_words,
    rounded_in_words,
    spread_in_words,
)
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.spending import Spending
from factored_mwem.request.policy import BookedChoices, Policy
from factored_mwem.request.table import PrivateTable

log = logging.getLogger("factored_mwem")


@dataclass(frozen=True, slots=True, eq=False)
class LearntDomain:
    """A learnt domain, what became of each column's values, the columns left out, the public lists whose
    values were looked for, what it cost, and what a person should look at.
    """

    domain: Domain
    fates: dict[str, Fate]
    dropped: tuple[str, ...]
    lists: dict[str, ListedValues]
    statement: Statement = field(repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def spent_epsilon(self) -> float:
        return self.statement.guarantee.spent_epsilon

    def to_dict(self) -> dict[str, Any]:
        """The domain as its file holds it, with a sentence on where it comes from."""
        promise = f"({self.spent_epsilon:.6g}, {self.statement.guarantee.delta:g})-differential privacy"
        text = f"Learnt from the table under {promise}, which adds to what releases under it cost."
        for name, known in self.lists.items():
            text += f" Values of {name!r} were looked for in a public list: {known.name}, {known.version}."
        return {"description": text, **self.domain.to_dict()}


def learn(
    table: Any,
    policy: Policy | None = None,
    *,
    columns: Sequence[str] | None = None,
    **choices: Unpack[BookedChoices],
) -> LearntDomain:
    """A domain for a private `table`, learnt at the whole cost of the policy; safe to publish.

    It is one release more of the table: its cost adds to those of all others, and with `ledger` it is entered
    there under `dataset`. A release under the domain pays nothing for it. The rest: as of `release`.

    Raises:
        NothingLearnt: noise hides nearly everything; what was spent until then counts.
        InputError, BudgetExceeded, ResourceError: as of `release`, before anything is spent.

    >>> import pyarrow as pa
    >>> from factored_mwem import learn, release
    >>> people = pa.table({"sex": ["F", "M"] * 2000, "children": [0, 1, 2, 0] * 1000})
    >>> known = learn(people, epsilon=0.5)
    >>> known.domain["sex"].values, {0, 1, 2} <= {*known.domain["children"].values}
    (('F', 'M'), True)
    >>> release(people, 2, domain=known.domain, epsilon=0.5, rows=10).to_arrow().num_rows
    10
    """
    chosen: dict[str, Any] = dict(choices)
    booking = Booking.of(chosen)
    request = LearningRequest.of(table, Policy.given(policy, chosen), columns)
    return request.spending.made(booking, partial(make_domain, request))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class LearningRequest(PrivateTable):
    """A private table whose domain is to be learnt."""

    promise: Policy

    @classmethod
    def of(cls, table: Any, policy: Policy, columns: Sequence[str] | None) -> LearningRequest:
        """Raises InputError for what is wrong by public facts."""
        return cls.open(table, policy.uncertified, columns=columns)

    @property
    def spending(self) -> Spending:
        """The request as the ledger enters it."""
        schema = [[field.name, str(field.type)] for field in self.private.schema]
        settings = {"columns": self.columns, "schema": schema}
        return Spending("domain", self.promise, settings, self.fingerprint, learns=True)


def make_domain(request: LearningRequest, run: Run) -> LearntDomain:
    """Learn the domain of a table; `run` enters its cost."""
    policy = request.promise
    machine = Machine.of(policy)
    spent = request.spending.begin(run, machine=[machine.memory, machine.step])
    scope = Scope.of(request, Machine(*spent.pinned["machine"]))
    session = replace(spent.session, spill=scope.spill)
    table = request.bounded()  # ---- private from here ...
    try:
        learnt: Learning = learn_within(
            session, table, scope.columns, policy, Serves(alone=True)
        )  # ---- ... to here
    except NothingLearnt:
        if run.charged:
            spent.drawn()
        raise
    spent.drawn()
    stated = spent.statement(spent.rests_on(request, learnt=True), columns=list(learnt.domain.names))
    log.info(
        "learnt the domain of %d columns, left out %r; spent epsilon %.6g, delta %g",
        len(learnt.domain),
        [*learnt.dropped],
        stated.guarantee.spent_epsilon,
        stated.guarantee.delta,
    )
    looks = (f"{name!r}: {LOOKS[look]}" for name, look in learnt.looks.items())
    warnings = (
        *rounded_in_words(learnt),
        *spread_in_words(learnt.domain, learnt.fates),
        *order_in_words(learnt.domain),
        *looks,
    )
    said = None if policy.dialect == PLAIN else policy.dialect  # releases read the table the same way
    domain = Domain(learnt.domain, dialect=said)
    return LearntDomain(domain, learnt.fates, learnt.dropped, learnt.lists, stated, warnings)
