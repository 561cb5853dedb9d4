"""Rows from a model: marginals as close as whole rows allow, components independent of each other, nothing
else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from support.naive import cells_of, counts_within_one

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.model import sampling as module
from factored_mwem.model.clique_tree import CliqueTree, grid
from factored_mwem.model.dense import Factor, ProductModel
from factored_mwem.model.drawing import draw
from factored_mwem.model.forest import Component, Forest
from factored_mwem.model.sampling import MAX_BATCH_ROWS, Batches

CHANCE = 1e-9
"""A sound sampler fails a statistical test this often."""


def model_of(
    shape: tuple[int, ...], blocks: list[tuple[int, ...]], seed: int, alpha: float = 1.0
) -> ProductModel:
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


def drawn(model: ProductModel, rows: int, rng: np.random.Generator) -> list[np.ndarray]:
    return draw(Forest.of(model), rows, rng)


def batches_of(model: ProductModel, rows: int, seed: int) -> Iterator[pa.RecordBatch]:
    return iter(Batches(Forest.of(model), model.domain, schema_of(model), rows, generators(seed)))


def generators(seed: int) -> Callable[[int], np.random.Generator]:
    return lambda batch: np.random.default_rng([seed, batch])


def schema_of(model: ProductModel) -> pa.Schema:
    return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in model.domain.names])


def columns_of(batches: list[pa.RecordBatch]) -> list[np.ndarray]:
    table = pa.Table.from_batches(batches)
    return [column.to_numpy() for column in table.columns]


@pytest.mark.parametrize("shape", [(2, 3, 2, 4), (5, 1, 2), (1,), (40, 30, 2)], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("alpha", [0.05, 1.0, 50.0])
def test_every_cell_comes_within_one_of_its_share(shape: tuple[int, ...], rows: int, alpha: float) -> None:
    """Lumpy, random and almost uniform components: a cell of share p comes floor or ceil of p * rows times,
    never more or less.
    """
    blocks = [tuple(range(0, len(shape), 2)), tuple(range(1, len(shape), 2))]
    model = model_of(shape, [b for b in blocks if b], 1, alpha)
    for seed in range(3):
        codes = drawn(model, rows, np.random.default_rng(seed))
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
    for weights in (
        np.full(10, 0.1),
        np.full(3, 1 / 3),
        np.array([1 - 1e-16, 1e-300]),
        np.array([0.1] * 9 + [0.1 + 1e-15]),
    ):
        model = ProductModel(
            Domain.from_dict({"a": len(weights)}), [Factor((0,), (len(weights),), weights)], 1.0
        )
        for seed in range(20):
            codes = drawn(model, 1000, np.random.default_rng(seed))[0]
            assert counts_within_one(
                np.bincount(codes, minlength=len(weights)).tolist(), (weights / weights.sum()).tolist(), 1000
            )


def test_a_share_between_two_counts_is_right_on_average() -> None:
    """The comb begins anywhere: over many draws of one row each cell comes as often as its share says."""
    weights = np.array([0.15, 0.25, 0.6])
    model = ProductModel(Domain.from_dict({"a": 3}), [Factor((0,), (3,), weights)], 1.0)
    rng = np.random.default_rng(3)
    found = np.bincount([int(drawn(model, 1, rng)[0][0]) for _ in range(3000)], minlength=3)
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
        codes = drawn(model, rows, np.random.default_rng(seed))
        assert pairing(codes, *model.components) > CHANCE


def test_components_in_one_order_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: without its own random order each component comes sorted, and the check above must say
    so.
    """
    model = model_of((3, 2, 4, 2), [(0, 2), (1, 3)], 5, alpha=5.0)

    class Sorted:
        """Its luck moves nobody: numbers just below 1 keep every cell in its place."""

        def __init__(self, rng: np.random.Generator) -> None:
            self._rng = rng

        def random(self, size: int) -> np.ndarray:
            return np.full(size, 1 - 2**-53) if size == 2000 else self._rng.random(size)

    codes = drawn(model, 2000, Sorted(np.random.default_rng(0)))  # type: ignore[arg-type]
    assert pairing(codes, *model.components) < CHANCE
    for factor in model.components:
        assert counts_within_one(counts_of(factor, codes), factor.weights.tolist(), 2000), (
            "the marginals alone do not show it"
        )


