"""Constructions: hypotheses about a private table, improved by one query after the other; and a check whether
a list of updates meets the conditions of the theorems.

Gupta, Roth, Ullman 2011 call them iterative database constructions (IDC); Roth 2011, lecture 9. Counts are in
records throughout: a query q with weights in [0, 1] has the answer q(D) = <q, D> from 0 to n. Nothing here is
private: updates use noisy answers only. The constructions of this file keep a vector, or all tables of a
kind, so the universe must fit into memory; their queries are `float64[element]`, weights in [0, 1].
`factored.py` has the construction on clique trees, `graph/constructions.py` those on sums of cuts and weights
of pairs, `sparse.py` those for queries of a few keys.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from factored_mwem.errors import InputError

MAX_NUMBERS = 2**22
"""Most numbers in all tables that the median mechanism keeps."""
Query = TypeVar("Query")
QueryKind = TypeVar("QueryKind", contravariant=True)


class Construction(Protocol[QueryKind]):
    """A hypothesis D^t, updated in place. Each kind of construction defines what a query is."""

    def answer(self, query: QueryKind) -> float:
        """q(D^t), in records."""

    def update(self, query: QueryKind, value: float) -> None:
        """Make the hypothesis D^{t+1}. Only whether `value` (records) lies below q(D^t) matters."""

    def bound(self, alpha: float) -> float:
        """B(alpha), for a construction made for this `alpha`: the most updates that queries answered wrongly
        by `alpha` records or more can cause, for any table.
        """


class WeightedConstruction:
    """The part that all multiplicative weights share: a step of alpha / (2 n), and the bound that follows
    from it.

    Relative entropy of the table to the hypothesis, at first `surprise` at most, falls by alpha^2 / (4 n^2)
    or more with every update of a sequence at level alpha (lecture 9, lemma 8 and theorem 6).
    """

    def __init__(self, total: float, alpha: float, surprise: float) -> None:
        """`total`: n, a public number of records; `alpha`: the level, in records, for which steps are made;
        `surprise`: in nats, log |X| of a uniform start, else the most that a table's relative entropy to the
        start may be. Raises InputError unless both numbers are positive.
        """
        if not (0 < total < math.inf and 0 < alpha < math.inf):
            raise InputError(f"multiplicative weights need alpha={alpha:g} and n={total:g} to be positive")
        self.total, self.step, self.surprise = float(total), alpha / (2 * total), surprise

    def bound(self, alpha: float) -> float:
        """B(alpha) = 4 n^2 `surprise` / alpha^2, of steps made for alpha."""
        return 4 * self.total**2 * self.surprise / alpha**2


class MultiplicativeWeights(WeightedConstruction):
    """Multiplicative weights (A.2): n times a distribution over a finite universe, uniform at first."""

    def __init__(self, elements: int, total: float, alpha: float) -> None:
        """`elements`: |X|. Raises InputError unless 0 < alpha <= 2 n: steps are at most 1."""
        if elements < 1 or not 0 < alpha <= 2 * total:
            raise InputError(f"multiplicative weights need an alpha from 0 to 2 n records, not {alpha:g}")
        super().__init__(total, alpha, math.log(elements))
        self.shares = np.full(elements, 1.0 / elements)
        """float64[element]: the hypothesis as a distribution."""

    def answer(self, query: np.ndarray) -> float:
        """q(D^t), in records, of `query: float64[element]` in [0, 1]."""
        return self.total * float(query @ self.shares)

    def update(self, query: np.ndarray, value: float) -> None:
        """If the answer was too high, lower the weights of the elements of the query, else those of 1 - q
        (which raises those of q).
        """
        against = query if value < self.answer(query) else 1.0 - query
        self.shares = self.shares * np.exp(-self.step * against)
        self.shares /= self.shares.sum()

    def potential(self, table: np.ndarray) -> float:
        """Relative entropy of `table: float64[element]`, records or shares, to the hypothesis, in nats."""
        shares = table / table.sum()
        seen = shares > 0
        return float((shares[seen] * np.log(shares[seen] / self.shares[seen])).sum())


class SumOfQueries(ABC, Generic[Query]):
    """Frieze and Kannan's construction (algorithm 2): the hypothesis is D^1 and a sum of queries, and an
    update moves it by a step along the query that was answered wrongly, up or down. It may become negative.

    Every sequence of updates at level alpha has length at most B(alpha) = |D - D^1|^2 |X| / alpha^2 (theorem
    5.1): the squared distance to D falls each time by at least alpha^2 / |X|. With the paper's step, alpha /
    |X|, by 2 alpha^2 / |X| - alpha^2 |q|^2 / |X|^2; with the sharper one, alpha / |q|^2, by alpha^2 / |q|^2,
    never less. In the place of |X| any bound on |q|^2 will do.
    """

    def __init__(self, squares: float, universe: int, alpha: float, *, sharper: bool) -> None:
        """`squares`: a public bound on |D - D^1|^2; `universe`: |X|, or the most that |q|^2 can be; `alpha`:
        the level, in records, for which steps are made. Raises InputError if a number makes no sense.
        """
        if not (0 <= squares < math.inf and universe >= 1 and 0 < alpha < math.inf):
            raise InputError(
                f"Frieze and Kannan's construction needs a universe, a norm and alpha={alpha} above 0"
            )
        self.squares, self.universe, self.alpha, self.sharper = squares, universe, float(alpha), sharper

    @abstractmethod
    def answer(self, query: Query) -> float:
        """q(D^t), in records; it may lie below 0."""

    @abstractmethod
    def squared(self, query: Query) -> float:
        """|q|^2."""

    @abstractmethod
    def add(self, query: Query, coefficient: float) -> None:
        """D^(t+1) = D^t + coefficient q."""

    def update(self, query: Query, value: float) -> None:
        """A step along the query: down if its answer was too high, else up; none for a query of 0."""
        squared = self.squared(query)
        if squared:
            step = self.alpha / (squared if self.sharper else self.universe)
            self.add(query, -step if value < self.answer(query) else step)

    def bound(self, alpha: float) -> float:
        """B(alpha), of steps made for alpha at most."""
        return self.squares * self.universe / alpha**2


class FriezeKannan(SumOfQueries[np.ndarray]):
    """A sum of queries, kept as a vector over a finite universe, 0 at first."""

    def __init__(self, elements: int, norm: float, alpha: float, *, sharper: bool = False) -> None:
        """`elements`: |X|; `norm`: a public bound on the table's Euclidean norm (sqrt(n) or n)."""
        super().__init__(math.copysign(float(norm) ** 2, norm), elements, alpha, sharper=sharper)
        self.vector = np.zeros(elements)
        """float64[element]: the hypothesis, in records."""

    def answer(self, query: np.ndarray) -> float:
        return float(query @ self.vector)

    def squared(self, query: np.ndarray) -> float:
        return float(query @ query)

    def add(self, query: np.ndarray, coefficient: float) -> None:
        self.vector = self.vector + coefficient * query

    def potential(self, table: np.ndarray) -> float:
        """The squared distance of `table: float64[element]`, records, to the hypothesis."""
        return float(((table - self.vector) ** 2).sum())


