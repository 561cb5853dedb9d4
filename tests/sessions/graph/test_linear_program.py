"""Lemma 6.2: the program's optimum, and what it promises, by brute force; the spectral form beside it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog
from support.graphs import KARATE, adjacency, noise_matrix, random_graph, sides

from factored_mwem.errors import InputError
from factored_mwem.kernels.cuts import cut_sum
from factored_mwem.sessions.graph.linear_program import CLOSE, check_program, solve_cuts
from factored_mwem.sessions.graph.norms import cut_norm, normalised_cut_norm, spectral_norm
from factored_mwem.sessions.graph.result import draw_edges
from factored_mwem.sessions.graph.spectral import SLACK, denoise, noise_radius
from factored_mwem.sessions.graph.tails import rounding_bound

RNG = np.random.default_rng(4)


def in_the_box(matrix: np.ndarray) -> bool:
    inside = (matrix >= 0) & (matrix <= 1) & (matrix == matrix.T)
    return bool(inside.all() and not matrix.diagonal().any())


def test_without_noise_the_graph_comes_back() -> None:
    """THEORY: with d-hat = D the error is 0."""
    for n in (4, 8, 12):
        graph = random_graph(RNG, n, 0.4)
        for normalised in (False, True):
            found = solve_cuts(graph, normalised=normalised)
            assert np.allclose(found.matrix, graph) and found.distance == found.proven == 0.0


@pytest.mark.parametrize("n", [3, 5, 8])
def test_the_optimum_is_below_the_noise_and_the_result_within_twice_that(n: int) -> None:
    """THEORY: lambda <= cut norm of the noise; every cut of x within 2 lambda* of the graph, by all sets."""
    for scale in (0.3, 1.0, 4.0):
        graph, noise = random_graph(RNG, n, 0.5), noise_matrix(RNG, n, scale)
        found, norm = solve_cuts(graph + noise), abs(cut_norm(noise).value)
        slack = 1 + CLOSE
        assert in_the_box(found.matrix)
        assert found.least <= norm + 1e-9 and found.distance <= norm * slack + CLOSE
        assert found.distance <= found.least * slack + CLOSE
        assert abs(cut_norm(found.matrix - graph - noise).value) == pytest.approx(found.distance, abs=1e-9)
        assert abs(cut_norm(found.matrix - graph).value) <= 2 * norm * slack + CLOSE


def test_the_optimum_is_that_of_the_whole_program() -> None:
    """All 4^n constraints at once, for four vertices."""
    noisy = random_graph(RNG, 4, 0.5) + noise_matrix(RNG, 4, 1.0)
    low, high = np.triu_indices(4, 1)
    both = [np.outer(s, t).astype(float) for s, t in itertools.product(sides(4), repeat=2)]
    rows = np.array([(each + each.T)[low, high] for each in both])
    sums, ones = rows @ noisy[low, high], np.ones((len(rows), 1))
    above, right = np.block([[rows, -ones], [-rows, -ones]]), np.concatenate([sums, -sums])
    whole = linprog([0.0] * 6 + [1.0], above, right, bounds=[(0, 1)] * 6 + [(0, None)])
    found = solve_cuts(noisy)
    assert found.least <= whole.fun + 1e-7 and whole.fun <= found.distance + 1e-7
    assert found.distance <= whole.fun * (1 + CLOSE) + CLOSE


def test_normalised_cuts_keep_small_sets_near() -> None:
    """Section 6.2's program: within twice the noise's normalised norm, so small cuts, too."""
    graph, noise = random_graph(RNG, 8, 0.5), noise_matrix(RNG, 8, 0.6)
    found, norm = solve_cuts(graph + noise, normalised=True), abs(normalised_cut_norm(noise).value)
    assert found.distance <= norm * (1 + CLOSE) + CLOSE
    assert abs(normalised_cut_norm(found.matrix - graph).value) <= 2 * norm * (1 + CLOSE) + CLOSE


@pytest.mark.slow
def test_beyond_all_sets_what_is_proven_holds() -> None:
    """Karate: the oracle searches; the optimum lies between what is least and what was found."""
    edges = np.loadtxt(KARATE, delimiter=",", skiprows=1, dtype=int)
    graph, noise = adjacency(34, edges), noise_matrix(RNG, 34, 0.5)
    found = solve_cuts(graph + noise, normalised=True)
    assert in_the_box(found.matrix)
    assert found.proven == pytest.approx(spectral_norm(found.matrix - graph - noise))
    assert found.least <= spectral_norm(noise) and found.distance <= found.proven * (1 + 1e-9)
    zeros = spectral_norm(graph + noise)
    assert found.proven < zeros


def test_the_solver_takes_so_many_vertices() -> None:
    with pytest.raises(InputError, match="spectral"):
        check_program(65)


def blocks(n: int) -> np.ndarray:
    half = np.arange(n) < n // 2
    within = half[:, None] == half
    found = np.triu(RNG.random((n, n)) < np.where(within, 0.6, 0.1), 1).astype(float)
    return found + found.T


def test_spectral_weights_are_in_the_box_and_near_the_noisy_graph() -> None:
    graph = blocks(200)
    noise = noise_matrix(RNG, 200, 1.0)
    found = denoise(graph + noise, 2**0.5)
    assert in_the_box(found.matrix.astype(float))
    assert found.distance == pytest.approx(spectral_norm(found.matrix - graph - noise), rel=1e-3)
    assert spectral_norm(noise) <= noise_radius(200, 2**0.5) * SLACK
    assert found.distance <= found.radius * SLACK
    assert found.matrix.sum() == pytest.approx((graph + noise).sum(), abs=20)
    # and so within distance + sigma_1 of the noise of the graph, where clipping alone is far away
    off = spectral_norm(found.matrix - graph)
    assert off <= found.distance + spectral_norm(noise)
    assert off < 0.85 * spectral_norm(np.clip(graph + noise, 0, 1) - graph)


def test_spectral_without_noise_gives_the_graph() -> None:
    graph = blocks(40)
    assert np.allclose(denoise(graph, 1e-9).matrix, graph, atol=1e-5)


def test_some_eigenvalues_are_as_good_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = blocks(120) + noise_matrix(RNG, 120, 0.7)
    whole = denoise(noisy, 1.0)
    monkeypatch.setattr("factored_mwem.sessions.graph.spectral.WHOLE", 10)
    some = denoise(noisy, 1.0)
    assert np.allclose(whole.matrix, some.matrix, atol=1e-2)
    assert some.distance == pytest.approx(whole.distance, rel=1e-2)


def test_rounding_moves_no_cut_further_than_its_bound() -> None:
    """Remark 6.3: over random cuts, with a failure probability below 1e-9 for all 4^n together."""
    n = 60
    weights = RNG.random(n * (n - 1) // 2)
    drawn = np.zeros(len(weights))
    drawn[draw_edges(weights, 7)] = 1
    assert abs(drawn.sum() - weights.sum()) < 6 * np.sqrt((weights * (1 - weights)).sum())
    for _ in range(300):
        s, t = RNG.random((2, n)) < RNG.random((2, 1))
        pairs = round(cut_sum(np.ones(len(weights)), s, t))
        assert abs(cut_sum(drawn - weights, s, t)) <= rounding_bound(pairs, n, 1e-9)
    sure = np.array([0.0, 1.0, 1.0, 0.0])
    assert draw_edges(sure, 1).tolist() == [1, 2] and draw_edges(sure[:0], 1).tolist() == []
