"""Columns that follow from others, and values in order, whatever the types of the table are."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.rules import keeps

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.tables.codes import derive

ROWS = 4000
DAYS = {"minimum": "2020-01-01", "maximum": "2020-12-31"}


def rows_of(
    fields: list[dict[str, Any]], rules: list[dict[str, Any]], types: dict[str, pa.DataType]
) -> pa.Table:
    """Rows with codes drawn at random among those that no order rules out."""
    domain = Domain.from_dict({"fields": fields, "rules": rules})
    schema = pa.schema([pa.field(a.name, types[a.name]) for a in domain])
    derive.check_rules(domain, schema)
    rng = np.random.default_rng(3)
    codes = np.array([rng.integers(0, a.size, ROWS) for a in domain.modelled])
    for zeros in domain.zeros:
        cells = tuple(of[codes[a]] for a, of in zip(zeros.positions, zeros.classes, strict=True))
        codes = codes[:, ~zeros.forbidden[cells]]
    return pa.Table.from_arrays(derive.decode_table(domain, list(codes), schema, rng), schema=schema)


def field(name: str, kind: str, low: Any, high: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "constraints": {"minimum": low, "maximum": high}, **more}


def both(kind: str, low: Any, high: Any, **more: Any) -> list[dict[str, Any]]:
    return [field(name, kind, low, high, **more) for name in "se"]


PAIRS: dict[str, tuple[list[dict[str, Any]], pa.DataType]] = {
    "integers": ([field("s", "integer", 0, 99, bins=3), field("e", "integer", 0, 120, bins=7)], pa.int16()),
    "special": (
        [
            field("s", "integer", 0, 99, bins=2, specialValues=[40, 0]),
            field("e", "integer", 0, 99, bins=2, specialValues=[99, 40, "N"]),
        ],
        pa.string(),
    ),
    "a thin overlap": (
        [field("s", "integer", 0, 999, bins=1), field("e", "integer", 0, 999, edges=[0, 2, 999])],
        pa.int64(),
    ),
    "decimals": (
        [field("s", "number", 0, 1, bins=3, decimals=2), field("e", "number", 0, 1, bins=2, decimals=2)],
        pa.decimal128(5, 2),
    ),
    "floats": ([field("s", "number", 0, 1, bins=3), field("e", "number", 0, 1, bins=2)], pa.float32()),
    "dates": ([field("s", "date", *DAYS.values(), bins=4), field("e", "date", *DAYS.values())], pa.date32()),
    "dates in text": (both("date", *DAYS.values(), bins=4, format="%d.%m.%Y"), pa.string()),
    "moments": (both("datetime", *DAYS.values(), bins=2, resolution="hour"), pa.timestamp("s")),
}


@pytest.mark.parametrize("exchange", [False, True], ids=["in bins", "by exchange"])
@pytest.mark.parametrize("kind", PAIRS)
def test_values_come_out_in_order(kind: str, exchange: bool) -> None:
    """Seen to fail: without drawing again; without what follows after MAX_TRIES ("a thin overlap"); and
    where values are exchanged without moving those that no exchange can mend.
    """
    fields, arrow = PAIRS[kind]
    rule = {"order": ["s", "e"]} | ({"exchange": True} if exchange else {})
    table = rows_of(fields, [rule], dict.fromkeys("se", arrow))
    values = table.to_pylist()
    if kind == "dates in text":
        for row in values:
            row |= {n: v and datetime.datetime.strptime(v, "%d.%m.%Y").date() for n, v in row.items()}
    if kind == "special":
        for row in values:
            row |= {n: int(v) if v and v != "N" else v for n, v in row.items()}
    assert len(values) > 500 and all(keeps({"order": ["s", "e"]}, row) for row in values)
    both = [(row["s"], row["e"]) for row in values if None not in row.values()]
    assert any(s != e for s, e in both)


def test_a_chain_comes_out_in_order() -> None:
    """Three columns of which all may lie in one bin, and the middle may be null."""
    fields = [field(n, "integer", 0, 9, edges=[0, 5, 9]) for n in "sme"]
    rules = [{"order": ["s", "m"]}, {"order": ["m", "e"]}]
    table = rows_of(fields, rules, dict.fromkeys("sme", pa.int64()))
    assert all(keeps(rule, row) for rule in rules for row in table.to_pylist())
    free = [row for row in table.to_pylist() if row["m"] is None and None not in (row["s"], row["e"])]
    assert any(row["s"] > row["e"] for row in free)


SOURCE = {"name": "a", "categories": ["p", "q"]}


def day(month: int, of_month: int) -> datetime.date:
    return datetime.date(2020, month, of_month)


TARGETS: list[tuple[dict[str, Any], list[Any], pa.DataType, list[Any]]] = [
    ({"categories": ["x", "y"]}, ["y", "x"], pa.dictionary(pa.int32(), pa.string()), ["y", "x"]),
    (field("d", "integer", 0, 99, bins=2), [17, 60], pa.int8(), [17, 60]),
    (field("d", "number", 0, 9, bins=2), [1.25, 6], pa.decimal128(4, 2), [decimal.Decimal("1.25"), 6]),
    (
        field("d", "date", *DAYS.values()),
        ["2020-02-29", "2020-12-31"],
        pa.date32(),
        [day(2, 29), day(12, 31)],
    ),
    (field("d", "integer", 0, 9, specialValues=["N"]), ["N", 3], pa.string(), ["N", "3"]),
]


@pytest.mark.parametrize(("target", "given", "arrow", "values"), TARGETS)
def test_a_derived_column_has_the_value_of_the_map(
    target: dict[str, Any], given: list[Any], arrow: pa.DataType, values: list[Any]
) -> None:
    rules = [{"derive": "d", "from": "a", "map": dict(zip("pq", given, strict=True))}]
    made = rows_of([{**target, "name": "d"}, SOURCE], rules, {"d": arrow, "a": pa.string()})
    assert made.schema.names == ["d", "a"] and made.schema.field("d").type == arrow
    found = {(row["a"], row["d"]) for row in made.to_pylist()}
    assert found == set(zip(["p", "q", None], [*values, None], strict=True))


@pytest.mark.parametrize(("target", "given", "arrow", "values"), TARGETS)
def test_a_column_that_follows_from_two_has_the_value_of_both(
    target: dict[str, Any], given: list[Any], arrow: pa.DataType, values: list[Any]
) -> None:
    """Also where one of them follows from another itself, and of combinations that nobody listed."""
    listed = [[["p", 0], given[0]], [["q", 0], given[1]], [[None, 1], given[1]]]
    rules = [
        {"derive": "d", "from": ["a", "n"], "map": listed, "otherwise": given[0]},
        {"derive": "n", "from": "m", "map": {"x": 0, "y": 1}},
    ]
    must = {"required": True}
    more = [field("n", "integer", 0, 1) | {"constraints": {"minimum": 0, "maximum": 1, **must}}]
    more += [{"name": "m", "categories": ["x", "y"], "constraints": must}]
    types = {"d": arrow, "a": pa.string(), "n": pa.int64(), "m": pa.string()}
    made = rows_of([{**target, "name": "d"}, SOURCE, *more], rules, types)
    found = {(row["a"], row["n"], row["d"]) for row in made.to_pylist()}
    expected = {("p", 0): 0, ("q", 0): 1, (None, 0): 0, ("p", 1): 0, ("q", 1): 0, (None, 1): 1}
    assert found == {(*pair, values[place]) for pair, place in expected.items()}


def test_what_follows_from_a_sum() -> None:
    """A sum of derived and drawn numbers, and a column that follows from the sum."""
    must = {"required": True}
    fields = [
        *(SOURCE, field("n", "integer", 0, 5), field("x", "integer", 0, 9, bins=2)),
        {"name": "t", "type": "integer", "constraints": {"minimum": 0, "maximum": 14, **must}},
        {"name": "level", "categories": ["low", "high"], "constraints": must},
    ]
    rules = [
        {"derive": "level", "from": "t", "map": [[{"max": 7}, "low"], [{"min": 8}, "high"]]},
        {"sum": "t", "of": ["n", "x"]},
        {"derive": "n", "from": "a", "map": {"p": 2, "q": 5}},
    ]
    whole = dict.fromkeys("nxt", pa.int64()) | {"a": pa.string(), "level": pa.string()}
    made = rows_of(fields, rules, whole).to_pylist()
    assert all(row["t"] == (row["n"] or 0) + (row["x"] or 0) for row in made)
    assert all(row["level"] == ("low" if row["t"] <= 7 else "high") for row in made)
    assert {row["n"] for row in made} == {2, 5, None} and {row["level"] for row in made} == {"low", "high"}


NUMBERS = [field("s", "number", 0, 9), field("e", "number", 0, 9)]
ROUND = [NUMBERS[0] | {"decimals": 1}, NUMBERS[1]]
ORDER: dict[str, Any] = {"order": ["s", "e"]}
APART = {"never": {"s": {"max": 3}, "e": {"min": 4}}}
MOMENT = [field("s", "datetime", *DAYS.values()), SOURCE]
EARLY = {"never": {"s": {"max": "2020-02-01"}, "a": "p"}}


@pytest.mark.parametrize(
    ("fields", "rule", "types", "message"),
    [
        (NUMBERS, ORDER, [pa.int64(), pa.float64()], "so they must be of one type"),
        (NUMBERS, ORDER, [pa.int64(), pa.int64()], "declare its decimals"),
        (ROUND, ORDER, [pa.float64()] * 2, "of one type"),
        (NUMBERS, APART, [pa.float64(), pa.int64()], "its decimals"),
        (MOMENT, EARLY, [pa.timestamp("s"), pa.string()], "declare its resolution"),
    ],
)
def test_types_that_cannot_keep_a_rule_are_refused(
    fields: list[dict[str, Any]], rule: dict[str, Any], types: list[pa.DataType], message: str
) -> None:
    names = [each["name"] for each in fields]
    with pytest.raises(InputError, match=message):
        rows_of(fields, [rule], dict(zip(names, types, strict=True)))


@pytest.mark.parametrize("arrow", [pa.float64(), pa.float32(), pa.int32(), pa.decimal128(6, 1), pa.string()])
def test_a_value_at_a_bound_stays_on_its_side(arrow: pa.DataType) -> None:
    """Seen to fail: with a number's bins cut just above the bound, in a column of few decimals."""
    more = {} if pa.types.is_floating(arrow) else {"decimals": 1}
    rule = {"if": {"s": {"max": 3}}, "then": {"a": "p"}}
    fields = [field("s", "number", 0, 5, bins=1, **more), SOURCE]
    made = rows_of(fields, [rule], {"s": arrow, "a": pa.string()}).to_pylist()
    for row in made:
        row["s"] = row["s"] if row["s"] is None else float(row["s"])
    assert all(keeps(rule, row) for row in made)
    assert any(row["s"] is not None and row["s"] <= 3 for row in made)
