"""Query kinds. Each file holds one kind: which attributes a question is about, how it is answered, and what
one person changes.

To add a kind, write its file and name it in `workload.KINDS`: the loop, selection, measurement and accounting
ask through `Questions` alone.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, Protocol, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.errors import InputError


class Source(Protocol):
    """What can be asked: the private rows (exact int64 counts) or a model (float64 records)."""

    def marginal(self, positions: Sequence[int]) -> np.ndarray: ...


class Questions(Protocol):
    """Questions of one kind, numbered from 0. A question has one answer, or one for each cell of a table that
    is measured as a whole.
    """

    @property
    def cells(self) -> np.ndarray:
        """int64[question]: how many answers each has."""

    def positions(self, question: int) -> tuple[int, ...]:
        """The attributes a question is about, ascending."""

    def label(self, question: int, names: Sequence[str]) -> str:
        """A question in words, from the names of all attributes."""

    def answers(self, source: Any) -> np.ndarray:
        """All answers, question after question: exact int64 where the source counts rows, else float64
        records.
        """

    def l1(self, unit: Unit) -> int:
        """The most that the answers to one question move together between neighbours, in sum of absolute
        values.
        """

    def l2_squared(self, unit: Unit) -> int:
        """The same, in sum of squares."""

    @property
    def lowest(self) -> int:
        """The least value of a query at a row: 0, or -1 where rows count against it. The greatest is 1."""

    def axis_values(self, question: int) -> dict[int, np.ndarray] | None:
        """int8[code] by attribute: the query's value at a row is their product. None where a question is a
        whole marginal.
        """


def _each_once(names: Clique) -> Clique:
    if len(set(names)) < len(names):
        raise ValueError("name each attribute once")
    return names


Names = Annotated[Clique, AfterValidator(_each_once)]
"""Attributes of a request, each named once."""


class QueryRequest(BaseModel):
    """What a workload asks for in one line: its public parameters.

    `weight`: how much an error counts, beside 1 for plain marginals; below a 256th of the largest it counts
    as that.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: float = Field(default=1.0, gt=0, le=1000)

    @property
    def names(self) -> Clique:
        """The attributes it names; none where it is about all of a type."""
        return ()

    def check(self, attributes: int) -> None:
        """InputError for what cannot be asked of a table of so many columns, whatever their domain."""

    @abstractmethod
    def in_words(self) -> str:
        """What is asked, on one short line."""

    @abstractmethod
    def within(self, domain: Domain) -> tuple[Clique, int]:
        """(names, order): the marginals over so many of these attributes answer it. InputError where the
        domain does not fit.
        """

    def targets(self, domain: Domain) -> list[Clique]:
        """The marginals that answer it, by names; InputError where the domain does not fit."""
        names, order = self.within(domain)
        return list(itertools.combinations(names, order))

    @abstractmethod
    def questions(self, domain: Domain) -> Questions:
        """The questions themselves."""


Kind = TypeVar("Kind", bound=QueryRequest)


def made(kind: type[Kind], **fields: Any) -> Kind:
    """The request; InputError in one line where a value does not fit."""
    try:
        return kind(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}={first['input']!r}: {first['msg']}") from None


def shown(text: str) -> str:
    """The text as an error may print it: in one line."""
    return text if text.isprintable() else repr(text)


def split_spec(text: str, option: str) -> tuple[Clique, str, float]:
    """(names, what follows the colon, weight) of `A,B:WHAT@WEIGHT`; the last two may be left out."""
    body, _, weight = text.partition("@")
    names, _, what = body.partition(":")
    try:
        found = float(weight) if weight else 1.0
    except ValueError:
        raise InputError(
            f"--{option} {shown(text)}: {weight!r} is no weight; write for example {shown(body)}@2"
        ) from None
    if not math.isfinite(found) or not 0 < found <= 1000:
        raise InputError(f"--{option} {shown(text)}: a weight is above 0, at most 1000")
    attributes = tuple(name.strip() for name in names.split(","))
    if not all(attributes) or len(set(attributes)) < len(attributes):
        raise InputError(f"--{option} {shown(text)}: name each attribute once, separated by commas")
    return attributes, what.strip(), found
