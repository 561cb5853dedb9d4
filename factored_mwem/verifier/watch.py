"""Watch: the real noise with a transcript, and the same transcript replayed on another table. NOT PRIVATE:
for `fmwem verify` alone.

A base run draws real noise and notes every draw. A replay on a neighbour draws too, so that its rows go all
the way to the sampler; what comes back is thrown away for the base run's answer. Given the same answers, all
that may differ between the two is what reached the sampler, and by no more than was charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from factored_mwem.accounting.accountant import Accountant, Charge
from factored_mwem.accounting.conversion import threshold_delta
from factored_mwem.ledger.run import Run
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.tables.source import Private
from factored_mwem.verifier.tap import Call, Tap

DEPENDED = "a decision depended on private rows"
Given = np.ndarray | dict[str, int]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Draw(Private):
    """One draw: how it was asked for, what was charged for it, what was handed over, and what the sampler saw
    of that.
    """

    method: str
    entry: Charge
    scale: float
    threshold: int
    given: Given
    answer: Any
    calls: Sequence[Call]

    @property
    def size(self) -> int:
        """How many numbers were handed over; how many keys there are is private."""
        return 0 if self.method == "threshold" else len(self.given)


@dataclass(frozen=True, slots=True)
class Finding:
    """A comparison at one stage: the share of what was charged that was used up, infinite where something is
    wrong in itself, and what.
    """

    stage: str
    ratio: float
    wrong: str = ""


class Parted(Exception):
    """A replay that went another way than its base run: there is nothing left to compare."""


def stage_of(entry: Charge) -> str:
    """The stage of an entry, as a person would name it."""
    if entry.stage == "discover":
        return f"discover {entry.target[-1]}"
    if entry.stage == "measure":
        return f"measure {len(entry.target)} attributes" if entry.target else "measure total"
    return entry.stage


class Recorder:
    """Noise that notes every draw. With the draws of a base run it answers as that one did, and compares."""

    def __init__(self, noise: Noise, ledger: Accountant, tap: Tap, base: Sequence[Draw] | None) -> None:
        self.composition = noise.composition
        self.draws: list[Draw] = []
        self.findings: list[Finding] = []
        self._noise, self._ledger, self._tap, self._base = noise, ledger, tap, base
        self._charges = 0
        tap.take()  # what a replay that parted left

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return int(
            self._draw("select", scores.copy(), scale, lambda: self._noise.select(scores, scale=scale))
        )

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        found: np.ndarray = self._draw(
            "add", values.copy(), scale, lambda: self._noise.add(values, scale=scale)
        )
        return found.copy()

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        return dict(
            self._draw(
                "threshold",
                dict(counts),
                scale,
                lambda: self._noise.threshold(counts, scale=scale, threshold=threshold),
                threshold,
            )
        )

    def _draw(
        self, method: str, given: Given, scale: float, draw: Callable[[], Any], threshold: int = 0
    ) -> Any:
        if not self._ledger.entries:
            self._part("noise", "noise was drawn before anything was charged")
        entry, number = self._ledger.entries[-1], len(self.draws)
        stage = stage_of(entry)
        if len(self._ledger.entries) <= self._charges:
            self.findings.append(Finding(stage, math.inf, "a draw has no charge of its own"))
        self._charges = len(self._ledger.entries)
        self._look_past(stage)
        answer = draw()
        made = Draw(method, entry, scale, threshold, given, answer, self._tap.take())
        self.draws.append(made)
        self.findings += [Finding(stage, math.inf, wrong) for wrong in unfaithful(made)]
        if self._base is None:
            return answer
        if number >= len(self._base):
            self._part(stage, f"{DEPENDED}: there is a draw more")
        base = self._base[number]
        wrong = differently_asked(base, made)
        if wrong:
            self._part(stage, f"{DEPENDED}: the {wrong} of a draw differs")
        self.findings += losses(base, made)
        return base.answer

    def _look_past(self, stage: str) -> None:
        if self._tap.take():
            self.findings.append(Finding(stage, math.inf, "noise was drawn past the ledger"))

    def _part(self, stage: str, wrong: str) -> NoReturn:
        self.findings.append(Finding(stage, math.inf, wrong))
        raise Parted

    def end(self) -> None:
        """After the last draw: the sums of the ledger, and whether the base run drew more."""
        spent, entries = self._ledger.spent, self._ledger.entries
        self._look_past("ledger")
        if (
            spent != sum(e.cost for e in entries)
            or self._ledger.spent_delta != sum(e.delta for e in entries)
            or spent > self._ledger.budget.amount
        ):
            self.findings.append(
                Finding(
                    "ledger", math.inf, "the ledger's sum is not that of its entries, or more than the budget"
                )
            )
        if self._base is not None and len(self.draws) < len(self._base):
            self._part(stage_of(self._base[len(self.draws)].entry), f"{DEPENDED}: there is a draw less")


class Watched(Run):
    """A run without books whose noise is watched. What depends on the machine and the clock is pinned to the
    base run's.
    """

    def __init__(
        self, tap: Tap, pinned: dict[str, Any] | None = None, base: Sequence[Draw] | None = None
    ) -> None:
        super().__init__()
        self.recorder: Recorder | None = None
        self._tap, self._base = tap, base
        self._pinned = dict(pinned or {})

    @property
    def pinned(self) -> dict[str, Any]:
        return self._pinned

    @property
    def findings(self) -> list[Finding]:
        return self.recorder.findings if self.recorder is not None else []

    @property
    def draws(self) -> list[Draw]:
        return self.recorder.draws if self.recorder is not None else []

    def noise(self, noise: Noise, ledger: Accountant) -> Noise:
        if isinstance(noise, OpenDPNoise):
            noise.workers = 1  # so that the chunks of a draw come in their order
        self.recorder = Recorder(noise, ledger, self._tap, self._base)
        return self.recorder

    def drawn(self, ledger: Accountant) -> None:
        super().drawn(ledger)
        if self.recorder is not None:
            self.recorder.end()


def unfaithful(draw: Draw) -> list[str]:
    """What is wrong between the product and the sampler: it must have seen what it was handed, and its answer
    must be what came back.
    """
    calls = draw.calls
    if any(call.returned is None for call in calls):
        return ["the sampler failed"]
    if isinstance(draw.given, dict):
        return _unfaithful_keys(draw, draw.given)
    if draw.method == "select":
        if len(calls) != 1 or sorted(calls[0].received) != sorted(draw.given.tolist()):
            return ["the sampler did not receive the scores that were handed over"]
        won = calls[0].received[calls[0].returned]
        return (
            [] if won == int(draw.given[draw.answer]) else ["the sampler chose another score than came back"]
        )
    if [value for call in calls for value in call.received] != draw.given.tolist():
        return ["the sampler did not receive the values that were handed over"]
    back = [value for call in calls for value in call.returned]
    return [] if back == np.asarray(draw.answer).tolist() else ["the sampler's answer is not what came back"]


def _unfaithful_keys(draw: Draw, given: dict[str, int]) -> list[str]:
    """The sampler may know the keys by other names, but each must stay a key of its own, with its own count
    and noise.
    """
    if len(draw.calls) != (1 if given else 0):
        return [f"the sampler was called {len(draw.calls)} times for one draw"]
    received = draw.calls[0].received if given else {}
    if len(received) != len(given):
        return ["two keys became one on the way to the sampler"]
    if sorted(received.values()) != sorted(given.values()):
        return ["the sampler did not receive the counts that were handed over"]
    returned = draw.calls[0].returned if given else {}
    if not set(draw.answer) <= set(given):
        return ["a key came back that was not handed over"]
    if sorted((received[key], noisy) for key, noisy in returned.items()) != sorted(
        (given[key], noisy) for key, noisy in draw.answer.items()
    ):
        return ["the sampler's counts are not those that came back"]
    return []


def differently_asked(base: Draw, near: Draw) -> str:
    """The first of the public facts of a draw that is another one on the neighbour, in words; empty where
    there is none.
    """
    facts = {
        "kind": (base.method, near.method), "stage": (base.entry.stage, near.entry.stage), "mechanism": (base.entry.mechanism, near.entry.mechanism),
        "target": (base.entry.target, near.entry.target), "sensitivity": (base.entry.sensitivity, near.entry.sensitivity),
        "charged scale": (base.entry.scale, near.entry.scale), "charged delta": (base.entry.delta, near.entry.delta),
        "scale": (base.scale, near.scale), "threshold": (base.threshold, near.threshold), "length": (base.size, near.size),
    }  # fmt: skip
    for words, (first, second) in facts.items():
        if first != second:
            return words
    samplers = {_sampler(draw, call) for draw in (base, near) for call in draw.calls}
    return "sampler" if len(samplers) > 1 else ""


def _sampler(draw: Draw, call: Call) -> Any:
    """What tells one sampler from another: its loss at a distance of 1."""
    if draw.method == "threshold":
        return call.loss((1, 1.0, 1.0))
    return call.loss(1.0 if _gaussian(draw) else 1)


def _gaussian(draw: Draw) -> bool:
    return "gaussian" in draw.entry.mechanism.value


def losses(base: Draw, near: Draw) -> list[Finding]:
    """What the sampler's own map says of the distance that was seen, over what was charged."""
    stage, cost = stage_of(near.entry), near.entry.cost
    if isinstance(base.given, dict) and isinstance(near.given, dict):
        return _losses_of_keys(base, near, base.given, near.given)
    first, second = np.asarray(base.given, dtype=np.int64), np.asarray(near.given, dtype=np.int64)
    gaps = np.maximum(first, second).view(np.uint64) - np.minimum(first, second).view(
        np.uint64
    )  # exact, whatever the signs
    if near.method == "select":
        loss = near.calls[0].loss(int(gaps.max())) if gaps.any() else 0.0
        return [Finding(stage, float(loss) / float(cost))]
    loss, at = 0.0, 0
    for call in near.calls:  # chunks are noised apart, so their losses add
        moved = [int(gap) for gap in gaps[at : at + len(call.received)] if gap]
        at += len(call.received)
        if moved:
            loss += float(
                call.loss(math.sqrt(sum(gap * gap for gap in moved)) if _gaussian(near) else sum(moved))
            )
    return [Finding(stage, loss / float(cost))]


