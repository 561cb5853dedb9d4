"""Neutral bins say something about values: spikes are alone, the rest is cut where the real rows are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem.domain.attribute import Attribute
from factored_mwem.owner.evaluation.neutral_bins import BINS, MAX_TEXTS, cuts_of, neutral_codes
from factored_mwem.owner.evaluation.readings import read_alike, read_columns
from factored_mwem.tables.inputs.source import open_table

RNG = np.random.default_rng(3)


def coded(real: Any, synthetic: Any) -> tuple[Attribute, list[int], list[int]]:
    columns = (read_columns(open_table(pa.table({"x": column})), ["x"])["x"] for column in (real, synthetic))
    kind, _, first, second = read_alike(*columns)
    attribute, ours, theirs = neutral_codes("x", kind, first, second)
    return attribute, ours.tolist(), theirs.tolist()


COLUMNS = {
    "measured": RNG.normal(size=5000),
    "heavy at 0": np.where(RNG.random(5000) < 0.9, 0, RNG.integers(1, 99_999, 5000)),
    "hours": np.where(RNG.random(5000) < 0.5, 40, RNG.integers(1, 99, 5000)),
    "spikes at the ends": np.clip(RNG.normal(size=5000), -1, 1),
    "few rows": RNG.normal(size=21),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_popular_numbers_are_alone_and_the_rest_is_cut_evenly(name: str) -> None:
    numbers = COLUMNS[name]
    bins = np.searchsorted(cuts_of(numbers), numbers, side="right")
    assert (np.diff(bins[np.argsort(numbers)]) >= 0).all()
    rows = Counter(numbers.tolist())
    popular = {value for value, count in rows.items() if count * BINS >= len(numbers)}
    assert len(set(bins.tolist())) <= BINS + len(popular)
    largest = max([count for value, count in rows.items() if value not in popular], default=0)
    for bin_ in set(bins.tolist()):
        inside = set(numbers[bins == bin_].tolist())
        if inside & popular:
            assert len(inside) == 1
        else:
            assert (bins == bin_).sum() <= len(numbers) / BINS + largest
    assert len(set(bins.tolist())) >= BINS * (1 - sum(rows[value] for value in popular) / len(numbers))


def test_what_lies_between_popular_numbers_is_in_no_bin_of_theirs() -> None:
    """Where zeros are smeared over their neighbours, the bin of zero is empty; few numbers are all alone."""
    attribute, ours, theirs = coded([0, 1, 2, 2], [0.5, 0, -1, 3])
    assert (attribute.size, attribute.nullable, attribute.ordered) == (6, False, True)
    assert (ours, theirs) == ([1, 3, 4, 4], [2, 1, 0, 5])
    _, ours, theirs = coded([0] * 90 + list(range(100, 200)), [0, 50, 100, 0])
    assert theirs[0] == theirs[3] == ours[0] and theirs[2] == ours[90]
    assert theirs[1] not in ours
    _, ours, _ = coded([0] * 970 + [1] * 10 + [2] * 10 + [3] * 10, [0])
    assert len(set(ours)) == 4


def test_text_comes_after_numbers_and_missing_last() -> None:
    attribute, ours, theirs = coded(["1", "N", "2", "N", ""], ["2", "M", "", "N", "7"])
    assert (attribute.size, attribute.null_code) == (6, 5)  # 1, 2, beyond them, N, other text, missing
    assert (ours, theirs) == ([0, 3, 1, 3, 5], [1, 4, 5, 3, 2])


@pytest.mark.parametrize(
    ("real", "synthetic", "size", "codes"),
    [
        (["a", "b"], ["b"], 2, [1]),
        ([True, False], ["True"], 2, [0]),
        ([0, 1], [1, 0], 2, [1, 0]),
        (["a", None], ["a"], 2, [0]),
        (pa.array([None, None], pa.string()), [""], 2, [1]),
        (["a", "a"], ["z"], 2, [1]),
    ],
)
def test_no_code_is_left_empty(real: Any, synthetic: Any, size: int, codes: list[int]) -> None:
    """A column of two values has two codes, as a parity needs."""
    attribute, _, theirs = coded(real, synthetic)
    assert attribute.size == size
    assert sorted(theirs) == sorted(codes)


def test_rare_texts_share_a_code() -> None:
    real = [f"t{i:03}" for i in range(MAX_TEXTS + 50) for _ in range(1 + (i >= 50))]
    attribute, ours, _ = coded(real, ["new"])
    assert attribute.size == MAX_TEXTS + 1 and not attribute.ordered
    assert [code == MAX_TEXTS for code in ours] == [text < "t050" for text in real]
