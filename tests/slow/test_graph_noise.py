"""Theorem 6.5 by Monte Carlo, in both regimes, with the noise that is really drawn; and that noise on all
pairs of a graph is of the scale that was charged.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy import stats
from support.goodness import fits, laplace
from support.graphs import adjacency, sealed, session

from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.privacy.other.edges import AllEdges
from factored_mwem.privacy.session import NoiseScale
from factored_mwem.sessions.graph.tails import tail

FAILS = 1e-10
"""Probability with which any one of these blames what is sound."""
B = 3.0


@functools.cache
def drawn(scale: float) -> np.ndarray:
    return OpenDPNoise(Composition.PURE).add(np.zeros(480_000, dtype=np.int64), scale=scale)


def exceeded(values: np.ndarray, alpha: float, claimed: float) -> bool:
    """Whether so many sums reach alpha that the claimed probability is refuted."""
    return bool(stats.binom.sf(int((values >= alpha).sum()) - 1, len(values), min(claimed, 1.0)) < FAILS)


@pytest.mark.parametrize(
    ("pairs", "share", "factor"),
    [(40, 0.35, 6.0), (40, 0.6, 6.0), (8, 0.9, 5.0), (2, 1.2, 7.0), (2, 2.0, 7.0), (1, 3.0, 9.0)],
)
def test_sums_of_noise_keep_theorem_6_5(pairs: int, share: float, factor: float) -> None:
    """alpha = share N b: up to 1 the Gaussian regime, above it the exponential one; coefficients 1, the worst
    case of the proof. Planted: the same exponent times `factor` is refuted by the same draws, and so is the
    bound for b by noise of 8 b.
    """
    alpha, scale = share * pairs * B, NoiseScale(B, Composition.PURE)
    values, wider = (drawn(b).reshape(-1, pairs).sum(axis=1) for b in (B, 8 * B))
    assert not exceeded(values, alpha, tail(alpha, pairs, scale))
    assert exceeded(values, alpha, tail(alpha, pairs, scale) ** factor)
    if tail(alpha, pairs, scale) < 0.3:
        assert exceeded(wider, alpha, tail(alpha, pairs, scale))


def test_all_pairs_have_noise_of_their_own_at_the_scale_that_was_charged() -> None:
    """Of 40,000 pairs: discrete Laplace at 1 / epsilon; at half of that the same check fails."""
    n = 284
    at = session(OpenDPNoise(Composition.PURE), epsilon=0.25)
    ends = [(i, i + 1) for i in range(n - 1)]
    graph = adjacency(n, ends)
    found = at.measure(sealed(graph), AllEdges.PAIRS, cost=at.left)
    noise = found.noisy - graph[np.triu_indices(n, 1)].astype(np.int64)
    assert found.scale.value == pytest.approx(4.0) and len(noise) > 40_000
    assert fits(noise, laplace, 4.0)
    assert not fits(noise, laplace, 2.0) and not fits(noise, laplace, 8.0)
    assert math.isclose(float(at.accountant.spent), 0.25)
