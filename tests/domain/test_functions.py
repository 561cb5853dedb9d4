"""Functions of one column: parts of times and of digits, against Python's own calendar and digits."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.functions import FUNCTIONS, applied, some_points
from factored_mwem.errors import InputError

BEGIN = datetime.datetime(1970, 1, 1)
OF_TIME = {
    "year": lambda t: t.year,
    "quarter": lambda t: (t.month + 2) // 3,
    "month": lambda t: t.month,
    "day": lambda t: t.day,
    "yearday": lambda t: t.timetuple().tm_yday,
    "weekday": lambda t: t.isoweekday(),
    "weekday from 0": lambda t: t.weekday(),
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
}
OF_NUMBER = {
    "tens": lambda x: x // 10,
    "hundreds": lambda x: x // 100,
    "thousands": lambda x: x // 1000,
    "below hundred": lambda x: x % 100,
}


def test_every_function_has_an_oracle() -> None:
    assert {*OF_TIME, *OF_NUMBER} == {*FUNCTIONS}


@given(st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)))
def test_parts_of_times_are_those_of_the_calendar(moment: datetime.datetime) -> None:
    micros = np.array([(moment - BEGIN) // datetime.timedelta(microseconds=1)])
    for name, oracle in OF_TIME.items():
        assert applied(name, "datetime", micros).tolist() == [oracle(moment)]
        if FUNCTIONS[name].of[0] != "datetime":
            days = np.array([(moment.date() - BEGIN.date()).days])
            assert applied(name, "date", days).tolist() == [oracle(moment)]


@given(st.integers(-(10**15), 10**15))
def test_digits_are_those_of_the_number(number: int) -> None:
    for name, oracle in OF_NUMBER.items():
        assert applied(name, "integer", np.array([number])).tolist() == [oracle(number)]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if FUNCTIONS[name].least is not None])
def test_values_lie_between_the_ends_and_reach_both(name: str) -> None:
    function = FUNCTIONS[name]
    units = np.arange(0, 4000 * 86_400, 1800) * 10**6 if "datetime" in function.of else np.arange(-500, 500)
    if name == "minute":
        units = np.arange(0, 7200) * 10**6
    values = applied(name, function.of[-1], units)
    assert (values.min(), values.max()) == (function.least, function.most)


ATTRIBUTES: list[dict[str, Any]] = [
    {"type": "integer", "edges": [0, 7, 100, 9000]},
    {"type": "integer", "edges": [0, 5, 100, 900], "multipleOf": 100, "specialValues": [0, 3]},
    {"type": "integer", "categories": [3, 1, 2]},
    {"type": "date", "edges": ["2020-01-01", "2020-01-02", "2021-03-01"]},
    {"type": "datetime", "resolution": "hour", "edges": ["2020-01-01", "2020-02-01", "2090-01-01"]},
    {"type": "datetime", "edges": ["2020-01-01", "2020-02-01"], "specialValues": ["2020-01-05T00:00:01"]},
]


@pytest.mark.parametrize("facts", ATTRIBUTES, ids=str)
@pytest.mark.parametrize("required", [True, False])
def test_points_are_values_of_their_code(facts: dict[str, Any], required: bool) -> None:
    from factored_mwem.tables.codes.codec import encode
    from factored_mwem.tables.codes.decode import from_units

    attribute = Attribute.model_validate({"name": "x", **facts, "constraints": {"required": required}})
    for shift in (0.0, 0.3):
        points = some_points(attribute, 512, shift)
        assert len(points) == attribute.size
        for code, units in enumerate(points):
            assert encode(attribute, from_units(attribute, units)).tolist() == [code] * len(units)
            assert (len(units) > 0) == (code != attribute.null_code)


def domain(*rules: dict[str, Any], **hour: Any) -> Domain:
    fields = [
        {"name": "t", "type": "datetime", "edges": ["2020-01-01", "2020-01-08", "2020-02-01"]},
        {"name": "copy", "type": "datetime", "edges": ["2020-01-01", "2020-01-08", "2020-02-01"]},
        {"name": "hour", "type": "integer", "categories": list(range(24)), **hour},
        {"name": "text", "categories": ["a", "b"]},
    ]
    return Domain.from_dict({"fields": fields, "rules": list(rules)})


HOUR, COPY = {"compute": "hour", "as": "hour", "of": "t"}, {"compute": "copy", "as": "equal", "of": "t"}


def test_a_copy_is_not_modelled_and_a_function_is() -> None:
    made = domain(HOUR, COPY)
    assert made.modelled.names == ("t", "hour", "text")
    root, codes = made.source_of("copy")
    assert root == "t" and codes.tolist() == [0, 1, 2]
    assert Domain.from_dict(made.to_dict()) == made


REFUSED = {
    "is none of": [{"compute": "hour", "as": "century", "of": "t"}],
    "give both the same values": [{"compute": "hour", "as": "equal", "of": "t"}],
    "must hold date or datetime values": [{"compute": "hour", "as": "month", "of": "text"}],
    "must hold whole numbers": [{"compute": "text", "as": "hour", "of": "t"}],
    "keep one of these rules": [HOUR, {"compute": "hour", "as": "hour", "of": "copy"}],
    "compute from that": [COPY, {"compute": "hour", "as": "hour", "of": "copy"}],
    "another rule computes": [HOUR, {"never": {"hour": 3, "text": "a"}}],
    "computes or computes from": [HOUR, {"order": ["t", "copy"]}],
    "names a column twice": [{"compute": "t", "as": "equal", "of": "t"}],
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_computed_is_refused_in_one_line(why: str) -> None:
    with pytest.raises(InputError, match=why) as raised:
        domain(*REFUSED[why])
    assert "\n" not in str(raised.value)


def test_a_column_without_a_value_of_the_function_is_refused() -> None:
    with pytest.raises(InputError, match="no value that is hour"):
        domain(HOUR, categories=[24, 25])
    with pytest.raises(InputError, match="null together"):
        domain(HOUR, constraints={"required": True})


def test_pairs_of_codes_that_no_value_has_are_ruled_out() -> None:
    """By day: a bin of three hours has three of them; a null has none."""
    facts = {"type": "datetime", "resolution": "minute"}
    edges = ["2020-01-01T00:00", "2020-01-01T03:00", "2020-01-02T03:00"]
    fields = [
        {"name": "t", **facts, "edges": edges},
        {"name": "h", "type": "integer", "categories": [*range(24)]},
    ]
    made = Domain.from_dict({"fields": fields, "rules": [{"compute": "h", "as": "hour", "of": "t"}]})
    (zeros,) = made.zeros
    forbidden = zeros.forbidden[np.ix_(*zeros.classes)]
    assert [np.flatnonzero(~row).tolist() for row in forbidden] == [[0, 1, 2], [*range(24)], [24]]
