"""Hypotheses: which column may be a copy, a sum, a product or a function of others, by what is known of them
for free: the names and types of columns, and the noisy answers that they were learnt from. Public in, public
out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from factored_mwem.domain.coarse_grids import coarse_grid
from factored_mwem.domain.functions import EQUAL, FUNCTIONS, Function, applied
from factored_mwem.mechanisms.first_domain import First
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.tables.codes.broken import LINEAR, LINEAR_MAPS, PRODUCT, SUM, Hypothesis
from factored_mwem.tables.codes.kinds import RESOLUTIONS

CLEAR = 6.0
"""Standard deviations of noise from which a cell is taken to hold something, or two counts to differ."""
MOST_LISTED = 400
"""Values of a function that are told apart."""
MOST_SUMMED = 40
"""Columns of numbers among which arithmetic is looked for: of more, the first."""
MOST_SUMS = 12
"""Sums, and as many products, and columns in another unit."""
APART = 4.0
"""By what the noisy mean of a product may differ from the product of means, and its greatest from theirs."""
SAME = 0.04
"""How far the noisy means of a column and of what it is in another unit may lie apart, of their size."""
ENDS = 0.25
"""And how far what is seen of both ends, of what lies between: the tails of one are seen farther out."""
CLOSE = 0.1
"""How far the noisy means of a sum and of its parts may lie apart, of their sizes."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenValues:
    """Where the values of a column of whole numbers or moments lie, as far as they are clear: `lows`,
    `highs`: the ends of each popular value and of each clear cell, in the column's unit; `mean` of all.
    """

    lows: np.ndarray
    highs: np.ndarray
    mean: float

    @classmethod
    def of(cls, found: FoundColumn) -> SeenValues | None:
        """None where nothing is clear, or where values are no whole numbers."""
        if not found.kinds or found.unit == "number":
            return None
        values, counts = np.array([*found.values], np.int64), np.array([*found.values.values()], np.float64)
        edges, noisy = np.zeros(1, np.int64), np.zeros(0)
        if found.edges is not None and found.noisy is not None:
            edges, noisy = found.edges, np.maximum(found.noisy.astype(np.float64), 0)
        clear = noisy > CLEAR * found.cell_stddev
        middles = (edges[:-1] + edges[1:] - 1) / 2
        lows = np.concatenate([values, edges[:-1][clear]])
        if not len(lows):
            return None
        weights = np.concatenate([np.maximum(counts, 0), noisy])
        mean = float(np.concatenate([values, middles]) @ weights / max(weights.sum(), 1.0))
        return cls(lows, np.concatenate([values, edges[1:][clear] - 1]), mean)


def hypotheses_of(found: Sequence[FoundColumn], firsts: Sequence[First]) -> list[Hypothesis]:
    """All that may be, the likeliest first."""
    seen = [SeenValues.of(each) for each in found]
    numbers = _numbers(found, firsts, seen)
    arithmetic = [_likeliest(guess(numbers)) for guess in (_multiples, _sums, _products)]
    ranked = itertools.chain(*itertools.zip_longest(*arithmetic))
    return [*_copies(found), *_parts(found, firsts, seen), *(each for each in ranked if each is not None)]


def _copies(found: Sequence[FoundColumn]) -> Iterator[Hypothesis]:
    for one, other in itertools.combinations(found, 2):
        if one.type != "boolean" and _alike(one, other) and _same_counts(one, other):
            yield Hypothesis(EQUAL, other.column.name, (one.column.name,))


def _alike(one: FoundColumn, other: FoundColumn) -> bool:
    """Whether two columns are of one type, in the table and as they were learnt."""
    facts = [
        (c.column.type, c.column.nullable, c.type, c.decimals, c.resolution, c.zone, c.format, c.mixed)
        for c in (one, other)
    ]
    return facts[0] == facts[1]


