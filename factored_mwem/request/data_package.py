"""Data package: tables as `datapackage.json` describes them, by version 1 or 2 of Frictionless' standard.

One is read, or made for tables that were written. Of a resource are read where it is, its keys, whether it
is declared `"public": true`, and which column puts its rows in order: `"orderBy"`. What its fields may hold
is said by a domain file, or learnt.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from factored_mwem.errors import InputError, must, shortened, shown
from factored_mwem.files.files import complaint, read_text
from factored_mwem.request.package import LinkedTable, Package, Reference
from factored_mwem.tables.inputs.formats import BY_ENDING, check_known, suffix_of
from factored_mwem.tables.inputs.source import ICEBERG
from factored_mwem.tables.inputs.uris import is_uri
from factored_mwem.tables.outputs import descriptors

MAX_BYTES = 2**24
"""Of a descriptor."""
FOUND = {
    "delimiter": (",", ";", "\t", "|"),
    "header": (True,),
    "quoteChar": ('"',),
    "doubleQuote": (True,),
    "lineTerminator": ("\n", "\r\n"),
}
"""What a dialect may say of a text file: the reader finds all of this by itself."""
NO_MATTER = ("$schema", "profile", "csvddfVersion", "caseSensitiveHeader", "skipInitialSpace")
"""What it may say besides, whatever that is."""
OTHERS = (ICEBERG, ".domain.json", ".manifest.json")
"""How files of JSON end that are no descriptors."""
UTF_8 = ("utf-8", "utf8", "utf_8", "ascii", "us-ascii")


def _one_column(value: Any) -> Any:
    """The column of a key, which the standard writes as a text or as a list."""
    if isinstance(value, list):
        must(len(value) == 1, "a key is a single column here; give the rows one of their own")
        return value[0]
    return value


Column = Annotated[str, BeforeValidator(_one_column)]


class _Part(BaseModel):
    """A part of a descriptor, of which what is not listed is not read."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Target(_Part):
    resource: str | None = None
    """An empty one is the table itself."""
    fields: Column


class _ForeignKey(_Part):
    fields: Column
    reference: _Target


class _TableSchema(_Part):
    key: Column | None = Field(None, alias="primaryKey")
    foreign_keys: list[_ForeignKey] = Field([], alias="foreignKeys")


class _Resource(_Part):
    name: str
    path: str | list[str] | None = None
    data: Any = None
    table_schema: _TableSchema | str = Field(_TableSchema(), alias="schema")
    public: bool = False
    order_by: str | None = Field(None, alias="orderBy")
    format: str | None = None
    encoding: str = "utf-8"
    dialect: dict[str, Any] | str = {}

    def references(self) -> Iterator[tuple[Reference, str]]:
        """Each foreign key, and the column that it says is the other table's key."""
        for each in self._schema.foreign_keys:
            reference = each.reference
            yield Reference(each.fields, reference.resource or self.name), reference.fields

    def linked(self, folder: Path) -> LinkedTable:
        """Raises InputError where its files are not to be read as it says."""
        files = [self._file(folder, path) for path in self._paths()]
        self._check_dialect()
        others = tuple(reference for reference, _ in self.references())
        source = files[0] if len(files) == 1 else files
        return LinkedTable(
            self.name, source, self._schema.key, None, others, self.public, order_by=self.order_by
        )

    @property
    def _schema(self) -> _TableSchema:
        if isinstance(self.table_schema, str):
            raise InputError("its schema is in a file of its own; write it into the descriptor")
        return self.table_schema

    def _paths(self) -> list[str]:
        if not self.path:
            what = "holds its rows itself" if self.data is not None else "has no path"
            raise InputError(f"{what}; write them to a file beside the descriptor, and give its path")
        return [self.path] if isinstance(self.path, str) else self.path

    def _file(self, folder: Path, path: str) -> Path:
        """A file of the table, in the folder of the descriptor or below."""
        check_inside(path)
        file = folder / path
        if not os.path.isfile(file):
            what = "is a folder; list its files" if os.path.isdir(file) else "is not there"
            raise InputError(f"its file {shown(path)} {what}")
        check_known(file, path)
        said = None if self.format is None else BY_ENDING.get(f".{self.format.lower()}")
        if self.format is not None and said is not BY_ENDING[suffix_of(file)]:
            raise InputError(f"its format {shown(self.format)} is not that of its file; correct one of them")
        return file

    def _check_dialect(self) -> None:
        """Raises InputError for what would be read otherwise than it says."""
        if self.encoding.lower() not in UTF_8:
            raise InputError(f"its encoding {shown(self.encoding)} is not read; write the file as UTF-8")
        if isinstance(self.dialect, str):
            raise InputError("its dialect is in a file of its own; write it into the descriptor")
        parts = [self.dialect.get(name) for name in ("csv", "tsv")]
        said = self.dialect | {k: v for part in parts if isinstance(part, dict) for k, v in part.items()}
        for name, value in said.items():
            if name in NO_MATTER or (name in ("csv", "tsv") and isinstance(value, dict)):
                continue
            if not any(
                value is one or (isinstance(one, str) and value == one) for one in FOUND.get(name, ())
            ):
                how = "write the file with a header, commas and double quotes, and leave it out"
                raise InputError(f"its dialect's {shown(name)} is not read; {how}")


