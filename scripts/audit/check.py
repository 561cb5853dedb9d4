"""A check: many runs of a part of the mechanism on two neighbouring tables, and the most that any event tells
about which of them it was.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from audit.draws import SURE, Call, Mismatch, Script, Witness, log_ratio, simulated
from audit.events import Features, bound_of, judge, search
from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.privacy.noise import Noise, OpenDPNoise
from factored_mwem.privacy.session import Session

FAILURE = 1e-6
"""Most probability with which a run of the audit blames a mechanism that keeps its word, all checks together.
"""
WIDEST = 8
"""Cells of an answer that are looked at one by one."""
FORESEEN = 40_000
"""Simulated runs behind a stated power."""
HALVED = 0.5

Make = Callable[[Composition], Noise]
real: Make = lru_cache(OpenDPNoise)
"""The package's own noise; it holds no state, so that all runs may share it."""


@dataclass(slots=True)
class Seen:
    """What a run gave away: `look` makes numbers of it; what the ledger says it cost; `public`, which the
    table decides through the draws alone.
    """

    look: Callable[[], dict[str, float]]
    charged: float
    delta: float = 0.0
    public: Any = None


Play = Callable[[int, Noise], Seen]


@dataclass(frozen=True)
class Check:
    """`play(world, noise)` runs the part once on table 0 or 1. `fixed`: what reaches the noise is the same in
    every run on the same table.

    `unit` names what is bounded, "rho" or "epsilon"; `share` makes expensive checks run less often; `whole`
    marks releases.
    """

    name: str
    composition: Composition
    unit: str
    play: Play
    fixed: bool = True
    share: float = 1.0
    whole: bool = False
    note: str = ""


