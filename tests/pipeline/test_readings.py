"""Columns of two tables are read alike: by their values, whatever types the values are written in."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem.errors import InputError
from factored_mwem.owner.evaluation.readings import Values, read_alike, read_columns, written
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.inputs.text_form import Records

Cells = list[float | str | None]


def cells(values: Values) -> Cells:
    """The column row by row, one value after the other."""
    found: Cells = []
    for number, place in zip(values.numbers, values.index, strict=True):
        assert np.isnan(number) or place == -1
        text = values.texts[int(place)].as_py() if place >= 0 else None
        found.append(text if np.isnan(number) else float(number))
    return found


def read(real: Any, synthetic: Any, **more: Any) -> tuple[str, str, Cells, Cells]:
    columns = (read_columns(open_table(pa.table({"x": column})), ["x"])["x"] for column in (real, synthetic))
    kind, unit, *both = read_alike(*columns, **more)
    return kind, unit, cells(both[0]), cells(both[1])


DAYS = [datetime.date(2024, 2, 29), None, datetime.date(1969, 7, 20)]
MICROS = [1_709_164_800e6, None, -14_256_000e6]
TIMES = [datetime.datetime(2024, 2, 29, 12, 30, 0, 250_000), None]
SAME = {
    "whole": (["5", " -7", "", "1.0"], pa.array([5, -7, None, 1]), "number", [5.0, -7.0, None, 1.0]),
    "floats": (["0.1", "1e3", None], pa.array([0.1, 1000.0, None]), "number", [0.1, 1000.0, None]),
    "nan": (["0.5", ""], pa.array([0.5, float("nan")]), "number", [0.5, None]),
    "decimals": (["1.50", "-2"], pa.array([Decimal("1.50"), Decimal("-2.00")]), "number", [1.5, -2.0]),
    "dictionary of numbers": (["3", "4", "3"], pa.array([3, 4, 3]).dictionary_encode(), "number", [3, 4, 3]),
    "codes beside numbers": (["007", "11"], pa.array([7, 11]), "number", [7.0, 11.0]),
    "days": (["2024-02-29", "", "1969-07-20"], pa.array(DAYS), "moment", MICROS),
    "times": (["2024-02-29T12:30:00.25", ""], pa.array(TIMES), "moment", [MICROS[0] + 45_000.25e6, None]),
    "truth": (["TRUE", "f", "", "no"], pa.array([True, False, None, False]), "text",
              ["true", "false", None, "false"]),
    "truth as numbers": (pa.array([1, 0, 1]), pa.array([True, False, True]), "text",
                         ["true", "false", "true"]),
    "words": (["a", "", "B"], pa.array(["a", None, "B"]).dictionary_encode(), "text", ["a", None, "B"]),
    "long text": (["0311", "9"], pa.array(["0311", "9"], pa.large_string()), "text", ["0311", "9"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("turned", [False, True], ids=["text is real", "typed is real"])
def test_the_same_values_in_text_and_in_types_are_the_same(name: str, turned: bool) -> None:
    text, typed, kind, expected = SAME[name]
    pair = (typed, text) if turned else (text, typed)
    assert read(*pair) == (kind, "moment" if kind == "moment" else "number", expected, expected)


def test_a_mixed_column_has_numbers_and_text() -> None:
    """As a release of such a column: text once, whole numbers another time."""
    real = ["N"] * 3 + ["1"] * 4 + ["2"]
    assert read(real, ["1", "N", "3"])[:2] == ("mixed", "number")
    assert read(real, ["1", "N", ""])[3] == [1.0, "N", None]
    assert read(real, pa.array([1, 2, None]))[2:] == (["N"] * 3 + [1.0] * 4 + [2.0], [1.0, 2.0, None])
    assert read(["2020-01-01", "unknown"], ["2020-01-02"])[:2] == ("mixed", "moment")


@pytest.mark.parametrize(
    ("texts", "kind"),
    [(0, "number"), (5, "number"), (6, "mixed"), (95, "mixed"), (96, "text"), (100, "text")],
)
def test_the_share_of_numbers_decides(texts: int, kind: str) -> None:
    real = ["N"] * texts + ["1"] * (100 - texts) + [""] * 50  # what is missing has no say
    assert read(real, ["1"])[0] == kind


def test_codes_with_leading_zeros_are_text() -> None:
    assert read(["02134"] + ["10001"] * 30, ["10001"])[0] == "text"
    assert read(["0", "0.5", "-0.25"], ["1"])[0] == "number"


def test_text_that_stands_for_missing() -> None:
    assert read(["?", "1", ""], ["NA", "2"], missing=["?", "NA"])[2:] == ([None, 1.0, ""], [None, 2.0])
    assert read(["?", "a"], ["b", ""], missing=["?"])[2:] == ([None, "a"], ["b", ""])
    assert read(["-9", "1"], ["2", "-9"], missing=["-9"])[2:] == ([None, 1.0], [2.0, None])
    assert read(["?", "yes"], pa.array([True]), missing=["?"])[2] == [None, "true"]


def test_an_infinite_number_is_text() -> None:
    infinite = pa.array([1.0, float("inf"), float("-inf")])
    assert read(infinite, ["inf", "1e999"])[2:] == ([1.0, "inf", "-inf"], ["inf", "1e999"])


def test_text_that_reads_as_nothing_typed_is_not_compared() -> None:
    with pytest.raises(InputError, match="text in the real table, and numbers in the synthetic one; say how"):
        read(["2020-01-01", "2020-01-02"], [5, 6])
    with pytest.raises(InputError, match="text in the real table, and dates in the synthetic one; say how"):
        read(["7/2/69", "12/3/99"], pa.array(DAYS))  # which is the month?


def test_typed_values_are_written() -> None:
    typed = pa.array([40.0, 0.1, -3e20, None, float("nan")])
    assert written(typed).to_pylist() == ["40", "0.1", "-3e+20", None, None]
    assert written(pa.array([2**62 + 1])).to_pylist() == [str(2**62 + 1)]
    assert written(pa.array(DAYS)).to_pylist() == ["2024-02-29", None, "1969-07-20"]
    assert written(pa.array(TIMES[:1])).to_pylist() == ["2024-02-29 12:30:00.250000"]


def test_a_real_column_without_values_takes_the_other_type() -> None:
    assert read(pa.array([None, ""], pa.string()), pa.array([4, None])) == (
        "number", "number", [None, None], [4.0, None]
    )  # fmt: skip
    assert read(pa.array([None], pa.string()), ["a"])[0] == "text"


@pytest.mark.parametrize("real", [[1, 2], [True]])
def test_moments_are_not_compared_with_numbers(real: Any) -> None:
    with pytest.raises(
        InputError, match=r"is (int64|bool) in the real table but date32.* cannot be compared"
    ):
        read(pa.array(real), pa.array(DAYS))


def test_batches_of_different_dictionaries_are_one_column() -> None:
    chunks = [pa.array(values).dictionary_encode() for values in (["a", "b"], ["c", "b", None], ["a"])]
    assert read(pa.chunked_array(chunks), ["a"])[2] == ["a", "b", "c", "b", None, "a"]


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="has no rows"):
        read(pa.array([], pa.string()), ["a"])


@pytest.mark.parametrize("records", ["checked", "lines"])
def test_a_text_file_is_read_as_its_records(records: Records, tmp_path: Any) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,a\n,\n2,b\n")
    columns = read_columns(open_table(tmp_path / "t.csv", records), ["x"])
    assert cells(read_alike(columns["x"], columns["x"])[2]) == [1.0, None, 2.0]
