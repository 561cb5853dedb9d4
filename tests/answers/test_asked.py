"""Queries as people ask them: other words for the same, and SQL."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem import InputError, Release, release
from factored_mwem.answers.grammar import parse, parse_where
from factored_mwem.answers.written import written

SAME = {
    "avg age": "mean age",
    "Average of age By sex": "mean age by sex",
    "mean of where of = 1": "mean of where of = 1",
    "AVG(age) group by sex": "mean age by sex",
    "count(*) WHERE age >= 3": "count where age >= 3",
    "p90 age": "quantile 0.9 age",
    "percentile 25 age": "quantile 0.25 age",
    "stddev age": "std age",
    "corr(age, pay)": "correlation age, pay",
    "count(distinct age)": "count distinct age",
    "count where 20 <= age < 30": "count where age >= 20 and age < 30",
    "count where not age < 3": "count where age >= 3",
    "count where not (age < 3 or sex = M)": "count where age >= 3 and sex != M",
    "count where age not between 2 and 3": "count where (age < 2 or age > 3)",
    "count where sex = F and (age = 1 or age = 2)": "count where sex = F and (age = 1 or age = 2)",
    "count where sex = F or age = 1 and pay = 2": "count where (sex = F or age = 1) and (sex = F or pay = 2)",
    "count where sex is null": "count where sex is missing",
    "SELECT avg(age) FROM t WHERE sex = 'M' GROUP BY sex": "mean age where sex = M by sex",
    "select sex, count(*) as n from t group by sex order by n desc limit 1": "top 1 sex",
    "SELECT count(DISTINCT age) FROM t": "count distinct age",
    "SELECT count(*) FROM t WHERE NOT (age < 3 OR sex = 'M')": "count where age >= 3 and sex != M",
    "SELECT count(*) FROM t WHERE 20 <= age AND a-b in (1, 2)": "count where age >= 20 and a-b in (1, 2)",
    "SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY age) FROM t": "quantile 0.9 age",
    "SELECT max(age) FROM t": "max age",
    "SELECT count(*) FROM t WHERE d > DATE '2022-01-31'": "count where d > 2022-01-31",
    "SELECT count(age) FROM t WHERE sex IS NULL": "count where sex is missing and age is not missing",
}


@pytest.mark.parametrize("text", SAME)
def test_other_words_ask_the_same(text: str) -> None:
    assert parse(text) == parse(SAME[text])
    assert parse(written(parse(text))) == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "how many women",
        "SELECT",
        "SELECT 1",
        "SELECT count(*), avg(age) FROM t",
        "SELECT count(*) FROM t JOIN u",
        "SELECT count(*) FROM t HAVING count(*) > 1",
        "SELECT count(*) FROM t WHERE age > (SELECT 1)",
        "SELECT avg(age) FROM t LIMIT 5",
        "SELECT count(*) FROM t WHERE year(d) = 2022",
        "mean age please",
        "DROP TABLE t",
    ],
)
def test_what_is_not_read_is_refused_in_one_line_with_examples(text: str) -> None:
    with pytest.raises(InputError, match=r"count where .*\| avg .*\| SELECT") as refused:
        parse(text)
    assert "\n" not in str(refused.value)


def test_words_that_are_new_are_still_names_of_columns() -> None:
    for name in ("sum", "max", "or", "group", "top", "avg", "distinct", "null"):
        assert written(parse(f"count where {name} = 1 by {name}")) == f"count where {name} = 1 by {name}"
    truth = "SELECT count(*) FROM t WHERE NOT b"
    assert parse(truth) == parse(truth.replace("NOT b", "b != TRUE"))
    with pytest.raises(InputError, match="takes no `or`"):
        parse_where("age = 1 or sex = M")


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(3)
    age = rng.integers(0, 6, 4000)
    return pa.table(
        {"Age": age, "pay": age // 2 + rng.integers(0, 3, 4000), "sex": rng.choice(["F", "M"], 4000)}
    )


@pytest.fixture(scope="module")
def made(table: pa.Table) -> Release:
    """All three columns are measured, with hardly any noise."""
    required = {"required": True}
    fields = [
        {"name": "Age", "type": "integer", "constraints": {"minimum": 0, "maximum": 5, **required}},
        {"name": "pay", "type": "integer", "constraints": {"minimum": 0, "maximum": 4, **required}},
        {"name": "sex", "categories": ["F", "M"], "constraints": required},
    ]
    return release(table, 3, domain={"fields": fields}, epsilon=1000.0)


def test_figures_are_those_of_the_table(made: Release, table: pa.Table) -> None:
    rows = table.to_pandas()
    held = rows[(rows.Age < 2) | (rows.sex == "M")]
    expected = {
        "sum pay": rows.pay.sum(),
        "std age": rows.Age.std(ddof=0),
        "correlation age, pay": rows.Age.corr(rows.pay),
        "count where age < 2 or sex = M": len(held),
        "share where age < 2 or sex = m": len(held) / len(rows),
        "mean pay where age < 2 or sex = M": held.pay.mean(),
        "sum pay where not (age < 2 or sex = M)": rows.pay.sum() - held.pay.sum(),
        "share where pay = 1 given age < 2 or sex = M": (held.pay == 1).mean(),
        "SELECT avg(pay) FROM t WHERE age BETWEEN 1 AND 3": rows.pay[rows.Age.between(1, 3)].mean(),
        "max age": 5,
        "count distinct pay": 5,
    }
    for text, truth in expected.items():
        told = made.answer(text)
        assert told.estimate[0] == pytest.approx(truth, rel=0.02), text
        assert told.basis in ("measured", "bounded", "domain"), text
    assert made.answer("max age").high[0] == 5 and math.isnan(made.answer("max age").low[0])


def test_errors_of_deviations_and_correlations_are_to_first_order(made: Release) -> None:
    """Half of the rows of one group more: the figure moves as its factors say."""
    from factored_mwem.answers.intervals import correlation, deviation

    rng = np.random.default_rng(0)
    x, y = rng.normal(2, 1, 500), rng.normal(1, 3, 500)
    sums = np.array([[500, x.sum(), (x**2).sum(), y.sum(), (y**2).sum(), (x * y).sum()]])
    for figure, own in ((deviation, sums[:, :3]), (correlation, sums)):
        value, factors = figure(own)
        for k in range(own.shape[1]):
            moved = own.copy()
            moved[0, k] += 1e-3
            assert (figure(moved)[0] - value)[0] / 1e-3 == pytest.approx(factors[0, k], rel=1e-3, abs=1e-7)
    assert deviation(sums[:, :3])[0][0] == pytest.approx(x.std())
    assert correlation(sums)[0][0] == pytest.approx(np.corrcoef(x, y)[0, 1])


def test_the_largest_groups_come_first(made: Release, table: pa.Table) -> None:
    told = made.answer("top 2 pay where sex = F")
    counts = table.to_pandas().query("sex == 'F'").pay.value_counts()
    assert len(told) == 2 and told.estimate[0] >= told.estimate[1]
    assert counts.iloc[1] - 60 < told.estimate[1] < counts.iloc[0] + 60


@pytest.mark.parametrize(
    ("text", "meant"), [("count by agee", "'Age'"), ("count where sex = femail", None), ("mean pya", "'pay'")]
)
def test_a_name_that_is_mistaken_is_told_what_it_is_like(made: Release, text: str, meant: str | None) -> None:
    with pytest.raises(InputError) as refused:
        made.answer(text)
    assert meant is None or f"did you mean {meant}?" in str(refused.value)
