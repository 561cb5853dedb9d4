"""The checks of discover: each of its readings on the profiles of two neighbouring columns, near where its
answer turns.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from audit.check import Check, stage
from audit.stages import ONE, REPLACE, SWAP_TWO, TWO, ZCDP
from factored_mwem.accounting.accountant import Budget, Mechanism, scale_for
from factored_mwem.accounting.unit import Unit
from factored_mwem.domain.coarse_grids import coarse_grid
from factored_mwem.domain.grids import CLEAR
from factored_mwem.domain.public_lists import list_of
from factored_mwem.privacy import discover
from factored_mwem.privacy.popular import popular_together as second_look
from factored_mwem.privacy.popular import together_for
from factored_mwem.privacy.rows import Sealed
from factored_mwem.privacy.session import Session
from factored_mwem.privacy.single_values import OWN, single_values
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import Source
from factored_mwem.tables.codes import rest
from factored_mwem.tables.codes.kinds import KINDS, ZONES
from factored_mwem.tables.codes.profile import profile
from factored_mwem.tables.codes.rest import CLAIM, WEIGHT, shared
from factored_mwem.tables.inputs.source import open_table

RHO = Fraction(1)
DELTA = Fraction(1, 10**6)
WIDE = Fraction(1, 5)
"""A delta that can be seen: what a value of one person's alone may be kept with."""
STEEP = Fraction(1, 20)
"""The rho beside it, small, so that the discrete threshold comes close to its delta."""
LISTS = mock.patch(
    "factored_mwem.privacy.popular.list_of",
    lambda texts, once=functools.cache(list_of): once(tuple(texts)),
)
"""Looking up which public list two words are from takes a third of a run."""
Pair = tuple[Sequence[Any], Sequence[Any]]


def reading(
    what: str, unit: Unit, pair: Pair, read: Callable[[Sealed, Session], dict[str, Any]], **more: Any
) -> Check:
    """A check of one reading of the private profiles of the columns in `pair`."""
    budget = Budget(1.0, 1e-6, ZCDP, more.pop("rho", RHO), more.pop("delta", DELTA))
    tables = [open_table(pa.table({"x": list(values)})) for values in pair]
    profiles = [Sealed(profile(table, ["x"])["x"]) for table in tables]
    return stage(f"discover {what}", budget, unit, profiles, read, **more)


def pair_of(unit: Unit, value: Any, other: Any, count: int) -> Pair:
    """`count` rows of `value`, and k more: they come, or go there from `other`."""
    k, rest = unit.contributions, [other] * 3
    return [value] * count + rest + [other] * (k * (unit.neighbours is REPLACE)), [value] * (count + k) + rest


def votes(unit: Unit) -> Check:
    """The kinds of the values: a person's turn from text to numbers."""

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        noisy = discover.read_votes(session, "x", column, RHO).noisy
        return {"votes": noisy[[KINDS.index("integer"), KINDS.index("string")]].astype("int64")}

    return reading("votes", unit, pair_of(unit, "7", "text", 4), read)


def zone(unit: Unit) -> Check:
    """What timestamps say of their zone: a person's come to say one."""

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        return {"zone": ZONES.index(reader(column, session, "datetime").zone(RHO).zone or "")}

    pair = pair_of(unit, "2020-01-01T10:00:00Z", "2020-01-01T10:00:00", 2)
    return reading("zone", unit, pair, read)


def reader(column: Sealed, session: Session, kind: str, **known: Any) -> discover.ColumnDiscovery:
    """The readings after a vote that said `kind`."""
    voted = discover.FoundColumn(pa.field("x", pa.string()), kind, 100.0, 100.0, numbers=100.0, **known)
    return discover.ColumnDiscovery(session, column, voted)


