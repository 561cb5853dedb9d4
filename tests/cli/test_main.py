"""The command line as a new user meets it: a JSON line, a summary, one line and a code for a mistake."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.commands import CANARY, DOMAIN, Fmwem, refused
from support.processes import PYTHON, ended

from factored_mwem import Domain, Workload, evaluate, release
from factored_mwem.cli import console
from factored_mwem.cli import jobs as job
from factored_mwem.cli.settings import ReleaseSettings
from factored_mwem.documents.guide import TOPICS, page
from factored_mwem.errors import InputError, ResourceError, Stopped
from factored_mwem.pipeline import learn_domain


def test_the_main_flow_from_csv_to_every_reader(here: Path, fmwem: Fmwem) -> None:
    done = fmwem("release t.csv --marginals 2 --model t.model --epsilon 5 -v")
    assert done.code == 0
    names = {"output": "t.synthetic.parquet", "manifest": "t.synthetic.manifest.json", "model": "t.model"}
    names |= {"domain": "t.domain.json"}
    facts = done.facts
    assert names.items() <= facts.items() and "report" not in facts
    assert facts["spent_epsilon"] <= facts["epsilon"] == 5
    for words in (
        *("promise ", "(5, 1e-09)-differential privacy", "expect ", "neighbours  add-remove", "budget "),
        *("next        fmwem report t.synthetic.manifest.json", "            fmwem sample t.model -n 1000"),
        *("independent part", "rounds ", "rows ", "peak memory", "declared in t.domain.json"),
        *("file        t.synthetic.parquet", "            t.model"),
    ):
        assert words in done.err
    kept = ["t.csv", "t.domain.json", "t.model", "t.synthetic.manifest.json", "t.synthetic.parquet"]
    assert sorted(os.listdir(here)) == kept
    # how long it took could depend on the data
    assert "peak" not in (here / "t.synthetic.manifest.json").read_text()
    _opens_everywhere(here / "t.synthetic.parquet", facts["rows"])


def test_without_a_word_pairs_are_kept_and_that_is_said(here: Path, fmwem: Fmwem) -> None:
    done = fmwem("release t.csv --rounds 2")
    assert done.code == 0 and "keeping how every two columns go together (--marginals 2)" in done.err
    assert json.loads((here / "t.synthetic.manifest.json").read_text())["workload"]["marginals"] == [2]
    assert "(--marginals 2)" in fmwem("check t.csv").out
    assert fmwem("answer t.synthetic.parquet count").code == 0  # the model beside the rows
    assert fmwem("report t.synthetic.parquet").facts["public"] is True
    asked = fmwem("check t.csv --label smoker").out
    assert "(--marginals 2)" not in asked and "combinations" in asked
    assert "keeping" not in fmwem("release t.csv --marginals 2 --rounds 2 --overwrite").err
    alone = fmwem("release t.csv --columns age --overwrite")
    assert alone.code == 0 and "keeping how often each value comes (--marginals 1)" in alone.err
    assert json.loads((here / "t.synthetic.manifest.json").read_text())["workload"]["marginals"] == [1]
    assert "(--marginals 1)" in fmwem("check t.csv --columns age").out
    checked = fmwem("verify t.csv --columns age --pairs 1")
    assert checked.code == 0 and "all hold" in checked.out
    few = "--releases 8 --targets 1 --canaries 8 --among 20 --json"
    assert fmwem(f"attack t.csv --columns age {few}").facts["private"] is False
    compared = fmwem("evaluate t.csv t.synthetic.parquet --columns age --json")
    assert set(compared.facts["by_order"]) == {"1"}


NAMES = [field["name"] for field in DOMAIN["fields"]]


def _opens_everywhere(path: Path, rows: int) -> None:
    table = pq.read_table(path)
    types = [pa.string(), pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.bool_()]
    assert table.column_names == NAMES and table.schema.types == types
    assert table.num_rows == rows
    assert set(table["zip"].to_pylist()) <= {"0311", "0420", 'Zürich, "HB"\n8001', None}
    assert table["age"].null_count == table["born"].null_count == 0
    assert all(table[name].null_count > 0 for name in ("zip", "pay", "seen", "smoker"))
    pandas, polars, duckdb = (pytest.importorskip(name) for name in ("pandas", "polars", "duckdb"))
    frame = pandas.read_parquet(path)
    assert list(frame.columns) == NAMES and frame["age"].dtype == "int64"
    assert polars.read_parquet(path).schema["born"] == polars.Date
    kinds = [str(kind) for kind in duckdb.sql(f"select * from '{path}'").types]
    assert kinds == ["VARCHAR", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN"]


def test_quiet_verbose_and_json(here: Path, fmwem: Fmwem) -> None:
    quiet = fmwem("release t.csv --marginals 1 -q -o a.parquet")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.facts["rows"] > 0
    machine = fmwem("release t.csv --marginals 1 --json -o b.parquet")
    assert (machine.code, machine.err) == (0, "")
    assert machine.facts["output"] == "b.parquet"
    verbose = fmwem("release t.csv --marginals 2 -v -o c.csv")
    lines = [line for line in verbose.err.splitlines() if line.startswith("round ")]
    line = r"round (\d+): measured .+; .+; (\d+) tables? of [0-9,]+ cells; (\d+)% of the .*"
    told = [re.fullmatch(line, s) for s in lines]
    assert lines and all(told)
    assert [int(t[1]) for t in told if t] == list(range(1, len(lines) + 1))
    spent = [int(t[3]) for t in told if t]
    assert spent == sorted(spent) and spent[-1] == 100
    assert "differential privacy" in verbose.err
    assert verbose.facts["output"] == "c.csv"
    failed = fmwem("release t.csv --marginals 1 --json --epsilon 0")
    assert failed.facts == {
        "error": "epsilon=0.0: must be a positive number, at least 1e-12; 1 is a common choice",
        "exit_code": 2,
        "budget_spent": False,
        "retryable": False,
        "advice": "change what the message names, then run again",
    }


REFUSED = {
    "none.csv --marginals 1": "no file none.csv",
    ". --marginals 1 -o o.parquet": "o.parquet lies in the folder that is the table",
    "t.domain.json --marginals 1": ".json files are not read",
    "'' --marginals 1 -o /tmp/o.parquet": "the name of the table is empty",
    "t.csv --marginals 7": "--marginals 7: the table has only 6 columns; give --marginals 6",
    "t.csv --marginals 0": "--marginals 0: marginals have at least one attribute",
    "t.csv --workload none.toml": "cannot read the workload file none.toml",
    "t.csv --workload t.csv": "not a workload file",
    "t.csv --config none.toml": "cannot read the configuration none.toml",
    "t.csv --config t.csv": "is not TOML",
    "": "Missing argument",
}
"""What is said of a line behind `fmwem release`."""
REFUSED_OPTIONS = {
    "--spill none": "--spill none: must be a folder",
    "-o \udcff.parquet": "the name is not UTF-8 text",
    "-o \udcff/": "the name is not UTF-8 text",
    "--epsilon 0": "epsilon=0.0: must be a positive number",
    "--epsilon -1": "epsilon=-1.0: must be a positive number",
    "--epsilon 1e-300": "epsilon=1e-300: must be a positive number, at least 1e-12",
    "--epsilon nan": "epsilon=nan: must be a positive number",
    "--epsilon inf": "epsilon=inf: must be a positive number",
    "--epsilon much": "--epsilon",
    "--epsilon 1e-12": "of the budget is left; ask for less or raise --epsilon",
    "--delta 1": "delta=1.0: must be 0, which is pure",
    "--delta -1": "delta=-1.0: must be 0, which is pure",
    "--neighbours both": "neighbours='both'",
    "--contributions 0": "contributions=0",
    "--rounds 0": "rounds=0: at least one, or 'adaptive'",
    "--rounds many": "rounds='many'",
    "--rounds \u00b2": "rounds='\u00b2'",
    f"--rounds {'9' * 5000}": "rounds=",
    "--max-cells 1": "more than --max-cells 1; use fewer bins or raise it",
    "--rows -1": "--rows",
    f"--rows {10**30}": "--rows",
    "--sample-seed -1": "--sample-seed",
    "--columns ,": "--columns names no column",
    "--columns age --columns=zip": "--columns is given twice; write it once, with commas: --columns A,B",
    "--columns age,wages": "no column 'wages' in the table (did you mean 'age'?); it has zip, age",
    "--privacy-id who": "no column 'who' for --privacy-id",
    "--domain none.json": "cannot read the domain file none.json",
    "--domain t.csv": "is not JSON",
    "-o t.csv --overwrite": "t.csv is an input; choose another path",
    "--model t.domain.json --overwrite": "t.domain.json is an input",
    "--model ./t.synthetic.parquet": "have the same path",
    "-o none/x.parquet": "no folder none; create it first",
    "-o t.csv/x.parquet": "cannot write in t.csv",
    "-o x.xlsx": "unknown output format",
    "-o .": "./ holds an input; choose another path",
    "-o ''": "--output is empty",
    "--epsilom 1": "No such option: --epsilom",
    "--lines --multiline": "give one of them",
}
"""Of an option behind `fmwem release t.csv --marginals 1`."""
CODES = {"--epsilon 1e-12": 3, "--max-cells 1": 4}
"""All others are 2."""
LINES = REFUSED | {f"t.csv --marginals 1 {options}": said for options, said in REFUSED_OPTIONS.items()}


@pytest.mark.parametrize("line", LINES, ids=lambda line: repr(line[-40:]))
def test_mistakes_are_one_line_with_their_code(here: Path, fmwem: Fmwem, line: str) -> None:
    code = CODES.get(line.removeprefix("t.csv --marginals 1 "), 2)
    done = refused(fmwem, f"release {line}", LINES[line], code)
    assert done.err.startswith("fmwem: ") and "budget was spent" not in done.err


@pytest.mark.parametrize("options", ["--epsilon -1", "--columns wages", "--label wages", "--marginals 7"])
def test_a_mistake_is_named_before_an_output_that_exists(here: Path, fmwem: Fmwem, options: str) -> None:
    """Else whoever mends the output meets it only then."""
    line = "release t.csv " + (options if "marginals" in options else f"--marginals 1 {options}")
    words = fmwem(line).err
    Path("t.synthetic.parquet").write_bytes(b"mine")
    assert refused(fmwem, line).err == words and "exists" not in words


WRONG_QUESTIONS = {
    "--ranges ''": "--ranges : name each attribute once",
    "--ranges age": "--ranges age: say how many",
    "--ranges age:0": "--ranges age:0: say how many",
    "--ranges age:1000001": "--ranges age:1000001: say how many, 1 to 1,000,000",
    "--ranges age:\u00b2": "say how many",
    "--ranges age,age:10": "name each attribute once",
    "--cube age,zip,age": "name each attribute once",
    "--ranges age:10@0": "a weight is above 0",
    "--ranges age:10@nan": "a weight is above 0",
    "--cube age@1e9": "a weight is above 0",
    "--cube age@much": "'much' is no weight",
    "--ranges wages:10": "the workload names 'wages'",
    "--label wages": "the workload names 'wages'",
    "--label age,pay": "the workload names 'age,pay'",
    "--label age --columns zip,pay": "the workload names 'age'",
    "--label age --columns age": "--label age: there is no other column to predict it from",
    "--label @3": "--label @3: name a column, with a weight if wanted",
    "--label age@": "--label age@: name a column, with a weight if wanted",
    "--label age@0": "--label age@0: a weight is above 0, at most 1000",
    "--label age@-1": "--label age@-1: a weight is above 0",
    "--label age@nan": "--label age@nan: a weight is above 0",
    "--label age@much": "'much' is no weight; write for example age@2",
    "--ranges age:10 --columns zip,pay": "the workload names 'age'",
    "--ranges zip:10": "ranges over 'zip': its values have no order",
    "--cube age,zip:3": "the order is a number from 1 to 2; for example age,zip:2",
    "--parities 1": "--parities 1: only 0 attributes have two values",
    "--parities 0": "--parities 0: a parity is over 1 to 20 attributes",
    "--parities two": "--parities",
    "--ranges age,pay:10 --engine mwem --max-cells 50": "more than --max-cells 50; raise it",
}


@pytest.mark.parametrize("options", WRONG_QUESTIONS)
def test_wrong_questions_are_refused_before_anything_is_spent(here: Path, fmwem: Fmwem, options: str) -> None:
    done, code = fmwem(f"release t.csv {options} --json"), 4 if "--max-cells" in options else 2
    assert (done.code, done.facts["exit_code"], done.facts["budget_spent"] or False) == (code, code, False)
    assert WRONG_QUESTIONS[options] in done.facts["error"] and done.err.count("\n") == 1
    assert sorted(os.listdir(here)) == ["t.csv", "t.domain.json"]


def test_a_learnt_domain_may_not_fit_the_questions(here: Path, fmwem: Fmwem) -> None:
    """A name that is not there is seen in the header; that values have no order is known only once the budget
    has paid for them, and then said.

    The vote on a column's kind is noisy: one in 700 makes text of the ages, which has no order either. Four
    in a row are one in 10^11.
    """
    (here / "t.domain.json").unlink()
    early = fmwem("release t.csv --ranges wages:10 --json")
    assert (early.code, early.facts["budget_spent"]) == (2, False)
    late = fmwem("release t.csv --ranges zip:10 --epsilon 50 --json")
    assert (late.code, late.facts["budget_spent"]) == (2, True) and late.err.count("\n") == 1
    assert any(fmwem("release t.csv --ranges age:10 --epsilon 50 -q").code == 0 for _ in range(4))


def manifest_of(table: str = "t") -> dict[str, Any]:
    return json.loads(Path(f"{table}.synthetic.manifest.json").read_text())


def asked_for(table: str = "t") -> dict[str, Any]:
    return manifest_of(table)["workload"]


@pytest.mark.parametrize("engine", ["tree", "mwem"])
def test_questions_by_flag_variable_or_file(here: Path, fmwem: Fmwem, engine: str) -> None:
    """Flags repeat; a flag goes above its variable, that above the file; the manifest says it all."""
    job = "release t.csv --cube age,pay,smoker:2@3 --ranges age:all --ranges age,pay:20 --marginals 1"
    done = fmwem(f"{job} -q --overwrite --engine {engine} --rounds 2")
    assert done.code == 0, done.err
    found = asked_for()
    cube = {"attributes": ["age", "pay", "smoker"], "order": 2, "weight": 3.0}
    assert (found["marginals"], found["cubes"]) == ([1], [cube])
    ranges = [(["age"], "all", 1000), (["age", "pay"], "random", 20)]
    assert [(r["attributes"], r["which"], r["count"]) for r in found["ranges"]] == ranges
    Path("c.toml").write_text(
        'cube = ["zip,smoker"]\nranges = ["pay:prefix", "age:7"]\noverwrite = true\nrounds = 1\n'
    )
    for options, environment, ranges, cubes in (
        ("--config c.toml", {}, [["pay"], ["age"]], [["zip", "smoker"]]),
        ("--config c.toml", {"FMWEM_RANGES": "born:5", "FMWEM_CUBE": "age"}, [["born"]], [["age"]]),
        ("--ranges seen:5 --overwrite", {"FMWEM_RANGES": "born:5"}, [["seen"]], []),
    ):
        assert fmwem(f"release t.csv {options} -q", **environment).code == 0
        assert [asked["attributes"] for asked in asked_for().get("ranges", [])] == ranges
        assert [asked["attributes"] for asked in asked_for().get("cubes", [])] == cubes


def test_labels_by_flag_variable_or_file(here: Path, fmwem: Fmwem) -> None:
    """With every column of the release, whichever these are; `evaluate` says how each went."""
    (here / "c.toml").write_text('label = ["zip@3", "pay"]\noverwrite = true\nrounds = 1\n')
    for options, environment, labels in (
        ("--label smoker", {"FMWEM_LABEL": "pay"}, [("smoker", 10.0)]),
        ("", {"FMWEM_LABEL": "pay@0.5"}, [("pay", 0.5)]),
        ("--marginals 2", {}, [("zip", 3.0), ("pay", 10.0)]),
    ):
        done = fmwem(f"release t.csv --config c.toml -q {options}", **environment)
        assert done.code == 0, done.err
        assert [(asked["column"], asked["weight"]) for asked in asked_for()["labels"]] == labels
    few = fmwem("release t.csv --label pay --columns age,pay,zip -q --overwrite")
    assert few.code == 0, few.err
    shown = fmwem("evaluate t.csv t.synthetic.parquet --marginals 1 --label pay")
    assert "pay with each other column (2): mean" in shown.out


def test_parities_by_flag_variable_or_file(here: Path, fmwem: Fmwem) -> None:
    (here / "b.csv").write_text("p,q,r\n" + "true,false,1\nfalse,false,2\n" * 50)
    fields = [{"name": n, "type": "boolean", "constraints": {"required": True}} for n in "pq"]
    fields.append({"name": "r", "type": "integer", "categories": [1, 2, 3]})
    (here / "b.domain.json").write_text(json.dumps({"fields": fields}))
    (here / "c.toml").write_text("parities = 1\n")
    for options, environment, order in (
        ("--parities 2", {"FMWEM_PARITIES": "1"}, 2),
        ("--config c.toml", {"FMWEM_PARITIES": "2"}, 2),
        ("--config c.toml", {}, 1),
    ):
        done = fmwem(f"release b.csv -q --overwrite {options}", **environment)
        assert done.code == 0, done.err
        assert asked_for("b")["parities"] == [{"order": order, "weight": 1.0}]
    for line in ('ranges = "age:5"', "cube = [1]", 'parities = "2"'):
        (here / "c.toml").write_text(line + "\n")
        refused = fmwem("release b.csv --config c.toml")
        assert refused.code == 2 and "must be" in refused.err and refused.err.count("\n") == 1


def test_domain_and_table_must_name_the_same_columns(here: Path, fmwem: Fmwem) -> None:
    fields = DOMAIN["fields"]
    (here / "more.json").write_text(json.dumps({"fields": [*fields, {"name": "extra", "categories": ["a"]}]}))
    (here / "fewer.json").write_text(json.dumps({"fields": fields[:2]}))
    more = fmwem("release t.csv --marginals 1 --domain more.json")
    assert "the domain names 'extra', but the table has no such column" in more.err
    fewer = fmwem("release t.csv --marginals 1 --domain fewer.json")
    assert (fewer.code, fewer.out) == (2, "")
    assert "column 'pay' is not in the domain; declare it there or leave it out with --columns" in fewer.err
    done = fmwem("release t.csv --marginals 2 --domain fewer.json --columns 'age, zip' -q")
    assert done.code == 0 and pq.read_schema("t.synthetic.parquet").names == ["zip", "age"]


def test_without_a_domain_the_budget_pays_for_one(here: Path, fmwem: Fmwem) -> None:
    (here / "t.domain.json").unlink()
    refused = fmwem("release t.csv --marginals 1 --delta 0")
    assert refused.code == 2
    assert "no domain is declared and --delta is 0" in refused.err
    done = fmwem("release t.csv --marginals 1 --domain-budget 0.3 --epsilon 20 -v")
    assert done.facts["domain"] == "learnt"
    share = re.search(r"discover ([0-9.]+)%", done.err)
    assert share is not None and 5 <= float(share[1]) <= 30
    assert "6 attributes learnt inside the budget" in done.err
    assert re.search(r"learnt +column +type +kept +clipped +other +missing", done.err)
    shares = [a[of] for a in manifest_of()["attributes"] for of in ("kept", "clipped", "other", "missing")]
    assert len(shares) == 24 and all(0 <= share <= 1 for share in shares)


def test_flags_go_above_the_environment_above_the_file(here: Path, fmwem: Fmwem) -> None:
    (here / "c.toml").write_text('marginals = 1\nepsilon = 2.0\noutput = "file.parquet"\nmax-cells = 1000\n')
    assert fmwem("release t.csv --config c.toml -q").facts["epsilon"] == 2
    assert (here / "file.parquet").exists()
    again = fmwem("release t.csv -q", FMWEM_CONFIG="c.toml", FMWEM_EPSILON="3", FMWEM_OVERWRITE="1")
    assert (again.facts["epsilon"], again.facts["output"]) == (3, "file.parquet")
    line = "release t.csv --config c.toml -q --epsilon 4 -o flag.parquet"
    flag = fmwem(line, FMWEM_EPSILON="3", FMWEM_OUTPUT="env.parquet")
    assert (flag.facts["epsilon"], flag.facts["output"]) == (4, "flag.parquet")
    assert fmwem("release t.csv --marginals 1 -q -o d.parquet").facts["epsilon"] == 1


def test_the_engine_is_chosen_by_flag_variable_or_file(here: Path, fmwem: Fmwem) -> None:
    """The faithful options need the faithful engine; the manifest says which one ran."""
    (here / "c.toml").write_text('engine = "mwem"\nreplay = false\ninitial = "none"\nrounds = 2\n')
    for options, environment, engine in (
        ("--config c.toml", {}, "mwem"),
        ("--engine mwem --rounds adaptive", {}, "mwem"),
        ("", {"FMWEM_ENGINE": "mwem"}, "mwem"),
        ("", {}, "tree"),
    ):
        assert fmwem(f"release t.csv --marginals 2 -q --overwrite {options}", **environment).code == 0
        assert manifest_of()["policy"]["engine"] == engine
    refused = fmwem("release t.csv --marginals 2 --config c.toml --engine tree")
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
    done = fmwem("release t.csv --config c.toml", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_variables_nobody_knows_are_errors(here: Path, fmwem: Fmwem) -> None:
    unknown = ("FMWEM_EPSILOM", "FMWEM_VERBOSE", "FMWEM_TABLE", "FMWEM_RETURN")
    for name in unknown:  # none of them would have an effect
        done = fmwem("release t.csv --marginals 1", **{name: "1"})
        assert done.code == 2
        assert f"unknown environment variable {name}; known are FMWEM_ACCEPT" in done.err
    assert fmwem("check t.csv --marginals 1", FMWEM_EPSILON="much").code == 2


def test_rows_none_and_many(here: Path, fmwem: Fmwem) -> None:
    for rows in (0, 300_000):
        done = fmwem(f"release t.csv --marginals 1 -q --rows {rows} -o {rows}.parquet")
        assert done.facts["rows"] == pq.read_metadata(f"{rows}.parquet").num_rows == rows


def whole(name: str, *values: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "integer", "categories": list(values), **more}


def words(name: str, *values: str) -> dict[str, Any]:
    return {"name": name, "categories": list(values)}


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        ("a,b\n1,x\n", [whole("a", 1, 2), words("b", "x", "y")]),  # one row
        ("a\n1\n2\n\n", [whole("a", 1, 2)]),  # one column
        ("a,b\n,x\n,y\n", [whole("a", 1), words("b", "x", "y")]),  # all null
        ("a,b\n1,x\n1,y\n", [whole("a", 1), words("b", "x", "y")]),  # constant
        ("a,b\n1,x\n", [whole("a", 1, constraints={"required": True}), words("b", "x")]),
        ("a b,\u00e9\n1,x\n", [whole("a b", 1), words("\u00e9", "x")]),
    ],
)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "learnt"])
@pytest.mark.usefixtures("quiet")
def test_small_and_odd_tables_are_released(
    here: Path, fmwem: Fmwem, content: str, fields: list[dict[str, Any]], declared: bool
) -> None:
    (here / "o.csv").write_text(content)
    if declared:
        (here / "o.domain.json").write_text(json.dumps({"fields": fields}))
    done = fmwem("release o.csv --marginals", len(fields), "-q")
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
        ("twice.csv", "a,a\n1,2\n", "have the same name"),
        ("nameless.csv", "b,,c\n1,2,3\n", "column 2 of the header has no name"),
    ):
        (here / name).write_text(content)
        assert "CANARY" not in refused(fmwem, f"release {name} --marginals 1", message).err
    (here / "other.json").write_text('{"fields": [{"name": "x", "categories": ["a"]}]}')
    foreign = "release t.csv --domain other.json --marginals 2"  # seen to fail: the table had only 1 column
    refused(fmwem, foreign, "column 'zip' is not in the domain")


def test_no_value_of_the_table_leaves_the_program(here: Path, fmwem: Fmwem) -> None:
    """Values the domain does not list map by a fixed rule: they must not show in any file or line."""
    with open("t.csv", "a", newline="", encoding="utf-8") as file:
        file.write(f"{CANARY},{CANARY},{CANARY},{CANARY},{CANARY},{CANARY}\r\n")
    done = fmwem("release t.csv --marginals 2 -v --model t.model")
    assert done.code == 0
    (here / "t.csv").unlink()
    assert "CANARY" not in done.out + done.err
    assert not any(b"CANARY" in path.read_bytes() for path in here.iterdir())


def test_privacy_id_bounds_and_drops_the_column(here: Path, fmwem: Fmwem) -> None:
    lines = (here / "t.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(lines.splitlines(keepends=True)))
    with open("p.csv", "w", newline="", encoding="utf-8") as file:
        people = ([f"p{i % 50}", *row] for i, row in enumerate(rows[1:]))
        csv.writer(file).writerows([["who", *rows[0]], *people])
    line = "p.csv --marginals 1 --domain t.domain.json --privacy-id who"
    done = fmwem(f"release {line} --contributions 2")
    assert done.code == 0
    assert pq.read_schema("p.synthetic.parquet").names == rows[0]
    said = " ".join(done.err.split())
    assert "(at most 2 rows)" in said and "column 'who' named the person" in said
    looked = fmwem(f"check {line}")
    assert (looked.code, looked.out[:58]) == (0, "rows used   of each person by 'who' at most 1 row is used;")


def test_model_sample_evaluate(here: Path, fmwem: Fmwem) -> None:
    assert fmwem("release t.csv --marginals 2 -q --model t.model").code == 0
    draw = "sample t.model -n 25 --sample-seed 1 -o"
    drawn = fmwem(f"{draw} more.csv")
    assert (drawn.code, drawn.facts["rows"], drawn.facts["spent_epsilon"]) == (0, 25, 0)
    assert fmwem(f"{draw} again.csv").facts["sha256"] == drawn.facts["sha256"]
    assert "exists; use --overwrite" in fmwem("sample t.model -n 5 -o more.csv").err
    for wrong in ("t.csv -n 5", "none -n 5", "t.model -n -1", f"t.model -n {10**30}"):
        assert fmwem(f"sample {wrong}").code == 2
    compare = "evaluate t.csv t.synthetic.parquet --marginals"
    found = fmwem(f"{compare} 2")
    assert found.code == 0 and found.out.startswith("NOT PRIVATE") and "worst marginals:\n" in found.out
    facts = fmwem(f"{compare} 2 --json").facts
    assert facts["private"] is False and set(facts["by_order"]) == {"1", "2"} and len(facts["worst"]) == 10
    assert "the tables share 6 attributes" in fmwem(f"{compare} 7").err
    assert fmwem("evaluate t.csv t.csv --marginals 1 --json").facts["by_order"]["1"]["worst"] == 0
    assert fmwem("evaluate t.csv none.parquet").code == 2


def test_evaluating_in_neutral_bins_or_in_those_of_a_release(here: Path, fmwem: Fmwem) -> None:
    """A domain file beside the table is not taken: another release had none."""
    assert fmwem("release t.csv --marginals 1 -q --model t.model").code == 0
    compare = ("evaluate", "t.csv", "t.synthetic.parquet", "--marginals", 1, "--json")
    neutral, declared = fmwem(*compare).facts, fmwem(*compare, "--domain", "t.domain.json").facts
    assert (neutral["bins"], declared["bins"]) == ("neutral", "domain")
    assert neutral["columns"] == declared["columns"] and neutral["by_order"] != declared["by_order"]
    for domain in ("t.synthetic.manifest.json", "t.model"):
        assert fmwem(*compare, "--domain", domain).facts == declared
    (here / "t.domain.json").unlink()
    assert fmwem(*compare).facts == neutral


def test_drafting_a_domain(here: Path, fmwem: Fmwem) -> None:
    """It can be used once a person has looked: found beside the table as it is, it was taken for declared."""
    done = fmwem("domain draft t.csv")
    assert done.code == 0
    assert done.err.startswith("NOT PRIVATE: this draft was read off the data")
    assert json.loads(done.out)["draft"] is True and '"draft": true' in done.err
    drafted = Domain.from_dict(json.loads(done.out))
    assert [a.type for a in drafted] == ["string", "integer", "number", "date", "datetime", "boolean"]
    assert [a.nullable for a in drafted] == [True, False, True, False, True, True]
    refused(fmwem, "domain draft t.csv -o t.csv", "t.csv is an input; choose another path")
    refused(fmwem, "domain draft t.csv -o t.domain.json", "t.domain.json exists; use --overwrite")
    filed = fmwem("domain draft t.csv -o t.domain.json --overwrite")
    assert (filed.code, filed.out, filed.err) == (0, "", done.err)
    assert Path("t.domain.json").read_text(encoding="utf-8") == done.out
    for command in ("release", "check"):
        said = "t.domain.json is a draft that was read off the data"
        told = refused(fmwem, f"{command} t.csv --marginals 2", said)
        assert 'remove its line "draft": true' in told.err and "budget was spent" not in told.err
    Path("t.domain.json").write_text(done.out.replace('"draft": true,', ""), encoding="utf-8")
    assert fmwem("release t.csv --marginals 1 -q").code == 0
    assert "no column 'wages'" in fmwem("domain draft t.csv --columns wages").err
    assert json.loads(fmwem("domain schema").out)["title"] == "fmwem domain"


def test_a_draft_names_the_columns_of_identifiers_and_shows_none(here: Path, fmwem: Fmwem) -> None:
    people = [f"Person{i},{5000 + i},{'FM'[i % 2]}" for i in range(200)]
    Path("p.csv").write_text("\n".join(["name,id,sex", *people]) + "\n")
    done = fmwem("domain draft p.csv")
    assert done.code == 0 and "Person" not in done.out + done.err
    assert "  1. 'name': nearly every value is its own: an identifier or free text" in done.err
    assert "  2. 'id': most of its numbers come once" in done.err and "'sex': lists" not in done.err
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
    done = fmwem("domain draft d.csv")
    assert done.code == 0, done.err
    (here / "d.domain.json").write_text(done.out.replace('"draft": true,', ""))
    assert fmwem("release d.csv --marginals 1 -q").code == 0


def test_drafting_typed_columns(here: Path, fmwem: Fmwem) -> None:
    columns = {
        "i": pa.array([2**63 - 1, -(2**63)]),
        "u": pa.array([2**64 - 1, 0], pa.uint64()),
        "f": pa.array([float("inf"), float("nan")]),
        "d": pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32()),
        "t": pa.array([2**63 - 1, 0], pa.int64()).cast(pa.timestamp("us")),
        "n": pa.array([None, None], pa.int64()),
    }
    pq.write_table(pa.table(columns), "big.parquet")
    done = fmwem("domain draft big.parquet")
    assert done.code == 0, done.err
    assert Domain.from_dict(json.loads(done.out)).names == ("i", "u", "f", "d", "t", "n")


def test_check_reads_no_row(here: Path, fmwem: Fmwem) -> None:
    (here / "t.csv").write_bytes(b"zip,age,pay,born,seen,smoker\n\xff\xfe garbage,,,,,,,,,\n")
    done = fmwem("check t.csv --marginals 3")
    assert done.code == 0, done.err
    said = (
        "6, with these numbers of values: zip 4, age 10",
        "candidates  41 sets of columns",
        "memory ",
        "plan        no rounds",
    )
    assert all(words in done.out for words in (*said, "no row was read and nothing was spent"))
    rounds = fmwem("check t.csv --marginals 3 --rounds 5").out
    assert "at most 5 for a table" in rounds and "noise  " in rounds
    assert fmwem("check t.csv --marginals 3 --json").facts["candidates"] == 41
    assert os.listdir(here).count("t.synthetic.parquet") == 0
    assert "the table has only 6 columns; give --marginals 6" in fmwem("check t.csv --marginals 7").err
    (here / "t.domain.json").unlink()
    unknown = fmwem("check t.csv --marginals 3").out
    assert "none is declared: the possible values are learnt" in unknown and "no row was read" in unknown
    assert fmwem("check t.csv --marginals 3 --json").facts["columns"]["age"] == "learnt"
    assert "write one with `fmwem domain draft`" in fmwem("check t.csv --marginals 3 --delta 0").err


def test_a_domain_is_learnt_once_in_the_books_and_used_for_nothing(here: Path, fmwem: Fmwem) -> None:
    (here / "t.domain.json").unlink()
    fmwem("ledger init b.ledger")
    fmwem("ledger add b.ledger --dataset t --epsilon 60")
    books = ("--ledger", "b.ledger", "--dataset", "t")
    learn = ("domain", "learn", "t.csv", "--epsilon", 20, *books, "--run-id", "schema")
    learnt = fmwem(*learn)
    assert learnt.code == 0, learnt.err
    assert learnt.facts["domain"] == "t.domain.json" and learnt.facts["columns"] == 6
    assert 0 < learnt.facts["spent_epsilon"] <= 20
    file = (here / "t.domain.json").read_bytes()
    assert fmwem(*learn).facts == {**learnt.facts, "reused": True}
    assert (here / "t.domain.json").read_bytes() == file
    done = fmwem("release t.csv --marginals 1", *books)
    assert done.facts["domain"] == "t.domain.json" and "discover" not in done.err
    (shown,) = fmwem("ledger show b.ledger --json").facts["datasets"]
    assert len(shown["releases"]) == 2
    taken = fmwem("domain learn t.csv --epsilon 20")
    assert taken.code == 2 and "t.domain.json exists; use --overwrite" in taken.err


def test_a_learnt_domain_says_which_columns_may_have_lost_decimals(
    here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a release under it would have said. Seen to fail where the command listed the fates alone."""
    honest = learn_domain.learn_within

    def doubtful(*request: Any) -> Any:
        return replace(honest(*request), rounded={"age": (400.0, 100.0), "sex": (0.0, 100.0)})

    monkeypatch.setattr(learn_domain, "learn_within", doubtful)
    learnt = fmwem("domain learn t.csv --epsilon 20 -o learnt.json")
    assert learnt.code == 0, learnt.err
    told = " ".join(learnt.err.split())
    assert "look at 'age' was learnt as whole numbers, but about 400 of its values may" in told
    assert "'sex' was learnt" not in told


