"""The checks of select and measure, of marginals, residuals and single questions: worst-case neighbours of a
few rows, the real noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from audit.check import Check, stage
from audit.draws import Witness
from factored_mwem import Attribute, Domain, Neighbours, Workload
from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import Factor, ProductModel
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.residuals import measure_residuals
from factored_mwem.privacy.session import Eligible, Session
from factored_mwem.workload.queries.base import Questions
from factored_mwem.workload.queries.cuboids import Cuboids
from factored_mwem.workload.queries.parities import Parities
from factored_mwem.workload.queries.ranges import Ranges

Row = tuple[int, int]
Rows = Sequence[Row]
Pair = tuple[Rows, Rows]
PURE, ZCDP = Composition.PURE, Composition.ZCDP
ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
BUDGET = {
    PURE: Budget(1.0, 0.0, PURE, Fraction(1), Fraction(0)),
    ZCDP: Budget(1.0, 1e-9, ZCDP, Fraction(1), Fraction(0)),
}
"""All of it is spent in a run: epsilon 1, or rho 1."""
UNIT = {PURE: "epsilon", ZCDP: "rho"}
OTHERS: Rows = ((0, 0), (0, 1), (1, 2), (1, 2))
"""Everybody else's rows, over 2 x 3 codes."""
ELSEWHERE: Rows = ((0, 1), (0, 2), (1, 0), (1, 1))
"""The same, with no row in the first or the last cell."""
TINY_COST = Fraction(1, 2**57)
"""A cost so small that floating-point noise has no bits as low as a count's."""


def domain_of(shape: Sequence[int]) -> Domain:
    return Domain(
        Attribute(name=n, categories=tuple("xyz"[:s]), constraints={"required": True})
        for n, s in zip("ab", shape, strict=True)
    )


def codes_of(rows: Rows) -> list[np.ndarray]:
    return [np.array([row[i] for row in rows], dtype=np.uint8) for i in range(2)]


def worst(unit: Unit) -> Pair:
    """Everybody else, and a person whose rows all lie in one cell, who comes; or whose rows go from one
    corner of the domain to the other.
    """
    k = unit.contributions
    if unit.neighbours is ADD_REMOVE:
        return ELSEWHERE, (*ELSEWHERE, *[(0, 0)] * k)
    return (*ELSEWHERE, *[(1, 2)] * k), (*ELSEWHERE, *[(0, 0)] * k)


def name_of(what: str, composition: Composition, unit: Unit) -> str:
    return f"{what}: {composition.value}, {unit.neighbours.value}, k={unit.contributions}"


def make(
    what: str,
    composition: Composition,
    unit: Unit,
    act: Callable[[int, Session], dict[str, Any]],
    **more: Any,
) -> Check:
    play = stage(act, unit, BUDGET[composition])
    return Check(name_of(what, composition, unit), composition, UNIT[composition], play, **more)


def measuring(
    what: str,
    positions: tuple[int, ...],
    composition: Composition,
    unit: Unit,
    *,
    cost: Fraction | None = None,
) -> Check:
    """measure of one marginal."""
    tables = [PrivateRows.coded(codes_of(rows), domain_of((2, 3))) for rows in worst(unit)]
    spent = cost or BUDGET[composition].amount

    def act(world: int, session: Session) -> dict[str, Any]:
        return {"noisy": session.measure(tables[world], positions, cost=spent).noisy}

    return make(f"measure {what}", composition, unit, act)


def measuring_twice(composition: Composition, unit: Unit) -> Check:
    """Two marginals in one ledger, for their draws must be independent: differences of their cells show noise
    that is not.
    """
    tables = [
        PrivateRows.coded(codes_of(rows), domain_of((2, 3))) for rows in ((((0, 1),) * 3), ((0, 1),) * 4)
    ]
    cost = BUDGET[composition].amount / 2

    def act(world: int, session: Session) -> dict[str, Any]:
        first, second = (session.measure(tables[world], (p,), cost=cost).noisy for p in (0, 1))
        both = {f"noisy[{i}] apart": first[i] - second[i] for i in range(2)}
        return {"first": first, "second": second, **both}

    return make("measure two marginals", composition, unit, act)


