"""The checks of select and measure, of marginals, residuals, single questions, graphs and sketches:
worst-case neighbours of a few rows, the real noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from audit.check import Check, stage
from audit.draws import Witness, silent
from factored_mwem import Attribute, Domain, Neighbours, Workload
from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.vertices import Vertices
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import Factor, ProductModel
from factored_mwem.privacy.answers import PrivateAnswers
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.other.edges import AllEdges, PrivateEdges
from factored_mwem.privacy.other.projected import PrivateProjection
from factored_mwem.privacy.residuals import measure_residuals
from factored_mwem.privacy.session import Eligible, Session
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.workload.cuts import Cut, RankOne
from factored_mwem.workload.projection import Listed, Projection
from factored_mwem.workload.queries.base import Questions
from factored_mwem.workload.queries.cuboids import Cuboids
from factored_mwem.workload.queries.parities import Parities
from factored_mwem.workload.queries.ranges import Ranges

Row = tuple[int, int]
Rows = Sequence[Row]
Pair = tuple[Rows, Rows]
PURE, ZCDP = Composition.PURE, Composition.ZCDP
ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ONE, TWO, SWAP, SWAP_TWO = (Unit(relation, k) for relation in (ADD_REMOVE, REPLACE) for k in (1, 2))
BUDGET = {
    PURE: Budget(1.0, 0.0, PURE, Fraction(1), Fraction(0)),
    ZCDP: Budget(1.0, 1e-9, ZCDP, Fraction(1), Fraction(0)),
}
"""All of it is spent in a run: epsilon 1, or rho 1."""
SHAPE = (2, 3)
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


def coded(pair: Sequence[Rows], shape: Sequence[int] = SHAPE) -> list[PrivateRows]:
    """The private tables of these rows."""
    columns = [[np.array([row[i] for row in rows], dtype=np.uint8) for i in range(2)] for rows in pair]
    return [PrivateRows.coded(codes, domain_of(shape)) for codes in columns]


def worst(unit: Unit) -> Pair:
    """Everybody else, and a person whose rows all lie in one cell, who comes; or whose rows go from one
    corner of the domain to the other.
    """
    k = unit.contributions
    gone = [(1, 2)] * (k * (unit.neighbours is REPLACE))
    return (*ELSEWHERE, *gone), (*ELSEWHERE, *[(0, 0)] * k)


def exchanged(unit: Unit, others: Rows = OTHERS) -> Pair:
    """As `worst`, over the same marginals in all units: k rows come to the first cell, or go there from the
    last.
    """
    k = unit.contributions
    return others, (*others[: 4 - k * (unit.neighbours is REPLACE)], *[(0, 0)] * k)


def measuring(
    what: str, worlds: Sequence[Any], target: Any, composition: Composition, unit: Unit, **more: Any
) -> Check:
    """measure of `target`, at all of the budget or at `cost`."""
    cost = more.pop("cost", BUDGET[composition].amount)

    def act(table: Any, session: Session) -> np.ndarray:
        return session.measure(table, target, cost=cost).noisy

    return stage(f"measure {what}", BUDGET[composition], unit, worlds, act, **more)


def measuring_twice(composition: Composition, unit: Unit) -> Check:
    """Two marginals in one ledger, for their draws must be independent: differences of their cells show noise
    that is not.
    """
    cost = BUDGET[composition].amount / 2

    def act(table: PrivateRows, session: Session) -> dict[str, Any]:
        first, second = (session.measure(table, (p,), cost=cost).noisy for p in (0, 1))
        both = {f"noisy[{i}] apart": first[i] - second[i] for i in range(2)}
        return {"first": first, "second": second, **both}

    worlds = coded([((0, 1),) * n for n in (3, 4)])
    return stage("measure two marginals", BUDGET[composition], unit, worlds, act)


def selecting(
    what: str, worlds: Sequence[Any], model: np.ndarray, composition: Composition, unit: Unit, *weights: Any
) -> Check:
    """select between the first two candidates, whose scores move against each other."""
    eligible = Eligible(np.arange(2), np.zeros(2), *weights)

    def act(table: Any, session: Session) -> dict[str, Any]:
        return {"chosen": session.select(table, model, eligible, cost=session.left)}

    return stage(f"select {what}", BUDGET[composition], unit, worlds, act, share=0.5)


def selecting_marginal(composition: Composition, unit: Unit) -> Check:
    """Two marginals whose errors move as far as they can."""
    domain = domain_of(SHAPE)
    candidates = Workload.marginals(1).candidates(domain)
    one, other = against(composition, unit)
    model = ProductModel(domain, [Factor((0,), (2,), one / 4), Factor((1,), (3,), other / 4)], 4.0)
    worlds = [table.count(candidates) for table in coded(exchanged(unit))]
    answers = ModelAnswers(candidates).answers(model, np.arange(2))
    return selecting("marginal", worlds, answers, composition, unit)


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
    weights, cells = np.array([1, 2, 2, 3]), list(itertools.product(*map(range, shape)))
    k, swap, rest = unit.contributions, unit.neighbours is REPLACE, ((0, 0), (1, 1))

    def reads(table: PrivateRows, session: Session) -> np.ndarray:
        return measure_residuals(session, table, shape, 2, weights, cost=session.left).noisy

    def pairs() -> Iterator[list[PrivateRows]]:
        for person, other in itertools.product(cells, cells if swap else [None]):
            gone = [other] * k if other else []
            yield coded(((*rest, *gone), (*rest, *[person] * k)), shape)

    def apart(pair: Sequence[PrivateRows]) -> float:
        one, other = (exactly(lambda s, t=table: reads(t, s), unit, composition) for table in pair)
        return float(np.linalg.norm(one - other, 1 if composition is PURE else 2))

    what = f"measure residuals of {shape[0]} x {shape[1]}"
    return stage(what, BUDGET[composition], unit, max(pairs(), key=apart), reads)


def exactly(read: Callable[[Session], Any], unit: Unit, composition: Composition) -> np.ndarray:
    """What the one call of a reading gives to the noise."""
    witness = Witness(silent(composition))
    read(Session(Accountant(BUDGET[composition]), unit, witness))
    (call,) = witness.calls
    return call.private


def kind_of(what: str, unit: Unit) -> tuple[Questions, Sequence[Any]]:
    """Two questions of a kind, and neighbours between which each answer moves as far as it can."""
    shape, others, replace = SHAPE, OTHERS, unit.neighbours is REPLACE
    kind: Questions
    if what == "parities":
        kind, shape, others = Parities.up_to((0, 1), 2), (2, 2), ((0, 0), (0, 1), (1, 1), (1, 1))
    elif what == "cuboids":
        kind = Cuboids(((0,), (1,)), SHAPE)
    else:
        low, high = ([0, 2] if replace else [0, 0]), ([0, 2] if replace else [0, 1])
        kind = Ranges((1,), (3,), np.array(low)[:, None], np.array(high)[:, None])
    worlds = coded(exchanged(unit, others), shape)
    return kind, [PrivateAnswers.of(table, domain_of(shape), [kind]) for table in worlds]


def asking(what: str, composition: Composition, unit: Unit) -> Check:
    """measure of the first of two questions."""
    return measuring(f"question of {what}", kind_of(what, unit)[1], 0, composition, unit)


def choosing(what: str, composition: Composition, unit: Unit) -> Check:
    """select between two questions, whose scores move against each other."""
    kind, worlds = kind_of(what, unit)
    if what == "cuboids":
        model = np.concatenate(against(composition, unit))
    else:
        truth = [table._contents.answers.astype(np.float64) for table in worlds]
        ahead = np.zeros(len(truth[0]))
        ahead[:2] = -kind.l1(unit) * (composition is PURE), kind.l1(unit)
        model = truth[0] + ahead * np.sign(truth[1] - truth[0])
    return selecting(f"question of {what}", worlds, model, composition, unit, np.ones(2))


EDGES: Rows = ((0, 1), (1, 0), (2, 2))
"""Everybody else's lines: an edge in both orders, and a loop."""
COMING: Rows = ((2, 3), (3, 1))
GOING: Rows = ((0, 2), (3, 0))
SIDES = ([0, 1, 1, 0], [0, 0, 0, 1])
GRAPH = {
    "pairs": AllEdges.PAIRS,
    "count": AllEdges.COUNT,
    "cut": Cut(*(np.array(side, dtype=np.bool_) for side in SIDES)),
    "rank-1 query": RankOne.of(*SIDES),
}
"""What a graph is asked; the cut holds what comes, and nothing of what goes."""


