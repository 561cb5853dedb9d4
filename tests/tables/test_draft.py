"""Drafts: what is listed, what is binned, and what comes back of a column that is but encoded and decoded."""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem import release
from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.dialect import Dialect
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.rules import Lookup, in_words
from factored_mwem.owner.draft import draft
from factored_mwem.owner.questions import EMPTY, IDENTIFIER, NUMBERED
from factored_mwem.tables.backends.codes import encode_table
from factored_mwem.tables.codes.codec import fit_columns
from factored_mwem.tables.codes.decode import decode
from factored_mwem.tables.codes.drafted import MAX_CATEGORIES
from factored_mwem.tables.inputs.source import open_table

RNG = np.random.default_rng(7)


def drafted(values: Any, arrow: pa.DataType | None = None) -> Attribute:
    """The draft of one column, as it is after a person took `draft` out of its file."""
    found = draft(pa.table({"x": pa.array(values, arrow)})).reviewed()
    assert Domain.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    return found["x"]


@pytest.fixture
def as_csv(tmp_path: Any) -> Callable[[Any], Attribute]:
    def of(values: Any) -> Attribute:
        path = tmp_path / "t.csv"
        path.write_text("\n".join(["x,k", *(f"{v},1" for v in values)]) + "\n")
        return draft(path).reviewed()["x"]

    return of


def back(values: Any, arrow: pa.DataType | None = None) -> tuple[Attribute, np.ndarray]:
    """(the draft, the column encoded and decoded by it)."""
    table = pa.table({"x": pa.array(values, arrow)})
    domain, schema = fit_columns(draft(table).reviewed(), open_table(table, "checked"), None)
    codes = encode_table(domain, open_table(table, "checked")).columns
    out = decode(domain["x"], codes[0], schema.field(0), np.random.default_rng(3))
    assert out.type == table.schema.field(0).type
    return domain["x"], out.to_numpy(zero_copy_only=False)


def ks(a: np.ndarray, b: np.ndarray) -> float:
    grid = np.unique(np.concatenate([a, b]))
    sides = [np.searchsorted(np.sort(x), grid, side="right") / len(x) for x in (a, b)]
    return float(np.abs(sides[0] - sides[1]).max())


# --- few values


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 9], "integer"),
        ([0.5, 1.25, 7.0], "number"),
        ([datetime.date(2020, 1, 1), datetime.date(2021, 5, 9)], "date"),
        ([datetime.datetime(2020, 1, 1, 3), datetime.datetime(2021, 5, 9)], "datetime"),
    ],
)
def test_few_values_are_categories_of_their_own_type(values: list[Any], kind: str) -> None:
    found = drafted(values * 5)
    assert (found.type, found.categories_ordered, found.nullable) == (kind, True, False)
    assert found.categories == tuple(v if kind in ("integer", "number") else v.isoformat() for v in values)
    once = drafted([*values * 5, values[-1] + (values[-1] - values[0])])
    assert once.categories is None  # one row's own value


def test_a_value_for_each_region_stays_that_value() -> None:
    constants = np.round(RNG.uniform(10, 60_000, 90), 1)  # too many to be few, but every one of them popular
    values = RNG.choice(constants, 20_000)
    found, out = back(values)
    assert set(found.categories or ()) == set(constants.tolist()) and (out == values).all()


def test_whole_numbers_in_a_row_have_a_bin_each_and_a_sentinel_far_away_its_own_code() -> None:
    ages = [*RNG.integers(0, 95, 5000).tolist(), *[999] * 100]
    found = drafted(ages)
    assert (found.constraints.minimum, found.constraints.maximum) == (0, 94)
    assert found.special_values == (999,) and found.size == 96 and found.edges is None


# --- numbers and moments


