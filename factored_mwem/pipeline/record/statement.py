"""Statement: the publishable record of what was spent, on what, and how to check it. It holds only facts safe
to publish. Of a release it says more: see `manifest`.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable
from dataclasses import asdict
from fractions import Fraction
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

from factored_mwem.accounting.accountant import Accountant, Budget, Charge, Mechanism, guarantee
from factored_mwem.accounting.conversion import Composition, float_up, library_version
from factored_mwem.pipeline.record.assumptions import Assumption
from factored_mwem.request.promise import Promise

VERSION = 1
"""Version of the record's form. The meaning of a field never changes within a version."""


class Kind(NamedTuple):
    """A kind of spending: neighbouring `inputs` differ in one `thing`; `released` says what comes out."""

    thing: str
    inputs: str
    released: str


KINDS = {
    "release": Kind("row", "tables", "a synthetic table"),
    "tables": Kind(
        "row of the root table with all that hangs on it", "packages", "synthetic tables that belong together"
    ),
    "domain": Kind("row", "tables", "a learnt domain: which values each column may have"),
    "ask": Kind("row", "tables", "answers to queries, one by one"),
    "known": Kind("row", "tables", "counts of a list that was known beforehand"),
    "sketch": Kind("row", "tables", "a sketch of how often each key of a column comes"),
    "statistic": Kind("row", "tables", "a statistic of a column"),
    "sample and aggregate": Kind("row", "tables", "a function's results on blocks of rows, put together"),
    "hypothesis": Kind("row", "tables", "the hypothesis that is right about nearly as many rows as any"),
    "graph": Kind("edge", "graphs", "a synthetic graph"),
    "cuts": Kind("edge", "graphs", "the sizes of cuts of a graph, one by one"),
    "triangles": Kind("edge", "graphs", "the number of triangles of a graph"),
    "spanning tree": Kind("edge weight", "graphs", "the cost of a minimum spanning tree"),
}


class Part(BaseModel):
    """A part of a record: immutable, and without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Guarantee(Part):
    """The guarantee, which holds as long as its `assumptions` (by name) do. `spent_epsilon`: the sum of the
    charges, never above `epsilon`. `unit`: what two neighbouring inputs differ in.
    """

    epsilon: float
    delta: float
    spent_epsilon: float
    neighbours: str
    contributions: int
    unit: str
    composition: Composition
    statement: str
    assumptions: dict[str, Assumption]

    @classmethod
    def of(
        cls, kind: str, promise: Promise, accountant: Accountant, assumptions: dict[str, Assumption]
    ) -> Guarantee:
        """The guarantee for what was spent under a promise."""
        words = KINDS[kind]
        return cls(
            epsilon=promise.epsilon,
            delta=promise.delta,
            spent_epsilon=accountant.guarantee()[0],
            neighbours=promise.neighbours.value,
            contributions=promise.contributions,
            unit=promise.in_words(words.thing),
            composition=accountant.budget.composition,
            statement=promise.statement(words.thing, words.inputs),
            assumptions=assumptions,
        )

    def taken_on_trust(self) -> list[tuple[str, str]]:
        """(name, statement) of the assumptions that nothing enforces."""
        return [(name, one.statement) for name, one in self.assumptions.items() if not one.enforced]


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


class ChargeRecord(Part):
    """A ledger entry; `delta` is a fraction."""

    stage: str
    mechanism: Mechanism = Field(description=PRICES)
    target: tuple[str, ...]
    scale: float
    sensitivity: int
    delta: str = "0"

    @classmethod
    def of(cls, charge: Charge) -> ChargeRecord:
        """A charge as it stands in a record."""
        return cls(**{**asdict(charge), "delta": str(charge.delta)})


class PartFile(Part):
    """A file of a folder of rows."""

    file: str
    rows: int
    sha256: str


class Output(Part):
    """The data this record belongs to: a file, or a folder of parts, which ends in a slash; its `rows`, 0
    where it is no table.

    `sha256` is a file's; a folder's is that of what `sha256sum part-*.parquet` prints inside.
    """

    file: str
    rows: int = 0
    sha256: str | None = None
    parts: tuple[PartFile, ...] = ()


class Replaced(Part):
    """The earlier records of this name that this one replaced: how many there were, and what they and this
    one cost together if all are about the same people (epsilons and deltas add up). None if one of them could
    not be read.
    """

    records: int
    epsilon: float | None
    delta: float | None

    @classmethod
    def before(cls, old: Statement | None) -> Replaced:
        """The sum of an `old` record and those that it replaced; None if it cannot be read."""
        if old is None:
            return cls(records=1, epsilon=None, delta=None)
        if old.replaced is not None:
            return old.replaced.model_copy(update={"records": old.replaced.records + 1})
        return cls(records=1, epsilon=old.guarantee.spent_epsilon, delta=old.guarantee.delta)

    def together(self, guarantee: Guarantee) -> Replaced:
        """With what the record costs that takes their place."""
        if self.epsilon is None or self.delta is None:
            return self
        epsilon = Fraction(self.epsilon) + Fraction(guarantee.spent_epsilon)
        delta = Fraction(self.delta) + Fraction(guarantee.delta)
        return Replaced(records=self.records, epsilon=float_up(epsilon), delta=float_up(delta))

    @property
    def in_words(self) -> str:
        """The replacement in words, for the steward."""
        which = "an earlier record was" if self.records == 1 else f"{self.records} earlier records were"
        if self.epsilon is None:
            return f"{which} replaced here that cannot be read: what all of them cost together is unknown"
        cost = f"epsilon {self.epsilon:.6g}" + (f" at delta {self.delta:g}" if self.delta else "")
        return f"{which} replaced here: all together cost {cost}, where they are about the same people"


class Statement(Part):
    """The record as a whole. `settings`: public choices of this `kind`; `result`: what was released, where
    that is a number or two; `chain_head`: the head of the ledger's chain when the cost was entered, which
    `fmwem ledger verify` looks for; `replaced`: earlier records that this one took the place of.
    """

    manifest_version: int = VERSION
    tool: str = "factored-mwem"
    tool_version: str
    kind: str
    created: datetime.date
    guarantee: Guarantee
    ledger: tuple[ChargeRecord, ...]
    settings: dict[str, Any] = {}
    result: dict[str, Any] = {}
    noise_library: str
    output: Output | None = None
    chain_head: str | None = None
    replaced: Replaced | None = None

    @field_validator("manifest_version")
    @classmethod
    def _known_version(cls, version: int) -> int:
        if version != VERSION:
            raise ValueError(f"version {version}, and this program reads version {VERSION}")
        return version

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError("is not one of " + ", ".join(KINDS))
        return kind

    def recompute(self) -> float:
        """epsilon from the ledger's entries alone, as a third party would compute it."""
        g = self.guarantee
        promised = Budget(g.epsilon, g.delta, g.composition, Fraction(0), Fraction(0))
        return guarantee(charges_of(self.ledger), promised)[0]


def charges_of(ledger: Iterable[ChargeRecord]) -> list[Charge]:
    """The entries of a record, each of which can be priced."""
    return [Charge(c.stage, c.mechanism, c.target, c.scale, c.sensitivity, Fraction(c.delta)) for c in ledger]


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def versions() -> str:
    """The versions, of this program and of the noise library, that must be the same to resume a run."""
    return f"{tool_version()}, {library_version()}"


@functools.cache
def tool_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("factored-mwem")
    except PackageNotFoundError:
        return "not installed"
