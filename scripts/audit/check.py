"""A check: many runs of a part of the mechanism on two neighbouring tables, and the most that any event tells
about which of them it was.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from audit.draws import SURE, Call, Mismatch, Script, Witness, ideal, log_ratio, simulated
from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.owner.attack.bounds import bound_of, judge, search
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
UNIT = {Composition.PURE: "epsilon", Composition.ZCDP: "rho"}


@dataclass(slots=True)
class Seen:
    """What a run gave away: `look` makes numbers of it; what the ledger says it cost; `public`, which the
    table decides through the draws alone.
    """

    look: Callable[[], dict[str, float]]
    charged: float
    delta: float = 0.0
    public: Any = None


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
    play: Callable[[int, Noise], Seen]
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
        """Whether nothing speaks against the claim: no event beyond it, all answers integers."""
        return self.bound <= self.claimed * (1 + 1e-9) and not self.off_grid

    @property
    def sees(self) -> bool:
        """Whether the check could be expected to notice noise at half scale."""
        return self.halved > self.claimed


def name_of(what: str, composition: Composition, unit: Unit) -> str:
    return f"{what}: {composition.value}, {unit.neighbours.value}, k={unit.contributions}"


def stage(
    what: str,
    budget: Budget,
    unit: Unit,
    worlds: Sequence[Any],
    act: Callable[[Any, Session], Any],
    **more: Any,
) -> Check:
    """A check of one stage, each run under a ledger of its own: `act(table, session)` gives what comes out,
    by name or as the only array.
    """

    def play(world: int, noise: Noise) -> Seen:
        ledger = Accountant(budget)
        answer = act(worlds[world], Session(ledger, unit, noise))
        facts = answer if isinstance(answer, dict) else {"noisy": answer}
        return Seen(lambda: facts_of(facts), float(ledger.spent), float(ledger.spent_delta))

    composition = budget.composition
    return Check(name_of(what, composition, unit), composition, UNIT[composition], play, **more)


def run(check: Check, runs: int, failure: float, *, power: bool = True) -> Finding:
    """`runs` runs, half of them on each table; `failure`: most probability of a bound that is too high.

    Without `power` nothing is foreseen: a planted bug is there to be found.
    """
    started = time.perf_counter()
    sides = [list(gather(check, world, runs // 2)) for world in (0, 1)]
    claimed, delta = (
        max(getattr(seen, what) for side in sides for seen, _ in side) for what in ("charged", "delta")
    )
    facts = pd.DataFrame([facts for side in sides for _, facts in side], dtype=float)
    quarters = [facts[at : at + runs // 4] for at in range(0, len(facts), runs // 4)]
    event = search(quarters[0], quarters[2], check.unit, delta, failure)
    bound = judge(event, quarters[1], quarters[3], check.unit, delta, failure)
    off = sum("off grid" in facts for side in sides for _, facts in side)
    expected = dict.fromkeys((1.0, HALVED), 0.0)
    if power:
        expected = {f: foreseen(check, len(quarters[1]), delta, failure, f) for f in expected}
    return Finding(
        check.name, check.unit, claimed, delta, bound, *expected.values(), runs // 2 * 2, str(event), off,
        check.whole, time.perf_counter() - started, check.note,
    )  # fmt: skip


def gather(check: Check, world: int, runs: int) -> Iterator[tuple[Seen, dict[str, float]]]:
    """Runs on one table and what an event can be about: all that was seen, and the log likelihood ratio of
    the draws, table 1 against table 0.

    For the ratio the other table is given the same draws. It is SURE where that one then asks for other
    draws, or shows something else.
    """
    sign, twin = 1 if world == 0 else -1, None
    for _ in range(runs):
        witness = Witness(OpenDPNoise(check.composition))
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


def foreseen(check: Check, runs: int, delta: float, failure: float, factor: float) -> float:
    """The bound to expect from thresholds of the log ratio, with noise of `factor` times the claimed scale
    and `runs` runs on each table.

    Simulated along the path of one run: where a mechanism adapts, other paths may show a little more or less.
    """
    rng = np.random.default_rng(7)
    witness = Witness(ideal(check.composition, rng))
    seen, ours = check.play(0, witness), witness.calls
    theirs = shadow(check, 1, ours, seen.public)
    if theirs is None:
        return 0.0
    one = np.sort(simulated(ours, theirs, check.composition, factor, rng, FORESEEN))
    other = np.sort(-simulated(theirs, ours, check.composition, factor, rng, FORESEEN))
    values = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, 200)))
    counts = [runs / FORESEEN * (FORESEEN - np.searchsorted(side, values - 1e-9)) for side in (one, other)]
    forward = bound_of((counts[1], runs), (counts[0], runs), check.unit, delta, failure)
    backward = bound_of((runs - counts[0], runs), (runs - counts[1], runs), check.unit, delta, failure)
    return float(max(forward.max(), backward.max()))


def facts_of(answers: dict[str, Any]) -> dict[str, float]:
    """Numbers that an event can be about: every cell and its lowest bit, text as a code for it, and what is
    no integer where one was claimed.
    """
    facts: dict[str, float] = {}
    for name, value in answers.items():
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
    facts, whole = dict[str, float](), values.dtype.kind == "i"
    for i, value in enumerate(values[:WIDEST].tolist()):
        facts[f"{name}[{i}]"] = float(value)
        if whole:
            facts[f"low bit of {name}[{i}]"] = float(value & 1)
        else:
            facts[f"bits of {name}[{i}] below 2^-53"] = float(value * 2.0**53 % 1 > 0)
    return facts if whole else {**facts, "off grid": 1.0}
