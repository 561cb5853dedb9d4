"""Grids: cells of a column's numbers or moments in which something is seen, and bins made from noisy counts.

Everything here is a function of public facts and noisy answers. Edges are int64 where values are whole
numbers of something (integers, hundredths, days, microseconds), else float64; a cell holds low <= x < high.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from factored_mwem.domain.coarse_grids import NINES

CLEAR = 4.5
"""Deviations of noise from which a cell is believed: noise lifts one of 130 in 2,000 columns."""
THIN = 2.0
"""A cell below this many standard deviations may be empty: it joins its like, not its full neighbours."""
PIECES = 64
"""Cells that a column's span is cut into for a second look, about."""
CROWDED = 1 / 8
"""The share of all that a cell may hold before it is cut, and looked at again: one in which nearly all lies
says nothing of where it lies there.
"""
MOST_BINS = 128
"""Bins of a column at most, about."""
SINGLE = 64
"""Whole numbers within a span of at most so many have a bin each."""
ENDS = 8
"""The same of a cell at each end of the span, at least: there a column must not seem wider than it is."""
AT_END = 1.5
"""Standard deviations of its noise that a bin at either end is meant to hold, in up to half of ENDS parts."""
ODDS = 1 / 500
"""How often noise alone is believed, in all cells or bins of a column together."""
AT_ENDS = 1 / 100
"""The same at its ends, where bins are narrow: one too many does little harm there, and so does one less."""
ANYWHERE = 1 / 5000
"""The same of what lies far from all else, which changes means however little it is."""
WINDOWS = (1, 2, 4, 8, 16, 32)
"""Cells that may be clear as a whole though each is thin."""
TAILS = (1, 2, 3, 6)
"""Steps on the coarse grid, three a decade, of the bins beyond the span: what little lies there is measured,
and the bins are kept where it is clear.
"""
FINE, GROWTH = 4, 3
"""Bins beyond each end of the span, the first as wide as its last cells, and how many times as wide as the
one before each is.
"""
NEARLY = 1.5
"""How many times as wide as the span a bin beyond it is, of which a whole deviation is not believed."""
ASIDE = 8
"""How many times as far from the span as a bin is wide it may lie and count as no wider: 9999 is a bin of one
value, and where noise filled it values of at most 300 came out with nine times their deviation. On 45 tables
ends five times the span away are half as many with it, and rows beyond the ends .2 % more.
"""
APART = 1.5
"""How many times as far from 0 as one end of a bin the other may be, where much lies at a column's end."""
LIKELY, FAR = 1.5, 8
"""Standard deviations from which a coarse cell beyond the span is a bin, and up to how many cells beyond."""
THINS, THINS_OUT = 2.0, 3.0
"""Standard deviations from which what thins out beyond an end is believed: of bins, and of coarse cells. Of
bins on 40 tables: where THINS is 3 and NEARLY 4, fewer means and deviations come out right, and columns that
seem too wide are more, and wider.
"""
STANDS = 3.0
"""Standard deviations that a bin holds which is taken as it was counted; those further out are evened."""
MULTIPLES = (1, *(first * 10**e for e in range(7) for first in (5, 10)))
"""What whole numbers are rounded to, each a multiple of the one before."""
UNROUNDED = 0.1
"""The share of a column's numbers that may be no multiple of what they are rounded to, noise and all."""
NEAR_ZERO = 1 / 256
"""Of the furthest clear cell: cells closer to 0, in which nothing is seen, are of no use."""
WITHIN = 8.0
"""Times the size of what is clear that what is not may be, to be looked at again."""
DECADES = 100.0
"""Numbers further apart than so many times are cut by their magnitude."""
ACROSS, PARTS, NEAR = 5.0, 5, 0.1
"""Bins on the other side of 0 of a span that begins within the part NEAR of it: how many times as near to 0
each is as the one before, and how many.
"""


