"""The model of rows beside a dense table: every marginal is that of the reweighted table, corrections too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.levels import Levels, View
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.drawing import ConditionalDrawing
from factored_mwem.model.forest import Component, Forest
from factored_mwem.model.reweighted import reweighted
from factored_mwem.privacy.session import Measurement, NoiseScale

SHAPE = (4, 3, 2, 3, 2)
LEVELS = Levels.of(SHAPE, [[np.array([0, 0, 1, 1])], [], [], [], []])
COARSE = 5  # the variable of attribute 0 in two groups
TREES: list[list[View]] = [
    [(0, 1), (1, 2), (2, 3)],
    [(COARSE, 1), (0, 2), (1, 2, 3)],
    [(1, 2, 3), (COARSE, 3)],
]
VIEWS = [view for k in (1, 2, 3) for view in itertools.combinations(range(5), k)]


def forest_of(views: list[View], seed: int) -> Forest:
    """Attributes 0 to 3 in one tree, 4 on its own."""
    rng = np.random.default_rng(seed)
    views = [*views, (0,)]
    theta = rng.normal(size=sum(LEVELS.cells(view) for view in views))
    tree = Component.log_linear(CliqueTree.of(LEVELS, views), views, theta)
    alone = Component.log_linear(CliqueTree.of(LEVELS, [(4,)]), [(4,)], rng.normal(size=2))
    return Forest(LEVELS, [tree, alone], 1000.0)


def dense(forest: Forest, attribute: int, weights: np.ndarray) -> np.ndarray:
    table = forest.marginal(tuple(range(5))).reshape(SHAPE)
    return table * weights.reshape([-1 if a == attribute else 1 for a in range(5)])


@pytest.mark.parametrize("attribute", [0, 1, 3, 4])
@pytest.mark.parametrize("views", TREES)
@pytest.mark.parametrize("seed", range(3))
def test_every_marginal_is_that_of_the_weighted_table(views: list[View], attribute: int, seed: int) -> None:
    forest, rng = forest_of(views, seed), np.random.default_rng(seed + 50)
    weights = rng.uniform(0.1, 5.0, SHAPE[attribute])
    made, truth = reweighted(forest, attribute, weights), dense(forest, attribute, weights)
    assert made.total == pytest.approx(truth.sum(), rel=1e-12)
    for view in VIEWS:
        others = tuple(a for a in range(5) if a not in view)
        assert np.abs(made.marginal(view) - truth.sum(axis=others).ravel()).max() <= 1e-9


@pytest.mark.parametrize("attribute", [0, 1, 3, 4])
@pytest.mark.parametrize("views", TREES)
def test_codes_of_weight_zero_leave_the_others_their_conditional_distribution(
    views: list[View], attribute: int
) -> None:
    forest, weights = forest_of(views, 11), np.zeros(SHAPE[attribute])
    weights[-1] = 1.0
    made, truth = reweighted(forest, attribute, weights), dense(forest, attribute, weights)
    for view in VIEWS:
        others = tuple(a for a in range(5) if a not in view)
        assert np.abs(made.marginal(view) - truth.sum(axis=others).ravel()).max() <= 1e-9


def test_equal_weights_change_nothing_but_the_total() -> None:
    forest = forest_of(TREES[0], 7)
    made = reweighted(forest, 2, np.full(2, 3.0))
    assert made.total == pytest.approx(3000.0)
    for view in VIEWS:
        assert np.abs(made.marginal(view) - 3 * forest.marginal(view)).max() <= 1e-9


def test_a_correction_says_of_rows_what_the_corrected_model_says() -> None:
    """A pair that no clique holds, corrected to a noisy table: its reweighted table is the weighted sum of
    the corrected one over the pair and the attribute.
    """
    forest, rng = forest_of(TREES[0], 1), np.random.default_rng(9)
    pair, attribute, weights = (1, 4), 3, np.array([1.0, 2.0, 7.0])
    noisy = np.rint(forest.marginal(pair) * rng.uniform(0.5, 1.5, LEVELS.cells(pair))).astype(np.int64)
    forest.correct([Measurement(pair, noisy, NoiseScale(1.0, Composition.ZCDP))])
    made = reweighted(forest, attribute, weights)
    wide = forest.marginal((1, 3, 4)).reshape(3, 3, 2)
    expected = (wide * weights[None, :, None]).sum(axis=1).ravel()
    bare = Forest(forest.levels, forest.components, forest.total)
    assert made.corrections.views == [pair]
    assert np.abs(made.marginal(pair) - expected).max() < 0.02 * expected.sum()
    assert (
        np.abs(reweighted(bare, attribute, weights).marginal(pair) - expected).max() > 0.02 * expected.sum()
    )


# --- rows given some of their codes ---


def counted(codes: list[np.ndarray]) -> np.ndarray:
    cells = np.ravel_multi_index([c.astype(np.int64) for c in codes], SHAPE)
    return np.bincount(cells, minlength=int(np.prod(SHAPE))).reshape(SHAPE)


@pytest.mark.parametrize("given", [(0,), (1, 4), (0, 3), (3, 0, 4), (2, 1, 0)])
@pytest.mark.parametrize("views", TREES)
def test_rows_given_some_codes_are_those_of_the_dense_table(
    views: list[View], given: tuple[int, ...]
) -> None:
    """Drawn codes of `given` follow the model (trees apart), and the rest follows each of them, cell by cell:
    within what the combs of one clique after the other leave over.
    """
    forest, rng, rows = forest_of(views, 3), np.random.default_rng(1), 200_000
    drawing = ConditionalDrawing(forest, given, 1e6)
    assert drawing.attributes == given
    own = drawing.given(rows, rng)
    assert set(own) == set(given)
    codes = drawing.codes_given(own, rng)
    for a in given:
        assert (codes[a] == own[a]).all()
    truth = forest.marginal(tuple(range(5))).reshape(SHAPE) / forest.total
    assert np.abs(counted(codes) / rows - truth).sum() < 0.03


def test_fixed_codes_give_the_conditional_distribution() -> None:
    forest, rng, rows = forest_of(TREES[1], 5), np.random.default_rng(2), 40_000
    drawing = ConditionalDrawing(forest, (3, 0), 1e6)
    fixed = {3: np.full(rows, 2), 0: np.full(rows, 1)}
    found = counted(drawing.codes_given(fixed, rng))[1, :, :, 2] / rows
    truth = forest.marginal(tuple(range(5))).reshape(SHAPE)[1, :, :, 2]
    assert np.abs(found - truth / truth.sum()).sum() < 0.02
    planted = ConditionalDrawing(forest, (3,), 1e6)  # forgets that 0 was given
    wrong = counted(planted.codes_given({3: fixed[3]}, rng))[:, :, :, 2].sum(axis=0) / rows
    assert np.abs(wrong - truth / truth.sum()).sum() > 0.05


def test_what_would_take_too_many_cells_is_not_given() -> None:
    forest = forest_of(TREES[0], 1)
    cells = sum(sum(part.tree.cells) for part in forest.components)
    assert ConditionalDrawing(forest, (0, 3, 4), cells).attributes == (0, 4)


@pytest.mark.parametrize("views", TREES)
def test_a_tree_rooted_elsewhere_is_the_same_distribution(views: list[View]) -> None:
    part = forest_of(views, 2).components[0]
    for view in [(0, 1), (0, 3), (1, 3), (0, 1, 2, 3)]:
        other = part.rooted_at(view)
        assert other.tree.fixes(0, view)
        for wanted in [v for k in (1, 2, 3) for v in itertools.combinations(range(4), k)]:
            one, two = part.marginals([wanted])[0], other.marginals([wanted])[0]
            assert np.abs(one - two).max() < 1e-12
