"""Counts that are all known beforehand: what one person moves, what is promised, charged and refused."""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.drawing import drawing
from support.fakes import FakeNoise

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.other import sets
from factored_mwem.privacy.other.sets import PrivateSets
from factored_mwem.sessions.online import answer_known, answer_known_keys

SMALL = {"a": 3, "b": 2}
ASKED = ["count where a = 2", "count where b = 0 and a = 1", "count where b = 1"]
TABLE = pa.table({
    "a": [0, 1, 2, 2] * 500, "b": [0, 0, 1, 1] * 250 + [1, 0, 0, 1] * 250, "key": ["x", "y", "z", None] * 500
})  # fmt: skip
TRUTH = [1000, 500, 1000]
KEYS, OF_KEYS = [["none"], ["x"], ["y", "z"]], [0, 500, 1000]


def answered(fake: FakeNoise | None, keys: bool = False, **options: Any) -> Any:
    given = {"epsilon": 50.0, "delta": 0.0, **options}
    with drawing(fake or FakeNoise(Composition.PURE)):
        if keys:
            return answer_known_keys(TABLE, "key", KEYS, **given)
        return answer_known(TABLE.select(["a", "b"]), ASKED, SMALL, **given)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_what_one_row_moves_over_all_neighbours(relation: str) -> None:
    """Counts, and scores against answers that are no whole numbers, of all tables of up to three rows. A set
    that counts its rows twice is the planted bug.
    """
    cells = list(itertools.product(range(3), range(2)))
    sets = np.random.default_rng(0).random((5, 6)) < 0.5
    believed = np.random.default_rng(1).uniform(0, 3, 5)
    domain, unit = Domain.from_dict(SMALL), Unit(Neighbours(relation))
    found: dict[int, float] = {}

    @functools.cache
    def read(rows: tuple[tuple[int, int], ...], doubled: int) -> tuple[np.ndarray, np.ndarray]:
        codes = [np.array([row[k] for row in rows], dtype=np.uint8) for k in (0, 1)]
        contents = PrivateSets.of_cells(PrivateRows.coded(codes, domain), sets).reveal()
        every = [contents.exact(q)[0] for q in (*range(5), None)]
        return doubled * np.array(every), contents.scores(believed) / 2**20

    for count in range(3):
        for kept in itertools.combinations_with_replacement(cells, count):
            for one in cells:
                others = [(*kept, other) for other in cells] if relation == "replace" else [kept]
                for other in others:
                    for doubled in (1, 2):
                        (a, s), (b, t) = read((*kept, one), doubled), read(other, doubled)
                        moved = max(np.abs(a - b).max(), np.abs(s - t).max())
                        found[doubled] = max(found.get(doubled, 0.0), float(moved))
    assert found[1] == unit.of_counting_query == 1 and found[2] == 2


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize(("delta", "composition"), [(0.0, Composition.PURE), (1e-9, Composition.ZCDP)])
def test_without_noise_all_answers_keep_the_bound(keys: bool, delta: float, composition: Composition) -> None:
    """Two readings before each update, of one price each, after one count of all records."""
    told = answered(FakeNoise(composition), keys, delta=delta, epsilon=9000.0)
    truth = OF_KEYS if keys else TRUTH
    assert told.bound is not None and told.updates > 0
    assert np.abs(told.values - truth).max() < told.bound < 1000
    charges = told.statement.ledger
    assert [c.stage for c in charges] == ["measure", *["select", "measure"] * (told.updates + 1)]
    assert len({c.scale for c in charges[1::2]}) == len({c.scale for c in charges[2::2]}) == 1
    assert told.statement.recompute() <= 9000 and told.statement.kind == "known"


@pytest.mark.parametrize("keys", [False, True])
def test_all_answers_keep_the_bound_with_real_noise(keys: bool) -> None:
    """Eight runs, in each of which the bound fails, or is not given, with probability 1e-10 at most."""
    truth = OF_KEYS if keys else TRUTH
    for _ in range(8):
        given: dict[str, Any] = {"epsilon": 300.0, "delta": 0.0, "beta": 1e-10}
        if keys:
            told = answer_known_keys(TABLE, "key", KEYS, **given)
        else:
            told = answer_known(TABLE.select(["a", "b"]), ASKED, SMALL, **given)
        assert told.bound is not None and np.abs(told.values - truth).max() <= told.bound


def test_the_median_answers_a_few_cells() -> None:
    told = answered(None, hypothesis="median", epsilon=5.0)
    assert told.bound is not None and np.abs(told.values - TRUTH).max() <= told.bound
    with pytest.raises(ResourceError, match="for a few cells"):
        answer_known(TABLE, ["count where a = 2"], {"a": 3000}, hypothesis="median", epsilon=1.0)


def test_where_the_updates_are_used_up_nothing_is_promised() -> None:
    """Noise beyond its tails, which never lets it stop: all that was paid for is read, and not more."""
    noise = itertools.chain([0], itertools.cycle([100_000, -100_000]))  # the number of records is right
    told = answered(FakeNoise(Composition.PURE, offset=lambda values, _: values + next(noise)))
    assert told.bound is None and 0.99 * 50 < told.statement.recompute() <= 50.0
    assert sum(c.stage == "select" for c in told.statement.ledger) == told.updates


def test_a_count_is_priced_for_all_rows_of_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that forgets rows of a person, the planted bug, is priced for too few."""
    honest = answered(None, contributions=3).statement.ledger[0]
    monkeypatch.setattr(sets.SealedQuery, "each", classmethod(lambda cls, n, at, most: cls(n, at, 1, 1)))
    planted = answered(None, contributions=3).statement.ledger[0]
    assert honest.sensitivity == 3 and planted.sensitivity == 1
    assert Fraction(honest.scale) > 2.9 * Fraction(planted.scale)


@pytest.mark.parametrize(
    ("questions", "options", "words"),
    [
        ([], {}, "one or more"),
        ("count", {}, "one or more"),
        (["count by a"], {}, "without `by`"),
        (["mean a"], {}, "answers counts"),
        (["count where c = 1"], {}, "c"),
        (ASKED, {"hypothesis": "guess"}, "multiplicative-weights, median"),
        (ASKED, {"beta": 0.7}, "beta=0.7"),
    ],
)
def test_refusals(questions: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        answer_known(TABLE.select(["a", "b"]), questions, SMALL, **options)


def test_refusals_of_keys_and_of_large_domains() -> None:
    for questions in ([["x"], []], [["x", 3]], ["x"]):
        with pytest.raises(InputError, match="a list of one key or more"):
            answer_known_keys(TABLE, "key", questions)
    with pytest.raises(InputError, match="q"):
        answer_known_keys(TABLE, "q", KEYS)
    with pytest.raises(ResourceError, match="too many"):
        answer_known(TABLE.select(["a", "b"]), ASKED, {"a": 5000, "b": 5000})