def graph(what: str, composition: Composition, unit: Unit) -> Check:
    """Edge lists, read as a release reads them: a person's lines come, or come in the place of another's."""

    def sealed(lines: Rows) -> PrivateEdges:
        table = pa.table({name: [str(line[i]) for line in lines] for i, name in enumerate(("from", "to"))})
        return PrivateEdges.read(open_table(table), Vertices.of(4), ("from", "to"))

    k = unit.contributions
    gone = GOING[:k] if unit.neighbours is REPLACE else ()
    worlds = [sealed((*EDGES, *gone)), sealed((*EDGES, *COMING[:k]))]
    return measuring(f"{what} of a graph", worlds, GRAPH[what], composition, unit)


def sketch(size: int, composition: Composition, unit: Unit) -> Check:
    """A sketch of `size` rows: a person's keys come, or change from one column of signs to its opposite,
    which moves every row by two.
    """
    projections = (Projection.of(size, 1, 4, 2, np.random.default_rng(n).bytes(64)) for n in range(10_000))
    hashed, signs = next(
        (projection, one)
        for projection in projections
        for one, other in [projection.signs(np.arange(2, dtype=np.uint64)).astype(np.int64)]
        if (one == -other).all()
    )
    k = unit.contributions
    worlds = [
        PrivateProjection.of(
            open_source(pa.table({"k": [*"bccd", *person]})), "k", Listed(tuple("abcd")), hashed
        )
        for person in (["b"] * (k * (unit.neighbours is REPLACE)), ["a"] * k)
    ]

    def act(table: PrivateProjection, session: Session) -> dict[str, Any]:
        noisy = session.measure(table, (), cost=session.left).noisy
        return {"noisy": noisy, "answer": int(signs @ noisy)}

    return stage(f"measure sketch of {size} rows", BUDGET[composition], unit, worlds, act)


