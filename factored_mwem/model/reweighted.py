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
    """The model in which a record with code c of `attribute` counts `weights[c]` times: float64[code], none
    below 0, and some record must be left.

    A factor on one attribute leaves the cliques as they are: it is put on a clique that holds the attribute,
    and the others follow from neighbour to neighbour. Of a correction the new table is what the corrected
    model answers over its view and the attribute, times the weights.
    """
    levels, factor = model.levels, AttributeWeights(attribute, weights)
    home = int(model.part_of[attribute])
    mean = float(model.components_by_id[home].marginals([(attribute,)])[0] @ weights)
    forest = Forest(levels, _factored(model, (attribute,), weights), model.total * mean)
    views = model.corrections.views
    if views:
        forest.corrections = Corrections(levels, views, factor.all_over(levels, views, model.marginals))
    return forest


def tilted(model: Forest, view: View, weights: np.ndarray) -> Forest:
    """The model in which a record in a cell of `view`, that one clique fixes, counts so many times as much:
    `weights: float64[cell]`, scaled to its total again. Its corrections are left out.
    """
    return Forest(model.levels, _factored(model, view, weights), model.total)


def _factored(model: Forest, view: View, weights: np.ndarray) -> list[Component]:
    """The components, that of the view with the weights on its cells."""
    home = int(model.part_of[model.levels.attribute[view[0]]])
    parts = model.components_by_id.items()
    return [_weighed(part, view, weights) if id_ == home else part for id_, part in parts]


def _weighed(part: Component, view: View, weights: np.ndarray) -> Component:
    """A component in which each cell of a view weighs so much more, scaled to 1 again."""
    home = part.tree.clique_of(view)
    assert home is not None  # as of every attribute of a component
    tree, _ = part.tree.rooted(home)
    tables = part.marginals(tree.cliques)
    tables[0] = tables[0] * weights[grid(tree.steps(0, view))]
    tables[0] /= tables[0].sum()
    for child, parent, view in tree.edges:  # parents come first
        down, up = grid(tree.steps(parent, view)), grid(tree.steps(child, view))
        before = np.bincount(up, tables[child], minlength=tree.levels.cells(view))
        after = np.bincount(down, tables[parent], minlength=len(before))
        tables[child] = tables[child] * np.divide(after, before, np.zeros_like(after), where=before > 0)[up]
    return Component.of(tree, np.concatenate(tables))


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
