"""Rules: what is publicly known of how columns hang together, declared in the domain file and never read off
the data.

They cost nothing and promise nothing about the private rows: one that breaks a rule is encoded as it is, and
neither refused nor counted. They bind what is released: combinations that they rule out are cells of weight
zero in the model (domain/zeros.py), and columns that follow from others are not modelled at all but computed
when rows are drawn (tables/codes/derive.py). So neither fit nor sampling nor refinement can break them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    model_validator,
)

from factored_mwem.domain.attribute import Attribute, Scalar
from factored_mwem.domain.conditions import SCHEMA, Condition, cuts_of, intervals, placed, with_cuts
from factored_mwem.domain.functions import EQUAL, FUNCTIONS
from factored_mwem.errors import InputError, quoted_names
from factored_mwem.files.files import complaint

MAX_COLUMNS = 12
"""Of a rule that rules out combinations: a table over all of them is made."""
Conditions = Annotated[dict[str, Condition], Field(min_length=1, max_length=MAX_COLUMNS)]
"""What must hold of each of these columns, all at once."""


class _Rule(BaseModel, ABC):
    """What all rules have."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    description: str | None = None

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns it names, each once."""

    def among(self, names: Collection[str]) -> Self | None:
        """What is left of it where only these columns are released."""
        return self if set(self.columns) <= set(names) else None


class Implication(_Rule):
    """Where all of `if` holds, all of `then` does."""

    if_: Conditions = Field(alias="if")
    then: Conditions

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.if_, *self.then]))

    def among(self, names: Collection[str]) -> Implication | None:
        """What it says of each column of `then` holds without the others."""
        then = {name: condition for name, condition in self.then.items() if name in names}
        return self.model_copy(update={"then": then}) if then and set(self.if_) <= set(names) else None


class Exclusion(_Rule):
    """All of `never` does not hold at once."""

    never: Conditions

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.never)


class Order(_Rule):
    """The first column is at most the second, wherever neither is null. With `exchange` no combination is
    ruled out: rows that are drawn exchange values until it holds, so that columns keep their own counts.
    """

    order: tuple[str, str]
    exchange: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return self.order


def _entries(given: Any) -> Any:
    """A map with keys that JSON cannot have as a list of pairs."""
    texts = isinstance(given, Mapping) and all(isinstance(key, str) for key in given)
    return list(given.items()) if isinstance(given, Mapping) and not texts else given


_MAP_SCHEMA = {
    "anyOf": [
        {"type": "object"},
        {"type": "array", "items": {"type": "array", "prefixItems": [SCHEMA], "minItems": 2, "maxItems": 2}},
    ]
}
Map = Annotated[
    dict[str, Scalar | None] | tuple[tuple[Condition, Scalar | None], ...],
    BeforeValidator(_entries),
    Field(min_length=1, json_schema_extra=_MAP_SCHEMA),
]


class _ColumnRule(_Rule):
    """What a column is: the first of its `columns`, by the others."""

    @property
    def sources(self) -> tuple[str, ...]:
        return self.columns[1:]


class Derivation(_ColumnRule):
    """A column that follows from another: `map` lists its value for each of the source's values, as an object
    or as pairs of a condition and a value, of which the first that holds counts.
    """

    derive: str
    from_: str = Field(alias="from")
    map: Map

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.derive, self.from_)

    def entries(self, source: Attribute) -> list[tuple[Any, Scalar | None]]:
        """(condition on the source, value) pairs."""
        if isinstance(self.map, Mapping):
            return [(_read(source, key), value) for key, value in self.map.items()]
        return list(self.map)


class Lookup(_ColumnRule):
    """A column that follows from several: `map` lists its value for combinations of theirs; what all others
    give is `otherwise`.
    """

    derive: str
    from_: Annotated[tuple[str, ...], Field(alias="from", min_length=2, max_length=4)]
    map: Annotated[tuple[tuple[tuple[Scalar | None, ...], Scalar | None], ...], Field(min_length=1)]
    otherwise: Scalar | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.derive, *self.from_)


class Sum(_ColumnRule):
    """A column that is the sum of others, each `times` a number, `plus` another. A null part makes it null,
    or, if it is never null, counts 0.
    """

    sum: str
    of: tuple[str, ...] = Field(min_length=1, max_length=64)
    times: tuple[FiniteFloat, ...] | None = None
    plus: FiniteFloat = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.times is None and len(self.of) < 2:
            raise ValueError("of needs two columns, or one and times")
        if self.times is not None and len(self.times) != len(self.of):
            raise ValueError("times needs a number for each column of the sum")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.sum, *self.of)

    @property
    def plain(self) -> bool:
        """Whether its parts are added as they are, so that nothing is rounded."""
        return self.times is None and not self.plus

    def total(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Of values of each part."""
        if self.plain:
            return reduce(np.add, parts)
        pairs = zip(self.times or (1.0,) * len(parts), parts, strict=True)
        return reduce(np.add, [times * part for times, part in pairs]) + self.plus


