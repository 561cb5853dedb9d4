"""Spending: the one way to spend budget, for a release and for everything else: the request is entered in the
ledger, a session draws the noise, and a record states the result.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition, library_version
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.pipeline.record.assumptions import Assumption, DomainFacts, assumptions_of
from factored_mwem.pipeline.record.statement import (
    ChargeRecord,
    Guarantee,
    Statement,
    today,
    tool_version,
    versions,
)
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.privacy.session import Session
from factored_mwem.request.policy import split_policy
from factored_mwem.request.promise import Promise
from factored_mwem.request.table import PrivateTable

Made = TypeVar("Made")
FAKE_NOISE: ContextVar[Noise | None] = ContextVar("FAKE_NOISE", default=None)
"""The fake that tests use in place of OpenDP's noise. Nothing in the package sets it, and no argument leads
to it.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Spending:
    """A request that spends budget: its `kind`, the promise, and other public `settings`, as JSON.
    `fingerprint(key)`: a keyed digest of the private input. `learns`: a share of delta is kept for a domain.
    `events`: the budget is spent in (epsilon, delta) events, whose epsilons and deltas add up. `noise`: the
    composition of its noise, if it is not the budget's.
    """

    kind: str
    promise: Promise
    settings: dict[str, Any]
    fingerprint: Callable[[bytes], bytes] = field(repr=False)
    learns: bool = False
    events: bool = False
    noise: Composition | None = None

    @property
    def budget(self) -> Budget:
        if self.events:
            return Budget.basic(self.promise.epsilon, self.promise.delta)
        return self.promise.budget(learn_domain=self.learns)

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything that determines the result, except the private input: public facts, as JSON."""
        return {"kind": self.kind, "policy": self.promise.model_dump(mode="json"), "settings": self.settings}

    def divided(self, parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `Booked`."""
        lasting, bearable = split_policy(parameters.get("policy"))
        return {**parameters, "policy": lasting}, bearable

    @contextlib.contextmanager
    def booked(self, booking: Booking) -> Iterator[Run]:
        """A run of it, whose end is entered in the ledger. Raises as `Run.begin`."""
        with Run.begin(self, booking, version=versions()) as run:
            yield run

    def made(self, booking: Booking, make: Callable[[Run], Made]) -> Made:
        """The result of `make` within a run, for requests that write no files."""
        with self.booked(booking) as run:
            result = make(run)
            run.finish()
        return result

    def begin(self, run: Run, noise: Noise | None = None, **facts: Any) -> Spent:
        """The session that draws. `facts`: the same for all attempts of a run. `noise`: tests' fake."""
        pinned = run.pin({**facts, "created": today()})
        accountant = Accountant(self.budget, run.reserve)
        source = noise or FAKE_NOISE.get() or OpenDPNoise(self.noise or self.budget.composition)
        session = Session(accountant, self.promise.unit, run.noise(source, accountant))
        return Spent(self, run, session, pinned)

    @contextlib.contextmanager
    def opened(self, booking: Booking) -> Iterator[Spent]:
        """Run and session, for requests that write no files. The caller seals, draws and calls `drawn`."""
        with self.booked(booking) as run:
            yield self.begin(run)
            run.finish()


@dataclass(frozen=True, slots=True, eq=False)
class Spent:
    """Spending in progress: its run, its session, and the facts that all attempts of the run share."""

    spending: Spending
    run: Run
    session: Session
    pinned: dict[str, Any]
    _epsilons: dict[int, float] = field(default_factory=dict, init=False, repr=False)
    """Epsilon by the number of charges; cached, because a session needs it after each answer, and most
    answers cost nothing more.
    """

    @property
    def accountant(self) -> Accountant:
        """The sum of all charges."""
        return self.session.accountant.root

    def drawn(self) -> None:
        """Record that all noise is drawn: from now on what was spent counts, not what was reserved."""
        self.run.drawn(self.accountant)

    @property
    def epsilon(self) -> float:
        """The epsilon spent so far, at the promise's delta."""
        charges = len(self.accountant.entries)
        if charges not in self._epsilons:
            self._epsilons[charges] = self.accountant.guarantee()[0] if charges else 0.0
        return self._epsilons[charges]

    @property
    def left(self) -> float:
        """What is left of the promised epsilon."""
        return max(0.0, self.spending.promise.epsilon - self.epsilon)

    def rests_on(self, table: PrivateTable, **domain_facts: Unpack[DomainFacts]) -> dict[str, Assumption]:
        """The assumptions of the promise about a table."""
        private, books = table.private, self.run.has_books
        return assumptions_of(
            table.promise, private.form, ledger=books, cluster=private.cluster, **domain_facts
        )

    def facts(self, assumptions: dict[str, Assumption]) -> dict[str, Any]:
        """The fields that the records of all kinds have. Everything in them is public."""
        spending = self.spending
        return {
            "tool_version": tool_version(),
            "kind": spending.kind,
            "created": datetime.date.fromisoformat(self.pinned["created"]),
            "guarantee": Guarantee.of(spending.kind, spending.promise, self.accountant, assumptions),
            "ledger": tuple(map(ChargeRecord.of, self.accountant.entries)),
            "noise_library": library_version(),
            "chain_head": self.run.chain_head,
        }

    def statement(self, assumptions: dict[str, Assumption], **result: Any) -> Statement:
        """The record, once all noise is drawn; of a release see `describe`."""
        return Statement(**self.facts(assumptions), settings=self.spending.settings, result=result)
