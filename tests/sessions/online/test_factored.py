"""Clique trees beside the vector of all cells: the same numbers, for any sequence of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from support.models import check_agreement

from factored_mwem.answers.terms import QueryTerms
from factored_mwem.domain.levels import Levels
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.corrections import Corrections
from factored_mwem.model.forest import Component, Forest
from factored_mwem.privacy.other.cuts import TableCut
from factored_mwem.sessions.online.constructions import MultiplicativeWeights, Update, check
from factored_mwem.sessions.online.factored import Factored
from factored_mwem.sessions.online.question import NOBODY, CountQuestion, cut_of

SHAPE = (3, 2, 4, 2, 3)


def question(chosen: dict[int, Sequence[int]]) -> CountQuestion:
    """Count the records whose attributes have one of the chosen codes."""
    weights = tuple(np.isin(np.arange(SHAPE[a]), chosen[a])[None].astype(float) for a in sorted(chosen))
    terms = QueryTerms(tuple(sorted(chosen)), weights, 1)
    return CountQuestion("", (), [()], terms, *cut_of(terms))


def spread(values: np.ndarray, attribute: int) -> np.ndarray:
    """Values by the codes of one attribute, over all cells."""
    return values.reshape([-1 if b == attribute else 1 for b in range(len(SHAPE))])


def dense(asked: CountQuestion) -> np.ndarray:
    """The question as weights of all cells."""
    found = np.ones(SHAPE)
    for a, weights in zip(asked.terms.support, asked.terms.weights, strict=True):
        found = found * spread(weights[0], a)
    return found.ravel()


def at_random(rng: np.random.Generator) -> CountQuestion:
    attributes = rng.choice(len(SHAPE), size=rng.integers(1, 4), replace=False)
    return question(
        {int(a): rng.choice(SHAPE[a], rng.integers(1, SHAPE[a]), False).tolist() for a in attributes}
    )


def all_cells(model: Factored) -> np.ndarray:
    return model.forest.marginal(tuple(range(len(SHAPE)))) / model.total


def flat(model: Factored) -> bool:
    return np.allclose(all_cells(model), 1 / math.prod(SHAPE), rtol=1e-14, atol=0)


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_steps_is_that_of_the_vector(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 500.0
    trees, vector = Factored.uniform(SHAPE, n, 300.0), MultiplicativeWeights(math.prod(SHAPE), n, 300.0)
    assert trees.bound(5.0) == pytest.approx(vector.bound(5.0))
    for _ in range(25):
        asked = at_random(rng)
        assert trees.answer(asked) == pytest.approx(vector.answer(dense(asked)), abs=1e-8)
        value = vector.answer(dense(asked)) + rng.normal()
        trees.update(asked, value)
        vector.update(dense(asked), value)
    np.testing.assert_allclose(all_cells(trees), vector.shares, rtol=0, atol=1e-12)
    for part in trees.forest.components:
        check_agreement(part)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_learnt_is_raked_as_in_the_vector(seed: int) -> None:
    """With next to no noise a cut's counts are taken as they are: one step of proportional fitting."""
    rng, n = np.random.default_rng(seed), 500.0
    trees, vector = Factored.uniform(SHAPE, n, 1.0), np.full(SHAPE, 1 / math.prod(SHAPE)).ravel()
    for _ in range(12):
        cut = at_random(rng).cut
        cell = np.zeros(SHAPE, dtype=np.int64)
        for a, classes, size in zip(cut.positions, cut.classes, cut.sizes, strict=True):
            cell = cell * size + spread(classes, a)
        noisy = rng.multinomial(500, rng.dirichlet(np.ones(cut.cells)))
        assert trees.learn(cut, noisy, 1e-9)
        now = np.bincount(cell.ravel(), vector, cut.cells)
        wanted = np.maximum(noisy / n, 1e-9)
        vector = vector * (wanted / now)[cell.ravel()]
        vector /= vector.sum()
        np.testing.assert_allclose(trees.cells(cut), wanted / wanted.sum() * n, atol=1e-6)
    np.testing.assert_allclose(all_cells(trees), vector, rtol=0, atol=1e-10)


def test_an_update_sequence_is_one_of_the_papers() -> None:
    """Answers, values and hypotheses of trees satisfy the checker, and the bound."""
    rng, n, alpha = np.random.default_rng(5), 300.0, 30.0
    table = rng.multinomial(300, rng.dirichlet(np.ones(math.prod(SHAPE)) / 8)).astype(float)
    trees, updates = Factored.uniform(SHAPE, n, alpha), []
    for _ in range(600):
        asked = at_random(rng)
        exact, answered = float(dense(asked) @ table), trees.answer(asked)
        if abs(exact - answered) >= alpha:
            value = exact + rng.uniform(-alpha, alpha)
            updates.append(Update(asked, value, answered))
            trees.update(asked, value)
    assert len(updates) > 5
    fresh = Factored.uniform(SHAPE, n, alpha)
    assert check(fresh, updates, lambda q: float(dense(q) @ table), alpha, rounding=1e-6).sound


