"""Cuts one by one: a hypothesis of a private graph answers where a private test finds it near enough; else
the cut is measured, and the hypothesis learns it.

The online mechanism of Gupta, Roth and Ullman 2012 with the constructions of their section 5 and appendix
A.2. Nothing is written down for every pair by Frieze and Kannan's, so the number of vertices is not limited
there.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

from factored_mwem.domain.vertices import Vertices
from factored_mwem.errors import InputError, shown
from factored_mwem.graphs.frieze_kannan import FriezeKannan
from factored_mwem.graphs.pair_weights import PairWeights
from factored_mwem.graphs.request import GraphRequest
from factored_mwem.graphs.tails import single_bound
from factored_mwem.interactive.mechanism import Online, Source, Subject, of_construction
from factored_mwem.interactive.prices import Prices
from factored_mwem.ledger.run import Booking
from factored_mwem.pipeline.task import opened
from factored_mwem.policy import Choices, Policy
from factored_mwem.privacy.edges import Asked, PrivateEdges, check_pairs
from factored_mwem.privacy.noise import Noise
from factored_mwem.workload.cuts import Cut

Hypothesis = Literal["frieze-kannan", "multiplicative-weights"]
COUNT_SHARE = Fraction(1, 20)
"""Of the budget, for the number of edges."""
FAILS = 1e-6
"""Probability that the number of edges is above what the hypothesis is told; its bound is void then."""


@dataclass(frozen=True, slots=True)
class ToldCut:
    """How many edges a cut holds: within `bound` of `value` with the probability that was asked for; where it
    is from; epsilon `spent` so far, and `left`.
    """

    value: float
    bound: float
    source: Source
    spent: float
    left: float


class CutSession:
    """Answers cuts within a budget. `alpha`: in edges."""

    def __init__(
        self, online: Online, sealed: PrivateEdges, vertices: Vertices, believed: FriezeKannan | PairWeights
    ) -> None:
        self.vertices, self.believed = vertices, believed
        self._online, self._sealed = online, sealed

    def cut(self, first: Iterable[Any] | Cut, second: Iterable[Any] | None = None) -> ToldCut:
        """The number of edges between two sets of vertices, or between one and the rest. InputError where a
        vertex is none; BudgetExceeded where what is left is not enough.
        """
        cut = first if isinstance(first, Cut) else Cut.of(self.vertices, first, second)
        told = self._online.answer(self._subject(cut))
        value = min(max(float(told.values[0]), 0.0), float(cut.pairs))
        return ToldCut(value, told.bound, told.source, self.spent, self.left)

    @property
    def alpha(self) -> float:
        """What answers are right to, in edges."""
        return self._online.prices.alpha

    @property
    def counts(self) -> dict[str, int]:
        """Answers so far, by where they are from."""
        return dict(self._online.counts)

    @property
    def spent(self) -> float:
        """Epsilon, of what was charged so far."""
        return self._online.session.accountant.guarantee()[0]

    @property
    def left(self) -> float:
        """The share of the budget that is left."""
        accountant = self._online.session.accountant
        return float(accountant.left / accountant.budget.amount)

    def _subject(self, cut: Cut) -> Subject:
        """The cut as the mechanism takes it; the hypothesis' steps are made for the level of its tests."""
        level = self._online.prices.level
        return of_construction(self.believed, cut, self._sealed, cut, kind=_kind(cut), level=level)


def _kind(cut: Cut) -> int:
    """Cuts alike, for the rule: of about as many pairs."""
    return round(math.log2(cut.pairs + 1))


@contextlib.contextmanager
def cuts(
    edges: Any,
    vertices: Any,
    policy: Policy | None = None,
    *,
    alpha: float = 0.05,
    beta: float = 0.001,
    hypothesis: Hypothesis = "frieze-kannan",
    columns: Sequence[str] | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    run_id: str | None = None,
    **choices: Unpack[Choices],
) -> Iterator[CutSession]:
    """A session of cuts of a private graph, each within `alpha` (a share of the edges) of the truth with
    probability 1 - `beta`. Other arguments and errors: as of `release_graph`. With a ledger the whole budget
    is reserved before the first noise, and what was spent takes its place at the end.

    >>> import numpy as np
    >>> from factored_mwem.graphs import cuts
    >>> rng = np.random.default_rng(0)
    >>> with cuts(rng.integers(0, 200, (4000, 2)), 200, epsilon=1.0) as session:
    ...     told = session.cut(range(100))
    >>> told.source in ("measured", "model"), abs(told.value - 2000) < told.bound + 200
    (True, True)
    """
    request = GraphRequest.of(edges, vertices, policy, columns=columns, method="noise", many=True, **choices)
    with asked(request, alpha, beta, hypothesis, Booking(ledger, dataset, run_id)) as session:
        yield session


@contextlib.contextmanager
def asked(
    request: GraphRequest,
    alpha: float,
    beta: float,
    hypothesis: Hypothesis,
    booking: Booking,
    *,
    noise: Noise | None = None,
) -> Iterator[CutSession]:
    """As `cuts`; `noise`: OpenDP's by default, tests give a fake."""
    if not (isinstance(alpha, float | int) and 0 < alpha < 1):
        raise InputError(f"alpha={shown(alpha)}: must be a share of the edges between 0 and 1, such as 0.05")
    if hypothesis not in get_args(Hypothesis):
        raise InputError(f"hypothesis={shown(hypothesis)}: must be one of {', '.join(get_args(Hypothesis))}")
    if hypothesis == "multiplicative-weights":
        check_pairs(request.vertices)
    if booking.run_id is not None:
        raise InputError("a session of cuts cannot be taken up again; leave out run_id")
    task = request.task_of("cuts", alpha=alpha, beta=beta, hypothesis=hypothesis)
    Prices(math.inf, beta, task.budget.composition)  # what can be refused is, before an edge is read
    with opened(task, booking, noise=noise) as at:
        sealed, session = request.sealed(), at.session
        cost = session.accountant.budget.amount * COUNT_SHARE
        found = session.measure(sealed, Asked.COUNT, cost=cost)
        edges = max(1.0, float(found.noisy[0]))
        try:
            prices = Prices(max(alpha * edges, 2.0), beta, session.composition)
            most = min(edges + single_bound(found.scale, -math.log(FAILS)), float(request.vertices.pairs))
            kind: type[FriezeKannan | PairWeights]
            kind = FriezeKannan if hypothesis == "frieze-kannan" else PairWeights
            most = max(most, 1.0)
            believed = kind(len(request.vertices), prices.level, most, start=min(edges, most))
            yield CutSession(Online(session, prices), sealed, request.vertices, believed)
        finally:
            at.drawn()
        at.run.finish()
