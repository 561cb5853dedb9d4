"""Descriptors of both versions of the standard, and those that nobody can mean, each refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from factored_mwem.errors import InputError
from factored_mwem.request.data_package import described, is_descriptor, read_package
from factored_mwem.request.package import LinkedTable, Reference

USERS = {"name": "users", "path": "users.csv", "schema": {"primaryKey": "id"}}


def sessions(**more: Any) -> dict[str, Any]:
    reference = {"fields": "user", "reference": {"resource": "users", "fields": "id"}}
    return {"name": "sessions", "path": "sessions.csv", "schema": {"foreignKeys": [reference]}} | more


def keyed(name: str, key: Any, *links: tuple[Any, ...]) -> dict[str, Any]:
    """A resource whose links are (columns, table, columns there)."""
    keys = [{"fields": f, "reference": {"resource": of, "fields": there}} for f, of, there in links]
    return {"name": name, "path": f"{name}.csv", "schema": {"primaryKey": key, "foreignKeys": keys}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of tables, and a secret beside their folder."""
    (tmp_path / "secret.csv").write_text("a\n1\n")
    here = tmp_path / "shop"
    (here / "parts").mkdir(parents=True)
    for name in ("users.csv", "sessions.csv", "regions.tsv", "a.csv", "b.csv", "page.html", "parts/0.csv"):
        (here / name).write_text("id\tuser\n" if name.endswith(".tsv") else "id,user\n")
    os.link(here / "users.csv", here / "again.csv")
    return here


def written(folder: Path, *resources: Any) -> Path:
    path = folder / "datapackage.json"
    path.write_text(json.dumps({"name": "shop", "profile": "data-package", "resources": resources}))
    return path


def test_the_column_that_orders_rows_is_read_and_written(folder: Path) -> None:
    package = read_package(written(folder, USERS, sessions(orderBy="id")))
    assert [each.order_by for each in package.private] == [None, "id"]
    schemas = {each.name: pa.schema({"id": pa.int64(), "user": pa.int64()}) for each in package.private}
    whole = described(package, schemas, {each.name: f"{each.name}.csv" for each in package.private})
    (folder / "datapackage.json").write_text(json.dumps(whole))
    assert read_package(folder / "datapackage.json") == package


def test_both_versions_of_the_standard_say_the_same(folder: Path) -> None:
    users = LinkedTable("users", folder / "users.csv", "id", others=())
    child = LinkedTable("sessions", folder / "sessions.csv", None, Reference("user", "users"))
    first = read_package(written(folder, sessions(), USERS))
    assert first.private == (users, child)
    lists = keyed("sessions", None, (["user"], "users", ["id"]))
    second = read_package(written(folder, USERS | {"schema": {"primaryKey": ["id"]}}, lists))
    assert second == first


def test_public_tables_dialects_and_parts_of_a_table(folder: Path) -> None:
    within = [{"fields": "user", "reference": {"fields": "id"}}]
    regions = {
        "name": "regions", "path": ["regions.tsv"], "public": True, "format": "tsv", "encoding": "UTF-8",
        "schema": {"primaryKey": "id", "foreignKeys": within, "fields": [{"name": "id"}]},
        "dialect": {"delimiter": "\t", "header": True, "csv": {"quoteChar": '"'}}, "licenses": [],
    }  # fmt: skip
    parts = USERS | {"path": ["users.csv", "parts/0.csv"], "format": "csv"}
    path = written(folder, regions, parts)
    path.write_text("\ufeff" + path.read_text())
    package = read_package(path)
    assert package.root.source == [folder / "users.csv", folder / "parts" / "0.csv"]
    assert [(t.name, t.source, t.references) for t in package.public] == [
        ("regions", folder / "regions.tsv", (Reference("user", "regions"),))
    ]


