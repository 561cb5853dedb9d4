"""The command line as a new user meets it: one JSON line for scripts, a summary for people, one line and the
documented code for every mistake.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.commands import CANARY, DOMAIN, Fmwem, Run

from factored_mwem import Domain, Workload
from factored_mwem.cli import jobs as job
from factored_mwem.cli.settings import FLAGS, ReleaseSettings
from factored_mwem.errors import InputError


def test_the_main_flow_from_csv_to_every_reader(here: Path, fmwem: Fmwem) -> None:
    done = fmwem("release", "t.csv", "--marginals", 2, "--model", "t.model", "--epsilon", 5, "-v")
    assert done.code == 0
    facts = done.facts
    assert facts["output"] == "t.synthetic.parquet"
    assert facts["manifest"] == "t.synthetic.manifest.json"
    assert facts["model"] == "t.model"
    assert facts["domain"] == "t.domain.json"
    assert facts["spent_epsilon"] <= facts["epsilon"] == 5
    said = (
        "promise ",
        "(5, 1e-09)-differential privacy",
        "expect ",
        "next        fmwem report t.synthetic.manifest.json",
        "            fmwem sample t.model -n 1000",
        "neighbours  add-remove",
        "budget ",
        "components of",
        "rounds ",
        "rows ",
        "peak memory",
    )
    for words in (
        *said,
        "declared in t.domain.json",
        "file        t.synthetic.parquet",
        "            t.model",
    ):
        assert words in done.err
    kept = ["t.csv", "t.domain.json", "t.model", "t.synthetic.manifest.json", "t.synthetic.parquet"]
    assert sorted(os.listdir(here)) == kept
    assert (
        "peak" not in (here / "t.synthetic.manifest.json").read_text()
    )  # how long it took could depend on the data
    _opens_everywhere(here / "t.synthetic.parquet", facts["rows"])


def _opens_everywhere(path: Path, rows: int) -> None:
    table = pq.read_table(path)
    expected = [
        ("zip", pa.string()),
        ("age", pa.int64()),
        ("pay", pa.float64()),
        ("born", pa.date32()),
        ("seen", pa.timestamp("us")),
        ("smoker", pa.bool_()),
    ]
    assert [(field.name, field.type) for field in table.schema] == expected
    assert table.num_rows == rows
    assert set(table["zip"].to_pylist()) <= {"0311", "0420", 'Zürich, "HB"\n8001', None}
    assert table["age"].null_count == table["born"].null_count == 0
    assert all(table[name].null_count > 0 for name in ("zip", "pay", "seen", "smoker"))
    pandas, polars, duckdb = (pytest.importorskip(name) for name in ("pandas", "polars", "duckdb"))
    frame = pandas.read_parquet(path)
    assert list(frame.columns) == [name for name, _ in expected]
    assert frame["age"].dtype == "int64"
    assert polars.read_parquet(path).schema["born"] == polars.Date
    kinds = [str(kind) for kind in duckdb.sql(f"select * from '{path}'").types]
    assert kinds == ["VARCHAR", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN"]


def test_quiet_verbose_and_json(here: Path, fmwem: Fmwem) -> None:
    quiet = fmwem("release", "t.csv", "--marginals", 1, "-q", "-o", "a.parquet")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.facts["rows"] > 0
    machine = fmwem("release", "t.csv", "--marginals", 1, "--json", "-o", "b.parquet")
    assert (machine.code, machine.err) == (0, "")
    assert machine.facts["output"] == "b.parquet"
    verbose = fmwem("release", "t.csv", "--marginals", 2, "-v", "-o", "c.csv")
    lines = [line for line in verbose.err.splitlines() if line.startswith("round ")]
    told = [
        re.fullmatch(
            r"round (\d+): measured .+; (\d+) components, (\d+) cliques of [0-9,]+ cells; "
            r"(\d+)% of the budget spent",
            s,
        )
        for s in lines
    ]
    assert lines and all(told)
    assert [int(t[1]) for t in told if t] == list(range(1, len(lines) + 1))
    spent = [int(t[4]) for t in told if t]
    assert spent == sorted(spent) and spent[-1] == 100
    assert "differential privacy" in verbose.err
    assert verbose.facts["output"] == "c.csv"
    failed = fmwem("release", "t.csv", "--marginals", 1, "--json", "--epsilon", 0)
    assert failed.facts == {
        "error": "epsilon=0.0: must be a positive number, at least 1e-12; 1 is a common choice",
        "exit_code": 2,
        "budget_spent": False,
        "retryable": False,
        "advice": "change what the message names, then run again",
    }


REFUSED: list[tuple[int, str, list[Any]]] = [
    (
        2,
        "nothing to keep: give --marginals K, --label A, --cube A,B,C, --ranges A:1000, --parities K or "
        "--workload FILE",
        ["t.csv"],
    ),
    (2, "no file none.csv", ["none.csv", "--marginals", 1]),
    (2, "o.parquet lies in the folder that is the table", [".", "--marginals", 1, "-o", "o.parquet"]),
    (2, ".json files are not read", ["t.domain.json", "--marginals", 1]),
    (2, "the name of the table is empty", ["", "--marginals", 1, "-o", "/tmp/o.parquet"]),
    (2, "--spill none: must be a folder", ["t.csv", "--marginals", 1, "--spill", "none"]),
    (2, "the name is not UTF-8 text", ["t.csv", "--marginals", 1, "-o", "\udcff.parquet"]),
    (2, "the name is not UTF-8 text", ["t.csv", "--marginals", 1, "-o", "\udcff/"]),
    (2, "epsilon=0.0: must be a positive number", ["t.csv", "--marginals", 1, "--epsilon", 0]),
    (2, "epsilon=-1.0: must be a positive number", ["t.csv", "--marginals", 1, "--epsilon", -1]),
    (
        2,
        "epsilon=1e-300: must be a positive number, at least 1e-12",
        ["t.csv", "--marginals", 1, "--epsilon", 1e-300],
    ),
    (2, "epsilon=nan: must be a positive number", ["t.csv", "--marginals", 1, "--epsilon", "nan"]),
    (2, "epsilon=inf: must be a positive number", ["t.csv", "--marginals", 1, "--epsilon", "inf"]),
    (2, "--epsilon", ["t.csv", "--marginals", 1, "--epsilon", "much"]),
    (2, "delta=1.0: must be 0, which is pure", ["t.csv", "--marginals", 1, "--delta", 1]),
    (2, "delta=-1.0: must be 0, which is pure", ["t.csv", "--marginals", 1, "--delta", -1]),
    (2, "--marginals 7: the table has only 6 attributes", ["t.csv", "--marginals", 7]),
    (2, "--marginals 0: marginals have at least one attribute", ["t.csv", "--marginals", 0]),
    (2, "neighbours='both'", ["t.csv", "--marginals", 1, "--neighbours", "both"]),
    (2, "contributions=0", ["t.csv", "--marginals", 1, "--contributions", 0]),
    (2, "rounds=0: at least one, or 'adaptive'", ["t.csv", "--marginals", 1, "--rounds", 0]),
    (2, "rounds='many'", ["t.csv", "--marginals", 1, "--rounds", "many"]),
    (2, "rounds='\u00b2'", ["t.csv", "--marginals", 1, "--rounds", "\u00b2"]),
    (2, "rounds=", ["t.csv", "--marginals", 1, "--rounds", "9" * 5000]),
    (4, "more than --max-cells 1; use fewer bins or raise it", ["t.csv", "--marginals", 1, "--max-cells", 1]),
    (2, "--rows", ["t.csv", "--marginals", 1, "--rows", -1]),
    (2, "--rows", ["t.csv", "--marginals", 1, "--rows", 10**30]),
    (2, "--sample-seed", ["t.csv", "--marginals", 1, "--sample-seed", -1]),
    (2, "--columns names no column", ["t.csv", "--marginals", 1, "--columns", ","]),
    (
        2,
        "no column 'wages' in the table; it has zip, age",
        ["t.csv", "--marginals", 1, "--columns", "age,wages"],
    ),
    (2, "no column 'who' for --privacy-id", ["t.csv", "--marginals", 1, "--privacy-id", "who"]),
    (2, "cannot read the domain file none.json", ["t.csv", "--marginals", 1, "--domain", "none.json"]),
    (2, "is not JSON", ["t.csv", "--marginals", 1, "--domain", "t.csv"]),
    (2, "cannot read the workload file none.toml", ["t.csv", "--workload", "none.toml"]),
    (2, "not a workload file", ["t.csv", "--workload", "t.csv"]),
    (2, "cannot read the configuration none.toml", ["t.csv", "--config", "none.toml"]),
    (2, "is not TOML", ["t.csv", "--config", "t.csv"]),
    (2, "t.csv is an input; choose another path", ["t.csv", "--marginals", 1, "-o", "t.csv", "--overwrite"]),
    (2, "t.domain.json is an input", ["t.csv", "--marginals", 1, "--model", "t.domain.json", "--overwrite"]),
    (2, "have the same path", ["t.csv", "--marginals", 1, "--model", "./t.synthetic.parquet"]),
    (2, "no folder none; create it first", ["t.csv", "--marginals", 1, "-o", "none/x.parquet"]),
    (2, "cannot write in t.csv", ["t.csv", "--marginals", 1, "-o", "t.csv/x.parquet"]),
    (2, "unknown output format", ["t.csv", "--marginals", 1, "-o", "x.xlsx"]),
    (2, "./ holds an input; choose another path", ["t.csv", "--marginals", 1, "-o", "."]),
    (2, "--output is empty", ["t.csv", "--marginals", 1, "-o", ""]),
    (2, "No such option: --epsilom", ["t.csv", "--marginals", 1, "--epsilom", 1]),
    (2, "Missing argument", []),
    (
        3,
        "of the budget is left; ask for less or raise --epsilon",
        ["t.csv", "--marginals", 1, "--epsilon", 1e-12],
    ),
]


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    REFUSED,
    ids=[f"{i}-{message[:30]}" for i, (_, message, _) in enumerate(REFUSED)],
)
def test_mistakes_are_one_line_with_their_code(
    here: Path, fmwem: Fmwem, code: int, message: str, arguments: list[Any]
) -> None:
    before = sorted(os.listdir(here))
    done = fmwem("release", *arguments)
    assert done.code == code
    assert message in done.err
    assert done.err.startswith("fmwem: ")
    assert done.err.count("\n") == 1
    assert done.out == ""
    assert sorted(os.listdir(here)) == before
    assert "budget was spent" not in done.err


WRONG_QUESTIONS: list[tuple[int, str, list[Any]]] = [
    (2, "--ranges : name each attribute once", ["--ranges", ""]),
    (2, "--ranges age: say how many", ["--ranges", "age"]),
    (2, "--ranges age:0: say how many", ["--ranges", "age:0"]),
    (2, "--ranges age:1000001: say how many, 1 to 1,000,000", ["--ranges", "age:1000001"]),
    (2, "say how many", ["--ranges", "age:\u00b2"]),
    (2, "name each attribute once", ["--ranges", "age,age:10"]),
    (2, "name each attribute once", ["--cube", "age,zip,age"]),
    (2, "a weight is above 0", ["--ranges", "age:10@0"]),
    (2, "a weight is above 0", ["--ranges", "age:10@nan"]),
    (2, "a weight is above 0", ["--cube", "age@1e9"]),
    (2, "'much' is no weight", ["--cube", "age@much"]),
    (2, "the workload names 'wages'", ["--ranges", "wages:10"]),
    (2, "the workload names 'wages'", ["--label", "wages"]),
    (2, "the workload names 'age,pay'", ["--label", "age,pay"]),
    (2, "the workload names 'age'", ["--label", "age", "--columns", "zip,pay"]),
    (2, "--label age: there is no other column to predict it from", ["--label", "age", "--columns", "age"]),
    (2, "--label @3: name a column, with a weight if wanted", ["--label", "@3"]),
    (2, "--label age@: name a column, with a weight if wanted", ["--label", "age@"]),
    (2, "--label age@0: a weight is above 0, at most 1000", ["--label", "age@0"]),
    (2, "--label age@-1: a weight is above 0", ["--label", "age@-1"]),
    (2, "--label age@nan: a weight is above 0", ["--label", "age@nan"]),
    (2, "'much' is no weight; write for example age@2", ["--label", "age@much"]),
    (2, "the workload names 'age'", ["--ranges", "age:10", "--columns", "zip,pay"]),
    (2, "ranges over 'zip': its values have no order", ["--ranges", "zip:10"]),
    (2, "the order is a number from 1 to 2; for example age,zip:2", ["--cube", "age,zip:3"]),
    (2, "--parities 1: only 0 attributes have two values", ["--parities", 1]),
    (2, "--parities 0: a parity is over 1 to 20 attributes", ["--parities", 0]),
    (2, "--parities", ["--parities", "two"]),
    (
        4,
        "more than --max-cells 50; raise it",
        ["--ranges", "age,pay:10", "--engine", "mwem", "--max-cells", 50],
    ),
]


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    WRONG_QUESTIONS,
    ids=[" ".join(map(str, a)) for _, _, a in WRONG_QUESTIONS],
)
def test_wrong_questions_are_refused_before_anything_is_spent(
    here: Path, fmwem: Fmwem, code: int, message: str, arguments: list[Any]
) -> None:
    done = fmwem("release", "t.csv", *arguments, "--json")
    assert (done.code, done.facts["exit_code"], done.facts["budget_spent"] or False) == (code, code, False)
    assert message in done.facts["error"] and done.err.count("\n") == 1
    assert sorted(os.listdir(here)) == ["t.csv", "t.domain.json"]


def test_a_learnt_domain_may_not_fit_the_questions(here: Path, fmwem: Fmwem) -> None:
    """A name that is not there is seen in the header; that values have no order is known only once the budget
    has paid for them, and then said.

    The vote on a column's kind is noisy: one in 700 makes text of the ages, which has no order either. Four
    in a row are one in 10^11.
    """
    (here / "t.domain.json").unlink()
    early = fmwem("release", "t.csv", "--ranges", "wages:10", "--json")
    assert (early.code, early.facts["budget_spent"]) == (2, False)
    late = fmwem("release", "t.csv", "--ranges", "zip:10", "--epsilon", 50, "--json")
    assert (late.code, late.facts["budget_spent"]) == (2, True) and late.err.count("\n") == 1
    assert any(
        fmwem("release", "t.csv", "--ranges", "age:10", "--epsilon", 50, "-q").code == 0 for _ in range(4)
    )


def asked_for(path: str = "t.synthetic.manifest.json") -> dict[str, Any]:
    return json.loads(Path(path).read_text())["workload"]


@pytest.mark.parametrize("engine", ["tree", "mwem"])
def test_questions_by_flag_variable_or_file(here: Path, fmwem: Fmwem, engine: str) -> None:
    """Flags repeat; a flag goes above its variable, which goes above the file; what was asked stands in the
    manifest.
    """
    flags = [
        "--cube",
        "age,pay,smoker:2@3",
        "--ranges",
        "age:all",
        "--ranges",
        "age,pay:20",
        "--marginals",
        1,
        "-q",
        "--overwrite",
    ]
    done = fmwem("release", "t.csv", *flags, "--engine", engine, "--rounds", 2)
    assert done.code == 0, done.err
    found = asked_for()
    assert found["marginals"] == [1] and found["cubes"] == [
        {"attributes": ["age", "pay", "smoker"], "order": 2, "weight": 3.0}
    ]
    assert [(r["attributes"], r["which"], r["count"]) for r in found["ranges"]] == [
        (["age"], "all", 1000),
        (["age", "pay"], "random", 20),
    ]
    (here / "c.toml").write_text(
        'cube = ["zip,smoker"]\nranges = ["pay:prefix", "age:7"]\noverwrite = true\nrounds = 1\n'
    )
    assert fmwem("release", "t.csv", "--config", "c.toml", "-q").code == 0
    assert [r["attributes"] for r in asked_for()["ranges"]] == [["pay"], ["age"]] and asked_for()["cubes"][0][
        "attributes"
    ] == ["zip", "smoker"]
    assert (
        fmwem("release", "t.csv", "--config", "c.toml", "-q", FMWEM_RANGES="born:5", FMWEM_CUBE="age").code
        == 0
    )
    assert [r["attributes"] for r in asked_for()["ranges"]] == [["born"]] and asked_for()["cubes"][0][
        "attributes"
    ] == ["age"]
    assert (
        fmwem("release", "t.csv", "--ranges", "seen:5", "--overwrite", "-q", FMWEM_RANGES="born:5").code == 0
    )
    assert [r["attributes"] for r in asked_for()["ranges"]] == [["seen"]]


def test_labels_by_flag_variable_or_file(here: Path, fmwem: Fmwem) -> None:
    """With every column of the release, whichever these are; `evaluate` says how each went."""
    (here / "c.toml").write_text('label = ["zip@3", "pay"]\noverwrite = true\nrounds = 1\n')
    for arguments, environment, labels in (
        (["--label", "smoker"], {"FMWEM_LABEL": "pay"}, [("smoker", 10.0)]),
        ([], {"FMWEM_LABEL": "pay@0.5"}, [("pay", 0.5)]),
        (["--marginals", 2], {}, [("zip", 3.0), ("pay", 10.0)]),
    ):
        done = fmwem("release", "t.csv", "--config", "c.toml", "-q", *arguments, **environment)
        assert done.code == 0, done.err
        assert [(asked["column"], asked["weight"]) for asked in asked_for()["labels"]] == labels
    few = fmwem("release", "t.csv", "--label", "pay", "--columns", "age,pay,zip", "-q", "--overwrite")
    assert few.code == 0, few.err
    shown = fmwem("evaluate", "t.csv", "t.synthetic.parquet", "--marginals", 1, "--label", "pay")
    assert "pay with each other column (2): mean" in shown.out


def test_parities_by_flag_variable_or_file(here: Path, fmwem: Fmwem) -> None:
    (here / "b.csv").write_text("p,q,r\n" + "true,false,1\nfalse,false,2\n" * 50)
    fields = [{"name": n, "type": "boolean", "constraints": {"required": True}} for n in "pq"]
    (here / "b.domain.json").write_text(
        json.dumps({"fields": [*fields, {"name": "r", "type": "integer", "categories": [1, 2, 3]}]})
    )
    (here / "c.toml").write_text("parities = 1\n")
    for arguments, environment, order in (
        (["--parities", 2], {"FMWEM_PARITIES": "1"}, 2),
        (["--config", "c.toml"], {"FMWEM_PARITIES": "2"}, 2),
        (["--config", "c.toml"], {}, 1),
    ):
        done = fmwem("release", "b.csv", "-q", "--overwrite", *arguments, **environment)
        assert done.code == 0, done.err
        assert asked_for("b.synthetic.manifest.json")["parities"] == [{"order": order, "weight": 1.0}]
    for line in ('ranges = "age:5"', "cube = [1]", 'parities = "2"'):
        (here / "c.toml").write_text(line + "\n")
        refused = fmwem("release", "b.csv", "--config", "c.toml")
        assert refused.code == 2 and "must be" in refused.err and refused.err.count("\n") == 1


def test_domain_and_table_must_name_the_same_columns(here: Path, fmwem: Fmwem) -> None:
    fields = DOMAIN["fields"]
    (here / "more.json").write_text(json.dumps({"fields": [*fields, {"name": "extra", "categories": ["a"]}]}))
    (here / "fewer.json").write_text(json.dumps({"fields": fields[:2]}))
    assert (
        "the domain names 'extra', but the table has no such column"
        in fmwem("release", "t.csv", "--marginals", 1, "--domain", "more.json").err
    )
    fewer = fmwem("release", "t.csv", "--marginals", 1, "--domain", "fewer.json")
    assert (fewer.code, fewer.out) == (2, "")
    assert "column 'pay' is not in the domain; declare it there or leave it out with --columns" in fewer.err
    done = fmwem(
        "release", "t.csv", "--marginals", 2, "--domain", "fewer.json", "--columns", "age, zip", "-q"
    )
    assert done.code == 0
    assert pq.read_schema("t.synthetic.parquet").names == ["zip", "age"]


def test_without_a_domain_the_budget_pays_for_one(here: Path, fmwem: Fmwem) -> None:
    (here / "t.domain.json").unlink()
    refused = fmwem("release", "t.csv", "--marginals", 1, "--delta", 0)
    assert refused.code == 2
    assert "no domain is declared and --delta is 0" in refused.err
    done = fmwem("release", "t.csv", "--marginals", 1, "--domain-budget", 0.3, "--epsilon", 20, "-v")
    assert done.facts["domain"] == "learnt"
    share = re.search(r"discover ([0-9.]+)%", done.err)
    assert share is not None and 5 <= float(share[1]) <= 30
    assert "6 attributes learnt inside the budget" in done.err
    assert re.search(r"learnt +column +type +kept +clipped +other +missing", done.err)
    facts = {a["name"]: a for a in json.loads((here / "t.synthetic.manifest.json").read_text())["attributes"]}
    assert all(0 <= facts[name][of] <= 1 for name in facts for of in ("kept", "clipped", "other", "missing"))


def test_flags_go_above_the_environment_above_the_file(here: Path, fmwem: Fmwem) -> None:
    (here / "c.toml").write_text('marginals = 1\nepsilon = 2.0\noutput = "file.parquet"\nmax-cells = 1000\n')
    assert fmwem("release", "t.csv", "--config", "c.toml", "-q").facts["epsilon"] == 2
    assert (here / "file.parquet").exists()
    again = fmwem("release", "t.csv", "-q", FMWEM_CONFIG="c.toml", FMWEM_EPSILON="3", FMWEM_OVERWRITE="1")
    assert (again.facts["epsilon"], again.facts["output"]) == (3, "file.parquet")
    flag = fmwem(
        "release",
        "t.csv",
        "--config",
        "c.toml",
        "-q",
        "--epsilon",
        4,
        "-o",
        "flag.parquet",
        FMWEM_EPSILON="3",
        FMWEM_OUTPUT="env.parquet",
    )
    assert (flag.facts["epsilon"], flag.facts["output"]) == (4, "flag.parquet")
    assert fmwem("release", "t.csv", "--marginals", 1, "-q", "-o", "d.parquet").facts["epsilon"] == 1


def test_the_engine_is_chosen_by_flag_variable_or_file(here: Path, fmwem: Fmwem) -> None:
    """The faithful options need the faithful engine; the manifest says which one ran."""

    def engine(output: str) -> str:
        return json.loads(Path(output).with_suffix(".manifest.json").read_text())["policy"]["engine"]

    (here / "c.toml").write_text('engine = "mwem"\nreplay = false\ninitial = "none"\nrounds = 2\n')
    assert (
        fmwem("release", "t.csv", "--marginals", 2, "--config", "c.toml", "-q", "-o", "a.parquet").code == 0
    )
    assert (
        fmwem(
            "release",
            "t.csv",
            "--marginals",
            2,
            "--engine",
            "mwem",
            "--rounds",
            "adaptive",
            "-q",
            "-o",
            "b.parquet",
        ).code
        == 0
    )
    assert fmwem("release", "t.csv", "--marginals", 2, "-q", "-o", "c.parquet", FMWEM_ENGINE="mwem").code == 0
    assert fmwem("release", "t.csv", "--marginals", 2, "-q", "-o", "d.parquet").code == 0
    assert [engine(f"{name}.parquet") for name in "abcd"] == ["mwem", "mwem", "mwem", "tree"]
    refused = fmwem("release", "t.csv", "--marginals", 2, "--config", "c.toml", "--engine", "tree")
    assert refused.code == 2 and "needs engine='mwem'" in refused.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("colour = 1", "unknown key 'colour'; known are accept"),
        ("[epsilon]\nx = 1", "epsilon=a dict"),
        ('marginals = "3"', "marginals = '3' must be a whole number"),
        ("marginals = true", "must be a whole number"),
        ("rows = -1", "rows = -1 must be a whole number, 0 or more"),
        ("sample_seed = -1", "sample_seed = -1 must be a whole number"),
        ("domain = 5", "domain = 5 must be a path"),
        ("workload = 5", "workload = 5 must be a path"),
        ("output = 5", "output = 5 must be a path"),
        ("model = []", "model = [] must be a path"),
        ('overwrite = "no"', "must be true or false"),  # any text counts as true where nobody checks
        ('columns = "age"', "must be a list"),
        ("columns = [1]", "must be a list"),
        ("columns = []", "names no column"),
        ('initial = "x"', "initial='x'"),
        ('replay = "maybe"', "replay='maybe'"),
        ("select_share = 0", "select_share=0"),
    ],
)
def test_what_a_configuration_file_holds_is_checked(
    here: Path, fmwem: Fmwem, line: str, message: str
) -> None:
    (here / "c.toml").write_text(line + "\n")
    arguments = [] if line.startswith("marginals") else ["--marginals", 1]
    done = fmwem("release", "t.csv", "--config", "c.toml", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_variables_nobody_knows_are_errors(here: Path, fmwem: Fmwem) -> None:
    for name in (
        "FMWEM_EPSILOM",
        "FMWEM_VERBOSE",
        "FMWEM_TABLE",
        "FMWEM_RETURN",
    ):  # none of them would have an effect
        done = fmwem("release", "t.csv", "--marginals", 1, **{name: "1"})
        assert done.code == 2
        assert f"unknown environment variable {name}; known are FMWEM_ACCEPT" in done.err
    assert fmwem("check", "t.csv", "--marginals", 1, FMWEM_EPSILON="much").code == 2


def test_rows_none_and_many(here: Path, fmwem: Fmwem) -> None:
    assert (
        fmwem("release", "t.csv", "--marginals", 1, "-q", "--rows", 0, "-o", "none.parquet").facts["rows"]
        == 0
    )
    assert pq.read_table("none.parquet").num_rows == 0
    assert (
        fmwem("release", "t.csv", "--marginals", 1, "-q", "--rows", 300_000, "-o", "many.parquet").facts[
            "rows"
        ]
        == 300_000
    )
    assert pq.read_metadata("many.parquet").num_rows == 300_000


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (
            "a,b\n1,x\n",
            [{"name": "a", "type": "integer", "categories": [1, 2]}, {"name": "b", "categories": ["x", "y"]}],
        ),  # one row
        ("a\n1\n2\n\n", [{"name": "a", "type": "integer", "categories": [1, 2]}]),  # one column
        (
            "a,b\n,x\n,y\n",
            [{"name": "a", "type": "integer", "categories": [1]}, {"name": "b", "categories": ["x", "y"]}],
        ),  # all null
        (
            "a,b\n1,x\n1,y\n",
            [{"name": "a", "type": "integer", "categories": [1]}, {"name": "b", "categories": ["x", "y"]}],
        ),  # constant
        (
            "a,b\n1,x\n",
            [
                {"name": "a", "type": "integer", "categories": [1], "constraints": {"required": True}},
                {"name": "b", "categories": ["x"]},
            ],
        ),
        (
            "a b,\u00e9\n1,x\n",
            [{"name": "a b", "type": "integer", "categories": [1]}, {"name": "\u00e9", "categories": ["x"]}],
        ),
    ],
)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "learnt"])
def test_small_and_odd_tables_are_released(
    here: Path, fmwem: Fmwem, content: str, fields: list[dict[str, Any]], declared: bool
) -> None:
    (here / "o.csv").write_text(content)
    if declared:
        (here / "o.domain.json").write_text(json.dumps({"fields": fields}))
    done = fmwem("release", "o.csv", "--marginals", len(fields), "-q")
    if not declared:  # noise hides all there is: it ends after learning, in one line, and leaves nothing
        assert done.code == 3 and done.err.count("\n") == 1 and "spent so far: epsilon" in done.err
        assert os.listdir(here).count("o.synthetic.parquet") == 0
        return
    assert done.code == 0, done.err
    assert pq.read_schema("o.synthetic.parquet").names == [field["name"] for field in fields]


def test_bad_tables(here: Path, fmwem: Fmwem) -> None:
    (here / "t.domain.json").unlink()
    for name, content, message in (
        ("empty.csv", "", "is empty"),
        ("open.csv", f'a,b\n{CANARY},"2\n1,2\n', "a quote is open where the line ends"),
        ("twice.csv", "a,a\n1,2\n", "two columns named 'a'"),
        ("nameless.csv", "b,\n1,2\n", "column 2 of the header has no name"),
    ):
        (here / name).write_text(content)
        done = fmwem("release", name, "--marginals", 1)
        assert (done.code, done.out) == (2, "")
        assert message in done.err
        assert "CANARY" not in done.err
        assert done.err.count("\n") == 1


def test_no_value_of_the_table_leaves_the_program(here: Path, fmwem: Fmwem) -> None:
    """Values the domain does not list map by a fixed rule: they must not show in any file or line."""
    with open("t.csv", "a", newline="", encoding="utf-8") as file:
        file.write(f"{CANARY},{CANARY},{CANARY},{CANARY},{CANARY},{CANARY}\r\n")
    done = fmwem("release", "t.csv", "--marginals", 2, "-v", "--model", "t.model")
    assert done.code == 0
    (here / "t.csv").unlink()
    assert "CANARY" not in done.out + done.err
    assert not any(b"CANARY" in path.read_bytes() for path in here.iterdir())


def test_privacy_id_bounds_and_drops_the_column(here: Path, fmwem: Fmwem) -> None:
    lines = (here / "t.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(lines.splitlines(keepends=True)))
    with open("p.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [["who", *rows[0]], *([f"p{i % 50}", *row] for i, row in enumerate(rows[1:]))]
        )
    done = fmwem(
        "release",
        "p.csv",
        "--marginals",
        1,
        "--domain",
        "t.domain.json",
        "--privacy-id",
        "who",
        "--contributions",
        2,
    )
    assert done.code == 0
    assert pq.read_schema("p.synthetic.parquet").names == rows[0]
    said = " ".join(done.err.split())
    assert "(at most 2 rows)" in said and "column 'who' named the person" in said
    assert (
        fmwem("check", "p.csv", "--marginals", 1, "--domain", "t.domain.json", "--privacy-id", "who").code
        == 0
    )


def test_model_sample_evaluate(here: Path, fmwem: Fmwem) -> None:
    assert fmwem("release", "t.csv", "--marginals", 2, "-q", "--model", "t.model").code == 0
    drawn = fmwem("sample", "t.model", "-n", 25, "-o", "more.csv", "--sample-seed", 1)
    assert (drawn.code, drawn.facts["rows"], drawn.facts["spent_epsilon"]) == (0, 25, 0)
    assert (
        fmwem("sample", "t.model", "-n", 25, "-o", "again.csv", "--sample-seed", 1).facts["sha256"]
        == drawn.facts["sha256"]
    )
    assert "exists; use --overwrite" in fmwem("sample", "t.model", "-n", 5, "-o", "more.csv").err
    assert (
        fmwem("sample", "t.csv", "-n", 5).code
        == fmwem("sample", "none", "-n", 5).code
        == fmwem("sample", "t.model", "-n", -1).code
        == 2
    )
    assert fmwem("sample", "t.model", "-n", 10**30).code == 2
    found = fmwem("evaluate", "t.csv", "t.synthetic.parquet", "--marginals", 2)
    assert found.code == 0
    assert found.out.startswith("NOT PRIVATE")
    worst = found.out.split("worst marginals:\n")[1].splitlines()
    errors = [float(line.split()[0]) for line in worst]
    assert 1 <= len(errors) <= 10 and errors == sorted(errors, reverse=True)
    facts = fmwem("evaluate", "t.csv", "t.synthetic.parquet", "--marginals", 2, "--json").facts
    assert facts["private"] is False
    assert set(facts["by_order"]) == {"1", "2"}
    assert len(facts["worst"]) == 10
    assert (
        "the tables share 6 attributes"
        in fmwem("evaluate", "t.csv", "t.synthetic.parquet", "--marginals", 7).err
    )
    assert (
        fmwem("evaluate", "t.csv", "t.csv", "--marginals", 1, "--json").facts["by_order"]["1"]["worst"] == 0
    )
    assert fmwem("evaluate", "t.csv", "none.parquet").code == 2


def test_evaluating_in_neutral_bins_or_in_those_of_a_release(here: Path, fmwem: Fmwem) -> None:
    """A domain file beside the table is not taken: another release had none."""
    assert fmwem("release", "t.csv", "--marginals", 1, "-q", "--model", "t.model").code == 0
    compare = ("evaluate", "t.csv", "t.synthetic.parquet", "--marginals", 1, "--json")
    neutral, declared = fmwem(*compare).facts, fmwem(*compare, "--domain", "t.domain.json").facts
    assert (neutral["bins"], declared["bins"]) == ("neutral", "domain")
    assert neutral["columns"] == declared["columns"] and neutral["by_order"] != declared["by_order"]
    for domain in ("t.synthetic.manifest.json", "t.model"):
        assert fmwem(*compare, "--domain", domain).facts == declared
    (here / "t.domain.json").unlink()
    assert fmwem(*compare).facts == neutral


def test_drafting_a_domain(here: Path, fmwem: Fmwem) -> None:
    done = fmwem("domain", "draft", "t.csv")
    assert done.code == 0
    assert done.err.startswith("NOT PRIVATE: this draft was read off the data")
    drafted = Domain.from_dict(json.loads(done.out))
    assert [a.type for a in drafted] == ["string", "integer", "number", "date", "datetime", "boolean"]
    assert [a.nullable for a in drafted] == [True, False, True, False, True, True]
    (here / "t.domain.json").write_text(done.out.replace('"draft": true,', ""), encoding="utf-8")
    assert (
        fmwem("release", "t.csv", "--marginals", 1, "-q").code == 0
    )  # what it writes can be used as it is, once a person has looked
    assert "no column 'wages'" in fmwem("domain", "draft", "t.csv", "--columns", "wages").err
    assert json.loads(fmwem("domain", "schema").out)["title"] == "fmwem domain"


def test_a_draft_names_the_columns_of_identifiers_and_shows_none(here: Path, fmwem: Fmwem) -> None:
    people = [f"Person{i},{5000 + i},{'FM'[i % 2]}" for i in range(200)]
    Path("p.csv").write_text("\n".join(["name,id,sex", *people]) + "\n")
    done = fmwem("domain", "draft", "p.csv")
    assert done.code == 0 and "Person" not in done.out + done.err
    assert "Column 'name': nearly every value is its own: an identifier or free text" in done.err
    assert "Column 'id': no number comes twice" in done.err and "'sex'" not in done.err
    assert not any(f"{5000 + i}" in done.err for i in range(200))


@pytest.mark.parametrize(
    "column",
    [
        ["0.0", "0.0"],
        ["1e305", "-1e308"],
        ["1e300"],
        ["1.5", "1.5000000000000002"],
        ["0", "4e-320"],
        ["999999999999999999", "-999999999999999999"],
        ["0001-01-01", "9999-12-31"],
        ["9999-12-31T23:59:59"],
        ["", ""],
        ["x" * 5000],
        [str(i) + "s" for i in range(500)],
        [" ", "a"],
        ["other", "a"],
    ],
    ids=lambda column: column[0][:12],
)
def test_whatever_a_column_holds_its_draft_is_a_domain(here: Path, fmwem: Fmwem, column: list[str]) -> None:
    with open("d.csv", "w", newline="") as file:
        csv.writer(file).writerows([["c", "k"], *([value, "k"] for value in column)])
    done = fmwem("domain", "draft", "d.csv")
    assert done.code == 0, done.err
    (here / "d.domain.json").write_text(done.out.replace('"draft": true,', ""))
    assert fmwem("release", "d.csv", "--marginals", 1, "-q").code == 0


def test_drafting_typed_columns(here: Path, fmwem: Fmwem) -> None:
    columns = {
        "i": pa.array([2**63 - 1, -(2**63)]),
        "u": pa.array([2**64 - 1, 0], pa.uint64()),
        "f": pa.array([float("inf"), float("nan")]),
        "d": pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32()),
        "t": pa.array([2**63 - 1, 0], pa.int64()).cast(pa.timestamp("us")),
        "n": pa.array([None, None], pa.int64()),
    }
    big = pa.table(columns)
    pq.write_table(big, "big.parquet")
    done = fmwem("domain", "draft", "big.parquet")
    assert done.code == 0, done.err
    assert Domain.from_dict(json.loads(done.out)).names == ("i", "u", "f", "d", "t", "n")


def test_check_reads_no_row(here: Path, fmwem: Fmwem) -> None:
    (here / "t.csv").write_bytes(b"zip,age,pay,born,seen,smoker\n\xff\xfe garbage,,,,,,,,,\n")
    done = fmwem("check", "t.csv", "--marginals", 3)
    assert done.code == 0, done.err
    for words in (
        "6 attributes (codes): zip 4, age 10",
        "candidates  41 marginals",
        "memory ",
        "plan        no rounds",
        "no row was read and nothing was spent",
    ):
        assert words in done.out
    rounds = fmwem("check", "t.csv", "--marginals", 3, "--rounds", 5).out
    assert "at most 5 for a table" in rounds and "noise  " in rounds
    assert fmwem("check", "t.csv", "--marginals", 3, "--json").facts["candidates"] == 41
    assert os.listdir(here).count("t.synthetic.parquet") == 0
    assert "--marginals 7: the table has only 6 attributes" in fmwem("check", "t.csv", "--marginals", 7).err
    (here / "t.domain.json").unlink()
    unknown = fmwem("check", "t.csv", "--marginals", 3).out
    assert "none is declared: it will be learnt" in unknown and "no row was read" in unknown
    assert fmwem("check", "t.csv", "--marginals", 3, "--json").facts["columns"]["age"] == "learnt"
    assert "see `fmwem domain draft`" in fmwem("check", "t.csv", "--marginals", 3, "--delta", 0).err


def test_a_domain_is_learnt_once_in_the_books_and_used_for_nothing(here: Path, fmwem: Fmwem) -> None:
    (here / "t.domain.json").unlink()
    fmwem("ledger", "init", "b.ledger")
    fmwem("ledger", "add", "b.ledger", "--dataset", "t", "--epsilon", 60)
    books = ("--ledger", "b.ledger", "--dataset", "t")
    learn = ("domain", "learn", "t.csv", "--epsilon", 20, *books, "--run-id", "schema")
    learnt = fmwem(*learn)
    assert learnt.code == 0, learnt.err
    assert learnt.facts["domain"] == "t.domain.json" and learnt.facts["columns"] == 6
    assert 0 < learnt.facts["spent_epsilon"] <= 20
    file = (here / "t.domain.json").read_bytes()
    assert fmwem(*learn).facts == learnt.facts and (here / "t.domain.json").read_bytes() == file
    done = fmwem("release", "t.csv", "--marginals", 1, *books)
    assert done.facts["domain"] == "t.domain.json" and "discover" not in done.err
    (shown,) = fmwem("ledger", "show", "b.ledger", "--json").facts["datasets"]
    assert len(shown["releases"]) == 2
    taken = fmwem("domain", "learn", "t.csv", "--epsilon", 20)
    assert taken.code == 2 and "t.domain.json exists; use --overwrite" in taken.err


def test_existing_outputs(here: Path, fmwem: Fmwem) -> None:
    assert fmwem("release", "t.csv", "--marginals", 1, "-q").code == 0
    refused = fmwem("release", "t.csv", "--marginals", 1, "-q")
    assert refused.code == 2
    assert "t.synthetic.parquet exists; use --overwrite or another -o" in refused.err
    assert fmwem("release", "t.csv", "--marginals", 1, "-q", "--overwrite").code == 0


def test_every_exit_code_of_failures(here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 and 3 are seen above; here what a user's input should never cause, and what the machine may
    refuse.
    """

    def failing(error: BaseException) -> Callable[..., Any]:
        def run(*_: Any, **__: Any) -> None:
            raise error

        return run

    for error, code, words in (
        (RuntimeError(CANARY), 1, "unexpected RuntimeError at main.py:"),
        (MemoryError(), 4, "out of memory; lower --max-cells or --max-memory"),
        (KeyboardInterrupt(), 130, "interrupted; nothing was left half-written"),
    ):
        monkeypatch.setattr(job, "run", failing(error))
        done = fmwem("release", "t.csv", "--marginals", 1)
        assert done.code == code
        assert words in done.err
        assert "CANARY" not in done.err
    monkeypatch.undo()
    monkeypatch.chdir(here)
    (here / "wide.csv").write_text(",".join(f"a{i}" for i in range(1000)) + "\n")
    (here / "wide.domain.json").write_text(json.dumps({f"a{i}": 2 for i in range(1000)}))
    done = fmwem("check", "wide.csv", "--marginals", 3)
    assert done.code == 4
    assert "20,000,000 candidate marginals; lower --marginals or use --columns" in done.err


