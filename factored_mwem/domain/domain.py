"""Domain: the attributes of a table together, a public statement, and its file.

That is a Frictionless Table Schema, or private-pgm's sizes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from factored_mwem.domain import derived
from factored_mwem.domain import rules as of_rules
from factored_mwem.domain.attribute import Attribute, Scalar
from factored_mwem.domain.conditions import code_of
from factored_mwem.domain.dialect import Dialect
from factored_mwem.domain.rules import Chain, Computed, Derivation, Lookup, Rule
from factored_mwem.domain.zeros import Zeros, zeros_of
from factored_mwem.errors import InputError
from factored_mwem.files.files import complaint, read_text

Clique = tuple[str, ...]
"""A set of attributes, by name, in the order of the domain."""

_FILE_KEYS = (
    "name", "path", "title", "description", "$schema", "primaryKey", "foreignKeys", "uniqueKeys",
    "fieldsMatch",
)  # fmt: skip
_OWN_KEYS = ("missingValues", "draft", "questions", "rules", "dialect", "encoding")
_FIELD_KEYS = ("example", "examples", "rdfType")
MAX_CODES = 2**24
"""Of all attributes of a domain file together: a few words may declare any number, of 8 bytes each."""


class Domain:
    """The attributes of a table together, in column order.

    >>> from factored_mwem import Attribute, Domain
    >>> Domain([Attribute(name="sex", categories=("F", "M")), Attribute(name="age", type="integer",
    ...     constraints={"minimum": 0, "maximum": 99, "required": True})]).shape
    (3, 100)
    """

    def __init__(
        self,
        attributes: Iterable[Attribute],
        *,
        draft: str | None = None,
        rules: Sequence[Rule | dict[str, Any]] | None = None,
        dialect: Dialect | None = None,
        questions: Sequence[str] = (),
    ) -> None:
        """`draft`: where it comes from, if it was read off the data and no person has reviewed it yet;
        `questions`: what that person must decide, or had to, most urgent first.

        `rules`: what is publicly known of how the columns hang together, see `domain/rules.py`; their bounds
        cut bins. `dialect`: how a text table's cells are written. Raises InputError for what they may not
        say.
        """
        if isinstance(attributes, Domain):
            draft, dialect = draft or attributes.draft, dialect or attributes.dialect
            rules = attributes.rules if rules is None else rules
        self.draft: str | None = draft
        self.questions = tuple(questions)
        self.dialect: Dialect | None = dialect
        self.rules: tuple[Rule, ...] = of_rules.rules_of(rules or ())
        self.attributes = tuple(attributes)
        self.names: Clique = tuple(a.name for a in self.attributes)
        if not self.attributes:
            raise InputError("the domain has no attributes; list at least one field")
        twice = sorted(name for name, times in Counter(self.names).items() if times > 1)
        if twice:
            raise InputError(f"the domain names {twice[0]!r} twice; give every field its own name")
        self._position = {name: i for i, name in enumerate(self.names)}
        if self.rules:
            self.attributes = of_rules.cut(self.attributes, self.rules)
        self._shape = tuple(a.size for a in self.attributes)
        self.derived = derived.derived_of(self.rules)
        self.ties = derived.ties_of(self.rules, self.derived)
        if self.rules:
            self._check_rules()

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        cells = f", {float(self.cells):.3g} cells" if self.cells < 1e300 else ""
        return f"Domain({len(self)} attributes{cells})"

    def index(self, name: str) -> int:
        """Position of an attribute; raises InputError with the known names if there is none."""
        if name not in self._position:
            known = ", ".join(self.names[:8]) + (", ..." if len(self) > 8 else "")
            raise InputError(f"no attribute {name!r} in the domain; it has {known}")
        return self._position[name]

    @property
    def shape(self) -> tuple[int, ...]:
        """Codes of each attribute, in order."""
        return self._shape

    @property
    def cells(self) -> int:
        """Product of the sizes; a Python int, so it cannot overflow."""
        return math.prod(self.shape)

    def clique(self, names: Iterable[str]) -> Clique:
        """The names in domain order, each once. Raises InputError for an unknown name."""
        return tuple(self.names[i] for i in sorted({self.index(name) for name in names}))

    def project(self, names: Iterable[str]) -> Domain:
        """The domain of some of the attributes, in domain order, with the rules about these alone. Raises
        InputError for an unknown name.
        """
        return self.rearranged(self.clique(names))

    def rearranged(self, names: Sequence[str]) -> Domain:
        """The same as `project`, in the order of `names`."""
        left = [rule for rule in (rule.among(names) for rule in self.rules) if rule is not None]
        own = [self[name] for name in names]
        return Domain(own, draft=self.draft, rules=left, dialect=self.dialect, questions=self.questions)

    def reviewed(self) -> Domain:
        """The same domain, reviewed: the caller confirms that every value in it may be public."""
        return self.holding(self.attributes)

    def holding(self, attributes: Iterable[Attribute]) -> Domain:
        """These attributes, declared, under the same rules, of a table that is written in the same way."""
        return Domain(attributes, rules=self.rules, dialect=self.dialect)

    @cached_property
    def modelled(self) -> Domain:
        """The attributes of which a model is made: those that do not follow from others."""
        return Domain(a for a in self.attributes if a.name not in self.derived) if self.derived else self

    @cached_property
    def chains(self) -> list[Chain]:
        """The columns that rules put in order, by ruling out combinations."""
        return of_rules.chains_of(self.rules, {a.name: a for a in self.attributes})

    @cached_property
    def exchanges(self) -> list[Chain]:
        """Those that are put in order when rows are drawn, by an exchange of values."""
        return of_rules.chains_of(self.rules, {a.name: a for a in self.attributes}, exchange=True)

    @property
    def cut_columns(self) -> tuple[str, ...]:
        """The attributes with bins that a condition cuts."""
        return of_rules.cut_columns(self.attributes, self.rules)

    @cached_property
    def zeros(self) -> tuple[Zeros, ...]:
        """The combinations of codes, of the modelled attributes, that the rules rule out."""
        index = {name: i for i, name in enumerate(self.modelled.names)}
        by_name = {a.name: a for a in self.attributes}
        return zeros_of(self.rules, by_name, index, self.source_of)

    def sources_of(self, name: str) -> set[str]:
        """The modelled attributes from which a column follows, itself if it is one."""
        rule = self.derived.get(name)
        return {name} if rule is None else set().union(*map(self.sources_of, rule.sources))

    def source_of(self, name: str) -> tuple[str, np.ndarray]:
        """(the modelled attribute from which a column follows, int64[its codes]: the column's codes).

        Raises ValueError if it follows from several.
        """
        rule, attribute = self.derived.get(name), self[name]
        if rule is None:
            return name, np.arange(attribute.size, dtype=np.int64)
        if isinstance(rule, Computed):
            return self.source_of(rule.of)
        if not isinstance(rule, Derivation):
            raise ValueError(f"{name!r} is computed when rows are drawn: no condition can be put on it")
        root, codes = self.source_of(rule.from_)
        values = np.array([code_of(attribute, value) for value in self.values_of(rule)], dtype=np.int64)
        return root, values[codes]

    def values_of(self, rule: Derivation) -> list[Scalar | None]:
        """The derived column's value for each code of its source; raises ValueError if the map has none."""
        return derived.values_of(rule, self[rule.from_], self[rule.derive])

    @cached_property
    def combinations(self) -> dict[str, derived.Combinations]:
        """What columns that follow from several others hold, by combination of codes. Raises ValueError."""
        return {
            name: derived.combinations_of(rule, self[name], [self[of] for of in rule.from_])
            for name, rule in self.derived.items()
            if isinstance(rule, Lookup)
        }

    def _check_rules(self) -> None:
        """Raises InputError for a rule that makes no sense of these attributes."""
        for i, rule in enumerate(self.rules):
            try:
                if isinstance(rule, Derivation):
                    derived.value_codes(rule, self[rule.derive])
                    self.values_of(rule)
                elif isinstance(rule, of_rules.Arithmetic):
                    derived.check_total(rule, self[rule.columns[0]], [self[name] for name in rule.of])
                elif isinstance(rule, Computed):
                    derived.check_computed(rule, self[rule.compute], self[rule.of])
            except ValueError as error:
                raise InputError(f"rule {i + 1}: {error}") from None
        try:
            _ = self.zeros, self.chains, self.exchanges, self.combinations
        except ValueError as error:
            raise InputError(str(error)) from None

    def check_reviewed(self) -> None:
        """Raises InputError for a draft: a release under it would publish values of the data."""
        if self.draft is not None:
            raise InputError(
                f"{self.draft} is a draft that was read off the data: rare categories and exact bounds in it "
                'may be one person\'s. Review it, then remove its line "draft": true (in Python: '
                "domain.reviewed())"
            )

    @classmethod
    def load(cls, path: str | Path) -> Domain:
        """Read a domain file, ours (Frictionless) or private-pgm's {"age": 85, ...}. Raises InputError if it
        is neither.
        """
        try:
            data = json.loads(read_text(Path(path), "domain file"))
        except (ValueError, RecursionError) as error:
            why = f"is not JSON ({error}); see `fmwem domain draft`"
            raise InputError(f"the domain file {path} {why}") from None
        return cls.from_dict(data, where=str(path))

    @classmethod
    def from_dict(cls, data: Any, *, where: str = "the domain") -> Domain:
        """A domain from parsed JSON; `where` opens the message of the InputError."""
        if isinstance(data, dict) and data and all(type(size) is int for size in data.values()):
            return cls._from_sizes(data, where)
        if not isinstance(data, dict) or not isinstance(data.get("fields"), list):
            raise InputError(f'{where}: expected {{"fields": [...]}} or {{"attribute": size, ...}}')
        unknown = sorted(set(data) - {"fields", *_OWN_KEYS, *_FILE_KEYS})
        if unknown:
            raise InputError(f"{where}: unknown key {unknown[0]!r}")
        if not isinstance(data.get("draft", False), bool):
            raise InputError(f'{where}: "draft" must be true, or left out')
        fields = (_field(f, i, where, data.get("missingValues")) for i, f in enumerate(data["fields"]))
        attributes, draft = list(_counted(fields, where)), where if data.get("draft") else None
        try:
            rules, dialect = of_rules.rules_of(data.get("rules", [])), Dialect.from_file(data)
            questions = data.get("questions", ())
            asked = tuple(map(str, questions)) if isinstance(questions, list) else ()
            return cls(attributes, draft=draft, rules=rules, dialect=dialect, questions=asked)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    @classmethod
    def _from_sizes(cls, sizes: dict[str, int], where: str) -> Domain:
        for name, size in sizes.items():
            if size < 1:
                raise InputError(f"{where}: {name!r} has size {size}; sizes start at 1")
        whole = {"type": "integer"}
        ends = {"required": True, "minimum": 0}
        fields = (
            {"name": name, **whole, "bins": size, "constraints": {**ends, "maximum": size - 1}}
            for name, size in sizes.items()
        )
        return cls(_counted((_field(field, i, where, None) for i, field in enumerate(fields)), where))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that `from_dict` reads back."""
        fields = [
            {"name": a.name, "type": a.type} | a.model_dump(by_alias=True, exclude_defaults=True, mode="json")
            for a in self.attributes
        ]
        written: dict[str, Any] = {"draft": True} if self.draft is not None else {}
        if written and self.questions:
            written["questions"] = list(self.questions)
        written["fields"] = fields
        if self.dialect is not None:
            written |= self.dialect.to_dict()
        if self.rules:
            written["rules"] = [of_rules.written(rule) for rule in self.rules]
        return written

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """The JSON Schema of the native domain file."""
        field = Attribute.model_json_schema(by_alias=True)
        definitions = {**field.pop("$defs", {}), "Attribute": field}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "fmwem domain",
            "type": "object",
            "required": ["fields"],
            "properties": {
                "draft": {"type": "boolean"},
                "questions": {"type": "array", "items": {"type": "string"}},
                "fields": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Attribute"}},
                "missingValues": {"type": "array", "items": {"type": "string"}},
                **Dialect.json_schema(),
                "rules": of_rules.json_schema(),
            },
            "$defs": definitions,
        }


def _field(data: Any, position: int, where: str, missing_values: Sequence[str] | None) -> Attribute:
    """One entry of `fields`; the file's missingValues hold where the field has none of its own."""
    if not isinstance(data, dict):
        raise InputError(f"{where}: field {position + 1} is not an object")
    data = {key: value for key, value in data.items() if key not in _FIELD_KEYS}
    if missing_values is not None:
        data.setdefault("missingValues", missing_values)
    try:
        return Attribute.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: field {data.get('name', position + 1)!r} {complaint(error)}") from None


def _counted(attributes: Iterable[Attribute], where: str) -> Iterator[Attribute]:
    """The attributes, one by one; InputError at the one that is too many, before the next is made."""
    codes = 0
    for attribute in attributes:
        codes += attribute.size
        if codes > MAX_CODES:
            what = f"up to {attribute.name!r} the attributes have {codes:,} codes, more than {MAX_CODES:,}"
            raise InputError(f"{where}: {what}; use fewer bins")
        yield attribute
