"""Workload: the answers that must come out right: marginals, and what the query kinds ask."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import Repr
from types import GenericAlias
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, PositiveInt, ValidationError, create_model

from factored_mwem.domain.companions import Companion
from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.errors import InputError, ResourceError, did_you_mean, some_names
from factored_mwem.files.files import complaint, read_text
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.queries import KINDS
from factored_mwem.workload.queries.base import QueryRequest, Span, request_of
from factored_mwem.workload.queries.cuboids import CubeRequest
from factored_mwem.workload.queries.labels import WEIGHT, LabelRequest
from factored_mwem.workload.queries.parities import ParitiesRequest
from factored_mwem.workload.queries.ranges import RangesRequest

MAX_CANDIDATES = 20_000_000
"""More candidate marginals than this are refused: their index alone would fill the memory."""
MAX_INDEX = 10**8
"""Most entries of that index: candidates times attributes of the widest."""
FOLLOWING = 0.5
"""Weight of a marginal of columns and a companion; a plain marginal has weight 1."""
MAX_LISTED = 2**24
"""Marginals listed one by one: those named, and those of query kinds. Of 20 attributes: 10 million."""
MAX_ATTRIBUTES = 20
"""Most attributes of a named marginal, because all marginals inside it are listed."""
MAX_TOML_BYTES, MAX_KEY_PARTS = 2**20, 64
"""Bytes of a TOML file, and parts of a key: the parser's time grows with the square of the parts."""
_TOO_DEEP = re.compile(r"(?:\.[^.\n=,\[\]{}]*){%d}" % MAX_KEY_PARTS)  # noqa: UP031 - braces

_SHORT = Repr()
_SHORT.maxtuple, _SHORT.maxstring, _SHORT.maxother = 6, 30, 200
"""What a workload shows of itself: a screen at most."""


