"""Warehouse: a table in a database whose rows stay there."""

from __future__ import annotations

import sys
from typing import Any

from factored_mwem.backends.source import Source
from factored_mwem.backends.sql import PushedDown, engine_of
from factored_mwem.errors import InputError
from factored_mwem.tables.database_uri import is_database
from factored_mwem.tables.databases import ibis_table


def push_down(table: Any) -> Source:
    """A table whose rows stay in their database, for `release` and whatever else takes a table.

    `table`: one of Ibis, or a URI such as `postgresql://ana@db/shop#sales.people`. The database encodes and
    counts; nothing but counts comes out. InputError where it cannot be done.

    >>> from factored_mwem import InputError, push_down
    >>> try:
    ...     push_down("people.csv")
    ... except InputError as error:
    ...     print(error)
    rows can be left where they are only in a database: give --push-down (push_down) an Ibis table ...
    """
    ibis = sys.modules.get("ibis")
    if ibis is not None and isinstance(table, ibis.Table):
        return PushedDown(table, engine_of(table))
    if not is_database(table):
        raise InputError(
            "rows can be left where they are only in a database: give --push-down (push_down) an Ibis table "
            "or the URI of one such as duckdb:///shop.db#people"
        )
    found = ibis_table(table)
    return PushedDown(found, engine_of(found))