def _same_counts(one: FoundColumn, other: FoundColumn) -> bool:
    """Whether noisy counts of two columns may be those of one: of popular values, and of cells."""
    noise = CLEAR * (one.stddev**2 + other.stddev**2) ** 0.5
    known: list[dict[float | str, int]] = [dict([*c.values.items(), *c.texts.items()]) for c in (one, other)]
    for (a, b), (mine, theirs) in zip(((one, other), (other, one)), (known, known[::-1]), strict=True):
        for value, n in mine.items():
            if value in a.rare or n <= b.threshold + noise:
                continue
            if value not in theirs or (value not in b.rare and abs(n - theirs[value]) > noise):
                return False
    common, most = len({*known[0]} & {*known[1]}), max(map(len, known))
    if not one.kinds:
        return 2 * common > most
    return 2 * common >= most and (common > 0 or one.edges is not None) and _same_cells(one, other)


def _same_cells(one: FoundColumn, other: FoundColumn) -> bool:
    if one.coarse is None or other.coarse is None:
        return one.coarse is other.coarse
    grid, cells = coarse_grid(one.unit), []
    unsure = np.zeros(len(grid) - 1, dtype=bool)
    variance = np.full(len(grid) - 1, one.coarse_stddev**2 + other.coarse_stddev**2)
    for each in (one, other):
        counts = each.coarse.astype(np.float64) if each.coarse is not None else np.zeros(len(grid) - 1)
        for value, n in each.values.items():
            at = min(max(int(np.searchsorted(grid, value, side="right")) - 1, 0), len(counts) - 1)
            counts[at] += n
            variance[at] += each.stddev**2
            unsure[at] |= value in each.rare
        cells.append(counts)
    return bool((unsure | (np.abs(cells[0] - cells[1]) <= CLEAR * variance**0.5)).all())


def _parts(
    found: Sequence[FoundColumn], firsts: Sequence[First], seen: Sequence[SeenValues | None]
) -> Iterator[Hypothesis]:
    """Parts of times, and digits of whole numbers."""
    for name, function in FUNCTIONS.items():
        for s, source in enumerate(found):
            if not _is_source(source, firsts[s], function):
                continue
            for t, target in enumerate(found):
                of, own = seen[s], seen[t]
                if s == t or target.type != "integer" or of is None or own is None:
                    continue
                listed = values_of(name, source, of)
                if firsts[t].attribute.sentinels or not 1 < len(listed) <= MOST_LISTED:
                    continue
                if _reaches(own, *_ends(name, source, of)) and _maps(name, source, target, own):
                    yield Hypothesis(name, target.column.name, (source.column.name,))


def _is_source(found: FoundColumn, first: First, function: Function) -> bool:
    finer = (*RESOLUTIONS, None)
    fine = function.needs is None or finer.index(found.resolution) > finer.index(function.needs)
    return found.type in function.of and fine and not found.mixed and not first.attribute.sentinels


def _ends(name: str, source: FoundColumn, of: SeenValues) -> tuple[int, int]:
    """The least and greatest value that a function should have: its own, or of what is seen of its source."""
    values = values_of(name, source, of)
    if FUNCTIONS[name].least is None:
        return values[0] - 1, values[-1] + 1
    wide = name != "below hundred" or of.highs.max() - of.lows.min() >= 100
    return (values[0], values[-1]) if wide else (0, -1)


def _reaches(own: SeenValues, least: int, most: int) -> bool:
    """Whether what is seen of a column lies between two ends, on both sides of their middle."""
    middle = (least + most) / 2
    inside = (own.lows >= least).all() and (own.lows <= most).all()
    return bool(inside and own.lows.min() <= middle <= own.highs.max())


def _maps(name: str, source: FoundColumn, target: FoundColumn, own: SeenValues) -> bool:
    """Whether the function of each value that is clearly popular is seen in the target."""
    clear = target.threshold + CLEAR * (source.stddev**2 + target.stddev**2) ** 0.5
    units = [unit for unit, n in source.values.items() if n > clear and unit not in source.rare]
    values = applied(name, source.type, np.array(units, dtype=np.int64))
    inside = (own.lows <= values[:, None]) & (values[:, None] <= own.highs)
    return bool(inside.any(axis=1).all())


