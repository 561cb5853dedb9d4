"""Manifest: the record of a release, the publishable statement of what was released, at what cost, and how to
check it. It holds only facts safe to publish.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from factored_mwem.domain.attribute import Scalar
from factored_mwem.errors import InputError
from factored_mwem.files.files import complaint, without_example
from factored_mwem.mechanisms.result import UPPER
from factored_mwem.pipeline.record.statement import Part, Statement
from factored_mwem.request.policy import Policy, split_policy
from factored_mwem.workload.workload import Workload


class Stage(Part):
    """A stage's cost in rho (or epsilon, when delta is 0) and its share of the whole budget."""

    stage: str
    cost: float
    share: float
    delta: float


class ListFacts(Part):
    """A public list whose values were looked for in a column: its name, of which version of what, and the
    SHA-256 of its values, a line each.
    """

    name: str
    version: str
    sha256: str


class AttributeFacts(Part):
    """The facts about a column. `domain` says whether its values were declared, or learnt inside the
    budget.
    """

    name: str
    type: str
    codes: int
    nullable: bool
    domain: Literal["declared", "learnt"]
    kept: float | None = None
    """If learnt, in noisy shares of all rows: values kept as they are or within their bin,"""
    clipped: float | None = None
    """moved to the nearest bin,"""
    other: float | None = None
    """made `other`, or the most frequent value if there is none,"""
    missing: float | None = None
    """and missing."""
    moved_at_most: float | None = None
    """The upper end of a 97.5 % interval of those that were moved or made another value than `other`."""
    spread_hidden: float | None = None
    """If learnt, by what part the standard deviation of numbers may be larger: if as many rows lie beyond
    both ends as noise may hide, out to twice as far from the mean. No bound: what is further out adds more.
    """
    ends_seen: tuple[Scalar, Scalar] | None = None
    """If learnt in bins: some values are the first or less, and some the second or more, each but for one
    noise in forty. What the bins hold further out may be noise alone.
    """
    spread_doubtful: float | None = None
    """By what part the standard deviation of numbers is smaller, if it is."""
    beyond_seen: float | None = None
    """The noisy share of rows that lie further out than `ends_seen`."""
    missing_at_most: float | None = None
    """If learnt without missing cells, the upper end of a 97.5 % interval of the share that is missing."""
    public_list: ListFacts | None = None

    @property
    def lost(self) -> float:
        """The share that was moved or made `other`; 0 where it lies less than three standard deviations of
        its noise above 0: UPPER of these lie between it and `moved_at_most`. Of texts that became `other`
        noise is far less, and `moved_at_most` does not count them.
        """
        share = max(self.other or 0.0, self.clipped or 0.0)
        return share if share * (3 + UPPER) >= 3 * (self.moved_at_most or 0.0) else 0.0


class MeasuredMarginal(Part):
    """A marginal that was measured, "age in 16" standing for age at a level of 16 groups; answers and groups
    are in the model file.
    """

    attributes: tuple[str, ...]
    cells: int
    scale: float


class MeasuredResiduals(Part):
    """Residuals of attribute subsets, measured at once with noise of one scale; which subsets at which weight
    is in the model file.
    """

    order: int
    subsets: int
    answers: int
    scale: float


class MeasuredQuestion(Part):
    """A question of another kind that was measured, such as "age 20..39"; codes stand for values, in the
    order of the domain.
    """

    question: str
    answers: int
    scale: float


class PublicFacts(Part):
    """Columns whose joint counts came from a public `table` of so many `rows`, in place of private ones.
    `sha256`: of its file, or of the counts where it had none.
    """

    columns: tuple[str, ...]
    table: str
    sha256: str
    rows: int


class CertifiedError(Part):
    """An error of the released rows, measured afresh with noise of its own: the L1 distance of shares, from 0
    to 2, between a marginal of the private table and of the released rows, both in the codes of the domain.
    Of the marginals asked for of an `order` (the "mean"), of a "column", or of the "worst" of them all, whose
    columns a noisy maximum has named.

    All `low` and `high` of a certificate hold their errors at once with its confidence, whatever the model
    did; those of the worst hold the largest error there is, and that of the columns named. `stderr` is of
    `estimate`.
    """

    what: Literal["mean", "column", "worst"]
    order: int
    attributes: tuple[str, ...] = ()
    sets: int = 1
    """How many marginals it is the mean, or the worst, of;"""
    asked: int = 1
    """and how many there would have been: where they take too much memory, those counted are a public random
    sample, and the statement is about these.
    """
    estimate: float
    stderr: float
    low: float
    high: float