def popular(unit: Unit, what: str, kind: str, value: str, other: str) -> Check:
    """A value whose count comes up to the threshold, above what is taken off all counts; under replace
    another's falls below it.
    """
    k, enough = unit.contributions, threshold_of(unit, RHO, DELTA)
    before, after = (enough, enough - k) if unit.neighbours is REPLACE else (0, 0)
    pair = [value] * (enough - k) + [other] * before, [value] * enough + [other] * after

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        learnt = reader(column, session, kind).popular(RHO, DELTA)
        kept = {str(v): n for v, n in (learnt.values | learnt.texts).items()}
        return {"kept": ",".join(sorted(kept)), "most": max(kept.values(), default=0)}

    return reading(f"popular {what}", unit, pair, read)


def popular_together(unit: Unit) -> Check:
    """Many values beside one whose count moves: what is taken off all counts must not follow the table. With
    half of the largest count off, they all are at the threshold.
    """
    count, k = 2 * threshold_of(unit, RHO, DELTA), unit.contributions
    others = [f"v{i:02d}" for i in range(40)] * count

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        texts = reader(column, session, "string").popular(RHO, DELTA).texts
        return {"kept": len(texts), "red": texts.get("red", 0)}

    pair = others + ["red"] * (count + 2 - k), others + ["red"] * (count + 2)
    return reading("popular values together", unit, pair, read)


def own_value(unit: Unit) -> Check:
    """A value that only one person has: it may be kept with the delta that is charged, and no more."""

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        return {"kept": "red" in reader(column, session, "string").popular(STEEP, WIDE).texts}

    note = "its delta is far above what it is kept with"
    pair = pair_of(unit, "red", "blue", 0)
    return reading("value of one person", unit, pair, read, rho=STEEP, delta=WIDE, note=note)


def rarer(unit: Unit) -> Check:
    """The second look: rows that share their weight among sixteen values come up to the threshold, beside
    common ones; under replace others go.
    """
    names, k = "abcdefghijklmnop", unit.contributions
    _, threshold, _ = together_for(unit, len(names), RHO, DELTA)
    enough = math.ceil(threshold / shared(CLAIM, CLAIM * len(names))[-1])
    gone = ["gone"] * (k * (unit.neighbours is REPLACE))
    pair = ["red"] * (enough - k) + gone, ["red"] * enough
    worlds = [
        Weighed(open_source(pa.table({name: ["common"] * 5 + rows for name in names}))) for rows in pair
    ]
    found = [
        discover.FoundColumn(pa.field(name, pa.string()), "string", 100.0, 100.0, texts={"common": 5})
        for name in names
    ]
    budget = Budget(1.0, 1e-6, ZCDP, RHO, DELTA)

    def act(table: Any, session: Session) -> dict[str, Any]:
        with LISTS:
            columns = second_look(session, table, found, RHO, DELTA)
        rows = [column.texts.get("red", 0) for column in columns]
        return {"kept": np.count_nonzero(rows), "red": sum(rows)}

    return stage("discover rarer values", budget, unit, worlds, act, share=0.2)


class Weighed:
    """A source that weighs its rows once for all runs, which else spend most of their time on that: once for
    each rule of sharing, for a planted bug has another.
    """

    def __init__(self, table: Source) -> None:
        self._table, self._found = table, dict[Any, Any]()

    def weighed(self, known: Any) -> Any:
        if rest.shared not in self._found:
            self._found[rest.shared] = self._table.weighed(known)
        return self._found[rest.shared]


