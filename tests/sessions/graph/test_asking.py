"""Cuts one by one: accuracy, what is paid for, and that hypotheses help."""

from __future__ import annotations

import numpy as np
import pytest
from support.drawing import drawing
from support.fakes import FakeNoise
from support.graphs import packed, random_graph

from factored_mwem.accounting.conversion import Composition
from factored_mwem.errors import BudgetExceeded, InputError
from factored_mwem.sessions.graph import Cut, cuts

N = 60
GRAPH = random_graph(np.random.default_rng(1), N, 0.3)
ENDS = np.argwhere(np.triu(GRAPH))
KINDS = ["frieze-kannan", "multiplicative-weights"]


def truth(cut: Cut) -> int:
    return int(packed(GRAPH)[cut.holds(*np.triu_indices(N, 1))].sum())


def stream(count: int, seed: int = 2) -> list[Cut]:
    """Cuts between two halves of random vertices."""
    rng = np.random.default_rng(seed)
    return [Cut(side, ~side) for side in rng.random((count, N)) < 0.5]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_within_the_bound(kind: str) -> None:
    """beta = 1e-10 each: none of 100 may fail."""
    with cuts(ENDS, N, alpha=0.2, beta=1e-10, hypothesis=kind, epsilon=20.0) as session:  # type: ignore[arg-type]
        for cut in stream(100):
            told = session.cut(cut)
            assert abs(told.value - truth(cut)) <= told.bound == session.alpha
        assert session.counts["model"] > 60 and session.spent <= 20.0
        again = session.cut(stream(1)[0])
    assert again.source == "cached" and again.spent == told.spent


@pytest.mark.parametrize("kind", KINDS)
def test_a_hypothesis_learns(kind: str) -> None:
    """Without noise: what it was told it knows, and later cuts of the kind cost nothing more."""
    asked = cuts(ENDS, N, alpha=0.15, beta=0.01, hypothesis=kind, epsilon=50.0)  # type: ignore[arg-type]
    with drawing(FakeNoise(Composition.PURE)), asked as session:
        sources = [session.cut(cut).source for cut in stream(80)]
        first = stream(1)[0]
        assert abs(session.believed.answer(first) - truth(first)) <= session.alpha
    assert "measured" in sources[:10] and sources[-40:].count("model") >= 38


def test_a_spent_budget_ends_the_answers_but_not_those_that_are_known() -> None:
    with cuts(ENDS, N, alpha=0.03, beta=0.01, epsilon=0.8) as session:
        told = session.cut(range(30))
        with pytest.raises(BudgetExceeded, match="not enough"):
            for size in range(1, 60):
                session.cut(range(size), [59])
        assert session.cut(range(30)).value == told.value


def test_what_makes_no_sense_is_refused() -> None:
    for options in ({"alpha": 0.0}, {"alpha": 1.5}, {"hypothesis": "guess"}, {"beta": 0.9}, {"run_id": "x"}):
        with pytest.raises(InputError) as error, cuts(ENDS, N, epsilon=1.0, **options):  # type: ignore[arg-type]
            pass
        assert not error.value.budget_spent


def test_a_graph_too_large_for_all_pairs_is_asked_all_the_same() -> None:
    ends = np.random.default_rng(3).integers(0, 30_000, (60_000, 2))
    with cuts(ends, 30_000, alpha=0.1, epsilon=1.0) as session:
        told = session.cut(range(15_000))
    assert abs(told.value - 30_000) <= told.bound + 600
