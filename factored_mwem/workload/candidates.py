"""Candidates: the marginals that a round may choose to measure, each at certain levels of its attributes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.domain.levels import Levels, View
from factored_mwem.workload.queries.base import Span


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidate marginals as an index.

    `members: int32[candidate, slot]` are variables of `levels` in attribute order, padded with -1.

    A *base* is counted from the rows. Any other candidate is added up from the finer one that `coarse_of:
    int64[candidate]` names, and so at last from a base, `base_of`; a base names itself. Without `coarse_of`
    every candidate is a base. `weights:
    float64[candidate]` in (0, 1] say how much an error counts (None: 1); `ranged` are the attributes
    (positions) over which ranges are asked; `public` those whose joint counts are public: no marginal lies
    among these alone; `numbers` those that say how many rows there are.
    """

    domain: Domain
    members: np.ndarray
    at_levels: Levels | None = None
    coarse_of: np.ndarray | None = None
    weights: np.ndarray | None = None
    ranged: tuple[int, ...] = ()
    public: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()

    @classmethod
    def of(cls, domain: Domain, top: int, spans: Sequence[Span], own: int | None = None) -> Candidates:
        """All marginals of up to `top` attributes, of the first `own` if so many are asked for alone, then
        those that the spans hold beyond.
        """
        inside, own = _inside(spans, domain), len(domain) if own is None else own
        listed = sorted(sub for sub in inside if len(sub) > top or sub[-1] >= own)
        width = max([top, *map(len, listed)])
        parts = [_all_of(own, order, width) for order in range(1, top + 1)]
        padded = np.fromiter(
            (p for sub in listed for p in (*sub, *(-1,) * (width - len(sub)))), np.int32, len(listed) * width
        )
        members = np.concatenate([*parts, padded.reshape(-1, width)])
        ranged = {domain.index(name) for span in spans if span.ordered for name in span.names}
        weights = _weights(own, top, listed, inside)
        return cls(domain, members, weights=weights, ranged=tuple(sorted(ranged)))

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def levels(self) -> Levels:
        return self.at_levels if self.at_levels is not None else Levels.fine(self.domain.shape)

    @cached_property
    def names(self) -> Clique:
        """A name for each variable."""
        return self.levels.names(self.domain.names)

    @cached_property
    def finer(self) -> np.ndarray:
        return self.coarse_of if self.coarse_of is not None else np.arange(len(self), dtype=np.int64)

    @cached_property
    def base_of(self) -> np.ndarray:
        base = self.finer
        while (base[base] != base).any():
            base = base[base]
        return base

    @cached_property
    def sizes(self) -> np.ndarray:
        """int64[candidate, slot]: codes of each member, 1 where padded."""
        return np.append(self.levels.sizes, 1)[self.members]

    @cached_property
    def orders(self) -> np.ndarray:
        """int64[candidate]: attributes of each candidate."""
        return (self.members >= 0).sum(axis=1)

    @cached_property
    def cells(self) -> np.ndarray:
        """float64[candidate]: cells of each marginal; a float, so that a huge product cannot wrap around."""
        return self.sizes.astype(np.float64).prod(axis=1)

    @cached_property
    def attributes(self) -> np.ndarray:
        """int64[candidate, slot]: the attribute of each member, -1 where padded."""
        return np.append(self.levels.attribute, -1)[self.members]

    @cached_property
    def offsets(self) -> np.ndarray:
        """int64[candidate + 1]: where each base's counts begin in one flat array; the others have none."""
        own = np.where(self.base_of == np.arange(len(self)), self.cells, 0).astype(np.int64)
        return np.concatenate([[0], np.cumsum(own)]).astype(np.int64)

    @cached_property
    def coarse(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(first, which, steps) of the candidates that are no bases, for the scoring kernel.

        `which[first[b] : first[b + 1]]: int64` are those added up from base b, each after the one of them (or
        base) that it is coarser than: the candidate, that one, where the cells of both begin when all of a
        base are laid one after the other, and where in `steps: int32` those begin which say what each code of
        each axis of the second adds to the cell of the first.
        """
        depth, above = np.zeros(len(self), dtype=np.int64), self.finer
        while (above != self.base_of).any():
            depth, above = depth + (above != self.base_of), self.finer[above]
        derived = np.flatnonzero(self.base_of != np.arange(len(self)))
        derived = derived[np.lexsort((depth[derived], self.base_of[derived]))]
        first = np.searchsorted(self.base_of[derived], np.arange(len(self) + 1)).astype(np.int64)
        begin = np.zeros(len(self), dtype=np.int64)
        ends = np.cumsum([0, *self.cells[derived].astype(np.int64)])
        begin[derived] = ends[:-1] - ends[first[self.base_of[derived]]]
        begin[derived] += self.cells[self.base_of[derived]].astype(np.int64)
        which, parts, at = np.empty((len(derived), 5), dtype=np.int64), [np.zeros(0, dtype=np.int32)], 0
        for i, c in enumerate(derived.tolist()):
            fine = int(self.finer[c])
            steps = np.concatenate(self.levels.steps(self.positions(fine), self.positions(c)))
            which[i] = c, fine, begin[c], begin[fine], at
            parts.append(steps.astype(np.int32))
            at += len(steps)
        return first, which, np.concatenate(parts)

    def positions(self, candidate: int) -> View:
        return tuple(int(m) for m in self.members[candidate] if m >= 0)

    def clique(self, candidate: int) -> Clique:
        return tuple(self.domain.names[a] for a in self.attributes[candidate] if a >= 0)

    def combinations(self, chains: Sequence[View]) -> float:
        """How many combinations of these levels there are over all candidates."""
        lengths = np.array([*(len(c) for c in chains), 1], dtype=np.float64)
        return float(lengths[self.attributes].prod(axis=1).sum())

    def keep(self, mask: np.ndarray) -> Candidates:
        """The candidates where `mask: bool[candidate]` holds, each its own base."""
        weights = None if self.weights is None else self.weights[mask]
        return replace(self, members=self.members[mask], coarse_of=None, weights=weights)

    def without(self, public: Sequence[int]) -> Candidates:
        """Those that hold an attribute beside these, whose joint counts are `public`."""
        beside = np.asarray(~np.isin(self.members, [-1, *public])).any(axis=1)
        return replace(self.keep(np.asarray(beside)), public=tuple(public))

    def beside(self, others: Candidates) -> Candidates:
        """These and `others` of the same domain and levels, each with its own bases."""
        weights = None
        if self.weights is not None and others.weights is not None:
            weights = np.concatenate([self.weights, others.weights])
        return replace(
            self,
            members=np.concatenate([self.members, others.members]),
            coarse_of=np.concatenate([self.finer, len(self) + others.finer]),
            weights=weights,
        )

    def at(
        self, levels: Levels, most_cells: float, chains: Sequence[View] | None = None, *, above: float = 1.0
    ) -> Candidates:
        """These marginals at every combination of levels of more than `above` cells, and at most
        `most_cells`, with their bases.

        `chains`: the levels to combine of each attribute, from fine to coarse; all of them by default.
        """
        chain = [np.array(c, dtype=np.int64) for c in chains or levels.chains]
        lengths = np.array([*(len(c) for c in chain), 1])
        table = np.full((len(chain) + 1, int(lengths.max())), -1, dtype=np.int64)
        for a, variables in enumerate(chain):
            table[a, : len(variables)] = variables
        members, origin = self.members.astype(np.int64), np.arange(len(self))
        sizes = np.append(levels.sizes, 1)
        smallest = sizes[table[np.arange(len(chain) + 1), lengths - 1]]
        fits = smallest[members].astype(np.float64).prod(axis=1) <= most_cells
        members, origin = members[fits], origin[fits]
        for slot in range(members.shape[1]):
            attribute = members[:, slot]
            row = np.repeat(np.arange(len(members)), lengths[attribute])
            level = np.arange(len(row)) - np.repeat(
                np.cumsum(lengths[attribute]) - lengths[attribute], lengths[attribute]
            )
            chosen = table[attribute[row], level]
            members, origin = members[row], origin[row]
            members[:, slot] = chosen
            least = np.where(
                np.arange(members.shape[1]) <= slot, sizes[members], smallest[np.minimum(members, len(chain))]
            )
            fits = least.astype(np.float64).prod(axis=1) <= most_cells
            members, origin = members[fits], origin[fits]
        kept = sizes[members].prod(axis=1) > above
        members, origin = members[kept], origin[kept]
        weights = None if self.weights is None else self.weights[origin]
        finer = _finer(members, levels, chains or levels.chains)
        return replace(
            self, members=members.astype(np.int32), at_levels=levels, coarse_of=finer, weights=weights
        )


def over_components(ids: np.ndarray, value_of: np.ndarray) -> np.ndarray:
    """float64[row]: `value_of` summed over the components in each row of `ids`, each once; -1: the last."""
    ordered = np.sort(ids, axis=1)
    first = np.ones(ordered.shape, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return np.where(first, value_of[ordered], 0.0).sum(axis=1)


def _finer(members: np.ndarray, levels: Levels, chains: Sequence[View]) -> np.ndarray:
    """int64[candidate]: the next finer candidate, at one attribute or by one; itself where there is none."""
    count, width = members.shape
    rows = {tuple(row): i for i, row in enumerate(members.tolist())}
    parent = np.arange(count)
    finer = np.full(len(levels) + 1, -1, dtype=np.int64)
    for chain in chains:
        finer[list(chain[1:])] = chain[:-1]
    for slot in range(width):
        refined = members.copy()
        refined[:, slot] = finer[members[:, slot]]
        _adopt(parent, refined, np.flatnonzero(refined[:, slot] >= 0), rows)
    short = np.flatnonzero((members >= 0).sum(axis=1) < width)
    attribute = np.append(levels.attribute, len(levels.shape))
    for v in range(len(levels)):
        short = short[parent[short] == short]
        if not len(short):
            break
        orphans = short[(attribute[members[short]] != levels.attribute[v]).all(axis=1)]
        wider = np.concatenate([members[orphans, : width - 1], np.full((len(orphans), 1), v)], axis=1)
        order = np.argsort(attribute[wider], axis=1, kind="stable")
        _adopt(parent, np.take_along_axis(wider, order, axis=1), orphans, rows)
    return parent


def _adopt(
    parent: np.ndarray, wanted: np.ndarray, which: np.ndarray, rows: dict[tuple[int, ...], int]
) -> None:
    """Make the row `wanted[i]` the parent of candidate `which[i]` that has none, if it is a candidate.

    Where `wanted` has a row for every candidate, `which` says which of them to look at.
    """
    wanted = wanted[which] if len(wanted) == len(parent) else wanted
    for i, row in zip(which.tolist(), wanted.tolist(), strict=True):
        if parent[i] == i:
            parent[i] = rows.get(tuple(row), i)


def _inside(spans: Iterable[Span], domain: Domain) -> dict[tuple[int, ...], float]:
    """Every set of attributes (positions) that a span holds, with its largest weight."""
    weight_of: dict[tuple[int, ...], float] = {}
    for span in spans:
        positions = [domain.index(name) for name in domain.clique(span.names)]
        for order in range(1, min(span.order, len(positions)) + 1):
            for sub in itertools.combinations(positions, order):
                if weight_of.get(sub, 0.0) < span.weight:
                    weight_of[sub] = span.weight
    return weight_of


def _weights(
    attributes: int, top: int, listed: Sequence[tuple[int, ...]], inside: dict[tuple[int, ...], float]
) -> np.ndarray | None:
    """float64[candidate] in (0, 1], the largest 1, or None if all are alike.

    A plain marginal, of at most `top` attributes, weighs 1 or more before that.
    """
    if not inside or all(weight == 1.0 for weight in inside.values()):
        return None
    starts = [0, *itertools.accumulate(math.comb(attributes, order) for order in range(1, top + 1))]
    weights = np.ones(starts[-1] + len(listed))
    weights[starts[-1] :] = [inside[sub] for sub in listed]
    for sub, weight in inside.items():
        if len(sub) <= top and sub[-1] < attributes and weight > 1.0:
            weights[starts[len(sub) - 1] + _rank(sub, attributes)] = weight
    return None if (weights == weights.max()).all() else weights / weights.max()


def _rank(sub: tuple[int, ...], attributes: int) -> int:
    """The place of a set among all of its size, as itertools.combinations lists them."""
    rank, before = 0, -1
    for i, position in enumerate(sub):
        left = len(sub) - i
        rank += math.comb(attributes - before - 1, left) - math.comb(attributes - position, left)
        before = position
    return rank


def _all_of(attributes: int, order: int, width: int) -> np.ndarray:
    """int32[candidate, width]: all sets of `order` attributes, padded; streamed, as there may be millions."""
    members = np.full((math.comb(attributes, order), width), -1, dtype=np.int32)
    flat = itertools.chain.from_iterable(itertools.combinations(range(attributes), order))
    members[:, :order] = np.fromiter(flat, dtype=np.int32, count=len(members) * order).reshape(-1, order)
    return members
