"""Rows from a model: marginals as close as whole rows allow, components independent of each other, nothing
else.
"""

from __future__ import annotations

import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from math import floor

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from support.naive import cells_of, counts_within_one

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.kernels.drawing import Conditional, deal
from factored_mwem.model.clique_tree import CliqueTree, grid
from factored_mwem.model.dense import Factor, ProductModel
from factored_mwem.model.drawing import Drawing, draw
from factored_mwem.model.forest import Component, Forest
from factored_mwem.pipeline import sampling
from factored_mwem.pipeline.drawable import generator
from factored_mwem.pipeline.sampling import MAX_BATCH_ROWS, Batches

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


def batches_of(model: ProductModel, rows: int, seed: int) -> Batches:
    return Batches(Forest.of(model), model.domain, schema_of(model), rows, partial(generator, seed))


def schema_of(model: ProductModel) -> pa.Schema:
    return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in model.domain.names])


def columns_of(batches: list[pa.RecordBatch]) -> list[np.ndarray]:
    table = pa.Table.from_batches(batches)
    return [column.to_numpy() for column in table.columns]


@pytest.mark.parametrize("shape", [(2, 3, 2, 4), (5, 1, 2), (1,), (40, 30, 2)], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("alpha", [0.05, 1.0, 50.0])
def test_every_cell_comes_within_one_of_its_share(shape: tuple[int, ...], rows: int, alpha: float) -> None:
    """Lumpy, random and even components: a cell of share p comes floor or ceil of p * rows times."""
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


@pytest.mark.parametrize(
    "weights", [[0.1] * 10, [1 / 3] * 3, [1 - 1e-16, 1e-300], [0.1] * 9 + [0.1 + 1e-15]], ids=range(4)
)
def test_the_last_cell_is_reached_and_not_passed(weights: list[float]) -> None:
    """Weights whose running sum ends a float's breadth below or above 1."""
    domain, size = Domain.from_dict({"a": len(weights)}), len(weights)
    model = ProductModel(domain, [Factor((0,), (size,), np.array(weights))], 1.0)
    shares = (np.array(weights) / np.sum(weights)).tolist()
    for seed in range(20):
        codes = drawn(model, 1000, np.random.default_rng(seed))[0]
        assert counts_within_one(np.bincount(codes, minlength=size).tolist(), shares, 1000)


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


class Unlucky:
    """A generator whose luck moves nobody once `moved` shuffles of `rows` went by."""

    def __init__(self, rows: int, moved: int) -> None:
        self.rng, self.rows, self.moved = np.random.default_rng(0), rows, moved

    def random(self, size: int) -> np.ndarray:
        if size == self.rows and not self.moved:
            return np.full(size, 1 - 2**-53)
        self.moved -= size == self.rows
        return self.rng.random(size)


def test_components_in_one_order_would_be_noticed() -> None:
    """The planted bug: without its own random order each component comes sorted."""
    model = model_of((3, 2, 4, 2), [(0, 2), (1, 3)], 5, alpha=5.0)
    codes = drawn(model, 2000, Unlucky(2000, 0))  # type: ignore[arg-type]
    assert pairing(codes, *model.components) < CHANCE
    for factor in model.components:
        assert counts_within_one(counts_of(factor, codes), factor.weights.tolist(), 2000), (
            "the marginals alone do not show it"
        )


def test_components_stay_independent_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch has combs and orders of its own: many short ones, put together, are independent too."""
    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 50)
    model = model_of((3, 4), [(0,), (1,)], 6, alpha=5.0)
    codes = columns_of(list(batches_of(model, 20_000, 1)))
    assert pairing(codes, *model.components) > CHANCE


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [(0, []), (1, [1]), (10, [10]), (11, [10, 1]), (30, [10, 10, 10]), (37, [10, 10, 10, 7])],
)
def test_rows_come_in_batches(rows: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows as asked, at most MAX_BATCH_ROWS at a time, each batch within one row of the shares."""
    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 10)
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
    stream = iter(batches_of(model, 2 * MAX_BATCH_ROWS + 5, 0))
    assert next(stream).num_rows == MAX_BATCH_ROWS, (
        "streamed: the first batch is there before the last is drawn"
    )
    rest = columns_of(list(stream))
    assert len(rest[0]) == MAX_BATCH_ROWS + 5
    for factor in model.components:
        for cell, share in zip(counts_of(factor, rest), factor.weights.tolist(), strict=True):
            assert abs(cell - share * (MAX_BATCH_ROWS + 5)) <= 2


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
    """p-value of independence of two attributes within every value of `given`, chi-squares added up."""
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
    """Attributes 0, 2 and 3 hang on 1 (or its group): within its values they know nothing of each other."""
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