def clear_span(
    noisy: np.ndarray, stddev: float, level: float = CLEAR, widths: Sequence[int] = (3, 10, 30)
) -> tuple[int, int] | None:
    """The first and the last cell (beyond) whose noisy count stands out by `level` standard deviations, alone
    or together with neighbours, as many as `widths` say; None if none does.
    """
    clear = noisy > level * stddev
    for width in widths:  # what is thin may be clear as a whole
        for start in range(0, len(noisy), width):
            block = slice(start, start + width)
            left = np.where(clear[block], 0, noisy[block])
            if left.sum() > level * stddev * math.sqrt(width):
                clear[block] = True
    places = np.flatnonzero(clear)
    return (int(places[0]), int(places[-1]) + 1) if len(places) else None


def thinned_span(
    noisy: np.ndarray, stddev: float, grid: np.ndarray, span: tuple[int, int]
) -> tuple[int, int]:
    """The `span` of a coarse grid with the cells beside it that hold what thins out, on the other side of 0
    too, but none further from 0 than WITHIN times the span.
    """
    low, high = thinning(noisy, np.full(len(noisy), stddev), grid, span, weak=1, least=THINS_OUT)
    reach = WITHIN * float(np.abs(grid[list(span)]).max())
    least, most = np.searchsorted(grid, [-reach, reach]).tolist()
    return min(span[0], max(low, least)), max(span[1], min(high, most))


def near_zero_together(edges: np.ndarray, noisy: np.ndarray, stddev: float) -> tuple[np.ndarray, np.ndarray]:
    """(edges, noisy counts) of the same cells, but for those that may be empty and lie closer to 0 than
    NEAR_ZERO of the furthest clear cell: they are one on each side, in which nothing is. On a grid of
    magnitudes forty cells lie between -.1 and .1, and their noise together hid what lay beyond.
    """
    ends = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    furthest = float(ends[noisy > CLEAR * stddev].max(initial=0))
    tiny = (noisy <= THIN * stddev) & (ends < NEAR_ZERO * furthest)
    first = tiny & ~np.concatenate([[False], tiny[:-1] & (edges[1:-1] != 0)])
    kept = ~tiny | first
    return np.append(edges[:-1][kept], edges[-1:]), np.where(tiny, 0, noisy)[kept]


def level(cells: int, odds: float = ODDS) -> float:
    """Standard deviations that noise alone reaches in one of `cells` with a probability of `odds`."""
    return NormalDist().inv_cdf(1 - odds / max(cells, 1))


def seen_span(noisy: np.ndarray, stddev: np.ndarray | float, odds: float = AT_ENDS) -> tuple[int, int] | None:
    """The first and the last cell (beyond) in which something is seen, alone or together with those further
    in; None if nothing is. `stddev: float[cell]`, or one for all.

    A run of cells is clear where its sum stands out by `level`. Of the runs at an end, the shortest of those
    whose inner end lies furthest out holds something, and what lies further out is not seen: so the column
    ends there or, going outwards inside the run, where its cells hold most above half a deviation each.
    """
    counts = np.asarray(noisy, dtype=np.float64)
    deviations = np.broadcast_to(np.asarray(stddev, dtype=np.float64), counts.shape)
    sides = ((counts, deviations), (counts[::-1], deviations[::-1]))
    first, last = (_outermost(c, d, level(len(counts), odds)) for c, d in sides)
    if first is None or last is None:
        return None
    low, high = sorted((first, len(counts) - 1 - last))
    return low, high + 1


def _outermost(counts: np.ndarray, deviations: np.ndarray, least: float) -> int | None:
    """The first cell, from the left, in which something is seen: `least` standard deviations."""
    sums, squares = (np.concatenate([[0.0], np.cumsum(x)]) for x in (counts, deviations**2))
    runs: list[tuple[int, int]] = []
    for width in (width for width in WINDOWS if width <= len(counts)):
        clear = sums[width:] - sums[:-width] > least * np.sqrt(squares[width:] - squares[:-width])
        runs += [(int(begin) + width - 1, width) for begin in np.flatnonzero(clear)[:1]]
    if not runs:
        return None
    at, width = min(runs)
    begin = at - width + 1
    outwards = (counts - deviations / 2)[begin : at + 1][::-1]
    return at - int(np.argmax(np.cumsum(outwards)))


