"""Noise: the one place where randomness meets private numbers. `accounting/conversion.py` loads OpenDP, for
its conversions; nothing else in the package knows it but the verifier, which listens to its calls.

All noise is discrete, drawn by OpenDP from the operating system's entropy, but for the discrete Cauchy, which
it does not have: that is drawn here, from the same entropy, by exact whole numbers. There is no seed and no
switch. Tests that need to know the noise pass a fake object with the same methods.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from factored_mwem.accounting.admissible import Shape
from factored_mwem.accounting.conversion import Composition, float_up, load_opendp
from factored_mwem.tables.inputs.source import Private


class NoisyThreshold(Private):
    """The noise on a test's threshold, which nobody may see; `gone` where a run that died took it along."""

    __slots__ = ("_noise", "gone")

    def __init__(self, noise: int | None = None) -> None:
        self._noise, self.gone = noise, noise is None

    def reached_by(self, score: int) -> bool:
        """Whether the noisy `score` reaches the noisy threshold."""
        assert self._noise is not None
        return score >= self._noise


class Noise(Protocol):
    """What the mechanism needs of randomness."""

    composition: Composition

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        """Index of the largest of `scores: int64[candidate]` after noise of `scale` on each."""

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        """`values: int64[cell]`, each with discrete noise of `scale` (Laplace b, Gaussian sigma)."""

    def threshold(
        self, counts: dict[str, int], *, scale: float, threshold: int, listed: Sequence[str] = ()
    ) -> dict[str, int]:
        """The keys whose noisy count reaches `threshold`, with that noisy count; and the noisy counts of all
        those `listed`: keys that are public, each with a count.
        """

    def begin(self, *, scale: float) -> NoisyThreshold:
        """Discrete Laplace noise of `scale` for a threshold of 0, of a sparse vector test."""

    def exceeds(self, score: int, begun: NoisyThreshold, *, scale: float) -> bool | None:
        """Whether `score` with discrete Laplace noise reaches the noisy threshold; None if gone."""

    def spread(self, value: int, bound: float, *, shape: Shape, scale: float) -> int:
        """`value` with discrete noise of a scale that is `scale` times the private `bound`, at least 1."""


