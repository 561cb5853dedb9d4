"""Pruning: what the first noisy marginal of an attribute shows to be empty is taken out of it.

Public in, public out. Codes that are kept mean what they meant, so rows are recoded, not read again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from factored_mwem.domain.attribute import OTHER, Attribute
from factored_mwem.domain.conditions import STEPS
from factored_mwem.domain.grids import ANYWHERE, AT_ENDS, discounted, evened, level, seen_span, thinning
from factored_mwem.domain.hard_ends import within_hard_ends
from factored_mwem.domain.singles import Singles, on_comb
from factored_mwem.mechanisms.first_domain import (
    FEW,
    Counted,
    First,
    edges_in_json,
    facts_of,
    in_json,
    tops_of,
)
from factored_mwem.mechanisms.hidden_spread import Reach, hidden_spread, reach
from factored_mwem.mechanisms.result import UPPER
from factored_mwem.privacy.session import Measurement
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.codes.decode import DecodeGrid, from_units

CLEAR = 4.0
"""Standard deviations of noise from which nulls and unlisted values are believed."""
HELD, HALF = 2.0, 0.5
"""And those from which the next part of a decade is kept of which one part is seen, and the next bin of what
thins out.
"""


class Fate(NamedTuple):
    """What becomes of a column's values, in noisy shares of all rows: kept as they are or within their bin,
    moved to the nearest bin, made `other` or what else takes unlisted values, or missing. `moved_at_most`: of
    those that were moved or made another value than `other`, the upper end of a 97.5 % interval.
    `spread_hidden`: of numbers, by what part the standard deviation may be larger, see `hidden_spread`.
    `ends_seen`, `spread_doubtful`, `beyond_seen`: of bins, how far values very likely reach, by what part it
    may be smaller, and which share of rows lies further out, see `Reach`. `missing_at_most`: where none come
    out missing, though some may be, the upper end of such an interval of those.
    """

    kept: float
    clipped: float
    other: float
    missing: float
    moved_at_most: float = 0.0
    spread_hidden: float | None = None
    ends_seen: tuple[Any, Any] | None = None
    spread_doubtful: float | None = None
    beyond_seen: float | None = None
    missing_at_most: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Pruned:
    """An attribute; `codes: int64[first code]`, where the first one's codes go; `kept: bool[first code]`,
    which of them mean the same as before; `noisy: int64[code]`, the counts of those.

    `clipped`, `other`: noisy counts (records) of the rest of the codes, by what becomes of it;
    `moved_at_most`: an upper bound of what counts as another value, with probability 97.5 %;
    `spread_hidden`: as in Fate; `reach`: of bins, how far values very likely reach; `nulls_at_most`: an upper
    bound of nulls that noise hides, with probability 97.5 %.
    """

    attribute: Attribute
    codes: np.ndarray
    kept: np.ndarray
    noisy: np.ndarray
    clipped: float
    other: float
    moved_at_most: float = 0.0
    spread_hidden: float | None = None
    reach: Reach | None = None
    nulls_at_most: float | None = None

    @classmethod
    def whole(cls, attribute: Attribute, noisy: np.ndarray) -> Pruned:
        """An attribute that nothing is taken out of."""
        size = attribute.size
        return cls(attribute, np.arange(size), np.ones(size, dtype=bool), noisy, 0.0, 0.0)

    def losing(self, lost: float) -> Pruned:
        """The same, where so many records are lost: moved to the nearest bin, if there are bins."""
        clipped = lost if not self.attribute.categorical and len(self.attribute.bin_codes) else 0.0
        return replace(self, clipped=clipped, other=lost - clipped)

    @property
    def fate(self) -> Fate:
        """In shares of all rows."""
        null = float(self.noisy[-1]) if self.attribute.nullable else 0.0
        unlisted = float(self.noisy[self.attribute.fallback_code]) if self.attribute.other == OTHER else 0.0
        listed = float(self.noisy.sum()) - null - unlisted
        parts = [max(part, 0.0) for part in (listed, self.clipped, self.other + unlisted, null)]
        whole = max(sum(parts), 1.0)
        most = min(max(self.moved_at_most, 0.0) / whole, 1.0)
        kept, clipped, other, missing = (round(part / whole, 4) for part in parts)
        spread = None if self.spread_hidden is None else round(self.spread_hidden, 4)
        seen, doubtful, beyond = self.reach or (None, None, None)
        doubtful, beyond = (None if x is None else round(x, 4) for x in (doubtful, beyond))
        nulls = self.nulls_at_most
        nulls = None if nulls is None else math.ceil(min(nulls / whole, 1.0) * 1e4) / 1e4
        most = math.ceil(most * 1e6) / 1e6
        return Fate(kept, clipped, other, missing, most, spread, seen, doubtful, beyond, nulls)


def prune_domain(first: First, noisy: np.ndarray, stddev: float) -> Pruned:
    """The attribute without what is not there. `noisy: int64[code]` of the first, with noise of `stddev`."""
    before = first.attribute
    counted = first.counted(noisy, stddev)
    noisy = counted.counts
    nulls = bool(before.nullable and noisy[before.size - 1] > CLEAR * stddev)
    facts = facts_of(first.found, required=not nulls)
    if before.type == "string":
        facts |= _categories(before, noisy, stddev, nulls)
    elif before.type != "boolean":
        facts |= _numbers(first, counted)
    if before.other == OTHER and before.type != "string":
        facts["other"] = OTHER
    elif not nulls and before.type != "string":
        facts["other"] = _most_frequent(first, noisy, facts)
    attribute = Attribute.model_validate(facts)
    codes, kept = _recoded(first, attribute)
    counts = np.zeros(attribute.size, dtype=np.int64)
    counts[codes[kept]] = noisy[kept]
    far = None
    if len(attribute.bin_codes):
        bins = np.flatnonzero(kept[before.bin_codes])
        far = reach(first, counted, bins, attribute, counts)
        edges = first.edges[[*bins, bins[-1] + 1]]
        counts[attribute.bin_codes] = evened(counts[attribute.bin_codes], counted.deviations[bins], edges)
    lost = float(noisy[~kept].sum())
    most = most_of(lost, stddev, int((~kept).sum()))
    spread = hidden_spread(first, counted, kept, attribute, counts)
    hidden = most_of(float(noisy[-1]), stddev, 1) if before.nullable and not nulls else None
    return Pruned(attribute, codes, kept, counts, 0.0, 0.0, most, spread, far, hidden).losing(lost)


def most_of(lost: float, stddev: float, codes: int) -> float:
    """The upper end of a 97.5 % interval of what noisy counts of so many codes say is `lost` (records)."""
    return max(lost + UPPER * stddev * codes**0.5, 0.0)


def with_losses(settled: Sequence[Pruned], measured: Sequence[Measurement]) -> list[Pruned]:
    """The same, knowing better how much of each column is lost, from what the others say of how many rows
    there are. `measured`: the first marginal of each, with noise of its own.

    What is lost is the sum of many noisy counts of codes that are mostly empty: noise alone made that a tenth
    of a column of two values. All columns have the same rows: those that the others count, less those that
    this one keeps, are lost, too, and that has the noise of few codes. Both are averaged by precision.
    """
    sums = np.array([float(m.noisy.sum()) for m in measured])
    precision = np.array([1 / (len(m.noisy) * m.stddev**2) for m in measured])
    better = []
    for at, (made, own) in enumerate(zip(settled, measured, strict=True)):
        others = np.arange(len(sums)) != at
        if made.attribute.other == OTHER or made.kept.all() or not others.any():
            better.append(made)
            continue
        rows, unsure = np.average(sums[others], weights=precision[others]), 1 / precision[others].sum()
        directly = 1 / (int((~made.kept).sum()) * own.stddev**2)
        by_others = 1 / (unsure + made.attribute.size * own.stddev**2)
        seen = made.clipped + made.other, rows - made.noisy.sum()
        lost = float(np.average(seen, weights=(directly, by_others)))
        most = most_of(lost, (directly + by_others) ** -0.5, 1)
        better.append(replace(made, moved_at_most=most).losing(lost))
    return better


def _categories(before: Attribute, noisy: np.ndarray, stddev: float, nulls: bool) -> dict[str, Any]:
    """Without `other` where hardly anything is left for it; then the most frequent value takes that, or null
    where that is all there is.
    """
    listed = before.values[:-1]
    if noisy[len(listed)] > CLEAR * stddev or not (listed or nulls):
        return {"categories": before.values, "other": OTHER}
    if not listed:
        return {"categories": ()}
    return {"categories": listed, "other": listed[int(np.argmax(noisy[: len(listed)]))]}


def _numbers(first: First, counted: Counted) -> dict[str, Any]:
    """Without the bins at both ends that are not clear, or without any where few values are all there is."""
    found, texts = first.found, first.attribute.sentinels
    few, ends = _few(first, counted), _ends(first, counted)
    if few is None and ends is None and len(first.values):  # popular values are all there is, however many
        few = first.values
    if few is not None:
        listed = in_json(found, few)
        if texts or found.unit == "number":  # of any number of digits: nothing says how they are written
            return {"specialValues": [*listed, *texts]}
        none = dict.fromkeys(("decimals", "zeros", "resolution"))
        return {"categories": listed, "categoriesOrdered": True, **none}
    counts = counted.counts[first.attribute.bin_codes][first.inner]
    most = int(np.argmax(counts))  # something is there, though nothing shows it
    low, high = ends or (most, most + 1)
    special, edges = first.attribute.special_values, first.inner_edges[low : high + 1]
    if ends and (found.unit != "date" or "%d" in (found.format or "%d")):  # else all are the first of one
        noise = counted.deviations[first.inner][low:high]
        before, beyond, edges = within_hard_ends(edges, counts[low:high], noise, found.step, first.values)
        low, high = low + before, low + beyond
    facts = {"edges": edges_in_json(found, edges), "specialValues": special or None}
    singles = _singles(first, edges, counts[low:high])
    if singles is not None:
        facts |= {"binValues": in_json(found, singles.units), "binWeights": singles.counts.tolist()}
    return facts | ({"multipleOf": found.multiple_of} if found.multiple_of > 1 else {})


def _ends(first: First, counted: Counted) -> tuple[int, int] | None:
    """The first of the inner bins in which something is seen, and the one behind the last, by bins or by
    blocks of them; None if nothing is. Where only a block is seen at an end, the bins of it from which on
    outwards the rest holds less than half a deviation a bin are left out. Where bins are parts of decades,
    those of the last one that is seen are kept that hold HELD deviations.
    """
    inner, begins = first.inner, counted.begins
    counts, deviations = counted.counts[first.attribute.bin_codes][inner], counted.deviations[inner]
    inside = (begins >= inner.start) & (begins <= inner.stop)
    begins = begins[inside] - inner.start
    sums, together = np.add.reduceat(counts, begins[:-1]), counted.together[inside[:-1] & inside[1:]]
    ends = _seen(first, first.inner_edges, counts, deviations)
    blocks = _seen(first, first.inner_edges[begins], sums, together)
    if blocks is None:
        return ends and _within_nature(first, ends, counts, deviations)
    first_block, last_block = (slice(*begins[at : at + 2]) for at in (blocks[0], blocks[1] - 1))
    outwards = counts - deviations / 2
    low = first_block.stop - 1 - int(np.argmax(np.cumsum(outwards[first_block][::-1])))
    high = last_block.start + 1 + int(np.argmax(np.cumsum(outwards[last_block])))
    if ends is None:  # of one block each end may be fullest
        ends = (low, high) if low < high else (high - 1, low + 1)
        return _within_nature(first, ends, counts, deviations)
    alone = first.found.edges is None  # of a decade that is seen the rest is near
    if ends[0] < first_block.stop:
        rest = (x[first_block.start : ends[0]][::-1] for x in (counts, deviations))
        low = ends[0] - (_held(HELD, *rest) if alone else 0)
    if ends[1] > last_block.start:
        rest = (x[ends[1] : last_block.stop] for x in (counts, deviations))
        high = ends[1] + (_held(HELD, *rest) if alone else 0)
    return _within_nature(first, (low, high), counts, deviations)


def _within_nature(
    first: First, ends: tuple[int, int], counts: np.ndarray, deviations: np.ndarray
) -> tuple[int, int]:
    """The same ends, but on the other side of 0 nothing where that does not stand out alone: most columns
    begin or end there, and beside much noise what lies beyond seemed to go on. Popular values there reach
    as far as they do: -200 often stands for missing.
    """
    (low, high), edges, values = ends, first.inner_edges, first.values
    zero = int(np.searchsorted(edges, 0))
    if low < zero < high and edges[zero] == 0:
        negative, positive = (
            seen_span(counts[side], deviations[side], ANYWHERE) for side in (slice(zero), slice(zero, None))
        )
        below, above = (edges.searchsorted(values[s], "right") for s in (values < 0, values > 0))
        if not negative and (positive or (values >= 0).any()):
            low = max(low, int(min(below - 1, default=zero)))
        elif negative and not positive:
            high = min(high, int(max(above, default=zero)))
    tops = [top + 1 for top in tops_of(first.found) if min([edges[low], *first.values]) in (0, 1)]
    for end in np.searchsorted(edges, tops).tolist():
        if low < end < high and edges[end] in tops:
            even = first.found.present / float(edges[end] - edges[low])
            if _stops(edges, counts, deviations, end, even / 2):
                return low, end
    return low, high


def _stops(edges: np.ndarray, counts: np.ndarray, deviations: np.ndarray, at: int, least: float) -> bool:
    """Whether nothing stands out from the bin `at` on, and what lies next to the one before, as far as that
    is wide, is clearly less than half as full, which is `least` for its width: it does not thin out.
    """
    width = edges[at] - edges[at - 1]
    full = counts[at - 1] / width
    to = min(int(np.searchsorted(edges, edges[at] + width)), len(counts))
    most = counts[at:to].sum() + 2 * math.sqrt((deviations[at:to] ** 2).sum())
    less = full > least and most < full * (edges[to] - edges[at]) / 2
    return bool(less and not seen_span(counts[at:], deviations[at:], ANYWHERE))


def _held(each: float, counts: np.ndarray, deviations: np.ndarray) -> int:
    """How many of the bins, outwards, hold most above so many deviations each."""
    return int(np.argmax(np.cumsum([0.0, *(counts - each * deviations)])))


def _seen(
    first: First, edges: np.ndarray, counts: np.ndarray, deviations: np.ndarray
) -> tuple[int, int] | None:
    """The first of the bins in which something is seen, or thins out, and the one behind the last. Of what
    thins out the outermost bins are left out that do not hold half a deviation each.
    """
    fine = first.found.edges is not None
    believed = discounted(counts, deviations, edges, first.span)
    ends = seen_span(believed, deviations, AT_ENDS if fine else ANYWHERE)
    if ends and fine:  # else a bin is a decade, and one too many is beyond all values
        first_bin, last = thinning(believed, deviations, edges, ends)
        sides = (slice(first_bin, ends[0]), -1), (slice(ends[1], last), 1)
        before, after = (_held(HALF, believed[s][::way], deviations[s][::way]) for s, way in sides)
        ends = ends[0] - before, ends[1] + after
    return ends


def _singles(first: First, edges: np.ndarray, counts: np.ndarray) -> Singles | None:
    """The values that bins are drawn from, where those were counted: by the marginal that was measured, what
    a bin holds is known far better than before. `edges: [bin + 1]`, `counts: int64[bin]`.
    """
    found, singles = first.found, None
    if found.cells is None:
        return None
    special = first.values.astype(found.cells.units.dtype)
    if found.single_counts is not None:
        cells = found.cells.within(edges, counts, special)
        singles = cells.seen(found.single_counts, found.single_stddev, special, edges, few=found.few)
    comb = found.cells.comb
    if comb is not None and (singles is not None or found.single_counts is None):
        singles = on_comb(singles or Singles.none(), comb, edges, special)
    return singles if singles is not None and len(singles.units) else None


def _free(first: First) -> tuple[np.ndarray, np.ndarray]:
    """(a unit of each bin that is no special value, whether it is the only one: bool)."""
    edges = first.edges
    if first.found.unit == "number":
        free = edges[:-1] / 2 + edges[1:] / 2
        for _ in first.values:  # a special value in the middle stands for itself, not for the bin
            free = np.where(np.isin(free, first.values), np.nextafter(free, edges[1:]), free)
        return free, np.zeros(len(edges) - 1, dtype=bool)
    step = STEPS.get(first.found.resolution or "", 1)
    fine, coarse = (DecodeGrid.of(edges, first.values, width) for width in (1, step))
    bins = np.arange(len(edges) - 1)
    return np.where(coarse.room > 0, coarse.value(bins, 0) * step, fine.value(bins, 0)), coarse.room <= 1


def _few(first: First, counted: Counted) -> np.ndarray | None:
    """The units of a column's numbers or moments where they are few and all there is, else None."""
    counts, deviations = counted.counts[first.attribute.bin_codes], counted.deviations
    free, single = _free(first)
    clear = single & (counts > level(int(single.sum())) * deviations)
    values = np.sort(np.concatenate([first.values, free[clear]]))
    if not 0 < len(values) <= FEW:
        return None
    left = np.where(clear, 0, counts)
    together = np.add.reduceat(left, counted.begins[:-1])
    if seen_span(left, deviations, ANYWHERE) or seen_span(together, counted.together, ANYWHERE):
        return None
    return values


