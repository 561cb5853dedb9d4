"""First domain: from what discovery found to attributes that can be measured; public in, public out.

Generous on purpose: every bin and value that may be there has a code; prune.py takes out what is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from factored_mwem.domain.attribute import MARKERS, OTHER, Attribute, is_moment
from factored_mwem.domain.coarse_grids import coarse_grid, wide_grid
from factored_mwem.domain.grids import (
    FINE,
    GROWTH,
    LIKELY,
    MOST_BINS,
    across_zero,
    around_span,
    bins,
    cut_outwards,
    with_tails,
    with_values_left,
)
from factored_mwem.domain.singles import around
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.tables.codes.kinds import MOMENTS, written

BIN_NOISE = 4.0
"""A bin is meant to hold this many standard deviations of noise, or a MOST_BINS-th of the rows."""
FEW = 32
"""A column of at most so many values is a set of categories, whatever its type."""
TOLD = 2**50
"""Below this a whole number of steps and the next one are different floats in any unit."""
FURTHEST = 10**18
"""Whole numbers beyond are counted with those up to here, where all that lies beyond is counted."""
PART = 2.0
"""Standard deviations of its noise that a coarse cell at an end holds for each part that it is cut into."""
TOPS = (12, 23, 31, 59, 100)
"""Where whole numbers often end by nature: months, hours, days, minutes, per cent."""
NEAR = 4
"""Popular values within so many cells of the coarse grid, a decade, lie among the others."""


class Counted(NamedTuple):
    """`counts: int64[code]`; `deviations: float64[bin]`, the standard deviations of those of bins; `begins:
    int64[block + 1]`, the first bin of each block of bins that were counted together, too, and `together:
    float64[block]`, the standard deviations of their sums.
    """

    counts: np.ndarray
    deviations: np.ndarray
    begins: np.ndarray
    together: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class First:
    """An attribute to measure first, and what it is made from.

    `edges: [bins + 1]` and `values: [special]` are in the unit of `found`; a column of text has none.
    `beyond`: how many of the first and of the last bins are there for all that lies further out, which is
    counted so that nobody takes it to be kept.
    """

    found: FoundColumn
    attribute: Attribute
    edges: np.ndarray
    values: np.ndarray
    beyond: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, found: FoundColumn) -> First:
        """With a code for all that was found, and bins for what may lie beside it."""
        nothing = coarse_grid("integer")[:0]
        facts = facts_of(found, required=not found.column.nullable)
        empty = ("",) if found.empty else ()
        if found.type == "string":
            listed = [*sorted({*found.texts, *empty} - {OTHER}), OTHER]
            return cls(
                found,
                Attribute.model_validate({**facts, "categories": listed, "other": OTHER}),
                nothing,
                nothing,
            )
        if found.type == "boolean":
            return cls(found, Attribute.model_validate(facts), nothing, nothing)
        values = [value for value in found.values if found.can_be(value)]
        special = np.sort(np.array(values, dtype=coarse_grid(found.unit).dtype))
        inner = edges_of(found, special)
        edges, beyond = with_all_beyond(found, inner, special)
        facts |= {"edges": edges_in_json(found, edges)}
        words = {*found.texts, *empty} - set(MARKERS)
        texts = sorted(text for text in words if found.unit not in MOMENTS or not is_moment(text))
        if found.mixed and not texts:  # the column is text in any case, though no text of its own was found
            texts, facts["other"] = [OTHER], OTHER
        facts["specialValues"] = [*in_json(found, special), *texts] or None
        return cls(found, Attribute.model_validate(facts), edges, special, beyond)

    @property
    def inner(self) -> slice:
        """The bins that a column may have in the end."""
        return slice(self.beyond[0], len(self.edges) - 1 - self.beyond[1])

    @property
    def inner_edges(self) -> np.ndarray:
        """Theirs."""
        return self.edges[self.inner.start : self.inner.stop + 1]

    @property
    def without_beyond(self) -> Attribute:
        """The attribute without the bins beyond."""
        facts = self.attribute.model_dump(by_alias=True, exclude_unset=True)
        return Attribute.model_validate({**facts, "edges": edges_in_json(self.found, self.inner_edges)})

    @property
    def span(self) -> tuple[float, float]:
        """Where the column is known to be: the cells of discovery, and popular values; all where none are."""
        ends = self.found.edges if self.found.edges is not None else self.values
        known = np.concatenate([ends, self.values]) if len(ends) else self.inner_edges
        return known.min().item(), known.max().item()

    def counted(self, noisy: np.ndarray, stddev: float) -> Counted:
        """All that is known of the codes, averaged by precision: `noisy: int64[code]`, of `stddev`; what the
        second look of discovery saw of bins that consist of its cells; and what the first saw of blocks of
        bins that consist of its cells: of their sum noise hides less than of the bins one by one.
        """
        counts, bins, found = noisy.copy(), self.attribute.bin_codes, self.found
        if not len(self.edges):
            return Counted(counts, np.zeros(0), np.zeros(1, dtype=np.int64), np.zeros(0))
        rare = np.array([value in found.rare for value in self.values.tolist()], dtype=bool)
        held, squares = self._in_bins(noisy[bins], stddev, self.values[rare])
        at, exact = _on_grid(coarse_grid(found.unit), self.edges)
        begins = np.unique([0, self.inner.start, self.inner.stop, len(bins), *np.flatnonzero(exact)])
        own, noise = (np.add.reduceat(x, begins[:-1]) for x in (held, squares))
        if found.coarse is not None:
            low, high = at[begins[:-1]], at[begins[1:]]
            known = exact[begins[:-1]] & exact[begins[1:]]
            seen, unsure = np.diff(_sums(found.coarse)[at[begins]]), found.coarse_stddev**2 * (high - low)
            for value, code in zip(self.values[rare], self.attribute.special_codes[rare], strict=True):
                block = np.searchsorted(self.edges[begins], value, side="right") - 1
                if 0 <= block < len(seen):  # no bin holds it
                    seen[block], unsure[block] = seen[block] - noisy[code], unsure[block] + stddev**2
            share = np.where(known, 1 / (noise + np.maximum(unsure, 1)), 0.0)
            of = np.repeat(np.arange(len(own)), np.diff(begins))
            held, squares = held + squares * (share * (seen - own))[of], squares - squares**2 * share[of]
            noise = noise - noise**2 * share
        counts[bins] = np.rint(held)
        return Counted(counts, np.sqrt(squares), begins, np.sqrt(noise))

    def _in_bins(self, noisy: np.ndarray, stddev: float, rare: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(float64[bin]: the counts by `noisy: int64[bin]` and the second look; float64[bin]: the variances
        of their noise). `rare`: the values that were found later, and that look counted with their bins.
        """
        found, sums, precision = self.found, noisy / stddev**2, np.full(len(noisy), stddev**-2.0)
        if found.edges is not None and found.noisy is not None:
            at, exact = _on_grid(found.edges, self.edges)
            apart = np.histogram(rare, self.edges)[0] == 0
            known = np.flatnonzero(exact[:-1] & exact[1:] & apart)
            low, high = at[known], at[known + 1]
            total, weight = _sums(found.noisy), 1 / (found.cell_stddev**2 * (high - low))
            sums[known] += (total[high] - total[low]) * weight
            precision[known] += weight
        return sums / precision, 1 / precision


