"""Contraction: queries on a forest by message passing, clique after clique, where their attributes' joint
table would be too large.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from factored_mwem.domain.levels import View
from factored_mwem.errors import ResourceError
from factored_mwem.kernels.dense import FLOOR
from factored_mwem.model.forest import Component, Forest

AT_ONCE = 2**22
"""Cells of a clique times queries that are held at a time."""
MAX_WORK = 2**30
"""Cells of all cliques that are passed times queries: about ten seconds."""


def contracted(forest: Forest, weights: Mapping[int, np.ndarray], count: int) -> np.ndarray:
    """float64[count]: the answers of products of `weights[v]: float64[count, codes of variable v]`, one
    variable an attribute, in records. ResourceError where that takes too long.

    Corrections, which rake whole marginals, are left out.
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
            continue  # nothing beyond it is asked: its message is 1
        table = _weighed(part, child, held.get(child, []), weights, messages.pop(child, []))
        at, cells = _index(part, child, separator), tree.levels.cells(separator)
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
        table = table * weights[v][:, _index(part, clique, (v,))]
    for separator, message in messages:
        table = table * message[:, _index(part, clique, separator)]
    return table


def _index(part: Component, clique: int, view: View) -> np.ndarray:
    """int64[cell of the clique]: its cell of the view."""
    head, tail = part.tree.index(clique, view)
    return (head[:, None] + tail[None, :]).ravel()
