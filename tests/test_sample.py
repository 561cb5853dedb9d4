"""Rows from a model: marginals as close as whole rows allow, components independent of each other, nothing else."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from naive import cells_of, counts_within_one
from scipy import stats

from factored_mwem import sample as module
from factored_mwem.domain import Domain
from factored_mwem.model import Factor, ProductModel
from factored_mwem.sample import BATCH, draw, sample

CHANCE = 1e-9
"""A sound sampler fails a statistical test this often."""


def model_of(shape: tuple[int, ...], blocks: list[tuple[int, ...]], seed: int, alpha: float = 1.0) -> ProductModel:
    rng = np.random.default_rng(seed)
    domain = Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})
    factors = []
    for block in blocks:
        sizes = tuple(shape[p] for p in block)
        factors.append(Factor(block, sizes, rng.dirichlet(np.full(math.prod(sizes), alpha))))
    return ProductModel(domain, factors, 100.0)


def counts_of(factor: Factor, codes: list[np.ndarray]) -> list[int]:
    """How often each cell of a component came, by plain counting."""
    found = Counter(zip(*(codes[p].tolist() for p in factor.positions), strict=True))
    return [found[cell] for cell in cells_of(factor.shape)]


def schema_of(model: ProductModel) -> pa.Schema:
    return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in model.domain.names])


def columns_of(batches: list[pa.RecordBatch]) -> list[np.ndarray]:
    table = pa.Table.from_batches(batches)
    return [column.to_numpy() for column in table.columns]


@pytest.mark.parametrize("shape", [(2, 3, 2, 4), (5, 1, 2), (1,), (40, 30, 2)], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("alpha", [0.05, 1.0, 50.0])
def test_every_cell_comes_within_one_of_its_share(shape: tuple[int, ...], rows: int, alpha: float) -> None:
    """Lumpy, random and almost uniform components: a cell of share p comes floor or ceil of p * rows times, never more or less."""
    blocks = [tuple(range(0, len(shape), 2)), tuple(range(1, len(shape), 2))]
    model = model_of(shape, [b for b in blocks if b], 1, alpha)
    for seed in range(3):
        codes = draw(model, rows, np.random.default_rng(seed))
        assert [len(c) for c in codes] == [rows] * len(shape)
        for factor in model.components:
            assert counts_within_one(counts_of(factor, codes), factor.weights.tolist(), rows)


def test_independent_draws_would_be_noticed() -> None:
    """The same bound on plain random rows fails: the check above can."""
    model = model_of((6, 5), [(0, 1)], 2)
    factor = model.components[0]
    cells = np.random.default_rng(0).choice(30, size=1000, p=factor.weights)
    codes = list(np.unravel_index(cells, factor.shape))
    assert not counts_within_one(counts_of(factor, codes), factor.weights.tolist(), 1000)


def test_the_last_cell_is_reached_and_not_passed() -> None:
    """Weights whose running sum ends a float's breadth below or above 1."""
    for weights in (np.full(10, 0.1), np.full(3, 1 / 3), np.array([1 - 1e-16, 1e-300]), np.array([0.1] * 9 + [0.1 + 1e-15])):
        model = ProductModel(Domain.from_dict({"a": len(weights)}), [Factor((0,), (len(weights),), weights)], 1.0)
        for seed in range(20):
            codes = draw(model, 1000, np.random.default_rng(seed))[0]
            assert counts_within_one(np.bincount(codes, minlength=len(weights)).tolist(), (weights / weights.sum()).tolist(), 1000)


def test_a_share_between_two_counts_is_right_on_average() -> None:
    """The comb begins anywhere: over many draws of one row each cell comes as often as its share says."""
    weights = np.array([0.15, 0.25, 0.6])
    model = ProductModel(Domain.from_dict({"a": 3}), [Factor((0,), (3,), weights)], 1.0)
    rng = np.random.default_rng(3)
    found = np.bincount([int(draw(model, 1, rng)[0][0]) for _ in range(3000)], minlength=3)
    assert stats.chisquare(found, weights * 3000).pvalue > CHANCE


