"""Functions: whatever a person's rows hold, no number of rows that break something moves by more than they
are, and the vector of all by no more than is charged for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem.accounting.conversion import Composition
from factored_mwem.accounting.unit import Neighbours, Unit, grains_of
from factored_mwem.domain.domain import Domain
from factored_mwem.privacy import functions
from factored_mwem.privacy.counts import PrivateRows
from factored_mwem.privacy.functions import PrivateBroken, PrivateUndetermined
from factored_mwem.privacy.rows import Sealed
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.codes import broken as counted
from factored_mwem.tables.codes.broken import Hypothesis
from factored_mwem.tables.codes.rest import Known

Row = tuple[Any, ...]
MOST = 2
CELLS: list[Row] = [("2020-03-01", 3, 0), ("2020-04-02", 3, None), (None, None, None), ("x", 1, 2)]
"""A date as text, and two whole numbers."""
NAMES = ("t", "x", "y")
NUMBER = Known(("integer",), "integer", 1.0)
KNOWN = {"t": Known(("date",), "date", 1.0), "x": NUMBER, "y": NUMBER}
HYPOTHESES = [
    Hypothesis("month", "x", ("t",)),
    Hypothesis("equal", "y", ("x",)),
    Hypothesis("sum", "x", ("x", "y")),
    Hypothesis("tens", "y", ("x",)),
    Hypothesis("linear", "y", ("x",), 60.0, 1.0),
    Hypothesis("product", "y", ("x", "x")),
    Hypothesis("order", "y", ("x",)),
]
OTHERS: list[Row] = [CELLS[0], CELLS[1], CELLS[2]]
CODED = Domain.from_dict({"a": 2, "b": 3, "c": 2})
ASKED = [((0,), 1), ((1,), 0), ((0, 2), 1), ((1, 2), 0)]
"""Whether b follows from a, a from b, and either from the other and c."""
REST = {0: [1], 1: 2}
"""The last codes of a and b stand for many values."""


def table_of(rows: Sequence[Row]) -> pa.Table:
    kinds = (pa.string(), pa.int64(), pa.int64())
    cells = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({n: pa.array(c, k) for n, c, k in zip(NAMES, cells, kinds, strict=True)})


def broken(rows: Sequence[Row]) -> Sealed:
    return PrivateBroken.of(open_source(table_of(rows)), KNOWN, HYPOTHESES)


def undetermined(rows: Sequence[Row]) -> Sealed:
    codes = np.array(rows, dtype=np.uint8).reshape(-1, 3).T
    return PrivateUndetermined.of(PrivateRows.coded(list(codes), CODED), ASKED, REST)


KINDS: dict[str, tuple[Callable[[Sequence[Row]], Sealed], list[Row], list[list[Row]]]] = {
    "broken": (broken, CELLS, [[CELLS[2]] * 3, OTHERS]),
    "undetermined": (
        undetermined,
        list(itertools.product(range(2), range(3), range(2))),
        [
            [(0, 0, 0)],
            [(0, 0, 0), (0, 1, 1), (1, 1, 0), (1, 1, 0), (1, 2, 0), (1, 2, 0)],
            [(0, 1, 0)] * 3 + [(1, 1, 1), (1, 0, 0), (1, 0, 0), (1, 0, 0)],
        ],
    ),
}


def persons(cells: Sequence[Row], most: int) -> Iterator[list[Row]]:
    """All that a person may have."""
    for number in range(1, most + 1):
        yield from map(list, itertools.combinations_with_replacement(cells, number))


def norms(kind: str, neighbours: Neighbours, most: int) -> tuple[int, int, int]:
    """The largest L1 norm, squared L2 norm and single change over all pairs of neighbours."""
    of, cells, starts = KINDS[kind]
    worst = np.zeros(3, dtype=np.int64)
    for start in starts:
        own = [of([*start, *person]).reveal().exact(None) for person in persons(cells, most)]
        before = [of(start).reveal().exact(None)] if neighbours is Neighbours.ADD_REMOVE else own
        for one, other in itertools.product(own, before):
            change = np.abs(one - other)
            worst = np.maximum(worst, [change.sum(), (change**2).sum(), change.max()])
    return tuple(worst.tolist())


def check(kind: str, neighbours: Neighbours, most: int) -> tuple[int, int, int]:
    """The norms, once they are found to be no more than what is charged for."""
    worst = norms(kind, neighbours, most)
    sealed = KINDS[kind][0](KINDS[kind][2][-1])
    query = sealed.query(None, Unit(neighbours, most))
    assert worst[0] <= query.l1 == len(sealed.names) * most
    assert worst[1] <= query.l2_squared == len(sealed.names) * most**2
    assert worst[2] <= most
    assert query.sensitivity(Composition.ZCDP) == query.l2_squared
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("most", [1, MOST])
def test_no_number_moves_by_more_than_a_persons_rows(kind: str, neighbours: Neighbours, most: int) -> None:
    assert check(kind, neighbours, most)[2] == most  # and some moves by all of them


@pytest.mark.slow
def test_what_is_charged_is_reached() -> None:
    """A row that breaks all hypotheses moves every number."""
    assert check("undetermined", Neighbours.ADD_REMOVE, MOST)[1] == len(ASKED) * MOST**2
    assert check("broken", Neighbours.ADD_REMOVE, MOST)[1] == len(HYPOTHESES) * MOST**2


def test_grains_of_people_are_counted_as_they_are_charged() -> None:
    unit = Unit(Neighbours.ADD_REMOVE, MOST, by_id=True, grains=grains_of(MOST))

    def read(rows: Sequence[Row]) -> np.ndarray:
        own = table_of(rows).append_column("who", pa.array(["z"] * len(rows), pa.string()))
        people = open_source(own).people("who", MOST, unit.row_weight)
        return people.broken_rows(KNOWN, HYPOTHESES)

    worst = max(int(read(person).max()) for person in persons(CELLS, MOST + 1))
    assert worst == unit.linf_of_marginal
    assert broken([]).query(None, unit).l2_squared == len(HYPOTHESES) * unit.weight**2


# --- planted bugs ---


def test_a_planted_look_at_the_row_before_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows broken, and all rows like them."""
    breaks = counted._breaks
    monkeypatch.setattr(counted, "_breaks", lambda *a: breaks(*a) | bool(breaks(*a).any()))
    with pytest.raises(AssertionError):
        check("broken", Neighbours.ADD_REMOVE, 1)