def test_zeros_and_spikes_come_back_as_often_as_they_were() -> None:
    gains = np.zeros(48_000, np.int64)
    gains[:3000] = RNG.integers(100, 20_000, 3000)
    gains[3000:3400], gains[3400:3600] = 15_024, 99_999
    found, out = back(gains)
    assert {0, 15_024, 99_999} <= set(found.special_values or ())
    for value in (0, 15_024, 99_999):
        assert abs(np.mean(out == value) - np.mean(gains == value)) < 1e-3
    assert out.mean() == pytest.approx(gains.mean(), rel=0.01) and out.max() == 99_999
    assert ks(gains, out) < 0.005
    rest = gains[~np.isin(gains, found.specials)]
    assert found.edges is not None and (found.edges[0], found.edges[-1]) == (rest.min(), rest.max())


def test_the_shape_of_numbers_comes_back_tails_and_gaps_too() -> None:
    values = np.round(np.concatenate([np.exp(RNG.normal(9, 1.5, 30_000)), RNG.normal(-5e6, 10, 3000)]), 2)
    found, out = back(values)
    assert found.decimals == 2 and (np.round(out, 2) == out).all() and 128 < found.size < 256
    assert ks(values, out) < 0.005
    assert out.max() <= values.max() and out.mean() == pytest.approx(values.mean(), rel=0.01)
    for q in (0.0001, 0.001, 0.999, 0.9995):
        assert np.quantile(out, q) == pytest.approx(np.quantile(values, q), rel=0.1)
    assert not np.any((out > -4e6) & (out < -4e5))  # nobody was there


def test_no_spike_of_few_rows_is_listed() -> None:
    values = [*RNG.normal(0, 1, 300).round(6).tolist(), *[5.123456] * 9]
    assert drafted(values).special_values is None
    assert drafted([*values, 5.123456]).special_values == (5.123456,)


def test_bins_are_few_where_rows_are() -> None:
    assert drafted(RNG.normal(0, 1, 300).tolist()).size < 60


def test_decimals_and_resolution_are_as_seen(as_csv: Callable[[Any], Attribute]) -> None:
    rates = np.round(RNG.random(3000), 2)
    found = as_csv(rates)
    assert (found.type, found.decimals, found.size) == ("number", 2, 101)  # one bin each
    assert found.edges is not None and found.edges[:3] == (0.0, 0.01, 0.02)
    begin = datetime.datetime(2026, 1, 1)
    minutes = [begin + datetime.timedelta(minutes=int(m)) for m in RNG.integers(0, 500_000, 3000)]
    found = as_csv(minutes)
    assert (found.type, found.resolution) == ("datetime", "minute")
    days = [m.date() for m in minutes]
    assert as_csv(days).type == "date"
    assert drafted([datetime.datetime.combine(d, datetime.time()) for d in days]).resolution == "day"
    assert drafted(RNG.random(100).tolist()).decimals is None


def test_float32_values_are_listed_as_people_write_them() -> None:
    found, out = back(np.array([0.1, 0.7] * 50, np.float32))
    assert found.categories == (0.1, 0.7) and out.tolist() == np.array([0.1, 0.7] * 50, np.float32).tolist()


@pytest.mark.parametrize("arrow", [pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(9, 2), pa.int64()])
def test_what_a_draft_lists_fits_the_type_of_its_column(arrow: pa.DataType) -> None:
    values = pa.array([*RNG.integers(0, 127, 500).tolist(), None], pa.int8()).cast(arrow)
    found, out = back(values, arrow)
    assert found.nullable and len(out) == len(values)


def test_popular_moments_are_special() -> None:
    days = [datetime.date(1900, 1, 1)] * 200
    days += [datetime.date(2020, 1, 1) + datetime.timedelta(int(i)) for i in RNG.integers(0, 2000, 3000)]
    found = drafted(days)
    assert found.special_values == ("1900-01-01",) and found.cuts[0] > -25_000
    assert found.edges is not None and sum(str(e).endswith("-01") for e in found.edges) > 10


# --- texts beside numbers


