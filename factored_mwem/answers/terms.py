"""Terms: linear queries that are products of per-attribute weights, and their answers."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from factored_mwem.domain.levels import Levels, View
from factored_mwem.errors import ResourceError
from factored_mwem.kernels.dense import FLOOR
from factored_mwem.model.clique_tree import grid
from factored_mwem.model.forest import Component, Forest

MAX_CELLS = 2**20
"""Most cells of a joint table; beyond that messages are passed."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryTerms:
    """`k` queries over the same attributes: query i sums over all records the product of
    `weights[j][i, code]` over the attributes `support[j]`, ascending positions in the modelled domain.

    `weights[j]: float64[k, codes of support[j]]`; of a condition 0 and 1, of a mean the codes' values. No
    support: the number of records, for every query.
    """

    support: tuple[int, ...]
    weights: tuple[np.ndarray, ...]
    count: int

    def without(self, attribute: int, queries: slice) -> QueryTerms:
        """Some of them, whatever the codes of an attribute."""
        kept = [j for j, a in enumerate(self.support) if a != attribute]
        weights = tuple(self.weights[j][queries] for j in kept)
        return QueryTerms(tuple(self.support[j] for j in kept), weights, len(range(self.count)[queries]))

    def of_table(self, table: np.ndarray) -> np.ndarray:
        """float64[k]: the answers of a marginal over the support, `table: float64[codes, ...]`.

        Queries of groups share most of their weights: each axis is summed once for each of its distinct ones.
        """
        if not self.support:
            return np.full(self.count, float(table.sum()))
        distinct = [_distinct(weights) for weights in self.weights]
        if math.prod(len(rows) for rows, _ in distinct) > max(MAX_CELLS, 4 * self.count):
            letters = string.ascii_letters[: len(self.support)]
            operands = ",".join(f"Z{letter}" for letter in letters)
            return np.einsum(f"{letters},{operands}->Z", table, *self.weights, optimize=True)
        for j in sorted(range(len(distinct)), key=lambda j: len(distinct[j][0]) / table.shape[j]):
            table = np.moveaxis(np.tensordot(table, distinct[j][0], axes=(j, 1)), -1, j)
        return table[tuple(row_of for _, row_of in distinct)]

    def of_forest(self, forest: Forest) -> np.ndarray:
        """float64[k]: the model's answers, in records. Raises ResourceError if that takes too long.

        Attributes are taken at the coarsest level that tells their weights apart; as they are, where there
        are corrections, which may be finer. Their joint table is made where it has up to MAX_CELLS cells,
        else messages are passed between cliques, and corrections are left out.
        """
        if not self.support:
            return np.full(self.count, float(forest.total))
        levels, view, weights = forest.levels, [], []
        if forest.corrections and levels.cells(self.support) <= MAX_CELLS:
            shape = [int(levels.sizes[a]) for a in self.support]
            return self.of_table(forest.marginal(self.support).reshape(shape))
        for a, own in zip(self.support, self.weights, strict=True):
            v = next(v for v in reversed(levels.chains[a]) if fixes(levels, v, own))
            view.append(v)
            weights.append(of_groups(levels, v, own))
        if levels.cells(view) <= MAX_CELLS:
            table = forest.marginal(tuple(view)).reshape([int(levels.sizes[v]) for v in view])
            return QueryTerms(self.support, tuple(weights), self.count).of_table(table)
        return contracted(forest, dict(zip(view, weights, strict=True)), self.count)

    def of_rows(self, codes: np.ndarray) -> np.ndarray:
        """float64[k]: the answers of rows, `codes: int[attribute, row]`, in rows."""
        if not self.support:
            return np.full(self.count, float(codes.shape[1]))
        answers = np.empty(self.count)
        for i in range(self.count):
            product = self.weights[0][i][codes[self.support[0]]]
            for a, weights in zip(self.support[1:], self.weights[1:], strict=True):
                product = product * weights[i][codes[a]]
            answers[i] = product.sum()
        return answers


