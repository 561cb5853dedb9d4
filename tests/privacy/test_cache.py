"""Cached distances are those of the model now, or, where its answers take long, of a few rounds ago."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.fakes import FakeNoise
from support.releases import run
from support.tables import SMALL, WIDE, small_table

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.kernels.scoring import CAP, Answers
from factored_mwem.mechanisms import eligible as offer
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.dense import ProductModel
from factored_mwem.model.forest import Component, Forest
from factored_mwem.privacy.counts import PrivateCounts
from factored_mwem.privacy.rows import SCORE_GRID
from factored_mwem.privacy.session import Eligible, Session
from factored_mwem.request.policy import Policy
from factored_mwem.workload.workload import Workload


def check_cache(
    monkeypatch: pytest.MonkeyPatch, *, domain: Domain = SMALL, **choices: Any
) -> tuple[int, int]:
    """(rounds, rescored in part) of a release whose cached distances are compared with fresh ones."""
    models: list[ProductModel | Forest] = []
    rounds, partial = 0, 0
    answer = ModelAnswers.answers
    select = Session.select

    def remember(
        self: ModelAnswers, model: ProductModel | Forest, which: np.ndarray, *noise: float
    ) -> Answers:
        models.append(model)
        return answer(self, model, which, *noise)

    def checking(
        self: Session, counts: PrivateCounts, answers: Answers, eligible: Eligible, **rest: Any
    ) -> int:
        nonlocal rounds, partial
        chosen = select(self, counts, answers, eligible, **rest)
        offered, tables, model = eligible.which, counts.reveal(), models[-1]
        for c in offered:
            positions = tables.candidates.positions(int(c))
            held = np.floor(model.marginal(positions) * SCORE_GRID + 0.5)
            gaps = np.abs(held - tables.marginal(positions) * float(SCORE_GRID))
            exact = (gaps - np.minimum(answers.harm * SCORE_GRID, CAP * held)).sum()
            rounded = float(
                tables.candidates.cells[tables.candidates.base_of[c]]
            )  # a view's cells are sums of its base's, rounded one by one
            # a unit of the grid a cell, and CAP of what is held, for another order of products
            slack = (1 + CAP) * rounded * (1 + model.total * 1e-9)
            assert abs(tables.distances[c] - exact) <= slack
        rounds, partial = (
            rounds + 1,
            partial + (not set(tables.candidates.base_of[offered].tolist()) <= set(answers.which.tolist())),
        )
        return chosen

    with monkeypatch.context() as patch:
        patch.setattr(ModelAnswers, "answers", remember)
        patch.setattr(Session, "select", checking)
        rng = np.random.default_rng(2)
        policy = Policy.of(**{"epsilon": 5.0, **choices})
        composition = policy.budget(learn_domain=False).composition
        fake = FakeNoise(
            composition,
            offset=lambda values, scale: values + np.rint(rng.normal(0, scale, len(values))).astype(np.int64),
        )
        run(small_table(), policy, fake, domain=domain)
    return rounds, partial


@pytest.mark.usefixtures("in_rounds")
@pytest.mark.parametrize(
    "choices",
    [{"engine": "mwem", **c} for c in (
        {"rounds": 9}, {"rounds": 9, "neighbours": "replace"}, {"rounds": 9, "initial": "none"},
        {"rounds": "adaptive", "delta": 0}, {"max_cells": 40},
    )]
    + [{}, {"rounds": 9}, {"rounds": 9, "neighbours": "replace"}, {"delta": 0}, {"max_cells": 300}],
    ids=str,
)  # fmt: skip
def test_cached_distances_are_those_of_the_model_now(
    choices: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a measurement touched is scored again; everything, where the estimate of n moves."""
    rounds, partial = check_cache(monkeypatch, domain=SMALL if "engine" in choices else WIDE, **choices)
    assert rounds >= 4
    if choices.get("neighbours") == "replace" or choices.get("engine") != "mwem":
        assert partial  # the cache is in use: otherwise this test would hold for nothing


@pytest.mark.usefixtures("in_rounds")
def test_the_cache_check_sees_scores_that_stay_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the total moves and only the measured component is scored again; or nothing ever is; or the
    noise of rounds changes, and scores do not follow it.
    """
    measured = offer.UnmeasuredMarginals.measured
    with monkeypatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(
            offer.UnmeasuredMarginals,
            "measured",
            lambda self, c, model, *, everything: measured(self, c, model, everything=False),
        )
        check_cache(monkeypatch, engine="mwem", rounds=9, initial="none")
    with monkeypatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(
            offer.UnmeasuredMarginals,
            "measured",
            lambda self, c, model, *, everything: self._measured.__setitem__(c, True),
        )
        check_cache(monkeypatch, engine="mwem", rounds=9, neighbours="replace")
    choices: dict[str, Any]
    for forgotten, choices in (("measured", {"rounds": 9}), ("all_stale", {"epsilon": 1.0})):
        with monkeypatch.context() as patch, pytest.raises(AssertionError):
            patch.setattr(offer.FittingViews, forgotten, lambda *_: None)
            check_cache(monkeypatch, domain=WIDE, **choices)


def chain(levels: Levels, ends: tuple[int, ...]) -> Forest:
    """A forest of chains of attributes, each up to one of the `ends`."""
    starts = (0, *ends[:-1])
    parts = [
        CliqueTree.of(levels, [(a, a + 1) for a in range(start, end - 1)] or [(start,)])
        for start, end in zip(starts, ends, strict=True)
    ]
    return Forest(levels, [Component.log_linear(tree, (), np.zeros(0)) for tree in parts], 1.0)


@pytest.mark.parametrize(("times", "rounds"), [(0.5, 1), (1.0, 1), (3.5, 4), (1000.0, offer.SELDOM)])
def test_answers_that_take_long_are_made_anew_in_some_rounds(times: float, rounds: int) -> None:
    """But always those that share two attributes with what was measured, and all where trees were joined or
    the noise moved.
    """
    views = Workload.marginals(3).candidates(Domain.from_dict(dict.fromkeys("abcdef", 2)))
    found, everything = offer.FittingViews(views, 10**9), np.arange(len(views))
    levels, work = views.levels, np.full(len(views), times * offer.AT_ONCE)
    shared = np.isin(views.members, [0, 1]).sum(axis=1) == 2

    def due() -> list[int]:
        stale = found.stale(everything)
        return found.due(stale, work[stale]).tolist()

    assert due() == everything.tolist() and due() == []
    found.measured((0, 1), chain(levels, (3, 6)))
    touched = np.isin(views.members, [0, 1, 2]).any(axis=1)
    assert due() == np.flatnonzero(touched).tolist()
    for forest in (chain(levels, (6,)), None):
        if forest is not None:
            found.measured((2, 3), forest)
        else:
            found.all_stale()
        assert due() == everything.tolist()
        for number in range(1, 20):
            found.measured((0, 1), chain(levels, (6,)))
            assert due() == np.flatnonzero(shared | (number % rounds == 0)).tolist()
        found.all_stale()
        due()
