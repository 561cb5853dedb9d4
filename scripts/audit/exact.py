"""Exact audits where the domain is tiny: the probability of every output on every pair of neighbouring tables
of at most two other rows.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from audit.check import HALVED, UNIT, Finding, name_of
from audit.draws import Call, Witness, log_choices, silent
from audit.stages import BUDGET, ONE, PURE, SWAP, TWO, ZCDP, Row, coded, domain_of
from factored_mwem import Neighbours, Workload
from factored_mwem.accounting.accountant import Accountant
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import ProductModel
from factored_mwem.privacy.counts import PrivateCounts
from factored_mwem.privacy.session import Eligible, Session

SHAPE = (2, 2)
CELLS = list(itertools.product(*map(range, SHAPE)))
CANDIDATES = Workload.marginals(2).candidates(domain_of(SHAPE))
ALPHAS = (1.01, 1.5, 2.0, 4.0, 16.0, 64.0)
Table = tuple[Row, ...]
Act = Callable[[PrivateCounts, Session], object]


def tables(rows: int) -> list[Table]:
    return [t for n in range(rows + 1) for t in itertools.combinations_with_replacement(CELLS, n)]


def pairs(unit: Unit) -> Iterator[tuple[Table, Table]]:
    """All neighbours: others of at most two rows, and a person who comes, or takes another's place."""
    people = tables(unit.contributions)[1:]
    leaving = people if unit.neighbours is Neighbours.REPLACE else [()]
    for rest, one, other in itertools.product(tables(2), leaving, people):
        yield tuple(sorted(rest + one)), tuple(sorted(rest + other))


def measuring(counts: PrivateCounts, session: Session) -> object:
    return session.measure(counts, (0, 1), cost=session.left)


def selecting(counts: PrivateCounts, session: Session) -> object:
    every = np.arange(len(CANDIDATES))
    answers = ModelAnswers(CANDIDATES).answers(ProductModel.uniform(domain_of(SHAPE), 2.5), every)
    return session.select(counts, answers, Eligible(every, np.array([0.3, 1.2, 2.1])), cost=session.left)


def enumerate_pairs(what: str, act: Act, composition: Composition, unit: Unit) -> Finding:
    """The greatest loss over all pairs, exactly as the noise that the sampler is told to draw makes it; and
    with half that noise.
    """
    started, calls, charged, neighbours = time.perf_counter(), {}, set(), list(pairs(unit))
    every = {table for pair in neighbours for table in pair}
    for table, private in zip(every, coded(every, SHAPE), strict=True):
        ledger, witness = Accountant(BUDGET[composition]), Witness(silent(composition))
        act(private.count(CANDIDATES), Session(ledger, unit, witness))
        (calls[table],) = witness.calls
        charged.add(float(ledger.spent))
    full, halved = (
        float(max(loss(calls[one], calls[other], composition, factor) for one, other in neighbours))
        for factor in (1.0, HALVED)
    )
    (claimed,) = charged
    return Finding(
        name_of(f"exact {what}", composition, unit), UNIT[composition], claimed, 0.0, full, full, halved, 0,
        f"worst of {len(neighbours)} pairs", 0, False, time.perf_counter() - started,
    )  # fmt: skip


def loss(one: Call, other: Call, composition: Composition, factor: float) -> float:
    """epsilon, or rho at its worst order, of the outputs that two calls make likely."""
    if one.method == "select":
        scaled = [Call("select", call.private, call.scale * factor) for call in (one, other)]
        return divergence(*(log_choices(call, composition) for call in scaled), composition)
    moves = np.unique(np.abs(one.private - other.private), return_counts=True)
    return sum(
        times * divergence(*shifted(one.scale * factor, int(move), composition), composition)
        for move, times in zip(*moves, strict=True)
    )


def shifted(scale: float, move: int, composition: Composition) -> tuple[np.ndarray, np.ndarray]:
    """log probabilities of the noisy values of two counts that are `move` apart, so far out that the rest
    does not count.
    """
    x = np.arange(-round(12 * scale) - 60 - move, round(12 * scale) + 61 + move, dtype=np.float64)
    one, other = (
        -((x - at) ** 2) / (2 * scale**2) if composition is ZCDP else -np.abs(x - at) / scale
        for at in (0, move)
    )
    return one - np.logaddexp.reduce(one), other - np.logaddexp.reduce(other)


def divergence(log_p: np.ndarray, log_q: np.ndarray, composition: Composition) -> float:
    """The greatest log ratio; or the greatest Renyi divergence over its order, over ALPHAS."""
    if composition is PURE:
        return float(np.abs(log_p - log_q).max())
    return max(float(np.logaddexp.reduce(a * log_p + (1 - a) * log_q)) / (a - 1) / a for a in ALPHAS)


def exact_checks() -> dict[str, Callable[[], Finding]]:
    """select and measure under both relations."""
    return {
        name_of(f"exact {what}", composition, unit): partial(enumerate_pairs, what, act, composition, unit)
        for composition, unit in ((PURE, TWO), (ZCDP, ONE), (PURE, SWAP), (ZCDP, SWAP))
        for what, act in (("measure", measuring), ("select", selecting))
    }
