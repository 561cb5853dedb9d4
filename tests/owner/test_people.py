"""People in `evaluate`: each figure beside a loop over people that says what it means."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from factored_mwem import InputError, evaluate
from factored_mwem.owner.evaluation.people import PeopleErrors
from factored_mwem.owner.evaluation.people_columns import PeopleColumn

Person = Sequence[dict[str, Any]]


def table_of(seed: int, people: int, names: str) -> pa.Table:
    """Of people of one to five rows, in no order; some rows name nobody, some cells are missing."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 6, people)
    who = np.repeat(np.arange(people), rows)
    frame = pd.DataFrame(
        {
            "who": [f"{names}{i}" for i in who],
            "sex": rng.choice(["F", "M"], people)[who],
            "ward": rng.choice(["a", "b", "c"], len(who), p=[0.6, 0.3, 0.1]),
            "dose": pd.array(rng.integers(0, 6, people)[who] + rng.integers(0, 3, len(who)), "Int64"),
            "day": rng.permutation(len(who)),
        }
    )
    frame.loc[rng.random(len(who)) < 0.05, "who"] = ""
    frame.loc[rng.random(len(who)) < 0.1, "dose"] = pd.NA
    frame.loc[rng.random(len(who)) < 0.05, "ward"] = None
    return pa.Table.from_pandas(frame.sample(frac=1, random_state=seed), preserve_index=False)


REAL, OTHER = table_of(1, 150, "r"), table_of(2, 90, "s")


def people_in(table: pa.Table, order_by: str | None) -> list[Person]:
    own: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        if row["who"]:
            own.setdefault(row["who"], []).append(row)
    if order_by is not None:
        for rows in own.values():
            rows.sort(key=lambda row: row[order_by])
    return list(own.values())


def apart(first: Counter[Any], second: Counter[Any], sizes: Sequence[float]) -> float:
    """Half the L1 distance of shares."""
    return sum(abs(first[k] / sizes[0] - second[k] / sizes[1]) for k in {*first, *second}) / 2


def compared(order_by: str | None = None) -> PeopleErrors:
    people = evaluate(REAL, OTHER, 1, privacy_id="who", order_by=order_by).people
    assert people is not None
    return people


def column_of(errors: PeopleErrors, name: str) -> PeopleColumn:
    return next(column for column in errors.columns if column.name == name)


@pytest.mark.parametrize("order_by", [None, "day"])
@pytest.mark.parametrize("name", ["sex", "ward", "dose"])
def test_shares_of_people_are_those_of_a_loop(name: str, order_by: str | None) -> None:
    """Few distinct values: each has a bin of its own."""
    tables = [people_in(table, order_by) for table in (REAL, OTHER)]
    one, sizes = column_of(compared(order_by), name), [len(people) for people in tables]
    pick: dict[str, Callable[[Person], Any]] = {
        "first": lambda rows: rows[0][name],
        "last": lambda rows: rows[-1][name],
        "all": lambda rows: next(iter({r[name] for r in rows})) if len({r[name] for r in rows}) == 1 else "*",
    }
    for what, value in pick.items():
        first, second = (Counter(map(value, people)) for people in tables)
        assert getattr(one, what) == pytest.approx(apart(first, second, sizes))
    anywhere = [Counter(v for rows in people for v in {r[name] for r in rows}) for people in tables]
    mean = sum(a.total() / n for a, n in zip(anywhere, sizes, strict=True)) / 2
    assert one.any == pytest.approx(apart(*anywhere, sizes) / mean)
    for value, share_any, share_all in one.popular:
        for t, people in enumerate(tables):
            having = [sum(r[name] == value for r in rows) for rows in people]
            assert share_any[t] == pytest.approx(np.mean([n > 0 for n in having]))
            assert share_all[t] == pytest.approx(
                np.mean([n == len(rows) for n, rows in zip(having, people, strict=True)])
            )


@pytest.mark.parametrize("name", ["sex", "ward", "dose"])
def test_what_goes_together_within_a_person_is_that_of_all_pairs_of_rows(name: str) -> None:
    one = column_of(compared(), name)
    for t, table in enumerate((REAL, OTHER)):
        several = [[r[name] for r in rows] for rows in people_in(table, None) if len(rows) > 1]
        pairs = [[a == b for a, b in itertools.combinations(values, 2)] for values in several]
        assert one.agreement[t] == pytest.approx(np.mean([np.mean(each) for each in pairs]))
        assert one.same[t] == pytest.approx(np.mean([all(each) for each in pairs]))