def thinning(
    noisy: np.ndarray,
    stddev: np.ndarray,
    edges: np.ndarray,
    ends: tuple[int, int],
    weak: int = 0,
    least: float = THINS,
) -> tuple[int, int]:
    """`ends`, the first and the last bin (beyond) in which something is seen, with those further out that
    hold what thins out: too little to be seen, but what a mean is made of. `noisy`, `stddev: float[bin]`.
    `weak`: how often the way out may lead through bins that show nothing, as those around 0. `least`: from
    how many standard deviations together it is believed.
    """
    first, last = ends
    widths = np.diff(edges.astype(np.float64))
    sides = slice(first, None, -1), slice(last - 1, None)  # each from the last bin inside outwards
    before, after = (_thins(noisy[side], stddev[side], widths[side], weak, least) for side in sides)
    return first - before, last + after


def _thins(counts: np.ndarray, deviations: np.ndarray, widths: np.ndarray, weak: int, least: float) -> int:
    """How many bins after the first one hold something, if none is fuller for its width than the one before
    it: least squares (isotonic regression) make blocks of equally full bins. As many are kept, outwards, as
    explain what was seen by `least` standard deviations together, and by one each.
    """
    inner = float(widths[0])
    times = np.maximum(np.minimum(widths[1:], inner * 2.0**64) / inner, 2.0**-64)
    precision = times / deviations[1:] ** 2
    blocks = _falling(counts[1:] * precision, times * precision)
    kept = reached = 0
    evidence = 0.0
    for sums, squares, bins in blocks:
        full = min(sums / squares, float(counts[0]))
        gain = full * (2 * sums - full * squares)
        weak -= gain < 1
        if full <= 0 or weak < 0:
            break
        evidence, reached = evidence + gain, reached + bins
        kept = reached if evidence >= least**2 else kept
    return kept


def _falling(sums: np.ndarray, weights: np.ndarray) -> list[tuple[float, float, int]]:
    """Neighbours together, so that sum / weight falls from one to the next: (sum, weight, how many)."""
    blocks: list[tuple[float, float, int]] = []
    for sum_, weight in zip(sums.tolist(), weights.tolist(), strict=True):
        block = sum_, weight, 1
        while blocks and block[0] * blocks[-1][1] > blocks[-1][0] * block[1]:
            last = blocks.pop()
            block = last[0] + block[0], last[1] + block[1], last[2] + block[2]
        blocks.append(block)
    return blocks


