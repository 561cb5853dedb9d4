"""Forest: a product of clique trees, one for each set of attributes that measurements tie together.

A component's distribution is log-linear in what was measured, so it factors along a clique tree: memory is
the sum of the cliques' tables, not the product of the attributes. A dense table is a single clique.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from factored_mwem.domain.levels import Levels, View
from factored_mwem.kernels.dense import marginal_into
from factored_mwem.kernels.tree import CELLS, CHILD, HEAD, START, TAIL, Beliefs, TreeArrays, rebuild
from factored_mwem.model.clique_tree import CliqueTree, arranged, lay_out
from factored_mwem.model.corrections import Corrections
from factored_mwem.model.dense import ProductModel
from factored_mwem.model.marginals import MarginalReader
from factored_mwem.privacy.session import Measurement

FEW = 4
"""Up to this many marginals, each inside a clique, are summed one by one; for more the layout of a reader
pays off.
"""


class Component:
    """One clique tree with calibrated beliefs: every clique sums to 1."""

    def __init__(
        self, tree: CliqueTree, beliefs: Beliefs, layout: TreeArrays, reader: MarginalReader | None = None
    ) -> None:
        """`reader`: what another component of the same tree was read with."""
        self.tree, self.beliefs, self.layout = tree, beliefs, layout
        self._reader = reader

    def with_beliefs(self, beliefs: Beliefs, layout: TreeArrays) -> Component:
        """Other beliefs of the same tree."""
        return Component(self.tree, beliefs, layout, self._reader)

    @classmethod
    def log_linear(
        cls,
        tree: CliqueTree,
        views: Sequence[View],
        theta: np.ndarray,
        zeros: Mapping[View, np.ndarray] | None = None,
    ) -> Component:
        """The log-linear component: the weight of a row is in proportion to exp of the sum of `theta:
        float64[cells of all views]` over its cells.

        `zeros`: bool[cells] by view, inside a clique as the measured ones; where it holds, the weight is 0
        and stays it. All weights are 0 where nothing is left.
        """
        zeros = zeros or {}
        ruled = [np.where(cells, -np.inf, 0.0) for cells in zeros.values()]
        layout = lay_out(tree, [*views, *zeros])
        part = cls(tree, Beliefs(np.zeros(sum(tree.cells)), np.zeros(layout.edges[:, CELLS].sum())), layout)
        rebuild(part.beliefs, layout, np.concatenate([theta, *ruled]))
        part.layout = layout._replace(tables=layout.tables[: len(views)])  # a fit follows these alone
        return part

    @classmethod
    def of(cls, tree: CliqueTree, cells: np.ndarray) -> Component:
        """A component from the marginals of all cliques, one after the other, which must agree on their
        separators.
        """
        layout = lay_out(tree, [])
        part = cls(tree, Beliefs(cells, np.zeros(layout.edges[:, CELLS].sum())), layout)
        for edge in layout.edges:
            _, heads, tails = layout.cliques[edge[CHILD]]
            head, tail = layout.maps[edge[HEAD] :][:heads], layout.maps[edge[TAIL] :][:tails]
            separator = part.beliefs.separators[edge[START] :][: edge[CELLS]]
            marginal_into(part.table(edge[CHILD]), head, tail, separator)
        return part

    @property
    def attributes(self) -> tuple[int, ...]:
        return self.tree.attributes

    def rooted_at(self, view: View) -> Component:
        """The same distribution on a tree whose root fixes `view`; with a clique more, and larger ones, where
        none does.
        """
        tree = self.tree if self.tree.clique_of(view) is not None else self.tree.spanning(view)
        home = tree.clique_of(view)
        assert home is not None
        rooted, _ = tree.rooted(home)
        return Component.of(rooted, np.concatenate(self.marginals(rooted.cliques)))

    def table(self, clique: int) -> np.ndarray:
        """float64[cells]: one clique's marginal, row-major."""
        start, heads, tails = self.layout.cliques[clique].tolist()
        return self.beliefs.cliques[start : start + heads * tails]

    def reader(self, variables: Iterable[int]) -> MarginalReader:
        """The reader of many marginals over these variables; kept, because its layout takes longer than most
        readings. It reads these beliefs, which must not change any more, until another component of the same
        tree uses it.
        """
        wanted, known = {int(v) for v in variables}, self._reader
        if known is None or not wanted <= known.readable:
            known = MarginalReader(
                self.tree, self.layout, self.beliefs, wanted if known is None else wanted | known.readable
            )
        elif known.beliefs is not self.beliefs:
            known.refresh(self.beliefs)
        self._reader = known
        return known

    def marginals(self, views: Sequence[View]) -> list[np.ndarray]:
        """The marginal of each of `views`, float64[cells] of sum 1, whatever cliques its variables lie in."""
        homes = [self.tree.clique_of(view) for view in views] if len(views) <= FEW else [None]
        if None not in homes:
            return [self._inside(k, view) for k, view in zip(homes, views, strict=True) if k is not None]
        width = max(len(view) for view in views)
        padded = np.array([view + (-1,) * (width - len(view)) for view in views], dtype=np.int64)
        return self.reader({v for view in views for v in view}).shares(padded)

    def _inside(self, clique: int, view: View) -> np.ndarray:
        """The marginal over a view that a clique fixes."""
        out = np.zeros(self.tree.levels.cells(view))
        marginal_into(self.table(clique), *self.tree.index(clique, view), out)
        return out