def test_a_planted_count_of_all_rows_of_a_code_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a code of a with two of b all rows, not those beside the most frequent."""

    def all_rows(rows: Any, asked: Any, rest: Any) -> np.ndarray:
        table = rows.marginal((0, 1, 2)).reshape(CODED.shape)
        some = [np.moveaxis(table, b, -1).reshape(-1, CODED.shape[b]) for _, b in asked]
        return np.array([own[(own > 0).sum(axis=1) > 1].sum() for own in some], dtype=np.int64)

    monkeypatch.setattr(functions, "undetermined", all_rows)
    with pytest.raises(AssertionError):
        check("undetermined", Neighbours.ADD_REMOVE, 1)


def test_a_planted_count_of_what_is_left_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the code that stands for many values, times two."""
    honest = functions.undetermined

    def twice(rows: Any, asked: Any, rest: Any) -> np.ndarray:
        return 2 * honest(rows, asked, {}) - honest(rows, asked, rest)

    monkeypatch.setattr(functions, "undetermined", twice)
    with pytest.raises(AssertionError):
        check("undetermined", Neighbours.ADD_REMOVE, 1)


def test_a_planted_price_of_a_single_number_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    each = functions.SealedQuery.each
    alone = staticmethod(lambda subject, positions, most, answers=1: each(subject, positions, most))
    monkeypatch.setattr(functions.SealedQuery, "each", alone)
    for kind in KINDS:
        with pytest.raises(AssertionError):
            check(kind, Neighbours.ADD_REMOVE, 1)


# --- what is counted ---


def test_undetermined_is_what_a_table_gets_wrong() -> None:
    rng = np.random.default_rng(1)
    rows = [tuple(row) for row in rng.integers(0, CODED.shape, (50, 3)).tolist()]
    exact = undetermined(rows).reveal().exact(None).tolist()
    for (of, b), wrong in zip(ASKED, exact, strict=True):
        by: dict[Row, list[int]] = {}
        for row in rows:
            if not any(np.isin(row[a], REST.get(a, [])) for a in of):
                by.setdefault(tuple(row[a] for a in of), []).append(row[b])
        assert 0 < wrong == sum(len(own) - max(map(own.count, own)) for own in by.values())
