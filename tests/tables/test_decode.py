"""Special values beside bins, decimals and resolutions: encode and decode against a plain loop."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factored_mwem.domain.attribute import Attribute
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.decode import decode, labels_of, own_type


def attribute(kind: str, edges: list[Any], specials: list[Any], **more: Any) -> Attribute:
    return Attribute.model_validate(
        {"name": "x", "type": kind, "edges": edges, "specialValues": specials or None, **more}
    )


def decoded(a: Attribute, codes: list[int], arrow: pa.DataType | None = None, seed: int = 0) -> list[Any]:
    field = pa.field("x", arrow or own_type(a), nullable=a.nullable)
    return decode(a, np.array(codes), field, np.random.default_rng(seed)).to_pylist()


def code_by_hand(a: Attribute, value: int) -> int:
    """Special values and bins in the order of their values, a bin that begins with one after it."""
    cuts = a.cuts.tolist()
    specials = sorted(v for v in a.special_values or () if not isinstance(v, str))
    places = [(v, 0, v) for v in specials] + [(low, 0.5, i) for i, low in enumerate(cuts[:-1])]
    # what is special inside a bin, but for its begin, comes after the bin
    order = [(rank, what) for _, rank, what in sorted(places)]
    inside = max(i for i, low in enumerate(cuts[:-1]) if low <= max(value, cuts[0]))
    return order.index((0, value) if value in specials else (0.5, inside))


@st.composite
def integers(draw: st.DrawFn) -> Attribute:
    edges = sorted(draw(st.sets(st.integers(-30, 30), min_size=2, max_size=6)))
    specials = draw(st.sets(st.integers(-40, 40), max_size=8))
    cuts = [*edges[:-1], edges[-1] + 1]
    for low, high in itertools.pairwise(cuts):  # every bin keeps a value
        if all(v in specials for v in range(low, high)):
            specials.remove(low)
    return attribute("integer", edges, sorted(specials))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(integers())
def test_integers_encode_as_by_hand_and_decode_to_their_own_code(a: Attribute) -> None:
    values = list(range(-45, 46))
    expected = [code_by_hand(a, v) for v in values]
    assert encode(a, pa.array(values)).tolist() == expected
    assert encode(a, pa.array([str(v) for v in values])).tolist() == expected
    codes = list(range(a.size - 1)) * 20
    assert encode(a, pa.array(decoded(a, codes), pa.int64())).tolist() == codes
    # every value of a bin comes, and none beyond it
    lowest, highest = int(a.cuts[0]), int(a.cuts[-1])
    inside = [v for v in range(lowest, highest) if v not in (a.special_values or ())]
    for code in set(expected):
        mine = {v for v in inside if code_by_hand(a, v) == code} or {
            v for v in a.special_values or () if code_by_hand(a, v) == code
        }
        assert set(decoded(a, [code] * 2000)) == mine


@pytest.mark.parametrize(
    ("kind", "edges", "specials", "values"),
    [
        ("number", [0, 1.5, 10], [0, 3.25, -1], [0.0, 0.7, 1.5, 3.25, 9.9, -1.0, None]),
        ("date", ["2020-01-01", "2021-01-01"], ["2020-01-01", "9999-12-31"],
         [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2), datetime.date(9999, 12, 31), None]),
        ("datetime", ["2020-01-01", "2021-01-01"], ["2020-05-01T12:00:00"],
         [datetime.datetime(2020, 5, 1, 12), datetime.datetime(2020, 5, 1, 13), None]),
    ],
)  # fmt: skip
def test_special_values_come_back_exactly(
    kind: str, edges: list[Any], specials: list[Any], values: list[Any]
) -> None:
    a = attribute(kind, edges, specials)
    codes = encode(a, pa.array(values, own_type(a))).tolist()
    assert codes == encode(a, pa.array([None if v is None else str(v) for v in values])).tolist()
    back = decoded(a, codes)
    listed = {labels_of(a)[c] for c in a.special_codes}
    for value, code, made in zip(values, codes, back, strict=True):
        if value is None or code in a.special_codes.tolist():
            assert made == value
        else:
            assert made != value and encode(a, pa.array([made])).tolist() == [code]
    assert len(listed) == len(specials)
    assert sum(c in a.special_codes for c in codes) == len(specials)


def test_a_number_column_with_sentinels_is_text_and_keeps_both() -> None:
    a = attribute("integer", [0, 10, 20], [5, "N", "?"])
    column = pa.array(["3", "5", "12", "N", "?", "", "junk", "99"])
    codes = encode(a, column).tolist()
    assert codes == [0, 1, 2, 3, 4, 5, 5, 2]  # unreadable is null, never a bin
    back = decoded(a, codes)
    assert back[1] == "5" and back[3:7] == ["N", "?", None, None]
    assert 0 <= int(back[0]) < 10 and 10 <= int(back[2]) <= 20
    assert labels_of(a) == ("0..9", 5, "10..20", "N", "?", None)


def test_other_takes_what_is_unreadable_where_there_is_no_null() -> None:
    for other, code in ((5, 1), ("N", 3), (15, 2), (7, 0)):
        a = attribute("integer", [0, 10, 20], [5, "N"], other=other, constraints={"required": True})
        assert encode(a, pa.array(["junk", None])).tolist() == [code, code]


@pytest.mark.parametrize("arrow", [pa.float64(), pa.float32(), pa.decimal128(10, 2), pa.string()])
def test_decimals_hold_in_every_type(arrow: pa.DataType) -> None:
    a = attribute("number", [0, 1, 3], [0.5], decimals=1, constraints={"required": True})
    made = [float(v) for v in decoded(a, [0] * 500 + [2] * 500, arrow)]
    shown = {round(v, 6) for v in made[:500]}
    assert shown == {0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9}
    assert {round(v, 6) for v in made[500:]} == {round(1 + i / 10, 1) for i in range(21)}
    if arrow == pa.float64():
        assert all(repr(v) == f"{v:.1f}" for v in made)  # 0.3, not 0.30000000000000004


def test_a_resolution_is_kept_and_special_moments_are_not_drawn() -> None:
    days, special = ["2020-01-01", "2020-01-02"], ["2020-01-01T05:00:00"]
    a = attribute("datetime", days, special, resolution="hour", constraints={"required": True})
    made = decoded(a, [0] * 2000)
    assert {m.hour for m in made} == set(range(24)) - {5}
    assert all((m.minute, m.second, m.microsecond) == (0, 0, 0) for m in made)
    texts = decoded(a, [0, 1], pa.string())  # seen to fail: 05:00:00.000000
    assert texts[1] == "2020-01-01 05:00:00" and texts[0].endswith(":00:00")


def test_a_bin_too_narrow_for_its_decimals_still_gives_a_value_of_its_own() -> None:
    a = attribute("number", [0.11, 0.12, 5], [], decimals=0, constraints={"required": True})
    assert set(decoded(a, [1] * 200)) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert len(set(decoded(a, [0] * 5))) == 1


def test_listed_dates_are_categories() -> None:
    a = Attribute(name="x", type="date", categories=("2020-01-01", "2021-06-30"))
    column = pa.array(["2021-06-30", "2020-01-01", "2020-01-02", None])
    assert encode(a, column).tolist() == [1, 0, 2, 2]
    assert decoded(a, [0, 1, 2]) == [datetime.date(2020, 1, 1), datetime.date(2021, 6, 30), None]