MARGINALS = (
    ("rows", (), PURE, ONE),
    ("marginal", (0, 1), PURE, ONE),
    ("marginal", (0, 1), PURE, SWAP),
    ("marginal", (1,), PURE, SWAP_TWO),
    ("rows", (), ZCDP, TWO),
    ("marginal", (0, 1), ZCDP, ONE),
    ("marginal", (0,), ZCDP, SWAP_TWO),
)
GRAPHS = (
    *[("pairs", composition, unit) for composition, unit in ((PURE, ONE), (PURE, SWAP_TWO), (ZCDP, TWO))],
    *[("pairs", ZCDP, SWAP), ("count", PURE, TWO), ("cut", PURE, SWAP_TWO), ("cut", ZCDP, TWO)],
    ("rank-1 query", PURE, ONE),
)


def stage_checks() -> list[Check]:
    """One for each mechanism, relation and number of contributions that differ in what the ledger must
    know.
    """
    return [
        *(measuring(what, coded(worst(unit)), at, by, unit) for what, at, by, unit in MARGINALS),
        measuring_twice(PURE, ONE),
        measuring("rows on a scale of 2^57", coded(worst(ONE)), (), PURE, ONE, cost=TINY_COST),
        *itertools.starmap(selecting_marginal, ((PURE, ONE), (PURE, SWAP_TWO), (ZCDP, TWO), (ZCDP, SWAP))),
        *(residuals((2, 2), composition, unit) for composition, unit in ((PURE, ONE), (ZCDP, TWO))),
        *(residuals((2, 3), composition, unit) for composition, unit in ((PURE, SWAP_TWO), (ZCDP, SWAP))),
        *(asking(what, PURE, SWAP) for what in ("ranges", "cuboids", "parities")),
        *(asking(what, ZCDP, TWO) for what in ("ranges", "parities")),
        *(choosing(what, PURE, ONE) for what in ("ranges", "parities")),
        *(choosing(what, PURE, SWAP) for what in ("ranges", "cuboids")),
        choosing("parities", ZCDP, SWAP_TWO),
        *itertools.starmap(graph, GRAPHS),
        *itertools.starmap(sketch, ((1, PURE, ONE), (1, PURE, SWAP), (4, ZCDP, TWO), (4, ZCDP, SWAP))),
    ]
