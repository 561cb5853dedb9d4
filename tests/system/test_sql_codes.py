"""The encoding in SQL: what it is in each dialect, and what it refuses, by types and domain alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import Busy, InputError
from factored_mwem.pipeline.release import make
from factored_mwem.request.request import Request
from factored_mwem.tables.backends.datavectors import Axis
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import IN_MEMORY

ibis = pytest.importorskip("ibis", reason="Ibis is not installed: nothing was tried in SQL")

from factored_mwem.tables.backends.sql import push_down  # noqa: E402
from factored_mwem.tables.backends.sql_codes import code_in_sql  # noqa: E402

DIALECTS = {
    "duckdb": ("HEX({})", str.upper, "MAKE_DATE({}, {}, {})", "CASE WHEN {} THEN {} ELSE {} END"),
    "postgres": (
        "ENCODE(CONVERT_TO({}, 'UTF8'), 'hex')",
        str.lower,
        "MAKE_DATE({}, {}, {})",
        "CASE WHEN {} THEN {} ELSE {} END",
    ),
    "bigquery": ("TO_HEX(CAST({} AS BYTES))", str.lower, "DATE({}, {}, {})", "IF({}, {}, {})"),
    "snowflake": ("HEX_ENCODE({})", str.upper, "DATE_FROM_PARTS({}, {}, {})", "IFF({}, {}, {})"),
}
"""How each writes a text in hexadecimal digits, a day and a choice."""


def compiled(field: dict[str, Any], kind: str, dialect: str) -> str:
    """The expression of a column `x`, as text without line breaks."""
    table = ibis.table({"x": kind}, name="t")
    code = code_in_sql(Attribute.model_validate({"name": "x", **field}), table.x, dialect)
    text = " ".join(str(ibis.to_sql(table.select(c=code), dialect=dialect)).split())
    for mark in '"`':
        text = text.replace(mark, "")
    return text.removeprefix("SELECT ").removesuffix(" AS c FROM t AS t0")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_asked_of_each_dialect(dialect: str) -> None:
    """Of those that no server was at hand for, too: the same expressions, compared with what they must be."""
    spelt, case, date, choose = DIALECTS[dialect]
    words = {"categories": ["é", "o"], "other": "o", "missingValues": ["NA"]}
    e_acute, o, missing = (case(text) for text in ("c3a9", "6f", "4e41"))
    assert compiled(words, "string", dialect) == (
        "CASE WHEN t0.x IS NULL THEN 2 ELSE CASE WHEN LENGTH(t0.x) > 2 THEN 1 ELSE "
        f"CASE {spelt.format('t0.x')} WHEN '{missing}' THEN 2 WHEN '{e_acute}' THEN 0 WHEN '{o}' THEN 1 "
        "ELSE 1 END END END"
    )

    ages = {"type": "integer", "edges": [0, 10, 20, 29], "specialValues": [-1]}
    search = choose.format("t0.x < 20", choose.format("t0.x < 10", 1, 2), 3)
    assert compiled(ages, "int64", dialect) == (
        f"CASE WHEN t0.x IS NULL THEN 4 ELSE CASE t0.x WHEN -1 THEN 0 ELSE {search} END END"
    )
    edges = ["2000-01-01", "2020-02-29", "9999-12-31"]
    days = {"type": "date", "edges": edges, "constraints": {"required": True}}
    search = choose.format(f"t0.x < {date.format(2020, 2, 29)}", 0, 1)
    assert compiled(days, "date", dialect) == f"CASE WHEN t0.x IS NULL THEN 0 ELSE {search} END"
    assert compiled({"type": "boolean"}, "boolean", dialect) == (
        f"CASE WHEN t0.x IS NULL THEN 2 ELSE {choose.format('t0.x', 1, 0)} END"
    )


@pytest.mark.parametrize(
    ("sql", "field", "message"),
    [
        ("1::double", {"type": "number", "edges": [0, 5]}, "is float64 and declared as number"),
        ("1::bigint", {"type": "number", "edges": [0, 5]}, "is int64 and declared as number"),
        ("1::ubigint", {"type": "integer", "edges": [0, 5]}, "is uint64 and declared as integer"),
        ("1::hugeint", {"type": "integer", "edges": [0, 5]}, "and declared as integer"),
        ("'1'::varchar", {"type": "integer", "edges": [0, 5]}, "is string and declared as integer"),
        ("now()", {"type": "datetime", "edges": ["2000-01-01", "2001-01-01"]}, "declared as datetime"),
        ("1::bigint", {"type": "integer", "edges": [0, 10**4]}, None),
        ("1::int", {"type": "integer", "constraints": {"minimum": 0, "maximum": 9999}, "bins": 5000},
         "has 5,001 codes, more than the 4,096"),
    ],
)  # fmt: skip
def test_what_sql_may_read_otherwise_is_refused_before_anything_is_spent(
    sql: str, field: dict[str, Any], message: str | None
) -> None:
    source, noise = push_down(_people(f"{sql} AS x")), FakeNoise()
    request = Request.of(source, 1, domain=_domain(field), rows=3)
    if message is None:
        assert make(request, noise=noise).manifest is not None
        return
    with pytest.raises(InputError, match=rf"column 'x' .*{message}.*leave out --push-down, and the rows are"):
        make(request, noise=noise)
    assert not noise.calls


def _domain(field: dict[str, Any]) -> Domain:
    return Domain([Attribute.model_validate({"name": "x", **field})])


def _people(selected: str) -> Any:
    """A table of one query's rows."""
    connection = ibis.duckdb.connect()
    connection.con.execute(f"CREATE TABLE t AS SELECT {selected}")
    return connection.table("t")