def test_a_warm_start_knows_how_far_a_table_may_be() -> None:
    """Of any distribution: relative entropy of a point is -log of its cell, which the bound is over."""
    rng = np.random.default_rng(1)
    trees = Factored.uniform(SHAPE, 100.0, 20.0)
    for _ in range(6):
        cut = at_random(rng).cut
        trees.learn(cut, rng.multinomial(100, np.ones(cut.cells) / cut.cells), 2.0)
    warm = Factored(trees.forest, 20.0)
    assert warm.surprise >= -np.log(all_cells(trees).min()) - 1e-9
    assert warm.bound(20.0) == pytest.approx(4 * 25 * warm.surprise)


def test_where_it_begins_is_left_alone() -> None:
    begun = Factored.uniform(SHAPE, 100.0, 20.0)
    other = Factored(begun.forest, 20.0)
    other.learn(TableCut((0, 2), (np.arange(3), np.arange(4))), np.arange(12) * 5, 0.1)
    assert flat(begun)
    assert len(begun.forest.components) == 5


def test_beyond_the_cell_cap_nothing_changes() -> None:
    model = Factored.uniform(SHAPE, 100.0, 20.0, max_cells=30)
    wide = question({0: [1], 2: [0, 1], 4: [2]})
    assert not model.learn(wide.cut, np.arange(wide.cut.cells), 0.1)
    model.update(wide, 1e9)
    assert flat(model)
    assert model.learn(question({0: [1], 1: [0]}).cut, np.array([1, 2, 3, 4, 5, 6]), 0.1)
    assert model.forest.cells <= 30


def test_all_records_and_no_record_change_nothing() -> None:
    model = Factored.uniform(SHAPE, 100.0, 20.0)
    everything, nothing = question({0: [0, 1, 2]}), question({0: [], 1: [1]})
    assert nothing.wanted == (NOBODY,)
    assert everything.cut.positions == ()
    for asked, value in ((everything, 80.0), (nothing, 5.0)):
        assert model.learn(everything.cut, np.array([80]), 1.0)
        model.update(asked, value)
    assert flat(model)
    assert model.answer(nothing) == 0


def _coarse() -> Forest:
    """Trees over levels: attribute 2 by halves meets 0, and as it is meets 4."""
    levels = Levels.of(SHAPE, [[], [], [np.array([0, 0, 1, 1])], [], []])
    rng = np.random.default_rng(2)
    tree = CliqueTree.of(levels, [(0, 5), (2, 4)])
    theta = rng.normal(size=levels.cells((0, 5)) + levels.cells((2, 4)))
    parts = [Component.log_linear(tree, [(0, 5), (2, 4)], theta)]
    parts += [Component.log_linear(CliqueTree.of(levels, [(a,)]), [(a,)], rng.normal(size=2)) for a in (1, 3)]
    return Forest(levels, parts, 400.0)


def test_trees_over_levels_take_steps_as_the_vector_does() -> None:
    """And a cut at a coarse level leaves the clique coarse."""
    rng = np.random.default_rng(8)
    trees = Factored(_coarse(), 200.0)
    before = trees.forest.cells
    trees.update(question({0: [1], 2: [0, 1]}), math.inf)
    assert trees.forest.cells == before
    vector = MultiplicativeWeights(math.prod(SHAPE), 400.0, 200.0)
    vector.shares = all_cells(trees)
    for _ in range(20):
        asked = at_random(rng)
        trees.update(asked, math.inf)
        vector.update(dense(asked), math.inf)
    np.testing.assert_allclose(all_cells(trees), vector.shares, rtol=0, atol=1e-12)


def test_cells_that_rules_empty_stay_empty() -> None:
    levels = Levels.fine(SHAPE)
    ruled = np.zeros(6, dtype=bool)
    ruled[[1, 4]] = True
    tied = Component.log_linear(CliqueTree.of(levels, [(0, 1)]), [(0, 1)], np.zeros(6), {(0, 1): ruled})
    rest = [Component.of(CliqueTree(levels, ((a,),), ()), np.full(SHAPE[a], 1 / SHAPE[a])) for a in (2, 3, 4)]
    trees = Factored(Forest(levels, [tied, *rest], 100.0), 50.0)
    assert trees.bound(5.0) == math.inf
    rng = np.random.default_rng(3)
    for _ in range(10):
        asked = at_random(rng)
        trees.update(asked, math.inf)
        trees.learn(asked.cut, rng.integers(0, 50, asked.cut.cells), 3.0)
    assert (trees.forest.marginal((0, 1))[ruled] == 0).all()
    assert trees.forest.marginal((0, 1)).sum() == pytest.approx(100)


def test_corrections_are_taken_into_the_tree_that_holds_them() -> None:
    """A marginal that corrected answers from outside is what the clique says once it has one."""
    forest = Factored.uniform(SHAPE, 120.0, 20.0).forest
    table = np.arange(1.0, 7.0)
    table *= 120 / table.sum()
    forest.corrections = Corrections(forest.levels, [(0, 1), (2, 3)], [table, np.full(8, 15.0)])
    model = Factored(forest, 20.0)
    asked = question({0: [1], 1: [1]})
    corrected = model.forest.marginal((0, 1))
    assert np.abs(corrected - 20).max() > 1
    assert model.learn(asked.cut, np.full(asked.cut.cells, 50), 1e9)  # noise that drowns all of it
    np.testing.assert_allclose(model.forest.marginal((0, 1)), corrected, rtol=1e-7)
    assert [view for view, _ in model.forest.corrections.apart((0, 1, 2, 3))[0]] == [(2, 3)]
    assert len(forest.corrections.apart((0, 1, 2, 3))[0]) == 2
