"""Queries as text and back; texts that are none are refused in one line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factored_mwem.answers.grammar import UNITS, parse
from factored_mwem.answers.query import (
    AnyOf,
    Between,
    Compare,
    Correlation,
    Count,
    Cube,
    Deviation,
    Difference,
    Mean,
    Missing,
    OneOf,
    Quantile,
    Share,
    Total,
    marginal,
    median,
)
from factored_mwem.answers.tokens import WORDS
from factored_mwem.answers.written import written
from factored_mwem.errors import InputError

AGE, SEX = Compare("age", ">=", 40), Compare("sex", "=", "Male")
EXAMPLES = [
    ("count", Count()),
    ("count where age >= 40 and sex = Male by education", Count((AGE, SEX), ("education",))),
    ("count by a, 'b c'", Count(by=("a", "b c"))),
    ("marginal a, b", marginal("a", "b")),
    ("cube a, b where sex = Male", Cube(("a", "b"), (SEX,))),
    ("share where sex == Male given age>=40", Share((SEX,), (AGE,))),
    ("share by sex", Share(by=("sex",))),
    ("mean age where age between 40 and 60", Mean("age", (Between("age", 40, 60),))),
    ("median age by sex", median("age", by=("sex",))),
    ("quantile .9 age", Quantile("age", 0.9)),
    ("count where zip = 007 and x = 1e3", Count((Compare("zip", "=", "007"), Compare("x", "=", "1e3")))),
    ("count where x in (1, -2.5, 'a, b') and y not in (A)",
     Count((OneOf("x", (1, -2.5, "a, b")), OneOf("y", ("A",), negated=True)))),
    ("count where x is missing and y is not missing", Count((Missing("x"), Missing("y", negated=True)))),
    ("count where 'where' = \"it's\\n\\\\\" ", Count((Compare("where", "=", "it's\n\\"),))),
    ("count people where age >= 40 by sex", Count((AGE,), ("sex",), "people")),
    ("marginal rows a, b", Count(by=("a", "b"), unit="rows")),
    ("mean people 'people'", Mean("people", unit="people")),
    ("share per person where sex = Male", Share((SEX,), unit="per person")),
    ("quantile rows .9 'rows'", Quantile("rows", 0.9, unit="rows")),
    ("median per person age", median("age", unit="per person")),
    ("cube people a, person", Cube(("a", "person"), unit="people")),
    ("count where d < 2024-01-31", Count((Compare("d", "<", "2024-01-31"),))),
    ("count where sex = Male minus count where sex = Female",
     Difference(Count((SEX,)), Count((Compare("sex", "=", "Female"),)))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "query"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_a_text_is_a_query_and_back(text, query) -> None:
    assert parse(text) == query
    assert parse(written(query)) == query


names = st.text(min_size=1, max_size=8) | st.sampled_from(
    [*WORDS, *map(str.upper, WORDS), "or", "OR", "group", "NULL", "sum"]
)
values = names | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
conditions = st.one_of(
    st.builds(Compare, names, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), values),
    st.builds(Between, names, values, values),
    st.builds(OneOf, names, st.lists(values, min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(Missing, names, st.booleans()),
)
conditions |= st.builds(AnyOf, st.lists(conditions, min_size=2, max_size=3, unique=True).map(tuple))
where = st.lists(conditions, max_size=3).map(tuple)
columns = st.lists(names, max_size=3).map(tuple)
shares = st.floats(0, 1, exclude_min=True, exclude_max=True)
units = st.sampled_from([None, *UNITS])
singles = st.one_of(
    st.builds(Count, where, columns, units),
    st.builds(Share, where, where, columns, units),
    st.builds(Mean, names, where, columns, units),
    st.builds(Quantile, names, shares, where, columns, units),
    st.builds(Cube, columns.filter(bool), where, units),
    st.builds(Total, names, where, columns, units),
    st.builds(Deviation, names, where, columns, units),
    st.builds(Correlation, names, names, where, columns, units),
)


@settings(max_examples=40, deadline=None)
@given(singles | st.builds(Difference, singles, singles))
def test_every_query_reads_back_from_its_text(query) -> None:
    assert parse(written(query)) == query


REFUSED = [
    "", " ", "sum", "top x age", "min age by sex", "'count'",
    "count where", "count where age", "count where age >= ", "count by",
    "count by a,", "count by a b", "count where age >= 40 or", "count where in (1)",
    "count where a in ()", "count where a in (1", "count where a between 1", "count where a between 1, 2",
    "count where a is", "count where a is 4", "count where 'a = 1", 'count where "a\\" = 1', "mean",
    "mean where a = 1", "quantile age", "quantile x age", "quantile 2 age", "quantile 0 age",
    "quantile nan x",
    "count minus", "count minus count minus count", "count where a = b = c", "count; drop", "\0", "count\0",
    "count where a =\u202e1 x", "(" * 100, "count where " + " and ".join(["a = 1"] * 5000), "x" * 30_000,
    "count per", "count per people", "count people rows", "mean rows", "count rows by people",
    "count per 'person'",
    "quantile 1e400 x", "count where not", "count where " + "(" * 3000, "count where " + "not " * 3000,
    "SELECT count(*) FROM t WHERE " + "(" * 3000, "SELECT count(*) FROM t WHERE " + "NOT " * 3000,
    "cube", "share given", "count by a by b",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_query_is_refused_in_one_line(text) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


WORD = st.sampled_from(
    [
        *sorted(WORDS),
        "or",
        "group",
        "sum",
        "p90",
        "distinct",
        "top",
        "SELECT",
        "a",
        "4",
        "'x y'",
        ",",
        "(",
        ")",
        "=",
        "<=",
        '"',
        "\\",
        "\n",
        "é",
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60) | st.lists(WORD, max_size=12).map(" ".join))
def test_any_text_is_a_query_or_refused(text) -> None:
    try:
        query = parse(text)
    except InputError as error:
        assert str(error).isprintable()
    else:
        assert parse(written(query)) == query
