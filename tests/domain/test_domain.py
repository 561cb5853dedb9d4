"""A domain is a public promise: a wrong one must be refused where it is written, with a message that says
what to correct.
"""

from __future__ import annotations

import datetime
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.tables.codes.codec import encode

SHIPPED = sorted((Path(__file__).parents[2] / "datasets").glob("*.domain.json"))
AGES = {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}}


def one(**field: Any) -> Attribute:
    """The attribute of a domain file with a single field."""
    return Domain.from_dict({"fields": [{"name": "x", **field}]})["x"]


def bounded(kind: str, minimum: Any, maximum: Any, **more: Any) -> Attribute:
    return one(type=kind, constraints={"minimum": minimum, "maximum": maximum}, **more)


# Every validator, with the words a user needs: what is wrong with which field.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"type": "string"}, "at least one category"),
    ({"categories": []}, "at least one category"),
    ({"categories": ["a", "b", "a"]}, "lists a category twice"),
    ({"type": "number", "categories": [0.0, -0.0]}, "lists a category twice"),
    ({"categories": ["a", 1]}, "is of type string but lists the category 1"),
    ({"type": "integer", "categories": [1, "b"]}, "is of type integer but lists the category 'b'"),
    ({"type": "integer", "categories": [2, True]}, "but lists the category True"),
    ({"type": "boolean", "categories": [1]}, "is of type boolean but lists the category 1"),
    ({"type": "number", "categories": [1.0, float("inf")]}, "not a finite number"),
    ({"type": "date", "categories": ["2020-01-41"]}, "has the bound '2020-01-41', which is not a date"),
    ({"type": "integer", "edges": [0, 5], "specialValues": [1, 1]}, "lists a special value twice"),
    ({"type": "integer", "edges": [0, 5], "specialValues": ["N", "N"]}, "lists a special value twice"),
    ({"type": "integer", "edges": [0, 1, 5], "specialValues": [0]}, "lists every value of bin 1"),
    ({"type": "integer", "edges": [0, 5], "specialValues": [0.5]}, "lists the special value 0.5"),
    ({"type": "integer", "edges": [0, 5], "other": "N"}, "has the bound 'N', which is not a integer"),
    ({"categories": ["a"], "specialValues": ["b"]}, "special values go with bins"),
    ({"type": "integer", "edges": [0, 5], "decimals": 1}, "decimals are for numbers"),
    ({"type": "number", "edges": [0, 5], "resolution": "day"}, "a resolution is for timestamps"),
    ({"categories": ["a"], "other": "rest"}, "names other='rest', which is not one of its categories"),
    ({"categories": ["a"], "bins": 3}, "categories or bins, not both"),
    ({"categories": ["a"], "edges": [1, 2]}, "categories or bins, not both"),
    ({"type": "integer"}, "needs constraints.minimum and constraints.maximum"),
    ({"type": "number", "constraints": {"minimum": 0}}, "needs constraints.minimum and constraints.maximum"),
    ({"type": "number", "edges": [0, 1], "bins": 1}, "takes bins or edges, not both"),
    ({"type": "integer", "constraints": {"minimum": 9, "maximum": 0}}, "edges that increase"),
    ({"type": "integer", "constraints": {"minimum": 0, "maximum": 9}, "bins": 11}, "edges that increase"),
    ({"type": "number", "constraints": {"minimum": 1, "maximum": 0}}, "edges that increase"),
    ({"type": "number", "edges": [0, 2, 1]}, "edges that increase"),
    ({"type": "number", "edges": [0, 1, 1, 2]}, "edges that increase"),
    ({"type": "number", "edges": [0]}, "edges"),
    ({"type": "number", "constraints": {"minimum": 0, "maximum": 1}, "bins": 0}, "bins"),
    ({"type": "number", "constraints": {"minimum": 0, "maximum": float("nan")}}, "which is not a number"),
    (
        {"type": "number", "constraints": {"minimum": -1.7e308, "maximum": 1.7e308}},
        "between -1e300 and 1e300",
    ),
    ({"type": "integer", "constraints": {"minimum": 0, "maximum": 2**62}}, "between -2^62 and 2^62"),
    (
        {"type": "integer", "constraints": {"minimum": 0.5, "maximum": 9}},
        "has the bound 0.5, which is not a integer",
    ),
    ({"type": "integer", "constraints": {"minimum": "low", "maximum": 9}}, "has the bound 'low'"),
    (
        {"type": "date", "constraints": {"minimum": "2020-02-31", "maximum": "2021-01-01"}},
        "has the bound '2020-02-31', which is not a date",
    ),
    (
        {"type": "datetime", "constraints": {"minimum": "2020-01-01T25:00", "maximum": "2021-01-01"}},
        "which is not a datetime",
    ),
    ({"type": "time", "categories": ["a"]}, "type"),
    ({"categories": ["a"], "colour": "red"}, "colour"),
    ({"categories": ["a"], "constraints": {"exclusiveMinimum": 2}}, "constraints.exclusiveMinimum"),
    ({"name": "", "categories": ["a"]}, "name"),
]


