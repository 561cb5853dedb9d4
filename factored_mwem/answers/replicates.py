"""Replicates: what the release might have been with other noise and other rows.

Parametric bootstrap (Efron and Tibshirani 1993, section 6.5): a table is drawn from the released model, what
the release measured of the private table is measured of it with fresh noise of the same scale, and a model is
fitted to that on the same trees. The distance of such a model from its table stands for the distance of the
release from the private table. It does not cover what the trees leave out: a dependence between columns that
was never measured is not in the drawn tables either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from factored_mwem.answers.bootstrap_fit import BootstrapFits
from factored_mwem.answers.bootstrap_table import (
    BootstrapTable,
    Correcting,
    bootstrap_table,
    drawn_rows,
    generator,
)
from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.joint import Joint
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.domain.levels import View
from factored_mwem.errors import InputError
from factored_mwem.model.drawing import Drawing
from factored_mwem.model.forest import Forest

MAX_TABLE, MAX_CELLS = 2**14, 2**22
"""Cells of a replicate's table that several queries are read off at once; of all tables made at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """What is kept of `B` replicates made from `seed`: the numbers of records `totals: float64[B]`, the
    parameters of each component `thetas: float32[B, parameters]`, the table's rows `codes: uint[B, row]`.
    """

    seed: int
    totals: np.ndarray
    thetas: Sequence[np.ndarray]
    codes: Sequence[np.ndarray]


class Bootstrap:
    """The maker of replicates of `evidence` from a `seed`, up to `count`: the same for the same seed, with
    any number of threads. Raises InputError for a model that no likelihood was fitted to.
    """

    def __init__(self, evidence: Evidence, seed: int, count: int) -> None:
        self._fits, self._drawing = BootstrapFits(evidence), Drawing(evidence.model)
        self._evidence, self._seed, self._count = evidence, seed, count
        records = evidence.model.total / evidence.of_each
        self._rows = drawn_rows(records, len(evidence.model.levels.shape), count)

    def one(self, number: int) -> tuple[BootstrapTable, float, list[np.ndarray]]:
        """(the table drawn, the number of records found of it, float32[parameters] of each component)."""
        rng = generator(self._seed, number)
        table = bootstrap_table(self._drawing, self._evidence, self._rows, rng)
        total, thetas = self._fits.of(table, rng)
        return table, total, [theta.astype(np.float32) for theta in thetas]

    def all(self, report: Callable[[int], None] = lambda _: None) -> Drawn:
        """All of them, by two threads; `report(done)` is called after each."""
        replicates = []
        with ThreadPoolExecutor(max_workers=2) as pool:
            for replicate in pool.map(self.one, range(self._count)):
                replicates.append(replicate)
                report(len(replicates))
        return drawn_of(self._seed, replicates)


def drawn_of(seed: int, replicates: Sequence[tuple[BootstrapTable, float, list[np.ndarray]]]) -> Drawn:
    """What is kept of replicates as `Bootstrap.one` makes them."""
    thetas, codes = (
        [replicate[2] for replicate in replicates],
        [replicate[0].codes for replicate in replicates],
    )
    return Drawn(
        seed,
        np.array([replicate[1] for replicate in replicates]),
        [np.stack(each) for each in zip(*thetas, strict=True)],
        [np.stack(each) for each in zip(*codes, strict=True)],
    )


class Replicates:
    """Replicate models and the tables that they were fitted to, ready for queries. Not thread-safe."""

    def __init__(self, evidence: Evidence, drawn: Drawn) -> None:
        self.evidence, self.drawn = evidence, drawn
        self._fits = BootstrapFits(evidence)
        self._bare = Forest(evidence.model.levels, evidence.model.components, evidence.model.total)
        self._held: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.drawn.totals)

    def errors(self, terms: QueryTerms, population: bool) -> np.ndarray:
        """float64[B, k]: each replicate's answers less the truth of its table, in records: what its table
        answers, or (`population`) what the model does that its table was drawn from.
        """
        whole = self.evidence.model
        answers = self.answers(terms) - terms.of_forest(whole)
        if population or not terms.support:
            return answers
        return answers - self.table(0).fluctuation(self._counts(terms), terms.of_forest(self._bare))

    def forest(self, number: int, *, corrected: bool = True) -> Forest:
        """A replicate's model; `corrected` by what would have been measured beyond its trees."""
        model = self.evidence.model
        parts = list(self._fits.components([thetas[number] for thetas in self.drawn.thetas]))
        forest = Forest(model.levels, parts, float(self.drawn.totals[number]))
        views = tuple(range(len(model.levels.shape)))
        correcting = Correcting.of(self.evidence, views) if corrected else None
        if correcting is not None:
            forest.correct(correcting.remeasured(self.table(number), self.drawn.seed, number))
        return forest

    def table(self, number: int) -> BootstrapTable:
        """The table that a replicate was made of."""
        codes = [codes[number] for codes in self.drawn.codes]
        return BootstrapTable(self._bare.levels, codes, self._bare.total, self.evidence.of_each)

    def truths(self, views: Sequence[View]) -> Iterator[list[np.ndarray]]:
        """float64[cells] each: what the table of each replicate answers, in records."""
        drawn, expected = self._bare.marginals(views), self.evidence.model.marginals(views)
        for table in map(self.table, range(len(self))):
            yield [table.counts(*each) for each in zip(views, drawn, expected, strict=True)]

    @property
    def rows(self) -> int:
        """Rows that stand for a replicate's table."""
        return int(self.drawn.codes[0].shape[1])

    def answers(self, terms: QueryTerms) -> np.ndarray:
        """float64[B, k]: the replicate models' answers, in records."""
        if not terms.support:
            return np.repeat(self.drawn.totals[:, None], terms.count, axis=1)
        correcting = Correcting.of(self.evidence, terms.support)
        if correcting is None:
            return self._by_parts(terms, self._read)
        return self._corrected(terms, correcting)

    def _corrected(self, terms: QueryTerms, correcting: Correcting) -> np.ndarray:
        sizes = self._bare.levels.sizes
        whole = {a: np.arange(int(sizes[a])) for a in terms.support}
        many = max(1, MAX_CELLS // self._bare.levels.cells(terms.support))
        cells, answers = correcting.cells(), []
        for at in range(0, len(self), many):
            for b, table in enumerate(self._joint(whole, slice(at, at + many)), at):
                measured = correcting.remeasured(self.table(b), self.drawn.seed, b)
                answers.append(terms.of_table(correcting.corrected(table, measured, cells)))
        return np.array(answers)

    def _by_parts(self, terms: QueryTerms, ask: Callable[[QueryTerms], np.ndarray]) -> np.ndarray:
        """`ask` of few enough terms at a time for their tables to be small."""
        kinds = [len(_classes(weights)[1][0]) for weights in terms.weights]
        if terms.count == 1 or float(np.prod(kinds, dtype=np.float64)) <= MAX_TABLE:
            return ask(terms)
        half = terms.count // 2
        parts = (slice(0, half), slice(half, terms.count))
        some = [
            QueryTerms(terms.support, tuple(w[at] for w in terms.weights), at.stop - at.start) for at in parts
        ]
        return np.concatenate([self._by_parts(each, ask) for each in some], axis=1)

    def _read(self, terms: QueryTerms) -> np.ndarray:
        kinds = [_classes(weights) for weights in terms.weights]
        tables = self._joint({a: of for a, (of, _) in zip(terms.support, kinds, strict=True)})
        return _weighed(tables, [weights for _, weights in kinds])

    def _joint(self, classes: dict[int, np.ndarray], at: slice = slice(None)) -> np.ndarray:
        """float64[B, classes, ...]: the tables of replicates `at` over classes of attributes, in records."""
        tables, order = self.drawn.totals[at], list[int]()
        for i, part in enumerate(self._bare.components):
            inside = {a: classes[a] for a in classes if a in part.attributes}
            if inside:
                joint = Joint(part.tree, inside)
                counts = joint.tables(self._beliefs(i)[at])
                counts = counts.reshape(len(counts), *(1,) * len(order), *joint.shape)
                tables = tables[(..., *(None,) * len(joint.shape))] * counts
                order += joint.order
        return tables.transpose(0, *(1 + order.index(a) for a in classes))

    def _counts(self, terms: QueryTerms) -> np.ndarray:
        """float64[B, k]: the answers of the rows drawn, in rows."""
        return self._by_parts(terms, self._count)

    def _count(self, terms: QueryTerms) -> np.ndarray:
        kinds = [_classes(weights) for weights in terms.weights]
        shape = [weights.shape[1] for _, weights in kinds]
        cells = np.zeros((len(self), self.rows), dtype=np.int32)
        cells += (np.arange(len(self), dtype=np.int32))[:, None]
        for a, (of, weights) in zip(terms.support, kinds, strict=True):
            cells *= weights.shape[1]
            cells += of.astype(np.int32)[self.drawn.codes[a]]
        counted = np.bincount(cells.ravel(), minlength=len(self) * int(np.prod(shape)))
        return _weighed(counted.reshape(len(self), *shape).astype(np.float64), [w for _, w in kinds])

    def _beliefs(self, component: int) -> np.ndarray:
        """float32[B, cells]: the cliques of a component in every replicate."""
        if component not in self._held:
            beliefs = self._fits.beliefs(component, self.drawn.thetas[component])
            if not np.isfinite(beliefs.sum(dtype=np.float64)):  # of a stranger's file
                raise InputError("the replicates kept beside the model are damaged: remove that file")
            self._held[component] = beliefs
        return self._held[component]


def _classes(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(int64[codes], float64[k, classes]): codes with the same `weights: float64[k, codes]` are one class."""
    columns, of = np.unique(weights, axis=1, return_inverse=True)
    return of.reshape(-1).astype(np.int64), columns


def _weighed(tables: np.ndarray, weights: Sequence[np.ndarray]) -> np.ndarray:
    """float64[B, k]: `tables: float64[B, classes, ...]` summed with the weights of each axis."""
    letters = "abcdefghijklmnopqrstuvwxy"[: len(weights)]
    operands = ",".join(f"z{letter}" for letter in letters)
    return np.einsum(f"Z{letters},{operands}->Zz", tables, *weights, optimize=True)
