"""Every noise path draws the distribution that its price is for, over many draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.goodness import chooses, exponential, fits, gaussian, happens, laplace, permute_and_flip, tail

from factored_mwem.accounting.conversion import Composition, threshold_delta
from factored_mwem.privacy.noise import OpenDPNoise

both = pytest.mark.parametrize("composition", list(Composition))
DRAWS = 40_000


PMF = {Composition.ZCDP: gaussian, Composition.PURE: laplace}


@both
@pytest.mark.parametrize("scale", [1.3, 7.9, 310.0])
def test_additive_noise_has_the_claimed_scale_in_one_chunk_and_across_chunks(
    composition: Composition, scale: float
) -> None:
    """In one vector longer than CHUNK; the same check rejects the wrong scales (negative controls)."""
    assert DRAWS > 2 * OpenDPNoise.CHUNK
    values = np.arange(DRAWS) % 7 - 3
    draws = OpenDPNoise(composition).add(values, scale=scale) - values
    assert fits(draws, PMF[composition], scale)
    for wrong in (0.7, 1.3, 0.5):  # times the noise that is claimed
        assert not fits(draws, PMF[composition], scale / wrong)


@both
def test_one_value_at_a_time_has_the_same_noise(composition: Composition) -> None:
    """The short path, without threads; there is no drift either, for the check is two-sided."""
    adapter = OpenDPNoise(composition)
    draws = np.concatenate([adapter.add(np.full(16, 5), scale=3.2) - 5 for _ in range(1500)])
    assert fits(draws, PMF[composition], 3.2)
    assert not fits(draws, PMF[composition], 3.2 / 0.7)


def test_the_checker_rejects_other_distributions_of_the_same_spread() -> None:
    """A checker that only looked at the variance would pass a Laplace sampler as a Gaussian one."""
    draws = OpenDPNoise(Composition.PURE).add(np.zeros(DRAWS, dtype=np.int64), scale=5.0)
    assert not fits(draws, gaussian, 5.0 * math.sqrt(2))
    assert not fits(draws + 1, laplace, 5.0)  # a drift of one record
    with pytest.raises(AssertionError, match="cannot tell"):
        fits(draws[:500], laplace, 5.0)  # a check without power says so


@both
def test_selection_has_the_claimed_scale_and_is_the_mechanism_that_is_priced(
    composition: Composition,
) -> None:
    """Scores far from zero and on the score grid. Rejected: 0.7 and 1.3 times the scale, half the noise, and
    the other mechanism's probabilities, whose price is another.
    """
    adapter, unit = OpenDPNoise(composition), 2**20
    small = -np.arange(7) * unit
    draws = np.array([adapter.select(small + 10**9 * unit, scale=2.0 * unit) for _ in range(16_000)])
    right, other = exponential, permute_and_flip
    if composition is Composition.PURE:
        right, other = other, right
    assert chooses(draws, right, 2.0 * unit, small)
    for wrong in (0.7, 1.3):
        assert not chooses(draws, right, 2.0 * unit / wrong, small)
    assert not chooses(draws, right, 4.0 * unit, small, power=False)
    assert not chooses(draws, other, 2.0 * unit, small)


@pytest.mark.parametrize("count", [20, 23, 26])
def test_threshold_keeps_keys_as_often_as_it_should(count: int) -> None:
    """A key passes where count + noise >= threshold; at other scales, or with `>`, it would show."""
    scale, threshold, keys = 3.0, 23, 40_000
    counts = {str(i): count for i in range(keys)}
    kept = OpenDPNoise(Composition.ZCDP).threshold(counts, scale=scale, threshold=threshold)
    assert min(kept.values()) == threshold  # reached, not exceeded
    at_least = tail(scale, threshold - count)
    wrong = [tail(scale, threshold - count + 1)]
    wrong += [tail(scale * f, threshold - count) for f in (0.7, 1.3) if count == 20]
    assert happens(len(kept), keys, at_least, wrong)
    noisy = np.array(list(kept.values())) - count
    if count == threshold:
        whole = np.concatenate([noisy, -noisy[noisy > 0]])
        assert fits(whole, gaussian, scale) and not fits(whole, gaussian, scale / 0.7)


@pytest.mark.parametrize(("scale", "threshold"), [(0.9, 4)])
def test_a_lone_key_is_kept_no_more_often_than_delta_says(scale: float, threshold: int) -> None:
    """The delta charged against what the sampler does: a count of one, one key a person, many times."""
    keys = 100_000
    lone = {str(i): 1 for i in range(keys)}
    kept = len(OpenDPNoise(Composition.ZCDP).threshold(lone, scale=scale, threshold=threshold)) / keys
    slack = math.sqrt(math.log(1e10) / (2 * keys))
    assert kept - slack <= threshold_delta(scale=scale, threshold=threshold, l0=1, linf=1)
    exact = tail(scale, threshold - 1)
    assert abs(kept - exact) < 7 * math.sqrt(exact / keys)  # and it does what the exact probabilities say
