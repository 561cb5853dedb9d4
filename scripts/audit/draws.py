"""Adapters around the noise: one that sees every draw, one that dictates them, two without a sampler; and
from two records of the same draws their likelihood ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    threshold: int = 0
    drawn: Any = None
    seen: bool = True


class Mismatch(Exception):
    """The mechanism asked for other draws than it had been given: what it asks depends on more than its
    earlier noisy answers.
    """


class Drawing:
    """Noise made of one function, which gives what comes out of a call. The counts of keys that are listed
    are a call of their own.
    """

    def __init__(self, composition: Composition, draw: Callable[[Call], Any]) -> None:
        self.composition, self._draw = composition, draw

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return int(self._draw(Call("select", scores.copy(), scale)))

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        return np.array(self._draw(Call("add", np.array(values), scale)))

    def threshold(
        self, counts: dict[str, int], *, scale: float, threshold: int, listed: Sequence[str] = ()
    ) -> dict[str, int]:
        told = self.add(np.array([counts[key] for key in listed]), scale=scale).tolist() if listed else []
        others = {key: count for key, count in counts.items() if key not in listed}
        kept = dict(self._draw(Call("threshold", others, scale, threshold)))
        return kept | dict(zip(listed, told, strict=True))


class Witness(Drawing):
    """The noise, with a record of every call in `calls`."""

    def __init__(self, noise: Noise) -> None:
        super().__init__(noise.composition, self._record)
        self.noise, self.calls = noise, list[Call]()

    def _record(self, call: Call) -> Any:
        level = {"threshold": call.threshold} if call.method == "threshold" else {}
        call.drawn = getattr(self.noise, call.method)(call.private, scale=call.scale, **level)
        self.calls.append(call)
        return call.drawn


class Script(Drawing):
    """Noise that gives out the draws of another run, whatever the table says, to a mechanism that asks for
    them in the same order.
    """

    def __init__(self, composition: Composition, calls: Sequence[Call]) -> None:
        super().__init__(composition, self._next)
        self._left = list(calls)

    def _next(self, call: Call) -> Any:
        planned = self._left.pop(0) if self._left else None
        if planned is None or planned.method != call.method:
            raise Mismatch
        if call.method != "threshold" and len(planned.private) != len(call.private):
            raise Mismatch
        return planned.drawn

    def end(self) -> None:
        """Mismatch where draws are left."""
        if self._left:
            raise Mismatch


def silent(composition: Composition) -> Drawing:
    """Noise that adds none: what it is given comes out."""
    return Drawing(composition, lambda call: outcome(call, exact(call)))


def ideal(composition: Composition, rng: np.random.Generator) -> Drawing:
    """Noise as claimed, near enough to foresee by: drawn by numpy."""
    return Drawing(composition, lambda call: outcome(call, noisy(call, composition, 1.0, rng, 1)[0]))


def exact(call: Call) -> np.ndarray:
    """What a call noises; of a threshold the counts of its keys, in their order."""
    if call.method == "threshold":
        return np.array([call.private[key] for key in sorted(call.private)])
    return np.array(call.private)


def outcome(call: Call, values: np.ndarray) -> Any:
    """What comes out of a call whose noisy scores or counts are `values`."""
    if call.method == "select":
        return np.argmax(values)
    whole = np.rint(values).astype(np.int64)
    if call.method == "add":
        return whole
    counts = dict(zip(sorted(call.private), whole.tolist(), strict=True))
    return {key: count for key, count in counts.items() if count >= call.threshold}


def noisy(
    call: Call, composition: Composition, factor: float, rng: np.random.Generator, runs: int
) -> np.ndarray:
    """float64[run, cell]: what a call noises, with noise of `factor` times its scale."""
    values, scale = exact(call), call.scale * factor
    shape = (runs, len(values))
    if call.method == "select":
        draw = rng.gumbel if composition is Composition.ZCDP else rng.exponential
        return values + draw(size=shape) * scale
    if composition is Composition.PURE:  # discrete Laplace
        return values + np.rint(rng.exponential(scale, shape) // 1 - rng.exponential(scale, shape) // 1)
    if scale > 10:  # where the grid is fine, a rounded Gaussian is enough to foresee what a check can see
        return values + np.rint(rng.normal(scale=scale, size=shape))
    x = np.arange(-150, 151)
    chances = np.exp(-(x**2) / (2 * scale**2))
    return values + rng.choice(x, size=shape, p=chances / chances.sum())


def log_ratio(ours: Sequence[Call], theirs: Sequence[Call], composition: Composition) -> float:
    """log P[draws | theirs] - log P[draws | ours], the draws being those of `ours`, for mechanisms as they
    claim to be.
    """
    total = 0.0
    for one, other in zip(ours, theirs, strict=True):
        if one.seen:
            kept = one.method == "threshold"
            drawn = dict.fromkeys(one.drawn, True) if kept else np.array([one.drawn])
            total += float(_log_ratios(one, other, drawn, composition)[0])
    return min(max(total, -SURE), SURE)


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
    for one, other in zip(ours, theirs, strict=True):
        if not one.seen:
            continue
        drawn: Any = noisy(one, composition, factor, rng, runs)
        if one.method == "select":
            drawn = drawn.argmax(axis=1)
        if one.method == "threshold":
            drawn = dict(zip(sorted(one.private), (drawn >= one.threshold).T, strict=True))
        total += _log_ratios(one, other, drawn, composition)
    return np.clip(total, -SURE, SURE)


def _log_ratios(ours: Call, theirs: Call, drawn: Any, composition: Composition) -> np.ndarray:
    """float64[run] of one call. `drawn`: the noisy values[run, cell] of add, the choices[run] of select; of
    threshold whether each key was kept, bool[run] by key.
    """
    if ours.method == "add":
        far, near = drawn - theirs.private, drawn - ours.private
        if composition is Composition.ZCDP:
            return ((near**2.0).sum(axis=1) - (far**2.0).sum(axis=1)) / (2 * ours.scale**2)
        return (np.abs(near).sum(axis=1) - np.abs(far).sum(axis=1)) / ours.scale
    if ours.method == "select":
        return (log_choices(theirs, composition) - log_choices(ours, composition))[drawn]
    total = np.zeros(1)
    for key in ours.private.keys() | theirs.private.keys():
        gone, kept = (_log_kept(theirs, key, k) - _log_kept(ours, key, k) for k in (False, True))
        total = total + np.where(drawn.get(key, False), kept, gone)
    return total


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
