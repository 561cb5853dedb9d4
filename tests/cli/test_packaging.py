"""`fmwem release` of a package of tables, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands import Fmwem

from factored_mwem import open_ledger
from factored_mwem.files import crashpoints as faults

RESOURCES: list[dict[str, Any]] = [
    {"name": "homes", "path": "homes.csv", "schema": {"primaryKey": "home"}},
    {
        "name": "persons",
        "path": "persons.csv",
        "schema": {"foreignKeys": [{"fields": "home", "reference": {"resource": "homes", "fields": "home"}}]},
    },
]
DOMAINS = {
    "homes": [{"name": "size", "categories": ["big", "small"], "constraints": {"required": True}}],
    "persons": [{"name": "sex", "categories": ["F", "M"], "constraints": {"required": True}}],
}
JOB = ("release", "datapackage.json", "--marginals", 2, "-o", "out/")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two tables of declared domains, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    homes = "".join(f"{n},{'big' if n % 3 else 'small'}\n" for n in range(300))
    persons = "".join(f"{n % 300},{'FM'[n % 2]}\n" for n in range(500))
    (tmp_path / "homes.csv").write_text(f"home,size\n{homes}")
    (tmp_path / "persons.csv").write_text(f"home,sex\n{persons}")
    (tmp_path / "datapackage.json").write_text(json.dumps({"resources": RESOURCES}))
    for name, fields in DOMAINS.items():
        (tmp_path / f"{name}.domain.json").write_text(json.dumps({"fields": fields}))
    return tmp_path


def test_a_package_in_and_a_package_out(package: Path, fmwem: Fmwem) -> None:
    done = fmwem(*JOB, "--epsilon", 5.0, "--rows", 200)
    assert done.code == 0, done.err
    assert done.facts["tables"]["homes"] == 200 and done.facts["spent_epsilon"] <= 5.0
    assert "one row of the root table with all that hangs on it" in done.facts["unit"]
    assert sorted(path.name for path in (package / "out").iterdir()) == [
        "datapackage.json", "homes.parquet", "manifest.json", "model.fmwem", "persons.parquet",
    ]  # fmt: skip
    assert "synthetic rows of persons" in done.err
    again = fmwem(*JOB)
    assert again.code == 2 and "use --overwrite" in again.err and again.err.count("\n") == 1
    more = fmwem("sample", "out/model.fmwem", "-n", 50, "-o", "more/")
    assert more.code == 0 and more.facts["tables"]["homes"] == 50 and more.facts["spent_epsilon"] == 0
    assert fmwem("report", "out/manifest.json", "-o", "page.html").code == 0
    assert "all that hangs on it" in (package / "page.html").read_text()


def test_a_run_is_paid_for_once(package: Path, fmwem: Fmwem) -> None:
    fmwem("ledger", "init", "books")
    assert fmwem("ledger", "add", "books", "--dataset", "town", "--epsilon", 2, "--delta", 1e-9).code == 0
    booked = ("--ledger", "books", "--dataset", "town", "--run-id", "r")
    first, second = fmwem(*JOB, *booked), fmwem(*JOB, *booked)
    assert first.code == second.code == 0 and second.facts["reused"] and not first.facts["reused"]
    assert fmwem("ledger", "verify", "books", "out/manifest.json").code == 0


@pytest.mark.parametrize("point", ["after fit", "sampling", "before manifest"])
def test_a_failure_leaves_nothing_and_is_paid_for_once(
    package: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    fmwem("ledger", "init", "books")
    assert fmwem("ledger", "add", "books", "--dataset", "town", "--epsilon", 1, "--delta", 1e-9).code == 0
    booked = ("--ledger", "books", "--dataset", "town", "--run-id", "r")

    def fail(reached: str) -> None:
        if reached == point:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(faults, "hook", fail)
    failed = fmwem(*JOB, *booked)
    assert failed.code != 0 and "no space left" in failed.err
    assert not (package / "out").exists()
    monkeypatch.setattr(faults, "hook", lambda _: None)
    done = fmwem(*JOB, *booked)
    assert done.code == 0, done.err
    assert [entry.state for entry in open_ledger("books").entries("town")] == ["finished"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--label", "sex"), "--label is for a single table"),
        (("--domain", "homes.domain.json"), "--domain is for a single table"),
        (("--certificate", 0.03), "certificate is for a single table"),
        (("--people", "--privacy-id", "home"), "for a single table"),
        (("--order-by", "sex"), "descriptor says it"),
        (("-o", "out.parquet"), "a package is a folder"),
        (("--epsilon", 0), "epsilon"),
    ],
)
def test_what_a_package_does_not_take(package: Path, fmwem: Fmwem, flags: tuple[Any, ...], said: str) -> None:
    done = fmwem(*JOB, *flags)
    assert done.code == 2 and said in done.err and done.err.count("\n") == 1
    assert "budget was spent" not in done.err and not (package / "out").exists()


def hostile(name: str) -> list[dict[str, Any]]:
    homes, persons = json.loads(json.dumps(RESOURCES))
    link = persons["schema"]["foreignKeys"][0]
    if name == "no file":
        homes["path"] = "nowhere.csv"
    elif name == "no column":
        link["fields"] = "house"
    elif name == "no table":
        link["reference"]["resource"] = "houses"
    elif name == "circle":
        homes["schema"]["foreignKeys"] = [
            {"fields": "size", "reference": {"resource": "persons", "fields": "sex"}}
        ]
        persons["schema"]["primaryKey"] = "sex"
    elif name == "two roots":
        persons["schema"] = {}
    elif name == "outside":
        homes["path"] = "../homes.csv"
    return [homes, persons]


@pytest.mark.parametrize("name", ["no file", "no column", "no table", "circle", "two roots", "outside"])
def test_a_hostile_package_is_refused_in_one_line(package: Path, fmwem: Fmwem, name: str) -> None:
    (package / "datapackage.json").write_text(json.dumps({"resources": hostile(name)}))
    done = fmwem(*JOB)
    assert done.code == 2 and done.err.count("\n") == 1 and "Traceback" not in done.err
    assert "budget was spent" not in done.err and not (package / "out").exists()


def test_two_tables_by_flags(package: Path, fmwem: Fmwem) -> None:
    done = fmwem("release", "homes.csv", "--with", "persons.csv", "--key", "home", "--marginals", 2)
    assert done.code == 0 and {*done.facts["tables"]} == {"homes", "persons"}
    assert (package / "homes.synthetic" / "persons.parquet").exists()
    for wrong, said in (
        (("--with", "persons.csv"), "--with needs --key"),
        (("--key", "home"), "name that by --with"),
        (("--public-tables", "x"), "--public-tables is for a whole database"),
        (("--with", "persons.csv", "--key", "house"), "house"),
    ):
        refused = fmwem("release", "homes.csv", "--marginals", 2, "-o", "other/", *wrong)
        assert refused.code == 2 and said in refused.err and refused.err.count("\n") == 1


def test_a_released_package_is_compared_with_the_real_one(package: Path, fmwem: Fmwem) -> None:
    """Each table, how many rows hang on a row, and the ties; with itself it is equal, and another is far."""
    assert fmwem(*JOB, "--epsilon", 40.0).code == 0
    compared = ("evaluate", "datapackage.json", "--marginals", 2, "--json")
    same, made = (fmwem(*compared, to).facts["tables"] for to in ("datapackage.json", "out/"))
    for name in ("homes", "persons"):
        assert max(same[name]["by_order"]["1"]) == 0 <= max(made[name]["by_order"]["1"]) < 0.5
    (ties,) = made["persons"]["ties"]
    assert ties["table"] == "homes" and ties["pairs"] == 2 and 0 <= ties["mean"] < 0.5
    assert same["homes"]["numbers"] == {"persons": 0.0} and 0 <= made["homes"]["numbers"]["persons"] < 0.5
    (package / "persons.csv").write_text("home,sex\n" + "0,F\n" * 500)
    far = fmwem(*compared, "out/").facts["tables"]
    assert max(far["persons"]["by_order"]["1"]) > 0.3 and far["persons"]["ties"][0]["mean"] > 0.3
    assert far["homes"]["numbers"]["persons"] > 0.3
    text = fmwem("evaluate", "datapackage.json", "out/").out
    assert "with homes" in text and "NOT PRIVATE" in text
    for more, why in (
        (("out/", "--order-by", "sex"), "single table"),
        (("nowhere",), "holds no datapackage"),
    ):
        refused = fmwem("evaluate", "datapackage.json", *more)
        assert refused.code == 2 and why in refused.err and refused.err.count("\n") == 1
    (package / "persons.csv").write_text("home,sex\n")
    assert "no row of 'persons' leads to a root here" in fmwem("evaluate", "datapackage.json", "out/").err


def test_check_and_plan_look_at_each_table(package: Path, fmwem: Fmwem) -> None:
    """Shares of the budget, and less noise for more of it; no row is read."""
    (package / "persons.csv").write_text("home,sex\n")  # no row: whatever is said is not of the rows
    facts = fmwem("check", "datapackage.json", "--marginals", 2, "--json").facts
    assert sum(table["share"] for table in facts["tables"].values()) == pytest.approx(1, abs=1e-4)
    assert facts["tables"]["homes"]["forecast"]["attributes"] == {"size": 2, "rows of persons": 26}
    said = fmwem("check", "datapackage.json", "--marginals", 2)
    assert said.code == 0 and "homes, with" in said.out and "no row was read" in said.out
    plan = ("plan", "datapackage.json", "--marginals", 2)
    prospects = fmwem(*plan, "--epsilon", "2,0.5", "--json").facts["prospects"]
    assert [each["epsilon"] for each in prospects] == [0.5, 2.0]
    first, last = (each["tables"]["persons"]["forecast"]["predicted_error"] for each in prospects)
    assert first > last > 0 and prospects[0]["guess"] < prospects[1]["guess"]
    assert "persons" in fmwem(*plan).out
    for more, why in (
        (("--error", 0.1), "--error is for a single table"),
        (("--columns", "a"), "--columns is"),
    ):
        refused = fmwem(*plan, *more)
        assert refused.code == 2 and why in refused.err and refused.err.count("\n") == 1
