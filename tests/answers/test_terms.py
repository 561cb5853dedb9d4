"""Answers on clique trees against the joint table, multiplied out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factored_mwem.answers import terms
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.domain.levels import Levels
from factored_mwem.errors import ResourceError
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.forest import Component, Forest

SHAPE = (5, 2, 6, 3, 2)


def random_forest(rng) -> Forest:
    """A chain of cliques that hold attributes at different levels, and a lone attribute."""
    coarser = [[np.arange(5) // 2], [], [np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 0, 0, 1, 1])], [], []]
    levels = Levels.of(SHAPE, coarser)
    coarse = [levels.chains[a][-1] for a in range(5)]
    views = [(0, 1), (coarse[0], 2), (1, 3), (coarse[2], 3)]
    own = [(0,), (1,), (2,), (3,)]
    tree = CliqueTree.of(levels, [*views, *own])
    theta = rng.normal(size=sum(levels.cells(view) for view in [*views, *own]))
    part = Component.log_linear(tree, [*views, *own], theta)
    lone = CliqueTree.of(levels, [(4,)])
    return Forest(levels, [part, Component.log_linear(lone, [(4,)], rng.normal(size=2))], 1000.0)


def random_weights(rng, support, count, levels) -> QueryTerms:
    weights = []
    for a in support:
        v = int(rng.choice(levels.chains[a]))
        of_groups = rng.integers(0, 3, (count, int(levels.sizes[v]))) / 2
        weights.append(of_groups[:, levels.groups[v]].astype(float))
    return QueryTerms(tuple(support), tuple(weights), count)


def by_enumeration(asked: QueryTerms, joint: np.ndarray) -> list[float]:
    found = [0.0] * asked.count
    for cell in itertools.product(*map(range, joint.shape)):
        for i in range(asked.count):
            product = joint[cell]
            for a, weights in zip(asked.support, asked.weights, strict=True):
                product *= weights[i, cell[a]]
            found[i] += product
    return found


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), way=st.sampled_from(["table", "messages", "einsum"]))
def test_answers_are_those_of_the_joint_table(seed, way) -> None:
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    joint = forest.marginal(tuple(range(5))).reshape(SHAPE)
    support = sorted(rng.choice(5, size=int(rng.integers(0, 6)), replace=False).tolist())
    asked = random_weights(rng, support, 3, forest.levels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "MAX_CELLS", {"table": 2**20, "messages": 0, "einsum": 0}[way])
        if way == "einsum":
            found = asked.of_table(forest.marginal(tuple(support)).reshape([SHAPE[a] for a in support]))
        else:
            found = asked.of_forest(forest)
    np.testing.assert_allclose(found, by_enumeration(asked, joint), rtol=1e-9, atol=1e-9)


def test_messages_in_pieces_are_the_same(monkeypatch) -> None:
    rng = np.random.default_rng(3)
    forest = random_forest(rng)
    asked = random_weights(rng, range(5), 11, forest.levels)
    whole = asked.of_forest(forest)
    monkeypatch.setattr(terms, "MAX_CELLS", 0)
    monkeypatch.setattr(terms, "AT_ONCE", 100)
    np.testing.assert_allclose(asked.of_forest(forest), whole, rtol=1e-9)


def test_what_takes_too_long_is_one_line(monkeypatch) -> None:
    rng = np.random.default_rng(3)
    forest = random_forest(rng)
    monkeypatch.setattr(terms, "MAX_CELLS", 0)
    monkeypatch.setattr(terms, "MAX_WORK", 100)
    with pytest.raises(ResourceError, match="name fewer columns") as caught:
        random_weights(rng, range(5), 11, forest.levels).of_forest(forest)
    assert "\n" not in str(caught.value)
