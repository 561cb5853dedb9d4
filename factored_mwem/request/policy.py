"""Policy: everything that is requested of a release besides its workload: the promise, what is accepted, and
how the mechanism works.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, Unpack

from pydantic import ByteSize, Field, StrictInt, model_validator

from factored_mwem.accounting.unit import MOST_ROWS, USUAL_ROWS, Unit, grains_of
from factored_mwem.domain.dialect import Names
from factored_mwem.errors import InputError, shortened
from factored_mwem.request.promise import Books, Chosen, Terms, TermsChoices

DEFAULT_MAX_ROWS = 10**8
"""Most synthetic rows by default: if the noise is larger than the table, its noisy count may be anything."""
BEARABLE = ("max_cells", "max_memory")
"""Fields for the limits of a machine, which another attempt of a run may change."""
_FORM = re.compile(
    r"\s*(?:mean([1-9][0-9]?)|(worst)|column\s+(\S(?:.*\S)?)|(unique)(?:\s+(\S(?:.*?\S)?))?)"
    r"\s*<=\s*([0-9.eE+-]+)\s*",
    re.DOTALL,
)
HOW = (
    "write mean1, mean2, ..., worst or column NAME, then <= and a number above 0 and below 2; or unique, or "
    "unique NAME, NAME, then <= and a share below 1"
)
"""The advice for a criterion in another form."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of the tree engine, chosen by experiments; the same for all tables and budgets.

    `cells` of all trees, and at most `cells_a_signal` for each unit of the problem's scale (see `signal`);
    `rounds_each` for each attribute that the budget is first divided into, at most `most_rounds`; `groups` of
    about equal mass in the coarser levels, `rare` standard deviations of noise below which codes are merged;
    `finest`: views have at most as many cells as make their noise in the first rounds this share of the
    largest error there can be; pairs of which a coarser view is measured, `finer` times as many, but
    no more than there are rows.
    """

    cells: int = 2**19
    cells_a_signal: float = 32.0
    rounds_each: float = 4.0
    most_rounds: int = 200
    groups: tuple[int, ...] = (32, 8)
    rare: float = 2.0
    finest: float = 1.0
    finer: float = 16.0


TUNED = Tuning()


class Choices(TermsChoices, total=False):
    """The fields of a policy as keyword arguments, so that a type checker finds misspelt ones."""

    certificate: float | None
    accept: Sequence[str]
    tries: int
    rounds: int | Literal["adaptive"] | None
    engine: Literal["tree", "mwem"]
    max_cells: int | None
    max_memory: int | str | None
    time_budget: float | None
    domain_budget: float
    drop_unique: bool
    people: bool
    person_columns: Sequence[str] | str
    order_by: str
    initial: Literal["one-way", "histogram", "none"]
    initial_share: float | None
    select_share: float
    replay: bool
    components: Literal["grow", "one"]
    iterate: Literal["last", "average"]


class BookedChoices(Choices, Books, total=False):
    """The fields of a policy, and where the cost is entered."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """An error of the released rows is at most `most`: the mean over the marginals of `order` attributes,
    that of one `column`, or the worst of all. It is met where the certificate's upper bound is no larger.
    "unique": the share of released rows that no other has the same values as in `columns`, or in all of them;
    that is counted, in public rows.
    """

    text: str
    what: Literal["mean", "column", "worst", "unique"]
    order: int
    columns: tuple[str, ...]
    most: float

    @classmethod
    def parse(cls, text: str) -> Criterion:
        """The criterion in a text such as `mean3 <= 0.15`, `worst <= .8` or `column age <= .05`. Raises
        ValueError if it is in another form.
        """
        match = _FORM.fullmatch(text)
        try:
            most = float(match[6]) if match else -1.0
        except ValueError:
            most = -1.0
        if match is None or not (0 <= most < 1 if match[4] else 0 < most < 2):
            raise ValueError(f"--accept {text[:80]!r}: {HOW}")
        order, worst, column, unique, names, _ = match.groups()
        if unique:
            named = [name.strip() for name in (names or "").split(",")]
            return cls(text, "unique", 0, tuple(filter(None, named)), most)
        if column is not None:
            return cls(text, "column", 1, (column,), most)
        return cls(text, "worst" if worst else "mean", int(order or 0), (), most)


class Acceptance(Chosen):
    """What must be true of the released rows.

    `certificate`: the share of the budget that measures the error of the released rows. `accept`: what those
    errors must be, such as "mean3 <= 0.15", for there to be a release; up to `tries` are made, each with an
    equal part of the budget, and the first that will do is released.
    """

    certificate: float | None = Field(default=None, gt=0, le=0.5)
    accept: tuple[str, ...] = Field(default=(), max_length=1000)
    tries: StrictInt = Field(default=1, ge=1, le=100)

    @model_validator(mode="after")
    def _measures_what_it_accepts(self) -> Self:
        _ = self.criteria
        if self.accept and self.certificate is None:
            raise ValueError(
                "accept needs a certificate, which measures what is accepted: give certificate=0.03"
            )
        if self.tries > 1 and not self.accept:
            raise ValueError(f"tries={self.tries}: without accept the first try would do; give accept, too")
        return self

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria that the certificate must meet."""
        return tuple(map(Criterion.parse, self.accept))


