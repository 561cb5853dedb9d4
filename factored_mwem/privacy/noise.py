"""Noise: the one place where randomness meets private numbers, and the only module that knows OpenDP.

All noise is discrete, drawn by OpenDP from the operating system's entropy. There is no seed and no switch.
Tests that need to know the noise pass a fake object with the same methods.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import numpy as np

from factored_mwem.accounting.conversion import Composition, load_opendp
from factored_mwem.tables.source import Private


class Begun(Private):
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
        """`values: int64[cell]` with discrete noise of `scale` (Laplace b, Gaussian standard deviation) on
        each.
        """

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        """The keys whose noisy count reaches `threshold`, with that noisy count."""


@runtime_checkable
class SparseVectorNoise(Noise, Protocol):
    """What sparse vector tests need besides."""

    def begin(self, *, scale: float) -> Begun:
        """Discrete Laplace noise of `scale` for a threshold of 0."""

    def exceeds(self, score: int, begun: Begun, *, scale: float) -> bool | None:
        """Whether `score`, with discrete Laplace noise of `scale`, reaches the noisy threshold; None where
        that is gone.
        """


def for_tests(noise: Noise) -> SparseVectorNoise:
    """The same noise, which must have what tests need."""
    assert isinstance(noise, SparseVectorNoise)
    return noise


class OpenDPNoise:
    """Noise from OpenDP's proven samplers: discrete Gaussian and Gumbel under zCDP, discrete Laplace and
    permute-and-flip under pure DP.
    """

    CHUNK = 4_096
    """Cells a worker noises at a time; the library leaves the interpreter free, so two workers halve the
    wait.
    """

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self.workers = 2
        self._dp = load_opendp()
        self._measure = (
            self._dp.zero_concentrated_divergence()
            if composition is Composition.ZCDP
            else self._dp.max_divergence()
        )

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        dp = self._dp
        mechanism = dp.m.make_noisy_max(_vector(dp), dp.linf_distance(T="i64"), self._measure, scale=scale)
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

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        """The library hands keys on as C strings, which end at a NUL: two texts could become one key. So it
        is given numbers in their place. Sorted, for the order in which it hands them on, and that of
        `counts`, is the table's.
        """
        keys = list(counts)
        kept = (
            _thresholded(scale, threshold)(
                {str(number): count for number, count in enumerate(counts.values())}
            )
            if counts
            else {}
        )
        return dict(sorted((keys[int(number)], noisy) for number, noisy in kept.items()))

    def begin(self, *, scale: float) -> Begun:
        return Begun(self._laplace(0, scale))

    def exceeds(self, score: int, begun: Begun, *, scale: float) -> bool | None:
        return None if begun.gone else begun.reached_by(self._laplace(score, scale))

    def _laplace(self, value: int, scale: float) -> int:
        dp = self._dp
        mechanism = dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=scale)
        return int(mechanism(value))

    def _additive(self, scale: float) -> Any:
        dp = self._dp
        if self.composition is Composition.ZCDP:
            return dp.m.make_gaussian(_vector(dp), dp.l2_distance(T="f64"), scale=scale)
        return dp.m.make_laplace(_vector(dp), dp.l1_distance(T="i64"), scale=scale)


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
