"""Noise: the one place where randomness meets private numbers, and the only module that knows OpenDP.

All noise is discrete, drawn by OpenDP from the operating system's entropy. There is no seed and no switch. Tests that need
to know the noise pass a fake object with the same three methods.
"""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol

import numpy as np


class Composition(StrEnum):
    """How costs add up: epsilon with Laplace noise, or rho (zero-concentrated DP) with Gaussian noise."""

    PURE = "pure"
    ZCDP = "zcdp"


class Noise(Protocol):
    """What the mechanism needs of randomness."""

    composition: Composition

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        """Index of the largest of `scores: int64[candidate]` after noise of `scale` on each."""

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        """`values: int64[cell]` with discrete noise of `scale` (Laplace b, Gaussian standard deviation) on each."""

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        """The keys whose noisy count reaches `threshold`, with that noisy count."""


class OpenDPNoise:
    """Noise from OpenDP's proven samplers: discrete Gaussian and Gumbel under zCDP, discrete Laplace and permute-and-flip under pure DP."""

    CHUNK = 4_096
    """Cells a worker noises at a time; the library leaves the interpreter free, so two workers halve the wait."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self._dp = _opendp()
        self._measure = self._dp.zero_concentrated_divergence() if composition is Composition.ZCDP else self._dp.max_divergence()

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        dp = self._dp
        return int(dp.m.make_noisy_max(_vector(dp), dp.linf_distance(T="i64"), self._measure, scale=scale)(_int64(scores)))

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        mechanism = self._additive(scale)
        chunks = [_int64(values[at : at + self.CHUNK]) for at in range(0, len(values), self.CHUNK)]
        if len(chunks) <= 1:
            return _int64(mechanism(_int64(values))) if len(values) else _int64(values)
        with ThreadPoolExecutor(max_workers=2) as pool:
            return np.concatenate([_int64(part) for part in pool.map(mechanism, chunks)])

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        return dict(_thresholded(scale, threshold)(counts)) if counts else {}

    def _additive(self, scale: float) -> Any:
        dp = self._dp
        if self.composition is Composition.ZCDP:
            return dp.m.make_gaussian(_vector(dp), dp.l2_distance(T="f64"), scale=scale)
        return dp.m.make_laplace(_vector(dp), dp.l1_distance(T="i64"), scale=scale)


def threshold_cost(*, scale: float, threshold: int, l0: int, l2_squared: int, linf: int) -> tuple[float, float]:
    """(rho, delta) of counts over unknown keys with Gaussian noise of `scale` and a threshold, by OpenDP's proof (Rogers 2023).

    Neighbours differ in at most `l0` keys, by at most `linf` in one and by `l2_squared` in squared L2 norm.
    """
    rho, delta = _thresholded(scale, threshold).map((l0, sqrt_up(Fraction(l2_squared)), linf))
    return float(rho), float(delta)


def _thresholded(scale: float, threshold: int) -> Any:
    dp = _opendp()
    domain = dp.map_domain(dp.atom_domain(T="String"), dp.atom_domain(T="i64"))
    return dp.m.make_gaussian_threshold(domain, dp.l02inf_distance(dp.absolute_distance(T="f64")), scale=scale, threshold=threshold)


def library_version() -> str:
    """Name and version of the library that draws the noise."""
    from importlib.metadata import version

    return f"opendp {version('opendp')}"


def epsilon_of(rho: Fraction, delta: Fraction) -> float:
    """The epsilon that rho-zCDP implies at delta, rounded up (Canonne, Kamath, Steinke 2020, by OpenDP)."""
    if rho <= 0:
        return 0.0
    dp = _opendp()
    # A Gaussian of this scale costs at least rho under sensitivity 1; OpenDP converts that cost.
    scale = math.sqrt(1 / (2 * float(rho))) * (1 - 2**-45)
    gaussian = dp.m.make_gaussian(dp.atom_domain(T="i64"), dp.absolute_distance(T="f64"), scale=scale)
    return float(dp.c.make_zCDP_to_approxDP(gaussian).map(1.0).epsilon(float(delta)))


def rho_of(epsilon: float, delta: Fraction) -> Fraction:
    """The largest rho found (to one part in 2^30) whose conversion at `delta` stays within `epsilon`."""
    logs = math.log(1 / float(delta))
    low = Fraction((math.sqrt(epsilon + logs) - math.sqrt(logs)) ** 2 * (1 - 1e-9))  # Bun and Steinke 2016: always enough
    high = max(low * 4, Fraction(epsilon) ** 2)
    while epsilon_of(high, delta) <= epsilon:
        high *= 2
    while high - low > low / 2**30:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low


def sqrt_up(value: Fraction) -> float:
    """A float no smaller than the square root of `value`."""
    root = math.sqrt(value)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def _int64(values: Any) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.int64)


def _vector(dp: Any) -> Any:
    return dp.vector_domain(dp.atom_domain(T="i64"))


_loading = threading.Lock()


def _opendp() -> Any:
    """OpenDP, loaded at first use. Its discrete samplers stand behind the flag `contrib`: proven here, not yet vetted by a committee."""
    with _loading:
        import opendp.prelude as dp

        dp.enable_features("contrib")
    return dp