def test_the_correlation_is_that_of_all_ordered_pairs_each_person_weighing_one() -> None:
    one = column_of(compared(), "dose")
    assert one.correlation is not None and column_of(compared(), "ward").correlation is None
    for t, table in enumerate((REAL, OTHER)):
        values = [[r["dose"] for r in rows if r["dose"] is not None] for rows in people_in(table, None)]
        pairs = [list(itertools.permutations(own, 2)) for own in values if len(own) > 1]
        x, y = np.array([p for own in pairs for p in own], dtype=float).T
        w = np.concatenate([np.full(len(own), 1 / len(own)) for own in pairs])
        x, y = x - np.average(x, weights=w), y - np.average(y, weights=w)
        expected = (w @ (x * y)) / np.sqrt((w @ x**2) * (w @ y**2))
        assert one.correlation[t] == pytest.approx(expected)
        assert 0.5 < expected < 0.95


@pytest.mark.parametrize("name", ["sex", "ward", "dose"])
def test_transitions_are_those_of_successive_rows(name: str) -> None:
    one = column_of(compared("day"), name)
    steps = [
        Counter((a[name], b[name]) for rows in people_in(table, "day") for a, b in itertools.pairwise(rows))
        for table in (REAL, OTHER)
    ]
    assert one.transitions == pytest.approx(apart(*steps, [each.total() for each in steps]))
    before, after = (Counter(pair[i] for pair in steps[0].elements()) for i in (0, 1))
    total = steps[0].total()
    loose = {(a, b): before[a] * after[b] / total for a in before for b in after}
    expected = sum(abs(steps[0][pair] - loose[pair]) for pair in loose) / (2 * total)
    assert one.independent == pytest.approx(expected)
    assert column_of(compared(), name).transitions is None


@pytest.mark.parametrize("days", [False, True])
def test_gaps_are_from_row_to_row(days: bool) -> None:
    from scipy.stats import ks_2samp

    tables = [REAL, OTHER]
    if days:
        tables = [t.set_column(4, "day", t["day"].cast(pa.int32()).cast(pa.date32())) for t in tables]
    errors = evaluate(*tables, 1, privacy_id="who", order_by="day").people
    assert errors is not None and errors.gaps is not None and errors.gaps.moments == days
    gaps = [
        [b["day"] - a["day"] for rows in people_in(t, "day") for a, b in itertools.pairwise(rows)]
        for t in (REAL, OTHER)
    ]
    assert errors.gaps.mean == pytest.approx(tuple(map(np.mean, gaps)))
    assert errors.gaps.kolmogorov_smirnov == pytest.approx(ks_2samp(*gaps).statistic)


def test_rows_of_a_person_are_counted_without_those_of_nobody() -> None:
    errors = compared()
    sizes = [Counter(len(rows) for rows in people_in(table, None)) for table in (REAL, OTHER)]
    assert errors.people == tuple(each.total() for each in sizes)
    assert errors.rows_distance == pytest.approx(apart(*sizes, [each.total() for each in sizes]))


def test_a_table_is_no_distance_from_itself_in_any_order_of_its_rows() -> None:
    mixed = REAL.take(np.random.default_rng(5).permutation(len(REAL)))
    errors = evaluate(REAL, mixed, 1, privacy_id="who", order_by="day").people
    assert errors is not None and errors.rows_distance == 0 and errors.gaps is not None
    assert errors.gaps.kolmogorov_smirnov == 0
    for one in errors.columns:
        assert (one.any, one.all, one.first, one.last) == (0, 0, 0, 0) and not one.transitions
        assert one.same[0] == one.same[1] and one.agreement[0] == pytest.approx(one.agreement[1])


def test_an_order_of_texts_is_that_of_their_letters_and_what_is_missing_is_last() -> None:
    table = pa.table({"who": ["p"] * 4, "at": ["b", "", "a", "c"], "x": [2, 4, 1, 3]})
    other = pa.table({"who": ["q"] * 2, "at": ["z", "a"], "x": [4, 1]})
    errors = evaluate(table, other, 1, privacy_id="who", order_by="at").people
    assert errors is not None and errors.gaps is None
    x = column_of(errors, "x")
    assert (x.first, x.last) == (0, 0)


def test_a_table_that_names_nobody_is_refused() -> None:
    nobody = REAL.set_column(0, "who", pa.array([""] * len(REAL)))
    with pytest.raises(InputError, match="real table holds no id"):
        evaluate(nobody, OTHER, 1, privacy_id="who")
