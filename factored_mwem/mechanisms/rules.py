"""Rules in the tree mechanism: the levels at which they are kept, and whether their trees fit. Public."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels, View
from factored_mwem.domain.zeros import Zeros, classes_of, refined, tables_at
from factored_mwem.errors import InputError, ResourceError
from factored_mwem.kernels.graph import CELLS
from factored_mwem.model.clique_tree import CliqueTree, triangulate
from factored_mwem.model.estimation import tied
from factored_mwem.model.forest import Component
from factored_mwem.workload.candidates import Candidates


def rule_classes(candidates: Candidates, zeros: Sequence[Zeros]) -> list[np.ndarray | None]:
    """By attribute the classes that rules tell apart, as levels; none where ranges are asked."""
    classes = classes_of(zeros, candidates.domain.shape)
    return [None if a in candidates.ranged else merged for a, merged in enumerate(classes)]


def offered(levels: Levels, classes: Sequence[np.ndarray | None]) -> tuple[View, ...]:
    """The levels of each attribute worth measuring at: not the one that only rules need."""
    return tuple(
        chain[:-1] if of is not None and levels.sizes[chain[-1]] == of.max() + 1 else chain
        for chain, of in zip(levels.chains, classes, strict=True)
    )


def check_rules(domain: Domain, candidates: Candidates, max_cells: int) -> None:
    """Raises ResourceError if the trees that rules make, before anything is measured, have more than
    `max_cells`; raises InputError if they leave no row at all.
    """
    zeros, shape = domain.zeros, candidates.domain.shape
    levels = Levels.of(shape, refined([[] for _ in shape], rule_classes(candidates, zeros)))
    tables, names = tables_at(zeros, levels), candidates.domain.names
    groups = [
        (group, {view: cells for view, cells in tables.items() if levels.attribute[view[0]] in group})
        for group in tied(tables, levels)
    ]
    cells = [triangulate(levels, [*((a,) for a in group), *inside], CELLS)[0] for group, inside in groups]
    if sum(cells) > max_cells:
        group = groups[cells.index(max(cells))][0]
        raise ResourceError(
            f"the rules tie {_listed(names, group)} together: in all {sum(cells):.3g} cells, more than the "
            f"{max_cells:,} that --max-cells, memory and time allow; use fewer bins there, or fewer rules"
        )
    for group, inside in groups:
        tree = CliqueTree.of(levels, [*((a,) for a in group), *inside])
        if inside and not Component.log_linear(tree, [], np.zeros(0), inside).table(0).any():
            raise InputError(f"the rules contradict each other: no row with {_listed(names, group)} is left")


def _listed(names: Sequence[str], group: Sequence[int]) -> str:
    return ", ".join(repr(names[a]) for a in group[:6]) + (", ..." if len(group) > 6 else "")