def _most_frequent(first: First, noisy: np.ndarray, facts: dict[str, Any]) -> Any:
    """The value that what is missing or unreadable counts as where nothing has a code for it: the most
    frequent one, or the begin of the fullest bin.
    """
    before = first.attribute
    if before.type == "boolean":
        return bool(noisy[1] > noisy[0])
    units = np.concatenate([first.values, first.edges[:-1]])
    codes = np.concatenate([before.special_codes, before.bin_codes])
    values = in_json(first.found, units[np.argsort(-noisy[codes], kind="stable")])
    listed = facts.get("categories") or (None if "edges" in facts else facts["specialValues"])
    return next(value for value in [*values, *before.sentinels] if listed is None or value in listed)


def _recoded(first: First, attribute: Attribute) -> tuple[np.ndarray, np.ndarray]:
    """(the code that each code's values have now: int64[first code], whether it means the same: bool)."""
    before = first.attribute
    codes, kept = np.empty(before.size, dtype=np.int64), np.zeros(before.size, dtype=bool)
    if before.nullable:
        codes[-1] = attribute.size - 1 if attribute.nullable else attribute.fallback_code
        kept[-1] = attribute.nullable
    if before.categorical:
        at = {value: i for i, value in enumerate(attribute.values)}
        codes[: len(before.values)] = [at.get(value, attribute.fallback_code) for value in before.values]
        kept[: len(before.values)] = [value in at for value in before.values]
        return codes, kept
    special, found, (free, single) = first.values, first.found, _free(first)
    units = np.concatenate([free, special])
    column = from_units(before, units / found.scale if found.type == "number" else units)
    codes[np.concatenate([before.bin_codes, before.special_codes])] = encode(attribute, column)
    kept[before.special_codes] = True
    if attribute.categorical or not len(attribute.bin_codes):
        own = attribute.units if attribute.categorical else attribute.specials
        listed = np.rint(own * found.scale) if found.type == "number" and found.unit != "number" else own
        kept[before.bin_codes] = single & np.isin(free, listed)
    else:
        low, high = before.cuts[:-1], before.cuts[1:]  # the first and the last may have become narrower
        kept[before.bin_codes] = np.isin(low, attribute.cuts[:-1]) | np.isin(high, attribute.cuts[1:-1])
    texts = len(before.sentinels)
    if texts:
        old = len(before.bin_codes) + len(special) + np.arange(texts)
        codes[old] = attribute.size - attribute.nullable - texts + np.arange(texts)
        kept[old] = True
    return codes, kept
