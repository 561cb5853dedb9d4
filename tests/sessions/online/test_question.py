"""Questions as cuts: each group is one cell, and cells count what the query counts."""

from __future__ import annotations

import numpy as np
import pytest

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.sessions.online.question import FREE_CELLS, NOBODY, CountQuestion
from factored_mwem.sessions.online.session import _key

DOMAIN = Domain.from_dict(
    {
        "fields": [
            {"name": "sex", "categories": ["F", "M"], "constraints": {"required": True}},
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 19}},
            {"name": "town", "categories": ["A", "B", "C", "D"]},
            {"name": "pay", "type": "integer", "bins": 4, "constraints": {"minimum": 0, "maximum": 99}},
        ]
    }
)
ROWS = np.stack([np.random.default_rng(1).integers(0, size, 400) for size in DOMAIN.modelled.shape])
QUERIES = [
    "count where age >= 7 and sex = M",
    "count where age between 3 and 9 and town in (A, C)",
    "count where town is missing by sex",
    "count by town, sex",
    "count where age < 5 by age",
    "count where sex = F by sex, town",
    "count where pay >= 50",
    "count where age != 4 and town not in (B)",
    "count where age > 100 by sex",
    "count",
    "marginal age, sex",
]


@pytest.mark.parametrize("text", QUERIES)
def test_each_group_is_one_cell(text: str) -> None:
    """Rows counted by the cut's cells are those counted by the query's weights."""
    asked = CountQuestion.of(text, DOMAIN)
    cell = np.zeros(ROWS.shape[1], dtype=np.int64)
    for a, classes, size in zip(asked.cut.positions, asked.cut.classes, asked.cut.sizes, strict=True):
        cell = cell * size + classes[ROWS[a]]
    counts = np.bincount(cell, minlength=asked.cut.cells)
    found = [0 if wanted == NOBODY else int(counts[wanted]) for wanted in asked.wanted]
    assert found == asked.terms.of_rows(ROWS).tolist()
    assert len(set(asked.wanted) - {NOBODY}) == sum(wanted != NOBODY for wanted in asked.wanted)
    assert counts.sum() == ROWS.shape[1]


def test_codes_beside_those_asked_for_are_told_apart() -> None:
    (sizes,) = {CountQuestion.of("count where age between 5 and 9", DOMAIN).cut.sizes}
    assert sizes == (3,)
    wide = CountQuestion.of("count where age in (1, 3, 5, 7, 9, 11) and town in (A, C) by pay", DOMAIN)
    assert wide.cut.cells <= FREE_CELLS


@pytest.mark.parametrize(
    "query",
    ["mean age", "median age", "share where sex = M", "cube sex, town", "count minus count",
     "count where nothing = 1", "count where pay >= 30", "count where", ""],
)  # fmt: skip
def test_what_is_no_count_of_whole_codes_is_refused(query: str) -> None:
    with pytest.raises(InputError) as refused:
        CountQuestion.of(query, DOMAIN)
    assert "\n" not in str(refused.value)


def test_the_same_records_have_the_same_key() -> None:
    def key(text: str) -> object:
        asked = CountQuestion.of(text, DOMAIN)
        return _key(asked, asked.wanted)

    assert key("count where sex = M") == key("count where sex != F") == key("count where sex in (M)")
    turned = "count where sex = M and age > 6 and age is not missing"
    assert key("count where age >= 7 and sex = M") == key(turned)
    assert key("count where sex = M") != key("count where sex = F")
    assert key("count by sex") != key("count where sex = F")
