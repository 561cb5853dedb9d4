"""The engine: without noise it finds the table's marginals; with any noise it spends, offers and grows by
public facts and within its limits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.asked import request_of
from support.fakes import FakeNoise
from support.marks import others_slow
from support.naive import count

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.mechanisms import course
from factored_mwem.mechanisms import eligible as offer
from factored_mwem.mechanisms import tree as engine
from factored_mwem.mechanisms.limits import Machine, limits_of
from factored_mwem.mechanisms.plan import Plan
from factored_mwem.mechanisms.result import Fitted
from factored_mwem.mechanisms.rounds import Progress
from factored_mwem.mechanisms.tree import find_views
from factored_mwem.pipeline.release import make
from factored_mwem.privacy.counts import PrivateRows, bytes_of
from factored_mwem.privacy.session import Eligible, Session
from factored_mwem.request.policy import Policy
from factored_mwem.request.request import Request
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload

Codes = list[np.ndarray]


@cache
def budget_of(epsilon: float, delta: float) -> Budget:
    return Budget.of(epsilon, delta)


@dataclass
class Ran:
    """A run of the engine, and everything public that it decided on its way."""

    outcome: Fitted
    session: Session
    reports: list[Progress]
    candidates: Candidates
    views: list[Candidates] = field(default_factory=list)
    offered: list[list[int]] = field(default_factory=list)

    @property
    def chosen(self) -> list[tuple[int, ...]]:
        return [m.positions for m in self.outcome.measurements]


def run(
    codes: Codes, shape: tuple[int, ...], order: int | Workload = 2, *, noise: Any = None, **choices: Any
) -> Ran:
    policy = Policy.of(**choices)
    domain = Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})
    workload = Workload.marginals(order) if isinstance(order, int) else order
    candidates = workload.candidates(domain)
    budget = budget_of(policy.epsilon, policy.delta)
    session = Session(Accountant(budget), policy.unit, noise or FakeNoise(budget.composition))
    ran = Ran(None, session, [], candidates)  # type: ignore[arg-type]
    views, select = engine.find_views, Session.select

    def seeing_views(*arguments: Any) -> Candidates:
        ran.views.append(views(*arguments))
        return ran.views[-1]

    def seeing_offers(self: Session, counts: Any, answers: Any, eligible: Eligible, **rest: Any) -> int:
        ran.offered.append(eligible.which.tolist())
        return select(self, counts, answers, eligible, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(course, "one_shot_suits", lambda *_: False)  # the rounds are what is looked at here
        patch.setattr(engine, "find_views", seeing_views)
        patch.setattr(Session, "select", seeing_offers)
        request = request_of(None, workload, policy, domain)  # type: ignore[arg-type]
        limits = limits_of(candidates, policy, Machine(1e9, 0.0))
        asked = Plan(request, domain, None, candidates, limits=limits)  # type: ignore[arg-type]
        ran.outcome = engine.fit(
            replace(session, _rows=PrivateRows.coded(codes, domain)), asked, ran.reports.append
        )
    return ran


def table_of(shape: tuple[int, ...], rows: int, seed: int) -> Codes:
    """A table in which every attribute follows the one before it, more or less, and some values are rare."""
    rng = np.random.default_rng(seed)
    columns: Codes = []
    for size in shape:
        fresh = rng.choice(size, size=rows, p=rng.dirichlet(np.full(size, 0.7)))
        follow = rng.random(rows) < 0.6
        columns.append(
            (np.where(follow, (columns[-1] + 1) % size, fresh) if columns else fresh).astype(np.uint8)
        )
    return columns


def as_rows(codes: Codes) -> list[tuple[int, ...]]:
    return list(zip(*(c.tolist() for c in codes), strict=True))


# ---- it learns


@pytest.mark.parametrize(
    "shape", [(3, 4, 2), (2, 2, 2, 2, 2), (5, 1, 3, 2), (30, 3, 4), (14, 15, 2)], ids=str
)
@pytest.mark.parametrize("delta", [1e-9, 0.0])
def test_without_noise_the_marginals_come_out_right(shape: tuple[int, ...], delta: float) -> None:
    """With claimed noise below a row, every two-way marginal ends within a thirtieth of the rows, L1."""
    codes, rows, learnt = table_of(shape, 4000, 1), 4000, 0.0
    ran = run(codes, shape, epsilon=1000.0, delta=delta)
    for pair in itertools.combinations(range(len(shape)), 2):
        true = np.array(count(as_rows(codes), shape, pair))
        independent = np.outer(
            np.bincount(codes[pair[0]], minlength=shape[pair[0]]),
            np.bincount(codes[pair[1]], minlength=shape[pair[1]]),
        )
        gap = float(np.abs(ran.outcome.model.marginal(pair) - true).sum())
        assert gap <= rows / 30
        learnt = max(learnt, float(np.abs(independent.ravel() / rows - true).sum()) - gap)
    assert learnt > 0.1 * rows, "nothing to learn here"
    assert ran.outcome.model.total == pytest.approx(rows)


def test_what_is_measured_is_what_the_model_answers_worst() -> None:
    """The first choice among pairs of which one only is dependent."""
    rng = np.random.default_rng(2)
    a, b, c = rng.integers(0, 3, 3000), rng.integers(0, 3, 3000), rng.integers(0, 3, 3000)
    columns = (a, b, (a + (rng.random(3000) < 0.1)) % 3, c)
    ran = run([column.astype(np.uint8) for column in columns], (3, 3, 3, 3), epsilon=5.0, rounds=1)
    assert ran.chosen[-1] == (0, 2) and ran.outcome.rounds == 1


def test_a_large_attribute_is_measured_at_a_level() -> None:
    """Where noise drowns the fine cells, a level is chosen, and it helps the fine marginal, too."""
    rng = np.random.default_rng(3)
    a = rng.integers(0, 200, 3000)
    codes = [a.astype(np.uint8), (a // 50).astype(np.uint8)]
    ran = run(codes, (200, 4), epsilon=1.0)
    levels = ran.outcome.model.levels
    assert any(len(view) == 2 and view[0] >= 2 for view in ran.chosen), [
        levels.names(("a", "b"))[v] for view in ran.chosen for v in view
    ]
    true = np.bincount(a * 4 + a // 50, minlength=800)
    alone = (
        np.outer(ran.outcome.model.marginal((0,)), ran.outcome.model.marginal((1,))).ravel()
        / ran.outcome.model.total
    )
    assert np.abs(ran.outcome.model.marginal((0, 1)) - true).sum() < np.abs(alone - true).sum() / 2


# ---- it spends within its budget

PROMISES = [
    {"neighbours": relation, "contributions": k, "delta": delta}
    for relation in ("add-remove", "replace")
    for k in (1, 3)
    for delta in (1e-9, 0.0)
]


@pytest.mark.parametrize("promise", PROMISES, ids=str)
@pytest.mark.parametrize("rounds", [None, 1, 7])
def test_charges_add_up_to_the_budget_and_not_beyond(promise: dict[str, Any], rounds: int | None) -> None:
    """Every reading is an entry at its sampler's scale. That each has the sensitivity of its kind,
    tests/privacy/test_charges.py shows.
    """
    shape = (4, 3, 25, 2)
    rng = np.random.default_rng(5)
    fake = FakeNoise(
        Composition.PURE if promise["delta"] == 0 else Composition.ZCDP,
        offset=lambda values, scale: values + np.rint(rng.normal(0, scale, len(values))).astype(np.int64),
    )
    ran = run(table_of(shape, 2000, 2), shape, 3, noise=fake, rounds=rounds, epsilon=2.0, **promise)
    ledger, unit = ran.session.accountant, ran.session.unit
    assert ledger.spent == sum((e.cost for e in ledger.entries), Fraction(0)) <= ledger.budget.amount
    assert ledger.left < ledger.budget.amount / 10**9, "what is not spent is lost"
    assert [e.scale for e in ledger.entries] == [c.scale for c in fake.calls]
    measured = [e for e in ledger.entries if e.stage == "measure"]
    names = ran.outcome.model.levels.names(ran.candidates.domain.names)
    own = ran.outcome.measurements if unit.total_is_public else [None, *ran.outcome.measurements]
    for entry, m in zip(measured, own, strict=True):
        if m is not None:
            assert entry.scale == m.scale.value and entry.target == tuple(names[v] for v in m.positions)
    selected = [e for e in ledger.entries if e.stage == "select"]
    assert len(selected) == ran.outcome.rounds == len(ran.reports) >= 1
    if rounds is not None:
        assert ran.outcome.rounds == rounds


@pytest.mark.parametrize("rounds", [1, 2, 5, 60])
def test_as_many_rounds_as_asked(rounds: int) -> None:
    """Also where that is more often than there are views: a marginal can be measured again."""
    ran = run(table_of((3, 2, 2), 500, 3), (3, 2, 2), rounds=rounds)
    assert ran.outcome.rounds == rounds and [r.round for r in ran.reports] == list(range(1, rounds + 1))
    assert all(r.rounds == rounds for r in ran.reports)
    spent = [r.spent for r in ran.reports]
    assert spent == sorted(spent) and spent[-1] == pytest.approx(1, abs=1e-9)
    costs = [float(e.cost) for e in ran.session.accountant.entries if e.stage == "measure"][-rounds:]
    assert max(costs) == pytest.approx(min(costs), rel=1e-6)


@pytest.mark.parametrize("adds", [0, 10**6, -(10**6)])
def test_annealed_rounds_end_well_on_adversarial_measurements(adds: int) -> None:
    """Pure noise and pure signal: no run may end in a refusal or go on for ever."""
    for promise in ({}, {"neighbours": "replace"}, {"delta": 0.0}):
        noise = FakeNoise(Composition.PURE if "delta" in promise else Composition.ZCDP, offset=adds)
        ran = run(table_of((3, 2, 2), 300, 4), (3, 2, 2), noise=noise, **promise)
        assert (adds >= 0) <= ran.outcome.rounds <= 60, (
            "where no row seems to be left, nothing is worth a round"
        )
        assert 0 <= ran.session.accountant.left < ran.session.accountant.budget.amount / 10**9
        assert np.isfinite(ran.outcome.model.marginal((0, 1, 2))).all()


# ---- it decides by public facts

Winner = Callable[[np.ndarray, float], int]


def scripted(seed: int, *, peeks: str = "") -> FakeNoise:
    """Answers and choices that owe nothing to the table: from a seed, by length. `peeks` plants a leak."""
    rng = np.random.default_rng(seed)

    def winner(scores: np.ndarray, scale: float) -> int:
        drawn = int(rng.integers(len(scores)))
        return int(np.argmax(scores)) if peeks == "choice" else drawn

    def answer(values: np.ndarray, scale: float) -> np.ndarray:
        drawn = rng.integers(-5, 200, size=len(values))
        return drawn + values if peeks == "answer" else drawn

    return FakeNoise(winner=winner, offset=answer)


def decisions(ran: Ran) -> dict[str, Any]:
    """All that a reader of the outcome, of the reports or of the clock could tell runs apart by."""
    model = ran.outcome.model
    return {
        "levels": [group.tolist() for group in model.levels.groups],
        "views": [views.members.tolist() for views in ran.views],
        "bases": [views.base_of.tolist() for views in ran.views],
        "offered": ran.offered,
        "chosen": ran.chosen,
        "costs": [e.cost for e in ran.session.accountant.entries],
        "reports": ran.reports,
        "cliques": [part.tree.cliques for part in model.components],
        "beliefs": [part.beliefs.cliques.tolist() for part in model.components],
        "total": model.total,
    }


def differing(shape: tuple[int, ...], seed: int, relation: str, *, peeks: str = "") -> set[str]:
    """In what two runs on different tables differ, with the same script of noisy answers."""
    rows = (700, 700) if relation == "replace" else (700, 5)
    tables = [table_of(shape, n, 10 * seed + i) for i, n in enumerate(rows)]
    choices = {"neighbours": relation, "epsilon": 3.0, "max_cells": 600}
    ours, theirs = (
        decisions(run(codes, shape, 2, noise=scripted(seed, peeks=peeks), **choices)) for codes in tables
    )
    return {name for name in ours if ours[name] != theirs[name]}


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("seed", others_slow(range(4), lambda seed: seed < 2))
def test_every_decision_is_made_by_noisy_answers_alone(relation: str, seed: int) -> None:
    """Two tables that share no row: with the same noisy answers, levels, views, offers, prices, trees and
    beliefs are the same to the last bit.
    """
    assert differing((30, 4, 25, 2, 3), seed, relation) == set()


def test_the_check_of_decisions_sees_a_leak() -> None:
    assert "chosen" in differing((30, 4, 25, 2, 3), 1, "replace", peeks="choice")
    assert {"levels", "beliefs"} <= differing((30, 4, 25, 2, 3), 1, "replace", peeks="answer")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_all_trees_together_stay_within_the_cap(seed: int) -> None:
    """At every report and at the end, whatever is chosen; and what is offered says so beforehand."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(s) for s in rng.integers(1, 9, size=7))
    cap = int(sum(shape) + rng.integers(0, 400))
    fake = FakeNoise(winner=lambda scores, scale: int(rng.integers(len(scores))))
    ran = run(table_of(shape, 900, seed), shape, 3, noise=fake, max_cells=cap, rounds=40, epsilon=30.0)
    assert max(r.cells for r in ran.reports) <= cap
    model = ran.outcome.model
    assert model.cells == sum(sum(part.tree.cells) for part in model.components) == ran.reports[-1].cells
    assert ran.reports[-1].largest == max(c for part in model.components for c in part.tree.cells)
    assert ran.reports[-1].cliques == sum(len(part.tree.cliques) for part in model.components)
    assert ran.reports[-1].components == len(model.components)