def evened(noisy: np.ndarray, stddev: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """int64[bin]: the noisy counts; of those that lie further out than all that stand out by STANDS
    deviations, none is fuller for its width than the one before it: where one is, both share what they hold
    together, by width. So what lies below 0 by noise, and counts as 0 when rows are drawn, is set off against
    what noise put into bins next to it: else there are too many rows far out. `stddev: float[bin]`.
    """
    widths, counts = np.diff(edges.astype(np.float64)), np.array(noisy, dtype=np.float64)
    stands = np.flatnonzero(counts > STANDS * stddev)
    if not len(stands):
        return noisy
    for rest in (slice(stands[-1] + 1, None), slice(None, stands[0])):
        outwards = slice(None, None, -1 if rest.start is None else 1)
        wide, last = widths[rest][outwards], 0
        shared = np.zeros(len(wide))
        for held, width, size in _falling(counts[rest][outwards], wide):
            shared[last : last + size] = held * (wide[last : last + size] / width)  # widths may be tiny
            last += size
        counts[rest] = shared[outwards]
    even: np.ndarray = np.rint(counts).astype(np.int64)
    return even


def rounded_to(noisy: np.ndarray, stddev: float) -> int:
    """The greatest of MULTIPLES that nearly all whole numbers are multiples of, from noisy counts of those of
    which it is the greatest; 1 where too few are there to tell.
    """
    total, best = float(noisy.sum()), 1
    if total > CLEAR * stddev * math.sqrt(len(noisy)):
        for i, multiple in enumerate(MULTIPLES[1:], start=1):
            if noisy[:i].sum() + stddev * math.sqrt(i) > UNROUNDED * total:
                break
            best = multiple
    return best


def cut(low: float, high: float, pieces: int, *, whole: bool, step: int = 1) -> np.ndarray:
    """The edges of about `pieces` equal cells from low to high, both included; whole ones at multiples of
    `step`. Where magnitudes lie between, cells are equal in those.
    """
    if whole:
        width = (int(high) - int(low)) / pieces
        step = max(step, 10 ** math.floor(math.log10(width / 2)) if step == 1 and width > 2 else 1)
        inner = [int(low) + (int(high) - int(low)) * i // pieces for i in range(1, pieces)]
        inner = [-(-edge // step) * step for edge in inner]
        kept = sorted({edge for edge in inner if low < edge < high})
        return np.array([int(low), *kept, int(high)], dtype=np.int64)
    if (low > 0 and high / DECADES > low) or (high < 0 and low / DECADES < high):
        between = np.geomspace(low, high, pieces + 1)[1:-1].tolist()
        return np.array([low, *(float(f"{edge:.2e}") for edge in between), high])
    width = (high - low) / pieces
    digits = min(max(2 - math.floor(math.log10(width)), 0), 300) if width > 0 else 0
    inside = np.unique(np.round(np.linspace(low, high, pieces + 1)[1:-1], digits))
    return np.array([low, *inside[(inside > low) & (inside < high)], high])


def refine(edges: np.ndarray, noisy: np.ndarray, stddev: float, *, pieces: int, step: int = 1) -> np.ndarray:
    """The same cells, each cut in proportion to its noisy count into `pieces` in all, about; those that may
    be empty as they are. A short span of whole numbers: a cell each.
    """
    whole = edges.dtype == np.int64
    if whole and (edges[-1] - edges[0]) // step <= SINGLE:
        return cut(edges[0], edges[-1], int(edges[-1] - edges[0]) // step or 1, whole=True, step=step)
    mass = np.where(noisy > THIN * stddev, noisy, 0).astype(np.float64)
    parts = np.ceil(mass / max(mass.sum(), 1e-9) * pieces).astype(int)
    least = np.where(mass > CLEAR * stddev, 4, 1)
    least[[0, -1]] = ENDS
    return _cut_up(edges, np.maximum(parts, least).tolist(), step)


def zoom(edges: np.ndarray, noisy: np.ndarray, stddev: float, *, pieces: int, step: int = 1) -> np.ndarray:
    """The same cells, those that are crowded cut in proportion to their noisy count into `pieces`, about, if
    all lay in them; all as they are where none is, or none can be cut.
    """
    total = max(float(noisy[noisy > THIN * stddev].sum()), 1.0)
    crowded = noisy > max(CROWDED * total, CLEAR * stddev)
    parts = np.where(crowded, np.ceil(noisy / total * pieces), 1).astype(int)
    return _cut_up(edges, parts.tolist(), step)


def _cut_up(edges: Sequence[float] | np.ndarray, pieces: Sequence[int], step: int) -> np.ndarray:
    """The edges of each cell's pieces."""
    whole = isinstance(edges[0], np.int64)
    cells = zip(edges[:-1], edges[1:], pieces, strict=True)
    parts = [cut(low, high, count, whole=whole, step=step)[:-1] for low, high, count in cells]
    return np.concatenate([*parts, edges[-1:]])


def bins(edges: np.ndarray, noisy: np.ndarray, stddev: float, *, rows: float, step: int = 1) -> np.ndarray:
    """Edges of bins of about `rows` each: neighbouring cells together, large ones cut. Cells that may be
    empty make bins of their own, so that steps and gaps stay where they are. A short span of whole numbers
    stays.
    """
    whole = edges.dtype == np.int64
    if whole and (edges[-1] - edges[0]) // step <= SINGLE:
        return edges
    kept, masses, thin_before = [edges[0]], [0.0], None
    for low, count in zip(edges[:-1], noisy.tolist(), strict=True):
        thin = count < THIN * stddev
        if thin_before is not None and (thin != thin_before or (not thin and masses[-1] + count / 2 > rows)):
            kept.append(low)
            masses.append(0.0)
        masses[-1] += max(count, 0.0)
        thin_before = thin
    kept.append(edges[-1])
    parts = [max(round(mass / rows), 1) for mass in masses]
    full = [i for i, mass in enumerate(masses) if mass > THIN * stddev]
    for end in {*full[:1], *full[-1:]}:  # where in it a column ends is to be seen
        parts[end] = max(parts[end], min(int(masses[end] / stddev / AT_END), ENDS // 2))
    return _cut_up(kept, parts, step)


def with_tails(
    edges: np.ndarray, grid: np.ndarray, widths: Sequence[float], likely: np.ndarray
) -> np.ndarray:
    """The edges with wider and wider bins on both sides: as wide as `widths` says of that side, then each
    GROWTH times as wide as the one before, then cells of the coarse grid; those that are `likely`
    (bool[cell]) on their own. One ends at 0 in any case.
    """
    first = int(np.searchsorted(grid, edges[0], side="left"))
    last = int(np.searchsorted(grid, edges[-1], side="right")) - 1
    at = np.flatnonzero(likely)
    at = at[(at >= first - FAR) & (at < last + FAR)]
    limits = np.isin(np.abs(grid), [*NINES, *(nines + 1 for nines in NINES)])
    steps = np.cumsum(float(GROWTH) ** np.arange(FINE))
    fine = np.concatenate([edges[0] - steps * widths[0], edges[-1] + steps * widths[1]])
    if grid.dtype == np.float64:
        fine = np.array([float(f"{edge:.3g}") for edge in fine.tolist()])
    near = _reach(grid[~limits], edges)
    fine = fine[(near[0] < fine) & (fine < near[1])]
    fine = np.append(edges, np.rint(fine).astype(grid.dtype) if grid.dtype == np.int64 else fine)
    chosen = np.concatenate([[first - step for step in TAILS], [last + step for step in TAILS]])
    chosen = chosen[(chosen >= 0) & (chosen < len(grid))].astype(int)
    outside = (grid[chosen] < fine.min()) | (grid[chosen] > fine.max()) | limits[chosen]
    beyond = np.concatenate([fine, grid[chosen[outside]], grid[at], grid[at + 1]])
    beyond = beyond[(beyond < edges[0]) | (beyond > edges[-1])]
    extended = np.unique(np.concatenate([beyond, edges]))
    return np.unique(np.append(extended, grid.dtype.type(0))) if extended[0] < 0 < extended[-1] else extended


def across_zero(edges: np.ndarray, grid: np.ndarray, span: tuple[float, float]) -> np.ndarray:
    """The edges, where the `span` lies on one side of 0 and comes near it, with bins on the other side as far
    out as it goes, at places of the coarse grid, and no others there. The cells of that grid next to 0 are so
    small that bins beyond a span which begins there ended at a hundredth of it: debts were lost.
    """
    sign = 1 if span[0] >= 0 else -1
    near, far = sorted(map(abs, span))
    if span[0] < 0 < span[1] or near > NEAR * far:
        return edges
    places = np.searchsorted(grid, -sign * far / ACROSS ** np.arange(PARTS))
    other = grid[np.clip(places, 0, len(grid) - 1)]
    return np.unique(np.concatenate([edges[edges * sign >= 0], other[other * sign < 0], grid[grid == 0]]))


def cut_outwards(edges: np.ndarray, most: np.ndarray, step: int = 1) -> np.ndarray:
    """The edges with those bins cut that reach further from 0 than APART times as far as they begin, into
    `most` parts at most (int64[bin]), equally in magnitude: at numbers of two digits, or multiples of `step`.
    """
    low, high = edges[:-1].astype(np.float64), edges[1:].astype(np.float64)
    near, far = np.minimum(abs(low), abs(high)), np.maximum(abs(low), abs(high))
    parts = [edges]
    for i in np.flatnonzero((most > 1) & (np.sign(low) == np.sign(high)) & (far > APART * near)):
        times = math.log(far[i]) - math.log(near[i])
        pieces = min(math.ceil(times / math.log(APART)), int(most[i]))
        inner = np.array([float(f"{x:.2g}") for x in np.geomspace(low[i], high[i], pieces + 1)[1:-1]])
        inner = np.rint(inner / step) * step if edges.dtype == np.int64 else inner
        parts.append(inner[(low[i] < inner) & (inner < high[i])].astype(edges.dtype))
    return np.unique(np.concatenate(parts))


def around_span(grid: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The nearest round places of a coarse grid at or below the first edge, and at or beyond the last."""
    places = grid[~np.isin(np.abs(grid), NINES)]
    below = int(np.searchsorted(places, edges[0], side="right")) - 1
    beyond = int(np.searchsorted(places, edges[-1], side="left"))
    return places[[max(below, 0), min(beyond, len(places) - 1)]]


def _reach(grid: np.ndarray, edges: np.ndarray) -> tuple[float, float]:
    """The edges of a coarse grid that lie two cells beyond both ends."""
    low = max(int(np.searchsorted(grid, edges[0], side="left")) - 2, 0)
    high = min(int(np.searchsorted(grid, edges[-1], side="right")) + 1, len(grid) - 1)
    return grid[low].item(), grid[high].item()


def discounted(
    noisy: np.ndarray, stddev: np.ndarray, edges: np.ndarray, span: tuple[float, float]
) -> np.ndarray:
    """float64[bin]: the noisy counts; of bins beyond the `span` in which a column is known to be the more
    deviations less the wider they are: log2(1 + width / span / NEARLY), narrow ones the further away they
    lie. For what is far away changes means and deviations more than all else, and noise alone must not bring
    it there. Of one value, its size is the span; of 0 alone nothing is known.
    """
    low, high = map(float, span)
    known = (high - low) or abs(low) or math.inf
    beyond = (edges[1:] <= low) | (edges[:-1] >= high)
    ends = edges.astype(np.float64)
    widths = np.maximum(np.diff(ends), np.maximum(ends[:-1] - high, low - ends[1:]) / ASIDE)
    widths = np.minimum(widths, 2.0**64 * known)
    times = np.where(beyond, widths / known, 0.0)
    less: np.ndarray = noisy - np.log2(1 + times / NEARLY) * stddev
    return less


def with_values_left(
    edges: np.ndarray, special: Sequence[float], tick: int = 1, end: float = math.inf
) -> np.ndarray:
    """The edges but for those of bins of whole numbers that hold special values alone: their neighbour takes
    them in. Where nothing at all is left, the next value beyond is that none takes, or where all up to `end`
    are taken, the one before. Values are `tick` apart.
    """
    if edges.dtype != np.int64:
        return edges
    if tick > 1:
        return with_values_left(edges // tick, [value // tick for value in special], 1, end // tick) * tick
    taken = np.unique(np.asarray(special, dtype=np.int64))
    kept = [int(edges[0])]
    for high in edges[1:].tolist():
        inside = np.searchsorted(taken, high) - np.searchsorted(taken, kept[-1])
        if high - kept[-1] > inside:
            kept.append(high)
    if len(kept) > 1:  # where the last bins were full, the last that was not takes them in
        kept[-1] = int(edges[-1])
    else:
        low, high, every = kept[0], int(edges[-1]), {*taken.tolist()}
        while high in every:
            high += 1
        if high < end:
            kept.append(high + 1)
        else:
            while low in every:
                low -= 1
            kept = [low, int(edges[-1])]
    return np.array(kept, dtype=np.int64)
