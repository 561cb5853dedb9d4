"""Sparse multiplicative weights: for queries of a few keys, over universes that no memory holds.

Each answers q(D^t) for a query {key: weight in [0, 1]}, and is updated by queries that it answers badly. They
fit the interactive framework: `answer`, `update`, `bound`, in records; alpha is the level of the update
sequence. The update that the sparse paper (Blum and Roth 2011) prints was not recovered: these are its
provable substitutes, of which `Lazy` is dense multiplicative weights itself, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping

from factored_mwem.errors import InputError
from factored_mwem.sessions.online.constructions import SumOfQueries, WeightedConstruction

Key = Hashable
Query = Mapping[Key, float]
CHUNK = 26
"""Bits of a factor whose product with another is exact in 53."""


def checked(query: Query) -> Query:
    """The query itself; raises InputError if a weight is not from 0 to 1."""
    for weight in query.values():
        if not 0.0 <= weight <= 1.0:
            raise InputError(f"a weight of {weight}: the weights of a query lie from 0 to 1")
    return query


def copies(number: int, value: float) -> Iterator[float]:
    """Floats whose exact sum is `number` times `value`: `math.fsum` gives what so many copies give."""
    mantissa, exponent = math.frexp(value)
    upper = math.floor(math.ldexp(mantissa, CHUNK))
    lower = math.ldexp(math.ldexp(mantissa, CHUNK) - upper, 53 - CHUNK)  # a whole number below 2^27
    shift = 0
    while number >> shift:
        digit = float(number >> shift & (1 << CHUNK) - 1)
        yield math.ldexp(digit * upper, exponent - CHUNK + shift)
        yield math.ldexp(digit * lower, exponent - 53 + shift)
        shift += CHUNK


class Lazy(WeightedConstruction):
    """Multiplicative weights over a finite universe of `size` elements, of which only those are stored that
    an update touched; all others share one weight. Memory grows with the updates, not with `size`.

    Sums are rounded once, from their exact value (`math.fsum`), so they do not depend on an order, nor on
    whether equal weights are added one by one: every answer is that of `dense`, to the last bit.
    """

    def __init__(self, size: int, total: float, alpha: float) -> None:
        if size < 1:
            raise InputError(f"size={size}: a universe has at least one element")
        super().__init__(total, alpha, math.log(size))
        self.size = size
        self.logs: dict[Key, float] = {}
        self._top, self._sum = 0.0, self._whole(0.0)

    def answer(self, query: Query) -> float:
        """q(D^t) in records."""
        mass = math.fsum(q * self._weight(self.logs.get(x, 0.0)) for x, q in checked(query).items())
        return self.total * mass / self._sum

    def update(self, query: Query, value: float) -> None:
        """One step down if `value`, of which only the sign of the difference counts, lies below the answer,
        else up. A step up by q is a step down by 1 - q, once it is scaled back.
        """
        sign = -1.0 if value < self.answer(query) else 1.0
        for x, q in query.items():
            if q > 0:
                self.logs[x] = self.logs.get(x, 0.0) + sign * self.step * q
        self._top = max(0.0, *self.logs.values()) if self.logs else 0.0
        self._sum = self._whole(self._top)

    def _weight(self, log: float) -> float:
        return math.exp(log - self._top)

    def _whole(self, top: float) -> float:
        touched = (math.exp(log - top) for log in self.logs.values())
        return math.fsum([*touched, *copies(self.size - len(self.logs), math.exp(-top))])


class Prior(WeightedConstruction):
    """Multiplicative weights over a universe without end, with a prior: the j-th update that brings new keys
    gives each a prior of 6 / (pi^2 j^2) / m; all keys that no update brought have the rest together, as one
    element that every query has at 0.

    That is dense multiplicative weights with a fixed prior, for keys that nobody updated share one factor: a
    key that no update brought is answered by the prior that it would get next. Where all updates of a
    sequence have gaps of alpha, its length L keeps to L <= (4 n^2 / alpha^2) (ln m + 2 ln L + ln(pi^2 / 6)),
    for the data's divergence from the prior is at most ln(1 / the least prior), and data on keys that no
    update brought lies in the rest. Starting new keys at 1 / m without taking it off the rest would be no
    such construction: queries of new keys without data, of which there is no end, would each force an update.
    """

    def __init__(self, most: int, total: float, alpha: float) -> None:
        if most < 1:
            raise InputError(f"most={most}: a query has at least one key")
        super().__init__(total, alpha, math.inf)  # what the bound rests on instead: `prior_bound`
        self.most = most
        self.widened = 0
        self.priors: dict[Key, float] = {}
        self.logs: dict[Key, float] = {}

    @property
    def rest(self) -> float:
        """The prior of all keys that no update brought."""
        return max(0.0, 1.0 - math.fsum(self.priors.values()))

    def answer(self, query: Query) -> float:
        """q(D^t) in records."""
        top = max(0.0, *self.logs.values()) if self.logs else 0.0
        touched = (p * math.exp(self.logs[x] - top) for x, p in self.priors.items())
        whole = math.fsum([*touched, self.rest * math.exp(-top)])
        mass = math.fsum(
            q * self._prior(x) * math.exp(self.logs.get(x, 0.0) - top) for x, q in checked(query).items()
        )
        return self.total * mass / whole

    def update(self, query: Query, value: float) -> None:
        """One step down where `value`, which counts by its sign alone, lies below the answer, else up; new
        keys get their prior. Raises InputError for a query of more keys than `most`.
        """
        keys = _support(query, self.most)
        sign = -1.0 if value < self.answer(query) else 1.0
        new = {x: self._prior(x) for x in keys if x not in self.priors}
        self.widened += bool(new)
        self.priors |= new
        for x in keys:
            self.logs[x] = self.logs.get(x, 0.0) + sign * self.step * query[x]

    def _prior(self, key: Key) -> float:
        """A key's prior, or the prior that it would get from the next update."""
        if key in self.priors:
            return self.priors[key]
        return 6 / (math.pi**2 * (self.widened + 1) ** 2) / self.most

    def bound(self, alpha: float) -> float:
        """See `prior_bound`."""
        return prior_bound(self.most, self.total, alpha)