def test_a_cap_that_only_the_attributes_fit_measures_them_again() -> None:
    shape = (5, 4, 3)
    ran = run(table_of(shape, 500, 1), shape, 2, max_cells=12, rounds=4)
    assert {len(view) for view in ran.chosen} == {1} and ran.outcome.model.cells == 12


# ---- edges


def edge(shape: tuple[int, ...], rows: int, seed: int = 0) -> Codes:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, s, rows).astype(np.uint8) for s in shape]


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 1), (1, 1, 1), (40, 2), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("rows", others_slow([50, 1000], lambda rows: rows == 50))
@pytest.mark.parametrize("choices", [{}, {"neighbours": "replace"}, {"delta": 0.0}, {"rounds": 1}], ids=str)
def test_small_domains(shape: tuple[int, ...], rows: int, choices: dict[str, Any]) -> None:
    """One column, attributes of one value, every order: a distribution comes out."""
    for order in range(1, len(shape) + 1):
        model = run(edge(shape, rows), shape, order, epsilon=20.0, **choices).outcome.model
        whole = model.marginal(tuple(range(len(shape))))
        assert whole.sum() == pytest.approx(model.total) and (whole >= 0).all() and np.isfinite(whole).all()
        assert model.total == pytest.approx(rows)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_next_to_no_rows_is_no_error(rows: int, relation: str, order: int) -> None:
    """A refusal would tell. With one row or none, all noise exceeds the largest error there can be."""
    ran = run(edge((3, 2, 30), rows), (3, 2, 30), order, neighbours=relation)
    assert np.isfinite(ran.outcome.model.marginal((0, 1))).all() and ran.outcome.model.total >= 1
    if order == 1:
        assert ran.chosen == [(0,), (1,), (2,)] and ran.outcome.rounds == 0
        assert ran.session.accountant.left < ran.session.accountant.budget.amount / 10**9


