"""Adapters around the noise: one that sees every draw, one that dictates them; and from two records of the
same draws their likelihood ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.noise import Noise

SURE = 60.0
"""A log likelihood ratio that settles the matter; greater ones are cut off here."""
NODES, WEIGHTS = (
    part / 2 + offset for part, offset in zip(np.polynomial.legendre.leggauss(32), (0.5, 0.0), strict=True)
)
"""Gauss-Legendre over [0, 1]: exact for the polynomials of permute-and-flip among up to 64 candidates."""


@dataclass(slots=True)
class Call:
    """One call to the noise: `method` ("select", "add", "threshold"), what is private in it, its scale, what
    came out; `seen`: by anybody.
    """

    method: str
    private: Any
    scale: float
    threshold: int
    drawn: Any
    seen: bool = True


class Mismatch(Exception):
    """The mechanism asked for other draws than it had been given: what it asks depends on more than its
    earlier noisy answers.
    """


class Witness:
    """The noise, with a record of every call in `calls`."""

    def __init__(self, noise: Noise) -> None:
        self.noise, self.composition = noise, noise.composition
        self.calls: list[Call] = []

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        private = scores.copy()
        return self._seen("select", private, scale, 0, self.noise.select(scores, scale=scale))

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        private = np.array(values)
        return self._seen("add", private, scale, 0, self.noise.add(values, scale=scale))

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        return self._seen(
            "threshold",
            dict(counts),
            scale,
            threshold,
            self.noise.threshold(counts, scale=scale, threshold=threshold),
        )

    def _seen(self, method: str, private: Any, scale: float, threshold: int, drawn: Any) -> Any:
        self.calls.append(Call(method, private, scale, threshold, drawn))
        return drawn


class Script:
    """Noise that gives out the draws of another run, whatever the table says, to a mechanism that asks for
    them in the same order.
    """

    def __init__(self, composition: Composition, calls: Sequence[Call]) -> None:
        self.composition, self._left = composition, list(calls)

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        drawn: int = self._next("select", len(scores))
        return drawn

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        drawn: np.ndarray = self._next("add", len(values))
        return np.array(drawn)

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        return dict(self._next("threshold", None))

    def end(self) -> None:
        """Mismatch where draws are left."""
        if self._left:
            raise Mismatch

    def _next(self, method: str, size: int | None) -> Any:
        call = self._left.pop(0) if self._left else None
        if call is None or call.method != method or (size is not None and len(call.private) != size):
            raise Mismatch
        return call.drawn


def log_ratio(ours: Sequence[Call], theirs: Sequence[Call], composition: Composition) -> float:
    """log P[draws | theirs] - log P[draws | ours], the draws being those of `ours`, for mechanisms as they
    claim to be.
    """
    total = sum(_log_ratio(a, b, composition) for a, b in zip(ours, theirs, strict=True) if a.seen)
    return min(max(total, -SURE), SURE)


def _log_ratio(ours: Call, theirs: Call, composition: Composition) -> float:
    if ours.method == "add":
        terms = ours.drawn - theirs.private, ours.drawn - ours.private
        if composition is Composition.ZCDP:
            return float((terms[1] ** 2.0).sum() - (terms[0] ** 2.0).sum()) / (2 * ours.scale**2)
        return float(np.abs(terms[1]).sum() - np.abs(terms[0]).sum()) / ours.scale
    if ours.method == "select":
        return float(
            log_choices(theirs, composition)[ours.drawn] - log_choices(ours, composition)[ours.drawn]
        )
    keys = ours.private.keys() | theirs.private.keys()
    return sum(
        _log_kept(theirs, key, key in ours.drawn) - _log_kept(ours, key, key in ours.drawn) for key in keys
    )


def log_choices(call: Call, composition: Composition) -> np.ndarray:
    """log probability of each choice that a call to select may make."""
    return _log_choices(call.private.tobytes(), call.scale, composition)


@lru_cache(maxsize=1000)
def _log_choices(scores: bytes, scale: float, composition: Composition) -> np.ndarray:
    """The exponential mechanism's, or permute-and-flip's by its integral over arrival times."""
    gaps = np.frombuffer(scores, dtype=np.int64) / scale
    gaps -= gaps.max()
    if composition is Composition.ZCDP:
        return gaps - np.logaddexp.reduce(gaps)
    heads = np.exp(gaps)
    tails = 1 - heads[:, None] * NODES
    others = np.array([np.prod(np.delete(tails, i, axis=0), axis=0) for i in range(len(heads))])
    return gaps + np.log(others @ WEIGHTS)


def _log_kept(call: Call, key: str, kept: bool) -> float:
    """log P[the key passes the threshold], or that it does not; a key that is not there never passes."""
    if key not in call.private:
        return -SURE if kept else 0.0
    far = (call.threshold - 0.5 - call.private[key]) / call.scale / math.sqrt(2)
    return math.log(max(math.erfc(far if kept else -far) / 2, 1e-300))


def simulated(
    ours: Sequence[Call],
    theirs: Sequence[Call],
    composition: Composition,
    factor: float,
    rng: np.random.Generator,
    runs: int,
) -> np.ndarray:
    """float64[run]: log ratios as `log_ratio` finds them, where noise of `factor` times the claimed scale
    falls on `ours`, along this one path.
    """
    total = np.zeros(runs)
    for a, b in zip(ours, theirs, strict=True):
        if not a.seen:
            continue
        if a.method == "add":
            noise, gap = (
                _noise(composition, a.scale * factor, (runs, len(a.private)), rng),
                (b.private - a.private).astype(np.float64),
            )
            apart = (noise - gap, noise)
            if composition is Composition.ZCDP:
                total += (apart[1] ** 2 - apart[0] ** 2).sum(axis=1) / (2 * a.scale**2)
            else:
                total += (np.abs(apart[1]) - np.abs(apart[0])).sum(axis=1) / a.scale
        elif a.method == "select":
            noise = (
                rng.gumbel(size=(runs, len(a.private)))
                if composition is Composition.ZCDP
                else rng.exponential(size=(runs, len(a.private)))
            )
            chosen = (a.private + noise * a.scale * factor).argmax(axis=1)
            total += (log_choices(b, composition) - log_choices(a, composition))[chosen]
        else:
            for key in sorted(a.private.keys() | b.private.keys()):
                noisy = a.private.get(key, -math.inf) + _noise(composition, a.scale * factor, (runs,), rng)
                ratio = [_log_kept(b, key, kept) - _log_kept(a, key, kept) for kept in (False, True)]
                total += np.where(noisy >= a.threshold, ratio[1], ratio[0])
    return np.clip(total, -SURE, SURE)


def _noise(
    composition: Composition, scale: float, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Discrete Laplace or discrete Gaussian noise; where the grid is fine, a rounded Gaussian is enough to
    foresee what a check can see.
    """
    if composition is Composition.ZCDP:
        if scale > 10:
            return np.rint(rng.normal(scale=scale, size=shape))
        x = np.arange(-150, 151)
        chances = np.exp(-(x**2) / (2 * scale**2))
        return rng.choice(x, size=shape, p=chances / chances.sum()).astype(np.float64)
    return np.rint(rng.exponential(scale, shape) // 1 - rng.exponential(scale, shape) // 1)
