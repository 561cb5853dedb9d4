"""Policy: the privacy promise and how the mechanism keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypedDict, Unpack

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    ValidationError,
    model_validator,
)

from factored_mwem.accounting.accountant import Budget
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.criteria import Criterion
from factored_mwem.domain.dialect import Dialect
from factored_mwem.errors import InputError, shown

DEFAULT_MAX_ROWS = 10**8
"""Most synthetic rows by default: where noise drowns the table, its noisy count may be anything."""
BEARABLE = ("max_cells", "max_memory")
"""Fields of a policy that say what a machine can bear: another attempt of a run may have others, as far as
the journal's draws fit them.
"""


DISCOVERY_DELTA = Fraction(0.1)
"""The share of delta that thresholds may use where a domain is learnt, as a cap keeps it for them."""
MWEM_ONLY = {"initial": "one-way", "replay": True, "components": "grow", "iterate": "last"}
"""Fields of Policy that only the faithful engine knows, with their defaults."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What experiments have set in the tree engine. The same for all tables and budgets.

    `cells` of all trees, and at most `cells_a_signal` for each unit of the problem's scale (see `signal`);
    `rounds_each` for each attribute that the budget is first divided into, at most `most_rounds`; `groups` of
    about equal mass in the coarser levels, `rare` standard deviations of noise below which codes are merged;
    `finest`: views have at most as many cells as make their noise in the first rounds this share of the
    largest error there can be.
    """

    cells: int = 2**19
    cells_a_signal: float = 32.0
    rounds_each: float = 4.0
    most_rounds: int = 200
    groups: tuple[int, ...] = (32, 8)
    rare: float = 2.0
    finest: float = 1.0


TUNED = Tuning()


class Choices(TypedDict, total=False):
    """The fields of a policy as keyword arguments: a type checker sees a misspelt one."""

    epsilon: float
    delta: float
    neighbours: Neighbours | Literal["add-remove", "replace"]
    contributions: int
    privacy_id: str | None
    certificate: float | None
    accept: Sequence[str]
    tries: int
    records: Literal["checked", "lines", "multiline"]
    delimiter: str | None
    encoding: str | None
    decimal: Literal[".", ","] | None
    date_format: str | None
    time_zone: str | None
    rounds: int | Literal["adaptive"] | None
    engine: Literal["tree", "mwem"]
    max_cells: int | None
    max_memory: int | str | None
    time_budget: float | None
    domain_budget: float
    drop_unique: bool
    initial: Literal["one-way", "histogram", "none"]
    initial_share: float | None
    select_share: float
    replay: bool
    components: Literal["grow", "one"]
    iterate: Literal["last", "average"]


class Policy(BaseModel):
    """The privacy promise and how the mechanism keeps it.

    `engine="tree"` is the product's own: clique trees, levels, annealed rounds. `engine="mwem"` is the
    paper's algorithm on dense components, and what follows is for it alone: `iterate` last or average;
    `replay` or a single step a round; `initial` a noisy histogram of every starting component ("histogram"),
    noisy one-way marginals, or none; `rounds="adaptive"`; `components="one"` starts from the whole domain in
    one component, as the paper's sections 2 and 3 do.

    `records` says what a record of a text file is: a line, and a file in which a quote is open at a line's
    end is refused ("checked"); a line, whatever its quotes ("lines"); or what a writer made that puts cells
    with line breaks into quotes ("multiline"). How such a file is written, `delimiter` to `time_zone` say,
    or where None its header and the domain file.

    `certificate`: the share of the budget that measures the error of the released rows. `accept`: what those
    errors must be, such as "mean3 <= 0.15", for there to be a release; up to `tries` are made, each with an
    equal part of the budget, and the first that will do is released.

    >>> from factored_mwem import Policy
    >>> Policy.of(epsilon=0.5, delta=1e-6, contributions=3)
    Policy(epsilon=0.5, delta=1e-06, contributions=3)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: StrictFloat = 1.0
    delta: StrictFloat = 1e-9
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    contributions: StrictInt = Field(default=1, ge=1, le=10**9)
    privacy_id: str | None = None
    certificate: float | None = Field(default=None, gt=0, le=0.5)
    accept: tuple[str, ...] = Field(default=(), max_length=1000)
    tries: StrictInt = Field(default=1, ge=1, le=100)
    records: Literal["checked", "lines", "multiline"] = "checked"
    delimiter: str | None = None
    encoding: str | None = None
    decimal: Literal[".", ","] | None = None
    date_format: str | None = None
    time_zone: str | None = None
    rounds: StrictInt | Literal["adaptive"] | None = None
    engine: Literal["tree", "mwem"] = "tree"
    max_cells: int | None = Field(default=None, ge=1, le=2**40)
    max_memory: ByteSize | None = Field(default=None, ge=1)
    time_budget: float | None = Field(default=None, gt=0, le=1e9)
    domain_budget: float = Field(default=0.5, gt=0, lt=1)
    drop_unique: bool = False
    initial: Literal["one-way", "histogram", "none"] = "one-way"
    initial_share: float | None = Field(default=None, gt=0, lt=1)
    select_share: float = Field(default=0.1, gt=0, lt=1)
    replay: bool = True
    components: Literal["grow", "one"] = "grow"
    iterate: Literal["last", "average"] = "last"

    @classmethod
    def of(cls, **choices: Unpack[Choices]) -> Policy:
        """A policy from keyword arguments; InputError in one line where a value does not fit."""
        try:
            return cls(**choices)
        except ValidationError as error:
            first = error.errors()[0]
        # past the block, for the validator's own error quotes its input, which may be a table
        reason = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:
            raise InputError(reason)
        value = f"={shown(first['input'])}" if first["type"] != "extra_forbidden" else ""
        raise InputError(f"{first['loc'][0]}{value}: {reason}")

    @model_validator(mode="after")
    def _fits(self) -> Policy:
        if isinstance(self.rounds, int) and self.rounds < 1:
            raise ValueError(f"rounds={self.rounds}: at least one, or 'adaptive'")
        _ = self.dialect, self.criteria
        if self.accept and self.certificate is None:
            raise ValueError(
                "accept needs a certificate, which measures what is accepted: give certificate=0.03"
            )
        if self.tries > 1 and not self.accept:
            raise ValueError(f"tries={self.tries}: without accept the first try would do; give accept, too")
        given = [name for name, value in MWEM_ONLY.items() if getattr(self, name) != value]
        if self.engine == "tree" and given:
            raise ValueError(f"{given[0]}={getattr(self, given[0])!r} needs engine='mwem'")
        if self.engine == "mwem" and (self.max_memory or self.time_budget):
            raise ValueError(
                "max_memory and time_budget need engine='tree'; with engine='mwem' set max_cells and rounds"
            )
        if self.engine == "tree" and self.rounds == "adaptive":
            raise ValueError(
                "rounds='adaptive' needs engine='mwem'; engine='tree' adapts its rounds unless their number "
                "is given"
            )
        if self.iterate == "average" and self.components != "one":
            raise ValueError(
                "iterate='average' needs components='one': an average of products is not a product"
            )
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """The promise, and what is not the default: a screen at most."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in ("epsilon", "delta") or value != field.default:
                yield name, value if len(str(value)) <= 80 else f"{value!s:.77}..."

    @property
    def dialect(self) -> Dialect:
        """How a text file is written, as far as the policy says."""
        return Dialect(**{name: getattr(self, name) for name in Dialect.model_fields})

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """What the certificate must say for there to be a release."""
        return tuple(map(Criterion.parse, self.accept))

    @property
    def cells(self) -> int:
        """Most cells of all trees together, or of one dense component."""
        return self.max_cells or (TUNED.cells if self.engine == "tree" else 2**20)

    @property
    def unit(self) -> Unit:
        return Unit(self.neighbours, self.contributions, by_id=self.privacy_id is not None)

    def budget(self, *, learn_domain: bool) -> Budget:
        """The budget of this promise; a share of delta is kept apart where a domain is learnt."""
        share = DISCOVERY_DELTA if learn_domain else Fraction(0)
        return Budget.of(self.epsilon, self.delta, discovery_share=share)


RETIRED = ("step",)
"""Fields that policies had once."""


def split_policy(policy: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a policy in JSON that no attempt of a run may change, and those that one may. What is in
    a file may be anything.
    """
    # a field that came later had its default
    fields = {**Policy().model_dump(mode="json"), **policy} if isinstance(policy, dict) else {}
    lasting = {name: value for name, value in fields.items() if name not in (*BEARABLE, *RETIRED)}
    return lasting, {name: fields.get(name) for name in BEARABLE}
