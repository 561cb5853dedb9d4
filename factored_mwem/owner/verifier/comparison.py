"""Comparison: a draw compared with its charge, and with the same draw on a neighbour. NOT PRIVATE.

Between the two draws only the numbers that reach the sampler may differ, and by no more than was charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from factored_mwem.accounting.accountant import BETA_GRID, Charge, Mechanism
from factored_mwem.accounting.admissible import SLACK, Shape
from factored_mwem.accounting.conversion import threshold_delta
from factored_mwem.owner.verifier.tap import Call
from factored_mwem.privacy.noise import NoisyThreshold
from factored_mwem.tables.inputs.source import Private

FINEST = 2.0**-52
"""The library computes a tail as 1 minus a probability, so it cannot state a delta below 2^-53."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Keys(Private):
    """The arguments of a threshold: `counts` of keys, of which those `listed` are public."""

    counts: dict[str, int]
    threshold: int
    listed: tuple[str, ...] = ()

    @property
    def unlisted(self) -> dict[str, int]:
        public = set(self.listed)
        return {key: count for key, count in self.counts.items() if key not in public}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Look(Private):
    """The arguments of a look of a sparse vector test: a score, and its test's threshold with the calls that
    drew its noise.
    """

    score: int
    begun: NoisyThreshold
    calls: Sequence[Call]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bounded(Private):
    """The arguments of noise of smooth sensitivity: a number, and the bound that its scale follows."""

    value: int
    bound: float
    shape: Shape


DrawInput = np.ndarray | Keys | Look | Bounded


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ComparedDraw(Private):
    """One draw."""

    method: str
    entry: Charge
    """The charge for the draw."""
    scale: float
    input: DrawInput
    """The numbers handed to the noise."""
    answer: Any
    calls: Sequence[Call]
    """The calls of the sampler, with the numbers that reached it."""

    @property
    def facts(self) -> dict[str, Any]:
        """The public facts about the draw, by name."""
        charged = {"charged scale": self.entry.scale, "charged delta": self.entry.delta}
        names = ("stage", "mechanism", "target", "sensitivity")
        request = {name: getattr(self.entry, name) for name in names}
        own = {"scale": self.scale, **self._own_facts()}
        return {"kind": self.method, **request, **charged, **own}

    def _own_facts(self) -> dict[str, Any]:
        """The number of values handed over. The number of keys is private, but the listed keys are public."""
        if isinstance(self.input, Keys):
            return {"threshold": self.input.threshold, "list of public keys": self.input.listed}
        if isinstance(self.input, Look | Bounded):
            return {"shape": getattr(self.input, "shape", None)}
        return {"length": len(self.input)}


@dataclass(frozen=True, slots=True)
class Finding:
    """A comparison at one stage."""

    stage: str
    ratio: float
    """The privacy loss as a share of the charge; infinite if something is wrong in itself."""
    wrong: str = ""
    """The error in words, if something is wrong in itself."""


def stage_of(entry: Charge) -> str:
    """The stage of an entry, as a person would name it."""
    if entry.stage == "discover":
        return f"discover {entry.target[-1]}"
    if entry.stage == "measure":
        return f"measure {len(entry.target)} attributes" if entry.target else "measure total"
    return entry.stage


def unfaithful(draw: ComparedDraw) -> list[str]:
    """The differences between the values that the program passed or received and those of the sampler, in
    words.

    The sampler must have received what was passed, and its answer must be what came back.
    """
    calls = draw.calls
    if any(call.returned is None for call in calls):
        return ["the sampler failed"]
    if isinstance(draw.input, Keys):
        return _unfaithful_keys(draw, draw.input)
    if isinstance(draw.input, Look | Bounded) or draw.method == "begin":
        return _unfaithful_number(draw, draw.input)
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


def _unfaithful_number(draw: ComparedDraw, given: DrawInput) -> list[str]:
    """The same of a single number, whose noise is this program's own where it is a Cauchy's."""
    if isinstance(given, Bounded) and given.shape is Shape.CAUCHY:
        return []
    if len(draw.calls) != 1:
        return [f"the sampler was called {len(draw.calls)} times for one draw"]
    (call,) = draw.calls
    value = given.score if isinstance(given, Look) else given.value if isinstance(given, Bounded) else 0
    if call.received != value:
        return ["the sampler did not receive the number that was handed over"]
    scale = draw.scale * (given.bound if isinstance(given, Bounded) else 1.0)
    if call.loss(1) * max(scale, 1.0 if isinstance(given, Bounded) else scale) > 1 + 1e-9:
        return ["the sampler has less noise than was asked for"]
    if isinstance(given, Look):
        same = given.begun.reached_by(call.returned) == draw.answer
    else:
        same = isinstance(given, np.ndarray) or call.returned == draw.answer
    return [] if same else ["the sampler's answer is not what came back"]


def _unfaithful_keys(draw: ComparedDraw, keys: Keys) -> list[str]:
    """The same of keys: the sampler may know them by other names, but each must stay one of its own. Those
    listed are noised like numbers, apart from the others, and all come back.
    """
    of_keys = [call for call in draw.calls if _is_of_keys(call)]
    of_listed = [call for call in draw.calls if not _is_of_keys(call)]
    if [n for call in of_listed for n in call.received] != [keys.counts.get(key) for key in keys.listed]:
        return ["the sampler did not receive the counts of the listed keys"]
    back = [n for call in of_listed for n in call.returned]
    if back != [draw.answer.get(key) for key in keys.listed]:
        return ["the sampler's counts of the listed keys are not those that came back"]
    counts, public = keys.unlisted, set(keys.listed)
    answer = {key: noisy for key, noisy in draw.answer.items() if key not in public}
    if len(of_keys) != (1 if counts else 0):
        return [f"the sampler was called {len(of_keys)} times for one draw"]
    received = of_keys[0].received if counts else {}
    if len(received) != len(counts):
        return ["two keys became one on the way to the sampler"]
    if sorted(received.values()) != sorted(counts.values()):
        return ["the sampler did not receive the counts that were handed over"]
    returned = of_keys[0].returned if counts else {}
    if not set(answer) <= set(counts):
        return ["a key came back that was not handed over"]
    theirs = sorted((received[key], noisy) for key, noisy in returned.items())
    if theirs != sorted((counts[key], noisy) for key, noisy in answer.items()):
        return ["the sampler's counts are not those that came back"]
    return []