def test_a_loose_collation_makes_no_two_texts_equal() -> None:
    connection = ibis.duckdb.connect()
    connection.con.execute("PRAGMA default_collation='NOCASE.NOACCENT'")
    connection.con.execute("CREATE TABLE t AS SELECT unnest(['a', 'A', 'á', 'a ', NULL]) AS x")
    assert connection.con.execute("SELECT count(*) FROM t WHERE x = 'a'").fetchall() == [(3,)]
    domain = _domain({"categories": ["a", "A"]})
    for build in (push_down, open_source):
        assert _ones(build(connection.table("t")), domain) == [1, 1, 3]


@pytest.mark.parametrize(
    "kind", ["tinyint", "utinyint", "smallint", "usmallint", "int", "uinteger", "bigint"]
)
def test_small_and_unsigned_integers(kind: str) -> None:
    """A constant beyond the column's type is compared, not converted to it."""
    edges, special = [-(2**40), -5, 3, 2**61], [2, -7, 2**50]
    domain = _domain({"type": "integer", "edges": edges, "specialValues": special})
    people = _people(f"unnest([1, 2, 3, 100, NULL])::{kind} AS x")
    assert _ones(push_down(people), domain) == _ones(open_source(people), domain)


def _ones(source: Any, domain: Domain) -> list[int]:
    size = domain.shape[0]
    data = source.encoded(domain, IN_MEMORY)
    return data.exact_counts([Axis(0, None, size)], np.array([[0]], np.int32), np.array([0, size])).tolist()


def test_no_table_is_left_behind() -> None:
    people = _people("1 AS x")
    assert _ones(push_down(people), _domain({"type": "integer", "edges": [0, 5]})) == [1, 0]
    tables = people.get_backend().con.execute("SELECT count(*) FROM duckdb_tables()")
    assert tables.fetchall() == [(1,)]


def test_what_a_database_says_of_its_failure_goes_nowhere() -> None:
    backend = _people("'CANARY' AS a").get_backend()
    backend.con.execute("CREATE VIEW v AS SELECT a::bigint AS x FROM t")
    domain = _domain({"type": "integer", "edges": [0, 5]})
    for build in (push_down, open_source):
        with pytest.raises((Busy, InputError), match=r"its log|its library") as refused:
            build(backend.table("v")).encoded(domain, IN_MEMORY)
        assert "CANARY" not in str(refused.value)
        assert refused.value.__context__ is None


def test_what_cannot_be_pushed_down() -> None:
    with pytest.raises(InputError, match="only in a database: give --push-down"):
        push_down(pa.table({"a": [1]}))
    staying = push_down(ibis.memtable({"a": [1], "b": [1]}))
    for options, message in (
        ({}, "needs a declared domain"),
        ({"privacy_id": "a", "domain": {"a": 2, "b": 2}}, "--privacy-id needs --people"),
    ):
        with pytest.raises(InputError, match=message):
            make(Request.of(staying, 1, **options), noise=FakeNoise())
    with pytest.raises(InputError, match="leave out --run-id"):
        staying.fingerprint(b"key")