def _on_grid(grid: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(where on a grid each edge is: int64[edge], whether it is on it: bool[edge])."""
    at = np.minimum(np.searchsorted(grid, edges), len(grid) - 1)
    return at, grid[at] == edges


def _sums(cells: np.ndarray) -> np.ndarray:
    """int64[cell + 1]: what lies below each edge."""
    return np.concatenate([[0], np.cumsum(cells)])


def facts_of(found: FoundColumn, *, required: bool) -> dict[str, Any]:
    """The fields of an attribute that do not depend on its codes."""
    own = {
        "decimals": found.decimals,
        "zeros": found.zeros or None,
        "resolution": found.resolution,
        "timeZone": found.zone,
        "format": found.format,
    }
    facts = {
        "name": found.column.name,
        "type": found.type,
        "learnt": True,
        "constraints": {"required": required},
    }
    return facts | {name: value for name, value in own.items() if value is not None}


def edges_of(found: FoundColumn, values: np.ndarray) -> np.ndarray:
    """The edges of the bins beside the popular `values`, from end to end."""
    grid = coarse_grid(found.unit)
    if found.edges is None or found.noisy is None or found.coarse is None:
        edges = wide_grid(found.unit)
        if len(values) > 1:  # what else there is lies among them, or near
            edges = np.unique(np.concatenate([edges, among_values(values, found.tick)]))
    else:
        goal = max(float(found.noisy.sum()) / MOST_BINS, BIN_NOISE * found.cell_stddev)
        edges = bins(found.edges, found.noisy, found.cell_stddev, rows=goal, step=found.step)
        few = found.singles is not None and len(found.singles.units) + len(values) <= FEW
        if found.singles is not None and not (few and np.diff(found.edges).max() <= found.step):
            edges = around(edges, found.singles.units)
        first, last = np.searchsorted(grid, edges[[0, -1]])
        cells = np.diff(found.edges)
        widths = cells[:3].min().item(), cells[-3:].min().item()
        round_ends = around_span(grid, edges)
        inner = edges[[2, -3]] if len(edges) > 5 else edges[[0, -1]]
        edges = with_tails(edges, grid, widths, found.coarse > LIKELY * found.coarse_stddev)
        if found.unit not in MOMENTS:
            edges = across_zero(edges, grid, (found.edges[0].item(), found.edges[-1].item()))
            cell = np.clip(np.searchsorted(grid, edges[:-1], side="right") - 1, 0, len(grid) - 2)
            parts = (found.coarse[cell] / (found.coarse_stddev * PART)).astype(int)
            outside = (edges[:-1] >= max(inner[1], 0)) | (edges[1:] <= min(inner[0], 0))
            edges = cut_outwards(edges, np.where(outside, parts, 1), found.step)
        if found.unit == "integer":  # where a column ends by nature, at 100 %, many rows may lie
            told = round_ends[np.abs(round_ends) < TOLD]
            tops = np.array(tops_of(found), dtype=np.int64) + 1
            tops = tops[(tops > inner[1]) & (tops < edges[-1]) & (tops % found.step == 0)]
            edges = np.unique(np.concatenate([edges, told, told + 1, tops]))
        place = np.searchsorted(grid, values)
        among = values[(place >= first - NEAR) & (place <= last + NEAR)]
        if len(among):
            beyond = among[-1] + found.tick if found.unit != "number" else np.nextafter(among[-1], np.inf)
            edges = np.unique(np.concatenate([edges, [among[0], beyond]])).astype(grid.dtype)
    limits = limits_of(found)
    ends = max(edges[0], limits[0]), min(edges[-1], limits[1])
    edges = np.unique(np.array([e for e in [*edges, *ends] if ends[0] <= e <= ends[1]], dtype=grid.dtype))
    if found.type == "number":  # of huge ones several are one number, as a domain file has them
        edges = edges[np.unique(edges / found.scale, return_index=True)[1]]
    if found.unit == "date" and found.format and "%d" not in found.format:
        months = (edges - 1).astype("M8[D]").astype("M8[M]") + 1  # all dates are the first of one
        edges = np.unique(months.astype("M8[D]").astype(np.int64))
    if found.unit == "datetime":
        edges = np.unique(-(-edges // found.tick) * found.tick)
    if len(edges) < 2:
        least = max(limits[0], 0)
        edges = np.array([least, min(least + found.tick, limits[1])]).astype(grid.dtype)
    return with_values_left(edges, values.tolist(), found.tick, limits[1])


def tops_of(found: FoundColumn) -> list[int]:
    """The whole numbers that a column from 0 or 1 may end at by nature, if it does not thin out: its last
    cells are half as full as all are.
    """
    if found.unit != "integer" or found.scale != 1 or found.edges is None or found.noisy is None:
        return []
    last, whole = found.edges[-4:], found.edges[[0, -1]]
    full = found.noisy[-3:].sum() / np.ptp(last) >= found.noisy.sum() / np.ptp(whole) / 2
    return [top for top in TOPS if full and 0 <= found.edges[0] <= top // 4]


def limits_of(found: FoundColumn) -> tuple[float, float]:
    """The least unit that the column can hold, and what is beyond the greatest."""
    least, most = found.bounds
    if found.unit == "number":
        return least, most
    return math.ceil(least), (int(most) // found.tick + 1) * found.tick


def with_all_beyond(
    found: FoundColumn, edges: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, tuple[int, int]]:
    """The edges with a bin at either end for all that lies further out, where anything can, and how many
    there are at each end. `values`: the popular ones, which are in no bin.
    """
    whole = found.unit == "integer"
    ends = (-FURTHEST, FURTHEST) if whole else coarse_grid(found.unit)[[0, -1]].tolist()
    limits = limits_of(found)
    least, most = max(ends[0], limits[0]), min(ends[1], limits[1])
    few = len(values) * found.tick if found.unit != "number" else 0
    near = FURTHEST // 2 if whole else np.inf  # what lies further out is beyond already
    before = int(least + few < edges[0] and -near <= edges[0])
    after = int(edges[-1] + few < most and edges[-1] <= near)
    further = np.array([least, most], dtype=edges.dtype)
    return np.concatenate([further[:before], edges, further[2 - after :]]), (before, after)


def among_values(values: np.ndarray, tick: int) -> np.ndarray:
    """Edges around popular `values`, from the first to beyond the last, and bins outside that get wider: the
    first as wide as the values lie apart.
    """
    gap = np.median(np.diff(values)).item()
    inner = values[:: -(-len(values) // FEW)]
    beyond = values[-1] + tick if values.dtype == np.int64 else np.nextafter(values[-1], np.inf)
    outside = gap * np.cumsum(float(GROWTH) ** np.arange(FINE))
    edges = np.concatenate([values[0] - outside, inner, [beyond], beyond + outside])
    return (np.rint(edges) if values.dtype == np.int64 else edges).astype(values.dtype)


def in_json(found: FoundColumn, units: np.ndarray) -> list[Any]:
    """Units as the values that a domain file has."""
    return written(found.type, units, steps=int(found.scale))


def edges_in_json(found: FoundColumn, edges: np.ndarray) -> list[Any]:
    """Edges as a domain file has them: there the last one is inclusive."""
    if found.unit != "number":
        edges = np.concatenate([edges[:-1], (edges[-1:] - 1) // found.tick * found.tick])
    return in_json(found, edges)
