"""Watch: the real noise with a transcript, and the same transcript replayed on another table. NOT PRIVATE.

A base run draws real noise and notes every draw. A replay on a neighbour draws too, so that its rows go all
the way to the sampler; its answer is replaced by that of the base run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, cast

import numpy as np

from factored_mwem.accounting.accountant import Accountant, Charge
from factored_mwem.accounting.admissible import Shape
from factored_mwem.ledger.run import Run
from factored_mwem.owner.verifier.amounts import amount
from factored_mwem.owner.verifier.comparison import (
    Bounded,
    ComparedDraw,
    DrawInput,
    Finding,
    Keys,
    Look,
    differently_asked,
    losses,
    stage_of,
    unfaithful,
)
from factored_mwem.owner.verifier.tap import Tap
from factored_mwem.privacy.noise import Noise, NoisyThreshold, OpenDPNoise
from factored_mwem.request.promise import Promise

DEPENDED = "a decision depended on private rows"


class Parted(Exception):
    """A replay took another path than its base run, so nothing more can be compared."""


class Recorder:
    """Noise that records every draw. With the draws of a base run it returns their answers, and compares."""

    def __init__(
        self,
        noise: Noise,
        accountant: Accountant,
        tap: Tap,
        base: Sequence[ComparedDraw] | None,
        promise: Promise,
    ) -> None:
        self.composition = noise.composition
        self.draws: list[ComparedDraw] = []
        self.findings: list[Finding] = []
        self._noise, self._accountant, self._tap, self._base = noise, accountant, tap, base
        self._charges, self._promise = 0, promise
        self._test: NoisyThreshold | None = None
        self._of_test: ComparedDraw | None = None
        tap.take()  # the rest of a replay that took another path

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        draw = partial(self._noise.select, scores, scale=scale)
        return int(self._draw("select", scores.copy(), scale, draw))

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        draw = partial(self._noise.add, values, scale=scale)
        noisy: np.ndarray = self._draw("add", values.copy(), scale, draw)
        return noisy.copy()

    def threshold(
        self, counts: dict[str, int], *, scale: float, threshold: int, listed: Sequence[str] = ()
    ) -> dict[str, int]:
        draw = partial(self._noise.threshold, counts, scale=scale, threshold=threshold, listed=listed)
        keys = Keys(dict(counts), threshold, tuple(listed))
        return dict(self._draw("threshold", keys, scale, draw))

    def begin(self, *, scale: float) -> NoisyThreshold:
        begun = self._draw("begin", np.zeros(1, np.int64), scale, partial(self._noise.begin, scale=scale))
        self._test = cast("NoisyThreshold", begun)
        self._of_test = self.draws[-1]
        return self._test

    def exceeds(self, score: int, begun: NoisyThreshold, *, scale: float) -> bool | None:
        """A look pays nothing: its test did. A replay is told what the base run's test said."""
        if self._of_test is None or begun is not self._test:
            self._part("test", "a test looks that never began")
        look = Look(int(score), begun, self._of_test.calls)
        draw = partial(self._noise.exceeds, score, begun, scale=scale)
        return cast("bool | None", self._compared("exceeds", look, scale, draw, self._of_test.entry))

    def spread(self, value: int, bound: float, *, shape: Shape, scale: float) -> int:
        draw = partial(self._noise.spread, value, bound, shape=shape, scale=scale)
        return int(self._draw("spread", Bounded(int(value), float(bound), shape), scale, draw))

    def _draw(self, method: str, values: DrawInput, scale: float, draw: Callable[[], Any]) -> Any:
        charges = self._accountant.entries
        if not charges:
            self._part("noise", "noise was drawn before anything was charged")
        entry, stage = charges[-1], stage_of(charges[-1])
        if len(charges) <= self._charges:
            self.findings.append(Finding(stage, math.inf, "a draw has no charge of its own"))
        self._charges = len(charges)
        return self._compared(method, values, scale, draw, entry)

    def _compared(
        self, method: str, values: DrawInput, scale: float, draw: Callable[[], Any], entry: Charge
    ) -> Any:
        stage, number = stage_of(entry), len(self.draws)
        self._look_past(stage)
        answer = draw()
        compared = ComparedDraw(method, entry, scale, values, answer, self._tap.take())
        self.draws.append(compared)
        self.findings += [Finding(stage, math.inf, wrong) for wrong in unfaithful(compared)]
        if self._base is None:
            return answer
        if number >= len(self._base):
            self._part(stage, f"{DEPENDED}: there is a draw more")
        base = self._base[number]
        wrong = differently_asked(base, compared)
        if wrong:
            self._part(stage, f"{DEPENDED}: the {wrong} of a draw differs")
        self.findings += losses(base, compared)
        return base.answer

    def _look_past(self, stage: str) -> None:
        if self._tap.take():
            self.findings.append(Finding(stage, math.inf, "noise was drawn past the ledger"))

    def _part(self, stage: str, wrong: str) -> NoReturn:
        self.findings.append(Finding(stage, math.inf, wrong))
        raise Parted

    def end(self) -> None:
        """After the last draw: the sums of the charges, and whether the base run drew more."""
        accountant, charges = self._accountant, self._accountant.entries
        self._look_past("ledger")
        sums = (sum(e.cost for e in charges), sum(e.delta for e in charges))
        if (accountant.spent, accountant.spent_delta) != sums or accountant.spent > accountant.budget.amount:
            wrong = "the ledger's sum is not that of its entries, or more than the budget"
            self.findings.append(Finding("ledger", math.inf, wrong))
        self.findings.append(amount(self._promise, accountant))
        if self._base is not None and len(self.draws) < len(self._base):
            self._part(stage_of(self._base[len(self.draws)].entry), f"{DEPENDED}: there is a draw less")


class WatchedRelease(Run):
    """A run without books whose noise is watched, with the base run's machine and clock."""

    def __init__(self, tap: Tap, promise: Promise, base: WatchedRelease | None = None) -> None:
        super().__init__()
        self.recorder: Recorder | None = None
        self._tap, self._promise = tap, promise
        self._base = None if base is None else base.draws
        self._pinned = {} if base is None else dict(base.pinned)

    @property
    def pinned(self) -> dict[str, Any]:
        return self._pinned

    @property
    def findings(self) -> list[Finding]:
        return self.recorder.findings if self.recorder is not None else []

    @property
    def draws(self) -> list[ComparedDraw]:
        return self.recorder.draws if self.recorder is not None else []

    def noise(self, noise: Noise, accountant: Accountant) -> Noise:
        if isinstance(noise, OpenDPNoise):
            noise.workers = 1  # so that the chunks of a draw come in their order
        self.recorder = Recorder(noise, accountant, self._tap, self._base, self._promise)
        return cast("Noise", self.recorder)

    def drawn(self, accountant: Accountant) -> None:
        super().drawn(accountant)
        if self.recorder is not None:
            self.recorder.end()
