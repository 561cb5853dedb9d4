"""Cuts one by one: a hypothesis of a private graph answers where a private test accepts it; others are
measured.

The online mechanism of Gupta, Roth and Ullman 2012, with the constructions of section 5 and appendix A.2.
Frieze and Kannan's construction stores nothing for each pair, so it works for any number of vertices.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Unpack, get_args

from factored_mwem.errors import InputError, shown
from factored_mwem.ledger.run import Booking
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.spending import Spent
from factored_mwem.privacy.other.edges import AllEdges, PrivateEdges, check_pairs
from factored_mwem.request.promise import BookedTerms, Terms
from factored_mwem.sessions.graph.constructions import CutFriezeKannan, PairWeights
from factored_mwem.sessions.graph.request import GraphRequest
from factored_mwem.sessions.graph.tails import single_bound
from factored_mwem.sessions.online.mechanism import Online, OnlineQuery, Source, Standing, of_construction
from factored_mwem.sessions.online.prices import Prices
from factored_mwem.workload.cuts import Cut

Hypothesis = Literal["frieze-kannan", "multiplicative-weights"]
COUNT_SHARE = Fraction(1, 20)
"""Share of the budget that the number of edges takes."""
FAILS = 1e-6
"""Probability that there are more edges than the hypothesis assumes; its bound does not hold then."""


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """The number of edges of a cut, within `bound` with the session's probability; the `source` of the
    answer; epsilon `spent` and `left`.
    """

    value: float
    bound: float
    source: Source
    spent: float
    left: float


class CutSession(Standing):
    """Answers cuts within a budget. `alpha`: in edges."""

    def __init__(
        self,
        online: Online,
        sealed: PrivateEdges,
        request: GraphRequest,
        believed: CutFriezeKannan | PairWeights,
        spent: Spent,
    ) -> None:
        self.vertices, self.believed = request.vertices, believed
        self._online, self._sealed, self._request, self._spent = online, sealed, request, spent

    def cut(self, first: Iterable[Any] | Cut, second: Iterable[Any] | None = None) -> CutAnswer:
        """Edges between two sets of vertices, or one and the rest. Raises InputError, BudgetExceeded."""
        cut = first if isinstance(first, Cut) else Cut.of(self.vertices, first, second)
        answer = self._online.answer(self._query(cut))
        value = min(max(float(answer.values[0]), 0.0), float(cut.pairs))
        return CutAnswer(value, answer.bound, answer.source, self.spent, self.left)

    def statement(self) -> Statement:
        """The public record of the session: the promise, every charge so far, and its assumptions."""
        return self._spent.statement(self._request.assumptions(self._spent), answers=self.counts)

    def _query(self, cut: Cut) -> OnlineQuery:
        """The cut as a query of the mechanism. The steps of the hypothesis are made for the level of the
        tests.
        """
        level = self._online.prices.level
        return of_construction(self.believed, cut, self._sealed, cut, kind=_kind(cut), level=level)


def _kind(cut: Cut) -> int:
    """Cuts with about the same number of pairs, which the rule treats alike."""
    return round(math.log2(cut.pairs + 1))


@contextlib.contextmanager
def cuts(
    edges: Any,
    vertices: Any,
    policy: Terms | None = None,
    *,
    alpha: float = 0.05,
    beta: float = 0.001,
    hypothesis: Hypothesis = "frieze-kannan",
    columns: Sequence[str] | None = None,
    **choices: Unpack[BookedTerms],
) -> Iterator[CutSession]:
    """A session of cuts of a private graph, each within `alpha` (a share of the edges) of the truth with
    probability 1 - `beta`. Other arguments and errors: as of `release_graph`. With a ledger the whole budget
    is reserved before the first noise; at the end only what was spent stays entered.

    >>> import numpy as np
    >>> from factored_mwem.sessions.graph import cuts
    >>> rng = np.random.default_rng(0)
    >>> with cuts(rng.integers(0, 200, (4000, 2)), 200, epsilon=1.0) as session:
    ...     answer = session.cut(range(100))
    >>> answer.source in ("measured", "model"), abs(answer.value - 2000) < answer.bound + 200
    (True, True)
    """
    options: dict[str, Any] = dict(choices)
    booking = Booking.of(options)
    request = GraphRequest.of(edges, vertices, policy, columns=columns, method="noise", many=True, **options)
    if not (isinstance(alpha, float | int) and 0 < alpha < 1):
        raise InputError(f"alpha={shown(alpha)}: must be a share of the edges between 0 and 1, such as 0.05")
    if hypothesis not in get_args(Hypothesis):
        raise InputError(f"hypothesis={shown(hypothesis)}: must be one of {', '.join(get_args(Hypothesis))}")
    if hypothesis == "multiplicative-weights":
        check_pairs(request.vertices)
    if booking.run_id is not None:
        raise InputError("a session of cuts cannot be resumed; leave out run_id")
    spending = request.spent_on("cuts", alpha=alpha, beta=beta, hypothesis=hypothesis)
    Prices(math.inf, beta, spending.budget.composition)  # checks the numbers before an edge is read
    with spending.opened(booking) as spent:
        sealed, session = request.sealed(), spent.session
        cost = session.accountant.budget.amount * COUNT_SHARE
        counted = session.measure(sealed, AllEdges.COUNT, cost=cost)
        edges = max(1.0, float(counted.noisy[0]))
        try:
            prices = Prices(max(alpha * edges, 2.0), beta, session.composition)
            most = min(edges + single_bound(counted.scale, -math.log(FAILS)), float(request.vertices.pairs))
            kind: type[CutFriezeKannan | PairWeights]
            kind = CutFriezeKannan if hypothesis == "frieze-kannan" else PairWeights
            most = max(most, 1.0)
            believed = kind(len(request.vertices), prices.level, most, start=min(edges, most))
            yield CutSession(Online(session, prices), sealed, request, believed, spent)
        finally:
            spent.drawn()
