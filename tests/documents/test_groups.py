"""Groups of codes for a picture: a partition, named by its ends, and only of neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from factored_mwem.documents.charts import Series, across, upright
from factored_mwem.documents.groups import MOST_BINS, MOST_VALUES, groups_at, groups_of, start_of
from factored_mwem.domain.attribute import Attribute

AGE = Attribute(name="age", type="integer", constraints={"minimum": 0, "maximum": 99})
PAY = Attribute(name="pay", type="number", constraints={"minimum": 0, "maximum": 1}, bins=70)
SEEN = Attribute(
    name="seen", type="datetime", constraints={"minimum": "2020-01-01", "maximum": "2020-12-31"}, bins=4
)
TOWNS = Attribute(name="town", categories=tuple(f"town {i}" for i in range(50)))
GAINS = Attribute(name="gains", type="integer", edges=(1, 1000, 99_999), specialValues=(0, "N"))


@pytest.mark.parametrize("attribute", [AGE, PAY, SEEN, TOWNS, GAINS], ids=lambda a: a.name)
def test_every_code_is_in_one_group(attribute: Attribute) -> None:
    known = np.arange(attribute.size)
    groups = groups_of(attribute, known)
    assert len(groups.of_code) == attribute.size
    assert set(groups.of_code.tolist()) == set(range(len(groups)))
    assert groups.added(known).sum() == known.sum()
    assert np.array_equal(groups.weights @ known, groups.added(known))
    assert groups.scaled <= MOST_BINS and len(groups) <= max(MOST_BINS, MOST_VALUES) + 2
    assert groups.labels[-1] == "missing"


def test_labels_name_both_ends() -> None:
    assert groups_of(AGE, None).labels[:2] == ("0..3", "4..7")
    assert groups_of(PAY, None).labels[0] == "0..0.0428571" and start_of("[0.5, 1.0)") == "0.5"
    assert groups_of(GAINS, None).labels == ("0", "1..999", "1000..99999", "N", "missing")
    assert groups_of(SEEN, None).labels[0].startswith("[2020-01-01, 2020-0")


def test_the_most_frequent_values_are_drawn_and_the_others_are_one_bar() -> None:
    groups = groups_of(TOWNS, np.arange(51))
    assert groups.labels[:2] == ("town 49", "town 48") and groups.labels[-2] == "31 other values"
    assert "50 values" in groups.note and groups.added(np.ones(51))[-2] == 31


def test_a_level_is_drawn_where_its_groups_are_neighbours() -> None:
    level = np.append(np.arange(100) // 10, 10)
    groups = groups_at(AGE, level)
    assert groups is not None and groups.labels[:2] == ("0..9", "10..19") and len(groups) == 11
    assert groups_at(AGE, np.append(np.arange(100) % 10, 10)) is None
    assert groups_at(AGE, np.append(np.arange(100) // 10, 9)) is None  # null among numbers
    assert groups_at(AGE, np.arange(101)) is None  # more than a picture has room for
    assert groups_at(TOWNS, np.zeros(51, dtype=np.int64)) is None


@pytest.mark.parametrize("draw", [across, upright])
def test_marks_stay_inside_the_picture_whatever_the_noise(draw: object) -> None:
    wild = np.array([-5.0, np.nan, 0.2, 3.0])
    chart = draw([f"{i}..{i + 9}" for i in range(4)], Series(wild, wild, wild - 9, wild + 9))  # type: ignore[operator]
    assert "nan" not in chart.bars + chart.whiskers + chart.grid
    for x, y in chart.dots:
        assert 0 <= x <= chart.width and 0 <= y <= chart.height
    assert len(chart.dots) == 4


def test_no_labels_no_bars() -> None:
    empty = np.zeros(0)
    for draw in (across, upright):
        assert draw([], Series(empty, empty, empty, empty)).bars == ""