class Forest:
    """Independent components over attributes at `levels`, scaled to `total` records, and `corrections` of
    what they answer by marginals that none of them holds.
    """

    def __init__(self, levels: Levels, components: Iterable[Component], total: float) -> None:
        self.levels, self.total = levels, total
        self.components_by_id = dict(enumerate(components))
        self.corrections = Corrections(levels)
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

    def holds(self, view: View) -> bool:
        """Whether a single clique fixes all of a view: a measurement of it can be fitted."""
        ids = {int(self.part_of[self.levels.attribute[v]]) for v in view}
        return len(ids) == 1 and self.components_by_id[ids.pop()].tree.clique_of(view) is not None

    def correct(self, measured: Sequence[Measurement]) -> None:
        """Correct answers by those of `measured` that no clique holds; the others were fitted."""
        beyond = [m for m in measured if m.positions and not self.holds(m.positions)]
        self.corrections = Corrections(self.levels)
        if beyond:
            answers = self.marginals([m.positions for m in beyond])
            self.corrections = Corrections.of(self.levels, beyond, answers)

    def marginal(self, view: View) -> np.ndarray:
        """float64[cells]: the marginal over `view`, in records; exact but for corrections."""
        return self.marginals([view])[0]

    def marginals(self, views: Sequence[View]) -> list[np.ndarray]:
        """The marginal of each of `views`, in records; each component is read once for all of them."""
        parts = [self._parts(view) for view in views]
        tables: dict[View, np.ndarray] = {}
        for id_, part in self.components_by_id.items():
            wanted = list(dict.fromkeys(by_id[id_] for by_id in parts if id_ in by_id))
            if wanted:
                tables.update(zip(wanted, part.marginals(wanted), strict=True))
        return [
            self.corrections.applied(
                view, self._product(view, {inside: tables[inside] for inside in by_id.values()})
            )
            for view, by_id in zip(views, parts, strict=True)
        ]

    def _parts(self, view: View) -> dict[int, View]:
        """The variables of a view by the component that holds them."""
        parts: dict[int, View] = {}
        for v in view:
            id_ = int(self.part_of[self.levels.attribute[v]])
            parts[id_] = (*parts.get(id_, ()), v)
        return parts

    def _product(self, view: View, tables: dict[View, np.ndarray]) -> np.ndarray:
        table = np.full(1, self.total)
        for part in tables.values():
            table = np.multiply.outer(table, part).ravel()
        return arranged(table, [v for inside in tables for v in inside], view, self.levels.sizes)

    @property
    def cells(self) -> int:
        """Cells of all cliques of all trees."""
        return sum(sum(part.tree.cells) for part in self.components)
