"""Rows given codes of some attributes are those of the model: held against a dense table."""

from __future__ import annotations

import math

import numpy as np
import pytest

from factored_mwem.domain.levels import Levels
from factored_mwem.kernels import evidence as kernels
from factored_mwem.model import evidence
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.evidence import EvidenceDrawing
from factored_mwem.model.forest import Component, Forest

SHAPE, DRAWN = (4, 3, 2, 5, 3), 60_000
VIEWS = [(0,), (1,), (5, 1), (1, 2), (2, 6), (3,)]
"""Attributes 0 and 3 are in cliques at a coarser level, 5 and 6, too."""


@pytest.fixture(scope="module")
def model() -> Forest:
    rng = np.random.default_rng(0)
    coarser = [[np.array([0, 0, 1, 1])], [], [], [np.array([0, 0, 1, 2, 2])], []]
    levels = Levels.of(SHAPE, coarser)
    theta = 1.5 * rng.normal(size=sum(levels.cells(view) for view in VIEWS))
    part = Component.log_linear(CliqueTree.of(levels, VIEWS), VIEWS, theta)
    alone = Component.log_linear(CliqueTree.of(levels, [(4,)]), [(4,)], rng.normal(size=3))
    assert len(part.tree.cliques) > 3
    return Forest(levels, [part, alone], 1.0)


def apart(model: Forest, given: dict[int, int], weights: tuple[int, np.ndarray] | None = None) -> float:
    """The L1 distance between rows that are drawn and the dense table, cut and weighed."""
    drawing, rng = EvidenceDrawing(model), np.random.default_rng(1)
    soft = None if weights is None else (weights[0], np.repeat(weights[1][None, :], DRAWN, axis=0))
    codes = drawing.codes_given(DRAWN, {a: np.full(DRAWN, c) for a, c in given.items()}, rng, soft)
    dense = model.marginal(tuple(range(len(SHAPE)))).reshape(SHAPE)
    for a, code in given.items():
        at = np.arange(SHAPE[a]) == code
        dense = dense * at.reshape([-1 if b == a else 1 for b in range(len(SHAPE))])
    if weights is not None:
        dense = dense * weights[1].reshape([-1 if b == weights[0] else 1 for b in range(len(SHAPE))])
    drawn = np.bincount(np.ravel_multi_index(codes, SHAPE), minlength=dense.size) / DRAWN
    return float(np.abs(drawn - dense.ravel() / dense.sum()).sum())


def bound(given: dict[int, int]) -> float:
    """The L1 distance of a sample exceeds it with a probability of 1e-9 (Bretagnolle, Huber-Carol)."""
    cells = math.prod(size for a, size in enumerate(SHAPE) if a not in given)
    return math.sqrt(2 * (cells * math.log(2) + 21) / DRAWN)


GIVEN = [{}, {0: 2}, {0: 1, 3: 4}, {2: 1}, {4: 2}, {1: 2, 3: 0, 4: 1}, {0: 3, 1: 0, 2: 1, 3: 2}]


@pytest.mark.parametrize("given", GIVEN)
def test_rows_are_those_of_the_dense_table_that_agree_with_what_is_given(
    model: Forest, given: dict[int, int]
) -> None:
    assert apart(model, given) < bound(given)


def test_codes_that_weigh_more_are_drawn_more(model: Forest) -> None:
    weights = np.array([0.0, 3.0, 1.0, 0.5])
    assert apart(model, {3: 1}, (0, weights)) < bound({3: 1})
    assert apart(model, {}, (0, weights)) < bound({})


def test_every_row_has_its_own_evidence(model: Forest) -> None:
    """Rows of different codes in one call: each is what it would be alone."""
    rng = np.random.default_rng(2)
    given = {0: rng.integers(0, 4, DRAWN), 3: rng.integers(0, 5, DRAWN)}
    codes = EvidenceDrawing(model).codes_given(DRAWN, given, rng)
    dense = model.marginal((0, 1, 3)).reshape(4, 3, 5)
    drawn = np.zeros_like(dense)
    np.add.at(drawn, (codes[0], codes[1], codes[3]), 1)
    for a, b in np.ndindex(4, 5):
        rows = drawn[a, :, b].sum()
        gap = np.abs(drawn[a, :, b] / rows - dense[a, :, b] / dense[a, :, b].sum()).sum()
        assert gap < math.sqrt(2 * (3 * math.log(2) + 21) / rows)


