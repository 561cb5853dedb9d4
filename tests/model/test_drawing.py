"""Drawing: the kernel beside plain Python, and batches that know nothing of each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import floor

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.kernels.drawing import Conditional, deal
from factored_mwem.model import sampling
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.dense import Factor, ProductModel
from factored_mwem.model.drawing import Drawing
from factored_mwem.model.forest import Component, Forest
from factored_mwem.model.sampling import Batches
from factored_mwem.pipeline.result import generator


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


def batches(rows: int, seed: int = 1) -> Batches:
    domain = Domain.from_dict({"a": 3, "b": 4})
    weights = np.random.default_rng(7).dirichlet(np.ones(12))
    model = Forest.of(ProductModel(domain, [Factor((0, 1), (3, 4), weights)], 1.0))
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in "ab"])
    return Batches(model, domain, schema, rows, lambda batch: generator(seed, batch))


def test_batches_are_the_same_in_any_order_and_by_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 50)
    drawn = batches(1020)
    whole = list(drawn)
    assert [batch.num_rows for batch in whole] == [50] * 20 + [20] == [drawn.length(b) for b in range(21)]
    backwards = [drawn.batch(b) for b in reversed(range(len(drawn)))][::-1]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(drawn.batch, range(len(drawn))))
    assert whole == backwards == together == [batches(1020).batch(b) for b in range(21)]
    assert len({str(batch.to_pydict()) for batch in whole}) == 21  # and none is another's


def test_more_rows_begin_with_the_same_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the last one, which is as long as what is left."""
    monkeypatch.setattr(sampling, "MAX_BATCH_ROWS", 50)
    assert [batches(1000).batch(b) for b in range(3)] == [batches(151).batch(b) for b in range(3)]


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
    """Over the two cliques of a chain; a variance of 600 counts is off by 5.8 %: six times that. Rows dealt
    evenly scatter far less.
    """
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
