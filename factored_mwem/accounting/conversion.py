"""Conversions between rho and (epsilon, delta), by OpenDP, rounded to the safe side; no noise is drawn."""

from __future__ import annotations

import functools
import math
import threading
from enum import StrEnum
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

LARGE_RHO = 64
"""Above this rho the conversion is the closed form.

OpenDP's overflows from an epsilon of about 700 on, and gains less than 2 % there.
"""


class Composition(StrEnum):
    """How costs add up: epsilon with Laplace noise, or rho (zero-concentrated DP) with Gaussian noise."""

    PURE = "pure"
    ZCDP = "zcdp"


def threshold_delta(*, scale: float, threshold: int, l0: int, linf: int) -> float:
    """The delta of thresholded counts over unknown keys, discrete Gaussian (Rogers 2023), rounded up.

    Neighbours differ in at most `l0` keys, each by at most `linf`: a key that only one of them has is kept
    with P[noise >= threshold - linf], at most P[normal >= threshold - linf - 1] (Canonne, Kamath, Steinke
    2020, tail bounds). OpenDP's own map forgets that a count equal to the threshold is kept (its issue 2922)
    and can state a quarter of the true delta; tests/slow/test_noise.py counts.
    """
    tail = 0.5 * math.erfc((threshold - linf - 1) / (scale * math.sqrt(2))) if threshold > linf else 1.0
    return min(1.0, l0 * tail * (1 + 1e-9) + 1e-300)


@functools.cache
def library_version() -> str:
    """The name and version of the library that draws the noise."""
    from importlib.metadata import version

    return f"opendp {version('opendp')}"


@functools.lru_cache(maxsize=256)
def epsilon_of(rho: Fraction, delta: Fraction) -> float:
    """The epsilon that rho-zCDP implies at delta, rounded up (Canonne, Kamath, Steinke 2020, by OpenDP)."""
    if rho <= 0:
        return 0.0
    if rho > LARGE_RHO:  # Bun and Steinke 2016, Proposition 1.3
        return (float(rho) + 2 * math.sqrt(float(rho) * _log_inverse(delta))) * (1 + 1e-12)
    dp = load_opendp()
    # A Gaussian of this scale costs at least rho under sensitivity 1; OpenDP converts that cost.
    scale = math.sqrt(1 / (2 * float(rho))) * (1 - 2**-45)
    gaussian = dp.m.make_gaussian(dp.atom_domain(T="i64"), dp.absolute_distance(T="f64"), scale=scale)
    return float(dp.c.make_zCDP_to_approxDP(gaussian).map(1.0).epsilon(float_down(delta)))


def rho_of(epsilon: float, delta: Fraction) -> Fraction:
    """The largest rho, to one part in 2^30, whose conversion at `delta` stays within `epsilon`."""
    logs = _log_inverse(delta)
    # Bun and Steinke 2016: always enough. The quotient is sqrt(epsilon + logs) - sqrt(logs) without its
    # cancellation.
    low = Fraction((epsilon / (math.sqrt(epsilon + logs) + math.sqrt(logs))) ** 2 * (1 - 1e-9))
    high, more = max(low * 4, Fraction(1, 2**80)), 4
    while (above := epsilon_of(high, delta)) <= epsilon:
        low, high, more = high, high * more, min(more**2, 2**32)
    # Regula falsi, Illinois rule: where the line through both ends crosses epsilon; an end that stays twice
    # in turn counts half.
    under, over, stayed, steps = epsilon - epsilon_of(low, delta), above - epsilon, "", 0
    while high - low > low / 2**30:
        steps += 1
        crossing = low + (high - low) * Fraction(under / (under + over))
        # Where delta allows most, epsilon is nearly 0 up to a bend, which lines miss.
        if steps > 10 and steps % 2:
            crossing = Fraction(math.sqrt(low * high))
        middle = min(max(crossing, low + low / 2**32), high - low / 2**32)
        gap = epsilon - epsilon_of(middle, delta)
        if gap >= 0:
            low, under, over, stayed = middle, gap, over / 2 if stayed == "high" else over, "high"
        else:
            high, over, under, stayed = middle, -gap, under / 2 if stayed == "low" else under, "low"
    return low


def rho_at_order(order: Fraction, epsilon: float, delta: Fraction) -> float:
    """The largest rho that a Renyi divergence of at most `order` times rho, at this order alone, turns into
    (epsilon, delta), to about one part in 10^13 (Canonne, Kamath, Steinke 2020, proposition 12).
    """
    a = float(order)
    more = math.log(float_down(delta)) - a * math.log1p(-1 / a) + math.log(a - 1)
    return (epsilon + more / (a - 1)) / a


def best_order(rho: Fraction, epsilon: float, delta: Fraction, slack: Fraction) -> Fraction | None:
    """The order at which rho implies (epsilon, delta); None if not known to within `slack` of rho."""

    def most(log: float) -> float:
        return rho_at_order(Fraction(1 + math.exp(log)), epsilon, delta)

    low, high = -18.0, 45.0  # of the logarithm of the order less 1
    coarse = max((low + (high - low) * i / 250 for i in range(251)), key=most)
    low, high = coarse - 0.5, coarse + 0.5
    for _ in range(60):
        third = (high - low) / 3
        low, high = (low + third, high) if most(low + third) < most(high - third) else (low, high - third)
    order = Fraction(1 + math.exp(low))
    return order if rho_at_order(order, epsilon, delta) >= rho * (1 - slack) else None


def _log_inverse(delta: Fraction) -> float:
    """ln(1 / delta), rounded up."""
    return -math.log(float_down(delta)) * (1 + 1e-15)


def float_down(value: Fraction) -> float:
    """The float nearest below or at `value`."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def float_up(value: Fraction) -> float:
    """The float nearest above or at `value`."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


_loading = threading.Lock()


@functools.cache
def load_opendp() -> Any:
    """OpenDP's functions, its measurements as `m`, combinators as `c`; loaded at first use.

    Not its `prelude`, whose extras load whatever of polars, scikit-learn, pandas there is: a second of every
    run. Its discrete samplers stand behind the flag `contrib`: proven here, not vetted by a committee.
    """
    with _loading:
        from opendp import combinators, domains, measurements, measures, metrics, mod

        mod.enable_features("contrib")
    public = {
        name: value
        for module in (domains, metrics, measures)
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_")
    }
    return SimpleNamespace(m=measurements, c=combinators, **public)