def test_a_planted_message_that_forgets_its_separator_is_seen(
    model: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that are not divided by the separator's beliefs count these twice."""

    def wrong(tree: kernels.EvidenceTree, *rest: object) -> int:
        ones = tree._replace(inverse=np.ones_like(tree.inverse))
        return int(kernels.draw_given(ones, *rest))

    monkeypatch.setattr(evidence, "draw_given", wrong)
    assert apart(model, {0: 1, 3: 4}) > bound({0: 1, 3: 4})


def tied_apart(model: Forest, given: dict[int, int], attribute: int, code: int, alike: bool) -> float:
    """The L1 distance between rows whose attribute is a code, or is not, and the dense table, cut."""
    evidence = {a: np.full(DRAWN, c) for a, c in given.items()}
    tied = {attribute: (np.full(DRAWN, code), np.full(DRAWN, alike))}
    codes = EvidenceDrawing(model).codes_given(DRAWN, evidence, np.random.default_rng(1), tied=tied)
    dense = model.marginal(tuple(range(len(SHAPE)))).reshape(SHAPE).copy()
    for a, own, same in [*((a, c, True) for a, c in given.items()), (attribute, code, alike)]:
        at = (np.arange(SHAPE[a]) == own) == same
        dense *= at.reshape([-1 if b == a else 1 for b in range(len(SHAPE))])
    drawn = np.bincount(np.ravel_multi_index(codes, SHAPE), minlength=dense.size) / DRAWN
    return float(np.abs(drawn - dense.ravel() / dense.sum()).sum())


@pytest.mark.parametrize(("given", "attribute"), [({}, 0), ({0: 1}, 3), ({2: 1}, 0), ({1: 2, 3: 0}, 4)])
@pytest.mark.parametrize("alike", [True, False])
def test_rows_that_must_have_a_code_or_must_not_are_those_of_the_dense_table(
    model: Forest, given: dict[int, int], attribute: int, alike: bool
) -> None:
    assert tied_apart(model, given, attribute, 1, alike) < bound(given)
    assert tied_apart(model, given, attribute, -1, False) < bound(given)  # of no code: whatever there is


def test_a_planted_tie_the_other_way_round_is_seen(model: Forest, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*each: object) -> int:
        ties = each[3]
        assert isinstance(ties, kernels.Ties)
        return int(kernels.draw_given(*each[:3], ties._replace(alike=1 - ties.alike), *each[4:]))

    monkeypatch.setattr(evidence, "draw_given", wrong)
    assert tied_apart(model, {2: 1}, 0, 1, True) > bound({2: 1})


def test_where_evidence_has_no_weight_the_rest_is_drawn_without_it() -> None:
    levels = Levels.fine((2, 2))
    never = Component.of(CliqueTree(levels, ((0, 1),), ()), np.array([0.25, 0.75, 0.0, 0.0]))
    codes = EvidenceDrawing(Forest(levels, [never], 1.0)).codes_given(
        4000, {0: np.ones(4000, dtype=np.int64)}, np.random.default_rng(0)
    )
    assert (codes[0] == 1).all() and 0.7 < codes[1].mean() < 0.8


@pytest.mark.parametrize("never", [2, 5])
def test_rows_impossible_below_a_given_separator_are_drawn_without_the_evidence(never: int) -> None:
    """What is cut off from the root is seen to be impossible only when it is drawn; either clique is."""
    levels = Levels.fine((2, 2, 2))
    theta = np.where(np.arange(8) == never, -np.inf, 0.0)  # 1, 0 in the first two; 0, 1 in the last two
    views = [(0, 1), (1, 2)]
    model = Forest(levels, [Component.log_linear(CliqueTree.of(levels, views), views, theta)], 1.0)
    given = {0: np.ones(9, np.int64), 1: np.arange(9) % 2, 2: np.ones(9, np.int64)}
    lost = np.zeros(9, dtype=bool)
    codes = EvidenceDrawing(model).codes_given(9, given, np.random.default_rng(0), lost=lost)
    assert lost.tolist() == [at % 2 == 0 for at in range(9)]
    assert all((codes[a] == given[a]).all() for a in given)
