"""The checks of whole releases: tiny tables, all that is published and all that was drawn, against the
epsilon that the manifest states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from audit.check import Check, Seen, facts_of
from audit.stages import PURE, ZCDP
from factored_mwem import Domain, Policy, Release, Workload
from factored_mwem.backends.source import open_source
from factored_mwem.mechanisms import plan
from factored_mwem.pipeline import manifest
from factored_mwem.pipeline.release import make
from factored_mwem.privacy.noise import Noise
from factored_mwem.request import Request

EPSILON = 2.0
FIELDS = {
    "a": {"name": "a", "type": "string", "categories": ["x", "y"], "constraints": {"required": True}},
    "b": {"name": "b", "type": "integer", "constraints": {"minimum": 0, "maximum": 2, "required": True}},
    "c": {"name": "c", "type": "string", "categories": ["x", "y"], "constraints": {"required": True}},
}
VERSIONS = mock.patch.multiple(manifest, tool_version=lambda: "", library_version=lambda: "")
"""Looking up versions takes as long as the noise."""
LARGEST = 40
"""Synthetic rows that are looked at, at most."""

Rows = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Case:
    """A release to audit: what is asked, under which policy; the columns; `rounds`: small domains are
    measured in rounds as larger ones are.
    """

    what: str
    workload: Workload
    policy: Policy
    columns: tuple[str, str] = ("a", "b")
    rounds: bool = False
    declared: bool = True
    share: float = 1.0
    note: str = ""

    @property
    def name(self) -> str:
        p = self.policy
        promise = f"epsilon {p.epsilon:g}" + (f", delta {p.delta:g}" if p.delta else "")
        return f"release {p.engine}, {self.what}: {promise}, {p.neighbours.value}, k={p.contributions}"


def policy(**choices: Any) -> Policy:
    return Policy.of(**{"epsilon": EPSILON, "delta": 0.0, **choices})


def tables(case: Case) -> tuple[Rows, Rows]:
    """Four rows, and k more that come, or that go from the last cell to the first."""
    k, swap = case.policy.contributions, case.policy.neighbours == "replace"
    first, last = (("x", "x"), ("y", "y")) if case.columns[1] == "c" else (("x", 0), ("y", 2))
    rest: Rows = (first, last)
    return (*rest, *[last] * (k * swap)), (*rest, *[first] * k)


def check_of(case: Case, pair: tuple[Rows, Rows] | None = None) -> Check:
    """A whole release on two neighbouring tables."""
    declared = (
        Domain.from_dict({"fields": [FIELDS[name] for name in case.columns]}) if case.declared else None
    )
    private = [
        open_source(pa.table(dict(zip(case.columns, map(list, zip(*rows, strict=True)), strict=True))))
        for rows in pair or tables(case)
    ]

    def play(world: int, noise: Noise) -> Seen:
        with VERSIONS, in_rounds() if case.rounds else contextlib.nullcontext():
            made = make(
                Request(private[world], case.workload, case.policy, declared, None, None, None), noise=noise
            )
        return seen_in(made)

    pure = case.policy.delta == 0
    return Check(
        case.name,
        PURE if pure else ZCDP,
        "epsilon",
        play,
        fixed=False,
        share=case.share,
        whole=True,
        note=case.note,
    )


@contextlib.contextmanager
def in_rounds() -> Iterator[None]:
    """Small domains are measured in rounds, too, as larger ones are."""
    with mock.patch.object(plan, "one_shot_suits", lambda *_: False):
        yield


def seen_in(made: Release) -> Seen:
    """Everything that a release gives away, as numbers; and what of it may depend on the table through the
    draws alone.
    """
    stated = made.manifest
    shares = np.concatenate([part.beliefs.cliques for part in made.model.components])
    charges = tuple((e.stage, e.target, e.scale, e.sensitivity, e.delta) for e in stated.ledger)
    found: dict[str, Any] = {
        "estimated rows": stated.estimated_rows,
        "total of the model": made.model.total,
        "rounds": stated.rounds,
        "charges": len(charges),
        "selected": repr(
            [(e.stage, e.target) for e in stated.ledger] + [q.question for q in stated.questions]
        ),
        "domain": repr(stated.domain),
        "warnings": repr(stated.warnings),
    }
    for i, m in enumerate(made.measurements[:4]):
        found[f"measured {i}"] = m.noisy
    for r in made.residuals:
        found["residuals"] = r.noisy

    def look() -> dict[str, float]:
        return (
            facts_of(found)
            | {f"share {i}": float(share) for i, share in enumerate(shares[:8].tolist())}
            | synthetic(made)
        )

    public = (
        shares.tobytes(),
        made.model.total,
        charges,
        stated.domain,
        stated.warnings,
        stated.notes,
        stated.rounds,
    )
    return Seen(look, stated.recompute(), stated.guarantee.delta, repr(public))


def synthetic(made: Release) -> dict[str, float]:
    """How many synthetic rows lie in each cell."""
    if made.rows > LARGEST:
        return {}
    rows = made.to_arrow()
    cells = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return {"synthetic rows": float(len(cells))} | {
        f"synthetic {cell}": float(cells.count(cell)) for cell in set(cells)
    }


def release_checks() -> list[Check]:
    """Both engines, both relations, several rows a person, every query kind, both ways to start, adaptive
    rounds, one shot and rounds.

    Most of the budget goes into one measurement where a policy can say so: a loss in one piece shows in fewer
    runs than the same loss in many.
    """
    two_way, prefixes = Workload.marginals(2), Workload.ranges("b", which="prefix")
    once = {"rounds": 1, "initial_share": 0.02}
    mwem = {"engine": "mwem", "rounds": 1, "initial": "none"}
    whole = {"engine": "mwem", "initial": "histogram", "components": "one"}
    swap, two = {"neighbours": "replace"}, {"contributions": 2}
    cases = [
        Case("marginals", two_way, policy(**mwem)),
        Case("marginals", two_way, policy(**mwem, **swap, **two), share=2.0),
        Case("histogram first", two_way, policy(**whole, rounds=1, initial_share=0.9)),
        Case("adaptive rounds", two_way, policy(**whole, rounds="adaptive", initial_share=0.8)),
        Case("ranges", prefixes, policy(**mwem)),
        Case("cube", Workload.cube("a", "b"), policy(**mwem)),
        Case("parities", Workload.parities(2), policy(**mwem, **swap), columns=("a", "c")),
        Case("residuals at once", Workload.marginals(1), policy(), columns=("a", "c")),
        Case("residuals at once", two_way, policy(**swap, **two), columns=("a", "c"), share=2.0),
        Case("in rounds", two_way, policy(**once, **two), rounds=True),
        Case(
            "in adaptive rounds",
            two_way,
            policy(initial_share=0.02),
            rounds=True,
            share=0.5,
            note="its loss comes in many small pieces",
        ),
        Case("in rounds", two_way, policy(**once, **swap), rounds=True, share=1.3),
        Case("ranges", prefixes, policy()),
        Case(
            "marginals",
            two_way,
            policy(**mwem, delta=1e-9),
            share=0.25,
            note="the slack of the conversion hides half the noise",
        ),
    ]
    return [*map(check_of, cases), learnt()]


def learnt() -> Check:
    """A release that learns its domain, from a value that comes up to the threshold: judged by (epsilon,
    delta), which sees little.
    """
    chosen = policy(delta=0.1, domain_budget=0.5)
    case = Case(
        "learnt domain",
        Workload.marginals(1),
        chosen,
        declared=False,
        share=0.25,
        note="delta and the conversion hide most; see discover",
    )
    common: Rows = [("x", "p")] * 12
    return check_of(case, ([*common, *[("y", "p")] * 6], [*common, *[("y", "p")] * 7]))