def _distinct(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the distinct rows of `weights: float64[k, codes]`, int64[k]: which of them each row is)."""
    rows = np.ascontiguousarray(weights)
    if (rows == rows[:1]).all():
        return rows[:1], np.zeros(len(rows), dtype=np.int64)
    as_bytes = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, row_of = np.unique(as_bytes, return_index=True, return_inverse=True)
    return rows[first], row_of.ravel()


def fixes(levels: Levels, v: int, weights: np.ndarray) -> bool:
    """Whether all codes of each group of variable v have the same `weights: float64[k, codes]`."""
    if v < len(levels.shape):
        return True
    return bool((of_groups(levels, v, weights)[:, levels.groups[v]] == weights).all())


def of_groups(levels: Levels, v: int, weights: np.ndarray) -> np.ndarray:
    """float64[k, codes of v]: the weight of each group, that of its last code."""
    spread = np.zeros((len(weights), int(levels.sizes[v])))
    spread[:, levels.groups[v]] = weights
    return spread


AT_ONCE = 2**22
"""Cells of a clique times queries that are held at a time."""
MAX_WORK = 2**30
"""Cells of all cliques that are passed times queries: about ten seconds."""


def contracted(forest: Forest, weights: Mapping[int, np.ndarray], count: int) -> np.ndarray:
    """float64[count]: the answers, in records, of products of `weights[v]: float64[count, codes of variable
    v]`, one variable an attribute, without corrections. Raises ResourceError if that takes too long.
    """
    by_part: dict[int, list[int]] = {}
    for v in weights:
        by_part.setdefault(int(forest.part_of[forest.levels.attribute[v]]), []).append(v)
    parts = {forest.components_by_id[id_]: own for id_, own in by_part.items()}
    work = count * sum(sum(part.tree.cells) for part in parts)
    if work > MAX_WORK:
        raise ResourceError(
            f"{count:,} counts over so many columns take {work:,} steps on this model, more than "
            f"{MAX_WORK:,}; name fewer columns, or fewer after `by`"
        )
    answers = np.full(count, float(forest.total))
    for part, own in parts.items():
        step = max(1, AT_ONCE // max(part.tree.cells))
        for at in range(0, count, step):
            some = slice(at, at + step)
            answers[some] *= _share(part, {v: weights[v][some] for v in own})
    return answers


def _share(part: Component, weights: Mapping[int, np.ndarray]) -> np.ndarray:
    """float64[query]: the mean of a product of weights over one component."""
    tree, held = part.tree, dict[int, list[int]]()
    for v in weights:
        home = tree.clique_of((v,))
        assert home is not None, "a variable lies in no clique"
        held.setdefault(home, []).append(v)
    messages: dict[int, list[tuple[View, np.ndarray]]] = {}
    for child, parent, separator in reversed(tree.edges):
        if child not in held and child not in messages:
            continue  # no query needs anything beyond it, so its message is 1
        table = _weighed(part, child, held.get(child, []), weights, messages.pop(child, []))
        at, cells = grid(tree.steps(child, separator)), tree.levels.cells(separator)
        mass = np.maximum(np.bincount(at, part.table(child), minlength=cells), FLOOR)
        sums = np.stack([np.bincount(at, row, minlength=cells) for row in table])
        messages.setdefault(parent, []).append((separator, sums / mass))
    return _weighed(part, 0, held.get(0, []), weights, messages.get(0, [])).sum(axis=1)


def _weighed(
    part: Component,
    clique: int,
    held: list[int],
    weights: Mapping[int, np.ndarray],
    messages: list[tuple[View, np.ndarray]],
) -> np.ndarray:
    """float64[query, cell]: a clique's table times the weights and messages that come in."""
    table = part.table(clique)[None]
    for v in held:
        table = table * weights[v][:, grid(part.tree.steps(clique, (v,)))]
    for separator, message in messages:
        table = table * message[:, grid(part.tree.steps(clique, separator))]
    return table
