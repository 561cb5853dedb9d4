"""Every noise path draws the distribution that its price is for; conversions between rho and (epsilon, delta)
lean to the safe side.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support.goodness import exponential, gaussian, laplace, permute_and_flip
from support.releases import both

from factored_mwem.accounting.conversion import (
    Composition,
    threshold_delta,
)
from factored_mwem.privacy.discover import threshold_for
from factored_mwem.privacy.noise import OpenDPNoise


def test_exact_probabilities_are_those_of_the_literature() -> None:
    """The oracle: hand-computed values for scores 3, 1, 0 at epsilon 2 and sensitivity 1 (scale 1)."""
    assert np.allclose(exponential(1.0, np.array([3, 1, 0])), [0.843795, 0.114195, 0.042010], atol=1e-6)
    assert np.allclose(permute_and_flip(1.0, np.array([3, 1, 0])), [0.909685, 0.066545, 0.023771], atol=1e-6)
    for pmf in (gaussian, laplace):
        assert pmf(2.5, np.arange(-400, 401)).sum() == pytest.approx(1, abs=1e-12)


@both
def test_chunks_do_not_share_their_noise(composition: Composition) -> None:
    """Planted: a chunk's noise used twice. At scale 10^6, over 4 of 8,000 pairs agree once in 10^15."""
    size = OpenDPNoise.CHUNK
    for length in (size - 1, size, size + 1, 3 * size + 5):
        values = np.arange(length, dtype=np.int64) * 1000
        draws = OpenDPNoise(composition).add(values, scale=1e6) - values
        assert len(draws) == length and draws.dtype == np.int64
        assert _repeats(draws, size) <= 4
    assert _repeats(np.tile(draws[:size], 3), size) == 2 * size  # what sharing would look like


def _repeats(draws: np.ndarray, size: int) -> int:
    return int((draws[size:] == draws[:-size]).sum()) if len(draws) > size else 0


@both
def test_two_calls_do_not_repeat(composition: Composition) -> None:
    """There is no seed: neither two calls nor two adapters give the same noise."""
    zeros, adapter = np.zeros(20, dtype=np.int64), OpenDPNoise(composition)
    adapters = (adapter, adapter, OpenDPNoise(composition))
    assert len({one.add(zeros, scale=1e6).tobytes() for one in adapters}) == 3


@both
def test_nothing_in_nothing_out_and_no_input_is_changed(composition: Composition) -> None:
    values = np.arange(5)
    OpenDPNoise(composition).add(values, scale=3.0)
    assert values.tolist() == [0, 1, 2, 3, 4]
    assert OpenDPNoise(composition).add(values[:0], scale=3.0).shape == (0,)
    assert OpenDPNoise(composition).threshold({}, scale=3.0, threshold=9) == {}


def test_threshold_drops_what_is_far_below_and_keeps_what_is_far_above() -> None:
    counts = {"rare": 1, "common": 1000, "": 2}
    kept = OpenDPNoise(Composition.ZCDP).threshold(counts, scale=2.0, threshold=60)
    assert set(kept) == {"common"}


@pytest.mark.parametrize(
    "delta", [Fraction(1, 10**5), Fraction(1, 10**10) / 15, Fraction(1, 3) / 10**8, Fraction(1, 10**200)]
)
def test_threshold_for_spends_at_most_its_delta_and_is_the_least(delta: Fraction) -> None:
    """The threshold that `discover` uses: one lower would exceed the delta it was given. Tiny deltas and
    narrow noise find one too.
    """
    for l0, linf, scale in ((1, 1, 12.3), (2, 1, 0.8), (10, 5, 99.0), (1, 1, 0.05)):
        threshold, charged = threshold_for(scale, delta, l0=l0, linf=linf)
        assert charged <= delta
        assert threshold_delta(scale=scale, threshold=threshold - 1, l0=l0, linf=linf) > delta
