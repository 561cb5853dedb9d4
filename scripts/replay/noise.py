"""The paper's noise as an adapter of the product's loop: floating point, from a seed. NOT PRIVATE."""

from __future__ import annotations

import numpy as np

from factored_mwem.accounting.conversion import Composition


class SeededNotPrivateNoise:
    """NOT PRIVATE: whoever knows the seed knows the noise, and floating-point noise gives away low bits.

    It has the three methods of `factored_mwem.privacy.noise.Noise`, at the same scales: a choice by Gumbel
    noise, which is the exponential mechanism exp(score / scale) of HLM12 Fig. 1 2(a); Laplace noise under
    pure differential privacy, 2(b), else Gaussian. Answers are not rounded.
    """

    def __init__(self, seed: int | np.random.Generator, composition: Composition = Composition.PURE) -> None:
        self.composition = composition
        self._rng = np.random.default_rng(seed)

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return int(np.argmax(scores / scale + self._rng.gumbel(size=len(scores))))

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        pure = self.composition is Composition.PURE
        draw = self._rng.laplace if pure else self._rng.normal
        noisy: np.ndarray = values + draw(scale=scale, size=len(values))
        return noisy

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        noisy = {key: count + round(self._rng.normal(scale=scale)) for key, count in counts.items()}
        return {key: count for key, count in noisy.items() if count >= threshold}
