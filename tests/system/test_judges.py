"""`python scripts/judges`: what its runners are told, what is done with their answers, and what is said of
those that fail. The judges here are files of a few lines in environments without a package: no downloads.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from judges import command, values
from judges.command import main
from judges.environment import Environment, NotRun
from judges.runners import frames

pytestmark = pytest.mark.system

COUNTS = """
import csv, json, sys
task = json.loads(open(sys.argv[1]).read())
def ids(role):
    return {row["id"] for row in csv.DictReader(open(task[role]))}
def size(role):
    return sum(1 for _ in csv.DictReader(open(task[role])))
print("some words of a library")
print(json.dumps({"both": len(ids("real") & ids("holdout")), "of": size("rows"), "real": size("real")}))
"""
BROKEN = "import sys; sys.exit('no such library: astrolabe')"
COPIES = """
import json, shutil, sys
task = json.loads(open(sys.argv[1]).read())
shutil.copy(task["real"], task["out"])
print("{}")
"""


def runner(folder: Path, name: str, code: str, **figures: str) -> Environment:
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return Environment(name, (), folder / f"{name}.py", figures)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng, rows = np.random.default_rng(0), 600
    frame = pd.DataFrame(
        {"id": np.arange(rows), "age": rng.integers(20, 80, rows), "sex": rng.choice(["F", "M"], rows)}
    )
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_all_contenders_are_judged_and_none_saw_the_holdout(
    tmp_path: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Releases by every way to a domain, a peer, the hold-out and the shuffled columns, each with a figure;
    what fails is named with its reason.
    """
    domain = {
        "fields": [
            {"name": "id", "type": "integer", "constraints": {"minimum": 0, "maximum": 599}},
            {"name": "age", "type": "integer", "constraints": {"minimum": 20, "maximum": 80}},
            {"name": "sex", "categories": ["F", "M"]},
        ]
    }
    (tmp_path / "people.domain.json").write_text(json.dumps(domain), encoding="utf-8")
    judges = (
        runner(tmp_path, "counts", COUNTS, both="seen and unseen", of="rows judged", real="rows seen"),
        runner(tmp_path, "broken", BROKEN, stars="stars"),
    )
    told = ["--table", str(table), "--domain", str(tmp_path / "people.domain.json"), "--runs", "2"]
    told += ["--epsilon", "100"]  # 450 rows: at 1 a release stops after learning
    kept = ["--environments", str(tmp_path / "env"), "-o", str(tmp_path / "figures.csv"), "--marginals", "1"]
    peers = (runner(tmp_path, "copies", COPIES), runner(tmp_path, "lost", BROKEN))
    assert main([*told, *kept], judges, peers) == 0

    said = capsys.readouterr().out
    figures = pd.read_csv(tmp_path / "figures.csv").set_index(["rows", "run"])
    ways = {"learnt", "drafted", "declared", "copies", "real hold-out", "columns shuffled"}
    assert {name for name in figures.index.levels[0] if "encode, decode" not in name} == ways
    for name, of in (("declared", 450), ("copies", 450), ("real hold-out", 150), ("columns shuffled", 450)):
        assert figures.loc[(name, 0), ["both", "of", "real"]].tolist() == [0, of, 450]
        assert ((name, 1) in figures.index) == (name in ("declared", "copies"))
    assert (
        "| people | 100 | declared | 2 | 0.0000 (0.0000) | 450.0000 (0.0000) | 450.0000 (0.0000) | - |"
        in said
    )
    assert "not run: broken on learnt" in said
    assert "not run: lost: no such library: astrolabe" in said


def test_what_was_found_before_an_interrupt_is_shown_and_what_cannot_be_installed_is_named(
    tmp_path: Path, table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "anchors", interrupted)
    lost = (str(tmp_path / "no_such_package"),)
    absent = Environment("absent", lost, tmp_path / "absent.py", {"stars": "stars"})
    judges = (absent, runner(tmp_path, "counts", COUNTS, of="rows judged"))
    told = ["--table", str(table), "--environments", str(tmp_path / "env"), "--runs", "1", "--marginals", "1"]
    assert main(told, judges, ()) == 0
    said = capsys.readouterr().out
    assert "| people | 1 | drafted | 1 | 450.0000 |" in said
    assert "not run: the rest: interrupted" in said
    assert "not run: absent: not installed: " in said and "no_such_package" in said
    with pytest.raises(NotRun):  # tried again
        absent.make(tmp_path / "env")


def test_environments_are_made_anew_where_packages_change_and_folders_left_alone(
    tmp_path: Path,
) -> None:
    counts = runner(tmp_path, "counts", COUNTS)
    mark = tmp_path / "counts" / "mark"
    for known, kept in (([], True), (["older"], False)):
        counts.make(tmp_path)
        mark.touch()
        (tmp_path / "counts" / "judges.json").write_text(json.dumps({"packages": known}), encoding="utf-8")
        counts.make(tmp_path)
        assert mark.exists() == kept
    (tmp_path / "thesis").mkdir()
    with pytest.raises(NotRun, match="in the way"):
        runner(tmp_path, "thesis", COUNTS).make(tmp_path)
    assert (tmp_path / "thesis").exists()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import time; time.sleep(60)", "did not finish"),
        ("print('fine')", "no answer"),
        ("print('{}')", "figures missing"),
        ("", "no answer"),
    ],
)
def test_a_runner_that_says_nothing_of_use_is_not_run(tmp_path: Path, code: str, why: str) -> None:
    judge = runner(tmp_path, "judge", code, stars="stars")
    judge.make(tmp_path)
    with pytest.raises(NotRun, match=why):
        judge.ask(tmp_path, tmp_path / "task.json", 5.0)


