"""The checks of graphs: edge lists that differ in one person's lines, read as a release reads them, and
measured as one: all pairs, a cut, a rank-1 query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from audit.check import Check
from audit.stages import ADD_REMOVE, PURE, REPLACE, ZCDP, make
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.vertices import Vertices
from factored_mwem.privacy.edges import Asked, PrivateEdges
from factored_mwem.privacy.session import Session
from factored_mwem.tables.source import open_table
from factored_mwem.workload.cuts import Cut, RankOne

Lines = Sequence[tuple[int, int]]
VERTICES = Vertices.of(4)
OTHERS: Lines = ((0, 1), (1, 0), (2, 2))
"""Everybody else's lines: an edge in both orders, and a loop."""
COMING: Lines = ((2, 3), (3, 1))
GOING: Lines = ((0, 2), (3, 0))
CUT = Cut(*(np.array(side, dtype=np.bool_) for side in ([0, 1, 1, 0], [0, 0, 0, 1])))
"""It holds what comes, and nothing of what goes."""
QUERY = RankOne.of([0, 1, 1, 0], [0, 0, 0, 1])


def sealed(lines: Lines) -> PrivateEdges:
    table = pa.table({name: [str(line[i]) for line in lines] for i, name in enumerate(("from", "to"))})
    return PrivateEdges.read(open_table(table), VERTICES, ("from", "to"))


def worst(unit: Unit) -> tuple[Lines, Lines]:
    """A person's lines come, or come in the place of another's."""
    gone = GOING[: unit.contributions] if unit.neighbours is REPLACE else ()
    return (*OTHERS, *gone), (*OTHERS, *COMING[: unit.contributions])


def measuring(name: str, what: Any, composition: Composition, unit: Unit) -> Check:
    worlds = [sealed(lines) for lines in worst(unit)]

    def act(world: int, session: Session) -> dict[str, Any]:
        return {"noisy": session.measure(worlds[world], what, cost=session.left).noisy}

    return make(f"measure {name} of a graph", composition, unit, act)


def graph_checks() -> list[Check]:
    """All that a graph is asked for, each kind of noise and each relation."""
    one, two = (Unit(ADD_REMOVE, k) for k in (1, 2))
    swap, swap_two = (Unit(REPLACE, k) for k in (1, 2))
    return [
        measuring("pairs", Asked.PAIRS, PURE, one),
        measuring("pairs", Asked.PAIRS, PURE, swap_two),
        measuring("pairs", Asked.PAIRS, ZCDP, two),
        measuring("pairs", Asked.PAIRS, ZCDP, swap),
        measuring("count", Asked.COUNT, PURE, two),
        measuring("cut", CUT, PURE, swap_two),
        measuring("cut", CUT, ZCDP, two),
        measuring("rank-1 query", QUERY, PURE, one),
    ]
