"""Forest: the model as a product of clique trees, one for each set of attributes that measurements tie
together.

A component's distribution is log-linear in what was measured, so it factors along a clique tree: memory is
the sum of the cliques' tables, not the product of the attributes. A dense table is the case of a single
clique.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from factored_mwem.domain.levels import Levels, View
from factored_mwem.kernels.dense import marginal_into
from factored_mwem.kernels.tree import rebuild
from factored_mwem.model.clique_tree import CliqueTree, arranged
from factored_mwem.model.dense import ProductModel
from factored_mwem.model.layout import Layout
from factored_mwem.model.marginals import MarginalReader


class Component:
    """One clique tree with calibrated beliefs: `beliefs: float64[all cells]`, every clique summing to 1, and
    its separators' tables.
    """

    def __init__(self, tree: CliqueTree, beliefs: np.ndarray, separators: np.ndarray, layout: Layout) -> None:
        self.tree, self.beliefs, self.separators, self.layout = tree, beliefs, separators, layout

    @classmethod
    def log_linear(cls, tree: CliqueTree, views: Sequence[View], theta: np.ndarray) -> Component:
        """The distribution in proportion to exp of the sum of `theta: float64[cells of all views]` over a
        row's cells.
        """
        layout = Layout.of(tree, views)
        beliefs, separators = np.zeros(sum(tree.cells)), np.zeros(int(layout.edges[:, 3].sum()))
        rebuild(beliefs, separators, layout.cliques, layout.edges, layout.index, 0, layout.tables, theta)
        return cls(tree, beliefs, separators, layout)

    @classmethod
    def of(cls, tree: CliqueTree, beliefs: np.ndarray) -> Component:
        """The distribution whose cliques' marginals, one after the other, are `beliefs`; they must agree on
        their separators.
        """
        layout = Layout.of(tree, [])
        separators = np.zeros(int(layout.edges[:, 3].sum()))
        for child, _, at, cells, head, tail, *_ in layout.edges.tolist():
            start, heads, tails = layout.cliques[child].tolist()
            maps = layout.index[head : head + heads], layout.index[tail : tail + tails]
            marginal_into(beliefs[start : start + heads * tails], *maps, separators[at : at + cells])
        return cls(tree, beliefs, separators, layout)

    @property
    def attributes(self) -> tuple[int, ...]:
        return self.tree.attributes

    def table(self, clique: int) -> np.ndarray:
        """float64[cells]: one clique's marginal, row-major."""
        start, heads, tails = self.layout.cliques[clique].tolist()
        return self.beliefs[start : start + heads * tails]

    def marginal(self, view: View) -> np.ndarray:
        """float64[cells]: shares over the variables of `view`, whatever cliques they lie in."""
        return MarginalReader(self.tree, view, self.beliefs, self.separators, self.layout).marginals(
            np.array([view], dtype=np.int64)
        )[0]


class Forest:
    """Independent components over attributes at `levels`, scaled to `total` records."""

    def __init__(self, levels: Levels, components: Iterable[Component], total: float) -> None:
        self.levels, self.total = levels, total
        self.components_by_id = dict(enumerate(components))
        self.part_of = np.empty(len(levels.shape), dtype=np.int64)
        self._next = len(self.components_by_id)
        for id_, part in self.components_by_id.items():
            self.part_of[list(part.attributes)] = id_

    @classmethod
    def of(cls, model: ProductModel) -> Forest:
        """A product of dense tables, each as a tree of one clique."""
        levels = Levels.fine(model.domain.shape)
        parts = [
            Component.of(CliqueTree(levels, (factor.positions,), ()), factor.weights)
            for factor in model.components
        ]
        return cls(levels, parts, model.total)

    @property
    def components(self) -> list[Component]:
        return list(self.components_by_id.values())

    def replace(self, component: Component) -> None:
        """Put a component in the place of those that hold its attributes now; all of theirs must be in it."""
        for old in {int(self.part_of[a]) for a in component.attributes}:
            del self.components_by_id[old]
        self.components_by_id[self._next] = component
        self.part_of[list(component.attributes)] = self._next
        self._next += 1

    def marginal(self, view: View) -> np.ndarray:
        """float64[cells]: records over the variables of `view`: the product of its components' marginals,
        exactly.
        """
        return self.marginals([view])[0]

    def marginals(self, views: Sequence[View]) -> list[np.ndarray]:
        """The marginal of each of `views`, in records; each component is read once for all of them."""
        parts = [self._parts(view) for view in views]
        tables: dict[View, np.ndarray] = {}
        for id_, part in self.components_by_id.items():
            wanted = list(dict.fromkeys(found[id_] for found in parts if id_ in found))
            if wanted:
                joints = MarginalReader(
                    part.tree,
                    {v for view in wanted for v in view},
                    part.beliefs,
                    part.separators,
                    part.layout,
                )
                width = max(len(view) for view in wanted)
                padded = np.array([view + (-1,) * (width - len(view)) for view in wanted], dtype=np.int64)
                tables.update(zip(wanted, joints.marginals(padded), strict=True))
        return [
            self._product(view, [tables[inside] for inside in found.values()], found)
            for view, found in zip(views, parts, strict=True)
        ]

    def _parts(self, view: View) -> dict[int, View]:
        """The variables of a view by the component that holds them."""
        found: dict[int, View] = {}
        for v in view:
            id_ = int(self.part_of[self.levels.attribute[v]])
            found[id_] = (*found.get(id_, ()), v)
        return found

    def _product(self, view: View, tables: Sequence[np.ndarray], found: dict[int, View]) -> np.ndarray:
        table = np.full(1, self.total)
        for part in tables:
            table = np.multiply.outer(table, part).ravel()
        order = [v for inside in found.values() for v in inside]
        return arranged(table, order, view, self.levels.sizes)

    @property
    def cells(self) -> int:
        """Cells of all cliques of all trees."""
        return sum(sum(part.tree.cells) for part in self.components)
