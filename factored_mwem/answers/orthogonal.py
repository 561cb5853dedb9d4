"""Orthogonal: least squares in closed form where every measurement has the attributes at the same levels.

A table over S attributes is split into 2^S orthogonal parts: for each subset of attributes the part that its
marginal adds to all smaller ones. A noisy marginal measures each part inside it, with the same precision in
all directions, so that least squares only has to weigh each part by the sum of its precisions. Source: the
residual decomposition of ResidualPlanner (Xiao, He, Zhang, Kifer 2023, arXiv 2305.08175) and ReM (arXiv
2410.01091).

Arrays over subsets have an axis of two for each attribute: 0 without it, 1 with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.answers.linear import Influence, Linear
from factored_mwem.answers.projections import Noisy
from factored_mwem.answers.terms import QueryTerms, fixes, of_groups
from factored_mwem.domain.levels import View
from factored_mwem.workload.residual_basis import question

MAX_ATTRIBUTES, MAX_PARTS = 12, 2**23
"""Most attributes of a query; most numbers in all parts together, and most queries times subsets."""


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """Noisy answers about some of a query's axes, `table() -> float64[...]`, each the sum of `summed` of
    their source's, of noise of `variance`.

    `questions`, for each axis: None if it is summed out, an array [answer, code] that asks contrasts of
    its codes, "codes" where the answers are counts. `weight`: that of every answer.
    """

    source: tuple[int, int]
    questions: tuple[np.ndarray | str | None, ...]
    weight: float
    summed: int
    variance: float
    table: Callable[[], np.ndarray]

    @property
    def inside(self) -> tuple[int | slice, ...]:
        """The subsets that it measures, as an index."""
        return tuple(0 if q is None else slice(None) if isinstance(q, str) else 1 for q in self.questions)

    @property
    def axes(self) -> list[int]:
        return [j for j, q in enumerate(self.questions) if q is not None]

    def precision(self, shape: Sequence[int]) -> float:
        """The precision of a direction of unit length: an eigenvalue of A'A / variance."""
        gain = self.weight**2 / (self.variance * self.summed)
        for q, codes in zip(self.questions, shape, strict=True):
            if q is None:
                gain *= codes
            elif not isinstance(q, str):
                gain *= 2 if codes == 2 else codes**2
        return gain

    def answers(self, tables: np.ndarray) -> np.ndarray:
        """float64[k, ...]: A g, what it asks of `tables: float64[k, codes, ...]`."""
        for j in reversed(range(len(self.questions))):
            q = self.questions[j]
            if q is None:
                tables = tables.sum(axis=j + 1)
            elif not isinstance(q, str):
                tables = np.moveaxis(np.tensordot(tables, q, axes=(j + 1, 1)), -1, j + 1)
        return tables * self.weight

    def back(self) -> np.ndarray:
        """float64[codes, or 1 where summed out]: A'y."""
        table = self.table() * self.weight
        for place, j in enumerate(self.axes):
            q = self.questions[j]
            if isinstance(q, np.ndarray):
                table = np.moveaxis(np.tensordot(table, q, axes=(place, 0)), -1, place)
        return np.expand_dims(table, tuple(j for j, q in enumerate(self.questions) if q is None))


