"""People of a table that stays in its database: counts against plain Python, and what reaches the noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import people as of_people

pytest.importorskip("ibis", reason="Ibis is not installed: nothing was tried in SQL")
pytest.importorskip("duckdb", reason="DuckDB is not installed")
from support.fakes import FakeNoise

from factored_mwem import push_down
from factored_mwem.accounting.unit import grains_of
from factored_mwem.domain.agreement import Grouping, groupings_in
from factored_mwem.errors import InputError
from factored_mwem.pipeline.release import make
from factored_mwem.request.request import Request
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import IN_MEMORY, PeopleSource, Source

MOST = 5
UNIT = grains_of(MOST)


def in_duckdb(table: pa.Table, folder: Path, name: str = "t") -> Source:
    import duckdb

    with duckdb.connect(folder / f"{name}.db") as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE visits AS SELECT * FROM given")
    return push_down(f"duckdb://{folder}/{name}.db#visits")


def people(source: Source, most: int = MOST, weight: Callable[[int], int] | None = None) -> PeopleSource:
    return source.people("who", most, weight or (lambda n: UNIT // n), ("NA",))


@pytest.mark.parametrize("rows", [0, 1, 900])
def test_grains_are_those_of_plain_python(tmp_path: Path, rows: int) -> None:
    """Rows that are used and what they weigh: whatever the ids, and the order that rows are stored in."""
    table, domain = of_people.table_of_people(rows), of_people.modelled(MOST)
    expected = of_people.grains(table, MOST, UNIT, of_people.drawn_in_sql(table, MOST))
    shuffled = table.take(np.random.default_rng(3).permutation(len(table)))
    for name, some in (("as it is", table), ("shuffled", shuffled)):
        data = people(in_duckdb(some, tmp_path, name)).encoded(domain, IN_MEMORY)
        assert of_people.every_cell(data, domain.shape) == expected


def test_levels_are_mapped_in_queries_of_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, domain = of_people.table_of_people(400), of_people.modelled(MOST)
    monkeypatch.setattr("factored_mwem.tables.backends.sql_engine.MAX_FINE_CELLS", 0)
    data = people(in_duckdb(table, tmp_path)).encoded(domain, IN_MEMORY)
    expected = of_people.grains(table, MOST, UNIT, of_people.drawn_in_sql(table, MOST))
    assert of_people.every_cell(data, domain.shape) == expected


def test_numbers_of_people_are_those_of_plain_python(tmp_path: Path) -> None:
    table = of_people.table_of_people(900)
    source, own = people(in_duckdb(table, tmp_path)), of_people.persons(table)
    sizes = [min(MOST, len(rows)) for rows in own.values()]
    assert source.people_by_rows(MOST).tolist() == np.bincount(sizes, minlength=MOST + 1)[1:].tolist()
    several = [rows for rows in own.values() if len(rows) > 1]
    cells = {name: table[name].to_pylist() for name in of_people.DOMAIN.names}
    same = [sum(len({column[i] for i in rows}) == 1 for rows in several) for column in cells.values()]
    assert source.constancy(of_people.DOMAIN.names).tolist() == [*same, len(several)]


def test_rows_of_a_person_agree_as_often_as_in_memory(tmp_path: Path) -> None:
    """Where nobody has more rows than are used; in groups of codes, too."""
    table, domain = of_people.table_of_people(900, most=MOST), of_people.modelled(MOST)
    groupings = {**groupings_in(domain, ()), "age": (Grouping(3, 1), Grouping(3, 2))}
    here, there = (
        people(source).pairs_alike(domain, groupings, IN_MEMORY)
        for source in (open_source(table), in_duckdb(table, tmp_path))
    )
    assert len(here) == 6 and here.min() > 0 and here.tolist() == there.tolist()


def test_a_table_without_people_has_none(tmp_path: Path) -> None:
    source = people(in_duckdb(of_people.table_of_people(0), tmp_path))
    assert source.people_by_rows(MOST).tolist() == [0] * MOST
    assert source.constancy(["age", "day"]).tolist() == [0, 0, 0]
    domain = of_people.modelled(MOST)
    assert not source.pairs_alike(domain, groupings_in(domain, ()), IN_MEMORY).any()


def test_a_person_moves_nothing_of_anybody_else(tmp_path: Path) -> None:
    """A person more, of a thousand rows, adds one person's grains, and takes nobody's."""
    table, domain = of_people.table_of_people(300), of_people.modelled(MOST)
    crowd = of_people.table_of_people(1000, seed=9).set_column(0, "who", pa.array(["somebody"] * 1000))
    before, after = (
        of_people.every_cell(people(in_duckdb(t, tmp_path, n)).encoded(domain, IN_MEMORY), domain.shape)
        for n, t in (("before", table), ("after", pa.concat_tables([crowd, table])))
    )
    change = {cell: after.get(cell, 0) - before.get(cell, 0) for cell in {*before, *after}}
    assert min(change.values()) == 0 and sum(change.values()) == UNIT // MOST * MOST


def test_all_that_reaches_the_noise_is_the_same(tmp_path: Path) -> None:
    """As from memory, where nobody has more rows than are used, at once and in rounds. Seen to fail: where
    SQL counts rows for grains, and where rows of nobody are used.
    """
    table = of_people.table_of_people(2500, people=400, most=MOST)
    options: dict[str, Any] = {"domain": of_people.DOMAIN, "contributions": MOST, "epsilon": 5.0}
    source = in_duckdb(table, tmp_path)
    for rounds in (None, 6):
        here = of_people.noise_inputs(table, rounds=rounds, **options)
        assert len(here) > (rounds or 3) and here == of_people.noise_inputs(source, rounds=rounds, **options)


def test_ids_of_whole_numbers_are_people_too(tmp_path: Path) -> None:
    table = of_people.table_of_people(600, most=MOST)
    table = table.set_column(0, "who", pa.array([i % 150 if i % 7 else None for i in range(len(table))]))
    options: dict[str, Any] = {"domain": of_people.DOMAIN, "contributions": MOST, "epsilon": 5.0}
    assert of_people.noise_inputs(table, 2, **options) == of_people.noise_inputs(
        in_duckdb(table, tmp_path), 2, **options
    )


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (pa.array([0.5] * 10), "make it text or integers"),
        (pa.array(["2020-01-01"] * 10).cast(pa.date32()), "by text or whole numbers"),
    ],
)
def test_ids_that_a_database_may_read_otherwise_are_refused(tmp_path: Path, ids: pa.Array, said: str) -> None:
    table, noise = of_people.table_of_people(10).set_column(0, "who", ids), FakeNoise()
    choices: dict[str, Any] = {"privacy_id": "who", "people": True, "domain": of_people.DOMAIN}
    with pytest.raises(InputError, match=said):
        make(Request.of(in_duckdb(table, tmp_path), 1, **choices), noise=noise)
    assert not noise.calls


def test_a_learnt_domain_and_ids_without_people_are_refused(tmp_path: Path) -> None:
    source = in_duckdb(of_people.table_of_people(10), tmp_path)
    with pytest.raises(InputError, match="needs a declared domain"):
        make(Request.of(source, 1, privacy_id="who", people=True), noise=FakeNoise())
    with pytest.raises(InputError, match="--privacy-id needs --people"):
        make(Request.of(source, 1, privacy_id="who", domain=of_people.DOMAIN), noise=FakeNoise())
