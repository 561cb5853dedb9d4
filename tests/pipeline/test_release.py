"""The Python interface end to end: any data frame in, the same columns, types and nulls out."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.fakes import FakeNoise

from factored_mwem import (
    Attribute,
    Domain,
    InputError,
    NothingLearnt,
    Policy,
    Release,
    ResourceError,
    Workload,
    release,
)
from factored_mwem.backends.source import open_source
from factored_mwem.pipeline.release import make
from factored_mwem.request import Request

ROWS = 3000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """People with a region, a postcode, an age, a score, a birthday and a last visit; the score has gaps."""
    rng = np.random.default_rng(5)
    region = rng.integers(0, 3, ROWS)
    days = rng.integers(0, 365, ROWS)
    start = datetime.datetime(2024, 1, 1)
    return pa.table(
        {
            "region": pa.array(np.array(["north", "south", "west"])[region]).dictionary_encode(),
            "postcode": pa.array(np.array(["0311", "0312", "9000"])[(region + (rng.random(ROWS) < 0.1)) % 3]),
            "age": pa.array(rng.integers(18, 90, ROWS), pa.int16()),
            "score": pa.array(rng.normal(50, 10, ROWS), pa.float32(), mask=rng.random(ROWS) < 0.2),
            "member": pa.array(region == 0),
            "born": pa.array([start.date() + datetime.timedelta(days=int(d)) for d in days]),
            "seen": pa.array(
                [start + datetime.timedelta(days=int(d), seconds=int(d) * 97) for d in days],
                pa.timestamp("ms", "Europe/Paris"),
            ),
        }
    )


@pytest.fixture(scope="module")
def domain() -> Domain:
    def bounded(name: str, type_: str, low: Any, high: Any, required: bool = True) -> Attribute:
        return Attribute.model_validate(
            {
                "name": name,
                "type": type_,
                "bins": 8,
                "constraints": {"minimum": low, "maximum": high, "required": required},
            }
        )

    must = {"required": True}
    return Domain(
        [
            Attribute.model_validate(
                {"name": "region", "categories": ["north", "south", "west"], "constraints": must}
            ),
            Attribute.model_validate(
                {"name": "postcode", "categories": ["0311", "0312", "9000"], "constraints": must}
            ),
            bounded("age", "integer", 18, 89),
            bounded("score", "number", 0, 100, required=False),
            Attribute.model_validate({"name": "member", "type": "boolean", "constraints": must}),
            bounded("born", "date", "2024-01-01", "2024-12-31"),
            bounded("seen", "datetime", "2024-01-01", "2025-01-02"),
        ]
    )


@pytest.fixture(scope="module")
def made(table: pa.Table, domain: Domain) -> Release:
    return release(table, 2, domain=domain, epsilon=5.0)


def test_values_come_back_as_they_came(table: pa.Table, made: Release) -> None:
    out = made.to_arrow()
    assert out.schema.names == table.schema.names
    assert out.schema.types == table.schema.types
    assert set(out["postcode"].to_pylist()) <= {"0311", "0312", "9000"}
    assert {name for name in out.schema.names if out[name].null_count} == {"score"}
    share = out["score"].null_count / len(out)
    assert 0.1 < share < 0.3
    assert abs(len(out) - ROWS) < 200


def test_marginals_are_kept(table: pa.Table, made: Release) -> None:
    """Region and postcode agree in nine rows of ten; independent columns would agree in a third."""
    twin = {"0311": "north", "0312": "south", "9000": "west"}
    rows = made.to_arrow().select(["region", "postcode"]).to_pylist()
    agree = sum(twin[row["postcode"]] == row["region"] for row in rows) / len(rows)
    assert 0.8 < agree < 0.97


@pytest.mark.parametrize(
    "kind", ["pandas", "polars", "lazy", "duckdb", "reader", "dataset", "csv", "parquet", "feather"]
)
def test_every_kind_of_table_is_taken(kind: str, table: pa.Table, domain: Domain, tmp_path: Path) -> None:
    """The same people arrive through every door: each gives the columns back, and the number of rows that
    `replace` makes public.
    """
    source = as_kind(kind, table, tmp_path)
    out = release(source, 1, domain=domain, neighbours="replace", epsilon=5.0).to_arrow()
    assert out.schema.names == table.schema.names
    assert len(out) == ROWS
    assert min(out["age"].to_pylist()) >= 18


def as_kind(kind: str, table: pa.Table, folder: Path) -> Any:
    plain = table.set_column(0, "region", table["region"].cast(pa.string()))
    if kind == "pandas":
        return plain.to_pandas().set_index(np.arange(ROWS) * 2)
    if kind in ("polars", "lazy"):
        import polars as pl

        frame = pl.from_arrow(plain)
        return frame.lazy() if kind == "lazy" else frame
    if kind == "duckdb":
        import duckdb

        return duckdb.from_arrow(plain)
    if kind == "reader":
        return table.to_reader(max_chunksize=700)
    if kind == "dataset":
        return ds.dataset(table)
    return write_as(kind, plain, folder)


def write_as(kind: str, table: pa.Table, folder: Path) -> Path:
    path = folder / f"people.{kind}"
    if kind == "csv":
        from pyarrow import csv

        csv.write_csv(table, path)
    elif kind == "parquet":
        pq.write_table(table, path)
    else:
        from pyarrow import feather

        feather.write_feather(table, path)
    return path


def test_the_same_rows_at_every_call_and_others_on_request(made: Release) -> None:
    assert made.to_arrow() == made.to_arrow()
    assert made.sample(50, seed=3) == made.sample(50, seed=3)
    assert made.sample(50, seed=3) != made.sample(50, seed=4)
    assert made.sample(0).num_rows == 0


def test_written_and_loaded_again(made: Release, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    manifest = made.write(path)
    made.save(tmp_path / "out.fmwem")
    again = Release.load(tmp_path / "out.fmwem")
    assert pq.read_table(path).equals(made.to_arrow())
    assert again.to_arrow() == made.to_arrow()
    assert again.manifest == made.manifest
    assert [m.noisy.tolist() for m in again.measurements] == [m.noisy.tolist() for m in made.measurements]
    assert (
        json.loads((tmp_path / "out.manifest.json").read_text())["output"]["sha256"] == manifest.output.sha256
    )  # type: ignore[union-attr]


def test_the_guarantee_is_what_the_ledger_says(made: Release) -> None:
    manifest = made.manifest
    assert manifest.recompute() == manifest.guarantee.spent_epsilon <= 5.0
    assert manifest.guarantee.spent_epsilon > 4.99, "the budget is there to be used"
    assert abs(sum(stage.share for stage in manifest.stages) - 1) < 1e-6


def test_pure_privacy_has_no_delta(table: pa.Table, domain: Domain) -> None:
    guarantee = release(table, 2, domain=domain, epsilon=2.0, delta=0.0).manifest.guarantee
    assert (guarantee.delta, guarantee.composition) == (0.0, "pure")
    assert 1.99 < guarantee.spent_epsilon <= 2.0


def test_a_domain_is_learnt_inside_the_budget(table: pa.Table) -> None:
    made = release(table, 2, epsilon=20.0)
    assert [a.type for a in made.domain] == [
        "string",
        "string",
        "integer",
        "number",
        "boolean",
        "date",
        "datetime",
    ]
    assert made.manifest.guarantee.spent_epsilon <= 20.0
    assert made.manifest.stages[0].stage == "discover"
    assert 0 < made.manifest.stages[0].share <= made.manifest.policy["domain_budget"]
    assert all(a.domain == "learnt" for a in made.manifest.attributes)


def test_a_person_with_many_rows_is_cut_to_k(domain: Domain) -> None:
    """One person with 2,000 rows of the south and 500 with one of the north each: with K = 2 the south all
    but disappears.
    """
    people = ["glutton"] * 2000 + [f"p{i}" for i in range(500)]
    table = pa.table({"who": people, "region": ["south"] * 2000 + ["north"] * 500})
    policy = Policy.of(epsilon=20.0, privacy_id="who", contributions=2)
    out = release(table, 1, policy, domain=domain.project(["region"])).to_arrow()
    assert out.schema.names == ["region"]
    assert out["region"].to_pylist().count("south") < 40
    assert 400 < len(out) < 600


@pytest.mark.parametrize(
    ("choices", "word"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"columns": ["age", "height"]}, "height"),
        ({"rows": -1}, "rows"),
        ({"privacy_id": "who"}, "who"),
        ({"max_cells": 2}, "max"),
        ({"colour": 3}, "colour"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_spent(
    choices: dict[str, Any], word: str, table: pa.Table, domain: Domain
) -> None:
    with pytest.raises((InputError, ResourceError), match=word) as caught:
        release(table, 2, domain=domain, **choices)
    assert not caught.value.budget_spent
    assert "\n" not in str(caught.value)


def test_a_workload_too_large_is_refused_before_a_domain_is_learnt(table: pa.Table) -> None:
    with pytest.raises(InputError, match="only 7 attributes") as caught:
        release(table, 8)
    assert not caught.value.budget_spent


def test_only_some_columns(table: pa.Table, domain: Domain) -> None:
    out = release(
        table, Workload.of([("age", "member")]), domain=domain, columns=["member", "age"]
    ).to_arrow()
    assert out.schema.names == ["age", "member"]


def learnt(source: Any, epsilon: float) -> Release:
    """A release with a learnt domain, noise of the right size from a seed: real noise makes text of numbers
    one time in 700, or a bound far off.
    """
    rng = np.random.default_rng(1)
    noise = FakeNoise(
        offset=lambda values, scale: values + np.rint(rng.normal(0, scale, len(values))).astype(np.int64)
    )
    policy = Policy.of(epsilon=epsilon)
    return make(Request(open_source(source), Workload.marginals(1), policy, None, None, None, 1), noise=noise)


def test_learnt_columns_keep_their_shares() -> None:
    """Seen to fail: the last edge is inclusive, so a learnt 0/1 column was one bin and came back as a coin
    flip.
    """
    rng = np.random.default_rng(8)
    n = 20_000
    columns = {
        "bit": (rng.random(n) < 0.1).astype(np.int64),
        "rating": rng.choice([1, 2, 3, 4, 5], n, p=[0.05, 0.05, 0.1, 0.2, 0.6]),
        "zero": np.zeros(n, dtype=np.int64),
    }
    out = learnt(pa.table(columns), 5.0).to_arrow()
    for name, real in columns.items():
        made = out[name].to_numpy()
        for value in np.unique(real):
            assert abs((made == value).mean() - (real == value).mean()) < 0.02, (name, value)


def test_a_few_leading_zeros_make_text_of_a_column(tmp_path: Path) -> None:
    """One postcode in twenty-five begins with a zero: as numbers they would all lose it."""
    codes = [
        f"{c:05d}" for c in np.random.default_rng(4).choice([311, 20095, 80331], 9_000, p=[0.04, 0.5, 0.46])
    ]
    path = tmp_path / "codes.csv"
    path.write_text("code\n" + "\n".join(codes) + "\n")
    out = release(path, 1, epsilon=10.0).to_arrow()["code"].to_pylist()
    assert "00311" in out


def test_a_privacy_id_hides_no_missing_column(domain: Domain) -> None:
    """The refusal for a column that the domain names and the table lacks holds with a privacy id too."""
    table = pa.table({"who": ["a", "b"], "age": pa.array([20, 30], pa.int16())})
    with pytest.raises(InputError, match="member"):
        release(table, 1, domain=domain.project(["age", "member"]), privacy_id="who")


def test_a_nested_id_is_refused(domain: Domain) -> None:
    table = pa.table({"who": [["a"], ["b"]], "age": pa.array([20, 30], pa.int16())})
    with pytest.raises(InputError, match="text or integers"):
        release(table, 1, domain=domain.project(["age"]), privacy_id="who")


@pytest.mark.parametrize(
    "bad",
    [
        {"workload": True},
        {"workload": "1"},
        {"workload": Workload()},
        {"policy": {"epsilon": 1}},
        {"columns": "age"},
    ],
)
def test_what_only_an_untyped_caller_passes_is_refused(
    bad: dict[str, Any], table: pa.Table, domain: Domain
) -> None:
    with pytest.raises(InputError):
        release(table, bad.get("workload", 1), bad.get("policy"), domain=domain, columns=bad.get("columns"))


def test_a_policy_checks_itself() -> None:
    """However it is made: Policy(rounds=-3) once ran no round and spent a third of the budget."""
    for bad in ({"rounds": -3}, {"rounds": 0}, {"iterate": "average"}):
        with pytest.raises(ValueError, match=r"rounds|average"):
            Policy(**bad)


def test_a_failure_at_the_manifest_takes_the_data_with_it(
    made: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str, *_: Any) -> None:
        raise ResourceError("no space left")

    monkeypatch.setattr("factored_mwem.pipeline.writing.write_text", full)
    with pytest.raises(ResourceError):
        made.write(tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []


def test_the_statement_names_the_rows_a_person_may_have(made: Release) -> None:
    assert "one person with at most 1 row added or removed" in made.manifest.guarantee.statement


def test_one_component_starts_from_the_one_way_marginals(table: pa.Table, domain: Domain) -> None:
    """With nothing but one-way marginals to measure, a single joint component must still be fitted to
    them.
    """
    small = domain.project(["region", "member"])
    out = release(
        table, 1, domain=small, columns=["region", "member"], components="one", engine="mwem", epsilon=20.0
    ).to_arrow()
    for name in ("region", "member"):
        real, made = ([str(v) for v in t[name].to_pylist()] for t in (table, out))
        for value in set(real):
            assert abs(real.count(value) / len(real) - made.count(value) / len(made)) < 0.02


def test_whole_numbers_written_as_floats_stay_whole(tmp_path: Path) -> None:
    """Many programs write 1.0 for 1, and pandas turns integers with a gap into floats: neither makes a 0/1
    column continuous.
    """
    bits = (np.random.default_rng(6).random(9000) < 0.3).astype(float)
    path = tmp_path / "bits.csv"
    path.write_text("bit\n" + "\n".join(f"{b:.1f}" for b in bits) + "\n")
    for source in (path, pa.table({"bit": bits})):
        out = learnt(source, 5.0).to_arrow()["bit"].to_numpy()
        assert set(out.tolist()) == {0, 1}
        assert abs(out.mean() - 0.3) < 0.04


def test_categories_keep_their_order_only_where_it_is_declared(domain: Domain) -> None:
    """A learnt domain sorts its categories: an ordered column of it would claim that high is below low."""
    levels = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2] * 500), pa.array(["low", "mid", "high"]), ordered=True
    )
    table = pa.table({"level": levels})
    assert not release(table, 1, epsilon=5.0).to_arrow().schema.field("level").type.ordered
    known = {
        "name": "level",
        "categories": ["low", "mid", "high"],
        "categoriesOrdered": True,
        "constraints": {"required": True},
    }
    out = release(table, 1, epsilon=5.0, domain={"fields": [known]}).to_arrow()
    assert out.schema.field("level").type.ordered
    assert out["level"].chunk(0).dictionary.to_pylist() == ["low", "mid", "high"]


def test_noise_that_drowns_the_table_is_said_and_bounded(table: pa.Table, domain: Domain) -> None:
    """At contributions=10^9 the noisy count of rows may be anything: the release warns, and does not write
    billions of rows.

    Certain whatever is drawn: the count is above 10^8, which is said, or far below the noise of 10^9, which
    is said.
    """
    made = release(table, 1, domain=domain, contributions=10**9)
    assert made.rows <= 10**8
    assert any("--rows" in warning for warning in made.manifest.warnings)


def test_rows_that_are_not_drawn_are_said(
    table: pa.Table, domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table larger than the most that is drawn by default is cut, with a warning; below it there is
    none.
    """
    assert not any(
        "--rows" in warning for warning in release(table, 1, domain=domain, epsilon=5.0).manifest.warnings
    )
    for module in ("attempts", "describe"):
        monkeypatch.setattr(f"factored_mwem.pipeline.{module}.DEFAULT_MAX_ROWS", ROWS // 2)
    made = release(table, 1, domain=domain, epsilon=5.0)
    assert made.rows == ROWS // 2
    assert any(
        "more than 1,500 are drawn only where --rows says so" in warning for warning in made.manifest.warnings
    )


def test_what_could_not_be_learnt_is_said() -> None:
    """Strings that nobody shares, and too few numbers for the budget: the release ends, names them, and says
    what was spent.
    """
    table = pa.table({"id": [f"u{i}" for i in range(300)], "pay": pa.array(np.arange(300) * 1000)})
    with pytest.raises(NothingLearnt, match=r"most of id, pay.*spent so far: epsilon 0.0"):
        make(
            Request(open_source(table), Workload.marginals(1), Policy.of(epsilon=0.05), None, None, None, 1),
            noise=FakeNoise(),
        )


def test_the_manifest_holds_the_domain(made: Release) -> None:
    """A reader must see which bounds and categories were assumed or learnt."""
    assert Domain.from_dict(made.manifest.domain) == made.domain


def test_kernels_compile_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service account without a home: numba refuses to cache, the program must run all the same."""
    from factored_mwem import kernels

    real = kernels.njit

    def no_cache(**options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("no locator available")
        return real(**options)

    monkeypatch.setattr(kernels, "njit", no_cache)
    assert kernels.compiled(lambda x: x + 1)(1) == 2
