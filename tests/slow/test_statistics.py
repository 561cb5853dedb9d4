"""What is drawn for single numbers, many times over: the law of the sampler, an audit of the whole run by
counting, and errors beside what the papers' bounds say. Failure probabilities are below 1e-9 each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from support.goodness import fits, laplace

from factored_mwem.accounting.admissible import Admissible, Shape
from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.noise import OpenDPNoise, discrete_cauchy
from factored_mwem.privacy.other.order import Ordered
from factored_mwem.sessions.statistic import sample_and_aggregate
from factored_mwem.sessions.statistic.column_statistic import statistic

DRAWS = 40_000


def cauchy(scale: float, x: np.ndarray) -> np.ndarray:
    """Exact probabilities of the discrete Cauchy."""
    return scale * math.tanh(math.pi * scale) / math.pi / (scale**2 + x.astype(float) ** 2)


def farthest(draws: np.ndarray, scale: float) -> float:
    """The Kolmogorov distance of draws to a discrete Cauchy of that scale, inside of 2,000 scales."""
    reach = int(2000 * scale)
    x = np.arange(-reach, reach + 1)
    beyond = 0.5 - math.atan((reach + 0.5) / scale) / math.pi  # to within 1e-9 at these scales
    claimed = beyond + np.cumsum(cauchy(scale, x))
    seen = np.searchsorted(np.sort(draws), x, side="right") / len(draws)
    return float(np.abs(seen - claimed).max())


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(27, 8), Fraction(1000)])
def test_the_system_draws_a_discrete_cauchy(scale: Fraction) -> None:
    """A right sampler is further off once in 1e10 (DKW); 0.7 and 1.3 times the scale are seen."""
    draws = np.array([discrete_cauchy(scale) for _ in range(DRAWS)], dtype=np.float64)
    allowed = math.sqrt(math.log(2e10) / (2 * DRAWS))
    assert farthest(draws, float(scale)) < allowed
    for wrong in (0.7, 1.3):
        assert farthest(draws, float(scale) * wrong) > allowed


def test_the_adapter_draws_a_laplace_of_the_private_scale() -> None:
    adapter = OpenDPNoise(Composition.PURE)
    draws = np.array([adapter.spread(5, 3.0, shape=Shape.LAPLACE, scale=2.0) - 5 for _ in range(DRAWS)])
    assert fits(draws, laplace, 6.0)
    assert not fits(draws, laplace, 3.0)


def shares(table: list[float], epsilon: float, runs: int) -> np.ndarray:
    """How often the noisy minimum is each of the grid's values, real noise and all."""
    data = pa.table({"x": pa.array(table, pa.float64())})
    given = {"lower": 0, "upper": 3, "grid": 1, "epsilon": epsilon}
    found = [statistic(data, "x", "min", **given).value for _ in range(runs)]
    return np.bincount(np.rint(found).astype(int), minlength=4) / runs


def seen_loss(epsilon: float, runs: int = 800) -> float:
    """A lower bound of the loss between two neighbours: Hoeffding, 1e-10 a share."""
    off = math.sqrt(math.log(16e10) / (2 * runs))
    one, other = shares([3, 3, 3], epsilon, runs), shares([0, 3, 3, 3], epsilon, runs)
    pairs = ((one, other), (other, one))
    return max(math.log(max(p[i] - off, 1e-9) / (q[i] + off)) for p, q in pairs for i in range(4))


def test_an_attack_on_the_whole_run_sees_no_more_than_promised() -> None:
    assert seen_loss(0.5) <= 0.5


def test_the_attack_sees_a_bound_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the least bound in the place of the smooth one."""
    monkeypatch.setattr(Ordered, "smooth", lambda *_: 1.0)
    assert seen_loss(0.5) > 0.5


def test_cauchy_tails_are_what_the_constants_say() -> None:
    """P(|noise| > 10 scales) of 2 / (10 pi), by Hoeffding at 1e-10."""
    scale = Fraction(Admissible.cauchy(1.0).multiplier) * 100
    beyond = np.mean([abs(discrete_cauchy(scale)) > 10 * scale for _ in range(DRAWS)])
    expected = 1 - 2 * math.atan(10) / math.pi
    assert abs(beyond - expected) < math.sqrt(math.log(2e10) / (2 * DRAWS))


@pytest.mark.parametrize("by", ["center", "average"])
def test_a_function_of_blocks_comes_out_near(by: str) -> None:
    """200 blocks: r is about 3 deviations of a block's mean, and the noise a few r. The center's has heavy
    tails: 56 of 400 were off by more than 5; were it one of five, half of 101 would be once in 1e11.
    """
    rng = np.random.default_rng(11)
    table = pa.table({"x": rng.normal(50, 10, 40_000).clip(0, 100)})
    mean: Callable[[np.ndarray], float] = lambda rows: rows[:, 0].mean()  # noqa: E731
    found = [
        sample_and_aggregate(
            table, mean, {"x": (0, 100)}, lower=0, upper=100, blocks=200, by=by, epsilon=1.0
        ).value[0]
        for _ in range(101)
    ]
    assert abs(np.median(found) - 50) < 5