def prior_bound(most: int, total: float, alpha: float) -> float:
    """The largest L with L <= c (ln m + 2 ln L + ln(pi^2 / 6)), c = 4 n^2 / alpha^2: most updates of a
    sequence of level alpha, with a step for that alpha. 0 where alpha is beyond n, for no gap is.
    """
    if alpha > total:
        return 0.0
    factor = 4 * total**2 / alpha**2
    constant = math.log(most) + math.log(math.pi**2 / 6)
    low = high = 2 * factor  # from here on the left side grows faster than the right
    while high < factor * (constant + 2 * math.log(high)):
        low, high = high, high * 2
    for _ in range(100):
        middle = (low + high) / 2
        inside = middle < factor * (constant + 2 * math.log(middle))
        low, high = (middle, high) if inside else (low, middle)
    return high


class SparseFriezeKannan(SumOfQueries[Query]):
    """Sums of the queries themselves, by steps of alpha / m for queries of at most m keys, whose |q|^2 is at
    most m. Keys of any universe, at most m times as many as updates.
    """

    def __init__(self, most: int, squares: float, alpha: float) -> None:
        """`most`: m; `squares`: at least the sum of squared counts."""
        super().__init__(squares, most, alpha, sharper=False)
        self.values: dict[Key, float] = {}

    def answer(self, query: Query) -> float:
        return math.fsum(q * self.values.get(x, 0.0) for x, q in checked(query).items())

    def squared(self, query: Query) -> float:
        """Raises InputError for a query of more keys than were announced."""
        return math.fsum(query[x] ** 2 for x in _support(query, self.universe))

    def add(self, query: Query, coefficient: float) -> None:
        for x in _support(query, self.universe):
            self.values[x] = self.values.get(x, 0.0) + coefficient * query[x]


def _support(query: Query, most: int) -> list[Key]:
    """The keys that a query has; raises InputError if they are more than `most`."""
    keys = [x for x, q in query.items() if q > 0]
    if len(keys) > most:
        raise InputError(f"a query of {len(keys)} keys, where at most {most} were announced")
    return keys