REFUSED: list[tuple[list[Any], str]] = [
    ([], "lists no tables"),
    ([{"path": "users.csv"}], "resources.0.name: Field required"),
    ([USERS | {"path": None}], "resource 'users': has no path"),
    ([USERS | {"path": None, "data": [{"id": 1}]}], "resource 'users': holds its rows itself"),
    ([USERS | {"path": "../secret.csv"}], "'../secret.csv' leads out of the descriptor's folder"),
    ([USERS | {"path": "parts/../../secret.csv"}], "leads out of the descriptor's folder"),
    ([USERS | {"path": "/etc/passwd"}], "leads out"),
    ([USERS | {"path": "https://example.org/users.csv"}], "leads out"),
    ([USERS | {"path": "spark:users.csv"}], "leads out"),
    ([USERS | {"path": "~/users.csv"}], "leads out"),
    ([USERS | {"path": "..\\secret.csv"}], "leads out"),
    ([USERS | {"path": "users.csv\n"}], r"'users.csv\\n' leads out"),
    ([USERS | {"path": "u" * 5000 + ".csv"}], "its file a str is not there"),
    ([USERS | {"path": "missing.csv"}], "resource 'users': its file 'missing.csv' is not there"),
    ([USERS | {"path": "*.csv"}], "its file '\\*.csv' is not there"),
    ([USERS | {"path": "parts"}], "its file 'parts' is a folder; list its files"),
    ([USERS | {"path": "page.html"}], "page.html: unknown kind of file"),
    ([USERS | {"path": 7}], "resources.0.path"),
    ([USERS | {"format": "parquet"}], "format 'parquet' is not that of its file"),
    ([USERS | {"format": "doc"}], "format 'doc' is not that of its file"),
    ([USERS | {"encoding": "cp1252"}], "encoding 'cp1252' is not read; write the file as UTF-8"),
    ([USERS | {"dialect": {"header": False}}], "its dialect's 'header' is not read"),
    ([USERS | {"dialect": {"csv": {"quoteChar": "'"}}}], "its dialect's 'quoteChar' is not read"),
    ([USERS | {"dialect": {"header": 1}}], "its dialect's 'header' is not read"),
    ([USERS | {"dialect": "dialect.json"}], "its dialect is in a file of its own"),
    ([USERS | {"schema": "schema.json"}], "its schema is in a file of its own"),
    ([USERS | {"public": "yes"}], "resources.0.public: must be a valid boolean"),
    ([USERS, sessions(orderBy=["id"])], "resources.1.orderBy: must be a valid string"),
    ([USERS | {"orderBy": "id"}], "table 'users': only rows that hang on 'users', the root, come in order"),
    ([USERS, {"name": "a", "path": "a.csv", "public": True, "orderBy": "id"}], "table 'a': only rows that"),
    ([keyed("users", ["id", "user"])], "primaryKey: a key is a single column here"),
    ([keyed("users", [])], "primaryKey: a key is a single column here"),
    ([keyed("users", [7])], "primaryKey: must be a valid string"),
    ([USERS, keyed("sessions", None, (["a", "b"], "users", ["c", "d"]))], "a key is a single column here"),
    ([USERS, keyed("sessions", None, ("user", "users", None))], "reference.fields: must be"),
    ([USERS, keyed("sessions", None, ("user", "users", "user"))],
     "resource 'sessions': its column 'user' refers to 'user' of 'users', whose primary key is 'id'; refer"),
    ([USERS, keyed("sessions", None, ("user", "shops", "id"))], "'shops', which is no table here"),
    ([keyed("users", None), sessions()], "'users', which has no primary key"),
    ([USERS, USERS], "two tables are named 'users' and 'users'"),
    ([USERS, sessions(path="users.csv")], "resources 'users' and 'sessions' have a file in common"),
    ([USERS, sessions(path="again.csv")], "resources 'users' and 'sessions' have a file in common"),
    ([USERS, sessions(schema={})], "'users', 'sessions' hang on no private table, and only one may"),
    ([keyed("a", "id", ("user", "b", "id")), keyed("b", "id", ("user", "a", "id"))], "in a circle"),
    ([keyed("a", "id", ("user", "", "id"))], "refers to its own table"),
    ([{"name": "a\n\x1b[2J", "path": "a.csv"}], r"no table can be named 'a\\n\\x1b\[2J'"),
]  # fmt: skip


@pytest.mark.parametrize(("resources", "line"), REFUSED, ids=range(len(REFUSED)))
def test_a_hostile_descriptor_is_refused_in_a_line(folder: Path, resources: list[Any], line: str) -> None:
    path = written(folder, *resources)
    with pytest.raises(InputError, match=line) as refused:
        read_package(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: ") and message.isprintable()
    assert len(message) - len(str(path)) < 300


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "is not JSON in UTF-8"),
        (b"{'resources': []}", "is not JSON in UTF-8"),
        (b'{"resources": [\xff]}', "is not JSON in UTF-8"),
        ('{"resources": []}'.encode("utf-16"), "is not JSON in UTF-8"),
        (b"[" * 10**6, "is (nested too deeply|not JSON in UTF-8)"),
        (b'{"resources": ' + b"[" * 10**5 + b"]" * 10**5 + b"}", "nested too deeply|valid dictionary"),
        (b" " * (2**24 + 1), "is larger than 16 MB"),
        (b"[]", "is no data package, which has a list of resources"),
        (b'{"age": 85}', "is no data package"),
        (b'{"resources": {}}', "is no data package"),
        (b'{"resources": [1]}', "resources.0: must be"),
        (b'{"resources": [%s]}' % (b"9" * 5000), "is not JSON in UTF-8"),
    ],
    ids=range(12),
)
def test_a_file_that_is_no_descriptor_is_refused_in_a_line(tmp_path: Path, content: bytes, line: str) -> None:
    path = tmp_path / "datapackage.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=line) as refused:
        read_package(path)
    assert str(refused.value).isprintable() and len(str(refused.value)) - len(str(path)) < 250


def test_a_descriptor_that_is_not_there_is_refused_in_a_line(tmp_path: Path) -> None:
    for path in (tmp_path / "datapackage.json", tmp_path, Path("a\0.json")):
        with pytest.raises(InputError, match="descriptor"):
            read_package(path)


def test_what_names_a_descriptor() -> None:
    assert is_descriptor("datapackage.json") and is_descriptor(Path("shop/Package.JSON"))
    others = (
        "a.csv",
        "s3://b/datapackage.json",
        "v3.metadata.json",
        "t.domain.json",
        ["datapackage.json"],
        None,
    )
    assert not any(map(is_descriptor, others))