class Certificate(Part):
    """Errors of the release, paid for with a `share` of the budget. With `criteria`, the release is the first
    of up to `tries` that met them, this one being number `tried`: no upper bound is above what was asked. The
    bounds of all tries hold at once with the `confidence`, so choosing among them changes nothing. Shares
    are of what is `counted`: of rows, or of people, each of whom counts as one on both sides. `unique`: by
    criterion, the exact share of the released rows that no other row is the same as.
    """

    share: float
    confidence: float
    counted: Literal["rows", "people"] = "rows"
    errors: tuple[CertifiedError, ...]
    criteria: tuple[str, ...] = ()
    unique: dict[str, float] = Field(default_factory=dict)
    tries: int = 1
    tried: int = 1


Share = Annotated[float, Field(ge=0, le=1)]


class PeopleFacts(Part):
    """Of a release in which each person weighs one: noise and sensitivities are in grains, `grains` a person.
    `column` names the person in the rows, in values of `type` that are made up. `estimated`: about how many
    people there are. `constant`: columns that are the same in all rows of a person. `beyond`: the noisy share
    of people who have more than `most_rows` rows; None where that was not counted. `order_by`: the column
    that puts rows of a person in order; `companions`: attributes of the model that tell of a person's other
    rows. `agreement`: the noisy share of pairs of a person's rows that agree, by column: as they are, then in
    coarser and coarser groups; its noise has a standard deviation of `agreement_stddev`. Of rows that hang on
    others it is of pairs on one row, in which the columns `shared` are the same, too.
    """

    column: str
    type: Literal["string", "integer"]
    grains: int
    most_rows: int
    estimated: int
    constant: tuple[str, ...] = ()
    beyond: float | None = Field(default=None, ge=0, le=1)
    order_by: str | None = None
    companions: tuple[str, ...] = ()
    agreement: dict[str, tuple[Share, ...]] = Field(default_factory=dict)
    agreement_stddev: Share = 0.0
    shared: tuple[str, ...] = ()


class FoundRule(Part):
    """A rule by which a column follows from others, or is never above another, found inside the budget and
    kept in every row: `rule` in the form of a domain, and in `words`. `broken`: the noisy number of rows (or
    grains of people) that break it, or any of those that tie the same two columns, with standard deviation
    `stddev`.
    """

    words: str
    rule: dict[str, Any]
    broken: int
    stddev: float


class Manifest(Statement):
    """The statement of a release as a whole.

    >>> import pyarrow as pa
    >>> from factored_mwem import Manifest, release
    >>> text = release(pa.table({"age": [0, 1]}), 1, domain={"age": 2}).manifest.model_dump_json()
    >>> stated = Manifest.model_validate_json(text)
    >>> stated.recompute() == stated.guarantee.spent_epsilon  # from the ledger's entries alone
    True
    """

    model_config = ConfigDict(json_schema_extra=without_example)

    kind: Literal["release"] = "release"
    stages: tuple[Stage, ...]
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
    estimated_rows: int
    people: PeopleFacts | None = None
    public: PublicFacts | None = None
    found_rules: tuple[FoundRule, ...] = ()
    sample_seed: int | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    certificate: Certificate | None = None

    @property
    def counted(self) -> int:
        """About how much was counted in the unit of the noise: rows, or grains of people."""
        return self.estimated_rows if self.people is None else self.people.estimated * self.people.grains

    @cached_property
    def asked_policy(self) -> Policy:
        """The requested policy, without the limits of a machine. Raises InputError if it is none."""
        try:
            return Policy.model_validate(split_policy(self.policy)[0])
        except ValidationError as error:
            problem = complaint(error)
        raise InputError(f"its policy: {problem}")

    @property
    def columns(self) -> tuple[AttributeFacts, ...]:
        """The attributes without companions: the columns of the rows, and ROWS_OF_PERSON."""
        return self.attributes[: len(self.attributes) - (len(self.people.companions) if self.people else 0)]

    @property
    def queries(self) -> Workload:
        """The requested workload."""
        return Workload.from_dict(self.workload)


def read_record(content: bytes | str) -> Statement:
    """The record in a file, of any kind; for a release the manifest. Raises InputError, with a line that
    begins with "it", if it is not a record, is damaged, or has a version that this program does not read.
    """
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError("it is no manifest") from None
    if not isinstance(facts, dict) or "manifest_version" not in facts:
        raise InputError("it is no manifest")
    try:
        return (Manifest if facts.get("kind") == "release" else Statement).model_validate_json(content)
    except ValidationError as error:
        reason = complaint(error)
    raise InputError(f"it is no manifest of this program: {reason}")