@pytest.mark.parametrize(
    ("field", "message"), REFUSED, ids=[message[:40] + str(i) for i, (_, message) in enumerate(REFUSED)]
)
def test_every_validator_raises_one_line(field: dict[str, Any], message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "error"
        )  # bounds that overflow must be refused, not warned about on a user's screen
        with pytest.raises(InputError) as refused:
            one(**field)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], 'expected {"fields"'),
        ({}, 'expected {"fields"'),
        ({"fields": {}}, 'expected {"fields"'),
        ({"fields": []}, "has no attributes"),
        ({"fields": ["age"]}, "field 1 is not an object"),
        ({"fields": [AGES], "colour": 1}, "unknown key 'colour'"),
        ({"fields": [AGES, AGES]}, "names 'age' twice"),
        ({"age": 85, "sex": 0}, "'sex' has size 0"),
        ({"age": 85, "sex": True}, 'expected {"fields"'),
        ({"age": 85.0}, 'expected {"fields"'),
        ({"age": "85"}, 'expected {"fields"'),
    ],
)
def test_a_domain_as_a_whole_is_checked(data: Any, message: str) -> None:
    with pytest.raises(InputError) as refused:
        Domain.from_dict(data, where="d.json")
    assert message in str(refused.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("age,sex")
    (tmp_path / "latin.json").write_bytes(b'{"\xe9": 2}')
    for name, message in (
        ("none.json", "No such file"),
        (".", "cannot read"),
        ("text.json", "is not JSON"),
        ("latin.json", "is not JSON"),
    ):
        with pytest.raises(InputError, match=message):
            Domain.load(tmp_path / name)


def test_private_pgm_sizes_are_integer_codes_from_zero() -> None:
    domain = Domain.from_dict({"age": 85, "wide": 500})
    assert domain.shape == (85, 500)
    assert domain["wide"].type == "integer"
    assert not domain["wide"].nullable
    assert domain["wide"].cuts.tolist() == list(range(501))


def test_frictionless_forms() -> None:
    labelled = one(
        type="integer",
        categories=[{"value": 1, "label": "one"}, {"value": 2, "label": "two"}],
        categoriesOrdered=True,
    )
    assert labelled.values == (1, 2)
    assert labelled.ordered
    assert one(constraints={"enum": ["a", "b"], "required": True}).values == ("a", "b")
    assert one(categories=["c"], constraints={"enum": ["a", "b"]}).values == ("c",)
    assert one(categories=["a"], rdfType="x", example="a", title="T", description="D").title == "T"
    described = {"name": "t", "$schema": "https://example.org", "primaryKey": "age", "fields": [AGES]}
    assert Domain.from_dict(described).names == ("age",)


def test_missing_values_of_a_field_win_over_those_of_the_file() -> None:
    fields = [{"name": "a", "categories": ["x"]}, {"name": "b", "categories": ["x"], "missingValues": ["?"]}]
    domain = Domain.from_dict({"fields": fields, "missingValues": ["NA"]})
    assert domain["a"].missing_values == ("NA",)
    assert domain["b"].missing_values == ("?",)
    assert one(categories=["x"]).missing_values is None


def test_round_trip_and_equality() -> None:
    domain = Domain.from_dict(
        {
            "fields": [
                {
                    "name": "s",
                    "categories": ["0311", "other"],
                    "other": "other",
                    "categoriesOrdered": True,
                    "missingValues": ["?"],
                },
                {"name": "b", "type": "boolean", "constraints": {"required": True}},
                {"name": "i", "type": "integer", "categories": [1, 5]},
                AGES,
                {"name": "n", "type": "number", "edges": [0, 5e-324, 1.5], "learnt": True},
                {
                    "name": "d",
                    "type": "date",
                    "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"},
                    "bins": 12,
                },
                {
                    "name": "t",
                    "type": "datetime",
                    "constraints": {"minimum": "2020-01-01T00:00:00+02:00", "maximum": "2021-01-01"},
                },
            ]
        }
    )
    again = Domain.from_dict(json.loads(json.dumps(domain.to_dict())))
    assert again == domain
    assert again.to_dict() == domain.to_dict()
    assert [a.cuts.tolist() for a in again if not a.categorical] == [
        a.cuts.tolist() for a in domain if not a.categorical
    ]
    assert again != Domain.from_dict({"a": 2})
    assert hash(again) == hash(domain)


