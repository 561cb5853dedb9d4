"""Manifest: the publishable statement of what was released, at what cost, and how to check it. It holds only
facts safe to publish.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from factored_mwem.accounting.accountant import Accountant, Budget, Charge, Mechanism, guarantee
from factored_mwem.accounting.conversion import Composition, library_version
from factored_mwem.domain.attribute import Attribute
from factored_mwem.files import without_example
from factored_mwem.ledger.run import Run
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.result import Fitted
from factored_mwem.pipeline.assumptions import Assumptions, assumptions_of
from factored_mwem.policy import DEFAULT_MAX_ROWS, Policy
from factored_mwem.privacy.discover import OTHER
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement

VERSION = 2
"""Version of the manifest's form. The meaning of a field never changes within a version; 2 lists assumptions,
and names a ledger's head.
"""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Guarantee(_Part):
    """What holds, as long as its `assumptions` do: `spent_epsilon` is what the entries amount to, never above
    `epsilon`.
    """

    epsilon: float
    delta: float
    spent_epsilon: float
    neighbours: str
    contributions: int
    composition: Composition
    statement: str
    assumptions: Assumptions | None = None
    """None in manifests of before they were listed."""


PRICES = """What an entry costs, rounded up to a multiple of 2^-80; s is its `sensitivity`, b its `scale`:
discrete gaussian: s / (2 * b^2) of rho, s the squared L2 sensitivity;
gaussian threshold: s / (2 * b^2) of rho, s the squared L2 sensitivity, and `delta` besides;
discrete laplace: s / b of epsilon, s the L1 sensitivity;
exponential mechanism (gumbel): (2 * s / b)^2 / 8 of rho, s the most that a score changes;
permute-and-flip: 2 * s / b of epsilon, s the most that a score changes.
Costs add. Under pure composition their sum is epsilon; under zCDP the sum of rho is converted at the delta
that the entries leave of the promised one."""


class ChargeRecord(_Part):
    """A ledger entry; `delta` is a fraction."""

    stage: str
    mechanism: Mechanism = Field(description=PRICES)
    target: tuple[str, ...]
    scale: float
    sensitivity: int
    delta: str = "0"


class Stage(_Part):
    """A stage's cost in rho (or epsilon, when delta is 0) and its share of the whole budget."""

    stage: str
    cost: float
    share: float
    delta: float


class AttributeFacts(_Part):
    """What the release assumed of a column. `domain` says whether a person declared it or the budget paid for
    it.
    """

    name: str
    type: str
    codes: int
    nullable: bool
    domain: Literal["declared", "learnt"]


class MeasuredMarginal(_Part):
    """A marginal that was measured, "age in 16" standing for age at a level of 16 groups; answers and groups
    are in the model file.
    """

    attributes: tuple[str, ...]
    cells: int
    scale: float


class MeasuredResiduals(_Part):
    """Residuals of attribute subsets, measured at once with noise of one scale; which subsets at which weight
    is in the model file.
    """

    order: int
    subsets: int
    answers: int
    scale: float


class MeasuredQuestion(_Part):
    """A question of another kind that was measured, such as "age 20..39"; codes stand for values, in the
    order of the domain.
    """

    question: str
    answers: int
    scale: float


class Output(_Part):
    """The data file this manifest belongs to."""

    file: str
    rows: int
    sha256: str | None = None


class Manifest(_Part):
    """The statement as a whole.

    `chain_head`: the head of the ledger's chain when this release was entered; `fmwem ledger verify` looks
    for it.

    >>> import pyarrow as pa
    >>> from factored_mwem import Manifest, release
    >>> text = release(pa.table({"age": [0, 1]}), 1, domain={"age": 2}).manifest.model_dump_json()
    >>> stated = Manifest.model_validate_json(text)
    >>> stated.recompute() == stated.guarantee.spent_epsilon  # from the ledger's entries alone
    True
    """

    model_config = ConfigDict(json_schema_extra=without_example)

    manifest_version: int = VERSION
    tool: str = "factored-mwem"
    tool_version: str
    created: datetime.date
    guarantee: Guarantee
    stages: tuple[Stage, ...]
    ledger: tuple[ChargeRecord, ...]
    policy: dict[str, Any]
    workload: dict[str, Any]
    attributes: tuple[AttributeFacts, ...]
    domain: dict[str, Any]
    components: tuple[tuple[str, ...], ...]
    cliques: tuple[tuple[str, ...], ...]
    rounds: int
    measurements: tuple[MeasuredMarginal, ...]
    residuals: tuple[MeasuredResiduals, ...] = ()
    questions: tuple[MeasuredQuestion, ...] = ()
    noise_library: str
    estimated_rows: int
    sample_seed: int | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    output: Output | None = None
    chain_head: str | None = None

    def recompute(self) -> float:
        """epsilon from the ledger's entries alone, as a third party would compute it."""
        entries = [
            Charge(c.stage, c.mechanism, c.target, c.scale, c.sensitivity, Fraction(c.delta))
            for c in self.ledger
        ]
        g = self.guarantee
        return guarantee(entries, Budget(g.epsilon, g.delta, g.composition, Fraction(0), Fraction(0)))[0]


