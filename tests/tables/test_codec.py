"""Values come back as they came, and no value of a private table can make encoding fail."""

from __future__ import annotations

import datetime
import decimal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from factored_mwem.answers.query import Compare
from factored_mwem.answers.restriction import share_of_codes
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.tables.backends.codes import encode_table
from factored_mwem.tables.codes.codec import check_type, code_dtype, encode, fit_columns
from factored_mwem.tables.codes.decode import OWN_TYPE, decode
from factored_mwem.tables.inputs.source import open_table


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """A warning of numpy on the user's screen would quote private values."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def attribute(
    kind: str = "string", *, required: bool = False, ends: tuple[Any, Any] | None = None, **more: Any
) -> Attribute:
    bounds = {"minimum": ends[0], "maximum": ends[1]} if ends else {}
    return Attribute.model_validate(
        {"name": "x", "type": kind, "constraints": {"required": required, **bounds}, **more}
    )


def drawn(what: Attribute, codes: Any, arrow: pa.DataType, **more: Any) -> pa.Array:
    """Values drawn for the codes."""
    return decode(what, np.asarray(codes), pa.field("x", arrow, **more), np.random.default_rng(0))


SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float32(), pa.float64()]
DECIMALS = [pa.decimal128(5, 0), pa.decimal128(10, 2), pa.decimal256(50, 4)]
TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint32(), pa.large_string()),
]
MOMENTS = [
    pa.timestamp(unit, tz=zone)
    for unit in ("s", "ms", "us", "ns")
    for zone in (None, "UTC", "Europe/Berlin", "-05:30")
]
ROUND_TRIPS: list[tuple[Attribute, list[pa.DataType]]] = [
    (attribute(categories=["0311", "311", "\uff11", " "]), TEXTS),
    (attribute(categories=["", "a"]), TEXTS),  # a listed empty string is a value, not a null
    (attribute("boolean"), [pa.bool_(), *SIGNED, *TEXTS]),
    (
        attribute("integer", ends=(0, 99)),
        [*SIGNED, *UNSIGNED, *FLOATS, *DECIMALS, pa.string(), pa.string_view()],
    ),
    (attribute("integer", ends=(-3, 99), bins=7), [*SIGNED, *FLOATS, *DECIMALS, pa.large_string()]),
    (attribute("integer", ends=(0, 1)), [pa.bool_()]),
    (attribute("integer", ends=(-(2**61), 2**61)), [pa.int64(), pa.string()]),
    (attribute("integer", categories=[1, 2, 50]), [*SIGNED, *UNSIGNED, *FLOATS, *DECIMALS, *TEXTS]),
    (attribute("integer", categories=[2**53, 2**53 + 1, 2**53 + 2]), [pa.int64(), pa.uint64(), pa.string()]),
    (
        attribute("number", ends=(0, 99.5)),
        [*SIGNED, *UNSIGNED, *FLOATS, pa.decimal128(10, 3), pa.string(), pa.string_view()],
    ),
    (attribute("number", edges=[0, 5e-324, 1, 2]), [*FLOATS, pa.string()]),
    (attribute("number", ends=(-1e300, 1e300)), [pa.float64(), pa.string()]),
    (attribute("number", ends=(1.0, 1.0000001), bins=5), [pa.float64()]),
    (attribute("number", ends=(0.0, 1e-320), bins=5), [pa.float64()]),
    (attribute("number", categories=[0.1, 1, 2.5]), [*FLOATS, pa.decimal128(10, 2), *TEXTS]),
    (attribute("date", ends=("1900-01-01", "2020-12-31")), [pa.date32(), pa.date64(), *MOMENTS, pa.string()]),
    (
        attribute("date", ends=("0001-01-01", "9999-12-31")),
        [pa.date32(), pa.timestamp("us"), pa.timestamp("s"), pa.string()],
    ),
    (
        attribute("date", ends=("1900-01-01", "2020-12-31"), format="%d/%m/%Y"),
        [pa.date32(), pa.string(), pa.large_string()],
    ),
    (attribute("datetime", ends=("1900-01-01", "2020-12-31")), [*MOMENTS, pa.string()]),
    (
        attribute("datetime", ends=("0001-01-01", "9999-12-31")),
        [pa.timestamp("us"), pa.timestamp("ms", tz="UTC")],
    ),
]


@pytest.mark.parametrize(("what", "arrow"), [(a, t) for a, types in ROUND_TRIPS for t in types], ids=str)
def test_decoded_values_encode_to_the_same_codes(what: Attribute, arrow: pa.DataType) -> None:
    check_type(what, arrow)
    rng = np.random.default_rng(1)
    codes = rng.integers(0, what.size, 500)
    values = decode(what, codes, pa.field("x", arrow), rng)
    assert values.type == arrow
    assert values.null_count == (codes == what.null_code).sum()  # nulls in proportion
    back = encode(what, values)
    assert back.tolist() == codes.tolist()
    assert back.dtype == code_dtype(what)


@pytest.mark.parametrize(
    ("what", "arrow"),
    [
        (attribute("integer", ends=(0, 300)), pa.int8()),
        (attribute("integer", ends=(-1, 3)), pa.uint64()),
        (attribute("integer", ends=(0, 99)), pa.bool_()),
        (attribute("integer", ends=(0, 2**60)), pa.float64()),  # a float cannot give every integer back
        (attribute("number", categories=[0.5, 2.5]), pa.int64()),
        (attribute("number", categories=[0.5, 2.5]), pa.decimal128(5, 0)),
        (attribute("number", ends=(0, 1e300)), pa.float32()),
        (attribute("integer", categories=list(range(200))), pa.dictionary(pa.int8(), pa.int64())),
        (attribute("datetime", ends=("0001-01-01", "9999-12-31")), pa.timestamp("ns")),
        (attribute("date", ends=("0001-01-01", "9999-12-31")), pa.timestamp("ns", tz="UTC")),
        (attribute("integer", ends=(0, 99)), pa.date32()),
        (attribute("date", ends=("2000-01-01", "2000-01-09")), pa.int64()),
        (attribute(categories=["a"]), pa.int64()),
        (attribute(categories=["a"]), pa.null()),
        (attribute("boolean"), pa.float64()),
        (attribute("datetime", ends=("2000-01-01", "2000-01-09")), pa.time64("us")),
    ],
    ids=str,
)
def test_types_that_cannot_hold_the_domain_are_refused_first(what: Attribute, arrow: pa.DataType) -> None:
    with pytest.raises(InputError, match=r"column 'x'.*correct the domain"):
        check_type(what, arrow)


NASTY = [
    *("9" * 18, "9" * 19, "9" * 400, "-" + "9" * 18, "-" + "9" * 30, "1" * 10_000, "x" * 10_000),
    *("0" * 290 + "." + "0" * 299 + "1", "9" * 300 + "e999", "1e999", "-1e999", "1e-999", "1.8e308"),
    *("4.9e-324", "nan", "inf", "-inf", "Infinity", "-", "+", "++5", "+-5", ".", "5.", "e5", "1e", "1e+"),
    *("", " ", "\t", "\x00", "1\x00", "5\n", "\n5", "\u00a05", "\u0663", "\uff11", "12\u0663", "1_000"),
    *("1,000", "1.5.2", "--1", "0x10", "\U0001f600", "\u0130", "'; DROP TABLE x; --", "2020-01-01 +01:00"),
    *("2020-13-45", "2020-02-31", "0000-00-00", "0000-01-01", "0001-01-01", "9999-12-31", "2020-1-1"),
    *("9999-12-31T99:99:99", "2020-01-01T24:00:60", "2020-01-01T", "2020-01-01T00:00:00.1234567891"),
    *("2020-01-01T00:00:00+99:99", "2020-01-01T00:00:00-99:99", "9999-12-31T23:59:59.999999999Z"),
    *("0001-01-01T00:00:00+14:00", "292277-01-01", "1677-09-21T00:12:43", "2262-04-11T23:47:17"),
    *("\u0662\u0660\u0662\u0660-01-01", "24:00:60", "true", "TRUE", "yes", "\u017f", "0311", "NULL"),
    *("NA", '"'),
]
EVERY_KIND = [
    attribute(categories=["a", "b", "\uff11"], other="b"),
    attribute(categories=["a", "b"], required=True),
    attribute("boolean"),
    attribute("boolean", required=True, categories=[True]),
    attribute("integer", ends=(0, 99)),
    attribute("integer", ends=(-(2**61), 2**61), required=True),
    attribute("integer", categories=[1, 2, 10**17 + 1]),
    attribute("number", ends=(0, 1)),
    attribute("number", ends=(-1e300, 1e300), required=True),
    attribute("number", categories=[0.5, 1, 2.5], required=True),
    attribute("date", ends=("0001-01-01", "9999-12-31")),
    attribute("date", ends=("2000-01-01", "2020-12-31"), required=True, format="%d/%m/%Y"),
    attribute("datetime", ends=("0001-01-01", "9999-12-31")),
    attribute("datetime", ends=("2000-01-01", "2020-12-31"), required=True, format="%Y-%m-%d %H:%M:%S"),
]


@pytest.mark.parametrize("what", EVERY_KIND, ids=lambda a: f"{a.type}-{a.size}")
def test_no_text_makes_encoding_fail(what: Attribute) -> None:
    for arrow in (pa.string(), pa.large_string(), pa.string_view()):
        codes = encode(what, pa.array([*NASTY, None], arrow))
        assert len(codes) == len(NASTY) + 1
        assert codes.max() < what.size
    alone = [int(encode(what, pa.array([text], pa.string()))[0]) for text in NASTY]
    assert alone == encode(what, pa.array(NASTY)).tolist()  # a value's code depends on nothing but the value
    assert encode(what, pa.array(NASTY).dictionary_encode()).tolist() == alone
    assert encode(what, pa.array([], pa.string())).tolist() == []


def _extreme_columns() -> Iterator[pa.Array]:
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        yield pa.array([np.iinfo(name).min, np.iinfo(name).max, 0, None], getattr(pa, name)())
    nan, inf = float("nan"), float("inf")
    yield pa.array([nan, inf, -inf, -0.0, 5e-324, 1.7e308, -1.7e308, 2.0**62, 2.0**63, None])
    yield pa.array([nan, 3e38, -3e38, inf, None], pa.float32())
    yield pa.array([decimal.Decimal("9" * 36), decimal.Decimal("-1.5"), None], pa.decimal128(38, 1))
    yield pa.array([decimal.Decimal("9" * 70), None], pa.decimal256(76, 0))
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "Europe/Berlin"):
            ends = pa.array([-(2**63), -(2**63) + 1, 2**63 - 1, 0, None], pa.int64())
            yield ends.cast(pa.timestamp(unit, tz=zone))
    yield pa.array([-(2**31), 2**31 - 1, 0, None], pa.int32()).cast(pa.date32())
    yield pa.array([-(2**63), 2**63 - 1, 0, None], pa.int64()).view(pa.date64())


@pytest.mark.parametrize("what", EVERY_KIND[2:], ids=lambda a: f"{a.type}-{a.size}")
def test_no_extreme_of_a_typed_column_makes_encoding_fail(what: Attribute) -> None:
    temporal = what.type in ("date", "datetime")
    for column in _extreme_columns():
        if temporal == pa.types.is_temporal(column.type):
            assert encode(what, column).max() < what.size
            assert encode(what, column.dictionary_encode()).tolist() == encode(what, column).tolist()


def _dictionaries(values: pa.Array, rng: np.random.Generator) -> Iterator[pa.DictionaryArray]:
    """Columns of more rows than the dictionary has values, which holds nulls and repeats; a slice of one."""
    twice = pa.concat_arrays([values, pa.nulls(1, values.type), values])
    for index in (pa.int8(), pa.uint16(), pa.int64()):
        kept = twice.take(pa.array(rng.permutation(len(twice))[:128]))
        places = rng.integers(0, len(kept), 3 * len(kept) + 5)
        indices = pa.array(places, index, mask=rng.random(len(places)) < 0.2)
        whole = pa.DictionaryArray.from_arrays(indices, kept)
        yield from (whole, whole.slice(3, len(kept) + 9))


@pytest.mark.parametrize("what", EVERY_KIND, ids=lambda a: f"{a.type}-{a.size}")
def test_a_dictionary_is_encoded_bit_for_bit_as_its_rows(what: Attribute) -> None:
    """Each value is mapped once, then looked up. Seen to fail with the nulls' code left at the fallback, with
    indices of 8 bits filled beyond what they hold, and with the slice's offset forgotten.
    """
    rng, temporal = np.random.default_rng(5), what.type in ("date", "datetime")
    texts = pa.array([*NASTY, *map(str, what.values if what.categorical else ())], pa.string())
    filled = pa.array([f"filler {i}" for i in range(128)])  # with repeats, more than int8 has places
    typed = [c for c in _extreme_columns() if temporal == pa.types.is_temporal(c.type)]
    for values in (texts, filled, *([] if what.type in ("string", "boolean") else typed)):
        for column in _dictionaries(values, rng):
            found, rows = encode(what, column), encode(what, column.dictionary.take(column.indices))
            assert found.dtype == rows.dtype and found.tolist() == rows.tolist()


@pytest.mark.parametrize(("ends", "bins"), [((0, 99), None), ((-5, 2), 8), ((7, 7), 1), ((0, 8000), 13)])
def test_bins_that_are_looked_up_are_those_that_are_searched(ends: tuple[int, int], bins: int | None) -> None:
    """Many rows take a table of bins, few do not. Seen to fail with a table that begins a unit late."""
    what = attribute("integer", ends=ends, bins=bins)
    near = np.random.default_rng(1).integers(ends[0] - 9, ends[1] + 9, 10_000)
    far = [-(2**63), 2**63 - 1, -(2**62), ends[0] - 1, *ends, ends[1] + 1]
    column = pa.array(np.concatenate([near, far]), pa.int64())
    few = [encode(what, column.slice(at, 1000)) for at in range(0, len(column), 1000)]
    assert encode(what, column).tolist() == np.concatenate(few).tolist()


def test_values_out_of_range_are_clipped() -> None:
    small = attribute("integer", ends=(10, 12))
    assert encode(small, pa.array([-(2**63), 9, 10, 12, 13, 2**63 - 1])).tolist() == [0, 0, 0, 2, 2, 2]
    assert encode(small, pa.array([2**64 - 1], pa.uint64())).tolist() == [2]
    assert encode(small, pa.array(["-1e99", "9" * 30, "11.9", "+11"])).tolist() == [0, 2, 1, 1]
    unit = attribute("number", ends=(0, 1), bins=4)
    assert encode(unit, pa.array([-float("inf"), -1.0, 0.25, 1.0, float("inf")])).tolist() == [0, 0, 1, 3, 3]
    day = attribute("date", ends=("2020-01-01", "2020-01-03"))
    for unit_name in ("s", "ms", "us"):  # a cast to microseconds would wrap the far future around to the past
        far = pa.array([-(2**63) + 1, 2**63 - 1], pa.int64()).cast(pa.timestamp(unit_name))
        assert encode(day, far).tolist() == [0, 2]
    assert encode(day, pa.array([-(2**31), 2**31 - 1], pa.int32()).cast(pa.date32())).tolist() == [0, 2]


def test_the_fixed_rule_for_what_cannot_be_read_listed_or_null() -> None:
    bad = pa.array(["zzz", None, ""])
    assert encode(attribute(categories=["a", "rest"], other="rest"), bad).tolist() == [1, 2, 2]
    assert encode(attribute(categories=["a", "b"]), bad).tolist() == [2, 2, 2]
    assert encode(attribute(categories=["b", "a"], required=True), bad).tolist() == [0, 0, 0]
    assert encode(attribute(categories=["a", "rest"], other="rest", required=True), bad).tolist() == [1, 1, 1]
    assert encode(attribute("integer", ends=(5, 9)), bad).tolist() == [5, 5, 5]
    assert encode(attribute("integer", ends=(5, 9), required=True), bad).tolist() == [0, 0, 0]
    day = attribute("date", ends=("2020-01-01", "2020-01-02"), required=True)
    assert encode(day, pa.array(["2020-02-31"])).tolist() == [0]


def test_missing_values_and_white_space() -> None:
    numbers = attribute("integer", ends=(0, 9), missingValues=["?", "-1"])
    assert encode(numbers, pa.array(["?", "-1", "", " 3 ", "3"])).tolist() == [10, 10, 10, 3, 3]
    words = attribute(categories=["a"], missingValues=["NA"])
    assert encode(words, pa.array(["NA", "", " a", "a"])).tolist() == [1, 1, 1, 0]
    # Namibia is a country here, because it is listed
    listed = attribute(categories=["NA", "ZA"], missingValues=["", "NA"])
    assert encode(listed, pa.array(["NA", "ZA", ""])).tolist() == [0, 1, 2]


def test_leading_zeros_survive() -> None:
    codes = attribute(categories=["0311", "311"], required=True)
    assert drawn(codes, [0, 1], pa.string()).to_pylist() == ["0311", "311"]
    assert encode(codes, pa.array(["0311", "311"])).tolist() == [0, 1]


def test_moments_are_read_in_utc() -> None:
    hours = attribute("datetime", ends=("2020-01-01", "2020-01-01T23:59:59.999999"), bins=24)
    texts = ["2020-01-01T05:30", "2020-01-01 05:30:00", "2020-01-01T07:30:00+02:00"]
    texts += ["2020-01-01T00:30-0500", "2020-01-01T05:59:59.999999999Z"]
    assert encode(hours, pa.array(texts)).tolist() == [5] * 5
    moment = datetime.datetime(2020, 1, 1, 5, 30, tzinfo=datetime.UTC)
    assert encode(hours, pa.array([moment], pa.timestamp("ns", tz="Europe/Berlin"))).tolist() == [5]
    before = pa.array([-1], pa.int64()).cast(pa.timestamp("ns"))  # a nanosecond before 1970 is a day before
    assert encode(attribute("date", ends=("1969-12-30", "1970-01-01"), required=True), before).tolist() == [1]


def test_a_null_is_drawn_only_where_the_attribute_is_nullable() -> None:
    required = attribute("integer", ends=(0, 4), required=True)
    assert drawn(required, np.repeat(np.arange(5), 100), pa.int64(), nullable=False).null_count == 0


def test_floats_are_drawn_all_over_their_bin() -> None:
    """The bin's midpoint or edge would be a code in disguise."""
    number = attribute("number", ends=(10, 20), bins=2, required=True)
    found = drawn(number, [1] * 4000, pa.float64()).to_numpy()
    assert found.min() >= 15 and found.max() <= 20
    assert len(np.unique(found)) == 4000
    counts = np.histogram(found, bins=10, range=(15, 20))[0]
    assert np.abs(counts - 400).max() < 120  # six standard deviations


