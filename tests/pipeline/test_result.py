"""What a release says of itself: in a terminal, in a notebook, and as named arrays of its model."""

from __future__ import annotations

import datetime
import html.parser
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from factored_mwem import Domain, InputError, Marginal, Policy, Release, ResourceError, Workload, release
from factored_mwem.pipeline.marginal import labels_of, marginal_of
from factored_mwem.request.request import Request

HOSTILE = "<script>alert('x')</script>\n\x1b[31m&amp;"


@pytest.fixture(scope="module")
def made() -> Release:
    domain = {
        "fields": [
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}, "bins": 5},
            {"name": "sex", "categories": ["F", "M"], "constraints": {"required": True}},
            {"name": "member", "type": "boolean"},
        ]
    }
    table = pa.table(
        {"age": [5, 25, 25, None] * 500, "sex": ["F", "M", "M", "F"] * 500, "member": [True, None] * 1000}
    )
    return release(table, 2, domain=domain, epsilon=100.0, sample_seed=1)


def fits(text: str) -> bool:
    lines = text.splitlines()
    return len(lines) <= 24 and all(len(line) <= 100 and line.isprintable() for line in lines)


def test_a_release_shows_what_was_promised_and_spent(made: Release) -> None:
    said = repr(made)
    assert fits(said)
    for fact in ("tree", "3: age, sex, member", "epsilon 100, delta 1e-09 (add-remove)", f"{made.rows:,}"):
        assert fact in said
    assert f"spent     epsilon {made.manifest.guarantee.spent_epsilon:.6g}" in said


def test_a_wide_release_fits_a_screen() -> None:
    names = [f"{'a long name ' * 5}{i}" for i in range(200)]
    made = release(pa.table({name: [0, 1] for name in names}), 1, domain=dict.fromkeys(names, 2))
    assert (
        fits(repr(made)) and "200: a long name a long na..., " in repr(made) and "and 198 more" in repr(made)
    )


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not attrs or (tag, attrs) == ("table", [("class", "tex2jax_ignore mathjax_ignore")])
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def test_nothing_that_a_release_says_is_html() -> None:
    """A column and a category that would run a script, or colour a terminal."""
    field = {"name": HOSTILE, "categories": [HOSTILE], "constraints": {"required": True}}
    made = release(pa.table({HOSTILE: [HOSTILE] * 9}), 1, domain={"fields": [field]}, rows=9)
    assert fits(repr(made)) and "\x1b" not in repr(made)
    page = Tags()
    page.feed(made._repr_html_())
    assert page.tags == {"table", "caption", "tr", "th", "td"}
    assert page.said.count(HOSTILE) == 5


def test_a_notebook_shows_facts_and_five_rows(made: Release) -> None:
    page = made._repr_html_()
    assert page == made._repr_html_() and page.count("<tr>") == 8 + 1 + 5
    assert "<th>promised</th><td>epsilon 100, delta 1e-09 (add-remove)</td>" in page


def test_other_reprs_fit_a_screen() -> None:
    names = [f"{'a long name ' * 5}{i}" for i in range(200)]
    workload = Workload.of([names] * 50) + Workload.cube(*names[:60]) + Workload.marginals(3)
    policy = Policy.of(privacy_id="x" * 1000, max_cells=10**6)
    domain = Domain.from_dict(dict.fromkeys(names, 2))
    table = pa.table({name: ["CANARY"] for name in names})
    request = Request.of(table, workload, policy, domain=domain, columns=names)
    for of in (workload, policy, domain, request):
        assert len(repr(of)) <= 24 * 80, repr(of)
        assert "CANARY" not in repr(of)
    assert repr(Policy()) == "Policy(epsilon=1.0, delta=1e-09)"
    assert repr(Policy.of(engine="mwem")) == "Policy(epsilon=1.0, delta=1e-09, engine='mwem')"


# ---- named arrays


