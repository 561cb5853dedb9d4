"""Tables that hang on one root: their order, and what is refused in one line before anything is read."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa
import pytest

from factored_mwem.errors import InputError
from factored_mwem.request.package import LinkedTable, Package, Reference, check_columns, two_tables


def table(name: str, *references: str, key: str | None = "id", public: bool = False) -> LinkedTable:
    """A table that refers to others, each as `column>table`."""
    pairs = [Reference(*each.split(">")) for each in references]
    return LinkedTable(name, pd.DataFrame({"id": [1, 2]}), key, others=tuple(pairs), public=public)


SHOP = [
    table("visits", "person>persons", "region>regions", key=None),
    table("cars", "household>households"),
    table("persons", "household>households"),
    table("regions", public=True),
    table("households", "region>regions"),
]
"""Rows that are data frames, which have no plain equality."""


def test_the_root_comes_first_and_each_table_before_what_hangs_on_it() -> None:
    package = Package.of(SHOP)
    assert [each.name for each in package.private] == ["households", "cars", "persons", "visits"]
    assert [each.name for each in package.public] == ["regions"] and package.root.name == "households"
    visits = package.private[-1]
    assert visits.parent == Reference("person", "persons")
    assert visits.others == (Reference("region", "regions"),)
    assert [each.name for each in package.ancestors(visits)] == ["persons", "households"]
    assert [each.name for each in package.children("households")] == ["cars", "persons"]


def test_which_reference_is_to_the_parent_follows_from_what_is_public() -> None:
    given = LinkedTable("b", None, parent=Reference("r", "regions"), others=(Reference("a", "a"),))
    package = Package.of([table("a"), table("regions", public=True), given])
    assert package.private[1].parent == Reference("a", "a")
    assert package.private[1].others == (Reference("r", "regions"),)


def test_public_tables_may_refer_to_each_other_and_to_themselves() -> None:
    areas = table("areas", "within>areas", "country>countries", public=True)
    package = Package.of([table("a", "area>areas"), areas, table("countries", public=True)])
    assert package.public[0].references == (Reference("within", "areas"), Reference("country", "countries"))


def test_a_long_chain_of_tables_needs_no_deep_stack() -> None:
    chain = [table(f"t{i}", *([f"up>t{i - 1}"] if i else [])) for i in range(5000)]
    assert [each.name for each in Package.of(chain[::-1]).private] == [each.name for each in chain]
    with pytest.raises(InputError, match="in a circle"):
        Package.of([table("t0", "up>t4999"), *chain[1:]])


REFUSED: list[tuple[Sequence[LinkedTable], str]] = [
    ([], "lists no tables"),
    ([table("a"), table("a")], "two tables are named 'a' and 'a'"),
    ([table("a"), table("A", "a>a")], "two tables are named 'a' and 'A'"),
    ([table("../a")], "no table can be named '../a'"),
    ([table("a\nb")], r"no table can be named 'a\\nb'"),
    ([table("\ud800")], r"no table can be named '\\ud800'"),
    ([table(".a")], "no table can be named"),
    ([table("")], "no table can be named ''"),
    ([table("é" * 150)], "no table can be named a str"),
    ([table("a"), table("b")], "'a', 'b' hang on no private table, and only one may; give one a foreign key"),
    ([table("a", public=True)], "every table is public"),
    ([table("a", "b>b")], "table 'a': its column 'b' refers to 'b', which is no table here; there are 'a'"),
    ([table("a", "boss>a")], "'boss' refers to its own table"),
    ([table("a", "x>b"), table("b", "y>a")], "in a circle, 'a' -> 'b' -> 'a'; remove"),
    ([table("r"), table("a", "x>b"), table("b", "y>a")], "in a circle, 'a' -> 'b' -> 'a'"),
    ([table("a", "x>b"), table("b", "y>c"), table("c", "y>b")], "in a circle, 'b' -> 'c' -> 'b'"),
    ([table("a", key=None), table("b", "a>a")], "'a', which has no primary key; declare its primaryKey"),
    ([table("a"), table("b", "a>a", "a>c"), table("c", "a>a")], "'a' refers to two tables"),
    ([table("a"), table("b", "id>a")], "'id' is its primary key and refers to 'a', too; leave out"),
    (
        [table("users"), table("shops", "u>users"), table("bills", "user>users", "shop>shops")],
        "table 'bills' hangs on two private tables, 'users' by 'user' and 'shops' by 'shop', .* declare one",
    ),
    ([table("a"), table("b", "x>a", "y>a")], "two private tables, 'a' by 'x' and 'a' by 'y'"),
    ([table("a"), table("p", "a>a", public=True)], "table 'p' is public and refers to 'a', which is private"),
]


@pytest.mark.parametrize(("tables", "line"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_hang_on_one_root_is_refused_in_a_line(tables: list[LinkedTable], line: str) -> None:
    with pytest.raises(InputError, match=line) as refused:
        Package.of(tables)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 300


def linked(key: pa.DataType, reference: pa.DataType, *text: str, public: bool = False) -> None:
    users = LinkedTable("users", None, "id", public=public)
    sessions = LinkedTable("sessions", None, others=(Reference("user", "users"),))
    package = Package.of([users, sessions])
    check_columns(
        package, {"users": pa.schema({"id": key}), "sessions": pa.schema({"user": reference})}, {*text}
    )


DICTIONARY = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize(
    ("key", "reference", "text"),
    [
        (pa.int64(), pa.uint8(), ()),
        (pa.string(), pa.large_string(), ()),
        (pa.string_view(), DICTIONARY, ()),
        (pa.string(), pa.string(), ("sessions",)),
        (pa.string(), pa.string(), ("sessions", "users")),
    ],
)
def test_keys_that_are_alike(key: pa.DataType, reference: pa.DataType, text: tuple[str, ...]) -> None:
    linked(key, reference, *text)


def test_only_public_tables_have_dates_for_keys() -> None:
    linked(pa.date32(), pa.date64(), public=True)
    with pytest.raises(InputError, match="table 'users': its primary key 'id' is a date; number the rows"):
        linked(pa.date32(), pa.date32())


@pytest.mark.parametrize(
    ("key", "reference", "text", "line"),
    [
        (pa.float64(), pa.float64(), (), "table 'users': the key 'id' is double; keys are whole numbers or"),
        (pa.int64(), pa.float32(), (), "table 'sessions': the key 'user' is float; keys are"),
        (pa.list_(pa.int8()), pa.int8(), (), "the key 'id' is list"),
        (pa.bool_(), pa.bool_(), (), "the key 'id' is bool"),
        (pa.timestamp("us"), pa.timestamp("us"), (), "the key 'id' is timestamp"),
        (
            pa.int64(), pa.string(), (),
            "two types: 'user' of 'sessions' holds text, and 'id' of 'users' whole numbers; convert one of",
        ),
        (pa.int64(), pa.string(), ("sessions",), "holds text, .* whole numbers; write 'sessions' as Parquet"),
        (pa.string(), pa.int32(), ("users",), "holds whole numbers, .* text; write 'users' as Parquet"),
    ],
)  # fmt: skip
def test_keys_that_cannot_name_rows_are_refused(
    key: pa.DataType, reference: pa.DataType, text: tuple[str, ...], line: str
) -> None:
    with pytest.raises(InputError, match=line) as refused:
        linked(key, reference, *text)
    assert str(refused.value).isprintable()


def test_keys_that_are_no_columns_are_refused() -> None:
    package = Package.of([table("a", key="b"), table("c", "d>a", key=None)])
    good = pa.schema({"b": pa.int8(), "e": pa.int8()})
    with pytest.raises(InputError, match="table 'a' has no column 'b', which is to be a key; it has 'x'"):
        check_columns(package, {"a": pa.schema({"x": pa.int8()}), "c": good})
    with pytest.raises(
        InputError, match="table 'c' has no column 'd', which is to be a key; it has 'b', 'e'"
    ):
        check_columns(package, {"a": good, "c": good})


def test_two_tables_are_linked_by_one_column_or_by_two() -> None:
    package = two_tables(("users", "users.csv"), ("sessions", "sessions.csv"), "user_id")
    assert package.root == LinkedTable("users", "users.csv", "user_id")
    assert package.private[1] == LinkedTable("sessions", "sessions.csv", parent=Reference("user_id", "users"))
    other = two_tables(("users", "users.csv"), ("sessions", "sessions.csv"), "id", "user")
    assert other.private[1].parent == Reference("user", "users")
    with pytest.raises(InputError, match="two tables are named 'data' and 'data'"):
        two_tables(("data", "a/data.csv"), ("data", "b/data.csv"), "id")