def pairing(codes: list[np.ndarray], left: Factor, right: Factor) -> float:
    """p-value of independence between the cells of two components, from their joint counts."""
    cells = [np.ravel_multi_index([codes[p] for p in f.positions], f.shape) for f in (left, right)]
    table = np.zeros((len(left.weights), len(right.weights)))
    np.add.at(table, tuple(cells), 1)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("rows", [2000, 20_000])
def test_components_are_independent(rows: int) -> None:
    model = model_of((3, 2, 4, 2), [(0, 2), (1, 3)], 5, alpha=5.0)
    for seed in range(5):
        codes = draw(model, rows, np.random.default_rng(seed))
        assert pairing(codes, *model.components) > CHANCE


def test_components_in_one_order_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: without its own random order each component comes sorted, and the check above must say so."""
    model = model_of((3, 2, 4, 2), [(0, 2), (1, 3)], 5, alpha=5.0)

    class Sorted:
        def __init__(self, rng: np.random.Generator) -> None:
            self.random, self.permutation = rng.random, lambda cells: cells

    codes = draw(model, 2000, Sorted(np.random.default_rng(0)))  # type: ignore[arg-type]
    assert pairing(codes, *model.components) < CHANCE
    for factor in model.components:
        assert counts_within_one(counts_of(factor, codes), factor.weights.tolist(), 2000), "the marginals alone do not show it"


def test_components_stay_independent_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch has combs and orders of its own: the rows of many short batches, put together, are independent too."""
    monkeypatch.setattr(module, "BATCH", 50)
    model = model_of((3, 4), [(0,), (1,)], 6, alpha=5.0)
    codes = columns_of(list(sample(model, schema_of(model), 20_000, rng=np.random.default_rng(1))))
    assert pairing(codes, *model.components) > CHANCE


@pytest.mark.parametrize(("rows", "sizes"), [(0, []), (1, [1]), (10, [10]), (11, [10, 1]), (30, [10, 10, 10]), (37, [10, 10, 10, 7])])
def test_rows_come_in_batches(rows: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows as asked, at most BATCH at a time, each batch within one row of the shares."""
    monkeypatch.setattr(module, "BATCH", 10)
    model = model_of((2, 3), [(0, 1)], 7)
    batches = list(sample(model, schema_of(model), rows, rng=np.random.default_rng(0)))
    assert [batch.num_rows for batch in batches] == sizes
    for batch in batches:
        codes = [column.to_numpy() for column in batch.columns]
        assert counts_within_one(counts_of(model.components[0], codes), model.components[0].weights.tolist(), batch.num_rows)
        assert batch.schema == schema_of(model)


def test_more_rows_than_a_batch_holds() -> None:
    """The real batch size; across k batches a cell is within k rows of its share."""
    model = model_of((3, 2), [(0,), (1,)], 8)
    stream = sample(model, schema_of(model), 2 * BATCH + 5, rng=np.random.default_rng(0))
    assert next(stream).num_rows == BATCH, "streamed: the first batch is there before the last is drawn"
    rest = columns_of(list(stream))
    assert len(rest[0]) == BATCH + 5
    for factor in model.components:
        for cell, share in zip(counts_of(factor, rest), factor.weights.tolist(), strict=True):
            assert abs(cell - share * (BATCH + 5)) <= 2


def test_a_seed_gives_the_same_rows_and_another_gives_others() -> None:
    model = model_of((4, 3, 2), [(0, 1), (2,)], 9)
    drawn = [columns_of(list(sample(model, schema_of(model), 500, rng=np.random.default_rng(seed)))) for seed in (1, 1, 2)]
    assert all(np.array_equal(a, b) for a, b in zip(drawn[0], drawn[1], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(drawn[0], drawn[2], strict=True))


def test_columns_are_those_of_the_model() -> None:
    """Every attribute's one-way marginal, through `sample` and its decoding: no column takes another's place."""
    model = model_of((2, 5, 3), [(0, 2), (1,)], 10)
    codes = columns_of(list(sample(model, schema_of(model), 3000, rng=np.random.default_rng(0))))
    for position, size in enumerate(model.domain.shape):
        found = np.bincount(codes[position], minlength=size)
        np.testing.assert_allclose(found / 3000, model.marginal((position,)) / model.total, atol=8 / 3000)
