"""The checks of whole releases: tiny tables, all that is published and all that was drawn, against the
epsilon that the manifest states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from audit.check import Check, Seen, facts_of
from audit.stages import PURE, ZCDP
from factored_mwem import Domain, Policy, Release, Workload
from factored_mwem.mechanisms import course
from factored_mwem.pipeline import spending
from factored_mwem.pipeline.release import make
from factored_mwem.privacy.noise import Noise
from factored_mwem.request.request import Request

REQUIRED = {"required": True}
FIELDS = {
    "a": {"name": "a", "type": "string", "categories": ["x", "y"], "constraints": REQUIRED},
    "b": {"name": "b", "type": "integer", "constraints": {"minimum": 0, "maximum": 2, **REQUIRED}},
    "c": {"name": "c", "type": "string", "categories": ["x", "y"], "constraints": REQUIRED},
}
VERSIONS = mock.patch.multiple(spending, tool_version=lambda: "", library_version=lambda: "")
"""Looking up versions takes as long as the noise."""
LARGEST = 40
"""Synthetic rows that are looked at, at most."""
Rows = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Case:
    """A release to audit: what is asked, under which choices of a policy; the columns; `rounds`: small
    domains are measured in rounds as larger ones are; `pair`: tables in the place of `worst`, whose
    domain is learnt.
    """

    what: str
    workload: Workload
    choices: dict[str, Any]
    columns: str = "ab"
    rounds: bool = False
    share: float = 1.0
    note: str = ""
    pair: tuple[Rows, Rows] | None = field(default=None, repr=False)

    @property
    def policy(self) -> Policy:
        return Policy.of(**{"epsilon": 2.0, "delta": 0.0, **self.choices})

    def check(self, played: Callable[[Request, Noise], Seen]) -> Check:
        """A check on two neighbouring tables, of what is seen when the release of either is played."""
        p = self.policy
        declared = (
            None if self.pair else Domain.from_dict({"fields": [FIELDS[name] for name in self.columns]})
        )
        requests = [
            Request.of(
                pa.table(dict(zip(self.columns, columns, strict=True))), self.workload, p, domain=declared
            )
            for columns in (map(list, zip(*rows, strict=True)) for rows in self.pair or self.worst())
        ]
        promise = f"epsilon {p.epsilon:g}" + (f", delta {p.delta:g}" if p.delta else "")
        return Check(
            f"release {p.engine}, {self.what}: {promise}, {p.neighbours.value}, k={p.contributions}",
            ZCDP if p.delta else PURE, "epsilon", lambda world, noise: played(requests[world], noise),
            fixed=False, share=self.share, whole=True, note=self.note,
        )  # fmt: skip

    def worst(self) -> tuple[Rows, Rows]:
        """Two rows, and k more that come, or that go from the last cell to the first."""
        k, swap = self.policy.contributions, self.policy.neighbours == "replace"
        first, last = (("x", "x"), ("y", "y")) if self.columns == "ac" else (("x", 0), ("y", 2))
        return (first, last, *[last] * (k * swap)), (first, last, *[first] * k)


def at_once(request: Request, noise: Noise, *, rounds: bool = False) -> Seen:
    """All that a release shows."""
    with VERSIONS, in_rounds() if rounds else contextlib.nullcontext():
        return seen_in(make(request, noise=noise))


@contextlib.contextmanager
def in_rounds() -> Iterator[None]:
    """Small domains are measured in rounds, too, as larger ones are."""
    with mock.patch.object(course, "one_shot_suits", lambda *_: False):
        yield


def seen_in(release: Release) -> Seen:
    """Everything that a release gives away, as numbers; and what of it may depend on the table through the
    draws alone.
    """
    stated = release.manifest
    shares = np.concatenate([part.beliefs.cliques for part in release.model.components])
    charges = tuple((e.stage, e.target, e.scale, e.sensitivity, e.delta) for e in stated.ledger)
    selected = [(e.stage, e.target) for e in stated.ledger] + [q.question for q in stated.questions]
    facts: dict[str, Any] = {
        "estimated rows": stated.estimated_rows,
        "total of the model": release.model.total,
        "rounds": stated.rounds,
        "charges": len(charges),
        "selected": repr(selected),
        "domain": repr(stated.domain),
        "warnings": repr(stated.warnings),
        **{f"measured {i}": m.noisy for i, m in enumerate(release.measurements[:4])},
        **{f"share {i}": float(share) for i, share in enumerate(shares[:8].tolist())},
    }
    if release.residuals:
        facts["residuals"] = release.residuals[-1].noisy
    public = (shares.tobytes(), release.model.total, charges, stated.domain, stated.warnings, stated.notes)
    return Seen(
        lambda: facts_of(facts) | synthetic(release),
        stated.recompute(),
        stated.guarantee.delta,
        repr((*public, stated.rounds)),
    )


def synthetic(release: Release) -> dict[str, float]:
    """How many synthetic rows lie in each cell."""
    if release.rows > LARGEST:
        return {}
    cells = list(zip(*(column.to_pylist() for column in release.to_arrow().columns), strict=True))
    counts = {f"synthetic {cell}": float(cells.count(cell)) for cell in set(cells)}
    return {"synthetic rows": float(len(cells)), **counts}


TWO_WAY, PREFIXES = Workload.marginals(2), Workload.ranges("b", which="prefix")
ONCE = {"rounds": 1, "initial_share": 0.02}
MWEM = {"engine": "mwem", "rounds": 1, "initial": "none"}
WHOLE = {"engine": "mwem", "initial": "histogram", "components": "one"}
SWAP, TWO = {"neighbours": "replace"}, {"contributions": 2}
COMMON: Rows = [("x", "p")] * 12
CASES = (
    Case("marginals", TWO_WAY, MWEM),
    Case("marginals", TWO_WAY, {**MWEM, **SWAP, **TWO}, share=2.0),
    Case("histogram first", TWO_WAY, {**WHOLE, "rounds": 1, "initial_share": 0.9}),
    Case("adaptive rounds", TWO_WAY, {**WHOLE, "rounds": "adaptive", "initial_share": 0.8}),
    Case("ranges", PREFIXES, MWEM),
    Case("cube", Workload.cube("a", "b"), MWEM),
    Case("parities", Workload.parities(2), {**MWEM, **SWAP}, "ac"),
    Case("residuals at once", Workload.marginals(1), {}, "ac"),
    Case("residuals at once", TWO_WAY, {**SWAP, **TWO}, "ac", share=2.0),
    Case("in rounds", TWO_WAY, {**ONCE, **TWO}, rounds=True),
    Case("in adaptive rounds", TWO_WAY, {"initial_share": 0.02}, rounds=True, share=0.5,
         note="its loss comes in many small pieces"),
    Case("in rounds", TWO_WAY, {**ONCE, **SWAP}, rounds=True, share=1.3),
    Case("ranges", PREFIXES, {}),
    Case("marginals", TWO_WAY, {**MWEM, "delta": 1e-9}, share=0.25,
         note="the slack of the conversion hides half the noise"),
    Case("learnt domain", Workload.marginals(1), {"delta": 0.1, "domain_budget": 0.5}, share=0.25,
         note="delta and the conversion hide most; see discover",
         pair=([*COMMON, *[("y", "p")] * 6], [*COMMON, *[("y", "p")] * 7])),
)  # fmt: skip
"""Both engines, both relations, several rows a person, every query kind, both ways to start, adaptive rounds,
one shot and rounds; and a domain learnt from a value that comes up to the threshold, judged by (epsilon,
delta), which sees little.

Most of the budget goes into one measurement where a policy can say so: a loss in one piece shows in fewer
runs than the same loss in many.
"""


def release_checks() -> list[Check]:
    return [case.check(lambda r, noise, case=case: at_once(r, noise, rounds=case.rounds)) for case in CASES]
