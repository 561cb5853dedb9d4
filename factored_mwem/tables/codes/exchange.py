"""Exchange: drawn rows exchange values of a column until each is at least what a rule of order says, so that
columns keep all the values that they were drawn with. Public: it reads no rows of the private table.

A row whose value lies below that of another column exchanges it with a row where both values suit both rows;
of several with the one whose value exceeds what is needed by least. Where there is none, it gets there in
steps. What no exchange can mend, for the columns as they were drawn do not allow it, is moved to the nearest
value that can be.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush

import numpy as np
import pyarrow as pa

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.rules import Chain
from factored_mwem.tables.codes.decode import from_units, replaced, typed
from factored_mwem.tables.codes.parsing import plain, read_units


def put_in_order(chain: Chain, domain: Domain, made: dict[str, pa.Array]) -> None:
    """Put the columns of a chain in order, in place."""
    units = {name: read_units(domain[name], plain(made[name])) for name in chain.names}
    for name in chain.names:
        here = np.flatnonzero(~np.ma.getmaskarray(units[name]))
        place = np.arange(len(made[name]))
        place[here] = here[exchanged(_least(chain, name, units)[here], units[name].data[here])]
        if (place[here] != here).any():
            made[name], units[name] = made[name].take(pa.array(place)), units[name][place]
    drawn = dict(units)
    _move(chain, domain, units)
    for name, now in units.items():
        rows = np.flatnonzero((now != drawn[name]).filled(False))
        if len(rows):
            moved = typed(domain[name], from_units(domain[name], now.data[rows]), made[name].type, safe=False)
            made[name] = replaced(made[name], rows, moved)


def _least(chain: Chain, name: str, units: dict[str, np.ma.MaskedArray]) -> np.ndarray:
    """[row]: what a column must be at least, by those that are not more."""
    kind = units[name].dtype
    least = np.full(len(units[name]), -np.inf if kind.kind == "f" else np.iinfo(kind).min, dtype=kind)
    for below in (a for a, b in chain.pairs if b == name):
        least = np.where(np.ma.getmaskarray(units[below]), least, np.maximum(least, units[below].data))
    return least


def exchanged(least: np.ndarray, values: np.ndarray) -> np.ndarray:
    """int64[row]: from which row each has its value in the end, so that it is at least `least: [row]`, in as
    many rows as can be found.
    """
    place = np.arange(len(values))
    one, other = _pairs(np.flatnonzero(values < least), np.flatnonzero(values >= least), least, values).T
    place[one], place[other] = place[other], place[one]
    _by_steps(place, least, values)
    return place


def _by_steps(place: np.ndarray, least: np.ndarray, values: np.ndarray) -> None:
    """Exchange values in rows that are still short of what they need, in place: again and again for one that
    is more, until it is enough. The row with least comes first, and gets the most that another can give which
    needs no more than it has: as when a range is covered by intervals from below, this reaches furthest.
    """
    own = values[place]
    short = np.flatnonzero(own < least)
    if not len(short):
        return
    giving = np.flatnonzero((own >= least) & (own > own[short].min()))
    giving = giving[np.argsort(least[giving], kind="stable")]
    waiting = [*zip(least[giving].tolist(), giving.tolist(), strict=True)]
    wanting = sorted(zip(own[short].tolist(), short.tolist(), strict=True))
    needs, has, free = least.tolist(), own.tolist(), list[tuple[float, int]]()
    while wanting:
        now, row = heappop(wanting)
        while waiting and waiting[0][0] <= now:
            _, other = heappop(waiting)
            if has[other] > now:
                heappush(free, (-has[other], other))
        if not free or -free[0][0] <= now:
            continue
        _, other = heappop(free)
        has[row], has[other] = has[other], now
        place[row], place[other] = place[other], place[row]
        if has[row] < needs[row]:
            heappush(wanting, (has[row], row))
        else:
            heappush(waiting, (needs[row], row))


def _pairs(short: np.ndarray, good: np.ndarray, least: np.ndarray, values: np.ndarray) -> np.ndarray:
    """int64[pair, 2]: rows that are `short` of what they need, those of least values first, each with a
    `good` one that can exchange with it, for its value is enough, and it needs no more than the other has.

    As many as there can be: who may exchange with one row may with all that come later, as far as what it
    needs goes, so that of those with enough the one with least is missed least.
    """
    short = short[np.argsort(values[short], kind="stable")]
    good = good[np.argsort(values[good], kind="stable")]
    first = np.searchsorted(values[good], least[short]).tolist()
    by_need = np.argsort(least[good], kind="stable")
    known = np.searchsorted(least[good][by_need], values[short], side="right").tolist()
    joining, free, pairs, begin = by_need.tolist(), list[int](), list[tuple[int, int]](), 0
    for row, enough, end in zip(short.tolist(), first, known, strict=True):
        for place in joining[begin:end]:
            insort(free, place)
        begin = end
        at = bisect_left(free, enough)
        if at < len(free):
            pairs.append((row, free.pop(at)))
    made = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    made[:, 1] = good[made[:, 1]]
    return made


def _move(chain: Chain, domain: Domain, units: dict[str, np.ma.MaskedArray]) -> None:
    """Put what is still out of order at the nearest values of the columns that are in order; in place."""
    for name in chain.names:
        least = _least(chain, name, units)
        low = (units[name] < least).filled(False)
        if low.any():
            units[name] = units[name].copy()
            units[name][low] = _at_least(domain[name], least[low])
    for name in reversed(chain.names):
        for above in (b for a, b in chain.pairs if a == name):
            high = (units[name] > units[above]).filled(False)
            if high.any():
                units[name] = units[name].copy()
                units[name][high] = _at_most(domain[name], units[above].data[high])


def _at_least(attribute: Attribute, wanted: np.ndarray) -> np.ndarray:
    """A value of the attribute near each that is `wanted`, and not less; its greatest where there is none."""
    low, high = (bound[placed(attribute)] for bound in intervals(attribute))
    order = np.argsort(high, kind="stable")
    at = np.minimum(np.searchsorted(high[order], wanted), len(order) - 1)
    return np.minimum(np.maximum(low[order][at], wanted), high[order][at])


def _at_most(attribute: Attribute, wanted: np.ndarray) -> np.ndarray:
    """The same, and not more; its least where there is none."""
    low, high = (bound[placed(attribute)] for bound in intervals(attribute))
    order = np.argsort(low, kind="stable")
    at = np.maximum(np.searchsorted(low[order], wanted, side="right") - 1, 0)
    return np.maximum(np.minimum(high[order][at], wanted), low[order][at])
