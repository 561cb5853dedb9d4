"""The replay of Gupta, Roth and Ullman: bounds against their equation, attacks that find what is wrong, marks
that follow their rows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replay import attacks, iterative
from replay.bounds import BETA, DELTA, EPSILON, FK, MEDIAN, MW, accuracy, cut_bounds
from replay.figure import FAILS, HOLDS

from factored_mwem.interactive.constructions import FriezeKannan, MultiplicativeWeights


@pytest.mark.parametrize("queries", [2, 50, 10**6])
def test_accuracies_solve_the_paper_s_equation(queries: int) -> None:
    """Equation (3), alpha = 3000 sqrt(B(alpha)) log(4 / delta) log(2 k / beta) / epsilon, with each
    construction's own B; the median's is n^2 log k log |X| / alpha^2.
    """
    n, elements, log_queries = 1e9, 512, math.log(2 * queries / BETA)
    norm = n / 10
    alphas = {
        "mw": accuracy(n, elements, log_queries),
        "fk": accuracy(n, elements, log_queries, norm=norm),
        "median": accuracy(n, elements, log_queries, median=True),
    }
    made = {
        "mw": MultiplicativeWeights(elements, n, alphas["mw"]).bound,
        "fk": FriezeKannan(elements, norm, alphas["fk"]).bound,
        "median": lambda alpha: n**2 * math.log(queries) * math.log(elements) / alpha**2,
    }
    for name, alpha in alphas.items():
        right = 3000 * math.sqrt(made[name](alpha)) * math.log(4 / DELTA) * log_queries / EPSILON
        assert alpha == pytest.approx(right, rel=1e-9)


def test_cut_bounds_have_the_paper_s_shapes() -> None:
    """Corollaries on graphs: sqrt(|E| |V|), |V| |E|^(1/4), |V|^1.5, up to logarithms."""
    for name, in_edges, in_vertices in ((MW, 0.5, 0.5), (FK, 0.25, 1.0), ("randomised response", 0.0, 1.5)):
        small, more_edges, larger = cut_bounds(10**5, 1e8), cut_bounds(10**5, 1.6e9), cut_bounds(10**6, 1e8)
        assert more_edges[name] / small[name] == pytest.approx(16**in_edges, rel=1e-9)
        assert larger[name] / small[name] == pytest.approx(10**in_vertices, rel=0.06)


@pytest.mark.parametrize("construction", [MW, FK, MEDIAN])
@pytest.mark.parametrize("adversary", iterative.STYLES)
def test_an_attack_asks_only_what_is_wrong_and_ends_where_nothing_is(
    construction: str, adversary: str
) -> None:
    case = {
        "what": "updates",
        "construction": construction,
        "adversary": adversary,
        "alpha": 1 / 8,
        "seed": 3,
    }
    rows = attacks.attacked(case)
    assert rows == attacks.attacked(case)
    assert [row["updates"] for row in rows] == sorted({row["updates"] for row in rows})
    assert [row["last"] for row in rows] == [0] * (len(rows) - 1) + [1]
    assert all(row["error"] >= 1 / 8 for row in rows[:-1]) and rows[-1]["error"] < 1 / 8
    assert 0 < rows[-1]["updates"] <= rows[-1]["bound"]


def test_a_construction_that_learns_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that steps the wrong way: neither ends, and the mark is that it does not hold."""

    class Deaf(MultiplicativeWeights):
        def update(self, query: np.ndarray, value: float) -> None:
            pass

    class Wrong(MultiplicativeWeights):
        def update(self, query: np.ndarray, value: float) -> None:
            super().update(query, math.inf if value < self.answer(query) else -math.inf)

    case = {"what": "updates", "construction": MW, "adversary": "greedy", "alpha": 1 / 8, "seed": 3}
    others = [row for row in rows_of_all() if (row["what"], row["construction"]) != ("updates", MW)]
    monkeypatch.setattr(attacks, "MOST", 1200)  # B(n / 8) = 1064
    for broken in (Deaf, Wrong):
        monkeypatch.setattr(attacks, "_made", lambda name, table, n, alpha, kind=broken: kind(64, n, alpha))
        assert iterative.judge(attacks.attacked(case) + others)[0].verdict == FAILS
    monkeypatch.undo()
    assert iterative.judge(attacks.attacked(case) + others)[0].verdict == HOLDS