def selecting(composition: Composition, unit: Unit) -> Check:
    """select between two marginals whose scores move against each other, as far as they can."""
    candidates = Workload.marginals(1).candidates(domain_of((2, 3)))
    tables = [
        PrivateRows.coded(codes_of(rows), candidates.domain).count(candidates) for rows in exchanged(unit)
    ]
    one, other = against(composition, unit)
    answers = ModelAnswers(candidates).answers(
        ProductModel(domain_of((2, 3)), [Factor((0,), (2,), one / 4), Factor((1,), (3,), other / 4)], 4.0),
        np.arange(2),
    )

    def act(world: int, session: Session) -> dict[str, Any]:
        chosen = session.select(
            tables[world], answers, Eligible(np.arange(2), np.zeros(2)), cost=session.accountant.budget.amount
        )
        return {"chosen": chosen}

    return make("select marginal", composition, unit, act, share=0.5)


def exchanged(unit: Unit) -> Pair:
    """As `worst`, over the same marginals in all units: k rows come to the first cell, or go there from the
    last.
    """
    k = unit.contributions
    return OTHERS, (*OTHERS[: 4 - k * (unit.neighbours is REPLACE)], *[(0, 0)] * k)


def against(composition: Composition, unit: Unit) -> tuple[np.ndarray, np.ndarray]:
    """Two marginals of a model, in rows: between the tables of `exchanged` the error of the first rises, that
    of the second falls.

    Permute-and-flip tells most from a tie on, the exponential mechanism where the gap changes its sign.
    """
    k = unit.contributions
    ahead = k if composition is PURE else 0.0 if unit.neighbours is REPLACE else k / 2
    return np.array([2 - ahead, 2 + ahead]), np.array([1.0 + k, 1.0, 2.0 - k])


def residuals(shape: tuple[int, int], composition: Composition, unit: Unit) -> Check:
    """measure_residuals of all subsets, unevenly weighted, on those neighbours whose answers are farthest
    apart.
    """
    weights, cells = np.array([1, 2, 2, 3]), list(itertools.product(range(shape[0]), range(shape[1])))
    cost, k = BUDGET[composition].amount, unit.contributions

    def reads(table: PrivateRows, session: Session) -> np.ndarray:
        return measure_residuals(session, table, shape, 2, weights, cost=cost).noisy

    def pairs() -> Iterator[Pair]:
        rest = ((0, 0), (1, 1))
        for person in cells:
            for other in cells if unit.neighbours is REPLACE else [None]:
                yield (*rest, *([other] * k if other else [])), (*rest, *[person] * k)

    def apart(pair: Pair) -> float:
        one, other = (
            exact(
                lambda session, rows=rows: reads(
                    PrivateRows.coded(codes_of(rows), domain_of(shape)), session
                ),
                unit,
                composition,
            )
            for rows in pair
        )
        return float(np.linalg.norm(one - other, 1 if composition is PURE else 2))

    tables = [PrivateRows.coded(codes_of(rows), domain_of(shape)) for rows in max(pairs(), key=apart)]
    return make(
        f"measure residuals of {shape[0]} x {shape[1]}",
        composition,
        unit,
        lambda world, session: {"noisy": reads(tables[world], session)},
    )