def test_components_stay_independent_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch has combs and orders of its own: the rows of many short batches, put together, are
    independent too.
    """
    monkeypatch.setattr(module, "MAX_BATCH_ROWS", 50)
    model = model_of((3, 4), [(0,), (1,)], 6, alpha=5.0)
    codes = columns_of(list(batches_of(model, 20_000, 1)))
    assert pairing(codes, *model.components) > CHANCE


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [(0, []), (1, [1]), (10, [10]), (11, [10, 1]), (30, [10, 10, 10]), (37, [10, 10, 10, 7])],
)
def test_rows_come_in_batches(rows: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows as asked, at most MAX_BATCH_ROWS at a time, each batch within one row of the shares."""
    monkeypatch.setattr(module, "MAX_BATCH_ROWS", 10)
    model = model_of((2, 3), [(0, 1)], 7)
    batches = list(batches_of(model, rows, 0))
    assert [batch.num_rows for batch in batches] == sizes
    for batch in batches:
        codes = [column.to_numpy() for column in batch.columns]
        assert counts_within_one(
            counts_of(model.components[0], codes), model.components[0].weights.tolist(), batch.num_rows
        )
        assert batch.schema == schema_of(model)


def test_more_rows_than_a_batch_holds() -> None:
    """The real batch size; across k batches a cell is within k rows of its share."""
    model = model_of((3, 2), [(0,), (1,)], 8)
    stream = batches_of(model, 2 * MAX_BATCH_ROWS + 5, 0)
    assert next(stream).num_rows == MAX_BATCH_ROWS, (
        "streamed: the first batch is there before the last is drawn"
    )
    rest = columns_of(list(stream))
    assert len(rest[0]) == MAX_BATCH_ROWS + 5
    for factor in model.components:
        for cell, share in zip(counts_of(factor, rest), factor.weights.tolist(), strict=True):
            assert abs(cell - share * (MAX_BATCH_ROWS + 5)) <= 2