@pytest.mark.parametrize("path", SHIPPED, ids=[path.name for path in SHIPPED])
def test_the_published_schema_accepts_our_own_files(path: Path) -> None:
    data, judge = json.loads(path.read_text()), Draft202012Validator(Domain.json_schema())
    if "fields" not in data:
        pytest.skip("private-pgm's form")
    judge.validate(data)
    assert Domain.load(path).names
    broken = {"fields": [{**data["fields"][0], "colour": "red"}]}
    assert not judge.is_valid(broken)  # else the check above could not fail


def test_sizes_beyond_any_machine_stay_exact() -> None:
    """The cells of a wide table overflow every fixed-width number."""
    huge = Domain(
        Attribute(name=f"a{i}", type="boolean", constraints={"required": True}) for i in range(1000)
    )
    assert huge.cells == 2**1000
    assert repr(huge) == "Domain(1000 attributes)"
    assert Domain.from_dict({"a": 10}).cells == 10
    assert "10 cells" in repr(Domain.from_dict({"a": 10}))


@pytest.mark.slow
def test_a_million_values_are_fine() -> None:
    names = [f"v{i}" for i in range(1_000_000)]
    assert Attribute(name="x", categories=tuple(names)).size == 1_000_001
    assert Domain.from_dict({"x": 1_000_000}).shape == (1_000_000,)


def test_lookup_and_order() -> None:
    domain = Domain.from_dict({"a": 2, "b": 3, "c": 4})
    assert domain.clique(["c", "a", "c"]) == ("a", "c")
    assert domain.project(["c", "b"]).names == ("b", "c")
    assert "b" in domain
    assert "z" not in domain
    assert domain["b"].size == 3
    with pytest.raises(InputError, match="no attribute 'z' in the domain; it has a, b, c"):
        domain.index("z")


def test_cuts_of_integers() -> None:
    assert bounded("integer", -2, 2).cuts.tolist() == [-2, -1, 0, 1, 2, 3]
    assert len(bounded("integer", 0, 127).cuts) == 129
    assert len(bounded("integer", 0, 128).cuts) == 33
    assert bounded("integer", 0, 9, bins=2).cuts.tolist() == [0, 5, 10]
    assert one(type="integer", edges=[0, 1, 10]).cuts.tolist() == [0, 1, 11]
    assert bounded("integer", -(2**61), 2**61, bins=2).cuts.tolist() == [-(2**61), 0, 2**61 + 1]


def test_cuts_of_numbers_hold_the_maximum() -> None:
    cuts = bounded("number", 0, 1, bins=4).cuts
    assert cuts[:4].tolist() == [0, 0.25, 0.5, 0.75]
    assert cuts[-1] == np.nextafter(1, 2)
    assert one(type="number", edges=[0, 5e-324, 1]).cuts.tolist() == [0.0, 5e-324, np.nextafter(1, 2)]


def test_cuts_of_dates_and_timestamps() -> None:
    day = (datetime.date(2020, 2, 28) - datetime.date(1970, 1, 1)).days
    assert bounded("date", "2020-02-28", "2020-03-01").cuts.tolist() == [day, day + 1, day + 2, day + 3]
    assert one(type="date", edges=["2020-02-28", "2020-03-01"]).cuts.tolist() == [day, day + 3]
    moment = bounded("datetime", "2020-02-28T02:00:00+02:00", "2020-02-28T00:00:01", bins=1).cuts
    assert moment.tolist() == [day * 86_400_000_000, day * 86_400_000_000 + 1_000_001]
    assert bounded("date", "0001-01-01", "9999-12-31").size == 33


def test_codes_for_null_and_for_the_unlisted() -> None:
    """One fixed rule an attribute: `other`, else null, else the first code."""
    assert one(categories=["a", "b"], other="b").fallback_code == 1
    assert one(categories=["a", "b"]).fallback_code == 2
    required = one(categories=["a", "b"], constraints={"required": True})
    assert (required.null_code, required.fallback_code, required.size) == (None, 0, 2)
    assert one(type="boolean").size == 3
    assert one(type="boolean").null_code == 2


def test_more_of_frictionless_is_read() -> None:
    """Years, labelled missing values, words for true and false; what bounds nothing is dropped."""
    domain = Domain.from_dict(
        {
            "fields": [
                {
                    "name": "y",
                    "type": "year",
                    "constraints": {"minimum": 2000, "maximum": 2004, "unique": False},
                },
                {
                    "name": "b",
                    "type": "boolean",
                    "trueValues": ["ja"],
                    "falseValues": ["nein"],
                    "missingValues": [{"value": "-", "label": "none"}],
                },
                {"name": "s", "categories": ["a"], "constraints": {"pattern": "a", "maxLength": 1}},
            ]
        }
    )
    assert domain.shape == (6, 3, 2)
    assert encode(domain["b"], pa.array(["JA", "nein", "-", "true"])).tolist() == [1, 0, 2, 2]
    assert Domain.from_dict(domain.to_dict()) == domain
