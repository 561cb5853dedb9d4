"""Scores: NOT PRIVATE. What an attacker who knows all others reads off one release about one person.

Of whether the person is in the table:
- `likelihood`: the log likelihood ratio of the published noisy answers, with the person against without: by
  Neyman and Pearson no test of these answers is stronger.
- `pairs`: how much oftener the released rows hold the person's values, and pairs of values, than the other
  people do: the attack on generators that are fitted to marginals (MAMA-MIA: Golob et al. 2024).
- `density`: the density of the released rows at the person over that of the other people (DOMIAS: van
  Breugel, Sun, Qian, van der Schaar 2023), by a kernel on categories.
- `distance`: how near the closest released row is (distance to closest record).

Of one value of the person, whose others are known, whether it is guessed rightly: `value, likelihood` by the
most likely value given the noisy answers, `value, nearest` by what the nearest released rows have (Giomi,
Boenisch, Wehmeyer, Tasnadi 2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from factored_mwem.accounting.conversion import Composition
from factored_mwem.owner.evaluation.readings import ReadColumn
from factored_mwem.pipeline.result import Release
from factored_mwem.privacy.session import NoiseScale
from factored_mwem.tables.codes.codec import encode
from factored_mwem.tables.inputs.source import Private
from factored_mwem.workload.residual_basis import Transform

SMOOTHED = 0.2
"""What the kernel of `density` gives to other values of a column, all together."""
MOST_ROWS = 8
"""Rows of a person that are compared with released rows."""
MOST_CELLS = 2**16
"""Answers of a measurement that canaries are guessed from."""
SCORES = ("likelihood", "pairs", "density", "distance", "value, likelihood", "value, nearest")


class Aim(NamedTuple):
    """One person: the numbers of their `rows`, and of the rows that are there `instead` where they are out;
    `kind`: an outlier, or about average.
    """

    kind: str
    rows: tuple[int, ...]
    instead: tuple[int, ...]


class Move(NamedTuple):
    """What comes into a table: row numbers, and what each weighs, negative where it goes."""

    rows: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pool(Private):
    """The rows that take part. `weights: float64[row]`: what each counts among the private counts, in
    people; `sensitive`: the column whose value is guessed, of no name if none is.
    """

    columns: dict[str, ReadColumn]
    weights: np.ndarray
    sensitive: str


@dataclass(slots=True, eq=False, repr=False)
class NoisyPart(Private):
    """Noisy answers of one measurement, and which of them each row belongs to: `cells: int64[row]`; of
    residuals, what makes answers of a table over these cells.
    """

    noisy: np.ndarray
    scale: NoiseScale
    cells: np.ndarray
    size: int
    transform: Transform | None = None
    weights: np.ndarray | None = None

    def exact(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """float64[answer] of the rows of these numbers."""
        table = np.bincount(self.cells[rows], weights, minlength=self.size)
        if self.transform is None or self.weights is None:
            return table
        return (self.transform.forward(table) * self.weights)[self.weights > 0]

    def change(self, move: Move) -> tuple[np.ndarray, np.ndarray]:
        """(int64: which answers a move changes, float64: by how much)."""
        if self.transform is not None:
            change = self.exact(move.rows, move.weights)
            return np.flatnonzero(change), change[change != 0]
        at, place = np.unique(self.cells[move.rows], return_inverse=True)
        return at, np.bincount(place, move.weights)

    def ratio(self, without: np.ndarray, move: Move) -> float:
        """The log likelihood ratio of the noisy answers, with the move against without; `without`: the exact
        answers then, `float64[answer]`.
        """
        at, change = self.change(move)
        off = self.noisy[at] - without[at]
        if self.scale.composition is Composition.ZCDP:
            return float((change * (2 * off - change)).sum() / (2 * self.scale.stddev**2))
        return float((np.abs(off) - np.abs(off - change)).sum() / self.scale.value)


@dataclass(eq=False, repr=False)
class AttackedRelease(Private):
    """A release before an attacker who knows the pool. `present: int64`: the rows that are in the table, all
    that are aimed at among them.
    """

    release: Release
    pool: Pool
    present: np.ndarray
    rows: pa.Table | None = None
    """The released rows, where they are not drawn from this model alone."""

    @property
    def grains(self) -> int:
        """What one person weighs in the noisy answers."""
        people = self.release.manifest.people
        return people.grains if people is not None else 1

    def _move(self, aim: Aim) -> Move:
        """From the table without a person to the one with them, in the unit of the noisy answers."""
        rows = np.array([*aim.rows, *aim.instead], dtype=np.int64)
        signs = np.repeat([1.0, -1.0], [len(aim.rows), len(aim.instead)])
        return Move(rows, self.grains * self.pool.weights[rows] * signs)

    @cached_property
    def codes(self) -> dict[str, np.ndarray]:
        """int64[row] by column: the pool's codes under the release's domain."""
        found = {}
        for attribute in self.release.domain:
            column = self.pool.columns.get(attribute.name)
            if column is not None and column.suits(attribute):
                found[attribute.name] = column.codes(attribute).astype(np.int64)
        return found

    @cached_property
    def sizes(self) -> np.ndarray:
        """int64[column] of the codes."""
        return np.array([self.release.domain[name].size for name in self.codes])

    @cached_property
    def own(self) -> np.ndarray:
        """int64[row, column]: the pool's rows."""
        return np.column_stack(list(self.codes.values()))

    @cached_property
    def released(self) -> np.ndarray:
        """int64[row, column]: the released rows."""
        domain, table = self.release.domain, self.release.to_arrow() if self.rows is None else self.rows
        return np.column_stack(
            [
                encode(domain[name], table.column(name).combine_chunks()).astype(np.int64)
                for name in self.codes
            ]
        )

    def parts(self, codes: dict[str, np.ndarray]) -> Iterator[NoisyPart]:
        """The noisy answers of marginals and residuals of columns that are among `codes: int64[row]`. What
        other models told, and so was never charged, tells nothing new.
        """
        levels, names = self.release.model.levels, self.release.domain.modelled.names
        paid = {charge.scale for charge in self.release.manifest.ledger}
        for m in self.release.measurements:
            named = [names[levels.attribute[v]] for v in m.positions]
            whole = len(m.noisy) == levels.cells(m.positions) and m.scale.value in paid
            if whole and set(named) <= set(codes):
                cells = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
                for v, name in zip(m.positions, named, strict=True):
                    cells = cells * levels.sizes[v] + levels.groups[v][codes[name]]
                yield NoisyPart(m.noisy, m.scale, cells, len(m.noisy))
        for r in self.release.residuals if set(names) <= set(codes) else ():
            gaussian = r.scale.composition is Composition.ZCDP
            transform = Transform(levels.shape, r.order, gaussian=gaussian)
            cells = np.ravel_multi_index([codes[name] for name in names], levels.shape)
            size = int(np.prod(levels.shape))
            yield NoisyPart(r.noisy, r.scale, cells, size, transform, r.weights[transform.masks])

    @property
    def rarity(self) -> np.ndarray:
        """float64[row]: the mean surprise, over all pairs of columns, of the pool's rows."""
        surprise, pairs, codes = np.zeros(len(self.own)), 0, self.own
        for first, second in _pairs(codes.shape[1]):
            cells = codes[:, first] * (codes[:, second].max() + 1) + codes[:, second]
            surprise -= np.log(np.bincount(cells)[cells] / len(codes))
            pairs += 1
        return surprise / pairs

    def scores(self, aims: Sequence[Aim]) -> list[list[float]]:
        """Of each aim its SCORES."""
        ratios = self._ratios(aims)
        return [
            [ratio, *self._of_rows(aim), float(right), float(self._nearest(aim))]
            for aim, (ratio, right) in zip(aims, ratios, strict=True)
        ]

    def _ratios(self, aims: Sequence[Aim]) -> list[tuple[float, bool]]:
        """(log likelihood ratio of membership, whether the sensitive value is the most likely) of each aim.

        The pool gets more rows for that: copies of the aims with every value that they might have.
        """
        name, codes, grains = self.pool.sensitive, self.codes, self.grains
        known = name in codes
        size = self.release.domain[name].size if known else 0
        firsts = np.array([aim.rows[0] for aim in aims for _ in range(size)], dtype=np.int64)
        more = {column: np.concatenate([own, own[firsts]]) for column, own in codes.items()}
        if known:
            more[name][len(codes[name]) :] = np.tile(np.arange(size), len(aims))
        moves = [self._move(aim) for aim in aims]
        found = np.zeros((len(aims), 1 + size))
        for part in self.parts(more):
            exact = part.exact(self.present, grains * self.pool.weights[self.present])
            for i, move in enumerate(moves):
                without = exact.copy()
                at, change = part.change(move)
                without[at] -= change
                found[i, 0] += part.ratio(without, move)
                for value in range(size):
                    rows = move.rows.copy()
                    rows[0] = len(self.pool.weights) + i * size + value
                    found[i, 1 + value] += part.ratio(without, Move(rows, move.weights))
        right = []
        for aim, values in zip(aims, found[:, 1:], strict=True):
            true = int(codes[name][aim.rows[0]]) if known else 0
            right.append(size > 1 and bool((np.delete(values, true) < values[true]).all()))
        return list(zip(found[:, 0].tolist(), right, strict=True))

    def _of_rows(self, aim: Aim) -> list[float]:
        """`pairs`, `density` and `distance`, means over a person's rows."""
        if not aim.rows:
            return [np.nan] * 3
        others = self.own[np.setdiff1d(self.present, aim.rows)]
        found = []
        for row in aim.rows[:MOST_ROWS]:
            there, here = self.released == self.own[row], others == self.own[row]
            both = [_log_shares(same) for same in (there, here)]
            densities = [self._log_density(same) for same in (there, here)]
            nearest = -float((~there).mean(axis=1).min(initial=1.0))
            found.append([float((both[0] - both[1]).mean()), densities[0] - densities[1], nearest])
        return [float(mean) for mean in np.mean(found, axis=0)]

    def _log_density(self, same: np.ndarray) -> float:
        """At a row with which `same: bool[row, column]` agree."""
        wide = self.sizes > 1
        other = np.log(SMOOTHED / np.maximum(self.sizes - 1, 1))
        logs = (np.where(same, np.log(1 - SMOOTHED), other) * wide).sum(axis=1)
        most = logs.max(initial=float(other.sum()))
        return float(most + np.log((np.exp(logs - most).sum() + 1e-9) / max(len(logs), 1)))

    def _nearest(self, aim: Aim) -> bool:
        """Whether the nearest released rows mostly have the person's value."""
        names = list(self.codes)
        if self.pool.sensitive not in names or not len(self.released):
            return False
        at, row = names.index(self.pool.sensitive), self.own[aim.rows[0]]
        differ = np.delete(self.released != row, at, axis=1).sum(axis=1)
        values = np.bincount(self.released[differ == differ.min(), at], minlength=self.sizes[at])
        return bool((np.delete(values, row[at]) < values[row[at]]).all())

    def canaries(self, aims: Sequence[Aim]) -> np.ndarray:
        """float64[aim]: how likely each is in the table, if a fair coin decided: the linear estimate of least
        squared error, for the answers of all are sums over all. `present` holds the rows of none of them.
        """
        return likeliest(*self.equations(aims))

    def equations(self, aims: Sequence[Aim]) -> tuple[np.ndarray, np.ndarray]:
        """(float64[aim, aim], float64[aim]): the normal equations of that estimate, without the coins."""
        moves = [self._move(aim) for aim in aims]
        halves = [np.asarray(aim.rows + aim.instead, dtype=np.int64) for aim in aims]
        undecided = np.concatenate(halves)
        rows = np.concatenate([self.present, undecided])
        weights = np.concatenate([self.pool.weights[self.present], self.pool.weights[undecided] / 2])
        square, linear = np.zeros((len(aims), len(aims))), np.zeros(len(aims))
        for part in self.parts(self.codes):
            if len(part.noisy) > MOST_CELLS:
                continue
            changes = np.zeros((len(part.noisy), len(aims)))
            for i, move in enumerate(moves):
                at, change = part.change(move)
                changes[at, i] = change
            off = part.noisy - part.exact(rows, self.grains * weights)
            square += changes.T @ changes / part.scale.stddev**2
            linear += changes.T @ off / part.scale.stddev**2
        return square, linear


def likeliest(square: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """The solution of normal equations, beside fair coins: their variance is 1/4."""
    return np.linalg.solve(square + 4.0 * np.eye(len(linear)), linear)


def _pairs(columns: int) -> Iterator[tuple[int, int]]:
    """All pairs of columns; the only column with itself."""
    for first in range(columns):
        yield from ((first, second) for second in range(first + (columns > 1), columns))


def _log_shares(same: np.ndarray) -> np.ndarray:
    """float64[column, column]: log shares of the rows that agree in both, `same: bool[row, column]`."""
    agree = same.astype(np.float64)
    return np.log((agree.T @ agree + 0.5) / (len(same) + 1))
