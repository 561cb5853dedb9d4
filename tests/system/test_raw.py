"""`bench raw`: its errors against hand-made answers, and the whole command on a tiny raw table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from bench.raw import BINS, MISSING, Column, Judge, read
from support.benches import ROOT, runs


def texts(*values: object) -> pd.Series:
    """As they are read, missing words empty."""
    return pd.Series(["" if str(value) in MISSING else str(value) for value in values])


def test_errors_are_those_counted_by_hand() -> None:
    """One of four rows differs in `a`, none in `b`, two in the pair; what is missing is one value."""
    judge = Judge(pd.DataFrame({"a": texts(1, 1, 2, "N"), "b": texts("x", "y", "x", "y")}), order=2)
    made = pd.DataFrame({"a": texts(1.0, 2.0, 2.0, np.nan), "b": texts("y", "x", "y", "x")})
    assert judge.errors(made) == {"e1": 0.25, "e2": 1.0, "exact": 0.25}


def test_the_real_table_itself_has_no_error_and_shuffled_columns_none_in_themselves() -> None:
    rng = np.random.default_rng(0)
    units = rng.normal(size=500)
    real = pd.DataFrame({"a": texts(*units), "b": texts(*np.round(units, 1)), "c": texts(*(units > 0))})
    judge = Judge(real)
    assert set(judge.errors(real).values()) == {0.0}
    shuffled = judge.baselines(rng)["independent"]
    assert shuffled["e1"] == 0.0 < 0.5 < shuffled["e2"] < shuffled["e3"]


def test_numbers_fall_into_bins_of_equal_mass_and_unlisted_values_of_a_short_list_are_errors() -> None:
    many, few = Column(texts(*range(1000))), Column(texts(*[1, 2, 4] * 50))
    counts = np.bincount(many.codes(texts(*np.arange(1000.0))))
    assert len(counts) == BINS and np.all(np.abs(counts - 1000 // BINS) <= 1)
    assert many.codes(texts(-5.0, 5000.0)).tolist() == [0, BINS - 1]  # beyond the ends: the end bins
    assert few.codes(texts(1, 2, 4, 3, "N", "what")).tolist() == [0, 1, 2, 3, 4, 4]  # 3 and the texts are new
    assert few.codes(texts(1.0, 3.0)).tolist() == few.codes(texts("1.00", "3")).tolist()


def test_dates_are_cut_as_moments_and_words_in_a_column_of_numbers_stand_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    days = [f"2020-01-{day:02d}" for day in range(1, 31)]
    path.write_text("day,n\n" + "".join(f"{day},{'R' if i % 5 else i}\n" for i, day in enumerate(days)))
    columns = {name: Column(cells) for name, cells in read(path).items()}
    assert (columns["day"].kind, columns["n"].kind) == ("date", "category")  # a fifth is no majority
    written = pa.table(
        {"day": pa.array(days, pa.string()).cast(pa.date32()), "n": pa.array([None] * 30, pa.int8())}
    )
    pyarrow.parquet.write_table(written, tmp_path / "a.parquet")
    again = read(tmp_path / "a.parquet")
    assert columns["day"].exact(again["day"]) == 0.0
    assert columns["n"].exact(again["n"]) == 2.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A raw table of 400 rows with a spike, a sentinel and a text, and its declared domain."""
    rng = np.random.default_rng(0)
    hours = np.where(rng.random(400) < 0.5, 40, rng.integers(1, 99, 400))
    codes = np.where(rng.random(400) < 0.3, "N", (hours // 50).astype(str))
    lines = [f"{h},{c},{'long' if h > 40 else 'short'}" for h, c in zip(hours, codes, strict=True)]
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "tiny.csv").write_text("hours,code,week\n" + "\n".join(lines) + "\n")
    fields = [
        {"name": "hours", "type": "integer", "constraints": {"minimum": 1, "maximum": 99}},
        {"name": "code", "categories": ["0", "1", "N"]},
        {"name": "week", "categories": ["long", "short"]},
    ]
    (tables / "tiny.declared.json").write_text(json.dumps({"fields": fields}))
    return tables


def bench_raw(folder: Path, *options: object) -> list[dict[str, str]]:
    chosen = ("--tables", folder, "--data", "tiny", "--runs", 1, *options)
    return runs(folder.parent / "runs.csv", "raw", *chosen)


def test_every_kind_of_domain_is_released_and_judged(folder: Path, tmp_path: Path) -> None:
    rows = bench_raw(folder, "--epsilons", 100, "--keep", tmp_path / "kept")
    assert [run["domain"] for run in rows] == ["", "", "learnt", "declared", "drafted"]
    assert {run["status"] for run in rows} == {"ok"}
    errors = {run["domain"] or run["program"]: float(run["e3"]) for run in rows}
    # epsilon 100: little but the codec and the scatter of the rows is left
    assert 2 * errors["declared"] < errors["independent"] < 2.0
    assert errors["declared"] < errors["resampled"]
    assert (tmp_path / "kept" / "tiny.100.now.declared.0.parquet").exists()


def test_another_checkout_runs_beside_this_one(folder: Path) -> None:
    """The other one is this one, too; that its package is the one that runs, a broken copy shows."""
    broken = folder.parent / "old" / "factored_mwem"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('the old one')\n")
    (broken.parent / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    rows = bench_raw(folder, "--epsilons", 1, "--domains", "declared", "--package", broken.parent)
    status = {run["program"]: run["status"] for run in rows if run["domain"]}
    assert status["now"] == "ok"
    assert status["before"].startswith("failed") and "the old one" in status["before"]


def test_a_codec_alone_is_told_apart_where_it_loses_something(folder: Path) -> None:
    pytest.importorskip("sklearn")
    chosen = ("--epsilons", 100, "--domains", "declared", "--two-sample")
    rows = bench_raw(folder, *chosen)
    assert abs(float(rows[-1]["codec_auc"]) - 0.5) < 0.15  # a bin a value: nothing is lost
    declared = folder / "tiny.declared.json"
    declared.write_text(declared.read_text().replace('"integer"', '"integer", "bins": 2'))
    rows = bench_raw(folder, *chosen)
    assert float(rows[-1]["codec_auc"]) > 0.7 and float(rows[-1]["auc"]) > 0.7