def test_every_exit_code_of_failures(here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 and 3 are seen above; here what no input should cause, and what the machine may refuse."""

    for error, code, words in (
        (RuntimeError(CANARY), 1, "unexpected RuntimeError at releasing.py:"),
        (MemoryError(), 4, "out of memory; lower --max-cells or --max-memory"),
        (KeyboardInterrupt(), 130, "interrupted; nothing was left half-written"),
    ):

        def failing(*_: Any, error: BaseException = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr(job, "run", failing)
        done = fmwem("release t.csv --marginals 1")
        assert done.code == code and words in done.err and "CANARY" not in done.err
    monkeypatch.undo()
    monkeypatch.chdir(here)
    (here / "wide.csv").write_text(",".join(f"a{i}" for i in range(1000)) + "\n")
    (here / "wide.domain.json").write_text(json.dumps({f"a{i}": 2 for i in range(1000)}))
    done = fmwem("check wide.csv --marginals 3")
    assert done.code == 4
    assert "20,000,000 candidate marginals of up to 3 attributes, too many to list" in done.err
    assert "lower --marginals to 2 or use --columns" in done.err


def test_what_takes_minutes_is_said_beforehand(
    here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `check` and by a release that has not begun; --quiet says nothing."""

    def begins(*_: Any) -> None:
        raise Stopped(143)

    monkeypatch.setattr(job, "publish", begins)
    names = [f"c{i}" for i in range(24)]
    (here / "wide.csv").write_text(",".join(names) + "\n")
    (here / "wide.domain.json").write_text(json.dumps({name: 3 + i % 8 for i, name in enumerate(names)}))
    said = "55,454 candidate marginals, 4.9e+08 cells: rounds take up to"
    assert said in fmwem("check wide.csv --marginals 5").out
    assert "rounds take" not in fmwem("check wide.csv --marginals 3").out
    done = fmwem("release wide.csv --marginals 5 --rows 10")
    assert done.code == 143 and said in done.err and "--marginals 3 takes at most 2" in done.err
    quiet = fmwem("release wide.csv --marginals 5 --rows 10 --quiet")
    assert quiet.code == 143 and said not in quiet.err
    (here / "raw.csv").write_text(",".join(names) + "\n")
    told = fmwem("check raw.csv --marginals 5").out
    assert "55,454 sets of columns" in told and "--marginals 3 takes at most 2" in told
    assert "guessed from 24 columns of 16 codes" in told


def test_a_log_hears_of_a_long_run_each_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Off a terminal, also while a single step takes long; nothing after the end."""
    said, twice = list[str](), threading.Event()
    monkeypatch.setattr(console, "LOG_SECONDS", 0.01)
    monkeypatch.setattr(console, "say", lambda text: (said.append(text), len(said) > 1 and twice.set()))
    with console.progress(show=True, verbose=False):
        assert twice.wait(60)
    count = len(said)
    assert all("s: no round is over" in text for text in said)
    with console.progress(show=False, verbose=False):
        threading.Event().wait(0.05)
    assert len(said) == count


def test_a_spent_budget_is_said(here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that fails after noise was drawn has still cost its epsilon."""

    def full(*_: Any, **__: Any) -> None:
        raise ResourceError("no space left")

    monkeypatch.setattr("factored_mwem.pipeline.publish.write_release", full)
    done = fmwem("release t.csv --marginals 1")
    advice = "(budget was spent; running again is a new release and spends again)"
    assert (done.code, done.err) == (4, f"fmwem: no space left {advice}\n")
    assert fmwem("release t.csv --marginals 1 --json").facts["budget_spent"] is True


def test_help_and_no_arguments(fmwem: Fmwem) -> None:
    assert fmwem("--help").code == 0
    bare = fmwem()
    assert bare.code == 2
    assert bare.err.startswith("Usage: ")
    assert "no command 'nope'; --help lists them" in fmwem("nope").err


# ---- options


@pytest.mark.parametrize(
    ("options", "environment", "config", "kind"),
    [
        ("--lines", {}, "", "lines"),
        ("--multiline", {}, "", "multiline"),
        ("--lines", {"FMWEM_MULTILINE": "1"}, "", "lines"),
        ("--multiline", {"FMWEM_LINES": "1"}, "", "multiline"),
        ("--lines", {"FMWEM_LINES": "1", "FMWEM_MULTILINE": "1"}, "", "lines"),
        ("", {}, 'records = "multiline"', "multiline"),
        ("--lines", {}, 'records = "multiline"', "lines"),
    ],
)
def test_how_text_is_read_is_said_by_flag_variable_or_file(
    here: Path, fmwem: Fmwem, options: str, environment: dict[str, str], config: str, kind: str
) -> None:
    """A variable that is set for all jobs must not stand in the way of what one job says."""
    Path("q.csv").write_text('a,b\n"x\ny",1\n')
    Path("q.domain.json").write_text('{"a": 2, "b": 2}')
    Path("c.toml").write_text(f"marginals = 1\n{config}\n")
    assert fmwem("release q.csv --marginals 1").code == 2  # nobody said, and a value has two lines
    done = fmwem(f"release q.csv --config c.toml {options}", **environment)
    assert done.code == 0, done.err
    assert manifest_of("q")["policy"]["records"] == kind


def test_reading_flags_are_for_text_and_say_one_thing(here: Path, fmwem: Fmwem) -> None:
    both = fmwem("release t.csv --marginals 1", FMWEM_LINES="1", FMWEM_MULTILINE="1")
    assert both.code == 2 and "--lines and --multiline say different things" in both.err
    with pytest.raises(InputError, match="--lines says how the lines of a text file are read"):
        release(pa.table({"a": ["x"]}), 1, epsilon=1.0, records="lines")
    Path("r.csv").write_text('a\n"x\ny"\nz\n')
    pq.write_table(pa.table({"a": ["x\ny", "z"]}), "r.parquet")
    for tables in (("r.csv", "r.parquet"), ("r.parquet", "r.csv")):
        assert evaluate(*tables, 1, records="multiline").by_order[1][0] == 0
    with pytest.raises(InputError, match="leave it out with typed tables"):
        evaluate("r.parquet", "r.parquet", 1, records="lines")


def test_settings_are_one_model_for_flags_and_files(here: Path) -> None:
    """What a flag and what a file gives is checked by the same fields; names may be of any characters."""
    given = {"rows": 5, "columns": "age, pay", "cube": ["age"], "rounds": "7", "dataset": "\udcff"}
    settings = ReleaseSettings.of(given)
    assert (settings.rows, settings.columns, settings.policy.rounds) == (5, ["age", "pay"], 7)
    assert settings.dataset == "\udcff" and settings.queries == Workload.cube("age")
    for wrong in ({"rows": -1}, {"marginals": True}, {"cube": "age"}, {"output": 5}, {"overwrite": 1}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))} = .* must be "):
            ReleaseSettings.of(wrong)
    with pytest.raises(InputError, match="epsilon='much'"):
        ReleaseSettings.of({"epsilon": "much"})


