"""Query kinds: the interface of a request of any kind, and of its questions."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.errors import InputError


class MarginalSource(Protocol):
    """What can be asked: the private rows (exact int64 counts) or a model (float64 records)."""

    def marginal(self, positions: Sequence[int]) -> np.ndarray: ...


class Questions(Protocol):
    """Questions of one kind, numbered from 0.

    A question has one answer, or one for each cell of a table that is measured as a whole.
    """

    @property
    def cells(self) -> np.ndarray:
        """int64[question]: how many answers each has."""

    def positions(self, question: int) -> tuple[int, ...]:
        """The attributes a question is about, ascending."""

    def label(self, question: int, names: Sequence[str]) -> str:
        """A question in words, from the names of all attributes."""

    def answers(self, source: Any) -> np.ndarray:
        """All answers, one after the other: exact int64 where the source counts rows, else float64."""

    def l1(self, unit: Unit) -> int:
        """The most that the answers to a question move between neighbours: the sum of absolute values."""

    def l2_squared(self, unit: Unit) -> int:
        """The same, in sum of squares."""

    @property
    def lowest(self) -> int:
        """The least value of a query at a row: 0, or -1 where rows count against it. The greatest is 1."""

    def axis_values(self, question: int) -> dict[int, np.ndarray] | None:
        """int8[code] by attribute: a row's value is their product. None if a question is a marginal."""


def _each_once(names: Clique) -> Clique:
    if len(set(names)) < len(names):
        raise ValueError("name each attribute once")
    return names


Names = Annotated[Clique, AfterValidator(_each_once)]
"""Attributes of a request, each named once."""


class Span(NamedTuple):
    """The marginals over up to `order` of the attributes `names`.

    `ordered`: boxes over their values are asked, so their levels are nested groups of neighbours.
    """

    names: Clique
    order: int
    weight: float = 1.0
    ordered: bool = False


class QueryRequest(BaseModel):
    """One request of a workload: its public parameters.

    `weight`: how much an error counts, beside 1 for plain marginals; below a 256th of the largest it counts
    as that.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: ClassVar[str]
    """Its list in workload files and manifests."""
    option: ClassVar[str]
    """Its flag `--option`, which is also its key in configuration files, and in capitals its variable."""
    help: ClassVar[str]
    """The help text of the flag."""
    repeats: ClassVar[bool] = True
    """Whether the flag takes a text and repeats; else it takes one whole number."""
    form: ClassVar[str]
    """The form of the text after the flag, for messages."""
    example: ClassVar[str] = ""
    """An example of the text that the flag takes, if it takes one."""

    weight: float = Field(default=1.0, gt=0, le=1000)

    @classmethod
    @abstractmethod
    def parse(cls, value: Any) -> Self:
        """The request that the flag makes with this text, or number. Raises InputError if it is not in the
        right form.
        """

    @property
    def names(self) -> Clique:
        """The attributes it names; none if it is about all of a type."""
        return ()

    def breadth(self, attributes: int) -> tuple[int, int, int]:
        """(times, width, order): `times` different sets of `width` attributes, with all marginals over up to
        `order` attributes of each, answer the request; as far as the number of a table's attributes shows.
        """
        width = len(self.names) or attributes
        return 1, width, width

    def check(self, attributes: int) -> None:
        """Raises InputError for what cannot be asked of a table of so many columns, whatever their domain."""

    def check_kinds(self, kinds: Mapping[str, str]) -> None:
        """Raises InputError for what cannot be asked of columns of these kinds (types of attributes, by
        name).
        """

    @abstractmethod
    def in_words(self) -> str:
        """The request, on one short line."""

    @abstractmethod
    def spans(self, domain: Domain) -> list[Span]:
        """The marginals that answer it, and those inside. Raises InputError if the domain does not fit."""

    def targets(self, domain: Domain) -> list[Clique]:
        """The marginals that answer it, by names; raises InputError if the domain does not fit."""
        return [c for span in self.spans(domain) for c in itertools.combinations(span.names, span.order)]

    @abstractmethod
    def questions(self, domain: Domain) -> Questions:
        """The questions themselves."""


Kind = TypeVar("Kind", bound=QueryRequest)


def request_of(kind: type[Kind], **fields: Any) -> Kind:
    """The request; raises InputError in one line if a value does not fit."""
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
    factor = weight_of(weight, f"--{option} {shown(text)}", f"{shown(body)}@2") if weight else 1.0
    attributes = tuple(name.strip() for name in names.split(","))
    if not all(attributes) or len(set(attributes)) < len(attributes):
        raise InputError(f"--{option} {shown(text)}: name each attribute once, separated by commas")
    return attributes, what.strip(), factor


def weight_of(text: str, where: str, example: str) -> float:
    """The weight that a flag's text says; raises InputError if it is none."""
    try:
        factor = float(text)
    except ValueError:
        raise InputError(f"{where}: {text!r} is no weight; write for example {example}") from None
    if not math.isfinite(factor) or not 0 < factor <= 1000:
        raise InputError(f"{where}: a weight is above 0, at most 1000")
    return factor
