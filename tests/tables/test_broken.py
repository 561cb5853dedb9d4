"""Rows that break a hypothesis, against a loop over Python's own values."""

from __future__ import annotations

import datetime
import math
from decimal import ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.marks import others_slow

from factored_mwem.tables.codes.broken import Hypothesis, broken
from factored_mwem.tables.codes.kinds import MOMENTS, NUMBERS
from factored_mwem.tables.codes.rest import Known

TIME = Known(MOMENTS, "datetime", 1.0)
WHOLE, CENTS = Known(NUMBERS, "integer", 1.0), Known(NUMBERS, "integer", 100.0)
TEXT = Known((), "string", 1.0)
TIMES, PLUS = Decimal("1.8"), Decimal(32)


def breaks(hypothesis: Hypothesis, row: dict[str, Any]) -> bool:
    """By the words of the guide."""
    target, *sources = (row[name] for name in hypothesis.columns)
    if hypothesis.function == "equal":
        return target != sources[0]
    if None in sources:
        return target is not None
    if hypothesis.function == "sum":
        return target is None or target != sum(sources)
    if hypothesis.function in ("linear", "product"):
        exact = math.prod(sources) if hypothesis.function == "product" else sources[0] * TIMES + PLUS
        digits = Decimal("0.01") if hypothesis.target == "z" else Decimal(1)
        ways = [exact.quantize(digits, rounding=way) for way in (ROUND_HALF_UP, ROUND_HALF_DOWN)]
        return target is None or target not in ways
    expected = {"hour": lambda v: v.hour, "below hundred": lambda v: v % 100}[hypothesis.function](sources[0])
    return target is None or target != expected


CASES: list[tuple[Hypothesis, dict[str, tuple[Known, list[Any]]]]] = [
    (
        Hypothesis("hour", "x", ("t",)),
        {
            "t": (TIME, [None, datetime.datetime(2020, 1, 1, 5, 30), datetime.datetime(1960, 1, 1, 23)]),
            "x": (WHOLE, [None, 5, 23]),
        },
    ),
    (
        Hypothesis("below hundred", "x", ("y",)),
        {"y": (WHOLE, [None, 1205, 5, -95]), "x": (WHOLE, [None, 5, 12])},
    ),
    (
        Hypothesis("sum", "z", ("x", "y")),
        {
            "x": (CENTS, [None, Decimal("0.29"), Decimal("1.10")]),
            "y": (WHOLE, [None, 1, 2]),
            "z": (CENTS, [None, Decimal("1.29"), Decimal("3.10")]),
        },
    ),
    (
        Hypothesis("product", "z", ("x", "y")),
        {
            "x": (CENTS, [None, Decimal("0.29"), Decimal("1.25"), Decimal(-3)]),
            "y": (CENTS, [None, Decimal(3), Decimal("0.1"), Decimal("-0.01")]),
            "z": (CENTS, [None, Decimal("0.87"), Decimal("0.13"), Decimal("0.12"), Decimal("0.03")]),
        },
    ),
    (
        Hypothesis("linear", "y", ("x",), float(TIMES), float(PLUS)),
        {
            "x": (CENTS, [None, Decimal(0), Decimal("37.5"), Decimal("-40")]),
            "y": (WHOLE, [None, 32, 99, 100, -40]),
        },
    ),
    (Hypothesis("equal", "b", ("a",)), {"a": (TEXT, [None, "p", "q"]), "b": (TEXT, [None, "q", "r"])}),
]


def typed(values: list[Any], form: str, among: list[Any]) -> pa.Array:
    """The values in a column of text, of doubles, or of the type of those that they are `among`."""
    if form == "text":
        return pa.array([None if v is None else str(v) for v in values], pa.string())
    if any(isinstance(v, Decimal) for v in among):
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    kind = {str: pa.string(), int: pa.int64()}
    return pa.array(values, next((kind[type(v)] for v in among if type(v) in kind), pa.timestamp("us")))


@pytest.mark.parametrize(
    ("hypothesis", "columns"), CASES, ids=lambda case: str(getattr(case, "function", ""))
)
@pytest.mark.parametrize("form", others_slow(["text", "typed", "dictionary"], lambda form: form == "text"))
@settings(max_examples=10)
@given(data=st.data())
def test_every_row_counts_by_itself(
    hypothesis: Hypothesis, columns: dict[str, tuple[Known, list[Any]]], form: str, data: st.DataObject
) -> None:
    drawn = st.fixed_dictionaries({name: st.sampled_from(values) for name, (_, values) in columns.items()})
    rows = data.draw(st.lists(drawn, max_size=8))
    cells = {name: typed([row[name] for row in rows], form, own) for name, (_, own) in columns.items()}
    if form == "dictionary":
        cells = {name: column.dictionary_encode() for name, column in cells.items()}
    known = {name: own for name, (own, _) in columns.items()}
    expected = sum(breaks(hypothesis, row) for row in rows)
    assert broken(cells, known, [hypothesis]).tolist() == [expected]


def test_what_cannot_be_read_counts_as_missing() -> None:
    cells = {"t": pa.array(["?", "", "2020-01-01 04:00", "NA"]), "x": pa.array(["", "NA", "four", "4"])}
    counts = broken(cells, {"t": TIME, "x": WHOLE}, [Hypothesis("hour", "x", ("t",))])
    assert counts.tolist() == [2]


def test_values_beyond_64_bits_end_nothing() -> None:
    cells = {name: pa.array(["9" * 200, "1e308", "-1"]) for name in ("x", "y", "z")}
    for each in (Hypothesis("sum", "z", ("x", "y")), Hypothesis("tens", "x", ("y",))):
        assert 0 <= broken(cells, dict.fromkeys(cells, CENTS), [each])[0] <= 3
    assert np.array_equal(broken(cells, dict.fromkeys(cells, WHOLE), [Hypothesis("equal", "x", ("y",))]), [0])


def test_a_worker_of_spark_counts_the_same() -> None:
    from factored_mwem.tables.backends.spark_tasks import MARK, CountBroken, all_parts, unpacked

    rng = np.random.default_rng(0)
    batches = [
        pa.record_batch({n: pa.array(rng.integers(0, 3, 50)) for n in ("x", "y", "a", "b")}) for _ in range(3)
    ]
    asked = (Hypothesis("equal", "y", ("x",)), Hypothesis("sum", "y", ("x", "x")))
    known = {"x": WHOLE, "y": WHOLE}
    task = CountBroken(("x", "y"), tuple(known.values()), asked)
    parts = dict(all_parts(task(iter(batches))))
    one_by_one = [broken({n: batch.column(n) for n in known}, known, asked) for batch in batches]
    assert np.frombuffer(parts[0], "<i8").tolist() == np.sum(one_by_one, axis=0).tolist()
    assert unpacked(parts[MARK])[0] == 150