def test_a_marginal_is_the_models(made: Release) -> None:
    """Axes in the order of the names, whatever the domain's."""
    one, other = made.marginal("sex", "age"), made.marginal("age", "sex")
    assert one.names == ("sex", "age") and one.counts.shape == (2, 6) and one.counts.dtype == np.float64
    assert np.array_equal(one.counts, other.counts.T) and one.counts.flags.c_contiguous
    assert one.counts.sum() == pytest.approx(made.model.total)
    assert one.labels == (("F", "M"), ("0..19", "20..39", "40..59", "60..79", "80..99", None))
    men = one.counts[one.labels[0].index("M")]
    assert men[one.labels[1].index("20..39")] == pytest.approx(1000, abs=30)
    three = made.marginal("member", "age", "sex")
    np.testing.assert_allclose(three.counts.sum(axis=(0, 1)), one.counts.sum(axis=1))
    assert repr(one).startswith("Marginal('sex' (2) x 'age' (6): ")


def test_a_marginal_as_a_pandas_series(made: Release) -> None:
    counts = made.marginal("sex", "age")
    series = counts.to_pandas()
    assert isinstance(series, pd.Series) and series.index.names == ["sex", "age"]
    assert series["M", "20..39"] == counts.counts[1, 1]
    assert series.groupby("sex").sum()["M"] == pytest.approx(counts.counts[1].sum())
    assert isinstance(made.marginal("sex").to_pandas(), pd.Series)


WRONG = {(): "named once", ("age", "age"): "named once", ("income",): "no attribute 'income' in the domain"}


@pytest.mark.parametrize("names", WRONG)
def test_a_marginal_that_cannot_be_is_refused_in_one_line(names: tuple[str, ...], made: Release) -> None:
    with pytest.raises(InputError, match=WRONG[names]) as refused:
        made.marginal(*names)
    assert "\n" not in str(refused.value)


def test_a_marginal_without_bounds_is_refused(made: Release) -> None:
    wide = Domain.from_dict({"a": 10**5, "b": 10**5})
    with pytest.raises(ResourceError, match="10,000,000,000 cells is too large"):
        marginal_of(made.model, wide, ("a", "b"))


BOUNDS: list[tuple[str, Any, Any, int | None, tuple[Any, ...]]] = [
    ("integer", 0, 3, None, (0, 1, 2, 3)),
    ("integer", 0, 5, 2, ("0..2", "3..5")),
    ("number", 0, 1, 2, ("[0.0, 0.5)", "[0.5, 1.0]")),
    ("number", 0, 1, 1, ("[0.0, 1.0]",)),
    ("date", "2020-02-28", "2020-03-01", None, ("2020-02-28", "2020-02-29", "2020-03-01")),
    ("date", "2020-01-01", "2020-01-04", 2, ("2020-01-01..2020-01-02", "2020-01-03..2020-01-04")),
]


@pytest.mark.parametrize(("kind", "least", "most", "bins", "labels"), BOUNDS)
def test_labels_say_what_a_bin_holds(
    kind: str, least: Any, most: Any, bins: int | None, labels: tuple[Any, ...]
) -> None:
    field = {"name": "a", "type": kind, "constraints": {"minimum": least, "maximum": most}}
    attribute = Domain.from_dict({"fields": [field | ({"bins": bins} if bins else {})]})["a"]
    assert labels_of(attribute) == (*labels, None) and len(labels) + 1 == attribute.size


def test_labels_of_moments() -> None:
    bounds = {"minimum": "2020-01-01T00:00:00", "maximum": "2020-01-01T23:59:59.999999", "required": True}
    domain = Domain.from_dict(
        {"fields": [{"name": "a", "type": "datetime", "bins": 2, "constraints": bounds}]}
    )
    first, second = labels_of(domain["a"])
    assert first == "[2020-01-01T00:00:00.000000, 2020-01-01T12:00:00.000000)"
    assert second.endswith(f"{datetime.date(2020, 1, 2)}T00:00:00.000000)")


def test_a_marginal_by_hand() -> None:
    counts = Marginal(("a",), ((0, None),), np.array([1.0, 2.0]))
    assert counts.to_pandas().sum() == 3 and repr(counts) == "Marginal('a' (2): 3.0 records)"