def test_texts_beside_numbers_are_special_values(as_csv: Callable[[Any], Attribute]) -> None:
    incomes = [*RNG.integers(0, 10**6, 3000).tolist(), *["N"] * 900, *["?"] * 20]
    found = as_csv(incomes)
    assert found.type == "integer" and found.sentinels == ("N", "?") and not found.nullable
    assert found.other == "N"  # never the lowest bin
    junk = as_csv([*incomes, "oops"])
    assert junk.sentinels == ("N", "?") and junk.nullable and "oops" not in json.dumps(junk.model_dump())
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(int(i)) for i in RNG.integers(0, 900, 2000)]
    assert as_csv([*days, *["unknown"] * 50]).sentinels == ("unknown",)


def test_few_codes_beside_texts_are_categories_of_text(as_csv: Callable[[Any], Attribute]) -> None:
    found = as_csv([*[1, 2] * 500, *["N"] * 300])
    assert (found.type, found.categories) == ("string", ("1", "2", "N"))


def test_codes_with_zeros_before_them_stay_text(as_csv: Callable[[Any], Attribute]) -> None:
    zips = [f"{z:05d}" for z in RNG.choice([311, 2139, 10_001, 94_105], 1000)]
    assert as_csv(zips).categories == ("00311", "02139", "10001", "94105")
    prefixes = [*["000"] * 50, *(str(v) for v in range(100, 160) for _ in range(20))]
    assert as_csv(prefixes).type == "string" and as_csv(prefixes).size == 61


# --- what is never listed


def test_rare_texts_become_other() -> None:
    values = [*["north"] * 50, *["south"] * 10, *["hamlet"] * 9]
    assert drafted(values).categories == ("north", "south", "other")
    assert drafted(values).other == "other"
    assert drafted(values[:60]).other is None


def test_no_more_than_the_most_frequent_texts_are_listed() -> None:
    found = drafted([f"v{i:03}" for i in range(250) for _ in range(10 + (i < 120))])
    assert found.size == MAX_CATEGORIES + 1 and found.other == "other"
    assert {f"v{i:03}" for i in range(120)} <= set(found.categories or ())


@pytest.mark.parametrize("often", [0, 400])
def test_names_are_never_listed(often: int) -> None:
    names = [f"person {i}" for i in range(1000)] + ["J. Smith"] * often
    found = draft(pa.table({"name": names, "id": [f"{i:06d}" for i in range(len(names))]}))
    for attribute in found:
        assert attribute.categories == ("other",)
        assert f"{attribute.name!r}: {IDENTIFIER}" in found.questions
    assert "person" not in json.dumps(found.to_dict()) and "Smith" not in json.dumps(found.to_dict())


def test_an_empty_column_is_no_identifier() -> None:
    found = draft(pa.table({"x": pa.nulls(99, pa.string()), "y": list(range(99))}))
    assert f"'x': {EMPTY}" in found.questions  # seen to fail: "nearly every value is its own"


def test_numbers_that_never_come_twice_are_flagged() -> None:
    def flagged(values: list[Any]) -> bool:
        return f"'x': {NUMBERED}" in draft(pa.table({"x": values})).questions

    assert flagged(list(range(10_000, 14_000)))
    assert not flagged([*range(10_000, 14_000)] * 2)
    assert not flagged(RNG.random(4000).tolist())  # a measurement


def test_what_all_rows_say_of_two_columns_is_proposed_as_rules() -> None:
    times = [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=7 * i) for i in range(400)]
    table = {
        "time": times,
        "hour": [t.hour for t in times],
        "nearly": [t.hour + (i == 399) for i, t in enumerate(times)],
        "copy": [t.hour for t in times],
    }
    rules = [rule.model_dump(by_alias=True, exclude_unset=True) for rule in draft(pa.table(table)).rules]
    assert rules == [
        {"compute": "copy", "as": "equal", "of": "hour"},
        {"compute": "hour", "as": "hour", "of": "time"},
    ]