def values_of(name: str, source: FoundColumn, of: SeenValues) -> range:
    """The values of a function: all there can be, or those of what is seen of its source."""
    function = FUNCTIONS[name]
    if function.least is not None and function.most is not None:
        return range(function.least, function.most + 1)
    ends = applied(name, source.type, np.array([of.lows.min(), of.highs.max()]))
    return range(int(ends[0]), int(ends[1]) + 1)


class _Number(NamedTuple):
    """A column of numbers: its name, the noisy mean, the least and the greatest of what is seen of it, and
    the whole numbers that make 1.
    """

    name: str
    mean: float
    least: float
    top: float
    scale: float
    whole: bool

    @property
    def varies(self) -> bool:
        return self.least < self.top


def _numbers(
    found: Sequence[FoundColumn], firsts: Sequence[First], seen: Sequence[SeenValues | None]
) -> list[_Number]:
    """The columns among which arithmetic is looked for."""
    numbers = []
    for each, first, own in zip(found, firsts, seen, strict=True):
        if each.type not in ("integer", "number") or own is None:
            continue
        if not each.mixed and not first.attribute.sentinels:
            least, top = own.lows.min() / each.scale, own.highs.max() / each.scale
            facts = (least, top, each.scale, each.type == "integer")
            numbers.append(_Number(each.column.name, own.mean / each.scale, *facts))
    return numbers[:MOST_SUMMED]


def _likeliest(guesses: Iterable[tuple[float, Hypothesis]]) -> list[Hypothesis]:
    """Those whose means agree best; each with how far they are apart."""
    return [each for _, each in sorted(guesses, key=lambda pair: pair[0])][:MOST_SUMS]


def _sums(numbers: Sequence[_Number]) -> Iterator[tuple[float, Hypothesis]]:
    """The sums of two columns. A difference is one: what is less, and the difference, make what is more.
    A column of one value is none; nor is one whose mean is 0, if the means of both others are.
    """
    for z in (each for each in numbers if each.varies):
        fit = [each for each in numbers if each is not z and each.scale <= z.scale]
        fit = [each for each in fit if not z.whole or each.whole]
        for x, y in itertools.combinations(fit, 2):
            size = max(abs(z.mean), abs(x.mean), abs(y.mean))
            near = max(x.top, y.top) / 2 <= z.top <= 2 * (abs(x.top) + abs(y.top))
            gap = abs(z.mean - x.mean - y.mean)
            if near and size > 0 and gap <= CLOSE * size:
                yield gap / size, Hypothesis(SUM, z.name, (x.name, y.name))


def _multiples(numbers: Sequence[_Number]) -> Iterator[tuple[float, Hypothesis]]:
    """What is a column in another unit; of two ways first the one that multiplies, which rounds nothing."""
    for (x, y), (place, (times, plus)) in itertools.product(
        itertools.permutations(numbers, 2), enumerate(LINEAR_MAPS)
    ):
        mean, least, top = (times * own + plus for own in (x.mean, x.least, x.top))
        gap = abs(y.mean - mean) / max(abs(mean), abs(y.mean), 1e-9)
        apart = max(abs(y.least - least), abs(y.top - top)) / max(y.top - y.least, top - least, 1e-9)
        if y.varies and gap <= SAME and apart <= ENDS:
            yield round(gap, 4) + 1e-6 * place, Hypothesis(LINEAR, y.name, (x.name,), times, plus)


def _products(numbers: Sequence[_Number]) -> Iterator[tuple[float, Hypothesis]]:
    """The products of two columns, which may hang together: their mean is not the product of means."""
    for z in numbers:
        for x, y in itertools.combinations([each for each in numbers if each is not z and each.varies], 2):
            mean = x.mean * y.mean
            if min(z.mean, mean) > 0 and 0 < z.top <= APART * x.top * y.top:
                gap = abs(math.log(z.mean / mean))
                if gap <= math.log(APART):
                    yield gap, Hypothesis(PRODUCT, z.name, (x.name, y.name))
