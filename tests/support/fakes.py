"""A noise adapter for tests: the methods of all kinds of `Noise`, deterministic, with a record of every call.
The package has no such switch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from factored_mwem.accounting.admissible import Shape
from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.noise import NoisyThreshold


@dataclass(frozen=True)
class Call:
    """One call to the adapter: its method, the private input as it came, the scale; of a threshold also which
    of its keys are listed, and so public.
    """

    method: str
    values: object
    scale: float
    threshold: int | None = None
    listed: tuple[str, ...] = ()


class FakeNoise:
    """Noise that a test decides; by default there is none, and the best score wins.

    `winner`: int (index, modulo the number of candidates) or function(scores, scale) -> index. `offset`: int
    added to every cell, or function(values, scale) -> noisy values. `answers`: noisy answers to give in turn
    to `add`, whatever the values (the shape must fit); then `offset` takes over. `kept`: keys that pass
    `threshold`, or function(counts, scale, threshold) -> dict; by default those that reach it; and all that
    are listed, as they are.
    """

    def __init__(
        self,
        composition: Composition = Composition.ZCDP,
        *,
        winner: int | Callable[[np.ndarray, float], int] | None = None,
        offset: int | Callable[[np.ndarray, float], np.ndarray] = 0,
        answers: Sequence[np.ndarray] = (),
        kept: Sequence[str] | Callable[[dict[str, int], float, int], dict[str, int]] | None = None,
    ) -> None:
        self.composition = composition
        self.winner, self.offset, self.kept = winner, offset, kept
        self.answers = list(answers)
        self.calls: list[Call] = []
        self.given: list[np.ndarray] = []
        """Every noisy answer of `add`."""

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        assert scores.dtype == np.int64 and scores.ndim == 1 and len(scores)
        self.calls.append(Call("select", scores.copy(), scale))
        if self.winner is None:
            return int(np.argmax(scores))
        return int(self.winner(scores, scale)) if callable(self.winner) else self.winner % len(scores)

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        values = np.asarray(values)
        assert values.dtype.kind == "i" and values.ndim == 1
        self.calls.append(Call("add", values.copy(), scale))
        if self.answers:
            answer = np.asarray(self.answers.pop(0), dtype=np.int64)
            assert answer.shape == values.shape
        else:
            answer = self.offset(values, scale) if callable(self.offset) else values + self.offset
        self.given.append(np.array(answer, dtype=np.int64))
        return self.given[-1].copy()

    def threshold(
        self, counts: dict[str, int], *, scale: float, threshold: int, listed: Sequence[str] = ()
    ) -> dict[str, int]:
        self.calls.append(Call("threshold", dict(counts), scale, threshold, tuple(listed)))
        told = {key: counts[key] for key in listed}
        if callable(self.kept):
            return told | self.kept(dict(counts), scale, threshold)
        if self.kept is not None:
            return told | dict.fromkeys(self.kept, threshold)
        return told | {key: count for key, count in counts.items() if count >= threshold}

    def begin(self, *, scale: float) -> NoisyThreshold:
        self.calls.append(Call("begin", None, scale))
        return NoisyThreshold(0)

    def exceeds(self, score: int, begun: NoisyThreshold, *, scale: float) -> bool | None:
        """Without noise; `answers` and `offset` are for `add` alone."""
        self.calls.append(Call("exceeds", score, scale))
        return None if begun.gone else begun.reached_by(score)

    def spread(self, value: int, bound: float, *, shape: Shape, scale: float) -> int:
        """Without noise, or with `offset` where that is a number."""
        self.calls.append(Call("spread", (value, bound, shape), scale))
        return value + (self.offset if isinstance(self.offset, int) else 0)

    def scales(self, method: str) -> list[float]:
        """The scales of all calls to `method`, in order."""
        return [call.scale for call in self.calls if call.method == method]


class Between:
    """Noise whose scale changes on its way: a bug between the ledger and the sampler."""

    def __init__(self, real: Any, factor: float) -> None:
        self.real, self.factor, self.composition = real, factor, real.composition

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return self.real.select(scores, scale=scale * self.factor)

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        return self.real.add(values, scale=scale * self.factor)

    def threshold(
        self, counts: dict[str, int], *, scale: float, threshold: int, listed: Sequence[str] = ()
    ) -> dict[str, int]:
        return self.real.threshold(counts, scale=scale * self.factor, threshold=threshold, listed=listed)

    def begin(self, *, scale: float) -> NoisyThreshold:
        return self.real.begin(scale=scale * self.factor)

    def exceeds(self, score: int, begun: NoisyThreshold, *, scale: float) -> bool | None:
        return self.real.exceeds(score, begun, scale=scale * self.factor)


def callable_part(part: Callable[..., object]) -> Callable[..., object]:
    """A part of other kernels, compiled inside a kernel of its own."""

    @njit
    def call(*arguments):  # type: ignore[no-untyped-def]
        return part(*arguments)

    return call