def test_arithmetic_and_tables_that_all_rows_keep_are_proposed() -> None:
    rng = np.random.default_rng(0)
    price, number, celsius = (
        rng.integers(1, 90, 3000) / 4,
        rng.integers(1, 9, 3000),
        rng.integers(-90, 300, 3000),
    )
    start, end, state = rng.integers(0, 3, 3000), rng.integers(0, 7, 3000), rng.choice(5, 3000)
    table = {
        "price": price,
        "number": number,
        "cost": (price * number).round(2),
        "c": celsius / 10,
        "f": (celsius * 0.18 + 32).round(1),
        "start": [f"S{i}" for i in start],
        "end": [f"E{i}" for i in end],
        "far": start * end % 5 * 40,
        "nearly": start * end % 5 * 40 + (np.arange(3000) == 2999),
        "state": [f"T{i}" for i in state],
        "region": [["north", "south", "west"][i % 3] for i in state],
    }
    found = draft(pa.table(table))
    assert {in_words(rule) for rule in found.rules} == {  # type: ignore[arg-type]
        "'cost' is 'price' x 'number'",
        "'f' is 1.8 x 'c' + 32",
        "'far' follows from 'start' and 'end'",
        "'region' follows from 'state'",
    }
    (far,) = [rule for rule in found.rules if isinstance(rule, Lookup)]
    told = dict(far.map)
    for s, e in zip(start, end, strict=True):
        assert told.get((f"S{s}", f"E{e}"), far.otherwise) == s * e % 5 * 40
    assert Domain.from_dict(json.loads(json.dumps(found.to_dict()))).rules == found.rules


@pytest.mark.parametrize(("rare", "proposed"), [(300, False), (20, True)])
def test_no_table_is_proposed_of_a_column_whose_rare_values_are_many_rows(rare: int, proposed: bool) -> None:
    """They all become 'other', of which the table tells one value."""
    planes = [*(i % 5 for i in range(3000 - rare)), *range(5, rare + 5)]
    table = {"plane": [f"N{i}" for i in planes], "carrier": [["AA", "B6", "DL"][i % 3] for i in planes]}
    found = draft(pa.table(table))
    assert [rule.columns for rule in found.rules] == [("carrier", "plane")] * proposed
    assert found["plane"].other


def test_a_table_with_few_rows_for_its_values_is_not_proposed() -> None:
    rows = np.arange(300)
    table = {"a": rows % 20, "b": rows % 21, "c": (rows % 20) * (rows % 21) % 17}
    assert not draft(pa.table(table)).rules


@pytest.mark.parametrize("zeros", ["", ".0", ".00"])
def test_zeros_behind_a_point_are_seen(tmp_path: Any, zeros: str) -> None:
    rows = [f"{i % 70}{zeros},{'N' if i % 9 == 0 else i % 70}{zeros * bool(i % 9)}" for i in range(900)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    drafted = draft(tmp_path / "t.csv")
    assert drafted["x"].type == drafted["y"].type == ("number" if zeros else "integer")
    assert drafted["x"].zeros is None and drafted["y"].zeros == (len(zeros) - 1 if zeros else None)


# --- what a person must decide


@pytest.fixture
def asked(tmp_path: Any) -> Callable[[Any], str]:
    def of(values: list[Any]) -> str:
        """All that the draft of a file asks about a column alone, a line each."""
        lines = [["x", "k"], *([str(value), "ab"[i % 2]] for i, value in enumerate(values * 20))]
        with open(tmp_path / "t.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(lines)
        return "\n".join(q for q in draft(tmp_path / "t.csv").questions if q.startswith("'x': "))

    return of


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["2016/01/31 10:20:30", "2017/02/01 00:00:00"], "--date-format '%Y/%m/%d %H:%M:%S'"),
        (["31/12/2024", "01/02/2024"], "--date-format '%d/%m/%Y'"),
        (["12/31/24", "01/02/24"], "--date-format '%m/%d/%y' (years of two digits are read as 1969 to 2068)"),
        (["01.02.2024", "03.04.2024"], "--date-format '%d.%m.%Y' or '%m.%d.%Y'"),
        (["01-Feb-2024", "03-Mar-2024"], "--date-format '%d-%b-%Y'"),
        (["1,23", "5,678"], "is read as 0,0: say --decimal . if the comma stands between thousands"),
        (["1,234", "5,678"], "is read as #,##0: say --decimal , if the comma stands before decimals"),
        (["1'234.50 $", "7.00 $ "], "taken as text: to read it, write plain numbers, without $"),
        (["$ 1,234.50", "€ 7.00"], "taken as text: to read it, write plain numbers, without $ €"),
        (["yes", "unknown"], "'unknown' is taken as a value"),
        (["?", "unknown", "N" * 30], "each of '?', 'unknown' is taken as a value"),
        (["N" * 30, "N" * 30 + " "], f"'{'N' * 21}...', '{'N' * 21}...' differ only"),
        (["k.A.", "m"], "'k.A.' is taken as a value: if it means that nothing is known"),
        (["Non renseigné", "m"], "'Non renseigné' is taken as a value: if it means"),
        (["A1", "A1 "], "'A1', 'A1 ' differ only in blanks or capitals"),
        (["North", "NORTH"], "'NORTH', 'North' differ only in blanks or capitals"),
        ([f"name {i}" for i in range(60)], "lists 60 texts"),
        (["012", "345"], "is kept as text, for some of its numbers begin with a zero"),
        ([7], "is 7 in every row"),
        ([1, 2, 5], "'1', '2', '5' are taken as values in this order"),
        ([*range(20, 900, 7), -1], "-1 is taken as a number"),
        ([*range(20, 900, 7), 99999], "99999 is taken as a number"),
        ([*range(20, 900), "N"], "'N' beside its numbers is taken as a value"),
        ([*range(20, 900)], "goes from 20 to 899"),
    ],
)
def test_a_draft_asks_about_what_it_assumed(
    asked: Callable[[Any], str], values: list[Any], words: str
) -> None:
    assert words in asked(values)


