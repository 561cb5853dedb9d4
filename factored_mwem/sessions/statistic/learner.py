"""A private learner of finite classes: the exponential mechanism over the rows a hypothesis is right about.

Source: Kasiviswanathan, Lee, Nissim, Raskhodnikova, Smith 2008. A hypothesis has probability in proportion
to e^{epsilon score} for neighbours by add-remove, e^{epsilon score / 2} for replace: with the first, two
databases with a row exchanged would differ by 2 epsilon. Where delta is 0, permute-and-flip stands for it,
which is never worse (McKenna, Sheldon 2020).
"""

from __future__ import annotations

import bisect
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from factored_mwem.accounting.unit import Neighbours
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.ledger.run import Booking
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.spending import Spending
from factored_mwem.privacy.other.hypotheses import PrivateScores
from factored_mwem.privacy.session import Eligible
from factored_mwem.request.promise import BookedTerms, Terms
from factored_mwem.request.table import PrivateTable

Hypothesis = Callable[[tuple[int, ...]], int]
"""A prediction: from the codes of the features, in the domain's order, to a code of the label."""
MOST_CELLS = 2**27
"""Cells of all hypotheses together."""


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """The number of the chosen hypothesis, and the statement of the promise; all of it may be published."""

    chosen: int
    statement: Statement


def learn_hypothesis(
    table: Any,
    domain: Domain | dict[str, Any] | str | Path,
    label: str,
    hypotheses: Sequence[Hypothesis] | np.ndarray,
    **choices: Unpack[BookedTerms],
) -> Learnt:
    """One of `hypotheses` that is right about nearly as many rows as any.

    `domain` declares the features and the label, all of which are public; a hypothesis is a function of the
    features' codes, asked about every cell that there may be and never about a row, or a row of an array
    `int[hypothesis, cell]`, cells row-major. `choices`: as of `release`. Raises InputError, ResourceError.

    >>> import pyarrow as pa
    >>> from factored_mwem.sessions.statistic import learn_hypothesis
    >>> loans = pa.table({"score": [i % 10 for i in range(2000)], "good": [i % 10 >= 4 for i in range(2000)]})
    >>> declared = {"fields": [{"name": "good", "type": "boolean", "constraints": {"required": True}},
    ...     {"name": "score", "type": "integer",
    ...      "constraints": {"minimum": 0, "maximum": 9, "required": True}}]}
    >>> rules = [lambda codes, t=t: int(codes[0] >= t) for t in range(11)]
    >>> learn_hypothesis(loans, declared, "good", rules, epsilon=1.0).chosen
    4
    """
    options: dict[str, Any] = dict(choices)
    booking, terms = Booking.of(options), Terms.given(None, options)
    request = PrivateTable.open(table, terms, domain=domain)
    declared = request.declared
    if declared is None or label not in declared or len(declared) < 2:
        raise InputError(f"the domain must declare the label {label!r} and a feature or more")
    for name in declared.names:
        request.private.check_column(name)
    ordered = declared.rearranged([*(name for name in declared.names if name != label), label])
    answers = predictions(hypotheses, ordered.shape)
    settings = {"label": label, "domain": ordered.to_dict(), "hypotheses": digest(answers)}
    with Spending("hypothesis", terms, settings, request.fingerprint).opened(booking) as spent:
        session = spent.session.encode(ordered, request.bounded())  # ---- private from here ...
        sealed = PrivateScores.of(session.rows, answers, session.unit)
        everyone = Eligible(np.arange(len(answers)), np.zeros(len(answers)))
        chosen = session.select(sealed, None, everyone, cost=session.left)  # ---- ... to here
        spent.drawn()
        return Learnt(chosen, spent.statement(spent.rests_on(request), chosen=chosen))


def predictions(hypotheses: Sequence[Hypothesis] | np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """int64[hypothesis, cell]: the prediction of every hypothesis, as codes of the last attribute."""
    cells, labels = math.prod(shape[:-1]), shape[-1]
    if len(hypotheses) * cells > MOST_CELLS or cells * labels > MOST_CELLS:
        raise ResourceError(
            f"{len(hypotheses):,} hypotheses of {cells:,} cells are too many; use fewer or coarser features"
        )
    if isinstance(hypotheses, np.ndarray):
        answers = hypotheses
    else:
        codes = list(np.ndindex(*shape[:-1]))
        answers = np.array([[int(h(code)) for code in codes] for h in hypotheses], dtype=np.int64)
    if answers.ndim != 2 or not len(answers) or answers.shape[1] != cells or answers.dtype.kind not in "iu":
        raise InputError(
            f"hypotheses: give one or more, each with a code of the label for each of {cells:,} cells"
        )
    if answers.min() < 0 or answers.max() >= labels:
        raise InputError(f"hypotheses: their results must be codes of the label, from 0 to {labels - 1}")
    return answers.astype(np.int64)


def digest(answers: np.ndarray) -> str:
    """The digest of the class in a run's settings: a resumed run must have the same."""
    return hashlib.sha256(repr(answers.shape).encode() + np.ascontiguousarray(answers).tobytes()).hexdigest()


SPLITS = np.linspace(0.01, 0.99, 99)
"""Shares of an excess error that may be the mechanism's; the rest is sampling's."""


def failure_bound(
    hypotheses: int,
    rows: int,
    epsilon: float,
    wrong: float,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    *,
    population: bool = False,
) -> float:
    """The probability, at most, that the chosen hypothesis is wrong about `wrong` of the rows more than the
    best is: |C| e^{-epsilon wrong rows}, with half of epsilon for replace. One row a person.

    `population`: that it is wrong so much oftener than the best about a new row of the distribution that the
    rows are independent draws of. If the chosen one is w1 worse on the rows, each hypothesis' error there is
    less than t below its own, and the best one's less than t above, then it is w1 + 2 t worse at most:
    |C| e^{-epsilon w1 rows} + (|C| + 1) e^{-2 t^2 rows} (Hoeffding), for the best split of `wrong`. With a
    constant of its own that is Kasiviswanathan and others 2008: rows of the order of (log |C| + log 1/beta)
    max(1 / (epsilon wrong), 1 / wrong^2).
    """
    each = epsilon * rows / (2 if neighbours is Neighbours.REPLACE else 1)
    if not population:
        return min(1.0, hypotheses * math.exp(-each * wrong))
    above = (hypotheses + 1) * np.exp(-rows / 2 * (wrong * (1 - SPLITS)) ** 2)
    return min(1.0, float((hypotheses * np.exp(-each * wrong * SPLITS) + above).min()))


def rows_needed(
    hypotheses: int,
    epsilon: float,
    wrong: float,
    failure: float,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    *,
    population: bool = False,
) -> int:
    """The fewest rows with which `failure_bound` is at most `failure`."""

    def enough(rows: int) -> bool:
        return failure_bound(hypotheses, rows, epsilon, wrong, neighbours, population=population) <= failure

    high = 1
    while not enough(high):
        high *= 2
    return bisect.bisect_left(range(high + 1), True, key=enough)