class Median:
    """The median mechanism (Roth, Roughgarden 2010; A.1): all multisets of `size` elements, each scaled to n
    records; the answer is the median of theirs. For toys: it keeps every one of them.

    An update takes away half of them or more, and none that answers like the table; so a sequence at level
    alpha is no longer than log2 of their number, where one of them answers every query of the sequence as the
    table does up to less than alpha. A table of n^2 log k / alpha^2 elements does so for k queries (Blum,
    Ligett, Roth 2008).
    """

    def __init__(self, elements: int, total: float, size: int) -> None:
        """`elements`: |X|; `total`: n, a public number of records; `size`: elements of each table."""
        if elements < 1 or size < 1:
            raise InputError("the median construction needs elements, and tables of one or more")
        count = math.comb(elements + size - 1, size)
        if count * elements > MAX_NUMBERS:
            raise InputError(
                f"the median construction would keep {count:,} tables of {elements} elements: it is for "
                "toys; use multiplicative weights"
            )
        self.total, self.size = float(total), size
        bars = np.array(
            list(itertools.combinations(range(elements + size - 1), elements - 1)), dtype=np.int64
        )
        ends = np.full((count, 1), elements + size - 1)
        begins = np.full((count, 1), -1)
        gaps = np.diff(np.concatenate([begins, bars, ends], axis=1), axis=1) - 1
        self.tables = gaps * (self.total / size)
        """float64[table, element]: those that are left, in records."""
        self._begun_with = count

    def answer(self, query: np.ndarray) -> float:
        """The median of all tables' answers, in records, to `query: float64[element]` in [0, 1]."""
        return float(np.median(self.tables @ query))

    def update(self, query: np.ndarray, value: float) -> None:
        """Remove the tables on the wrong side of the median, and those at it. If none would be left, the
        value cannot come from a valid sequence, and nothing changes.
        """
        answers = self.tables @ query
        middle = float(np.median(answers))
        kept = answers < middle if value < middle else answers > middle
        if kept.any():
            self.tables = self.tables[kept]

    def bound(self, alpha: float) -> float:
        """B(alpha): log2 of the number of tables, for any alpha."""
        return math.log2(self._begun_with)

    def potential(self, table: np.ndarray) -> float:
        """log2 of the number of tables that are left."""
        return math.log2(len(self.tables))