def test_years_of_two_digits_are_asked_about_and_warned_of(tmp_path: Any) -> None:
    """Births of 1950 to 1968 are read as 2050 to 2068: strptime's rule, which nobody sees in the rows."""
    days = [f"3/{i % 28 + 1}/{i % 50 + 50}" for i in range(400)]
    (tmp_path / "born.csv").write_text("\n".join(["born", *days]) + "\n")
    drafted = draft(tmp_path / "born.csv", dialect=Dialect.of(date_format="%m/%d/%y"))
    said = "'born': years of two digits are read as 1969 to 2068"
    assert drafted.questions[0].startswith(f"{said}, here up to 2068-03-23: where an earlier year is meant")
    made = release(tmp_path / "born.csv", 1, domain=drafted.reviewed(), epsilon=5.0)
    assert made.manifest.warnings == (f"{said}; an earlier one comes out a century late",)


@pytest.mark.parametrize(
    "values",
    [["red", "green"], [1, 2, 3], ["2024-01-31", "2024-02-01"], ["true", "false"]],
)
def test_a_draft_asks_nothing_where_nothing_is_in_doubt(
    asked: Callable[[Any], str], values: list[Any]
) -> None:
    assert asked(values) == ""


def test_what_is_most_urgent_comes_first_and_a_reviewed_domain_says_nothing_of_it(tmp_path: Any) -> None:
    rows = 2000
    lines = [
        f"{i % 997},{['yes', 'unknown'][i % 2]},{['31/12/2024', '30/11/2024'][i % 2]},person {i}"
        for i in range(rows)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["pay,reply,day,name", *lines]) + "\n")
    domain = draft(tmp_path / "t.csv")
    assert [q.split("'")[1] for q in domain.questions] == ["name", "day", "reply", "pay", "pay"]
    assert Domain.from_dict(domain.to_dict()).draft is not None
    assert domain.reviewed().questions == () and "questions" not in domain.reviewed().to_dict()
    left = {key: value for key, value in domain.to_dict().items() if key != "draft"}
    made = release(tmp_path / "t.csv", 1, domain=left, columns=["pay", "reply"], epsilon=5.0)
    assert [w for w in made.manifest.warnings if "still holds the questions of its draft" in w]
    assert "questions" not in made.manifest.domain
    assert domain.project(["pay"]).questions == domain.questions  # as of tables that belong together