class _Marginals(BaseModel):
    """Marginals: `marginals` asks for all K-way ones, `cliques` lists single ones by attribute names."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    marginals: Annotated[
        tuple[PositiveInt, ...],
        BeforeValidator(lambda orders: (orders,) if isinstance(orders, int) else orders),
    ] = ()
    cliques: tuple[tuple[str, ...], ...] = ()


_LISTS: dict[str, Any] = {key: (GenericAlias(tuple, (kind, ...)), ()) for key, kind in KINDS.items()}
WorkloadFile: type[_Marginals] = create_model(
    "WorkloadFile", __base__=_Marginals, __doc__="A workload: what must come out right.", **_LISTS
)


@dataclass(frozen=True, slots=True)
class Workload:
    """What must come out right: marginals, and what other kinds of queries ask.

    `orders`: all marginals of that many attributes; `named`: single ones; `asked`: requests of other query
    kinds.

    >>> from factored_mwem import Workload
    >>> Workload.marginals(2) + Workload.of([("age", "sex", "race")])
    Workload(orders=(2,), named=(('age', 'sex', 'race'),), asked=())
    """

    orders: tuple[int, ...] = ()
    named: tuple[Clique, ...] = ()
    asked: tuple[QueryRequest, ...] = ()

    def __repr__(self) -> str:
        parts = (f"{part}={_SHORT.repr(getattr(self, part))}" for part in ("orders", "named", "asked"))
        return f"Workload({', '.join(parts)})"

    @classmethod
    def marginals(cls, order: int) -> Workload:
        """All marginals of `order` attributes, and with them all of fewer. Raises InputError below one."""
        if order < 1:
            raise InputError(f"--marginals {order}: marginals have at least one attribute")
        return cls(orders=(order,))

    @classmethod
    def of(cls, cliques: Iterable[Sequence[str]]) -> Workload:
        """The marginals over these attribute names. Raises InputError if one names none."""
        named = tuple(tuple(clique) for clique in cliques)
        if any(not clique for clique in named):
            raise InputError("a workload lists an empty marginal; name at least one attribute")
        return cls(named=named)

    @classmethod
    def label(cls, column: str, *, weight: float = WEIGHT) -> Workload:
        """The marginals of a column that is to be predicted with each other column. Raises InputError if the
        name is empty, or the weight is not above 0 and at most 1000.
        """
        return cls(asked=(request_of(LabelRequest, column=column, weight=weight),))

    @classmethod
    def cube(cls, *attributes: str, order: int | None = None, weight: float = 1.0) -> Workload:
        """The marginals over all subsets of these attributes, of at most `order` of them. Raises InputError
        for an attribute named twice, or a wrong order or weight.
        """
        return cls(asked=(request_of(CubeRequest, attributes=attributes, order=order, weight=weight),))

    @classmethod
    def ranges(
        cls,
        *attributes: str,
        count: int = 1000,
        which: Literal["random", "all", "prefix"] = "random",
        seed: int = 0,
        weight: float = 1.0,
    ) -> Workload:
        """Boxes over these ordered attributes: `count` random ones, all, or all from the lowest values.
        Raises InputError for a wrong count or weight.
        """
        how = {"count": count, "which": which, "seed": seed, "weight": weight}
        return cls(asked=(request_of(RangesRequest, attributes=attributes, **how),))

    @classmethod
    def parities(cls, order: int, *, weight: float = 1.0) -> Workload:
        """All parities of at most `order` binary attributes. Raises InputError for an order that is not from
        1 to 20.
        """
        return cls(asked=(ParitiesRequest.parse(order, weight),))

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Read a workload file (TOML or JSON). Raises InputError if it is none.

        `marginals = 3`, `cliques = [["age", "sex"], ...]`, and a list for each query kind.
        """
        path = Path(path)
        try:
            text = read_text(path, "workload file")
            data: Any = json.loads(text) if path.suffix == ".json" else parse_toml(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not a workload file ({error})") from None
        return cls.from_dict(data, where=str(path))

    @classmethod
    def from_dict(cls, data: Any, *, where: str = "the workload") -> Workload:
        """The workload that `to_dict`, a file or a manifest holds. Raises InputError if it holds none."""
        try:
            spec = WorkloadFile.model_validate(data)
        except ValidationError as error:
            raise InputError(f"{where}: {complaint(error)}") from None
        return (
            cls(spec.marginals)
            + cls.of(spec.cliques)
            + cls(asked=tuple(request for name in KINDS for request in getattr(spec, name)))
        )

    def to_dict(self) -> dict[str, Any]:
        """The form that files and manifests hold."""
        written: dict[str, Any] = {
            "marginals": list(self.orders),
            "cliques": [list(clique) for clique in self.named],
        }
        for key, kind in KINDS.items():
            of_kind = [request for request in self.asked if isinstance(request, kind)]
            if of_kind:
                written[key] = [r.model_dump(mode="json", exclude_none=True) for r in of_kind]
        return written

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """The JSON Schema of a workload file."""
        return WorkloadFile.model_json_schema()

    def __add__(self, other: Workload) -> Workload:
        return Workload(self.orders + other.orders, self.named + other.named, self.asked + other.asked)

    def beside(self, other: str, names: Sequence[str]) -> Workload:
        """The same, and the pairs of the attribute `other` with each of `names`, if not all pairs are asked
        for anyway.
        """
        if max(self.orders, default=0) > 1:
            return self
        return replace(self, named=self.named + tuple((name, other) for name in names if name != other))

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it names."""
        return frozenset(
            name for clique in (*self.named, *(request.names for request in self.asked)) for name in clique
        )

    def candidates(self, domain: Domain, companions: Sequence[Companion] = ()) -> Candidates:
        """The targets and every marginal inside one, which is often cheaper to measure; over the modelled
        attributes, because columns that follow from them add nothing.

        `companions`: the last attributes of the domain; of each its marginals with its partners.
        """
        if companions:
            follow = {each.attribute.name for each in companions}
            own = domain.project([name for name in domain.names if name not in follow])
        else:
            own = domain
        self.check(own.names)
        spans_asked = [Span(clique, len(clique)) for clique in self.named]
        spans_asked += [span for request in self.asked for span in request.spans(own)]
        spans = [_modelled(span, own) if own.derived else span for span in spans_asked]
        spans += [
            Span((*partners, each.attribute.name), len(partners) + 1, weight=FOLLOWING)
            for each in companions
            for partners in each.partners
        ]
        many = len(own.modelled)
        return Candidates.of(domain.modelled, min(max(self.orders, default=0), many), spans, many)

    def check(self, names: Sequence[str]) -> None:
        """Raises InputError or ResourceError if the workload does not fit attributes of these names."""
        if not self.orders and not self.named and not self.asked:
            flags = ", ".join(f"--{kind.option}" for kind in KINDS.values())
            raise InputError(f"the workload is empty; give --marginals K, {flags} or a workload file")
        for order in self.orders:
            if order > len(names):
                only = f"the table has only {len(names)} column{'s' * (len(names) != 1)}"
                raise InputError(f"--marginals {order}: {only}; give --marginals {len(names)}")
        for request in self.asked:
            request.check(len(names))
        known = set(names)
        for clique in (*self.named, *(request.names for request in self.asked)):
            if len(clique) > MAX_ATTRIBUTES and clique in self.named:
                what = f"too many parts; {MAX_ATTRIBUTES} is the most"
                raise InputError(f"a marginal of {len(clique)} attributes has {what}")
            unknown = [name for name in clique if name not in known]
            if unknown:
                close = did_you_mean(unknown[0], known)
                what = f"the workload names {unknown[0]!r}, which is not among the columns"
                raise InputError(f"{what}{close}; there are {some_names(names)}")
        self._check_size(len(names))

    def check_kinds(self, kinds: Mapping[str, str]) -> None:
        """Raises InputError for what cannot be asked of columns of these kinds (types of attributes, by
        name).
        """
        for request in self.asked:
            request.check_kinds(kinds)

    def count(self, attributes: int) -> int:
        """How many candidate marginals there are over so many attributes; no more are counted than are
        allowed, by much.
        """
        return self._extent(attributes)[0]

    def _extent(self, attributes: int) -> tuple[int, int, int]:
        """(candidate marginals, attributes of those that are listed one by one, attributes of the widest)."""
        top = max(self.orders, default=0)
        inside = [(1, len(clique), len(clique)) for clique in self.named]
        inside += [request.breadth(attributes) for request in self.asked]
        count = members = 0
        for listed, (times, width, order) in [(1, part) for part in inside] + [(0, (1, attributes, top))]:
            for k in range(1, order + 1):
                count += times * math.comb(width, k)
                members += times * math.comb(width, k) * k * listed
                if count > MAX_CANDIDATES:
                    break
        return count, members, max([top, *(order for *_, order in inside)])

    def _fits(self, attributes: int) -> bool:
        count, members, widest = self._extent(attributes)
        return count <= MAX_CANDIDATES and count * widest <= MAX_INDEX and members <= MAX_LISTED

    def _check_size(self, attributes: int) -> None:
        """Raises ResourceError if there are too many candidates to list, from their numbers alone."""
        if self._fits(attributes):
            return
        lower = range(max(self.orders, default=0) - 1, 0, -1)
        fitting = next((k for k in lower if replace(self, orders=(k,))._fits(attributes)), None)
        how = "ask for fewer" if fitting is None else f"lower --marginals to {fitting} or use --columns"
        count, _, widest = self._extent(attributes)
        many = f"more than {MAX_CANDIDATES:,}" if count > MAX_CANDIDATES else f"{count:,}"
        raise ResourceError(
            f"the workload has {many} candidate marginals of up to {widest} attributes, too many to list; "
            f"{how}"
        )


def _modelled(span: Span, domain: Domain) -> Span:
    """The marginals over the sources of what a span names, of as many of them as follow from its order."""
    sources = [domain.sources_of(name) for name in span.names]
    if all(of == {name} for of, name in zip(sources, span.names, strict=True)):
        return span
    names = domain.modelled.clique(set().union(*sources))
    order = sum(sorted(map(len, sources), reverse=True)[: span.order])
    if len(names) > MAX_ATTRIBUTES:
        what = f"follows from {len(names)} columns: too many for a marginal over all of them"
        raise InputError(f"what the workload asks of {', '.join(span.names)} {what}")
    return Span(names, min(order, len(names)), span.weight)


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML file; raises ValueError if it is none, or takes too long to read."""
    if len(text) > MAX_TOML_BYTES:
        raise ValueError(f"it is larger than {MAX_TOML_BYTES >> 20} MB")
    if _TOO_DEEP.search(text):
        raise ValueError(f"it has a key of more than {MAX_KEY_PARTS} parts")
    return tomllib.loads(text)