def size_for(total: float, queries: int, alpha: float) -> int:
    """Elements of a table that answers `queries` counting queries like any of `total` records, to `alpha`
    records: n^2 log k / alpha^2 (constants as in Gupta, Roth, Ullman 2011, claim A.3).
    """
    return max(1, math.ceil(total**2 * math.log(max(queries, 2)) / alpha**2))


@dataclass(frozen=True, slots=True)
class Update(Generic[Query]):
    """One update: the query, its noisy value, and the answer of the hypothesis before, in records."""

    query: Query
    value: float
    answered: float


@dataclass(frozen=True, slots=True)
class Checked:
    """How many updates there were, how many there may be, and which rules are `broken`, in words."""

    updates: int
    bound: float
    broken: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether it is an update sequence, and no longer than its bound."""
        return not self.broken


def check(
    fresh: Construction[Query],
    updates: Iterable[Update[Query]],
    truth: Callable[[Query], float],
    alpha: float,
    *,
    rounding: float = 1e-9,
) -> Checked:
    """Whether `updates` are a sequence of definition 3.1 (lecture 9, definition 1), no longer than B(alpha).

    They are replayed on a `fresh` construction (1) and compared with the `truth`: (2) each query is answered
    wrongly by alpha or more; (3) each value is less than alpha from the true answer; (4) each hypothesis is
    the last one's update. It reads the table: for tests, and for tables that are public. `rounding`: how
    far numbers may be off, relative to the truth or 1 record.
    """
    broken, count = [], 0
    for count, update in enumerate(updates, start=1):
        exact, answered = truth(update.query), fresh.answer(update.query)
        slack = rounding * max(1.0, abs(exact))
        if abs(answered - update.answered) > slack:
            broken.append(f"update {count}: the hypothesis answers {answered:g}, not {update.answered:g} (4)")
        if abs(exact - answered) < alpha - slack:
            broken.append(f"update {count}: the answer is off by {abs(exact - answered):g} only (2)")
        if abs(exact - update.value) >= alpha + slack:
            broken.append(f"update {count}: the value is off by {abs(exact - update.value):g} (3)")
        fresh.update(update.query, update.value)
    bound = fresh.bound(alpha)
    if count > bound:
        broken.append(f"{count} updates, but the bound is {bound:g}")
    return Checked(count, bound, tuple(broken))