@dataclass(frozen=True)
class Finding:
    """What a check found. `honest`, `halved`: the bounds to expect from the mechanism as claimed, and with
    half its noise, in as many runs.
    """

    check: str
    unit: str
    claimed: float
    delta: float
    bound: float
    honest: float
    halved: float
    runs: int
    event: str
    off_grid: int
    whole: bool
    seconds: float
    note: str = field(default="", compare=False)

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the claim: no event beyond it, no answer off the grid of
        integers.
        """
        return self.bound <= self.claimed * (1 + 1e-9) and not self.off_grid

    @property
    def sees(self) -> bool:
        """Whether the check could be expected to notice noise at half scale."""
        return self.halved > self.claimed


def run(check: Check, runs: int, failure: float, *, make: Make = real, power: bool = True) -> Finding:
    """`runs` runs, half of them on each table; `failure`: most probability of a bound that is too high.
    `make` makes the noise of every run.

    Without `power` nothing is foreseen: a planted bug is there to be found.
    """
    started = time.perf_counter()
    sides = [list(gather(check, world, runs // 2, make)) for world in (0, 1)]
    claimed, delta = (
        max(getattr(seen, what) for seen, _ in sides[0] + sides[1]) for what in ("charged", "delta")
    )
    first, second = features(*([facts for _, facts in side] for side in sides))
    (seek_one, judge_one), (seek_two, judge_two) = first.halves(), second.halves()
    event = search(seek_one, seek_two, check.unit, delta, failure)
    bound = judge(event, judge_one, judge_two, check.unit, delta, failure)
    off = sum("off grid" in facts for side in sides for _, facts in side)
    honest, halved = (
        (foreseen(check, len(judge_one.values), delta, failure, factor) for factor in (1.0, HALVED))
        if power
        else (0.0, 0.0)
    )
    return Finding(
        check.name, check.unit, claimed, delta, bound, honest, halved, runs // 2 * 2, str(event), off,
        check.whole, time.perf_counter() - started, check.note,
    )  # fmt: skip


def gather(check: Check, world: int, runs: int, make: Make) -> Iterator[tuple[Seen, dict[str, float]]]:
    """Runs on one table and what an event can be about: all that was seen, and the log likelihood ratio of
    the draws, table 1 against table 0.

    For the ratio the other table is given the same draws. It is SURE where that one then asks for other
    draws, or shows something else.
    """
    sign, twin = 1 if world == 0 else -1, None
    for _ in range(runs):
        witness = Witness(make(check.composition))
        seen = check.play(world, witness)
        if twin is None or not check.fixed:
            twin = shadow(check, 1 - world, witness.calls, seen.public)
        ratio = log_ratio(witness.calls, twin, check.composition) if twin is not None else -SURE
        yield seen, {**seen.look(), "log ratio": sign * ratio}


def shadow(check: Check, world: int, calls: Sequence[Call], public: Any) -> list[Call] | None:
    """The calls that a table makes when it is given the draws of `calls`; None where it does not fit them, or
    ends in other public facts.
    """
    script = Script(check.composition, calls)
    witness = Witness(script)
    try:
        seen = check.play(world, witness)
        script.end()
    except Mismatch:
        return None
    return witness.calls if seen.public == public else None


def features(*sides: Sequence[dict[str, float]]) -> list[Features]:
    """The facts of all runs as tables with the same columns."""
    names = tuple(dict.fromkeys(name for side in sides for facts in side[:50] for name in facts))
    return [
        Features(
            names, np.array([[facts.get(name, np.nan) for name in names] for facts in side], dtype=np.float64)
        )
        for side in sides
    ]


def foreseen(check: Check, runs: int, delta: float, failure: float, factor: float) -> float:
    """The bound to expect from thresholds of the log ratio, with noise of `factor` times the claimed scale
    and `runs` runs on each table.

    Simulated along the path of one run: where a mechanism adapts, other paths may show a little more or less.
    """
    rng = np.random.default_rng(7)
    witness = Witness(Ideal(check.composition, rng))
    seen, ours = check.play(0, witness), witness.calls
    theirs = shadow(check, 1, ours, seen.public)
    if theirs is None:
        return 0.0
    one = np.sort(simulated(ours, theirs, check.composition, factor, rng, FORESEEN))
    other = np.sort(-simulated(theirs, ours, check.composition, factor, rng, FORESEEN))
    values = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, 200)))
    counts = [runs / FORESEEN * (FORESEEN - np.searchsorted(side, values - 1e-9)) for side in (one, other)]
    forward = bound_of(counts[1], counts[0], (runs, runs), check.unit, delta, failure)
    backward = bound_of(runs - counts[0], runs - counts[1], (runs, runs), check.unit, delta, failure)
    return float(max(forward.max(), backward.max()))


class Ideal:
    """Noise as claimed, near enough to foresee by: drawn by numpy."""

    def __init__(self, composition: Composition, rng: np.random.Generator) -> None:
        self.composition, self._rng = composition, rng

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        noise = (
            self._rng.gumbel(size=len(scores))
            if self.composition is Composition.ZCDP
            else self._rng.exponential(size=len(scores))
        )
        return int(np.argmax(scores + noise * scale))

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        noise = self._rng.normal if self.composition is Composition.ZCDP else self._rng.laplace
        return values + np.rint(noise(scale=scale, size=len(values))).astype(np.int64)

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        noisy = {key: count + round(self._rng.normal(scale=scale)) for key, count in counts.items()}
        return {key: count for key, count in noisy.items() if count >= threshold}


def stage(act: Callable[[int, Session], dict[str, Any]], unit: Unit, budget: Budget) -> Play:
    """A run of one stage under a ledger of its own: `act(world, session)` gives what comes out, by name."""

    def play(world: int, noise: Noise) -> Seen:
        ledger = Accountant(budget)
        found = act(world, Session(ledger, unit, noise))
        return Seen(lambda: facts_of(found), float(ledger.spent), float(ledger.spent_delta))

    return play


def facts_of(found: dict[str, Any]) -> dict[str, float]:
    """Numbers that an event can be about: every cell and its lowest bit, text as a code for it, and what is
    no integer where one was claimed.
    """
    facts: dict[str, float] = {}
    for name, value in found.items():
        if isinstance(value, str):
            facts[name] = float(zlib.crc32(value.encode()))
        elif not isinstance(value, np.ndarray):
            facts[name] = float(value)
        else:
            facts.update(_cells(name, value))
    return facts


def _cells(name: str, values: np.ndarray) -> dict[str, float]:
    """The cells of noisy counts; of floats, too, what lies below the 2^-53 that a sum with a count near 1 can
    hold.
    """
    found = {f"{name}[{i}]": float(value) for i, value in enumerate(values[:WIDEST].tolist())}
    if values.dtype.kind == "i":
        found |= {
            f"low bit of {name}[{i}]": float(value & 1) for i, value in enumerate(values[:WIDEST].tolist())
        }
    else:
        found |= {
            f"bits of {name}[{i}] below 2^-53": float(value * 2.0**53 % 1 > 0)
            for i, value in enumerate(values[:WIDEST].tolist())
        }
        found["off grid"] = 1.0
    return found
