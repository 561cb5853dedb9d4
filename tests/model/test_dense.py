"""ProductModel and Factor against the oracle: a product of components must be the very distribution of the
dense table.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from support.naive import Blocks, Dense, cells_of, pick

from factored_mwem.domain.domain import Domain
from factored_mwem.model.dense import Factor, ProductModel

SHAPES = {
    "binary": (2, 2, 2, 2),
    "mixed": (3, 2, 4, 2, 3),
    "size one inside": (2, 1, 3, 1),
    "size one first": (1, 2, 2),
    "size one last": (3, 2, 1),
    "all size one": (1, 1, 1),
    "one attribute": (5,),
    "one attribute of one value": (1,),
    "long": (2, 7, 2, 3, 2),
}
TOLERANCE = 1e-12


def domain_of(shape: tuple[int, ...]) -> Domain:
    return Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})


def random_model(shape: tuple[int, ...], rng: np.random.Generator, total: float = 1.0) -> ProductModel:
    """Every attribute alone with a distribution of its own: nothing is uniform, so a swapped axis shows."""
    alone = [Factor((p,), (size,), rng.dirichlet(np.ones(size))) for p, size in enumerate(shape)]
    return ProductModel(domain_of(shape), alone, total)


def dense(model: ProductModel) -> Dense:
    """The oracle's table of a model: every cell the product of its components' weights."""
    shape = model.domain.shape
    tables = [
        (f.positions, dict(zip(cells_of(shape, f.positions), f.weights.tolist(), strict=True)))
        for f in model.components
    ]
    cells = cells_of(shape)
    return Dense(shape, {cell: math.prod(table[pick(cell, at)] for at, table in tables) for cell in cells})


def subsets(attributes: int) -> list[tuple[int, ...]]:
    return [s for order in range(attributes + 1) for s in itertools.combinations(range(attributes), order)]


def disturb(model: ProductModel, factor: Factor, rng: np.random.Generator) -> None:
    """Give a component a random table, so that its attributes depend on each other."""
    model.replace(Factor(factor.positions, factor.shape, rng.dirichlet(np.ones(len(factor.weights)))))


def close(found: np.ndarray, expected: list[float]) -> None:
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_every_marginal_is_that_of_the_dense_table(shape: tuple[int, ...], seed: int) -> None:
    """Inside a component, across components, over nothing and over everything, after random merges."""
    rng = np.random.default_rng(seed)
    model = random_model(shape, rng, total=70.0)
    for _ in range(4):
        oracle = dense(model)
        for positions in subsets(len(shape)):
            close(model.marginal(positions), oracle.answer(positions, 70.0))
        chosen = rng.choice(len(shape), size=min(2, len(shape)), replace=False)
        disturb(model, model.merge(tuple(chosen.tolist())), rng)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_marginal_across_components_is_the_kronecker_product(shape: tuple[int, ...]) -> None:
    """By numpy's kron: attributes of two interleaved components keep the order of the domain."""
    rng = np.random.default_rng(4)
    model = random_model(shape, rng, total=3.0)
    even, odd = tuple(range(0, len(shape), 2)), tuple(range(1, len(shape), 2))
    blocks = [block for block in (even, odd) if block]
    for block in blocks:
        disturb(model, model.merge(block), rng)
    flat = np.ones(1)
    for block in blocks:
        flat = np.kron(flat, model.factor(block[0]).weights)
    order = list(even + odd)
    expected = flat.reshape([shape[p] for p in order]).transpose(np.argsort(order)).ravel() * 3.0
    close(model.marginal(tuple(range(len(shape)))), expected.tolist())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_merge_changes_no_marginal(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    model = random_model(shape, rng, total=11.0)
    disturb(model, model.merge(tuple(range(len(shape)))[:2]), rng)
    before = [model.marginal(s) for s in subsets(len(shape))]
    model.merge(tuple(range(len(shape))))
    assert len(model.components) == 1
    for positions, expected in zip(subsets(len(shape)), before, strict=True):
        close(model.marginal(positions), expected.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_merges_commute_and_associate(seed: int) -> None:
    """Six pairs in two random orders end in the same components with the same tables."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, size=6).tolist())
    alone = [Factor((p,), (size,), rng.dirichlet(np.ones(size))) for p, size in enumerate(shape)]
    pairs = [tuple(sorted(rng.choice(6, size=2, replace=False).tolist())) for _ in range(4)]
    found = []
    for order in (pairs, [pairs[i] for i in rng.permutation(len(pairs))]):
        model = ProductModel(domain_of(shape), alone, 1.0)
        for pair in order:
            model.merge(pair)
        found.append({f.positions: f for f in model.components})
    assert found[0].keys() == found[1].keys()
    for positions, factor in found[0].items():
        assert factor.shape == found[1][positions].shape
        close(factor.weights, found[1][positions].weights.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_components_are_those_of_union_find_and_others_are_untouched(seed: int) -> None:
    """A component that a merge does not touch keeps the very same array, not a copy."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, size=9).tolist())
    model, blocks = random_model(shape, rng), Blocks(len(shape))
    for _ in range(6):
        chosen = tuple(sorted(rng.choice(9, size=int(rng.integers(1, 4)), replace=False).tolist()))
        before = {f.positions: f.weights for f in model.components}
        touched = blocks.join(chosen)
        merged = model.merge(chosen)
        assert merged is model.factor(chosen[0]) and set(merged.positions) == touched
        assert sorted(f.positions for f in model.components) == sorted(tuple(sorted(s)) for s in blocks.sets)
        for factor in model.components:
            if not touched & set(factor.positions):
                assert factor.weights is before[factor.positions]
        for position in range(9):
            assert set(model.factor(position).positions) == blocks.around(position)


def test_merging_inside_a_component_returns_it_as_it_is() -> None:
    model = random_model((2, 3, 2), np.random.default_rng(0))
    factor = model.merge((0, 2))
    assert model.merge((2,)) is factor and model.merge((0, 2)) is factor


def test_replace_takes_the_place_of_all_components_it_covers() -> None:
    """Ids are never used again: the caches of answers.py tell a new component from an old one by its id."""
    rng = np.random.default_rng(1)
    model = random_model((2, 3, 2, 2), rng)
    before = dict(model.factors)
    joined = Factor((1, 3), (3, 2), rng.dirichlet(np.ones(6)))
    model.replace(joined)
    assert [f.positions for f in model.components] == [(0,), (2,), (1, 3)]
    assert model.factor(1) is model.factor(3) is joined
    assert int(model.factor_of[1]) == int(model.factor_of[3]) not in before
    assert all(model.factors[id_] is before[id_] for id_ in (0, 2))
    again = Factor((1, 3), (3, 2), rng.dirichlet(np.ones(6)))
    model.replace(again)
    assert model.factor(1) is again and len(model.factors) == 3
    assert int(model.factor_of[1]) not in (*before, 4)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_small_marginals_are_the_marginals(shape: tuple[int, ...]) -> None:
    """One pass finds every subset up to the order, and each as `marginal` does."""
    rng = np.random.default_rng(2)
    positions = tuple(
        range(3, 3 + 2 * len(shape), 2)
    )  # not 0, 1, 2: a component's attributes lie anywhere in the domain
    factor = Factor(positions, shape, rng.dirichlet(np.ones(math.prod(shape))))
    for order in range(1, len(shape) + 1):
        found = factor.small_marginals(order)
        assert set(found) == {s for k in range(order + 1) for s in itertools.combinations(positions, k)}
        for subset, table in found.items():
            close(table, factor.shares(subset).tolist())
            assert table.flags.c_contiguous


def test_index_is_short() -> None:
    """head and tail are each about the root of the cells: so a replay fits in the cache."""
    factor = Factor.uniform(range(20), [2] * 20)
    head, tail = factor.index((0, 7, 19))
    assert len(head) == len(tail) == 2**10
    assert head.dtype == tail.dtype == np.int64


def test_uniform_starts_alone_or_joined() -> None:
    domain = domain_of((2, 3, 1))
    alone, joined = ProductModel.uniform(domain, 6.0), ProductModel.uniform(domain, 6.0, joined=True)
    assert [f.positions for f in alone.components] == [(0,), (1,), (2,)]
    assert [f.positions for f in joined.components] == [(0, 1, 2)]
    for positions in subsets(3):
        close(alone.marginal(positions), joined.marginal(positions).tolist())