def _losses_of_keys(base: Draw, near: Draw, first: dict[str, int], second: dict[str, int]) -> list[Finding]:
    """For rho, all keys of either; for delta, those that only one has, at the scale and the threshold that
    were used.
    """
    stage, calls = stage_of(near.entry), [*near.calls, *base.calls]
    gaps = [gap for key in {*first, *second} if (gap := abs(first.get(key, 0) - second.get(key, 0)))]
    alone = [abs(first.get(key, 0) - second.get(key, 0)) for key in {*first} ^ {*second}]
    if not gaps or not calls:
        return [Finding(stage, 0.0)]
    rho = calls[0].loss((len(gaps), math.sqrt(sum(gap * gap for gap in gaps)), float(max(gaps))))[0]
    found = [Finding(stage, float(rho) / float(near.entry.cost))]
    if alone:
        ours = threshold_delta(scale=near.scale, threshold=near.threshold, l0=len(alone), linf=max(alone))
        # The library knows the threshold that the sampler really has; its delta may be too small, ours is of
        # what it was asked for.
        theirs = calls[0].loss((len(alone), math.sqrt(sum(gap * gap for gap in alone)), float(max(alone))))[1]
        charged = float(near.entry.delta)
        found.append(Finding(f"{stage}: delta", max(ours, float(theirs)) / charged if charged else math.inf))
    return found