class Product(_ColumnRule):
    """A column that is the product of others, rounded to its own decimals. A null part makes it null, or, if
    it is never null, counts 0.
    """

    product: str
    of: tuple[str, ...] = Field(min_length=2, max_length=8)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.product, *self.of)

    @property
    def plain(self) -> bool:
        """Whether nothing is rounded."""
        return False

    def total(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Of values of each part."""
        return reduce(np.multiply, parts)


Arithmetic = Sum | Product
"""The rules that say what a column of numbers is by arithmetic."""


_NAMES: list[Any] = [EQUAL, *FUNCTIONS]


def _function(name: str) -> str:
    """The name; raises ValueError if no function has it."""
    if name not in _NAMES:
        raise ValueError(f"is none of {', '.join(_NAMES)}")
    return name


class Computed(_ColumnRule):
    """A column that is a function of another, in every row: see functions.py. Of a null it is null."""

    compute: str
    as_: Annotated[str, AfterValidator(_function)] = Field(alias="as", json_schema_extra={"enum": _NAMES})
    of: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.compute, self.of)


Deriving = Derivation | Lookup | Sum | Product | Computed
"""The rules that say what a column is."""


def in_words(rule: Deriving | Order | Implication) -> str:
    """What a rule says of the column that it computes, of the lesser one, or of the last."""
    first, *others = map(repr, rule.columns)
    if isinstance(rule, Implication):
        (told,), (then,) = rule.if_.values(), rule.then.values()
        return f"{others[0]} is {then!r} where {first} is {quoted_names(told)}"
    if isinstance(rule, Order):
        return f"{first} <= {others[0]}"
    if isinstance(rule, Product):
        return f"{first} is {' x '.join(others)}"
    if isinstance(rule, Sum):
        if rule.times is not None:
            others = [f"{times:.8g} x {other}" for times, other in zip(rule.times, others, strict=True)]
        return f"{first} is {' + '.join([*others, *([f'{rule.plus:.8g}'] if rule.plus else [])])}"
    if isinstance(rule, Derivation | Lookup):
        return f"{first} follows from {' and '.join(others)}"
    return f"{first} is {'' if rule.as_ == EQUAL else f'{rule.as_} of '}{others[0]}"


Rule = Implication | Exclusion | Order | Deriving
_KINDS: dict[str, type[Rule]] = {
    "if": Implication, "never": Exclusion, "derive": Derivation, "order": Order, "sum": Sum,
    "product": Product, "compute": Computed,
}  # fmt: skip


def rules_of(given: Any) -> tuple[Rule, ...]:
    """The rules in a domain file; raises InputError in one line for what is none."""
    if not isinstance(given, list | tuple):
        raise InputError('"rules" must be a list')
    rules = tuple(rule if isinstance(rule, Rule) else _parsed(i, rule) for i, rule in enumerate(given))
    for i, rule in enumerate(rules):
        try:
            json.dumps(written(rule), ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError(f"rule {i + 1} holds half of a surrogate pair, which is no text") from None
    return rules


def _parsed(position: int, data: Any) -> Rule:
    kinds = [kind for kind in _KINDS if isinstance(data, Mapping) and kind in data]
    if len(kinds) != 1:
        what = ", ".join(f'"{kind}"' for kind in _KINDS)
        raise InputError(f"rule {position + 1} must be an object with one of {what}")
    try:
        several = kinds[0] == "derive" and isinstance(data.get("from"), list | tuple)
        return (Lookup if several else _KINDS[kinds[0]]).model_validate(dict(data))
    except ValidationError as error:
        raise InputError(f"rule {position + 1}: {complaint(error)}") from None


def written(rule: Rule) -> dict[str, Any]:
    """The JSON form of a rule."""
    return rule.model_dump(by_alias=True, exclude_unset=True, mode="json")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the list of rules."""
    kinds = [kind.model_json_schema(by_alias=True) for kind in (*_KINDS.values(), Lookup)]
    return {"type": "array", "items": {"anyOf": kinds}}


def cut(attributes: Sequence[Attribute], rules: Sequence[Rule]) -> tuple[Attribute, ...]:
    """The attributes, bins cut at all conditions' bounds; InputError for what a rule may not say of them."""
    by_name = {a.name: a for a in attributes}
    cuts: dict[str, list[int | float]] = {}
    for i, rule in enumerate(rules):
        for name in rule.columns:
            if name not in by_name:
                raise InputError(f"rule {i + 1} names {name!r}, which is no field of the domain")
        try:
            for name, condition in _conditions(rule, by_name):
                cuts.setdefault(name, []).extend(cuts_of(by_name[name], condition))
        except ValueError as error:
            raise InputError(f"rule {i + 1}: {error}") from None
    return tuple(with_cuts(a, cuts[a.name]) if cuts.get(a.name) else a for a in attributes)


def cut_columns(attributes: Sequence[Attribute], rules: Sequence[Rule]) -> tuple[str, ...]:
    """The attributes whose bins a condition cuts."""
    by_name = {a.name: a for a in attributes}
    conditions = (c for rule in rules for c in _conditions(rule, by_name))
    named = (name for name, condition in conditions if [*cuts_of(by_name[name], condition)])
    return tuple(dict.fromkeys(named))


def _conditions(rule: Rule, by_name: Mapping[str, Attribute]) -> list[tuple[str, Any]]:
    """(column, condition) of all conditions in a rule."""
    if isinstance(rule, Implication):
        return [*rule.if_.items(), *rule.then.items()]
    if isinstance(rule, Exclusion):
        return list(rule.never.items())
    if isinstance(rule, Derivation):
        return [(rule.from_, condition) for condition, _ in rule.entries(by_name[rule.from_])]
    return []


def _read(source: Attribute, key: str) -> Scalar:
    """The value of the source that a key of a map stands for."""
    try:
        if source.type == "boolean":
            return {"true": True, "false": False}[key]
        if source.type == "integer":
            return int(key)
        return float(key) if source.type == "number" else key
    except (ValueError, KeyError):
        raise ValueError(f"the map's key {key!r} is no {source.type} for {source.name!r}") from None


class Chain(NamedTuple):
    """`names` from the least to the greatest; `pairs` of them are in order."""

    names: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]


