"""Domain: the attributes of a table together, a public statement, and its file.

That is a Frictionless Table Schema, or private-pgm's sizes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from factored_mwem.domain.attribute import Attribute
from factored_mwem.errors import InputError
from factored_mwem.files import complaint, read_text

Clique = tuple[str, ...]
"""A set of attributes, by name, in the order of the domain."""

_FILE_KEYS = (
    "name", "path", "title", "description", "$schema", "primaryKey", "foreignKeys", "uniqueKeys",
    "fieldsMatch",
)  # fmt: skip
_FIELD_KEYS = ("example", "examples", "rdfType")
MAX_CODES = 2**24
"""Of all attributes of a domain file together: a few words may declare any number, and each takes 8 bytes in
several places.
"""


class Domain:
    """The attributes of a table together, in column order.

    >>> from factored_mwem import Attribute, Domain
    >>> Domain([Attribute(name="sex", categories=("F", "M")), Attribute(name="age", type="integer",
    ...     constraints={"minimum": 0, "maximum": 99, "required": True})]).shape
    (3, 100)
    """

    def __init__(self, attributes: Iterable[Attribute], *, draft: str | None = None) -> None:
        """`draft`: where it comes from, if it was read off the data and no person has reviewed it yet."""
        self.draft: str | None = draft or (attributes.draft if isinstance(attributes, Domain) else None)
        self.attributes = tuple(attributes)
        self.names: Clique = tuple(a.name for a in self.attributes)
        if not self.attributes:
            raise InputError("the domain has no attributes; list at least one field")
        twice = sorted(name for name, times in Counter(self.names).items() if times > 1)
        if twice:
            raise InputError(f"the domain names {twice[0]!r} twice; give every field its own name")
        self._position = {name: i for i, name in enumerate(self.names)}
        self._shape = tuple(a.size for a in self.attributes)

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
        """Position of an attribute; InputError with the known names where there is none."""
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
        """The names in domain order, each once."""
        return tuple(self.names[i] for i in sorted({self.index(name) for name in names}))

    def project(self, names: Iterable[str]) -> Domain:
        """The domain of some of the attributes, in domain order."""
        return Domain((self[name] for name in self.clique(names)), draft=self.draft)

    def reviewed(self) -> Domain:
        """The same domain by the word of whoever calls this: every value in it may be known to everybody."""
        return Domain(self.attributes)

    def check_reviewed(self) -> None:
        """InputError where it is a draft: a release under it would publish values of the data for nothing."""
        if self.draft is not None:
            raise InputError(
                f"{self.draft} is a draft that was read off the data: rare categories and exact bounds in it "
                'may be one person\'s. Review it, then remove its line "draft": true (in Python: '
                "domain.reviewed())"
            )

    @classmethod
    def load(cls, path: str | Path) -> Domain:
        """Read a domain file, ours (Frictionless) or private-pgm's {"age": 85, ...}."""
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
        unknown = sorted(set(data) - {"fields", "missingValues", "draft", *_FILE_KEYS})
        if unknown:
            raise InputError(f"{where}: unknown key {unknown[0]!r}")
        if not isinstance(data.get("draft", False), bool):
            raise InputError(f'{where}: "draft" must be true, or left out')
        fields = (_field(f, i, where, data.get("missingValues")) for i, f in enumerate(data["fields"]))
        return cls(_counted(fields, where), draft=where if data.get("draft") else None)

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
        return {"draft": True, "fields": fields} if self.draft is not None else {"fields": fields}

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """The JSON Schema of the native domain file."""
        field = Attribute.model_json_schema(by_alias=True)
        definitions = field.pop("$defs", {})
        definitions["Attribute"] = field
        missing = {"type": "array", "items": {"type": "string"}}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "fmwem domain",
            "type": "object",
            "required": ["fields"],
            "properties": {
                "draft": {"type": "boolean"},
                "fields": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Attribute"}},
                "missingValues": missing,
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