def _is_of_keys(call: Call) -> bool:
    return isinstance(call.received, dict)


def differently_asked(base: ComparedDraw, near: ComparedDraw) -> str:
    """The first public fact of a draw that is another one on the neighbour, in words; else empty."""
    facts = near.facts
    for words, fact in base.facts.items():
        if fact != facts[words]:
            return words
    if isinstance(near.input, Bounded):
        return ""  # the scale of its sampler is private, and compared with its bound
    samplers = {(_is_of_keys(call), _sampler(draw, call)) for draw in (base, near) for call in draw.calls}
    kinds = {of_keys for of_keys, _ in samplers}
    return "sampler" if len(samplers) > len(kinds) else ""


def _sampler(draw: ComparedDraw, call: Call) -> Any:
    """A number that identifies a sampler: its loss at a distance of 1."""
    if _is_of_keys(call):
        return call.loss((1, 1.0, 1.0))
    return call.loss(1.0 if _gaussian(draw) else 1)


def _gaussian(draw: ComparedDraw) -> bool:
    return "gaussian" in draw.entry.mechanism.value


def losses(base: ComparedDraw, near: ComparedDraw) -> list[Finding]:
    """The loss by the sampler's own privacy map at the observed distance, divided by the charge."""
    stage, cost = stage_of(near.entry), near.entry.cost
    if isinstance(base.input, Keys) and isinstance(near.input, Keys):
        return _losses_of_keys(base, near, base.input, near.input)
    if near.method == "begin":  # of a threshold that is public
        return []
    if isinstance(base.input, Look) and isinstance(near.input, Look):
        return [Finding(stage, _looked(near, abs(base.input.score - near.input.score)) / float(cost))]
    if isinstance(base.input, Bounded) and isinstance(near.input, Bounded):
        return [Finding(stage, _share_of_bound(near.entry, base.input, near.input))]
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
            if near.entry.mechanism is Mechanism.LAPLACE_IN_RHO:  # epsilon^2 / 2 of each number
                loss += float(call.loss(1)) ** 2 / 2 * sum(gap * gap for gap in moved)
                continue
            distance = math.sqrt(sum(gap * gap for gap in moved)) if _gaussian(near) else sum(moved)
            loss += float(call.loss(distance))
    return [Finding(stage, loss / float(cost))]


def _looked(near: ComparedDraw, gap: int) -> float:
    """What a sparse vector test loses if each of its scores moves by `gap`: once by its threshold, and twice
    by the score that ends it; in the unit of its charge.
    """
    assert isinstance(near.input, Look)
    loss = gap and float(near.input.calls[0].loss(gap)) + 2 * float(near.calls[0].loss(gap))
    return loss**2 / 2 if near.entry.mechanism is Mechanism.SPARSE_VECTOR_IN_RHO else float(loss)


def _share_of_bound(entry: Charge, first: Bounded, second: Bounded) -> float:
    """How much is used up of what a number may move by, its bound, and of what the bound may change by."""
    beta = entry.sensitivity / BETA_GRID + SLACK
    moved = abs(first.value - second.value) / min(first.bound, second.bound)
    return max(moved, abs(math.log(first.bound / second.bound)) / beta)


def _losses_of_keys(base: ComparedDraw, near: ComparedDraw, first: Keys, second: Keys) -> list[Finding]:
    """For rho, all keys of either, those listed among them: what they lose adds up; for delta, those not
    listed that only one has, at the scale and threshold used.
    """
    stage, listed_calls = stage_of(near.entry), [call for call in near.calls if not _is_of_keys(call)]
    rho, at = 0.0, 0
    for call in listed_calls:
        some = second.listed[at : at + len(call.received)]
        at += len(some)
        moved = math.dist([first.counts[key] for key in some], [second.counts[key] for key in some])
        rho += float(call.loss(moved)) if moved else 0.0
    ours, theirs = first.unlisted, second.unlisted
    calls = [call for call in [*near.calls, *base.calls] if _is_of_keys(call)]
    gaps = [gap for key in {*ours, *theirs} if (gap := abs(ours.get(key, 0) - theirs.get(key, 0)))]
    alone = [abs(ours.get(key, 0) - theirs.get(key, 0)) for key in {*ours} ^ {*theirs}]
    if gaps and calls:
        distance = math.sqrt(sum(gap * gap for gap in gaps))
        rho += float(calls[0].loss((len(gaps), distance, float(max(gaps))))[0])
    findings = [Finding(stage, rho / float(near.entry.cost))]
    if alone and calls:
        most = float(max(alone))
        expected = threshold_delta(
            scale=near.scale, threshold=second.threshold, l0=len(alone), linf=max(alone)
        )
        # The library knows the threshold that the sampler really has; its delta may be too small, ours is of
        # what it was asked for.
        own = calls[0].loss((len(alone), math.sqrt(sum(gap * gap for gap in alone)), most))[1]
        charged = float(near.entry.delta)
        stated = float(own) if own > len(alone) * FINEST else 0.0  # a tail for each key
        ratio = max(expected, stated) / charged if charged else math.inf
        findings.append(Finding(f"{stage}: delta", ratio))
    return findings