def test_a_seed_gives_the_same_rows_and_another_gives_others() -> None:
    model = model_of((4, 3, 2), [(0, 1), (2,)], 9)
    first, again, other = (columns_of(list(batches_of(model, 500, seed))) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_columns_are_those_of_the_model() -> None:
    """Every attribute's one-way marginal, through `sample` and its decoding: no column takes another's
    place.
    """
    model = model_of((2, 5, 3), [(0, 2), (1,)], 10)
    codes = columns_of(list(batches_of(model, 3000, 0)))
    for position, size in enumerate(model.domain.shape):
        found = np.bincount(codes[position], minlength=size)
        np.testing.assert_allclose(found / 3000, model.marginal((position,)) / model.total, atol=8 / 3000)


# ---- down a clique tree


def tree_model(seed: int, kind: str = "fine") -> tuple[Forest, Domain]:
    """A root with two children that share a separator, and a grandchild; random tables. "coarse": separators
    are coarser than the codes beyond them; "below": than the codes that were drawn before.
    """
    rng = np.random.default_rng(seed)
    shape = (4, 6, 3, 5, 2)
    levels = Levels.of(shape, [[], [[0, 0, 1, 1, 2, 2]], [], [], []])
    tied = {
        "fine": [(0, 1), (1, 2), (1, 3), (3, 4)],
        "coarse": [(0, 1), (5, 2), (5, 3), (3, 4)],
        "below": [(0, 1), (5, 2), (0, 3), (3, 4)],
    }[kind]
    views = [(0,), (1,), (2,), (3,), (4,), *tied]
    theta = rng.normal(size=sum(levels.cells(view) for view in views)) * 0.7
    tree = CliqueTree.of(levels, views)
    return Forest(levels, [Component.log_linear(tree, views, theta)], 50.0), Domain.from_dict(
        {f"a{i}": size for i, size in enumerate(shape)}
    )


def clique_counts(forest: Forest, clique: tuple[int, ...], codes: list[np.ndarray]) -> np.ndarray:
    """How often each cell of a clique came, its codes grouped to its levels."""
    levels = forest.levels
    cell = np.zeros(len(codes[0]), dtype=np.int64)
    for v in clique:
        cell = cell * int(levels.sizes[v]) + levels.groups[v][codes[int(levels.attribute[v])]]
    return np.bincount(cell, minlength=levels.cells(clique))


@pytest.mark.parametrize("kind", ["fine", "coarse", "below"])
@pytest.mark.parametrize("rows", [0, 1, 2, 50, 3000])
def test_every_cliques_cells_come_close_to_their_share(kind: str, rows: int) -> None:
    """Root cells come within one row of their share. Below, a cell comes within one row of its conditional
    share of its separator's rows, and those are off by what the cells above them are, so by less than one row
    for each cell that is added up, once more at every edge.
    """
    forest, _ = tree_model(1, kind)
    (part,) = forest.components
    tree, levels = part.tree, forest.levels
    assert len(tree.cliques) > 2
    for seed in range(3):
        codes = draw(forest, rows, np.random.default_rng(seed))
        assert [len(c) for c in codes] == [rows] * 5
        assert counts_within_one(
            clique_counts(forest, tree.cliques[0], codes).tolist(), part.table(0).tolist(), rows
        )
        off = {0: np.abs(clique_counts(forest, tree.cliques[0], codes) - part.table(0) * rows)}
        for child, parent, separator in tree.edges:
            found = clique_counts(forest, tree.cliques[child], codes)
            to_separator, above = (grid(tree.steps(k, separator)) for k in (child, parent))
            given = np.bincount(to_separator, found, minlength=levels.cells(separator))
            share = part.table(child) / np.bincount(to_separator, part.table(child))[to_separator]
            assert (np.abs(found - given[to_separator] * share) <= 1 + 1e-6).all()
            most = np.bincount(above, off[parent])
            assert (np.abs(given - np.bincount(to_separator, part.table(child)) * rows) <= most + 1e-6).all()
            off[child] = np.abs(found - part.table(child) * rows)
            assert (off[child] <= 1 + share * most[to_separator] + 1e-6).all()


def given_separator(codes: list[np.ndarray], left: int, right: int, given: np.ndarray) -> float:
    """p-value of independence of two attributes within every value of `given`, all tables' chi-squares added
    up.
    """
    statistic, freedom = 0.0, 0
    for value in np.unique(given):
        inside = given == value
        table = np.zeros((codes[left].max() + 1, codes[right].max() + 1))
        np.add.at(table, (codes[left][inside], codes[right][inside]), 1)
        table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        if min(table.shape) > 1:
            found = stats.chi2_contingency(table, correction=False)
            statistic, freedom = statistic + found.statistic, freedom + found.dof
    return float(stats.chi2.sf(statistic, freedom))


@pytest.mark.parametrize("kind", ["fine", "coarse"])
def test_siblings_are_independent_given_their_separator(kind: str) -> None:
    """Attributes 0, 2 and 3 hang on attribute 1 (or on its group): within each of its values they know
    nothing of each other.
    """
    forest, _ = tree_model(2, kind)
    for seed in range(4):
        codes = draw(forest, 20_000, np.random.default_rng(seed))
        given = forest.levels.groups[5][codes[1]] if kind == "coarse" else codes[1]
        for left, right in ((0, 2), (0, 3), (2, 3)):
            assert given_separator(codes, left, right, given) > CHANCE
        assert given_separator(codes, 2, 4, codes[3]) > CHANCE
        assert given_separator(codes, 1, 2, np.zeros(20_000, dtype=np.int64)) < CHANCE, (
            "the check has power: these do depend on each other"
        )


class Straight:
    """A generator whose luck moves nobody after the first shuffle: what draws below the root would do without
    theirs.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._shuffled = rng, False

    def random(self, size: int) -> np.ndarray:
        if size == 20_000 and self._shuffled:
            return np.full(size, 1 - 2**-53)
        self._shuffled |= size == 20_000
        return self._rng.random(size)


def test_siblings_without_a_shuffle_would_be_noticed() -> None:
    """The planted bug: in each separator's rows the codes of both children rise together, while every
    clique's cells are as they should be.
    """
    forest, _ = tree_model(2)
    codes = draw(forest, 20_000, Straight(np.random.default_rng(0)))  # type: ignore[arg-type]
    below = [
        v for child, _, _ in forest.components[0].tree.edges for v in forest.components[0].tree.cliques[child]
    ]
    pairs = [(left, right) for left, right in ((0, 2), (0, 3), (2, 3)) if {left, right} <= set(below)]
    assert pairs and min(given_separator(codes, left, right, codes[1]) for left, right in pairs) < CHANCE


@pytest.mark.parametrize("kind", ["fine", "coarse", "below"])
def test_marginals_across_cliques_come_out_right(kind: str) -> None:
    """Attributes of different cliques, whose joint no table holds, as the model says: by a chi-square over
    independent batches.
    """
    forest, _ = tree_model(3, kind)
    codes = draw(forest, 40_000, np.random.default_rng(0))
    for view in ((0, 2), (0, 4), (2, 3, 4), (0, 2, 4)):
        expected = forest.marginal(view) / forest.total * 40_000
        found = clique_counts(forest, view, codes)
        assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > CHANCE


def test_a_tree_is_sampled_through_its_codec() -> None:
    """Batches of a tree model: every column's shares, under the names of the domain."""
    forest, domain = tree_model(4, "below")
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in domain.names])
    codes = columns_of(list(Batches(forest, domain, schema, 5000, generators(0))))
    for a, size in enumerate(domain.shape):
        np.testing.assert_allclose(
            np.bincount(codes[a], minlength=size) / 5000, forest.marginal((a,)) / 50, atol=40 / 5000
        )
