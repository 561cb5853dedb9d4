"""Database URI: how a table in a database is named: as Ibis names the database, and the table behind #.

`duckdb:///data/shop.db#people`, `postgresql://ana@db/shop#sales.people`, `bigquery://project/set#people`,
`snowflake://...#people`. What else is in a URI may be a secret: messages show its place alone.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from factored_mwem.errors import InputError

SCHEMES = ("duckdb", "postgresql", "postgres", "bigquery", "snowflake")
_URI = re.compile(rf"({'|'.join(SCHEMES)})://", re.IGNORECASE)


def is_database(source: Any) -> bool:
    """Whether a text names a table in a database."""
    return isinstance(source, str) and _URI.match(source) is not None


def parts_of(uri: str) -> tuple[str, str, list[str]]:
    """(scheme, URI of the database, names that lead to the table). InputError where no table is named."""
    url, _, name = uri.partition("#")
    if not name:
        raise InputError(f"{shown_uri(uri)} names no table; add it behind #, as in #people or #sales.people")
    return url.split("://", 1)[0].lower(), url, name.split(".")


def shown_uri(uri: str) -> str:
    """A URI without what may be secret: user, password, options."""
    parts = urlsplit(uri)
    host = parts.netloc.rsplit("@", 1)[-1]
    return f"{parts.scheme}://{host}{parts.path}" + (f"#{parts.fragment}" if parts.fragment else "")
