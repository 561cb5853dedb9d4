"""The checks of a sketch: keys with opposite columns of signs, so that an exchange moves every row by two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from audit.check import Check
from audit.stages import ADD_REMOVE, make
from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.backends.source import open_source
from factored_mwem.privacy.projected import PrivateProjection
from factored_mwem.privacy.session import Session
from factored_mwem.workload.projection import Listed, Stack

KEYS = ("a", "b", "c", "d")


def opposite(size: int) -> Stack:
    """A hash that gives the first two keys opposite columns: the first of a fixed sequence."""
    for number in range(10_000):
        found = Stack.of(size, 1, 4, 2, np.random.default_rng(number).bytes(64))
        one, other = found.signs(np.arange(2, dtype=np.uint64)).astype(np.int64)
        if (one == -other).all():
            return found
    raise AssertionError("no such hash")


def sketching(size: int, composition: Composition, unit: Unit) -> Check:
    """measure of `size` rows: a person's keys come, or change from one column to its opposite."""
    hashed = opposite(size)
    signs = hashed.signs(np.zeros(1, dtype=np.uint64))[0].astype(np.int64)
    before = ["b"] * unit.contributions if unit.neighbours is not ADD_REMOVE else []
    tables = [
        PrivateProjection.of(open_source(pa.table({"k": [*"bccd", *person]})), "k", Listed(KEYS), hashed)
        for person in (before, ["a"] * unit.contributions)
    ]

    def act(world: int, session: Session) -> dict[str, Any]:
        noisy = session.measure(tables[world], (), cost=session.accountant.budget.amount).noisy
        return {"noisy": noisy, "answer": int(signs @ noisy)}

    return make(f"measure sketch of {size} rows", composition, unit, act)


def sketch_checks() -> list[Check]:
    """Under both compositions and relations."""
    one, two, swap = Unit(), Unit(contributions=2), Unit(Neighbours.REPLACE)
    return [
        sketching(1, Composition.PURE, one),
        sketching(1, Composition.PURE, swap),
        sketching(4, Composition.ZCDP, two),
        sketching(4, Composition.ZCDP, swap),
    ]
