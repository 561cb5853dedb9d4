"""Tables in a real PostgreSQL: streamed, and counted where they are; what cannot be compared there is
refused, and no message holds a credential or a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import people as of_people
from support.commands import CANARY
from support.fakes import FakeNoise
from support.hostile_table import hostile_domain, hostile_table, hostile_views, oracle_counts
from support.postgres import PASSWORD, Server, started

from factored_mwem import Domain, push_down
from factored_mwem.accounting.unit import grains_of
from factored_mwem.errors import Busy, FmwemError, InputError
from factored_mwem.pipeline.release import make
from factored_mwem.request.catalogue import read_catalogue
from factored_mwem.request.package import Reference, check_columns
from factored_mwem.request.request import Request
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import IN_MEMORY, Source

SQL = {"string": "text", "int64": "bigint", "date32[day]": "date", "bool": "boolean"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("ibis", reason="Ibis is not installed: nothing was tried in PostgreSQL")
    pytest.importorskip("adbc_driver_postgresql", reason="its ADBC driver is not installed")
    server = started()
    yield server
    server.remove()


def filled(server: Server, table: pa.Table, types: dict[str, str] | None = None) -> str:
    """The URI of a table with these rows, in a database of its own."""
    import psycopg

    uri = server.uri(server.fresh().split("/")[3].split("?")[0])
    kinds = {field.name: SQL[str(field.type)] for field in table.schema} | (types or {})
    with psycopg.connect(uri, autocommit=True) as db:
        db.execute("CREATE SCHEMA sales")
        db.execute(f"CREATE TABLE sales.people ({', '.join(f'{n} {k}' for n, k in kinds.items())})")
        with db.cursor() as cursor, cursor.copy("COPY sales.people FROM STDIN") as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))
    return f"{uri}#sales.people"


def sources(uri: str) -> dict[str, Source]:
    return {"stream": open_source(uri), "push": push_down(uri)}


def test_postgresql_gives_the_same_counts(server: Server) -> None:
    domain, table = hostile_domain(), hostile_table(1500)
    uri, views = filled(server, table), hostile_views(domain)
    expected = oracle_counts(domain, table, *views)
    for how, source in sources(uri).items():
        data = source.encoded(domain, IN_MEMORY)
        for _ in range(2):
            assert (data.exact_counts(*views) == expected).all(), how


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows(server: Server, rows: int) -> None:
    domain, table = hostile_domain(), hostile_table(rows)
    uri, views = filled(server, table), hostile_views(domain, 2)
    for source in sources(uri).values():
        found = source.encoded(domain, IN_MEMORY).exact_counts(*views)
        assert (found == oracle_counts(domain, table, *views)).all()


def test_the_noise_of_a_fit_gets_the_same_numbers(server: Server) -> None:
    table, seen = hostile_table(400), []
    for source in (open_source(table), *sources(filled(server, table)).values()):
        noise = FakeNoise(offset=lambda values, scale: values + np.arange(len(values)) % 3 - 1)
        make(Request.of(source, 2, domain=hostile_domain(), rounds=4, sample_seed=0, rows=10), noise=noise)
        seen.append([(call.method, call.scale, np.asarray(call.values).tolist()) for call in noise.calls])
    assert len(seen[0]) > 12
    assert seen[0] == seen[1] == seen[2]


def test_people_are_counted_where_their_rows_are(server: Server) -> None:
    """Grains of the rows that are used, against plain Python; and what reaches the noise. Ids that are equal
    to the database, under a collation that ignores case and accents, are people of their own.
    """
    import psycopg

    most, unit = 5, grains_of(5)
    table, domain = of_people.table_of_people(900), of_people.modelled(most)
    uri = filled(server, table)
    with psycopg.connect(uri.split("#")[0], autocommit=True) as db:
        how = "provider = icu, locale = 'und-u-ks-level1', deterministic = false"
        db.execute(f"CREATE COLLATION loose ({how})")
        db.execute("ALTER TABLE sales.people ALTER COLUMN who TYPE text COLLATE loose")
    source = push_down(uri).people("who", most, lambda n: unit // n, ("NA",))
    expected = of_people.grains(table, most, unit, of_people.drawn_in_sql(table, most))
    assert of_people.every_cell(source.encoded(domain, IN_MEMORY), domain.shape) == expected
    own = [rows for rows in of_people.persons(table).values() if len(rows) > 1]
    cells = [table[name].to_pylist() for name in of_people.DOMAIN.names]
    same = [sum(len({column[i] for i in rows}) == 1 for rows in own) for column in cells]
    assert source.constancy(of_people.DOMAIN.names).tolist() == [*same, len(own)]
    few = of_people.table_of_people(1500, people=300, most=most)
    options = {"domain": of_people.DOMAIN, "contributions": most, "epsilon": 5.0, "rounds": 4}
    seen = [
        of_people.noise_inputs(source, **options) for source in (few, *sources(filled(server, few)).values())
    ]
    assert len(seen[0]) > 4 and seen[0] == seen[1] == seen[2]


def test_equal_is_what_bytes_say(server: Server) -> None:
    """A collation that ignores case and accents, dates without end: rows are what they are."""
    import psycopg

    uri = filled(server, pa.table({"a": pa.array([], pa.string()), "d": pa.array([], pa.date32())}))
    with psycopg.connect(uri.split("#")[0], autocommit=True) as db:
        how = "provider = icu, locale = 'und-u-ks-level1', deterministic = false"
        db.execute(f"CREATE COLLATION loose ({how})")
        db.execute("ALTER TABLE sales.people ALTER COLUMN a TYPE varchar(50) COLLATE loose")
        words = [("a", "infinity"), ("A", "-infinity"), ("á", "2020-01-02"), ("a ", None)]
        for row in (*words, (None, "4713-01-01 BC")):
            db.execute("INSERT INTO sales.people VALUES (%s, %s)", row)
        assert db.execute("SELECT count(*) FROM sales.people WHERE a = 'a'").fetchone() == (3,)
    dates = {"name": "d", "type": "date", "edges": ["2000-01-01", "2020-01-01", "2021-01-01"]}
    domain = Domain.from_dict({"fields": [{"name": "a", "categories": ["a", "á"]}, dates]})
    for how, source in sources(uri).items():
        data = source.encoded(domain, IN_MEMORY)
        *views, offsets = hostile_views(domain, 1)
        counts = data.exact_counts(*views, offsets)
        assert counts[offsets[0] : offsets[1]].tolist() == [1, 1, 3], how
        days = counts[offsets[1] : offsets[2]].tolist()
        # no Arrow value stands for infinity, which its driver wraps around
        assert days == ([2, 2, 1] if how == "push" else [3, 1, 1])


NUMBERS = {"type": "integer", "edges": [0, 5]}


@pytest.mark.parametrize(
    ("kind", "field", "message"),
    [
        ("char(3)", {"categories": ["a"]}, "column 'a' is neither text nor varchar"),
        ("name", {"categories": ["a"]}, "column 'a' is neither text nor varchar"),
        ("numeric", NUMBERS, "is decimal.*and declared as integer"),
        ("double precision", {"type": "number", "edges": [0, 5]}, "is float64 and declared as number"),
        ("timestamptz", {"type": "datetime", "edges": ["2000-01-01", "2001-01-01"]}, "is timestamp"),
        ("text", NUMBERS, "is string and declared as integer"),
        ("bigint", {"type": "integer", "edges": [0, 9999], "specialValues": ["N"]}, "and cannot hold 'N'"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    server: Server, kind: str, field: dict[str, Any], message: str
) -> None:
    uri = filled(server, pa.table({"a": pa.array([], pa.string())}), {"a": kind})
    noise = FakeNoise()
    with pytest.raises(InputError, match=message) as refused:
        make(Request.of(push_down(uri), 1, domain={"fields": [{"name": "a", **field}]}), noise=noise)
    assert not noise.calls
    assert refused.value.__context__ is None


def test_a_database_of_another_encoding_is_refused(server: Server) -> None:
    server.sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    import psycopg

    uri = server.uri("latin")
    with psycopg.connect(uri, autocommit=True) as db:
        db.execute("CREATE TABLE people (a text)")
    with pytest.raises(InputError, match="encoded in LATIN1, not in UTF8"):
        domain = Domain.from_dict({"fields": [{"name": "a", "categories": ["x"]}]})
        push_down(f"{uri}#people").encoded(domain, IN_MEMORY)


def test_rows_that_come_meanwhile_are_not_seen(server: Server) -> None:
    domain, table = hostile_domain(), hostile_table(50)
    views = hostile_views(domain, 2)
    for how in ("stream", "push"):
        uri = filled(server, table)
        data = sources(uri)[how].encoded(domain, IN_MEMORY)
        for change in ("INSERT INTO sales.people SELECT * FROM sales.people", "DROP TABLE sales.people"):
            server.sql(change, uri=uri.split("#")[0])
            assert (data.exact_counts(*views) == oracle_counts(domain, table, *views)).all()


def test_no_message_holds_a_credential_or_a_value(server: Server, tmp_path: Path) -> None:
    import psycopg

    uri = filled(server, pa.table({"a": pa.array([CANARY])}))
    remote = server.remote("postgres").replace(PASSWORD, "wrong-" + PASSWORD)
    failing = uri.split("#")[0]
    with psycopg.connect(failing, autocommit=True) as db:
        db.execute("CREATE VIEW sales.bad AS SELECT (a::text || 'x')::bigint AS a FROM sales.people")
    domain = {"fields": [{"name": "a", "type": "integer", "edges": [0, 5]}]}
    for opener in (open_source, push_down):
        with pytest.raises(FmwemError, match=r"cannot open postgresql://127\.0\.0\.1.*#people: ") as refused:
            opener(f"{remote}#people")
        assert PASSWORD not in str(refused.value)
        assert refused.value.__context__ is None
        with pytest.raises(FmwemError) as refused:
            make(Request.of(opener(f"{failing}#sales.bad"), 1, domain=domain), noise=FakeNoise())
        assert isinstance(refused.value, InputError | Busy)
        assert CANARY not in str(refused.value)
        assert refused.value.__context__ is None


LINKED = """
CREATE SCHEMA sales;
CREATE TABLE users (id bigint PRIMARY KEY, mail text UNIQUE);
CREATE TABLE sales.shops (shop text PRIMARY KEY);
CREATE TABLE sessions (number int PRIMARY KEY, owner bigint NOT NULL REFERENCES users,
    shop text REFERENCES sales.shops (shop)) PARTITION BY RANGE (number);
