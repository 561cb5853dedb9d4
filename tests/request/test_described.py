"""The descriptor of written tables: Frictionless finds their keys whole, and sees one that is broken."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pytest
from support import catalogues

from factored_mwem.request.data_package import described, read_package
from factored_mwem.request.package import LinkedTable, Package, Reference
from factored_mwem.tables.outputs.formats import write_batches

PACKAGE = Package.of(
    [
        LinkedTable("Users", "users.csv", "id"),
        LinkedTable(
            "sessions", "sessions.csv", others=(Reference("user", "Users"), Reference("at", "shops"))
        ),
        LinkedTable("shops", "shops.csv", "shop", public=True),
    ]
)
TABLES = {
    "Users": pa.table(
        {
            "id": [1, 2, 3],
            "born": [datetime.date(1980, 1, 2), None, datetime.date(2001, 12, 31)],
            "glad": [True, False, None],
        }
    ),
    "sessions": pa.table(
        {
            "user": [1, 1, 3],
            "at": [7, 9, None],
            "begun": [datetime.datetime(2024, 5, 6, 7, 8, 9), None, datetime.datetime(1999, 1, 1)],
            "paid": [0.5, 12.0, None],
            "what": ["tea, hot", 'a "quote"', None],
            "hour": [datetime.time(1, 2, 3), None, datetime.time(23, 59, 59)],
        }
    ),
    "shops": pa.table({"shop": pa.array([7, 9], pa.uint16()), "town": ["Ulm", "Rom"]}),
}


def written(folder: Path, suffix: str, tables: dict[str, pa.Table] = TABLES) -> list[str]:
    """The package in a folder, and what Frictionless says of it."""
    files = {name: f"{name}{suffix}" for name in tables}
    for name, table in tables.items():
        write_batches(folder / files[name], table.schema, table.to_batches())
    data = described(PACKAGE, {name: table.schema for name, table in tables.items()}, files)
    (folder / "datapackage.json").write_text(json.dumps(data))
    return catalogues.linked_package(folder, "datapackage.json")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_frictionless_finds_the_tables_whole(tmp_path: Path, suffix: str) -> None:
    tables = TABLES
    if suffix == ".parquet":  # whose reader there takes a null among whole numbers for a fraction
        tables = {name: table.drop_null() for name, table in TABLES.items()}
    assert written(tmp_path, suffix, tables) == []


@pytest.mark.parametrize(
    ("name", "column", "cells", "complaint"),
    [
        ("sessions", "user", [1, 1, 4], "foreign-key"),
        ("sessions", "at", [7, 8, None], "foreign-key"),
        ("Users", "id", [1, 2, 2], "primary-key"),
        ("shops", "shop", [7, 7], "primary-key"),
    ],
)
def test_it_sees_a_key_that_is_broken(
    tmp_path: Path, name: str, column: str, cells: list[int | None], complaint: str
) -> None:
    table = TABLES[name]
    at = table.schema.get_field_index(column)
    broken = TABLES | {name: table.set_column(at, column, pa.array(cells))}
    said = written(tmp_path, ".csv", broken)
    assert any(complaint in line for line in said)


def test_it_sees_a_column_of_another_type(tmp_path: Path) -> None:
    files = {name: f"{name}.csv" for name in TABLES}
    written(tmp_path, ".csv")
    schemas = {name: table.schema for name, table in TABLES.items()}
    other = schemas | {"shops": pa.schema({"shop": pa.uint16(), "town": pa.int64()})}
    (tmp_path / "datapackage.json").write_text(json.dumps(described(PACKAGE, other, files)))
    assert any("type-error" in line for line in catalogues.linked_package(tmp_path, "datapackage.json"))


def test_keys_that_name_the_same_rows_are_of_one_type(tmp_path: Path) -> None:
    """Of a public CSV file nothing but text is known, where the synthetic column holds numbers."""
    text = pa.schema({"shop": pa.string(), "town": pa.string()})
    assert written(tmp_path, ".csv", TABLES | {"shops": TABLES["shops"].cast(text)}) == []


def test_a_moment_in_text_is_not_of_the_standards_own_form(tmp_path: Path) -> None:
    """A space stands between day and time there."""
    for suffix, form in ((".csv", "any"), (".parquet", None)):
        schemas = {name: each.schema for name, each in TABLES.items()}
        files = {name: f"{name}{suffix}" for name in TABLES}
        fields = described(PACKAGE, schemas, files)["resources"][1]["schema"]["fields"]
        assert (fields[2]["name"], fields[2].get("format")) == ("begun", form)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    written(tmp_path, ".csv")
    package = read_package(tmp_path / "datapackage.json")
    assert [each.name for each in package.private] == ["Users", "sessions"]
    assert package.private[1].parent == Reference("user", "Users")
    assert package.private[1].others == (Reference("at", "shops"),)
    assert [(each.name, each.key) for each in package.public] == [("shops", "shop")]
    assert package.root.source == tmp_path / "Users.csv" and package.root.key == "id"
