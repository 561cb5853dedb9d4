"""Task: what spends budget beside releases (sessions of queries, graphs, sketches, statistics), at the door
of the books and of the private numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.pipeline.manifest import today, versions
from factored_mwem.policy import Policy
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.privacy.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What is asked: of which `kind`, whom it protects and at what price (`policy`), and with which other
    public `settings`, as JSON. `digest`: of a key, the keyed digest of the private input. `events`: the
    budget is spent in (epsilon, delta) events, whose epsilons and deltas add up.
    """

    kind: str
    policy: Policy
    settings: dict[str, Any]
    digest: Callable[[bytes], bytes] = field(repr=False)
    events: bool = False

    @property
    def budget(self) -> Budget:
        if self.events:
            return Budget.basic(self.policy.epsilon, self.policy.delta)
        return self.policy.budget(learn_domain=False)

    @property
    def parameters(self) -> dict[str, Any]:
        """All that decides what comes out, but for the private input: public facts, as JSON."""
        return {"kind": self.kind, "policy": self.policy.model_dump(mode="json"), "settings": self.settings}

    def fingerprint(self, key: bytes) -> bytes:
        """A keyed digest of the private input."""
        return self.digest(key)


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A task under way: its run in the books, its session, and the day on which it began."""

    run: Run
    session: Session
    created: str

    def drawn(self) -> None:
        """All noise is drawn: what was spent takes the place of what was reserved."""
        self.run.drawn(self.session.accountant)


@contextlib.contextmanager
def opened(task: Task, booking: Booking, *, noise: Noise | None = None) -> Iterator[Opened]:
    """The task's run and its session; the books are told how it ends. The caller seals what is private,
    draws, calls `drawn`, writes its files and calls `run.finish`.

    `noise`: OpenDP's by default; tests give a fake. Raises as `Run.begin`.
    """
    with Run.begin(task, booking, version=versions()) as run:
        created = run.pin({"created": today()})["created"]
        accountant = Accountant(task.budget, run.reserve)
        metered = run.noise(noise or OpenDPNoise(task.budget.composition), accountant)
        yield Opened(run, Session(accountant, task.policy.unit, metered), created)