def test_a_spent_budget_is_said(here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that fails after noise was drawn has still cost its epsilon."""
    from factored_mwem.errors import ResourceError

    def full(*_: Any, **__: Any) -> None:
        raise ResourceError("no space left")

    monkeypatch.setattr("factored_mwem.pipeline.publish.write_release", full)
    done = fmwem("release", "t.csv", "--marginals", 1)
    assert (done.code, done.err) == (
        4,
        "fmwem: no space left (budget was spent; running again is a new release and spends again)\n",
    )
    assert fmwem("release", "t.csv", "--marginals", 1, "--json").facts["budget_spent"] is True


def test_help_and_no_arguments(fmwem: Fmwem) -> None:
    assert fmwem("--help").code == 0
    bare = fmwem()
    assert bare.code == 2
    assert bare.err.startswith("Usage: ")
    assert "No such command 'nope'" in fmwem("nope").err


def test_importing_is_light() -> None:
    """Neither pandas nor a compiler may run where somebody only imports the package."""
    code = "import sys, factored_mwem; print(sorted({'pandas', 'polars', 'duckdb'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


# ---- options


def test_a_reading_flag_wins_over_the_variable_of_the_other(here: Path, fmwem: Fmwem) -> None:
    """A variable that is set for all jobs must not stand in the way of what one job says."""
    for flag, variable in (("lines", "FMWEM_MULTILINE"), ("multiline", "FMWEM_LINES")):
        arguments = ["release", "t.csv", "--columns", "age,pay", "--marginals", 1, "-q", "--overwrite"]
        (here / "t.csv").write_text("age,pay\n" + "1,2.5\n" * 50)
        (here / "t.domain.json").write_text(json.dumps({"fields": DOMAIN["fields"][1:3]}))
        assert fmwem(*arguments, f"--{flag}", **{variable: "1"}).code == 0
        manifest = json.loads((here / "t.synthetic.manifest.json").read_text())
        assert manifest["policy"]["records"] == flag
    both = fmwem(*arguments, FMWEM_LINES="1", FMWEM_MULTILINE="1")
    assert both.code == 2 and "--lines and --multiline say different things" in both.err
    assert fmwem(*arguments, "--lines", FMWEM_LINES="1", FMWEM_MULTILINE="1").code == 0


def test_every_flag_is_listed_with_its_choices(fmwem: Fmwem) -> None:
    found = fmwem("release", "--help").out
    text = " ".join(found.split())
    for name in FLAGS:
        assert f"--{name.replace('_', '-')} " in text
    assert "--engine [tree|mwem]" in text and "--neighbours [add-remove|replace]" in text
    assert "--neighbours [add-remove|replace]" in fmwem("ledger", "add", "--help").out
    assert "--engine [tree|mwem]" in fmwem("check", "--help").out


@pytest.mark.parametrize("command", ["release", "check", "verify", "evaluate", "sample"])
def test_a_command_lists_an_option_once(fmwem: Fmwem, command: str) -> None:
    listed = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", fmwem(command, "--help").out, re.MULTILINE)
    assert len(listed) == len(set(listed)) >= 5


def test_settings_are_one_model_for_flags_and_files(here: Path) -> None:
    """What a flag and what a file gives is checked by the same fields; names may be of any characters."""
    given = {"rows": 5, "columns": "age, pay", "cube": ["age"], "rounds": "7", "dataset": "\udcff"}
    settings = ReleaseSettings.of(given)
    assert (settings.rows, settings.columns, settings.policy.rounds) == (5, ["age", "pay"], 7)
    assert settings.dataset == "\udcff" and settings.asked == Workload.cube("age")
    for wrong in ({"rows": -1}, {"marginals": True}, {"cube": "age"}, {"output": 5}, {"overwrite": 1}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))} = .* must be "):
            ReleaseSettings.of(wrong)
    with pytest.raises(InputError, match="epsilon='much'"):
        ReleaseSettings.of({"epsilon": "much"})


def test_the_version_is_one_line(fmwem: Fmwem) -> None:
    done = fmwem("--version")
    assert done.code == 0 and re.fullmatch(r"fmwem \S+\n", done.out) and done.err == ""


def test_the_guide_lists_its_topics_and_shows_one(fmwem: Fmwem) -> None:
    from factored_mwem.guide import TOPICS, page

    listed = fmwem("guide")
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()] == list(TOPICS)
    assert all(what in listed.out for what in TOPICS.values())
    for topic in TOPICS:
        shown = fmwem("guide", topic)
        assert (shown.code, shown.out) == (0, page(topic))  # plain Markdown where it is piped
    unknown = fmwem("guide", "nope")
    assert (unknown.code, unknown.out, unknown.err.count("\n")) == (2, "", 1)
    assert all(topic in unknown.err for topic in TOPICS)


def test_the_guide_is_laid_out_on_a_terminal(monkeypatch: pytest.MonkeyPatch, fmwem: Fmwem) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = fmwem("guide", "ledger").out
    assert shown.strip() and "\n# " not in f"\n{shown}" and "```" not in shown


KIND = '''
"""Stripes: how many rows have an even code."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from factored_mwem.workload.queries.base import QueryRequest, Span, made, split_spec


class StripesRequest(QueryRequest):
    """The even codes of an attribute."""

    key: ClassVar[str] = "stripes"
    option: ClassVar[str] = "stripe"
    help: ClassVar[str] = "Keep the even codes of A; repeatable."
    form: ClassVar[str] = "A"
    example: ClassVar[str] = "age"

    attribute: str

    @classmethod
    def parse(cls, given):
        (name,), _, weight = split_spec(given, cls.option)
        return made(cls, attribute=name, weight=weight)

    @property
    def names(self):
        return (self.attribute,)

    def in_words(self):
        return f"stripes of {self.attribute}"

    def spans(self, domain):
        return [Span(self.names, 1, self.weight)]

    def questions(self, domain):
        return Stripes(domain.index(self.attribute), domain[self.attribute].size)


@dataclass(frozen=True)
class Stripes:
    at: int
    size: int
    lowest: ClassVar[int] = 0

    @property
    def cells(self):
        return np.ones(1, dtype=np.int64)

    def positions(self, question):
        return (self.at,)

    def label(self, question, names):
        return f"even {names[self.at]}"

    def answers(self, source):
        return source.marginal((self.at,))[::2].sum(keepdims=True)

    def l1(self, unit):
        return unit.of_counting_query

    def l2_squared(self, unit):
        return unit.of_counting_query**2

    def axis_values(self, question):
        return {self.at: (np.arange(self.size) % 2 == 0).astype(np.int8)}
'''
RUNNER = """
import contextlib, io, json, os, sys
from factored_mwem.workload.queries import KINDS
from stripes import StripesRequest
KINDS[StripesRequest.key] = StripesRequest
from factored_mwem.cli.main import main
for arguments, environment in json.load(sys.stdin):
    sys.argv, out, err = ["fmwem", *arguments], io.StringIO(), io.StringIO()
    os.environ.update(environment)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    for name in environment:
        del os.environ[name]
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


@pytest.mark.system
def test_a_query_kind_is_one_file_and_a_name_in_kinds(here: Path) -> None:
    """A kind of a file of its own is a flag, a variable, a key of both files, and is measured and
    evaluated.
    """
    (here / "stripes.py").write_text(KIND)
    (here / "w.toml").write_text('[[stripes]]\nattribute = "pay"\nweight = 2.0\n')
    (here / "c.toml").write_text('stripe = ["born"]\n')
    (here / "wrong.toml").write_text("stripe = 5\n")
    release = ["release", "t.csv", "--engine", "mwem", "--rounds", "2", "-q", "--overwrite"]
    commands: list[tuple[list[str], dict[str, str]]] = [
        (["release", "--help"], {}),
        ([*release, "--stripe", "age@3", "--stripe", "zip", "-o", "flag.parquet"], {}),
        ([*release, "--workload", "w.toml", "-o", "workload.parquet"], {}),
        ([*release, "--config", "c.toml", "-o", "config.parquet"], {}),
        ([*release, "-o", "variable.parquet"], {"FMWEM_STRIPE": "smoker"}),
        ([*release[:-2], "--engine", "tree", "--stripe", "age", "-o", "tree.parquet"], {}),
        (["evaluate", "t.csv", "flag.parquet", "--marginals", "1", "--stripe", "age"], {}),
        (["check", "t.csv", "--stripe", "age", "--engine", "mwem"], {}),
        (["workload", "schema"], {}),
        ([*release, "--config", "wrong.toml"], {}),
        (["release", "t.csv"], {}),
    ]
    run = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(commands),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=True,
    )
    ended = [Run(*json.loads(line)) for line in run.stdout.splitlines()]
    assert [done.code for done in ended] == [0] * 9 + [2, 2], ended
    listed, evaluated, schema, wrong, nothing = (ended[i] for i in (0, 6, 8, 9, 10))
    assert "Keep the even codes of A; repeatable." in " ".join(listed.out.split())
    names = {"flag": ["age", "zip"], "workload": ["pay"], "config": ["born"], "variable": ["smoker"]}
    for made, attributes in names.items():
        manifest = json.loads((here / f"{made}.manifest.json").read_text())
        assert [asked["attribute"] for asked in manifest["workload"]["stripes"]] == attributes
        asked = {question["question"] for question in manifest["questions"]}
        assert asked and asked <= {f"even {name}" for name in attributes}
    assert "stripes of age (1): mean" in evaluated.out
    assert "StripesRequest" in json.loads(schema.out)["$defs"]
    assert 'wrong.toml: stripe = 5 must be a list such as ["age"]' in wrong.err
    assert "--parities K, --stripe A or --workload FILE" in nothing.err


def test_planning_compares_epsilons_and_looks_for_one(here: Path, fmwem: Fmwem) -> None:
    (here / "t.csv").write_bytes(b"zip,age,pay,born,seen,smoker\n\xff\xfe garbage,,,,,,,,,\n")
    done = fmwem("plan", "t.csv", "--marginals", 2, "--epsilon", "0.5,1")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["epsilon", "guess", "1-way", "2-way", "noise", "a", "cell"]
    assert [line.split()[0] for line in lines[1:3]] == ["0.5", "1"] and "54.4 %" in lines[2]
    assert "no row was read and nothing was spent" in lines[-1] and "public tables, no promise" in done.out
    found = fmwem("plan", "t.csv", "--marginals", 2, "--error", "mean2 <= 0.2", "--json").facts
    assert found["target"] == [2, 0.2] and found["likely"]["errors"][1]["error"] <= 0.2
    assert (
        fmwem("plan", "t.csv", "--marginals", 1, "--json", FMWEM_EPSILON="0.7").facts["prospects"][0][
            "epsilon"
        ]
        == 0.7
    )
    Path("run.toml").write_text("epsilon = 0.3\nmarginals = 1\n")
    assert len(fmwem("plan", "t.csv", "--config", "run.toml", "--json").facts["prospects"]) == 1
    for wrong in (("--epsilon", "1;2"), ("--epsilon", "0"), ("--error", "x"), ("--assume-rows", "0")):
        refused = fmwem("plan", "t.csv", "--marginals", 2, *wrong)
        assert refused.code == 2 and refused.err.count("\n") == 1, refused.err
    (here / "t.domain.json").unlink()
    assert "value kept from" in fmwem("plan", "t.csv", "--marginals", 2).out
    assert sorted(os.listdir(here)) == ["run.toml", "t.csv"]