def singles(unit: Unit) -> Check:
    """Single values: rows that share their weight among nine numbers come up to what stands out; under
    replace others go.
    """
    names, k = "abcdefghi", unit.contributions
    scale = scale_for(Mechanism.GAUSSIAN, RHO, sensitivity=unit.l2_squared_of_marginal * WEIGHT**2)
    enough = math.ceil(OWN * scale / shared(CLAIM, CLAIM * len(names))[-1])
    gone = [3] * (k * (unit.neighbours is REPLACE))
    pair = [7] * (enough - k) + gone, [7] * enough
    worlds = [open_source(pa.table({name: [1] * 5 + rows for name in names})) for rows in pair]
    known: dict[str, Any] = {"values": {1.0: 5}, "edges": np.array([0, 10]), "noisy": np.array([enough])}
    found = [
        discover.FoundColumn(pa.field(name, pa.int64()), "integer", 5.0, 5.0, numbers=5.0, **known)
        for name in names
    ]
    budget = Budget(1.0, 1e-6, ZCDP, RHO, DELTA)

    def act(table: Source, session: Session) -> dict[str, Any]:
        columns = single_values(session, table, found, RHO, Fraction(0))
        rows = [column.values.get(7.0, 0) for column in columns]
        return {"kept": np.count_nonzero(rows), "seven": sum(rows)}

    return stage("discover single values", budget, unit, worlds, act, share=0.3)


def threshold_of(unit: Unit, rho: Fraction, delta: Fraction) -> int:
    """The rows that a value needs."""
    scale = scale_for(Mechanism.THRESHOLD, rho, sensitivity=unit.l2_squared_of_marginal)
    threshold = discover.threshold_for(scale, delta, l0=unit.l0_of_marginal, linf=unit.linf_of_marginal)[0]
    return threshold + int(scale / discover.SHIFT)


def grid(unit: Unit) -> Check:
    """The cells over the coarse grid, beside a value that is popular in the noisy answers, and one that
    is not though it comes as often.
    """
    edges = coarse_grid("integer")
    edges = edges[(edges >= 0) & (edges <= 5000)]  # those without rows are noise alone, and took the time
    around = int(np.searchsorted(edges, 500, "right")) - 1

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        noisy, _ = reader(column, session, "integer", values={40.0: 9}).histogram("range", edges, RHO)
        return {"cells": noisy[around - 1 : around + 2]}

    one, two = pair_of(unit, "500", "7", 4)
    return reading("coarse cells", unit, (one + ["40"] * 5, two + ["40"] * 5), read)


def rounding(unit: Unit) -> Check:
    """What numbers are rounded to: a person's are ones among hundreds, that come or turn from hundreds."""

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        return {"multiple": reader(column, session, "integer").rounded(RHO).multiple_of}

    pair = pair_of(unit, "7", "300", 4)
    return reading(
        "rounding", unit, tuple([*rows, *["300"] * 38] for rows in pair), read, fixed=False, share=0.1
    )


def span(unit: Unit) -> Check:
    """Both looks at the cells: a cell of the grid comes up to what stands out, and is counted again."""
    half = RHO / 2
    scale = scale_for(Mechanism.GAUSSIAN, half, sensitivity=unit.l2_squared_of_marginal)

    def read(column: Sealed, session: Session) -> dict[str, Any]:
        learnt = reader(column, session, "integer").cells(half, half)
        if learnt.edges is None or learnt.noisy is None:
            return {"low": -1, "high": -1, "rows": -99}
        return {"low": learnt.edges[0], "high": learnt.edges[-1], "rows": int(learnt.noisy.sum())}

    pair = pair_of(unit, "500", "", round(CLEAR * scale))
    note = "the finer cells are counted where the coarse ones stand out alone"
    return reading("span and finer cells", unit, pair, read, fixed=False, share=0.1, note=note)


def discovery_checks() -> list[Check]:
    return [
        *map(votes, (ONE, SWAP_TWO)),
        *(popular(unit, "texts", "string", "red", "blue") for unit in (ONE, SWAP_TWO)),
        popular(ONE, "numbers", "integer", "40", "41"),
        popular_together(ONE),
        own_value(ONE),
        *map(rarer, (ONE, SWAP_TWO)),
        *map(singles, (ONE, SWAP_TWO)),
        *map(grid, (ONE, SWAP_TWO)),
        *map(rounding, (ONE, SWAP_TWO)),
        span(TWO),
        zone(ONE),
    ]
