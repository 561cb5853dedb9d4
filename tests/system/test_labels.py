"""`bench labels` and `bench tables`: scores against hand-made answers, the whole command on a tiny table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bench import tables
from bench.labels import Learners, Pairs, cramers_v, means
from support.benches import ROWS, SIZES, bench, codes, runs, write


def shuffled(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.permutation(column) for name, column in columns.items()}


def test_cramers_v_is_that_of_textbooks() -> None:
    assert cramers_v(np.array([[30, 0], [0, 70]])) == pytest.approx(1.0)
    assert cramers_v(np.outer([3, 7], [2, 8])) == pytest.approx(0.0)
    # phi = (10*40 - 20*30) / sqrt(30 * 70 * 40 * 60), and a code that never occurs changes nothing
    wanted = 200 / np.sqrt(30 * 70 * 40 * 60)
    assert cramers_v(np.array([[10, 20, 0], [30, 40, 0]])) == pytest.approx(wanted)
    assert cramers_v(np.array([[10, 20], [0, 0]])) == 0.0


def test_pairs_of_the_real_rows_have_no_error_and_shuffled_columns_lose_what_there_was() -> None:
    real = codes()
    pairs = Pairs(SIZES, real)
    assert set(pairs.errors(real).values()) == {0.0}
    lost = pairs.errors(shuffled(real))
    assert lost["v_worst"] > 0.4 and lost["v_mean"] > 0.1 and lost["e2"] > 0.05


def test_means_are_those_of_every_group_and_nan_where_nobody_is() -> None:
    columns = {"flag": np.array([0, 0, 1, 1, 1]), "a": np.array([0, 2, 1, 2, 2])}
    assert means(columns, "flag", "a", 2) == pytest.approx([1.0, 5 / 3])
    nobody = means({"flag": np.zeros(2, dtype=np.int64), "a": np.ones(2)}, "flag", "a", 2)
    assert nobody[0] == 1.0 and np.isnan(nobody[1])


def test_learners_find_the_label_in_real_rows_and_nothing_in_shuffled_ones() -> None:
    pytest.importorskip("sklearn")
    judge = Learners(SIZES, "flag", 1, codes(seed=2))
    taught, untaught = judge.scores(codes()), judge.scores(shuffled(codes()))
    for name in ("logistic", "boosting"):
        assert taught[f"{name}_auc"] > 0.9 and taught[f"{name}_f1"] > 0.8
        assert untaught[f"{name}_auc"] < 0.7 and untaught[f"{name}_f1"] < 0.3
    one_value = {**codes(), "flag": np.zeros(ROWS, dtype=np.int64)}
    assert set(judge.scores(one_value).values()) == {0.5, 0.0}
    # a label told the other way round is as easy
    assert Learners(SIZES, "flag", 0, codes(seed=2)).scores(codes())["logistic_auc"] > 0.9


@pytest.mark.parametrize("held_back", [False, True])
def test_the_command_compares_releases_with_and_without_the_label(tmp_path: Path, held_back: bool) -> None:
    """At epsilon 50 little is lost: the rows teach what real ones do."""
    pytest.importorskip("sklearn")
    table, test = write(tmp_path / "tiny.csv", codes()), write(tmp_path / "test.csv", codes(seed=2))
    chosen = ["--data", table, "--label", "flag@3", "--groups", "flag:a", "--epsilons", "50", "--runs", "1"]
    chosen += [] if held_back else ["--test", test]
    rows = runs(tmp_path / "runs.csv", "labels", *chosen, "--keep", tmp_path / "kept")
    programs = [("real", ""), ("fmwem", ""), ("fmwem", "flag@3")]
    assert [(run["program"], run["label"]) for run in rows] == programs
    assert {run["status"] for run in rows} == {"ok"}
    for run in rows:
        assert float(run["logistic_auc"]) > 0.85 and float(run["boosting_f1"]) > 0.7
        assert float(run["v_mean"]) < 0.1
        assert json.loads(run["groups"])["flag:a"] == pytest.approx([0.5, 1.3], abs=0.25)
    made = [len(path.read_text().splitlines()) - 1 for path in sorted((tmp_path / "kept").glob("*.csv"))]
    assert set(made) == {1000 if held_back else ROWS}  # no release sees a row that is tested on
    manifest = json.loads((tmp_path / "kept" / "tiny.50.fmwem.2.flag@3.0.manifest.json").read_text())
    assert (
        manifest["workload"]
        != json.loads((tmp_path / "kept" / "tiny.50.fmwem.2..0.manifest.json").read_text())["workload"]
    )
    alone = sum(len(names) == 1 for names in manifest["components"])
    assert float(rows[-1]["lone"]) == alone
    again = bench("labels", *chosen, "--runs", "0", "--beside", tmp_path / "runs.csv")
    assert "| tiny | 50 | fmwem | 2 | flag@3 |" in again.stdout and "| flag:a = 1 |" in again.stdout


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--label", "flags"], "--label flags"),
        (["--label", "flag", "--positive", "2"], "has the code 2"),
        (["--label", "flag", "--groups", "flag:c"], "--groups flag:c"),
    ],
)
def test_a_wrong_name_ends_before_any_release(tmp_path: Path, wrong: list[str], said: str) -> None:
    pytest.importorskip("sklearn")
    done = bench("labels", "--data", write(tmp_path / "tiny.csv", codes()), *wrong)
    assert done.returncode != 0 and said in done.stderr and "Traceback" not in done.stderr


def test_made_tables_are_the_same_every_time(tmp_path: Path) -> None:
    """Flags are rare, as rare as asked, and follow their parents; a code lies in the domain."""
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        tables.flags(tmp_path, tmp_path / folder)
    first, second = ((tmp_path / folder / "flags.csv").read_bytes() for folder in ("first", "second"))
    assert first == second
    columns = np.loadtxt(first.decode().splitlines(), delimiter=",", skiprows=1, dtype=int)
    sizes = json.loads((tmp_path / "first" / "flags.domain.json").read_text())
    parents = json.loads((tmp_path / "first" / "flags.parents.json").read_text())
    assert columns.shape == (100_000, 40) == (100_000, len(sizes))
    assert np.all(columns.max(axis=0) == np.array(list(sizes.values())) - 1)
    rates = np.sort(columns[:, 10:].mean(axis=0))
    assert rates == pytest.approx(np.geomspace(0.005, 0.06, 30), rel=0.15)
    names = list(sizes)
    flag, parent = names.index("f15"), names.index(parents["f15"][0])
    among = [columns[columns[:, parent] == code, flag].mean() for code in range(sizes[names[parent]])]
    assert max(among) > 2 * min(among)


def test_raw_columns_become_codes() -> None:
    """Numbers in their order after words, a constant with two codes, as many amounts in every bin."""
    few, size = tables.listed(pd.Series(["10", "9", "N", "9"]))
    assert (few.tolist(), size) == ([2, 1, 0, 1], 3)
    assert tables.listed(pd.Series(["1", "1"]))[1] == 2
    codes, size = tables.money(np.array([0, 0, *range(1, 81)]))
    assert size == 9 and np.bincount(codes).tolist() == [2, *[10] * 8]


def test_a_missing_raw_file_is_named(tmp_path: Path) -> None:
    done = bench("tables", "census", "--raw", tmp_path, "-o", tmp_path)
    assert done.returncode != 0 and "census-income.data" in done.stderr and "Traceback" not in done.stderr
