"""Cut norms against brute force over both sets, and the checks of THEORY D.7."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from support.graphs import (
    adjacency,
    all_cuts,
    complete,
    cut_of,
    noise_matrix,
    random_cut,
    random_graph,
    sides,
)

from factored_mwem.errors import InputError
from factored_mwem.sessions.graph.norms import cut_norm, normalised_cut_norm, search_cuts, spectral_norm
from factored_mwem.workload.cuts import RankOne, ordered

RNG = np.random.default_rng(2)


def brute(matrix: np.ndarray) -> tuple[float, float]:
    """(cut norm, normalised cut norm) by all pairs of sets."""
    every = [side for side in sides(len(matrix)) if side.any()]
    values = [(abs(ordered(matrix, s, t)), s.sum() * t.sum()) for s, t in itertools.product(every, repeat=2)]
    return max(v for v, _ in values), max(v / math.sqrt(size) for v, size in values)


BOTH = adjacency(4, [(0, 2), (0, 3), (1, 2), (1, 3)])


@pytest.mark.parametrize(
    ("matrix", "norm", "share"),
    [(complete(3), 6, 2), (np.array([[1.0, -1.0], [-1.0, 1.0]]), 1, 1), (BOTH, 8, 2)],
    ids=["triangle", "signs", "bipartite"],
)
def test_norms_by_hand(matrix: np.ndarray, norm: float, share: float) -> None:
    assert abs(cut_norm(matrix).value) == norm
    assert abs(normalised_cut_norm(matrix).value) == pytest.approx(share)
    assert spectral_norm(matrix) == pytest.approx(2)
    assert ordered(BOTH, np.arange(4) < 2, np.arange(4) > 1) == 4


@pytest.mark.parametrize("n", [2, 4, 6])
def test_exact_norms_are_those_of_all_pairs_of_sets(n: int) -> None:
    for _ in range(6):
        matrix = noise_matrix(RNG, n, 1.0) + np.diag(RNG.normal(size=n))
        by_all, by_share = brute(matrix)
        one, share = cut_norm(matrix), normalised_cut_norm(matrix)
        assert abs(one.value) == pytest.approx(by_all) and abs(share.value) == pytest.approx(by_share)
        assert ordered(matrix, one.sources, one.targets) == pytest.approx(one.value)
        size = math.sqrt(share.sources.sum() * share.targets.sum())
        assert ordered(matrix, share.sources, share.targets) / size == pytest.approx(share.value)


@pytest.mark.parametrize("n", [4, 7, 10, 14])
def test_nikiforov(n: int) -> None:
    """||M||_N <= sigma_1 <= O(log n) ||M||_N, and rank-1 queries by sigma_1 (Remark 6.4)."""
    for matrix in (noise_matrix(RNG, n, 1.0), random_graph(RNG, n, 0.4) - 0.4, complete(n)):
        share, top = abs(normalised_cut_norm(matrix).value), spectral_norm(matrix)
        assert share <= top * (1 + 1e-12)
        assert top <= 2 * (1 + math.log(n)) * share
        for _ in range(20):
            u, v = RNG.random((2, n))
            assert abs(u @ matrix @ v) <= top * np.linalg.norm(u) * np.linalg.norm(v) * (1 + 1e-12)
        assert RankOne.of(u, v).largest <= 2 * 2**20


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("n", [6, 12, 15])
def test_local_search_is_below_the_norm_and_near_it(n: int, normalised: bool) -> None:
    norm = normalised_cut_norm if normalised else cut_norm
    for _ in range(5):
        matrix = noise_matrix(RNG, n, 1.0)
        exact, found = abs(norm(matrix).value), search_cuts(matrix, normalised=normalised)
        best = found[0]
        assert 0.8 * exact <= abs(best.value) <= exact * (1 + 1e-9)
        assert [abs(f.value) for f in found] == sorted((abs(f.value) for f in found), reverse=True)
        for each in found[:5]:
            size = math.sqrt(each.sources.sum() * each.targets.sum()) if normalised else 1.0
            assert ordered(matrix, each.sources, each.targets) / size == pytest.approx(each.value)


def test_local_search_finds_a_planted_block() -> None:
    """A block of 20 x 20 among 300 vertices, 3 above noise of 1: no random pair of sets comes near."""
    matrix = noise_matrix(RNG, 300, 0.7)
    matrix[:20, 100:120] += 3.0
    matrix[100:120, :20] += 3.0
    best = search_cuts(matrix, normalised=True)[0]
    assert best.value >= 0.9 * ordered(matrix, np.arange(300) < 20, (np.arange(300) // 20) == 5) / 20
    cuts = [random_cut(RNG, 300) for _ in range(200)]
    sizes = [math.sqrt(max(1, c.sources.sum() * c.targets.sum())) for c in cuts]
    values = [abs(ordered(matrix, c.sources, c.targets)) / size for c, size in zip(cuts, sizes, strict=True)]
    assert best.value > 2 * max(values)


def test_unordered_cuts_are_within_three_halves_of_the_norm() -> None:

    for _ in range(4):
        matrix = noise_matrix(RNG, 5, 1.0)
        most = max(abs(cut_of(matrix, cut)) for cut in all_cuts(5))
        apart = max(abs(cut_of(matrix, c)) for c in all_cuts(5) if not (c.sources & c.targets).any())
        assert most <= 1.5 * abs(cut_norm(matrix).value) and apart <= abs(cut_norm(matrix).value) + 1e-9


def test_all_sets_of_many_vertices_are_refused() -> None:
    with pytest.raises(InputError, match="all sets"):
        cut_norm(np.zeros((17, 17)))