def chains_of(
    rules: Sequence[Rule], attributes: Mapping[str, Attribute], *, exchange: bool = False
) -> list[Chain]:
    """The chains of all rules that are kept by an exchange, or of all others. Raises ValueError for columns
    in a circle; for columns that exchange values, where no values of all are in order; and where nothing is
    exchanged, for three or more whose bins differ: pairs alone would not tell whether a value between two
    others is left.
    """
    orders = (rule for rule in rules if isinstance(rule, Order) and rule.exchange == exchange)
    pending = list(dict.fromkeys(rule.order for rule in orders))
    chains = []
    while pending:
        names, pairs = set(pending[0]), list[tuple[str, str]]()
        while near := [pair for pair in pending if names & set(pair)]:
            names |= {name for pair in near for name in pair}
            pairs += near
            pending = [pair for pair in pending if pair not in near]
        chain = Chain(_sorted(names, pairs), tuple(pairs))
        if exchange:
            _check_possible(chain, attributes)
        for name in chain.names[1:] if len(names) > 2 and not exchange else ():
            if not _same_bins(attributes[chain.names[0]], attributes[name]):
                what = f"{chain.names[0]!r} and {name!r} are in order with a third column"
                raise ValueError(f"{what}, so they need the same edges and special values")
        chains.append(chain)
    return chains


def _check_possible(chain: Chain, attributes: Mapping[str, Attribute]) -> None:
    """Raises ValueError if a row that has a value of each column cannot have them in order."""
    least: dict[str, Any] = {}
    for name in chain.names:
        low, high = (bound[placed(attributes[name])] for bound in intervals(attributes[name]))
        below = [least[a] for a, b in chain.pairs if b == name]
        enough = low[high >= max(below)] if below else low
        if not len(enough):
            raise ValueError(f"no value of {name!r} is as much as the columns before it in order must be")
        least[name] = max([enough.min(), *below])


def _sorted(names: set[str], pairs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """All names, each after those below it; raises ValueError if there is no such order."""
    ordered: list[str] = []
    while left := sorted(names - set(ordered)):
        least = [name for name in left if not any(b == name and a in left for a, b in pairs)]
        if not least:
            raise ValueError(f"{left[0]!r} comes before itself by the rules of order, through other columns")
        ordered += least
    return tuple(ordered)


def _same_bins(one: Attribute, other: Attribute) -> bool:
    if one.categorical or other.categorical:
        return one.categorical == other.categorical and np.array_equal(one.units, other.units)
    return np.array_equal(one.cuts, other.cuts) and np.array_equal(one.specials, other.specials)
