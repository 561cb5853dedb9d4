"""Whatever is asked of people, and wherever their rows lie, noise gets the same numbers; and rows come out as
often as real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from support import people as of_people
from support.fakes import FakeNoise
from support.people import MOST, VERBS

from factored_mwem import Workload, verify
from factored_mwem.pipeline.release import make
from factored_mwem.request.request import Request


def in_csv(table: pa.Table, folder: Path) -> Any:
    pyarrow.csv.write_csv(table, folder / "t.csv")
    return folder / "t.csv"


def in_parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "t.parquet", row_group_size=300)
    return folder / "t.parquet"


def in_pandas(table: pa.Table, folder: Path) -> Any:
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def in_polars(table: pa.Table, folder: Path) -> Any:
    return pytest.importorskip("polars", reason="Polars is not installed").from_arrow(table).lazy()


def in_duckdb(table: pa.Table, folder: Path) -> Any:
    pytest.importorskip("ibis", reason="Ibis is not installed: nothing was tried in SQL")
    import duckdb

    from factored_mwem.tables.backends.sql import push_down

    with duckdb.connect(folder / "t.db") as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE visits AS SELECT * FROM given")
    return push_down(f"duckdb://{folder}/t.db#visits")


PLACES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "csv": in_csv,
    "parquet": in_parquet,
    "pandas": in_pandas,
    "polars": in_polars,
    "duckdb": in_duckdb,
}
NOT_THERE = {("duckdb", "order"), ("duckdb", "learnt domain"), ("csv", "learnt domain")}
"""A database puts nothing in order and learns nothing; of text columns other types are looked for."""


PLACES_MARKED = [pytest.param(name, marks=[pytest.mark.system] * (name == "duckdb")) for name in PLACES]


@cache
def visits() -> pa.Table:
    return of_people.table_of_people(900, people=200, most=MOST)


@cache
def from_memory(verb: str) -> list[tuple[Any, ...]]:
    return of_people.inputs_of_verb(visits(), verb)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES_MARKED)
@pytest.mark.parametrize("verb", VERBS)
def test_all_that_reaches_the_noise_is_the_same(verb: str, place: str, tmp_path: Path) -> None:
    if (place, verb) in NOT_THERE:
        pytest.skip(f"{verb} is not for {place}")
    there = of_people.inputs_of_verb(PLACES[place](visits(), tmp_path), verb)
    assert len(there) >= 4 and there == from_memory(verb)


def rows_that_go_with_a_column() -> pa.Table:
    """Of 3,000 people who have 1, 3 or 8 rows by their ward."""
    rng = np.random.default_rng(0)
    ward = rng.integers(0, 3, 3000)
    who = np.repeat(np.arange(3000), np.array([1, 3, 8])[ward])
    sex, age = rng.integers(0, 2, 3000), rng.integers(0, 16, len(who))
    return pa.table({"who": who, "ward": ward[who], "sex": sex[who], "age": age})


ASKED = {
    "marginals": Workload.marginals(2),
    "single columns": Workload.marginals(1),
    "cube": Workload.cube("ward", "sex", order=2),
    "ranges": Workload.ranges("age"),
    "label": Workload.label("sex"),
    "one marginal": Workload.of([("sex", "age")]),
}


def share_of_rows_that_is_off(asked: str, engine: str) -> float:
    """Total variation of the wards of rows, without noise."""
    table, required = rows_that_go_with_a_column(), {"constraints": {"required": True}}
    ordered = {"type": "integer", "categoriesOrdered": True, **required}
    fields = [
        {"name": name, "categories": list(range(size)), **ordered}
        for name, size in (("ward", 3), ("sex", 2), ("age", 16))
    ]
    choices: dict[str, Any] = {"privacy_id": "who", "people": True, "contributions": 8, "sample_seed": 1}
    choices |= {"domain": {"fields": fields}, "epsilon": 20.0, "engine": engine}
    made = make(Request.of(table, ASKED[asked], **choices), noise=FakeNoise()).to_arrow()
    real, drawn = (np.bincount(rows["ward"].to_numpy()) / len(rows) for rows in (table, made))
    return float(np.abs(real - drawn).sum() / 2)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["tree", "mwem"])
@pytest.mark.parametrize("asked", ASKED)
def test_shares_of_rows_come_out_whatever_is_asked(asked: str, engine: str) -> None:
    """Not those of people: how many rows go with every column."""
    assert share_of_rows_that_is_off(asked, engine) < 0.03


@pytest.mark.parametrize("engine", ["tree", "mwem"])
def test_a_planted_model_that_forgets_it_is_seen(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workload, "beside", lambda self, other, names: self)
    assert share_of_rows_that_is_off("cube", engine) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["mwem", "mwem, ranges", "mwem, label, certificate"])
def test_neighbours_of_people_move_nothing_by_more_than_was_charged(verb: str) -> None:
    asked, more = VERBS[verb]
    choices: dict[str, Any] = {"privacy_id": "who", "people": True, "contributions": MOST, "rounds": 2}
    choices |= {"domain": of_people.DOMAIN, **{name: more[name] for name in more if name != "rounds"}}
    found = verify(of_people.table_of_people(200, most=MOST), asked, pairs=4, seed=2, **choices)
    assert found.holds, found.failures
    assert max(stage.worst for stage in found.stages) == pytest.approx(1)
