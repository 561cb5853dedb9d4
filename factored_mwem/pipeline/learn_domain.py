"""Learn: a domain alone, paid for once and in the books; every release under it saves that cost, and all of
them have the same columns, types and values.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from factored_mwem.accounting.accountant import Accountant
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, NothingLearnt
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.mechanisms.learn import Learnt
from factored_mwem.mechanisms.learn import learn as learn_within
from factored_mwem.mechanisms.limits import Machine
from factored_mwem.mechanisms.plan import Scope
from factored_mwem.mechanisms.settle import Fate
from factored_mwem.pipeline.manifest import versions
from factored_mwem.policy import Choices, Policy
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.privacy.session import Session
from factored_mwem.request import Request
from factored_mwem.workload.workload import Workload

log = logging.getLogger("factored_mwem")


@dataclass(frozen=True, slots=True, eq=False)
class LearntDomain:
    """A learnt domain, what became of each column's values, the columns left out, and the epsilon spent."""

    domain: Domain
    fates: dict[str, Fate]
    dropped: tuple[str, ...]
    spent_epsilon: float
    delta: float

    def to_dict(self) -> dict[str, Any]:
        """The domain as its file holds it, with a sentence on where it comes from."""
        promise = f"({self.spent_epsilon:.6g}, {self.delta:g})-differential privacy"
        text = f"Learnt from the table under {promise}, which adds to what releases under it cost."
        return {"description": text, **self.domain.to_dict()}


def learn(
    table: Any,
    policy: Policy | None = None,
    *,
    columns: Sequence[str] | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    run_id: str | None = None,
    **choices: Unpack[Choices],
) -> LearntDomain:
    """A domain for a private `table`, learnt at the whole cost of the policy; safe to publish.

    It is one release more of the table: its cost adds to those of all others, and with `ledger` it is entered
    there under `dataset`. A release under the domain pays nothing for it. Arguments and errors: as of
    `release`; NothingLearnt where noise hides nearly everything.

    >>> import pyarrow as pa
    >>> from factored_mwem import learn, release
    >>> people = pa.table({"sex": ["F", "M"] * 2000, "children": [0, 1, 2, 0] * 1000})
    >>> known = learn(people, epsilon=0.5)
    >>> known.domain["sex"].values, {0, 1, 2} <= {*known.domain["children"].values}
    (('F', 'M'), True)
    >>> release(people, 2, domain=known.domain, epsilon=0.5, rows=10).to_arrow().num_rows
    10
    """
    request = Request.of(table, Workload.marginals(1), policy, columns=columns, **choices)
    if request.policy.certificate is not None:
        raise InputError("a certificate is of released rows; leave it out where a domain is learnt")
    with Run.begin(request, Booking(ledger, dataset, run_id), version=versions()) as run:
        made = make_domain(request, run)
        run.finish()
    return made


def make_domain(request: Request, run: Run, *, noise: Noise | None = None) -> LearntDomain:
    """Learn the domain of a request; `run` enters its cost. `noise`: as of `make`."""
    if request.declared is not None:
        raise InputError("there is a domain already; leave out --domain to learn one")
    policy = request.policy
    machine = Machine.of(policy)
    pinned = run.pin({"machine": [machine.memory, machine.step]})
    accountant = Accountant(request.budget, run.reserve)
    metered = run.noise(noise or OpenDPNoise(request.budget.composition), accountant)
    scope = Scope.of(request, Machine(*pinned["machine"]))
    session = Session(accountant, policy.unit, metered, spill=scope.spill)
    table = scope.bounded()  # ---- private from here ...
    try:
        learnt: Learnt = learn_within(session, table, scope.columns, policy, alone=True)  # ---- ... to here
    except NothingLearnt:
        if run.charged:
            run.drawn(accountant)
        raise
    run.drawn(accountant)
    found = LearntDomain(learnt.domain, learnt.fates, learnt.dropped, *accountant.guarantee())
    log.info(
        "learnt the domain of %d columns, left out %r; spent epsilon %.6g, delta %g",
        len(found.domain),
        [*found.dropped],
        found.spent_epsilon,
        found.delta,
    )
    return found