class Silent:
    """Noise that adds none: what it is given comes out."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition

    def select(self, scores: np.ndarray, *, scale: float) -> int:
        return int(np.argmax(scores))

    def add(self, values: np.ndarray, *, scale: float) -> np.ndarray:
        return np.array(values)

    def threshold(self, counts: dict[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        return {key: count for key, count in counts.items() if count >= threshold}


def exact(read: Callable[[Session], Any], unit: Unit, composition: Composition) -> np.ndarray:
    """What the one call of a reading gives to the noise."""
    witness = Witness(Silent(composition))
    read(Session(Accountant(BUDGET[composition]), unit, witness))
    (call,) = witness.calls
    found: np.ndarray = call.private
    return found


def kind_of(what: str, unit: Unit) -> tuple[Questions, tuple[int, int], Pair]:
    """Two questions of a kind, a domain, and neighbours between which each answer moves as far as it can."""
    k, replace = unit.contributions, unit.neighbours is REPLACE
    if what == "parities":
        rest = ((0, 0), (0, 1), (1, 1), (1, 1))
        return Parities.up_to((0, 1), 2), (2, 2), (rest, (*rest[: 4 - k * replace], *[(0, 0)] * k))
    if what == "cuboids":
        return Cuboids(((0,), (1,)), (2, 3)), (2, 3), exchanged(unit)
    low, high = ([0], [2]) if replace else ([0], [0]), ([0], [2]) if replace else ([0], [1])
    return Ranges((1,), (3,), np.array(low), np.array(high)), (2, 3), exchanged(unit)


def asking(what: str, composition: Composition, unit: Unit, *, question: int = 0) -> Check:
    """measure of the first of two questions."""
    kind, shape, pair = kind_of(what, unit)
    tables = [
        PrivateRows.coded(codes_of(rows), domain_of(shape)).answer(domain_of(shape), [kind]) for rows in pair
    ]

    def act(world: int, session: Session) -> dict[str, Any]:
        return {
            "noisy": session.measure(tables[world], question, cost=session.accountant.budget.amount).noisy
        }

    return make(f"measure question of {what}", composition, unit, act)


def choosing(what: str, composition: Composition, unit: Unit) -> Check:
    """select between two questions, whose scores move against each other."""
    kind, shape, pair = kind_of(what, unit)
    tables = [
        PrivateRows.coded(codes_of(rows), domain_of(shape)).answer(domain_of(shape), [kind]) for rows in pair
    ]
    if what == "cuboids":
        model = np.concatenate(against(composition, unit))
    else:
        truth = [table_answers(kind, shape, rows) for rows in pair]
        moves, far = truth[1] - truth[0], kind.l1(unit)
        ahead = np.zeros(len(moves))
        ahead[:2] = -far * (composition is PURE), far
        model = truth[0] + ahead * np.sign(moves)

    def act(world: int, session: Session) -> dict[str, Any]:
        cost = session.accountant.budget.amount
        eligible = Eligible(np.arange(2), np.zeros(2), np.ones(2))
        return {"chosen": session.select(tables[world], model, eligible, cost=cost)}

    return make(f"select question of {what}", composition, unit, act, share=0.5)


def table_answers(kind: Questions, shape: tuple[int, int], rows: Rows) -> np.ndarray:
    return kind.answers(Counted(shape, rows)).astype(np.float64)


class Counted:
    """Rows that may be counted freely, for what the audit makes up itself."""

    def __init__(self, shape: tuple[int, int], rows: Rows) -> None:
        self._shape, self._codes = shape, codes_of(rows)

    def column(self, variable: int) -> np.ndarray:
        return self._codes[variable]

    def marginal(self, positions: Sequence[int]) -> np.ndarray:
        cells = np.ravel_multi_index([self._codes[p] for p in positions], [self._shape[p] for p in positions])
        return np.bincount(cells, minlength=int(np.prod([self._shape[p] for p in positions])))


def stage_checks() -> list[Check]:
    """One for each mechanism, relation and number of contributions that differ in what the ledger must
    know.
    """
    one, two = (Unit(ADD_REMOVE, k) for k in (1, 2))
    swap, swap_two = (Unit(REPLACE, k) for k in (1, 2))
    return [
        measuring("rows", (), PURE, one),
        measuring("marginal", (0, 1), PURE, one),
        measuring("marginal", (0, 1), PURE, swap),
        measuring("marginal", (1,), PURE, swap_two),
        measuring("rows", (), ZCDP, two),
        measuring("marginal", (0, 1), ZCDP, one),
        measuring("marginal", (0,), ZCDP, swap_two),
        measuring_twice(PURE, one),
        measuring("rows on a scale of 2^57", (), PURE, one, cost=TINY_COST),
        *(
            selecting(composition, unit)
            for composition, unit in ((PURE, one), (PURE, swap_two), (ZCDP, two), (ZCDP, swap))
        ),
        residuals((2, 2), PURE, one),
        residuals((2, 3), PURE, swap_two),
        residuals((2, 2), ZCDP, two),
        residuals((2, 3), ZCDP, swap),
        *(asking(what, PURE, swap) for what in ("ranges", "cuboids", "parities")),
        *(asking(what, ZCDP, two) for what in ("ranges", "parities")),
        *(choosing(what, PURE, one) for what in ("ranges", "parities")),
        *(choosing(what, PURE, swap) for what in ("ranges", "cuboids")),
        choosing("parities", ZCDP, swap_two),
    ]