class Orthogonal(Linear):
    """Queries about the variables `view`, one for each attribute of their support, which all fix their
    weights: `weights[j]: float64[k, codes of view[j]]`.
    """

    def __init__(
        self, noisy: Noisy, view: View, terms: QueryTerms, parts: Sequence[Contribution], beside: np.ndarray
    ) -> None:
        """`terms`: the queries, by codes of `view`; `beside`: measurements of which the sum alone counts."""
        super().__init__(noisy)
        self.view, self.shape = view, tuple(int(noisy.levels.sizes[v]) for v in view)
        self.parts, self.beside, self.terms = list(parts), beside, terms
        self.precision = self._precisions()

    def _precisions(self) -> np.ndarray:
        """float64[subset]: one over the variance of a part along a direction of unit length."""
        precisions, none = np.zeros((2,) * len(self.view)), (0,) * len(self.view)
        for part in self.parts:
            precisions[part.inside] += part.precision(self.shape)
        precisions[none] += self.noisy.of_sums(self.beside)[0] * math.prod(self.shape)
        if self.noisy.total is not None:
            precisions[none] = np.inf
        return precisions

    @cached_property
    def values(self) -> np.ndarray:
        """float64[k]: the queries of the least squares table, the one of the least norm."""
        whole = np.full(self.shape, self.noisy.of_sums(self.beside)[1])
        for part in self.parts:
            whole += part.back() / (part.variance * part.summed)
        table = self._weighed(whole[None])[0]
        if self.noisy.total is not None:
            table += self.noisy.total / math.prod(self.shape)
        return self.terms.of_table(table)

    def _weighed(self, tables: np.ndarray) -> np.ndarray:
        """float64[k, codes, ...]: each part divided by its precision; 0 where nothing is known of it."""
        for j in range(len(self.shape)):
            mean = tables.mean(axis=j + 1, keepdims=True)
            tables = np.concatenate([mean, tables - mean], axis=j + 1)
        share = np.divide(1.0, self.precision, out=np.zeros_like(self.precision), where=self.precision > 0)
        place = [np.minimum(np.arange(codes + 1), 1) for codes in self.shape]
        tables = tables * share[np.ix_(*place)]
        for j in range(len(self.shape)):
            mean, rest = np.split(tables, [1], axis=j + 1)
            tables = mean + rest
        return tables

    def covariance(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """float64: of the errors of queries `i` and `j`."""
        share = np.divide(1.0, self.precision, out=np.zeros_like(self.precision), where=self.precision > 0)
        return self._norms(i, j) @ share.ravel()

    def unknown(self) -> bool:
        """Whether a query needs a part that nothing measures."""
        each = np.arange(len(self.terms.weights[0]) if self.view else 1)
        needed = np.abs(self._norms(each, each)).max(axis=0) > 0
        return bool((self.precision.ravel()[needed] <= 0).any())

    def _norms(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """float64[..., subset]: the inner products of the parts of queries i and j."""
        norms = np.ones((*np.shape(i), 1))
        for w in self.terms.weights:
            mean, codes = w.mean(axis=1), w.shape[1]
            off = w - mean[:, None]
            flat = codes * mean[i] * mean[j]
            varied = np.einsum("...c,...c->...", off[i], off[j])
            varied = np.where(np.isclose(off, 0, atol=1e-12).all(axis=1)[i], 0.0, varied)
            norms = (norms[..., None] * np.stack([flat, varied], axis=-1)[..., None, :]).reshape(
                *np.shape(i), -1
            )
        return norms

    @property
    def width(self) -> int:
        """Cells of the queries' own table."""
        return math.prod(self.shape)

    def influences(self, rows: Sequence[int]) -> Iterator[Influence]:
        """The weights h = A g / variance, g the parts of each query divided by their precisions."""
        letters = [w[list(rows)] for w in self.terms.weights]
        tables = np.ones((len(rows),) + (1,) * len(self.view))
        for j, w in enumerate(letters):
            tables = tables * np.expand_dims(w, [n + 1 for n in range(len(self.view)) if n != j])
        tables = self._weighed(tables)
        attributes = self.noisy.levels.attribute[list(self.view)].tolist()
        for part in self.parts:
            weights = part.answers(tables) / (part.variance * part.summed)
            axes = tuple(attributes[j] for j in part.axes)
            yield Influence(part.source, axes, weights, part.summed, part.variance)
        yield from self.of_sums(self.beside, tables.reshape(len(rows), -1).sum(axis=1))


def best(noisy: Noisy, terms: QueryTerms, about: Sequence[int]) -> Orthogonal | None:
    """Queries at the levels that give them the least variance; None if nothing determines them.

    The choice of levels depends on what was measured, not on the noisy values.
    """
    solutions: list[tuple[float, Orthogonal]] = []
    beside = noisy.beside(about)
    for view in _views(noisy, terms, about):
        weights = [of_groups(noisy.levels, v, w) for v, w in zip(view, terms.weights, strict=True)]
        shape = [w.shape[1] for w in weights]
        size = max(math.prod(k + 1 for k in shape), terms.count << len(shape))
        if len(shape) > MAX_ATTRIBUTES or size > MAX_PARTS:
            continue
        queries = QueryTerms(terms.support, tuple(weights), terms.count)
        solution = Orthogonal(noisy, view, queries, list(_parts(noisy, view, about)), beside)
        if not solution.unknown():
            each = np.arange(terms.count)
            solutions.append((float(solution.covariance(each, each).sum()), solution))
    return min(solutions, key=lambda pair: pair[0])[1] if solutions else None


def _views(noisy: Noisy, terms: QueryTerms, about: Sequence[int]) -> list[View]:
    """The levels to try: those of measurements that fix all weights; of residuals, the attributes."""
    fixing = [
        {v for v in noisy.levels.chains[a] if fixes(noisy.levels, v, w)}
        for a, w in zip(terms.support, terms.weights, strict=True)
    ]
    views: dict[View, None] = {}
    for i in about:
        view = tuple(v for v in (noisy.variable(i, a) for a in terms.support) if v is not None)
        if len(view) == len(terms.support) and all(v in f for v, f in zip(view, fixing, strict=True)):
            views[view] = None
    if noisy.residuals or not terms.support:
        views[terms.support] = None
    return list(views)


def _parts(noisy: Noisy, view: View, about: Sequence[int]) -> Iterator[Contribution]:
    """All that is known at these levels; what a measurement has at another level is summed out."""
    for i in about:
        projected = noisy.projected(i, (v for v in noisy.measured[i].positions if v in view))
        questions = tuple("codes" if v in projected.variables else None for v in view)
        yield Contribution(
            (i, 0),
            questions,
            1.0,
            projected.summed,
            float(noisy.variances[i]),
            partial(noisy.table, projected),
        )
    for number in range(len(noisy.residuals)):
        yield from _of_residuals(noisy, number, view)


def _of_residuals(noisy: Noisy, number: int, view: View) -> Iterator[Contribution]:
    """The residuals that say something of the view, which has attributes as they are."""
    measured, shape = noisy.residuals[number], noisy.levels.shape
    wide = [a for a, codes in enumerate(shape) if codes > 1]
    gaussian = measured.scale.composition is Composition.ZCDP
    variance = measured.stddev**2
    counted = {a for a in wide if shape[a] > 2 and not gaussian}
    for mask, start, end in noisy.subsets[number]:
        subset = [a for bit, a in enumerate(wide) if mask >> bit & 1]
        outside = [a for a in subset if a not in view]
        if any(a not in counted for a in outside):
            continue  # contrasts of another attribute add up to nothing
        axes = tuple(n for n, a in enumerate(subset) if a in outside)
        answers = noisy.residual_answers[number][start:end].reshape([_answers(shape[a]) for a in subset])
        table = partial(np.sum, answers, axis=axes, dtype=np.float64)
        questions: list[np.ndarray | str | None] = []
        for a in view:
            cells = (
                "codes" if a in counted else question(shape[a], gaussian=gaussian) if a in subset else None
            )
            questions.append(cells if a in subset else None)
        summed = math.prod(shape[a] for a in outside)
        source = (-1 - number, mask)
        yield Contribution(source, tuple(questions), float(measured.weights[mask]), summed, variance, table)


def _answers(codes: int) -> int:
    return 1 if codes == 2 else codes
