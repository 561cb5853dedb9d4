"""Every backend counts one hostile table as plain Python does; noise gets the same numbers from each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise
from support.hostile_table import (
    codes_of,
    hostile_domain,
    hostile_table,
    hostile_views,
    oracle_counts,
)

from factored_mwem.domain.domain import Domain
from factored_mwem.pipeline.release import make
from factored_mwem.request.request import Request
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import IN_MEMORY, Source, Spill
from factored_mwem.tables.codes.codec import encode

Place = Callable[[pa.Table], Source]


def as_reader(table: pa.Table, rows: int) -> Source:
    return open_source(pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=rows)))


def as_polars(table: pa.Table) -> Source:
    polars = pytest.importorskip("polars", reason="Polars is not installed")
    return open_source(polars.from_arrow(table).lazy())


def as_duckdb(table: pa.Table) -> Source:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    connection = duckdb.connect()
    connection.register("given", table)
    return open_source(connection.sql("SELECT * FROM given"))


def in_duckdb(table: pa.Table, folder: Path, *, pushed: bool) -> Source:
    """An Ibis table over a DuckDB file, or counts in it."""
    ibis = pytest.importorskip("ibis", reason="Ibis is not installed: nothing was tried in SQL")
    import duckdb

    from factored_mwem.tables.backends.sql import push_down

    with duckdb.connect(folder / "t.db") as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    if pushed:
        return push_down(f"duckdb://{folder}/t.db#people")
    return open_source(ibis.duckdb.connect(folder / "t.db", read_only=True).table("people"))


PLACES: dict[str, Callable[[Path], tuple[Place, Spill]]] = {
    "memory": lambda folder: (open_source, IN_MEMORY),
    "mapped files": lambda folder: (open_source, Spill(0, folder)),
    "reader": lambda folder: (partial(as_reader, rows=7), Spill(1000, folder)),
    "polars": lambda folder: (as_polars, IN_MEMORY),
    "duckdb": lambda folder: (as_duckdb, IN_MEMORY),
    "ibis": lambda folder: (partial(in_duckdb, folder=folder, pushed=False), IN_MEMORY),
    "sql": lambda folder: (partial(in_duckdb, folder=folder, pushed=True), IN_MEMORY),
}
place = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.system) if n in ("ibis", "sql") else n for n in PLACES],
)
"""Ibis and its SQL take seconds to load, and come with an extra that the default suite may lack."""


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(np.random.default_rng(1).permutation(table.num_rows))


TABLES = {
    "whole": lambda typed: hostile_table(1500, typed=typed),
    "none": lambda typed: hostile_table(0, typed=typed),
    "one row": lambda typed: hostile_table(1, typed=typed, seed=3),
    "with empty batches": lambda typed: pa.concat_tables(
        [hostile_table(rows, typed=typed, seed=rows) for rows in (0, 9, 0, 1, 0)]
    ),
}


@cache
def expected(which: str, order: int, *, typed: bool) -> np.ndarray:
    domain = hostile_domain(typed=typed)
    return oracle_counts(domain, TABLES[which](typed), *hostile_views(domain, order))


def test_the_codec_agrees_with_plain_python() -> None:
    domain, table = hostile_domain(typed=True), hostile_table(3000, typed=True)
    for attribute, codes in zip(domain, codes_of(domain, table), strict=True):
        column = table[attribute.name].combine_chunks()
        assert encode(attribute, column).tolist() == codes, attribute.name


@place
@pytest.mark.parametrize("which", TABLES)
def test_counts_are_the_same_everywhere(tmp_path: Path, name: str, which: str) -> None:
    """Orders 1 and 2, or 3, at levels of all kinds. Asked twice, and of the same rows in another order."""
    typed = name != "sql"
    domain, order = hostile_domain(typed=typed), 3 if which == "whole" and name in ("memory", "sql") else 2
    axes, members, offsets = hostile_views(domain, order)
    build, spill = PLACES[name](tmp_path)
    data = build(shuffled(TABLES[which](typed))).encoded(domain, spill)
    for _ in range(2):
        found = data.exact_counts(axes, members, offsets)
        assert found.dtype.kind == "i"
        assert (found == expected(which, order, typed=typed)).all()


@pytest.mark.system
def test_levels_are_mapped_in_queries_of_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = in_duckdb(TABLES["whole"](False), tmp_path, pushed=True)
    monkeypatch.setattr("factored_mwem.tables.backends.sql_engine.MAX_FINE_CELLS", 0)
    data = source.encoded(hostile_domain(), IN_MEMORY)
    found = data.exact_counts(*hostile_views(hostile_domain(), 2))
    assert (found == expected("whole", 2, typed=False)).all()


def inputs_of_the_noise(source: Source, domain: Domain) -> list[Any]:
    noise = FakeNoise(offset=lambda values, scale: values + np.arange(len(values)) % 3 - 1)
    make(Request.of(source, 3, domain=domain, rounds=6, sample_seed=0, rows=10), noise=noise)
    return [(call.method, call.scale, np.asarray(call.values).tolist()) for call in noise.calls]


@cache
def inputs_in_memory() -> list[Any]:
    return inputs_of_the_noise(open_source(hostile_table(400)), hostile_domain())


@pytest.mark.slow
@place
def test_the_noise_of_a_fit_gets_the_same_numbers(tmp_path: Path, name: str) -> None:
    build, _ = PLACES[name](tmp_path)
    found = inputs_of_the_noise(build(shuffled(hostile_table(400))), hostile_domain())
    assert len(found) > 15
    assert found == inputs_in_memory()