def test_columns_of_nothing_but_nulls() -> None:
    fields = [
        {"name": "a", "type": "integer", "categories": [1, 2]},
        {"name": "b", "categories": ["x", "y"]},
        {"name": "c", "type": "boolean"},
    ]
    table = pa.table(
        {
            "a": pa.array([None] * 500, pa.int64()),
            "b": pa.array([None] * 500, pa.string()),
            "c": [True, False] * 250,
        }
    )
    domain = {"fields": fields}
    request = Request.of(table, 2, domain=domain, epsilon=5.0, rows=100, sample_seed=1)
    out = make(request, noise=FakeNoise()).to_arrow()
    assert out["a"].null_count >= 98 and out["b"].null_count >= 98 and out["c"].null_count <= 2


@pytest.mark.parametrize("order", others_slow([2, 3], lambda order: order == 2))
def test_a_domain_of_ten_to_the_three_hundred_cells(order: int) -> None:
    """300 attributes of 10 codes: only what is asked for takes room, and far ends have marginals."""
    rng = np.random.default_rng(1)
    shape = (10,) * 300
    first = rng.integers(0, 10, 2000)
    codes = [
        np.where(rng.random(2000) < 0.8, first, rng.integers(0, 10, 2000)).astype(np.uint8) for _ in shape
    ]
    names = [f"a{i}" for i in range(300)]
    asked = Workload.of([names[i : i + order] for i in range(300 - order + 1)])
    ran = run(codes, shape, asked, epsilon=200.0, rounds=20)
    assert ran.outcome.rounds == 20 and ran.reports[-1].components < 300
    for view in ((0, 299), (0, 1), (0, 100, 200, 299)):
        assert ran.outcome.model.marginal(view).sum() == pytest.approx(ran.outcome.model.total)


