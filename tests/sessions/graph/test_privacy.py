"""Sensitivity by brute force over all neighbours, charges before noise, and bugs that are planted."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from support.fakes import Between, FakeNoise
from support.graphs import adjacency, all_cuts, edges_of, packed, sealed, session
from support.tables import every_unit

from factored_mwem.accounting.accountant import Accountant, Budget, Mechanism, price
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import BudgetExceeded, ResourceError
from factored_mwem.privacy.metered import Metered
from factored_mwem.privacy.other.edges import AllEdges, check_pairs
from factored_mwem.workload.cuts import RankOne

N = 4
PAIRS = list(itertools.combinations(range(N), 2))
LINES = [*PAIRS, *((j, i) for i, j in PAIRS), (0, 0)]
"""What a line may say: every pair in both orders, and a loop."""
QUERIES = [
    AllEdges.PAIRS,
    AllEdges.COUNT,
    *list(all_cuts(N))[::11],
    RankOne.of([1, 0.5, 0, 0.25], [0.5, 1, 1, 0]),
    RankOne.of([1, 1, 0, 0], [0, 0, 1, 1]),
]


def neighbours(lines: list[tuple[int, int]], unit: Unit) -> list[list[tuple[int, int]]]:
    """All inputs in which one person's lines are gone, or are others: the last k lines are that person's."""
    k = unit.contributions
    rest = lines[:-k] if k else lines
    if unit.neighbours is Neighbours.ADD_REMOVE:
        return [rest]
    return [rest + list(others) for others in itertools.combinations_with_replacement(LINES, k)]


def exact(lines: list[tuple[int, int]], what: object) -> np.ndarray:
    return edges_of(adjacency(N, [line for line in lines if line[0] != line[1]])).exact(what)


def worst(unit: Unit, read: object = exact) -> dict[int, tuple[int, int]]:
    """By query, the largest L1 and squared L2 change over many inputs and all their neighbours."""
    found = dict.fromkeys(range(len(QUERIES)), (0, 0))
    rng = np.random.default_rng(3)
    for size in (2, 5, 9):
        for _ in range(3):
            lines = [LINES[i] for i in rng.integers(0, len(LINES), size)]
            tables = [lines, *neighbours(lines, unit)]
            for at, what in enumerate(QUERIES):
                mine, *others = [read(table, what) for table in tables]  # type: ignore[operator]
                for other in others:
                    change = np.abs(mine - other)
                    l1, l2 = int(change.sum()), int((change**2).sum())
                    found[at] = max(found[at][0], l1), max(found[at][1], l2)
    return found


@pytest.mark.slow
@every_unit
def test_no_neighbour_moves_further_than_is_charged(unit: Unit) -> None:
    said = sealed(adjacency(N, []))
    for at, (l1, l2) in worst(unit).items():
        assert l1 <= said.sensitivity(QUERIES[at], unit, Composition.PURE)
        assert l2 <= said.sensitivity(QUERIES[at], unit, Composition.ZCDP)


@every_unit
def test_no_less_is_charged_than_a_neighbour_moves(unit: Unit) -> None:
    """The sensitivities of all pairs, the count and a rank-1 query are reached by some neighbours."""
    k = unit.contributions
    others = PAIRS[k : 2 * k] if unit.neighbours is Neighbours.REPLACE else []
    moved = exact(PAIRS[:k], AllEdges.PAIRS) - exact(others, AllEdges.PAIRS)
    said = sealed(adjacency(N, []))
    assert np.abs(moved).sum() == said.sensitivity(AllEdges.PAIRS, unit, Composition.PURE)
    assert (moved**2).sum() == said.sensitivity(AllEdges.PAIRS, unit, Composition.ZCDP)
    assert exact(PAIRS[:k], AllEdges.COUNT)[0] == said.sensitivity(AllEdges.COUNT, unit, Composition.PURE)
    assert exact([(0, 2)], QUERIES[-1])[0] * k == said.sensitivity(QUERIES[-1], unit, Composition.PURE)


def test_edges_that_count_twice_are_caught() -> None:
    """Planted: a matrix of both triangles, in which an edge lies twice, at the sensitivity of one."""

    def twice(lines: list[tuple[int, int]], what: object) -> np.ndarray:
        found = exact(lines, what)
        return np.concatenate([found, found]) if what is AllEdges.PAIRS else found

    said = sealed(adjacency(N, [])).sensitivity(AllEdges.PAIRS, Unit(), Composition.PURE)
    assert worst(Unit(), twice)[0][0] == 2 * said > said


def test_lines_that_all_count_are_caught() -> None:
    """Planted: every line in either order adds to its pair, so that taking a *pair* away moves it by more
    than the one that is promised, while of the set it moves by one.
    """
    repeated = [(0, 1)] * 5 + [(1, 0)] * 4
    weight = np.bincount([0] * len(repeated), minlength=6)
    assert np.abs(weight - 0).sum() == 9
    assert np.abs(exact(repeated, AllEdges.PAIRS) - exact([], AllEdges.PAIRS)).sum() == 1


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_what_is_charged_is_what_is_drawn(delta: float) -> None:
    composition = Composition.ZCDP if delta else Composition.PURE
    fake = FakeNoise(composition)
    at = session(fake, delta=delta)
    found = at.measure(sealed(adjacency(N, PAIRS[:3])), AllEdges.PAIRS, cost=at.left)
    (entry,) = at.accountant.entries
    kind = Mechanism.GAUSSIAN if delta else Mechanism.LAPLACE
    assert (entry.mechanism, entry.sensitivity, entry.scale) == (kind, 1, fake.calls[0].scale)
    assert entry.target == ("pairs",) and len(found.noisy) == 6 and found.noisy.sum() == 3
    rest = at.accountant.budget.amount - price(kind, scale=entry.scale, sensitivity=1)
    assert 0 <= rest < Fraction(1, 10**6)


def test_nothing_is_read_where_the_budget_is_spent() -> None:
    """Charge before noise: a second reading ends in a refusal, with nothing counted and nothing drawn."""
    fake = FakeNoise(Composition.PURE)
    at = session(fake)
    edges = sealed(adjacency(N, PAIRS[:3]))
    at.measure(edges, AllEdges.PAIRS, cost=at.left)
    with pytest.raises(BudgetExceeded):
        at.measure(edges, AllEdges.COUNT, cost=Fraction(1, 2))
    assert len(fake.calls) == len(at.accountant.entries) == 1


def test_noise_of_half_the_scale_is_caught() -> None:
    """Planted: a bug between the books and the sampler; the meter, and the comparison above, see it."""
    fake = FakeNoise(Composition.PURE)
    accountant = Accountant(Budget.of(1.0, 0.0))
    at = session(Between(Metered(fake, accountant), 0.5))
    at = type(at)(accountant, Unit(), at.noise)
    with pytest.raises(AssertionError, match="another scale"):
        at.measure(sealed(adjacency(N, PAIRS)), AllEdges.PAIRS, cost=Fraction(1))
    assert not fake.calls


def test_a_test_of_a_cut_compares_in_grains() -> None:
    edges = edges_of(adjacency(N, PAIRS[:3]))
    assert edges.gap(AllEdges.COUNT, 2**20) == 2 * 2**20
    assert edges.gap(AllEdges.COUNT, 5 * 2**20 + 3) == 2 * 2**20 + 3
    assert "private" in repr(edges) and not hasattr(edges, "__dict__")


def test_too_many_pairs_are_refused() -> None:
    graph = adjacency(N, PAIRS[1::2])
    assert exact(PAIRS[1::2], AllEdges.PAIRS).tolist() == packed(graph).tolist()
    check_pairs(Vertices.of(11_585))
    with pytest.raises(ResourceError, match="pairs"):
        check_pairs(Vertices.of(11_587))