CREATE TABLE sessions_1 PARTITION OF sessions FOR VALUES FROM (0) TO (1000);
CREATE TABLE clicks (session int REFERENCES sessions, at timestamp, PRIMARY KEY (session, at));
CREATE VIEW adults AS SELECT * FROM users;
INSERT INTO users VALUES (4711, 'CANARY')
"""


def test_the_tables_of_a_database_are_linked_by_its_keys(server: Server) -> None:
    """Also for a role that owns none of them, which `information_schema` would not show their keys."""
    uri = server.uri(server.fresh().split("/")[3].split("?")[0])
    grants = "GRANT USAGE ON SCHEMA sales TO etl", "GRANT SELECT ON ALL TABLES IN SCHEMA public, sales TO etl"
    server.sql(*LINKED.split(";\n"), *grants, uri=uri)
    remote = server.remote(uri.split("/")[3].split("?")[0])
    for address in (uri, remote):
        package = read_catalogue(address, ["sales.shops"])
        assert [(each.name, each.key, each.parent) for each in package.private] == [
            ("users", "id", None),
            ("sessions", "number", Reference("owner", "users")),
            ("clicks", None, Reference("session", "sessions")),
        ]
        assert package.private[1].others == (Reference("shop", "sales.shops"),)
        tables = {each.name: open_source(each.source) for each in (*package.private, *package.public)}
        check_columns(package, {name: each.schema for name, each in tables.items()})
    with pytest.raises(InputError, match=r"'users' by 'owner' and 'sales.shops' by 'shop'") as refused:
        read_catalogue(remote)
    assert PASSWORD not in str(refused.value)


def test_a_key_of_a_database_that_no_package_has_is_refused_in_a_line(server: Server) -> None:
    tables = "public.a (i int, j int, PRIMARY KEY (i, j))", "public.p (i int UNIQUE, k int PRIMARY KEY)"
    for reference, line in (
        ("(j int, i int, FOREIGN KEY (i, j) REFERENCES public.a)", "several columns, 'i', 'j'"),
        ("(i int REFERENCES public.p (i))", "to 'i' of 'p', which is not its primary key"),
    ):
        uri = server.uri(server.fresh().split("/")[3].split("?")[0])
        server.sql(*(f"CREATE TABLE {each}" for each in (*tables, f"public.b {reference}")), uri=uri)
        with pytest.raises(InputError, match=line):
            read_catalogue(uri)
