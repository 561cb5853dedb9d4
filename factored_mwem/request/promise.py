"""Promise: what is spent and whom it protects; with it, how the private table is written. Every command that
spends takes these, a release more of them: see `policy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Self, TypedDict

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, ValidationError, model_validator

from factored_mwem.accounting.accountant import Budget, can_be_kept
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.dialect import Dialect, Names
from factored_mwem.errors import InputError, shown

DISCOVERY_DELTA = Fraction(0.1)
"""The share of delta that thresholds may use where a domain is learnt, as a cap keeps it for them."""


class Books(TypedDict, total=False):
    """Where the cost is entered: a ledger (a file, or `postgresql://USER@HOST/DATABASE`), the table's name in
    it, and a run id, by which the run can be resumed.
    """

    ledger: str | Path | None
    dataset: str | None
    run_id: str | None


class TermsChoices(TypedDict, total=False):
    """The fields of `Terms` as keyword arguments, so that a type checker finds misspelt ones."""

    epsilon: float
    delta: float
    neighbours: Neighbours | Literal["add-remove", "replace"]
    contributions: int
    privacy_id: str | None
    records: Literal["checked", "lines", "multiline"]
    delimiter: str | None
    encoding: str | None
    decimal: Literal[".", ","] | None
    date_format: str | None
    time_zone: str | None
    missing: Sequence[str] | str | None
    header: Literal["first", "none"] | None
    names: Sequence[str] | str | None


class BookedTerms(TermsChoices, Books, total=False):
    """Whom a session protects, how its table is written, and where its cost is entered."""


class Chosen(BaseModel):
    """Choices by name; a value that does not fit is refused in one line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def made(cls, choices: Mapping[str, Any]) -> Self:
        """The choices, checked. Raises InputError in one line if a value does not fit."""
        try:
            return cls(**choices)
        except ValidationError as error:
            first = error.errors()[0]
        # outside the block: the validator's error quotes its input, which may be a table
        reason = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        if not first["loc"]:
            raise InputError(reason)
        if first["type"] == "extra_forbidden":
            known = ", ".join(cls.model_fields)
            raise InputError(f"{first['loc'][0]} means nothing here; leave it out. Known are {known}")
        raise InputError(f"{first['loc'][0]}={shown(first['input'])}: {reason}")

    @classmethod
    def given(cls, policy: Chosen | None, choices: Mapping[str, Any], **defaults: Any) -> Self:
        """The choices that a policy sets or, without a policy, `choices`; `defaults` for the rest."""
        if policy is not None and not isinstance(policy, Chosen):
            raise InputError(f"policy={shown(policy)}: must be a Policy, for example Policy.of(epsilon=1.0)")
        if policy is not None and choices:
            raise InputError(f"{next(iter(choices))} is given beside a policy; put it into the policy")
        if policy is not None and type(policy) is cls and not defaults:
            return policy
        if policy is not None:
            choices = policy.chosen
        return cls.made({**defaults, **choices})

    @property
    def chosen(self) -> dict[str, Any]:
        """The fields that were set, not left at their defaults."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """The promise, and what is not the default: a screen at most."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in ("epsilon", "delta") or value != field.default:
                yield name, value if len(str(value)) <= 80 else f"{value!s:.77}..."


class Promise(Chosen):
    """Epsilon and delta, and whom they protect: one person with at most `contributions` records, whom the
    column `privacy_id` names where there is one. Raises InputError for an epsilon or a delta out of range.
    """

    epsilon: StrictFloat = 1.0
    delta: StrictFloat = 1e-9
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    contributions: StrictInt = Field(default=1, ge=1, le=10**9)
    privacy_id: str | None = None

    @model_validator(mode="after")
    def _can_be_kept(self) -> Self:
        can_be_kept(self.epsilon, self.delta)
        return self

    @property
    def unit(self) -> Unit:
        return Unit(self.neighbours, self.contributions, by_id=self.privacy_id is not None)

    def budget(self, *, learn_domain: bool = False) -> Budget:
        """The budget of this promise; a share of delta is kept apart where a domain is learnt."""
        share = DISCOVERY_DELTA if learn_domain else Fraction(0)
        return Budget.of(self.epsilon, self.delta, discovery_share=share)

    def protected(self, thing: str = "row") -> str:
        """Who is protected: one person with their `thing`s, or a single thing if the promise does not count
        the things of a person, as with the edges of a graph.
        """
        k = self.contributions
        if thing != "row" and k == 1 and self.privacy_id is None:
            return f"one {thing}"
        bound = "" if self.privacy_id is None else f" (bounded by {self.privacy_id!r})"
        return f"one person with at most {k} {thing}{'s' * (k > 1)}{bound}"

    def in_words(self, thing: str = "row") -> str:
        """What neighbouring inputs differ in."""
        add_remove = self.neighbours is Neighbours.ADD_REMOVE
        return f"{self.protected(thing)} {'added or removed' if add_remove else 'exchanged for another'}"

    def statement(self, thing: str = "row", inputs: str = "tables") -> str:
        """The promise in one sentence."""
        numbers = f"({self.epsilon:g}, {self.delta:g})" if self.delta else f"{self.epsilon:g}"
        return (
            f"{numbers}-differential privacy against {inputs} with {self.in_words(thing)}, under the "
            "assumptions listed"
        )


class Terms(Promise):
    """The promise, and how the private table is written.

    `records` says what a record of a text file is: a line, where a file with a quote open at the end of a
    line is refused ("checked"); a line, whatever its quotes ("lines"); or text in which cells with line
    breaks are in quotes ("multiline"). The fields from `delimiter` to `names` say how such a file is written;
    if None, its header and the domain file decide.
    """

    records: Literal["checked", "lines", "multiline"] = "checked"
    delimiter: str | None = None
    encoding: str | None = None
    decimal: Literal[".", ","] | None = None
    date_format: str | None = None
    time_zone: str | None = None
    missing: Names = None
    header: Literal["first", "none"] | None = None
    names: Names = None

    @model_validator(mode="after")
    def _is_a_dialect(self) -> Self:
        _ = self.dialect
        return self

    @property
    def dialect(self) -> Dialect:
        """How a text file is written, as far as it is declared."""
        return Dialect(**{name: getattr(self, name) for name in Dialect.model_fields})