def test_siblings_without_a_shuffle_would_be_noticed() -> None:
    """The planted bug: in each separator's rows the codes of both children rise together, while every
    clique's cells are as they should be.
    """
    forest, _ = tree_model(2)
    codes = draw(forest, 20_000, Unlucky(20_000, 1))  # type: ignore[arg-type]
    tree = forest.components[0].tree
    below = {v for child, _, _ in tree.edges for v in tree.cliques[child]}
    pairs = [(left, right) for left, right in ((0, 2), (0, 3), (2, 3)) if {left, right} <= below]
    assert pairs and min(given_separator(codes, left, right, codes[1]) for left, right in pairs) < CHANCE


@pytest.mark.parametrize("kind", ["fine", "coarse", "below"])
def test_marginals_across_cliques_come_out_right(kind: str) -> None:
    """Attributes whose joint no table holds, as the model says: by a chi-square."""
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
    codes = columns_of(list(Batches(forest, domain, schema, 5000, partial(generator, 0))))
    for a, size in enumerate(domain.shape):
        np.testing.assert_allclose(
            np.bincount(codes[a], minlength=size) / 5000, forest.marginal((a,)) / 50, atol=40 / 5000
        )


# ---- the kernel beside plain Python, and batches that know nothing of each other


def dealt_by_hand(
    weights: list[list[int]],
    cells: list[list[int]],
    given: list[int],
    begin: list[Fraction],
    luck: list[float],
) -> list[int]:
    """What `deal` deals: each group's comb, then its shuffle, then a cell for each of its rows in turn."""
    hands = []
    start = 0
    for g, mass in enumerate(weights):
        rows, total = given.count(g), sum(mass)
        hand: list[int] = []
        for k in range(rows):
            comb, at = (k + begin[g]) / rows * total, 0
            while sum(mass[: at + 1]) <= comb:
                at += 1
            j = floor(luck[start + k] * (k + 1))
            hand.append(cells[g][at])
            hand[k], hand[j] = hand[j], hand[k]
        hands.append(iter(hand))
        start += rows
    return [next(hands[g]) for g in given]


@pytest.mark.parametrize("seed", range(5))
def test_cells_are_dealt_as_by_hand(seed: int) -> None:
    """Weights are whole numbers and combs begin at quarters, so that no sum is rounded."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=4)
    weights = [rng.integers(1, 9, size=n).tolist() for n in sizes]
    cells = np.split(rng.permutation(int(sizes.sum())), np.cumsum(sizes)[:-1])
    given = rng.choice([0, 1, 3], size=64)  # nobody is in group 2
    begin, luck = [Fraction(int(q), 4) for q in rng.integers(0, 4, size=4)], rng.random(64)
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(np.concatenate(weights))]).astype(np.float64)
    table = Conditional(np.concatenate(cells).astype(np.int64), ends, first)
    found = np.empty(64, dtype=np.int64)
    deal(table, given.astype(np.int64), np.array(begin, dtype=float), luck, np.empty_like(found), found)
    expected = dealt_by_hand(weights, [c.tolist() for c in cells], given.tolist(), begin, luck.tolist())
    assert found.tolist() == expected


def test_every_order_of_a_group_is_as_likely() -> None:
    """Three rows of a group with three cells: each of the six orders in a sixth of all draws."""
    rng, orders = np.random.default_rng(0), {}
    table = Conditional(np.arange(3), np.arange(4.0), np.array([0, 3]))
    for _ in range(6000):
        found = np.empty(3, dtype=np.int64)
        given, hand = np.zeros(3, dtype=np.int64), np.empty(3, dtype=np.int64)
        deal(table, given, rng.random(1), rng.random(3), hand, found)
        orders[tuple(found.tolist())] = orders.get(tuple(found.tolist()), 0) + 1
    assert len(orders) == 6 and all(abs(count - 1000) < 6 * 1000**0.5 for count in orders.values())


def of_a_pair(rows: int) -> Batches:
    return batches_of(model_of((3, 4), [(0, 1)], 7), rows, 1)


def test_batches_are_the_same_in_any_order_and_by_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 50)
    drawn = of_a_pair(1020)
    whole = list(drawn)
    assert [batch.num_rows for batch in whole] == [50] * 20 + [20] == [drawn.length(b) for b in range(21)]
    backwards = [drawn.batch(b) for b in reversed(range(len(drawn)))][::-1]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(drawn.batch, range(len(drawn))))
    assert whole == backwards == together == [of_a_pair(1020).batch(b) for b in range(21)]
    assert len({str(batch.to_pydict()) for batch in whole}) == 21  # and none is another's


def test_more_rows_begin_with_the_same_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the last one, which is as long as what is left."""
    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 50)
    assert [of_a_pair(1000).batch(b) for b in range(3)] == [of_a_pair(151).batch(b) for b in range(3)]