class Policy(Acceptance, Terms):
    """The privacy promise, how the table is written, what is accepted, and how the mechanism works.

    `engine="tree"` is the product's own: clique trees, levels, annealed rounds. `engine="mwem"` is the
    paper's algorithm on dense components, and what follows is for it alone: `iterate` last or average;
    `replay` or a single step a round; `initial` a noisy histogram of every starting component ("histogram"),
    noisy one-way marginals, or none; `rounds="adaptive"`; `components="one"` starts from the whole domain in
    one component, as the paper's sections 2 and 3 do.

    `people`: each person that `privacy_id` names weighs one, whatever the number of their rows, and rows come
    out as people; `person_columns` are the same in all rows of a person; `order_by` names the column whose
    values put the rows of a person in order, so that the release keeps which value follows which.

    >>> from factored_mwem import Policy
    >>> Policy.of(epsilon=0.5, delta=1e-6, contributions=3)
    Policy(epsilon=0.5, delta=1e-06, contributions=3)
    """

    rounds: StrictInt | Literal["adaptive"] | None = None
    engine: Literal["tree", "mwem"] = "tree"
    max_cells: int | None = Field(default=None, ge=1, le=2**40)
    max_memory: ByteSize | None = Field(default=None, ge=1)
    time_budget: float | None = Field(default=None, gt=0, le=1e9)
    domain_budget: float = Field(default=0.5, gt=0, lt=1)
    drop_unique: bool = False
    people: bool = False
    person_columns: Names = None
    order_by: str | None = None
    initial: Literal["one-way", "histogram", "none"] = "one-way"
    initial_share: float | None = Field(default=None, gt=0, lt=1)
    select_share: float = Field(default=0.1, gt=0, lt=1)
    replay: bool = True
    components: Literal["grow", "one"] = "grow"
    iterate: Literal["last", "average"] = "last"

    @classmethod
    def of(cls, **choices: Unpack[Choices]) -> Policy:
        """A policy from keyword arguments. Raises InputError, one line, if a name or a value does not fit."""
        return cls.made(choices)

    @model_validator(mode="after")
    def _fits_its_engine(self) -> Self:
        if isinstance(self.rounds, int) and self.rounds < 1:
            raise ValueError(f"rounds={self.rounds}: at least one, or 'adaptive'")
        if self.engine == "mwem" and (self.max_memory or self.time_budget):
            raise ValueError(
                "max_memory and time_budget need engine='tree'; with engine='mwem' set max_cells and rounds"
            )
        if self.engine == "tree":
            for name in ("initial", "replay", "components", "iterate"):
                if (value := getattr(self, name)) != type(self).model_fields[name].default:
                    raise ValueError(f"{name}={value!r} needs engine='mwem'")
            if self.rounds == "adaptive":
                raise ValueError(
                    "rounds='adaptive' needs engine='mwem'; engine='tree' adapts its rounds unless their "
                    "number is given"
                )
        if self.iterate == "average" and self.components != "one":
            raise ValueError(
                "iterate='average' needs components='one': an average of products is not a product"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _uses_many_rows_of_people(cls, choices: Any) -> Any:
        """If each person weighs one, more rows of a person cost nothing, so the default is many."""
        if isinstance(choices, dict) and choices.get("people") is True:
            return {"contributions": USUAL_ROWS, **choices}
        return choices

    @model_validator(mode="after")
    def _knows_its_people(self) -> Self:
        if not self.people:
            if self.person_columns is not None:
                raise ValueError("person_columns needs people=True (--people)")
            if self.order_by is not None:
                raise ValueError(
                    'order_by needs people=True (--people); of tables that belong together, "orderBy" beside '
                    "a resource of the descriptor says it"
                )
            return self
        if self.privacy_id is None:
            raise ValueError("people needs privacy_id, the column that names the person")
        if not 2 <= self.contributions <= MOST_ROWS:
            what = "the most rows of a person that are used (others are left out at random)"
            raise ValueError(f"people needs contributions from 2 to {MOST_ROWS}: {what}")
        if self.privacy_id in (self.person_columns or ()):
            raise ValueError(
                f"person_columns lists {self.privacy_id!r}, which names the person; leave it out"
            )
        if self.order_by is not None and self.order_by in (self.privacy_id, *(self.person_columns or ())):
            what = "is the same in all rows of a person, so it puts none of them before another"
            raise ValueError(f"order_by={self.order_by!r} {what}; name a date, a time or a number")
        return self

    @property
    def unit(self) -> Unit:
        unit = super().unit
        return replace(unit, grains=grains_of(self.contributions)) if self.people else unit

    @property
    def left_out(self) -> str:
        """Which rows are in no count, in words, where a column names people and each row counts for itself;
        else empty.
        """
        if self.privacy_id is None or self.people:
            return ""
        name = repr(shortened(self.privacy_id))
        rows = f"{self.contributions:,} row{'s are' if self.contributions > 1 else ' is'}"
        return f"of each person by {name} at most {rows} used; further ones are in no count"

    @property
    def cells(self) -> int:
        """Most cells of all trees together, or of one dense component."""
        return self.max_cells or (TUNED.cells if self.engine == "tree" else 2**20)

    @property
    def uncertified(self) -> Policy:
        """The policy itself, for outputs without rows. Raises InputError if it asks for people, or for a
        certificate of rows.
        """
        if self.people:
            raise InputError("people is for outputs with rows, and this one has none; leave people out")
        if self.certificate is not None:
            raise InputError("a certificate is for outputs with rows, and this one has none; leave it out")
        return self


def split_policy(policy: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the fields of a policy in JSON that no attempt of a run may change, those that it may); the policy may
    come from any file.
    """
    fields = policy if isinstance(policy, dict) else {}
    lasting = {name: value for name, value in fields.items() if name not in BEARABLE}
    return lasting, {name: fields.get(name) for name in BEARABLE}