# ---- what a round is offered


@pytest.mark.parametrize("most", [1, 4, 5, 7, 14, 15, 16])
def test_turns_cover_every_view(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a round cannot look at all views, rounds take turns, until each has been offered."""
    monkeypatch.setattr(offer, "MAX_TURN", most)
    monkeypatch.setattr(offer, "MIN_TURN", 1, raising=False)
    shape = (3, 2, 2, 2, 3)
    turns = -(-15 // most)
    ran = run(table_of(shape, 3000, 9), shape, 2, rounds=max(turns, 3), epsilon=200.0)
    assert len(ran.views[0]) == 15 and all(0 < len(offered) <= most for offered in ran.offered)
    assert all(offered == sorted(set(offered)) for offered in ran.offered)
    assert {c for offered in ran.offered[:turns] for c in offered} == set(range(15))


@pytest.mark.parametrize("memory", [1e9, 3e5, 1e5])
def test_views_are_fewer_where_memory_is_short(memory: float) -> None:
    """Cells are halved until the counts fit; with memory to spare nothing is left out."""
    shape = (40, 30, 20, 5)
    domain = Domain.from_dict({f"a{i}": s for i, s in enumerate(shape)})
    candidates = Workload.marginals(3).candidates(domain)
    levels = Levels.of(shape, [[np.arange(s) // 4] if s > 5 else [] for s in shape])
    views = find_views(candidates, levels, 1e9, memory)
    most = max((views.cells[c] for c in range(len(views))), default=0)
    assert (len(views) == candidates.combinations(levels.chains)) == (most == 40 * 30 * 20)
    assert {views.positions(c) for c in range(len(views))} == {
        v for v in every_view(candidates, levels) if levels.cells(v) <= most
    }


def test_pairs_may_have_more_cells_than_others() -> None:
    """Those that are too large otherwise are counted by themselves, smaller or none where memory is short."""
    shape = (40, 30, 20, 5)
    candidates = Workload.marginals(3).candidates(Domain.from_dict({f"a{i}": s for i, s in enumerate(shape)}))
    levels = Levels.of(shape, [[np.arange(s) // 4] if s > 5 else [] for s in shape])
    few, views = (find_views(candidates, levels, 150, 1e9, None, most) for most in (0.0, 800.0))
    found = {views.positions(c) for c in range(len(views))}
    assert found == {
        v for v in every_view(candidates, levels) if levels.cells(v) <= (800 if len(v) == 2 else 150)
    }
    assert len(found) == len(views) > len(few)
    for c in range(len(views)):
        base = views.positions(int(views.base_of[c]))
        assert all(levels.holds(base, v) is not None for v in views.positions(c))
        assert (levels.cells(base) <= 150) == (views.cells[c] <= 150), "nothing large is scored for the small"
    assert len(find_views(candidates, levels, 150, bytes_of(few), None, 800.0)) == len(few)
    assert len(few) < len(find_views(candidates, levels, 150, bytes_of(views) - 1, None, 800.0)) < len(views)


def test_finer_pairs_are_offered_once_a_coarser_one_is_measured() -> None:
    """The second of sixty values follows the first nearly always: eight groups are measured before sixty."""
    rng = np.random.default_rng(3)
    first, other = (rng.integers(60, size=4000).astype(np.uint8) for _ in range(2))
    second = (first + rng.integers(2, size=4000)).astype(np.uint8) % 60
    ran = run([first, second, other], (60, 60, 60), epsilon=2.0)
    views = ran.views[0]
    large = set(np.flatnonzero(views.cells > 32**2).tolist())
    chosen = [m.positions for m in ran.outcome.measurements[3:]]
    pairs = [tuple(views.levels.attribute[list(view)].tolist()) for view in chosen]
    late = [large & set(offered) for offered in ran.offered]
    for round_, offered in enumerate(late):
        of = {tuple(views.levels.attribute[list(views.positions(c))].tolist()) for c in offered}
        assert of <= set(pairs[:round_])
    assert any(late), "or the test would hold for nothing"
    cells = [views.levels.cells(view) for view, pair in zip(chosen, pairs, strict=True) if pair == (0, 1)]
    assert cells[0] == 64 and max(cells) > 1024


def every_view(candidates: Candidates, levels: Levels) -> set[tuple[int, ...]]:
    return {
        v
        for c in range(len(candidates))
        for v in itertools.product(*(levels.chains[a] for a in candidates.positions(c)))
    }


def test_views_have_fewer_levels_where_they_would_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """First the middle of long chains goes, then all but the coarsest."""
    shape = (12, 12, 3)
    domain = Domain.from_dict({f"a{i}": s for i, s in enumerate(shape)})
    candidates = Workload.marginals(2).candidates(domain)
    levels = Levels.of(
        shape, [[np.arange(12) // 2, np.arange(12) // 6], [np.arange(12) // 2, np.arange(12) // 6], []]
    )
    for most, used in ((10**6, [0, 1, 2, 3, 4, 5, 6]), (20, [0, 1, 2, 4, 6]), (3, [2, 4, 6])):
        monkeypatch.setattr(engine, "MAX_VIEWS", most)
        views = find_views(candidates, levels, 1e9, 1e12)
        assert sorted(set(views.members.ravel().tolist()) - {-1}) == used
