"""A database as a package: DuckDB's own keys, and what of them no package can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from factored_mwem.errors import InputError
from factored_mwem.request.catalogue import is_whole_database, read_catalogue
from factored_mwem.request.package import Reference, check_columns
from factored_mwem.tables.backends.opening import open_source

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: nothing was tried on its keys")

SHOP = """
CREATE TABLE products (id INTEGER PRIMARY KEY, price DOUBLE);
CREATE TABLE users (id BIGINT PRIMARY KEY, age INTEGER, mail TEXT UNIQUE);
CREATE TABLE sessions (number INTEGER PRIMARY KEY, "user" BIGINT REFERENCES users (id));
CREATE TABLE bought (session INTEGER REFERENCES sessions (number), product INTEGER REFERENCES products (id),
    PRIMARY KEY (session, product));
CREATE VIEW adults AS SELECT * FROM users WHERE age > 17;
INSERT INTO users VALUES (4711, 40, 'CANARY');
"""


def database(folder: Path, script: str) -> str:
    path = folder / "shop.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute(script)
    return f"duckdb://{path}"


def test_tables_are_linked_by_the_keys_of_the_database(tmp_path: Path) -> None:
    uri = database(tmp_path, SHOP)
    package = read_catalogue(uri, ["products"])
    assert [(each.name, each.key) for each in package.private] == [
        ("users", "id"), ("sessions", "number"), ("bought", None),
    ]  # fmt: skip
    assert [each.parent for each in package.private[1:]] == [
        Reference("user", "users"), Reference("session", "sessions"),
    ]  # fmt: skip
    assert [(each.name, each.public) for each in package.public] == [("products", True)]
    assert package.private[2].others == (Reference("product", "products"),)
    opened = {each.name: open_source(each.source) for each in (*package.private, *package.public)}
    check_columns(package, {name: each.schema for name, each in opened.items()})


def test_a_table_of_another_schema_is_named_with_it(tmp_path: Path) -> None:
    uri = database(tmp_path, "CREATE SCHEMA sales; CREATE TABLE sales.people (id INTEGER PRIMARY KEY)")
    package = read_catalogue(uri)
    assert (package.root.name, package.root.key) == ("sales.people", "id")
    assert open_source(package.root.source).schema.names == ["id"]


REFUSED = [
    (SHOP, (), "table 'bought' hangs on two private tables, 'sessions' by 'session' and 'products' by"),
    (SHOP, ("goods",), "no table 'goods' to be public; there are 'products', 'users'"),
    ("CREATE VIEW v AS SELECT 1", (), "lists no tables"),
    ("CREATE TABLE a (i INT); CREATE TABLE b (i INT)", (), "'a', 'b' hang on no private table"),
    ("CREATE TABLE a (i INT PRIMARY KEY, up INT REFERENCES a (i))", (), "'up' refers to its own table"),
    (
        "CREATE TABLE a (i INT, j INT, PRIMARY KEY (i, j));"
        "CREATE TABLE b (i INT, j INT, FOREIGN KEY (i, j) REFERENCES a (i, j))",
        (),
        "table 'b' has a foreign key of several columns, 'i', 'j'",
    ),
    (
        "CREATE TABLE a (i INT PRIMARY KEY, u INT UNIQUE); CREATE TABLE b (a INT REFERENCES a (u))",
        (),
        "table 'b' refers by 'a' to 'u' of 'a', which is not its primary key",
    ),
    ('CREATE TABLE "a.b" (i INT PRIMARY KEY)', (), "table 'a.b': a URI cannot name it"),
    ('CREATE TABLE "a/b" (i INT PRIMARY KEY)', (), "no table can be named 'a/b'"),
]


@pytest.mark.parametrize(("script", "public", "line"), REFUSED, ids=range(len(REFUSED)))
def test_a_database_that_is_no_package_is_refused_in_a_line(
    tmp_path: Path, script: str, public: tuple[str, ...], line: str
) -> None:
    uri = database(tmp_path, script)
    with pytest.raises(InputError, match=line) as refused:
        read_catalogue(uri, public)
    message = str(refused.value)
    assert message.startswith(f"{uri}: ") and message.isprintable() and "CANARY" not in message


def test_a_database_that_is_not_there_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("no database")
    for uri, line in (
        (f"duckdb://{tmp_path}/missing.db", "cannot open"),
        (f"duckdb://{tmp_path}/no.db", "cannot open"),
        (f"duckdb://{tmp_path}/no.db#users", "names one table; leave out what stands behind #"),
        ("snowflake://ana:secret@org/shop", "keys are read from DuckDB and PostgreSQL alone"),
    ):
        with pytest.raises(InputError, match=line) as refused:
            read_catalogue(uri)
        assert "secret" not in str(refused.value)


def test_what_names_a_whole_database() -> None:
    assert is_whole_database("duckdb:///shop.db") and is_whole_database("postgresql://ana@db/shop")
    others = ("duckdb:///shop.db#users", "bigquery://project/set", "shop.db", Path("shop.db"), None)
    assert not any(map(is_whole_database, others))