def test_no_two_seeds_share_a_batch() -> None:
    """Numpy joins the words of a list: [2^32 + 5, 0] and [5, 1] would be one generator."""
    words = np.random.default_rng([5, 1]).random(), np.random.default_rng([5 + 2**32, 0]).random()
    assert words[0] == words[1]
    seeds = [0, 1, 5, 5 + 2**32, 2**63]
    drawn = {generator(seed, batch).random() for seed in seeds for batch in range(4)}
    assert len(drawn) == 4 * len(seeds)


def spread(draw, shares: np.ndarray, rows: int, draws: int = 600) -> np.ndarray:
    """float64[cell]: how much counts of a chain's cells vary, over that of multinomial ones."""
    counts = np.array([np.bincount(draw(rows), minlength=len(shares)) for _ in range(draws)])
    return counts.var(axis=0) / (rows * shares * (1 - shares))


def test_independent_rows_scatter_as_multinomial_ones_do() -> None:
    """A variance of 600 counts is off by 5.8 %: six times that. Rows dealt evenly scatter far less."""
    rng = np.random.default_rng(9)
    levels = Levels.fine((2, 3, 2))
    theta = rng.normal(size=12) / 2
    part = Component.log_linear(CliqueTree.of(levels, [(0, 1), (1, 2)]), [(0, 1), (1, 2)], theta)
    model = Forest(levels, [part], 1.0)
    drawing, shares = Drawing(model), model.marginal((0, 1, 2))

    def cells(codes: list[np.ndarray]) -> np.ndarray:
        return (codes[0] * 3 + codes[1]) * 2 + codes[2]

    alone = spread(lambda rows: cells(drawing.independent(rows, rng)), shares, 400)
    assert (np.abs(alone - 1) < 0.35).all()
    dealt = spread(lambda rows: cells(drawing.codes(rows, rng)), shares, 400)
    assert (np.abs(dealt - 1) > 0.35).any()


def test_rows_that_move_stay_on_a_diagonal_that_aims_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair that a clique holds finely is kept; one that the aims show as finely, or that has more cells
    than rows can fill, or than memory is for, is not. Before, .075 of these rows left the diagonal, for .0045
    as they were drawn.
    """
    rng, fine, rows = np.random.default_rng(1), 40, 2_000
    levels = Levels.of((fine, fine, 6), [[np.arange(fine) // 5], [np.arange(fine) // 5], []])
    coarse = [chain[-1] for chain in levels.chains]
    views = [(0, 1), (coarse[0], 2), (coarse[1], 2)]
    theta = [9.0 * np.eye(fine).ravel(), *(rng.normal(size=levels.cells(view)) for view in views[1:])]
    part = Component.log_linear(CliqueTree.of(levels, views), views, np.concatenate(theta))
    forest, domain = Forest(levels, [part], float(rows)), Domain.from_dict({"a": fine, "b": fine, "c": 6})
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in domain.names])
    aims = [(0,), (1,), (2,), tuple(coarse)]
    batches = Batches(forest, domain, schema, rows, partial(generator, 0), aims)
    assert sampling.finer_pairs(forest, aims, rows) == [(0, 1)]
    assert not sampling.finer_pairs(forest, [*aims, (0, 1)], rows)
    assert not sampling.finer_pairs(forest, aims, fine * fine - 1)
    monkeypatch.setattr(sampling, "FREE_CELLS", fine * fine - 1)
    assert not sampling.finer_pairs(forest, aims, rows)
    assert sampling.finer_pairs(forest, aims * 11, rows) == [(0, 1)]  # these take memory, too
    codes = Drawing(forest).independent(rows, np.random.default_rng(0))
    refined = batches.refined(codes, np.random.default_rng(0))
    before, after = (float((a != b).mean()) for a, b, _ in (codes, refined))
    moved = np.mean([(old != new).mean() for old, new in zip(codes, refined, strict=True)])
    assert moved > 0.01
    assert after <= before + 0.002