WHOLE = attribute("integer", ends=(0, 9), bins=2, required=True)


@pytest.mark.parametrize(
    ("what", "code", "arrow", "values"),
    [
        *((WHOLE, 0, arrow, range(5)) for arrow in (pa.int32(), pa.float64(), pa.decimal128(10, 0))),
        # rounding down would give most of the mass of the bin [3.1, 6.2) to the bin before it
        (attribute("number", edges=[0, 3.1, 6.2], required=True), 1, pa.int64(), range(4, 7)),
    ],
    ids=str,
)
def test_whole_numbers_fill_their_bin(what: Attribute, code: int, arrow: pa.DataType, values: range) -> None:
    found = drawn(what, [code] * 1000 * len(values), arrow).to_pylist()
    counts = np.bincount(np.array(found, dtype=np.int64), minlength=values.stop)
    assert len(counts) == values.stop and not counts[: values.start].any()
    assert np.abs(counts[values.start :] - 1000).max() < 175


def test_rounded_integers_are_multiples_where_their_bin_holds_one() -> None:
    """Seen to fail: a bin without a multiple gave its begin, a special value, in every row."""
    what = Attribute(
        name="income",
        type="integer",
        edges=(-150, 50, 110, 190, 1000),
        specialValues=(100, 110),
        multipleOf=100,
        constraints={"required": True},
    )
    values = [set(drawn(what, np.full(4000, code), pa.int64()).to_pylist()) for code in what.bin_codes]
    assert values[0] == {-100, 0} and values[1] == set(range(50, 110)) - {100}
    assert values[2] == set(range(111, 190)) and values[3] == set(range(200, 1001, 100))
    for code, some in zip(what.bin_codes.tolist(), values, strict=True):
        assert set(encode(what, pa.array(sorted(some))).tolist()) == {code}
    with pytest.raises(ValueError, match="multipleOf only if it is of type integer"):
        Attribute(name="x", type="number", edges=(0, 1), multipleOf=10)