def describe(plan: Plan, fitted: Fitted, accountant: Accountant, run: Run, *, created: str) -> Manifest:
    """The manifest of a fitted model. Everything in it is public: parameters, the domain, the charges and
    facts about noisy measurements.
    """
    request, policy, domain, model = plan.request, plan.policy, plan.domain, fitted.model
    names = model.levels.names(domain.names)
    cliques = [clique for part in model.components for clique in part.tree.cliques]
    assumptions = assumptions_of(policy, request.private.form, learnt=plan.learnt, ledger=run.has_books)
    return Manifest(
        tool_version=tool_version(),
        created=datetime.date.fromisoformat(created),
        guarantee=_guarantee(policy, accountant, assumptions),
        stages=_stages(accountant),
        ledger=tuple(map(_charge, accountant.entries)),
        policy=policy.model_dump(mode="json"),
        workload=request.workload.to_dict(),
        attributes=tuple(map(_attribute, domain)),
        domain=domain.to_dict(),
        components=tuple(
            sorted(tuple(domain.names[a] for a in part.attributes) for part in model.components)
        ),
        cliques=tuple(tuple(names[v] for v in clique) for clique in cliques),
        rounds=fitted.rounds,
        measurements=tuple(_measured(m, names) for m in fitted.measurements),
        residuals=tuple(map(_residuals, fitted.residuals)),
        noise_library=library_version(),
        estimated_rows=round(model.total),
        sample_seed=request.sample_seed,
        warnings=tuple(_warnings(plan, fitted)),
        notes=fitted.notes,
        questions=tuple(MeasuredQuestion(**asdict(q)) for q in fitted.questions),
        chain_head=run.chain_head,
    )


def _attribute(a: Attribute) -> AttributeFacts:
    domain = "learnt" if a.learnt else "declared"
    return AttributeFacts(name=a.name, type=a.type, codes=a.size, nullable=a.nullable, domain=domain)


def _measured(m: Measurement, names: Sequence[str]) -> MeasuredMarginal:
    attributes = tuple(names[v] for v in m.positions)
    return MeasuredMarginal(attributes=attributes, cells=len(m.noisy), scale=m.scale.value)


def _residuals(r: Residuals) -> MeasuredResiduals:
    subsets = int((r.weights > 0).sum())
    return MeasuredResiduals(order=r.order, subsets=subsets, answers=len(r.noisy), scale=r.scale.value)


def _warnings(plan: Plan, fitted: Fitted) -> Iterator[str]:
    """What a reader of the manifest should know; public facts and noisy answers only."""
    policy, records = plan.policy, fitted.model.total
    if plan.late:
        yield plan.late
    if policy.epsilon > 10:
        yield f"epsilon {policy.epsilon:g} promises little; values up to 10 are common"
    if policy.delta * records > 1:
        yield f"delta {policy.delta:g} is more than one in the number of rows; a delta far below that is common"
    if fitted.total.stderr > records / 2:
        yield "the noise is as large as the number of rows itself: give --rows, and expect little of the values"
    if records > DEFAULT_MAX_ROWS:
        yield (
            f"the noisy count of rows is {records:.3g}: more than {DEFAULT_MAX_ROWS:,} are drawn only where "
            "--rows "
            "says so"
        )
    if plan.left_out:
        yield (
            f"{plan.left_out} candidate marginals have more than {policy.cells} cells (--max-cells) and "
            "could not be "
            "measured as a whole"
        )
    for attribute in plan.domain:
        if attribute.learnt and attribute.description:
            yield f"{attribute.name!r}: {attribute.description}"
        if attribute.learnt and attribute.values == (OTHER,):
            yield f"{attribute.name!r}: no category is frequent enough for this budget, all became {OTHER!r}"


def _charge(e: Charge) -> ChargeRecord:
    return ChargeRecord(
        stage=e.stage,
        mechanism=e.mechanism,
        target=e.target,
        scale=e.scale,
        sensitivity=e.sensitivity,
        delta=str(e.delta),
    )


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def versions() -> str:
    """What must be the same for a run to go on: this program, and the library that draws the noise."""
    return f"{tool_version()}, {library_version()}"


def tool_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("factored-mwem")
    except PackageNotFoundError:
        return "not installed"


def statement(policy: Policy, delta: float) -> str:
    """The promise of a policy in one sentence."""
    bound = "" if policy.privacy_id is None else f" (bounded by {policy.privacy_id!r})"
    who = f"one person with at most {policy.contributions} row{'s' * (policy.contributions > 1)}{bound}"
    change = (
        f"{who} added or removed" if policy.neighbours == "add-remove" else f"{who} exchanged for another"
    )
    kind = (
        f"({policy.epsilon:g}, {delta:g})-differential privacy"
        if delta
        else f"{policy.epsilon:g}-differential privacy"
    )
    return f"{kind} against tables with {change}, under the assumptions listed"


def _guarantee(policy: Policy, accountant: Accountant, assumptions: Assumptions) -> Guarantee:
    epsilon, delta = accountant.guarantee()
    return Guarantee(
        epsilon=policy.epsilon,
        delta=delta,
        spent_epsilon=epsilon,
        neighbours=policy.neighbours.value,
        contributions=policy.contributions,
        composition=accountant.budget.composition,
        statement=statement(policy, delta),
        assumptions=assumptions,
    )


def _stages(accountant: Accountant) -> tuple[Stage, ...]:
    names = dict.fromkeys(e.stage for e in accountant.entries)
    return tuple(
        Stage(
            stage=name,
            cost=float(accountant.stage_cost(name)),
            share=float(accountant.stage_cost(name) / accountant.budget.amount),
            delta=float(sum((e.delta for e in accountant.entries if e.stage == name), Fraction(0))),
        )
        for name in names
    )
