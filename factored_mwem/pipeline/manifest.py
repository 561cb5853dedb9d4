"""Manifest: the publishable statement of what was released, at what cost, and how to check it. It holds only
facts safe to publish.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from factored_mwem.accounting.accountant import Budget, Charge, Mechanism, guarantee
from factored_mwem.accounting.conversion import Composition, library_version
from factored_mwem.files import without_example
from factored_mwem.pipeline.assumptions import Assumptions

VERSION = 5
"""Version of the manifest's form. The meaning of a field never changes within a version; 2 lists assumptions,
and names a ledger's head, 3 says what became of the values of learnt columns, 4 lists the parts of a folder,
and by its `sample_seed` each batch of rows is drawn with a generator of its own: other rows than by an older
one's; 5 may hold a certificate.
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
discrete laplace, in rho: s / (2 * b^2) of rho, s the squared L2 sensitivity;
exponential mechanism (gumbel): (2 * s / b)^2 / 8 of rho, s the most that a score changes;
permute-and-flip: 2 * s / b of epsilon, s the most that a score changes;
sparse vector: 13 * s / (5 * b) of epsilon, s the most that a score changes, b that of its threshold;
sparse vector, in rho: (13 * s / (5 * b))^2 / 2 of rho, s the most that a score changes;
discrete cauchy, smooth sensitivity: 2 * asinh(sqrt(h / 2)) * (1 + u / sinh(u)) of epsilon, h the larger of
1 / (2 * b^2) and 2 * sinh(t / 2)^2 + e^-t / (2 * b^2), u = 2 * pi * b, t = s / 2^60 + 2^-26;
discrete laplace, smooth sensitivity: 1 / b + max(t, ln(2 / (1 + 1 / e) / delta) * (e^t - 1) - t / sinh(1)) of
epsilon, t as above, and `delta` besides; of both, b times a private bound is the scale of the noise, and
both are rounded up by a part in 10^12.
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
    kept: float | None = None
    """Of a learnt one, in noisy shares of all rows: values kept as they are or within their bin,"""
    clipped: float | None = None
    """moved to the nearest bin,"""
    other: float | None = None
    """made `other`, or the most frequent value where there is none,"""
    missing: float | None = None
    """and missing."""


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


class CertifiedError(_Part):
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


class Certificate(_Part):
    """Errors of the release, paid for with a `share` of the budget. With `criteria`, the release is the first
    of up to `tries` that met them, this one being number `tried`: no upper bound is above what was asked. The
    bounds of all tries hold at once with the `confidence`, so choosing among them changes nothing.
    """

    share: float
    confidence: float
    errors: tuple[CertifiedError, ...]
    criteria: tuple[str, ...] = ()
    tries: int = 1
    tried: int = 1


class PartFile(_Part):
    """A file of a folder of rows."""

    file: str
    rows: int
    sha256: str


class Output(_Part):
    """The data this manifest belongs to: a file, or a folder of parts, which ends in a slash.

    `sha256` is a file's; a folder's is that of what `sha256sum part-*.parquet` prints inside.
    """

    file: str
    rows: int
    sha256: str | None = None
    parts: tuple[PartFile, ...] = ()


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
    certificate: Certificate | None = None
    output: Output | None = None
    chain_head: str | None = None

    def recompute(self) -> float:
        """epsilon from the ledger's entries alone, as a third party would compute it."""
        g = self.guarantee
        return recomputed(self.ledger, Budget(g.epsilon, g.delta, g.composition, Fraction(0), Fraction(0)))


def recomputed(ledger: Iterable[ChargeRecord], promise: Budget) -> float:
    """epsilon, at the delta of a promise, from the entries alone."""
    entries = [
        Charge(c.stage, c.mechanism, c.target, c.scale, c.sensitivity, Fraction(c.delta)) for c in ledger
    ]
    return guarantee(entries, promise)[0]


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