def test_the_bin_of_zero_gives_zero() -> None:
    zero = attribute("number", edges=[0, 5e-324, 1], required=True)
    for arrow in FLOATS:
        assert set(drawn(zero, [0] * 100, arrow).to_pylist()) == {0.0}
    assert encode(zero, pa.array([0.0, -0.0, 5e-324, 0.5])).tolist() == [0, 0, 1, 1]
    assert encode(attribute("number", categories=[0.0, 1.0]), pa.array([-0.0, 1.0])).tolist() == [0, 1]


def test_decoded_extremes_stay_inside_the_bounds() -> None:
    for low, high in ((-1e300, 1e300), (1.0, 1.0000001), (0.0, 1e-320), (0.1, 0.3)):
        number = attribute("number", ends=(low, high), bins=3, required=True)
        found = drawn(number, [0, 1, 2] * 1700, pa.float64()).to_numpy()
        assert np.isfinite(found).all() and low <= found.min() and found.max() <= high
    # rounding 99.996 to cents would need a fifth digit
    top = attribute("number", ends=(0, 99.999), bins=1, required=True)
    assert pc.max(drawn(top, [0] * 20_000, pa.decimal128(4, 2))).as_py() <= decimal.Decimal("99.99")


def test_dictionaries_of_drawn_values_get_room() -> None:
    """A pandas categorical of 3 integers has an int8 index; 32 bins of a thousand values do not fit it."""
    number, text = (pa.dictionary(pa.int8(), kind) for kind in (pa.int64(), pa.string_view()))
    columns = {"x": pa.array([1, 2, 3]), "c": pa.array(["a", "b", "a"])}
    table = pa.table({name: c.dictionary_encode() for name, c in columns.items()})
    table = table.cast(pa.schema({"x": number, "c": text}))
    wide = Domain([attribute("integer", ends=(0, 999)), Attribute(name="c", categories=("a", "b"))])
    domain, schema = fit_columns(wide, open_table(table), None)
    rng = np.random.default_rng(0)
    found = decode(domain["x"], rng.integers(0, domain["x"].size, 5000), schema.field("x"), rng)
    assert len(found.dictionary) > 128
    first, second = (decode(domain["c"], np.array(c), schema.field("c"), rng) for c in ([0, 0], [1, 2]))
    assert first.dictionary.equals(second.dictionary)  # an Arrow file has room for one dictionary a column
    assert second.to_pylist() == ["b", None]