def test_the_version_is_one_line(fmwem: Fmwem) -> None:
    done = fmwem("--version")
    assert done.code == 0 and re.fullmatch(r"fmwem \S+\n", done.out) and done.err == ""


def test_the_guide_lists_its_topics_and_shows_one(here: Path, fmwem: Fmwem) -> None:
    listed = fmwem("guide")
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()] == list(TOPICS)
    assert all(what in listed.out for what in TOPICS.values())
    for topic in TOPICS:
        shown = fmwem("guide", topic)
        assert (shown.code, shown.out) == (0, page(topic))  # plain Markdown where it is piped
    for unknown in ("nope", "../guarantee"):
        told = refused(fmwem, f"guide {unknown}")
        assert all(topic in told.err for topic in TOPICS)


def test_the_guide_is_laid_out_on_a_terminal(monkeypatch: pytest.MonkeyPatch, fmwem: Fmwem) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = fmwem("guide ledger").out
    assert shown.strip() and "\n# " not in f"\n{shown}" and "```" not in shown


KIND = '''
"""Stripes: how many rows have an even code."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from factored_mwem.workload.queries.base import QueryRequest, Span, request_of, split_spec


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
        return request_of(cls, attribute=name, weight=weight)

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
from factored_mwem.workload.queries import KINDS
from stripes import StripesRequest
KINDS[StripesRequest.key] = StripesRequest
from factored_mwem.cli.main import main
main()
"""


@pytest.mark.system
def test_a_query_kind_is_one_file_and_a_name_in_kinds(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a flag, a variable, a key of both files, and is measured and evaluated."""
    (here / "stripes.py").write_text(KIND)
    (here / "w.toml").write_text('[[stripes]]\nattribute = "pay"\nweight = 2.0\n')
    (here / "c.toml").write_text('stripe = ["born"]\n')
    (here / "wrong.toml").write_text("stripe = 5\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")]))

    def run(line: str, *, code: int = 0, **environment: str) -> Any:
        done = ended(*PYTHON, RUNNER, *line.split(), env=environment)
        assert done.returncode == code, done.stderr
        return done

    release = "release t.csv --engine mwem --rounds 2 -q --overwrite"
    for made, options, environment, attributes in (
        ("flag", "--stripe age@3 --stripe zip", {}, ["age", "zip"]),
        ("workload", "--workload w.toml", {}, ["pay"]),
        ("config", "--config c.toml", {}, ["born"]),
        ("variable", "", {"FMWEM_STRIPE": "smoker"}, ["smoker"]),
    ):
        run(f"{release} {options} -o {made}.parquet", **environment)
        manifest = json.loads((here / f"{made}.manifest.json").read_text())
        assert [asked["attribute"] for asked in manifest["workload"]["stripes"]] == attributes
        asked = {question["question"] for question in manifest["questions"]}
        assert asked and asked <= {f"even {name}" for name in attributes}
    run("release t.csv --engine tree --stripe age -q -o tree.parquet")
    run("check t.csv --stripe age --engine mwem")
    assert "Keep the even codes of A; repeatable." in " ".join(run("release --help-all").stdout.split())
    evaluated = run("evaluate t.csv flag.parquet --marginals 1 --stripe age")
    assert "stripes of age (1): mean" in evaluated.stdout
    assert "StripesRequest" in json.loads(run("workload schema").stdout)["$defs"]
    wrong = run(f"{release} --config wrong.toml", code=2)
    assert 'wrong.toml: stripe = 5 must be a list such as ["age"]' in wrong.stderr


def test_planning_compares_epsilons_and_looks_for_one(here: Path, fmwem: Fmwem) -> None:
    (here / "t.csv").write_bytes(b"zip,age,pay,born,seen,smoker\n\xff\xfe garbage,,,,,,,,,\n")
    done = fmwem("plan t.csv --marginals 2 --epsilon 0.5,1")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["epsilon", "guess", "1-way", "2-way", "noise", "a", "cell"]
    assert [line.split()[0] for line in lines[1:3]] == ["0.5", "1"] and "54.4 %" in lines[2]
    assert "no row was read and nothing was spent" in lines[-1] and "public tables, no promise" in done.out
    found = fmwem("plan t.csv --marginals 2 --error 'mean2 <= 0.2' --json").facts
    assert found["target"] == [2, 0.2] and found["likely"]["errors"][1]["error"] <= 0.2
    (one,) = fmwem("plan t.csv --marginals 1 --json", FMWEM_EPSILON="0.7").facts["prospects"]
    assert one["epsilon"] == 0.7
    Path("run.toml").write_text("epsilon = 0.3\nmarginals = 1\n")
    assert len(fmwem("plan t.csv --config run.toml --json").facts["prospects"]) == 1
    for wrong in ("--epsilon '1;2'", "--epsilon 0", "--error x", "--assume-rows 0"):
        refused(fmwem, f"plan t.csv --marginals 2 {wrong}")
    (here / "t.domain.json").unlink()
    head, first, *_ = fmwem("plan t.csv --marginals 2").out.splitlines()
    assert head.split("  ")[-2].strip() == "value kept from" and head.endswith("refused below")
    assert first.count(" / ") == 2  # a pair below each of the two
    assert sorted(os.listdir(here)) == ["run.toml", "t.csv"]