class _Descriptor(_Part):
    resources: list[_Resource]


def is_descriptor(source: Any) -> bool:
    """Whether something names a file on this machine that can only be a descriptor."""
    name = str(source).lower() if isinstance(source, str | Path) and not is_uri(source) else ""
    return name.endswith(".json") and not name.endswith(OTHERS)


def check_inside(path: str) -> None:
    """Raises InputError for a path that does not lead from the descriptor's folder into it, as the standard
    has it.
    """
    parts = path.split("/")
    if not path.isprintable() or set(path) & set("\\:") or path[:1] in ("/", "~") or ".." in parts:
        how = "files lie in its folder or below; write a path from there, such as data/users.csv"
        raise InputError(f"its path {shown(path)} leads out of the descriptor's folder; {how}")


def read_package(path: str | Path) -> Package:
    """The tables that a descriptor lists, whose sources are paths. Reads no table.

    A foreign key names one column, and so does the primary key that it refers to. Raises InputError in one
    line where the descriptor, or a file that it names, is not there or not as it should be.
    """
    path = Path(path)
    try:
        text = read_text(path, "descriptor", MAX_BYTES)
        data = json.loads(text.removeprefix("\ufeff"))
        if not isinstance(data, dict) or not isinstance(data.get("resources"), list):
            how = "describe tables by their files, or write the rows of one as .jsonl, one object a line"
            raise InputError(f"{path} is no data package, which has a list of resources; {how}")
        resources = _Descriptor.model_validate(data).resources
    except ValidationError as error:
        raise InputError(f"{path}: {complaint(error)}") from None
    except (ValueError, RecursionError) as error:
        why = "is nested too deeply" if isinstance(error, RecursionError) else "is not JSON in UTF-8"
        raise InputError(f"the descriptor {path} {why}") from None
    keys = {resource.name: resource for resource in resources}
    tables = []
    for resource in resources:
        try:
            tables.append(resource.linked(path.parent))
            _check_references(resource, keys)
        except InputError as error:
            raise InputError(f"{path}: resource {shown(resource.name)}: {error}") from None
    try:
        _check_files(tables)
        return Package.of(tables)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _check_references(resource: _Resource, by_name: dict[str, _Resource]) -> None:
    """Raises InputError for foreign keys to a column that is not the other table's primary key."""
    for reference, column in resource.references():
        target = by_name.get(reference.of)
        key = None if target is None else target._schema.key
        if key is not None and column != key:
            what = f"refers to {shown(column)} of {shown(reference.of)}, whose primary key is {shown(key)}"
            raise InputError(f"its column {shown(reference.column)} {what}; refer to that")


def _check_files(tables: list[LinkedTable]) -> None:
    """Raises InputError for a file that is given twice: its rows would be two things."""
    seen = dict[tuple[int, int], str]()
    for table in tables:
        for file in table.source if isinstance(table.source, list) else [table.source]:
            facts = os.stat(file)
            other = seen.setdefault((facts.st_dev, facts.st_ino), table.name)
            if other != table.name:
                both = f"resources {shortened(other)!r} and {shortened(table.name)!r}"
                raise InputError(f"{both} have a file in common; let each have its own")


def described(package: Package, schemas: Mapping[str, pa.Schema], files: Mapping[str, str]) -> dict[str, Any]:
    """The descriptor of tables that were written: the types of their columns, their keys, and which are
    public. It reads no table.

    `schemas`: names and types of each table's columns as they were written, by its name; `files`: the path of
    each from the descriptor's folder. Keys that name the same rows have one type there: text, where a CSV
    file's types are not known.
    """
    tables = {each.name: each for each in (*package.private, *package.public)}
    kinds = {(t, field.name): descriptors.kind_of(field.type) for t in tables for field in schemas[t]}
    for name, table in tables.items():
        alike = [(t, r.column) for t, each in tables.items() for r in each.references if r.of == name]
        alike += [] if table.key is None else [(name, table.key)]
        if "string" in map(kinds.get, alike) and all(files[t].endswith(".csv") for t, _ in alike):
            kinds |= dict.fromkeys(alike, "string")
    return descriptor_of(list(tables.values()), kinds, files)


def descriptor_of(
    tables: Sequence[LinkedTable], kinds: Mapping[tuple[str, str], str], files: Mapping[str, str]
) -> dict[str, Any]:
    """The descriptor of tables in this order. `kinds`: the Table Schema's type of each column by its table's
    name and its own; `files` as above.
    """
    keys, resources = {each.name: each.key or "" for each in tables}, []
    for table in tables:
        suffix = suffix_of(files[table.name])
        fields = [
            descriptors.field(name, kind, suffix) for (of, name), kind in kinds.items() if of == table.name
        ]
        links = [(each.column, each.of, keys[each.of]) for each in table.references]
        schema = descriptors.table_schema(fields) | descriptors.keys(table.key, links)
        resource = descriptors.resource(table.name, files[table.name], suffix)
        order = {} if table.order_by is None else {"orderBy": table.order_by}
        resources.append(resource | {"public": table.public, **order, "schema": schema})
    return descriptors.package(tables[0].name, resources)