def test_text_dates_keep_their_format() -> None:
    day = attribute("date", ends=("2020-12-31", "2020-12-31"), format="%d/%m/%Y", required=True)
    assert drawn(day, [0], pa.string()).to_pylist() == ["31/12/2020"]
    days = attribute("date", ends=("2020-12-30", "2020-12-31"), format="%d/%m/%Y")
    cells = ["31/12/2020", "2020-12-31", "31/02/2020"]  # the last, seen to fail: it was 2 March
    assert encode(days, pa.array(cells)).tolist() == [1, 1, 2]


def test_columns_are_fitted_by_name_and_type_in_the_table_s_order(tmp_path: Path) -> None:
    day = attribute("date", ends=("2020-01-01", "2020-01-02"), required=True)
    domain = Domain([Attribute(name="b", type="boolean"), day.model_copy(update={"name": "a"})])
    (tmp_path / "t.csv").write_text("a,b\nsecret,secret\n")
    table = open_table(tmp_path / "t.csv")
    fitted, schema = fit_columns(domain, table, None)
    assert fitted.names == ("a", "b")
    assert schema == pa.schema([pa.field("a", OWN_TYPE["date"], nullable=False), pa.field("b", pa.bool_())])
    assert [codes.tolist() for codes in encode_table(fitted, table).columns] == [[0], [2]]
    assert fit_columns(domain, table, ["b"])[0].names == ("b",)
    with pytest.raises(InputError, match="no column 'z' in the table; it has a, b"):
        fit_columns(domain, table, ["z"])
    with pytest.raises(InputError, match="column 'a' is not in the domain"):
        fit_columns(domain.project(["b"]), table, None)
    (tmp_path / "one.csv").write_text("a\n2020-01-01\n")
    with pytest.raises(InputError, match="the domain names 'b', but the table has no such column"):
        fit_columns(domain, open_table(tmp_path / "one.csv"), None)