@pytest.mark.parametrize("construction", [MW, FK])
@pytest.mark.parametrize("adversary", iterative.ONLINE)
def test_algorithm_1_keeps_its_promise(construction: str, adversary: str) -> None:
    """Theorem 4.9, on one run of each."""
    case = {"what": "online", "construction": construction, "adversary": adversary, "queries": 100, "seed": 7}
    (row,) = attacks.online(case)
    assert row["error"] <= row["guaranteed"] == pytest.approx(5 / 3 * row["alpha"])
    assert 0 < row["updates"] <= min(row["bound"], 100)


def rows_of_all() -> list[dict[str, Any]]:
    ends = [
        {
            "what": "updates",
            "construction": c,
            "adversary": a,
            "alpha": alpha,
            "seed": 0,
            "updates": updates,
            "error": 0.3 / updates,
            "bound": 50.0,
            "last": updates // 9,
        }
        for c in (MW, FK, MEDIAN)
        for a in iterative.STYLES
        for alpha in (0.25, 0.125)
        for updates in (1, 9)
    ]
    numbers = {"updates": 5, "bound": 50.0, "alpha": 0.1, "error": 0.15, "guaranteed": 0.16, "seed": 0}
    runs = [
        {"what": "online", "construction": c, "adversary": a, "queries": k, **numbers}
        for c in (MW, FK)
        for a in iterative.ONLINE
        for k in (10, 100)
    ]
    return ends + runs + iterative.run({"what": "bounds"})


def _of(row: dict[str, Any], construction: str) -> bool:
    """A bound for cuts, of a construction."""
    return row["what"] == "cuts" and row["construction"] == construction


Spoil = Callable[[dict[str, Any]], dict[str, Any]]
MARKS: dict[str, tuple[int, Spoil]] = {
    "longer": (0, lambda r: {"updates": 51} if r.get("last") and r["construction"] == MW else {}),
    "not done": (1, lambda r: {"error": 0.2} if r.get("last") and r["construction"] == FK else {}),
    "median, longer": (2, lambda r: {"updates": 51} if r.get("last") and r["construction"] == MEDIAN else {}),
    "off": (3, lambda r: {"error": 0.17} if r["what"] == "online" else {}),
    "too many updates": (3, lambda r: {"updates": 51} if r["what"] == "online" else {}),
    "never better": (
        4,
        lambda r: {"share": 10 * r["share"]} if _of(r, FK) else {},
    ),
    "better at another order": (
        4,
        lambda r: {"share": r["share"] * r["vertices"] ** 0.1} if _of(r, MW) else {},
    ),
    "does not vanish": (
        5,
        lambda r: {"share": 0.5} if _of(r, MW) else {},
    ),
    "above all edges": (
        5,
        lambda r: {"share": 3 * r["share"]} if _of(r, MW) else {},
    ),
}


@pytest.mark.parametrize(("claim", "spoil"), MARKS.values(), ids=MARKS)
def test_marks_follow_the_rows(claim: int, spoil: Spoil) -> None:
    good = rows_of_all()
    assert iterative.judge(copy.deepcopy(good))[claim].verdict == HOLDS
    assert iterative.judge([{**row, **spoil(row)} for row in good])[claim].verdict == FAILS


def test_nothing_holds_of_no_rows() -> None:
    assert {claim.verdict for claim in iterative.judge([])} == {FAILS}


def test_it_is_drawn_and_tabled_from_its_rows(tmp_path: Path) -> None:
    iterative.plot(rows_of_all(), tmp_path / "figure.png")
    assert len(list(tmp_path.glob("figure-*.png"))) == 6
    (table,) = iterative.tables(rows_of_all())
    assert len(table.rows) == 6 and all(len(row) == len(table.header) for row in table.rows)
    assert list(table.rows[0]) == [MW, "n / 4", "9", "9", "9", "50"]


def test_cases_are_different_and_fewer_when_quick() -> None:
    for full in (False, True):
        cases = [repr(case) for case in iterative.cases(full)]
        assert len(set(cases)) == len(cases)
    assert len(iterative.cases(False)) < len(iterative.cases(True))