def test_words_in_a_column_of_numbers_become_a_column_of_their_own() -> None:
    real = pd.DataFrame(
        {"pay": ["1", "N", "2.5"], "code": ["1", "02", "x"], "day": ["2020-01-02", "", "1970-01-02"]}
    )
    rows = pd.DataFrame({"pay": ["1.0", "3", "4"], "code": ["1.0", "2", "y"], "day": ["1970-01-01"] * 3})
    kinds = {"pay": "number", "code": "category", "day": "date"}
    first, second = frames.split(real, rows, kinds)
    assert list(first) == list(second) == ["pay", "pay is", "code", "day", "day is"]
    assert first["pay is"].tolist() == ["number", "N", "number"]
    assert second["pay is"].tolist() == ["number"] * 3
    assert first["code"].tolist() == ["1", "2", "x"]
    assert second["code"].tolist() == ["1", "2", "y"]
    assert first["day"].tolist()[0] == 18263.0
    assert first["day"].isna().tolist() == [False, True, False]
    rows = rows.assign(code=["other", "other", "y"], day=["other", "", ""])  # in most rows, and in some
    assert frames.told(rows, kinds) == {"pay": "number", "day": "date"}


def test_an_unknown_judge_is_refused_and_the_folder_runs_as_a_command(table: Path) -> None:
    with pytest.raises(SystemExit, match="solomon"):
        main(["--table", str(table), "--judges", "solomon", "--environments", str(table.parent)])
    for wrong, words in ((["--target", "sexes"], "no column 'sexes'"), (["--label"], "with --target")):
        with pytest.raises(SystemExit, match=words):
            main(["--table", str(table), *wrong, "--environments", str(table.parent / "none")])
    assert not (table.parent / "none").exists()
    command_line = [sys.executable, str(Path(__file__).parents[2] / "scripts" / "judges"), "--help"]
    done = subprocess.run(command_line, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "--environments" in done.stdout, done.stderr


def test_our_own_judge_needs_no_environment_and_sees_a_release_and_its_label(
    tmp_path: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At epsilon 100 little is lost; the shuffled columns are exact alone, and far off together."""
    people = pd.read_csv(table)
    people.assign(age=people["age"] // 20, id=people["id"] % 5).to_csv(table, index=False)
    told = ["--table", str(table), str(table), "--epsilon", "10", "100", "--runs", "1", "--target", "sex"]
    told += ["--label", "--judges", "marginals", "--peers", "-o", str(tmp_path / "figures.csv")]
    assert main(told) == 0
    assert "label sex = " in capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "figures.csv")
    assert set(rows["epsilon"]) == {10, 100} and not (tmp_path / "marginals").exists()
    e1, e3 = (rows.groupby("rows")[name].mean() for name in ("e1", "e3"))
    assert e1["columns shuffled"] == e3["learnt: encode, decode"] == 0 < e3["columns shuffled"]
    ways = rows[rows["rows"].isin(("learnt", "learnt, label"))].groupby(["epsilon", "rows"])["e3"].mean()
    assert len(ways) == 4 and ways[100].max() < 0.1 and ways[10].mean() > ways[100].mean()


def test_values_tells_what_errors_of_marginals_hide() -> None:
    """A table beside itself has no figure above 0; one change at a time shows in its own figures alone."""
    rng, rows = np.random.default_rng(1), 3000
    place = rng.integers(0, 12, rows)
    real = pd.DataFrame(
        {
            "pay": rng.integers(1000, 9000, rows).astype(str),
            "place": [f"p{i}" for i in place],
            "region": [f"r{i % 3}" for i in place],
            "sex": rng.choice(["F", "M"], rows),
        }
    )
    kinds = {"pay": "number", "place": "category", "region": "category", "sex": "category"}

    def judged(**columns: object) -> dict[str, float]:
        found = values.judge(real, real.assign(**columns), kinds)
        return {key: found[key] for key in values.FIGURES if key != "functions" and found[key]}

    assert values.judge(real, real, kinds)["functions"] == 1  # the region of a place
    assert judged() == {}
    some = np.arange(rows) < rows // 10
    assert judged(sex=np.where(some, "X", real["sex"])).keys() == {
        *("impossible", "impossible_worst", "tv", "tv_worst")
    }
    assert judged(sex=np.where(some, "other", real["sex"])).keys() == {"other", "tv", "tv_worst"}
    assert judged(sex=np.where(some, "X", real["sex"]))["impossible_worst"] == pytest.approx(0.1)
    far = judged(pay=np.where(some, "50000", real["pay"]))
    assert far.keys() == {"beyond", "mean_worst", "sd_worst"} and far["beyond"] == pytest.approx(0.1)
    assert judged(pay=real["pay"] + ".5").keys() == {"types", "mean_worst", "beyond"}
    turned = judged(region=np.roll(real["region"], 1))
    assert turned.keys() == {"broken"} and turned["broken"] == pytest.approx(2 / 3, abs=0.05)
    real = real.replace({"place": {"p0": "other"}})  # a place of that name, and in the rows any place
    assert "broken" not in judged(region=np.where(real["place"] == "other", "r1", real["region"]))
