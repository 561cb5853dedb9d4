"""The runner of the benchmarks, and some of them as whole commands on tiny tables."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import pytest
from bench import speed, tables
from bench.coverage import rows_as_people, summed_up
from bench.pairs import alike, best, corrected_v, kept
from common.runner import Benchmark, Options, Row, parse
from support.benches import ROOT, ROWS, SIZES, bench, codes, runs, write

from factored_mwem import Domain
from factored_mwem.tables.backends.codes import encode_table
from factored_mwem.tables.inputs.source import open_table

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("forked_commands")]


@dataclass(frozen=True, kw_only=True)
class Asked(Options):
    rows: tuple[int, ...] = (1,)
    kind: Literal["one", "two"] = "one"
    plain: bool = False
    bug: Annotated[Literal["three"] | None, "words"] = None


def test_options_are_the_fields_of_a_dataclass() -> None:
    assert parse(Asked, "", "x", []) == Asked()
    wanted = Asked(output=Path("a.csv"), rows=(2_000_000, 3, 4), kind="two", plain=True, bug="three")
    told = ["--rows", "2e6", "3,4", "--kind", "two", "--plain", "--bug", "three", "-o", "a.csv"]
    assert parse(Asked, "", "x", told) == wanted
    for wrong in (["--rows", "1.5"], ["--kind", "three"], ["--bug", "two"]):
        with pytest.raises(SystemExit):
            parse(Asked, "", "x", wrong)


def test_a_table_has_a_line_for_each_kind_of_run() -> None:
    """Means and spreads of those that ended well, ratios to a base, the reason where none did."""
    columns = "e (sd) = {e:.2f~} | ratio = {e/:.1f} | other way = {/e:.1f} | words = {words}"
    made = Benchmark(Asked, lambda options, folder: iter([]), "data program", columns, base="old")
    ours = [{"data": "t", "program": "new", "e": e, "status": "ok"} for e in (1.0, 3.0)]
    lost: Row = {"data": "t", "program": "new", "status": "did not finish"}
    old: Row = {"data": "t", "program": "old", "e": 4.0, "words": "a b"}
    assert [*made.table([*ours, lost, old, {**lost, "program": "broken"}])][2:] == [
        "| t | new (2 of 3 runs) | 2.00 (1.41) | 0.5 | 2.0 | - |",
        "| t | old | 4.00 | 1.0 | 1.0 | a b |",
        "| t | broken | did not finish | | | |",
    ]


def test_accuracy_judges_what_releases_leave(tmp_path: Path) -> None:
    """The error falls with epsilon."""
    table = write(tmp_path / "tiny.csv", codes())
    chosen = ("--data", table, "--epsilons", 0.02, 20, "--runs", 1)
    rows = runs(tmp_path / "runs.csv", "accuracy", *chosen, "--keep", tmp_path / "kept")
    assert [(run["program"], run["status"]) for run in rows] == [("fmwem", "ok")] * 2
    noisy, exact = (float(run["e3"]) for run in rows)
    assert exact < 0.05 < noisy
    made = (tmp_path / "kept" / "tiny.20.fmwem.0.csv").read_text().splitlines()
    assert made[0] == ",".join(SIZES) and len(made) == 1 + ROWS


def test_speed_runs_checkouts_in_turn(tmp_path: Path) -> None:
    """A checkout that is broken is a failed run."""
    broken = tmp_path / "old" / "factored_mwem"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('the old one')\n")
    shutil.copy(ROOT / "pyproject.toml", broken.parent)
    beside = ("--checkout", f"now={ROOT}", f"old={broken.parent}")
    rows = runs(tmp_path / "speed.csv", "speed", "--only", "^check", "--runs", 2, *beside)
    assert [(row["program"], row["run"], row["status"][:7]) for row in rows] == [
        ("now", "0", "ok"),
        ("old", "0", "failed:"),
        ("now", "1", "ok"),
        ("old", "1", "failed:"),
    ]
    assert float(rows[0]["cpu"]) > 0


def test_peers_get_the_codes_of_the_rows_that_ours_encodes(tmp_path: Path) -> None:
    """All 42 columns; numbers are rounded across few of the edges."""
    table = speed.mixed(tmp_path, 2000, codes=True)
    domain = Domain.load(table.with_suffix(".json"))
    ours, theirs = encode_table(domain, open_table(table)).columns, pd.read_csv(table.with_suffix(".csv"))
    sizes = json.loads(table.with_suffix(".sizes.json").read_text())
    assert [*sizes] == [*theirs] == [*domain.names] and [*sizes.values()] == [*domain.shape]
    for own, name in zip(ours, theirs, strict=True):
        assert (own == theirs[name]).mean() > 0.99 and len(np.unique(own)) > 1


def test_scale_changes_one_quantity_at_a_time(tmp_path: Path) -> None:
    small = ("--rows", 1000, "--attributes", 3, "--cells", 2, "--epsilons", 1, "--marginals", 1)
    rows = runs(tmp_path / "runs.csv", "scale", *small)
    points = [tuple(int(run[axis]) for axis in ("rows", "attributes", "cells")) for run in rows]
    assert points == [(100_000, 20, 4), (1000, 20, 4), (100_000, 3, 4), (100_000, 20, 2)]
    assert {run["status"] for run in rows} == {"ok"}


def test_coverage_sees_intervals_that_hold_nothing(tmp_path: Path) -> None:
    """Measured answers of a dozen releases."""
    table, kept = write(tmp_path / "tiny.csv", codes()), tmp_path / "kept"
    command = ("--data", table, "--releases", 12, "--replicates", 4, "--models", kept)
    rows = runs(tmp_path / "a.csv", "coverage", *command)
    measured = {(row["kind"], row["basis"]): row for row in rows}["measured", "measured"]
    assert int(measured["asked"]) >= 12 * 4 and float(measured["within"]) > 0.7
    assert 0.5 < float(measured["spread"]) < 2 and float(measured["width"]) > float(measured["direct"])
    assert len(list((kept / "tiny_1").iterdir())) >= 12  # kept, so that the next look is the same
    assert runs(tmp_path / "b.csv", "coverage", *command) == rows


def test_coverages_sums() -> None:
    outcomes = [
        {"error": 1.0, "stderr": 2.0, "hit": True, "width": 7.84, "rows_hit": True},
        {"error": -4.0, "stderr": 2.0, "hit": False, "width": 7.84, "rows_hit": False},
        {"error": -4.0, "stderr": 2.0, "hit": False, "width": 7.84},
    ]
    sums = summed_up(pd.DataFrame(outcomes[:2]))
    assert sums["within"] == sums["rows"] == 0.5 and sums["asked"] == 2 and sums["width"] == 7.84
    assert summed_up(pd.DataFrame(outcomes))["rows"] == 0.5  # of those that were looked at
    assert sums["bias"] == pytest.approx(-0.75) and sums["spread"] == pytest.approx(np.std([0.5, -2.0]))
    assert rows_as_people(50, 100, 59, 100) and not rows_as_people(50, 100, 61, 100)


def test_graphs_compares_mechanisms_in_one_run(tmp_path: Path) -> None:
    small = ("--only", "karate", "--queries", 12, "--epsilons", 4)  # of five all are exact once in 40,000
    done = bench("graphs", *small, "-o", tmp_path / "lines.jsonl")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    named = [line["mechanism"] for line in lines]
    assert named == ["noise", "weights", "drawn", "even", "laplace", "fk", "mw"]
    assert all(line["edges"] == 78 and line["vertices"] == 34 for line in lines)
    by = {line["mechanism"]: line for line in lines}
    assert by["noise"]["worst"] >= by["noise"]["random"] > 0
    header, _, *rows = done.stdout.splitlines()
    assert len(rows) == 7 and "ratio" in header and "| 1.00 |" in rows[0]


def test_what_is_kept_of_pairs_is_what_is_real(tmp_path: Path) -> None:
    """Seen to fail: with the square root of what is kept."""
    real, other, rng = np.diag([500.0, 300.0, 200.0]), np.eye(3)[[1, 2, 0]], np.random.default_rng(0)
    assert corrected_v(real) == pytest.approx(1.0) and corrected_v(alike(real)) == 0.0
    assert kept(real, real) == pytest.approx(1.0) and kept(real, alike(real)) == pytest.approx(0.0)
    assert kept(real, real + alike(real)) == pytest.approx(0.5) and kept(real, 300 * other) == 0.0
    assert best(real, 0.1, rng) > 0.99 > 0.7 > best(real, 1e4, rng)
    a = rng.integers(0, 3, 600)
    table = {"a": a, "b": np.where(rng.random(600) < 0.9, a, 0), "c": rng.integers(0, 2, 600)}
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    found = runs(tmp_path / "runs.csv", "pairs", tmp_path / "t.csv", "--runs", 1, "--epsilons", 50)
    assert [row["of"] for row in found] == ["release", "alone", "parts"]
    assert all(row["pairs"] == "1" and float(row["kept"]) > 0.9 for row in found)


def test_people_are_released_in_four_ways(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = rng.geometric(0.4, 3000)
    who, sex = np.repeat(np.arange(3000), rows), rng.choice(["F", "M"], 3000)
    table = {
        "who": who,
        "sex": sex[who],
        "ward": rng.choice(["n", "s"], len(who)),
        "n": rng.integers(0, 9, len(who)),
    }
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    found = runs(tmp_path / "runs.csv", "people", tmp_path / "t.csv", "--person", "who", "--epsilons", 5)
    assert [row["way"] for row in found] == ["people", "rows", "one row", "shuffled"]
    errors = {row["way"]: float(row["mean"]) for row in found if row["status"] == "ok"}
    assert 0 < errors["people"] < 0.1 and float(found[0]["sizes"]) < 0.1


def test_statistic_compares_ours_and_the_others_in_one_run(tmp_path: Path) -> None:
    small = ("--columns", "education-num", "--epsilons", 1, "--runs", 3)
    rows = runs(tmp_path / "runs.csv", "statistic", *small)
    assert len(rows) == 18 and {row["what"] for row in rows} == {"q10", "median", "q90"}
    assert {"cauchy", "exponential", "printed", "opendp", "global"} <= {row["way"] for row in rows}
    assert all(float(row[name]) >= 0 for row in rows for name in ("median", "most", "ratio"))


def test_same_sees_what_a_copy_does_otherwise(tmp_path: Path) -> None:
    """Planted in the copy: half a table that drafts are made from."""
    for name in ("factored_mwem", "datasets"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    told = ("same", "--checkout", tmp_path, "--only", "files: draft")
    done = bench(*told)
    assert done.returncode == 0 and "1 configurations, 0 differ" in done.stdout, done.stdout + done.stderr
    table = tmp_path / "datasets" / "adult.csv"
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:4000]))
    done = bench(*told)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "DIFFERENT: 2.stderr, 2.stdout" in done.stdout, done.stdout


def test_raw_columns_become_codes() -> None:
    """Numbers in their order after words, a constant with two codes, as many amounts in every bin."""
    few, size = tables.listed(pd.Series(["10", "9", "N", "9"]))
    assert (few.tolist(), size) == ([2, 1, 0, 1], 3)
    assert tables.listed(pd.Series(["1", "1"]))[1] == 2
    codes, size = tables.money(np.array([0, 0, *range(1, 81)]))
    assert size == 9 and np.bincount(codes).tolist() == [2, *[10] * 8]


def test_a_missing_raw_file_is_named(tmp_path: Path) -> None:
    done = bench("tables", "--raw", tmp_path, "-o", tmp_path)
    assert done.returncode != 0 and "census-income.data" in done.stderr and "Traceback" not in done.stderr
