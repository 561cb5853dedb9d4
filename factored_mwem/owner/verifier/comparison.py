"""Comparison: a draw against what was charged for it, and against the same draw on a neighbour. NOT PRIVATE.

All that may differ between the two is what reached the sampler, and by no more than was charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from factored_mwem.accounting.accountant import Charge
from factored_mwem.accounting.conversion import threshold_delta
from factored_mwem.owner.verifier.tap import Call
from factored_mwem.tables.inputs.source import Private

DrawInput = np.ndarray | dict[str, int]
FINEST = 2.0**-52
"""The library takes a tail from 1, so it states no delta below 2^-53."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ComparedDraw(Private):
    """One draw."""

    method: str
    entry: Charge
    """What was charged for it."""
    scale: float
    threshold: int
    input: DrawInput
    """What was handed over."""
    answer: Any
    calls: Sequence[Call]
    """What the sampler saw of that."""

    @property
    def facts(self) -> dict[str, Any]:
        """All that is public of it, by name."""
        charged = {"charged scale": self.entry.scale, "charged delta": self.entry.delta}
        names = ("stage", "mechanism", "target", "sensitivity")
        request = {name: getattr(self.entry, name) for name in names}
        own = {"scale": self.scale, "threshold": self.threshold, "length": self.size}
        return {"kind": self.method, **request, **charged, **own}

    @property
    def size(self) -> int:
        """How many numbers were handed over; how many keys there are is private."""
        return 0 if self.method == "threshold" else len(self.input)


@dataclass(frozen=True, slots=True)
class Finding:
    """A comparison at one stage."""

    stage: str
    ratio: float
    """The share of what was charged that was used up; infinite where something is wrong in itself."""
    wrong: str = ""
    """What is."""


def stage_of(entry: Charge) -> str:
    """The stage of an entry, as a person would name it."""
    if entry.stage == "discover":
        return f"discover {entry.target[-1]}"
    if entry.stage == "measure":
        return f"measure {len(entry.target)} attributes" if entry.target else "measure total"
    return entry.stage


def unfaithful(draw: ComparedDraw) -> list[str]:
    """What is wrong between the product and the sampler.

    It must have seen what it was handed, and its answer must be what came back.
    """
    calls = draw.calls
    if any(call.returned is None for call in calls):
        return ["the sampler failed"]
    if isinstance(draw.input, dict):
        return _unfaithful_keys(draw, draw.input)
    if draw.method == "select":
        if len(calls) != 1 or sorted(calls[0].received) != sorted(draw.input.tolist()):
            return ["the sampler did not receive the scores that were handed over"]
        if calls[0].received[calls[0].returned] != int(draw.input[draw.answer]):
            return ["the sampler chose another score than came back"]
        return []
    if [value for call in calls for value in call.received] != draw.input.tolist():
        return ["the sampler did not receive the values that were handed over"]
    back = [value for call in calls for value in call.returned]
    return [] if back == np.asarray(draw.answer).tolist() else ["the sampler's answer is not what came back"]


def _unfaithful_keys(draw: ComparedDraw, counts: dict[str, int]) -> list[str]:
    """The same of keys: the sampler may know them by other names, but each must stay one of its own."""
    if len(draw.calls) != (1 if counts else 0):
        return [f"the sampler was called {len(draw.calls)} times for one draw"]
    received = draw.calls[0].received if counts else {}
    if len(received) != len(counts):
        return ["two keys became one on the way to the sampler"]
    if sorted(received.values()) != sorted(counts.values()):
        return ["the sampler did not receive the counts that were handed over"]
    returned = draw.calls[0].returned if counts else {}
    if not set(draw.answer) <= set(counts):
        return ["a key came back that was not handed over"]
    theirs = sorted((received[key], noisy) for key, noisy in returned.items())
    if theirs != sorted((counts[key], noisy) for key, noisy in draw.answer.items()):
        return ["the sampler's counts are not those that came back"]
    return []


def differently_asked(base: ComparedDraw, near: ComparedDraw) -> str:
    """The first public fact of a draw that is another one on the neighbour, in words; else empty."""
    facts = near.facts
    for words, fact in base.facts.items():
        if fact != facts[words]:
            return words
    samplers = {_sampler(draw, call) for draw in (base, near) for call in draw.calls}
    return "sampler" if len(samplers) > 1 else ""


def _sampler(draw: ComparedDraw, call: Call) -> Any:
    """What tells one sampler from another: its loss at a distance of 1."""
    if draw.method == "threshold":
        return call.loss((1, 1.0, 1.0))
    return call.loss(1.0 if _gaussian(draw) else 1)


def _gaussian(draw: ComparedDraw) -> bool:
    return "gaussian" in draw.entry.mechanism.value


def losses(base: ComparedDraw, near: ComparedDraw) -> list[Finding]:
    """What the sampler's own map says of the distance that was seen, over what was charged."""
    stage, cost = stage_of(near.entry), near.entry.cost
    if isinstance(base.input, dict) and isinstance(near.input, dict):
        return _losses_of_keys(base, near, base.input, near.input)
    first, second = np.asarray(base.input, dtype=np.int64), np.asarray(near.input, dtype=np.int64)
    # As unsigned numbers the gaps are exact, whatever the signs.
    gaps = np.maximum(first, second).view(np.uint64) - np.minimum(first, second).view(np.uint64)
    if near.method == "select":
        loss = near.calls[0].loss(int(gaps.max())) if gaps.any() else 0.0
        return [Finding(stage, float(loss) / float(cost))]
    loss, at = 0.0, 0
    for call in near.calls:  # chunks are noised apart, so their losses add
        moved = [int(gap) for gap in gaps[at : at + len(call.received)] if gap]
        at += len(call.received)
        if moved:
            distance = math.sqrt(sum(gap * gap for gap in moved)) if _gaussian(near) else sum(moved)
            loss += float(call.loss(distance))
    return [Finding(stage, loss / float(cost))]


def _losses_of_keys(
    base: ComparedDraw, near: ComparedDraw, first: dict[str, int], second: dict[str, int]
) -> list[Finding]:
    """For rho, all keys of either; for delta, those that only one has, at the scale and threshold used."""
    stage, calls = stage_of(near.entry), [*near.calls, *base.calls]
    gaps = [gap for key in {*first, *second} if (gap := abs(first.get(key, 0) - second.get(key, 0)))]
    alone = [abs(first.get(key, 0) - second.get(key, 0)) for key in {*first} ^ {*second}]
    if not gaps or not calls:
        return [Finding(stage, 0.0)]
    rho = calls[0].loss((len(gaps), math.sqrt(sum(gap * gap for gap in gaps)), float(max(gaps))))[0]
    findings = [Finding(stage, float(rho) / float(near.entry.cost))]
    if alone:
        ours = threshold_delta(scale=near.scale, threshold=near.threshold, l0=len(alone), linf=max(alone))
        # The library knows the threshold that the sampler really has; its delta may be too small, ours is of
        # what it was asked for.
        theirs = calls[0].loss((len(alone), math.sqrt(sum(gap * gap for gap in alone)), float(max(alone))))[1]
        charged = float(near.entry.delta)
        stated = float(theirs) if theirs > FINEST else 0.0
        ratio = max(ours, stated) / charged if charged else math.inf
        findings.append(Finding(f"{stage}: delta", ratio))
    return findings