def test_codes_take_the_smallest_type() -> None:
    tops = (2**8, 2**8 + 1, 2**16, 2**16 + 1)
    found = [code_dtype(attribute("integer", ends=(0, top - 2), bins=top - 1)) for top in tops]
    assert found == [np.uint8, np.uint16, np.uint16, np.uint32]


def test_bins_are_drawn_from_their_values_by_weight() -> None:
    """The first bin from two values, the second evenly; and what is asked of it counts those alone."""
    attribute = Attribute(
        name="x",
        type="number",
        decimals=1,
        edges=(0, 10, 19.9),
        binValues=(2.5, 7.5),
        binWeights=(3, 1),
        constraints={"required": True},
    )
    codes = np.repeat([0, 1], 4000)
    drawn = decode(attribute, codes, pa.field("x", pa.float64()), np.random.default_rng(1)).to_numpy()
    assert set(drawn[:4000]) == {2.5, 7.5} and abs((drawn[:4000] == 2.5).mean() - 0.75) < 0.03
    assert len(set(drawn[4000:])) == 100 and drawn[4000:].min() >= 10
    assert share_of_codes(attribute, [Compare("x", "<", 7)]).tolist() == [0.75, 0.0]


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"binValues": (2,), "binWeights": (1, 2)}, "as many binWeights"),
        ({"binValues": (2,)}, "as many binWeights"),
        ({"binValues": (2,), "binWeights": (0,)}, "as many binWeights"),
        ({"binValues": (11,), "binWeights": (1,)}, "in none of its bins"),
        ({"binValues": (2,), "binWeights": (1,), "specialValues": (2,)}, "is a special value"),
        ({"binValues": (2, 2), "binWeights": (1, 1)}, "twice"),
    ],
)
def test_bin_values_that_cannot_be_are_refused(facts: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Attribute.model_validate({"name": "x", "type": "integer", "edges": (0, 10), **facts})