class OpenDPNoise:
    """OpenDP's samplers: discrete Gaussian, Gumbel (zCDP); discrete Laplace, permute-and-flip (pure)."""

    CHUNK = 4_096
    """Cells a worker noises at a time; the library leaves the interpreter free: two halve the wait."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self.workers = 2
        self._dp = load_opendp()
        self._measure = (
            self._dp.zero_concentrated_divergence()
            if composition is Composition.ZCDP
            else self._dp.max_divergence()
        )
        # what the mechanisms are over, made once: it took half of a call that draws little
        self._vectors = _vector(self._dp)
        self._l1, self._l2 = self._dp.l1_distance(T="i64"), self._dp.l2_distance(T="f64")
        self._linf = self._dp.linf_distance(T="i64")

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        dp = self._dp
        mechanism = dp.m.make_noisy_max(self._vectors, self._linf, self._measure, scale=scale)
        # The winner's distribution does not depend on the order of the candidates, the time does: each is
        # compared with the best so far to as many digits as it takes. Largest first was 6 times as fast on
        # 500,000 scores.
        order = np.argsort(-scores, kind="stable")
        return int(order[mechanism(_int64(scores[order]))])

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        mechanism = self._additive(scale)
        chunks = [_int64(values[at : at + self.CHUNK]) for at in range(0, len(values), self.CHUNK)]
        if len(chunks) <= 1:
            return _int64(mechanism(_int64(values))) if len(values) else _int64(values)
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            return np.concatenate([_int64(part) for part in pool.map(mechanism, chunks)])

    def threshold(
        self, counts: dict[str, int], *, scale: float, threshold: int, listed: Sequence[str] = ()
    ) -> dict[str, int]:
        """The library hands keys on as C strings, which end at a NUL: two texts could become one key. So it
        is given numbers in their place. Sorted, for the order in which it hands them on, and that of
        `counts`, is the table's. Those `listed` it never sees: their counts get the same noise by `add`.
        """
        told = self.add(np.array([counts[key] for key in listed], dtype=np.int64), scale=scale)
        public = set(listed)
        keys = [key for key in counts if key not in public]
        numbered = {str(number): counts[key] for number, key in enumerate(keys)}
        kept = _thresholded(scale, threshold)(numbered) if keys else {}
        noisy = {keys[int(number)]: count for number, count in kept.items()}
        return dict(sorted((noisy | dict(zip(listed, told.tolist(), strict=True))).items()))

    def begin(self, *, scale: float) -> NoisyThreshold:
        return NoisyThreshold(self._laplace(0, scale))

    def exceeds(self, score: int, begun: NoisyThreshold, *, scale: float) -> bool | None:
        return None if begun.gone else begun.reached_by(self._laplace(score, scale))

    def spread(self, value: int, bound: float, *, shape: Shape, scale: float) -> int:
        """Kept within 62 bits, which is done to the noisy value."""
        whole = spread_scale(bound, scale)
        if shape is Shape.CAUCHY:
            noisy = value + discrete_cauchy(whole)
        elif shape is Shape.LAPLACE:
            noisy = self._laplace(value, float_up(whole))
        else:
            raise AssertionError(f"no noise of shape {shape} on a single number")
        return min(max(noisy, -MOST), MOST)

    def _laplace(self, value: int, scale: float) -> int:
        dp = self._dp
        mechanism = dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=scale)
        return int(mechanism(value))

    def _additive(self, scale: float) -> Any:
        dp = self._dp
        if self.composition is Composition.ZCDP:
            return dp.m.make_gaussian(self._vectors, self._l2, scale=scale)
        return dp.m.make_laplace(self._vectors, self._l1, scale=scale)


MOST = 2**62
SCALE_GRID = 2**30
"""Scales of smooth sensitivity are whole parts of this: what rounding moves is in `admissible.SLACK`."""


def spread_scale(bound: float, scale: float) -> Fraction:
    """`scale` times `bound`, at least 1, rounded up to the grid."""
    exact = max(Fraction(bound) * Fraction(scale), Fraction(1))
    return Fraction(math.ceil(exact * SCALE_GRID), SCALE_GRID)


def discrete_cauchy(scale: Fraction) -> int:
    """A whole number z with probability proportional to 1 / (scale^2 + z^2), exactly; scale >= 1.

    |z| is proposed uniformly below c = ceil(scale), with probability 1/2, or in one of the octaves
    [2^i c, 2^(i+1) c), with probability 2^-(i+2): so z has 1 / (2 c) or 1 / (4 c 4^i). It is kept with
    probability scale^2 / (2 (scale^2 + z^2)) or 4^i scale^2 / (scale^2 + z^2), at most 1 as 2^i scale <= z:
    either way the product is scale^2 / (4 c (scale^2 + z^2)). A sign follows; -0 is not kept.
    """
    p, q = scale.numerator, scale.denominator
    most = -(-p // q)
    while True:
        octave = -1
        while secrets.randbelow(2):
            octave += 1
        if octave < 0:
            z = secrets.randbelow(most)
            kept = secrets.randbelow(2 * (p * p + q * q * z * z)) < p * p
        else:
            z = (most << octave) + secrets.randbelow(most << octave)
            kept = secrets.randbelow(p * p + q * q * z * z) < p * p << 2 * octave
        negative = secrets.randbelow(2)
        if kept and not (negative and z == 0):
            return -z if negative else z


def _int64(values: Any) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.int64)


def _vector(dp: Any) -> Any:
    return dp.vector_domain(dp.atom_domain(T="i64"))


def _thresholded(scale: float, threshold: int) -> Any:
    dp = load_opendp()
    domain = dp.map_domain(dp.atom_domain(T="String"), dp.atom_domain(T="i64"))
    return dp.m.make_gaussian_threshold(
        domain, dp.l02inf_distance(dp.absolute_distance(T="f64")), scale=scale, threshold=threshold
    )
