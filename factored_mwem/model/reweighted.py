"""Reweighted: an exact change of the weights of records: a model of rows, from a model in which each person
weighs one. Free, because the model is public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from factored_mwem.domain.levels import Levels, View
from factored_mwem.model.clique_tree import grid
from factored_mwem.model.corrections import Corrections
from factored_mwem.model.forest import Component, Forest

TOGETHER = 16
"""Marginals that are read at a time: each is as many times larger as the attribute has codes."""


def reweighted(model: Forest, attribute: int, weights: np.ndarray) -> Forest:
    """The model in which a record with code c of `attribute` counts `weights[c]` times: float64[code] > 0.

    A factor on one attribute leaves the cliques as they are: the new marginal of a clique is the old one over
    the clique and the attribute, times the weights, the attribute summed out again where it is not its own.
    The same holds of each correction, whose table is what the corrected model answers.
    """
    levels, factor = model.levels, AttributeWeights(attribute, weights)
    home = int(model.part_of[attribute])
    mean = float(model.components_by_id[home].marginals([(attribute,)])[0] @ weights)
    parts = []
    for id_, part in model.components_by_id.items():
        if id_ == home:
            cells = factor.all_over(levels, part.tree.cliques, part.marginals)
            parts.append(Component.of(part.tree, np.concatenate(cells) / mean))
        else:
            parts.append(part)
    forest = Forest(levels, parts, model.total * mean)
    views = model.corrections.views
    if views:
        forest.corrections = Corrections(levels, views, factor.all_over(levels, views, model.marginals))
    return forest


@dataclass(frozen=True, slots=True, eq=False)
class AttributeWeights:
    """`weights: float64[code]` of an attribute."""

    attribute: int
    weights: np.ndarray

    def all_over(
        self, levels: Levels, views: Sequence[View], marginals: Callable[[list[View]], list[np.ndarray]]
    ) -> list[np.ndarray]:
        """float64[cells] of each of `views`, from `marginals` of wider ones, a few of these at a time."""
        cells = []
        for at in range(0, len(views), TOGETHER):
            some = views[at : at + TOGETHER]
            tables = marginals([self.wide(levels, view) for view in some])
            cells += [self.over(levels, view, table) for view, table in zip(some, tables, strict=True)]
        return cells

    def wide(self, levels: Levels, view: View) -> View:
        """The view with the attribute at its own codes."""
        others = [v for v in view if levels.attribute[v] != self.attribute]
        return levels.view([*others, self.attribute])

    def over(self, levels: Levels, view: View, table: np.ndarray) -> np.ndarray:
        """float64[cells of `view`]: those of `table`, float64[cells of `wide`], times the weights."""
        wide = self.wide(levels, view)
        shape = [int(levels.sizes[v]) for v in wide]
        along = [-1 if v == self.attribute else 1 for v in wide]
        scaled = table.reshape(shape) * self.weights.reshape(along)
        return np.bincount(grid(levels.steps(wide, view)), scaled.ravel(), minlength=levels.cells(view))
