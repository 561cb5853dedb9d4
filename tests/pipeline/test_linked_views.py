"""What rows of linked tables come to: by brute force over databases, keys doubled, missing and leading
nowhere among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factored_mwem.accounting.unit import Unit
from factored_mwem.pipeline import linked_views
from factored_mwem.pipeline.linked_views import (
    PARENT,
    ROOT,
    LinkedViews,
    beside,
    count_of,
    first_of,
    whole,
)
from factored_mwem.privacy.people import PrivateSizes
from factored_mwem.privacy.rows import ExactNumbers
from factored_mwem.request.package import LinkedTable, Package, Reference
from factored_mwem.tables.inputs.source import open_table

Rows = list[tuple[Any, ...]]
keys = st.one_of(st.none(), st.integers(0, 4))
databases = st.tuples(
    st.lists(st.tuples(keys, st.integers(0, 2)), max_size=6),
    st.lists(st.tuples(keys, keys, st.integers(0, 2)), max_size=8),
    st.lists(st.tuples(keys, st.integers(0, 2)), max_size=8),
)
MOST = {"persons": 3, "visits": 5}
PACKAGE = Package.of(
    [
        LinkedTable("homes", None, "home"),
        LinkedTable("persons", None, "person", Reference("home", "homes")),
        LinkedTable("visits", None, None, Reference("person", "persons")),
    ]
)
COLUMNS = {"homes": ["home", "size"], "persons": ["person", "home", "sex"], "visits": ["person", "ward"]}


def table_of(name: str, rows: Rows) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS[name])
    cells = [pa.array(list(column), pa.int64()) for column in columns]
    return pa.table(dict(zip(COLUMNS[name], cells, strict=True)))


def bundles(database: tuple[Rows, Rows, Rows]) -> dict[int, dict[str, Counter[Any]]]:
    """By the key of a home what the views hold of it, home by home: found as a reader of the rule would."""
    tables = {name: table_of(name, rows) for name, rows in zip(COLUMNS, database, strict=True)}
    opened = {name: open_table(table) for name, table in tables.items()}
    views = LinkedViews.of(PACKAGE, opened)
    views.read(opened)
    found: dict[int, dict[str, Counter[Any]]] = {}
    for table in PACKAGE.private:
        known = [count_of(child.name) for child in PACKAGE.children(table.name)]
        for above in PACKAGE.ancestors(table):
            own = [*views.own[above.name], *(count_of(c.name) for c in PACKAGE.children(above.name))]
            known += [beside(above.name, name) for name in own]
        view = views.view(table, known, MOST)
        roots = whole(views.roots(table).table).column(ROOT).to_pylist()
        parents: dict[int, dict[int, int]] = {}  # of numbers that name rows only which are the same matters
        for home, row in zip(map(int, roots), whole(view.table).to_pylist(), strict=True):
            assert int(row.pop(ROOT, home)) == home
            if PARENT in row:
                own = parents.setdefault(home, {})
                row[PARENT] = own.setdefault(row[PARENT], len(own))
            found.setdefault(home, {}).setdefault(table.name, Counter())[tuple(sorted(row.items()))] += 1
    return found


def without(database: tuple[Rows, Rows, Rows], home: int) -> tuple[Rows, Rows, Rows]:
    """The database without a home, and without what hangs on it and on no other."""
    homes, persons, visits = database
    there = {key for key, _ in homes if key is not None and key != home}
    left = [row for row in persons if row[1] != home]
    lost = {row[0] for row in persons if row[1] == home} - {row[0] for row in left if row[1] in there}
    return [row for row in homes if row[0] != home], left, [row for row in visits if row[0] not in lost]


def moved(database: tuple[Rows, Rows, Rows], home: int) -> list[int]:
    """The other homes whose rows are not what they were without this one."""
    before, after = bundles(database), bundles(without(database, home))
    return [key for key in before.keys() | after.keys() if key != home and before.get(key) != after.get(key)]


def neighbours(database: tuple[Rows, Rows, Rows]) -> Iterator[int]:
    return iter({key for key, _ in database[0] if key is not None})


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(databases)
def test_a_root_moves_no_other_root(database: tuple[Rows, Rows, Rows]) -> None:
    for home in neighbours(database):
        assert moved(database, home) == []


def numbers(database: tuple[Rows, Rows, Rows]) -> np.ndarray:
    """How many homes have no person, one, two, or more, exactly."""
    opened = {name: open_table(table_of(name, rows)) for name, rows in zip(COLUMNS, database, strict=True)}
    views = LinkedViews.of(PACKAGE, opened)
    views.read(opened)
    return PrivateSizes.of_roots(views.number_of("persons"), (0, 1, 2, 3)).reveal().exact(None)


def moves(database: tuple[Rows, Rows, Rows]) -> set[int]:
    """By how much (L1) the numbers of homes move if one is left out."""
    return {
        int(np.abs(numbers(database) - numbers(without(database, home))).sum())
        for home in neighbours(database)
    }


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(databases)
def test_a_root_moves_numbers_of_roots_by_one(database: tuple[Rows, Rows, Rows]) -> None:
    assert moves(database) <= {1}


DOUBLED = (
    [(0, 1), (1, 2)],
    [(7, 0, 0), (7, 1, 1), (None, 0, 1), (8, 9, 1)],
    [(7, 0), (7, 1), (3, 2), (None, 1)],
)
"""Two homes that claim one person; persons and visits that lead nowhere."""


def test_rows_of_a_small_database_by_hand() -> None:
    found = bundles(DOUBLED)
    assert [dict(found[0]["homes"]), sum(found[0]["persons"].values())] == [
        {(("rows of persons", 2), ("size", 1)): 1}, 2,
    ]  # fmt: skip
    assert sum(found[0]["visits"].values()) == sum(found[1]["visits"].values()) == 2
    assert all(("homes.size", 2) in row for row in found[1]["visits"])
    assert found.keys() == {0, 1}


def test_that_the_first_of_all_roots_is_used_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: of a key that two homes claim, the first home alone keeps the person."""
    monkeypatch.setattr(linked_views, "first_of", lambda key, root=None: first_of(key))
    assert [home for home in neighbours(DOUBLED) if moved(DOUBLED, home)] == [0]


def test_that_rows_are_counted_for_roots_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: each of a home's persons counts, and no longer the home."""
    assert moves(DOUBLED) == {1} == {PrivateSizes.of_roots(np.array([0]), (0, 1)).query(None, Unit()).l1}

    def of_rows(rows: np.ndarray, ends: Sequence[int]) -> PrivateSizes:
        return PrivateSizes(
            ExactNumbers(np.bincount(np.minimum(rows, ends[-1]), rows + 1, len(ends))), ("people",)
        )

    monkeypatch.setattr(PrivateSizes, "of_roots", of_rows)
    assert max(moves(DOUBLED)) > 1


def test_that_doubled_keys_are_left_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: who doubles a key takes it from others."""

    def single(key: pa.Array, root: np.ndarray | None = None) -> np.ndarray:
        values = key.to_pylist()
        return np.array([i for i, v in enumerate(values) if v is not None and values.count(v) == 1], np.int64)

    monkeypatch.setattr(linked_views, "first_of", single)
    assert {home for home in neighbours(DOUBLED) if moved(DOUBLED, home)} == {0, 1}
