"""Descriptors: what Frictionless' Data Package says of files of rows, by version 2 of the standard; readers
of version 1 take it, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from factored_mwem.tables.codes.parsing import is_number, is_text, value_type

PROFILE = "https://datapackage.org/profiles/2.0/"
MEDIA_TYPES = {
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv",
    ".arrow": "application/vnd.apache.arrow.file",
    ".feather": "application/vnd.apache.arrow.file",
}
"""Of the files that this program writes, by their suffixes."""


def plain_name(text: str) -> str:
    """A name of small letters, digits, `.`, `_`, `-` and `/`, as packages and resources have."""
    return re.sub(r"[^a-z0-9._/]+", "-", text.lower()).strip("-") or "release"


def package(name: str, resources: list[dict[str, Any]]) -> dict[str, Any]:
    """A package of these resources, with nothing said about it."""
    return {"$schema": f"{PROFILE}datapackage.json", "name": plain_name(name), "resources": resources}


def resource(name: str, path: str, suffix: str) -> dict[str, Any]:
    """A resource without its schema: a file of rows at `path`, whose suffix may have another behind it that
    says how the text is compressed.
    """
    kind = suffix.split(".")[1]
    described = {"$schema": f"{PROFILE}dataresource.json", "name": name, "type": "table"}
    described |= {"path": path, "format": kind}
    described |= {"mediatype": MEDIA_TYPES[suffix]} if suffix in MEDIA_TYPES else {}
    return described | ({"encoding": "utf-8"} if kind == "csv" else {})


def table_schema(fields: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of rows with these fields, where an empty cell is missing."""
    return {"$schema": f"{PROFILE}tableschema.json", "fields": fields, "missingValues": [""]}


def keys(primary: str | None, foreign: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    """What a schema says of its keys: `foreign` are columns, each with the resource whose rows it names, and
    that one's primary key.
    """
    links = [{"fields": [own], "reference": {"resource": of, "fields": [key]}} for own, of, key in foreign]
    said: dict[str, Any] = {} if primary is None else {"primaryKey": [primary]}
    return said | ({"foreignKeys": links} if links else {})


def field(name: str, kind: str, suffix: str) -> dict[str, Any]:
    """A column of a Table Schema's type `kind`, as a file with this suffix has it."""
    described = {"name": name, "type": kind}
    if kind == "datetime" and suffix.startswith(".csv"):
        described["format"] = "any"  # a space stands between day and time
    return described


def kind_of(arrow: pa.DataType) -> str:
    """The Table Schema's type for a column's Arrow type; "any" where it has none."""
    value = value_type(arrow)
    if is_text(value):
        return "string"
    if pa.types.is_integer(value):
        return "integer"
    if is_number(value):
        return "number"
    for is_one, kind in _KINDS:
        if is_one(value):
            return kind
    return "any"


_KINDS = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "datetime"),
    (pa.types.is_time, "time"),
)
