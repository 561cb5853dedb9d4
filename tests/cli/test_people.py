"""`fmwem release --people`: what is written and said, what the books say, and what is refused for nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.commands import Fmwem

from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.manifest_check import check_books

PEOPLE = ("release", "visits.csv", "--marginals", 2, "--privacy-id", "patient", "--people")
SMALL = ("--contributions", 4, "--epsilon", 20)


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(1)
    rows = rng.geometric(0.5, 800)
    who = np.repeat(np.arange(800), rows)
    sex = rng.choice(["F", "M"], 800)
    table = {"patient": who, "sex": sex[who], "ward": rng.choice(["north", "south"], len(who))}
    pd.DataFrame(table).to_csv(tmp_path / "visits.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_rows_come_out_as_people_and_the_manifest_says_what_was_found(visits: Path, fmwem: Fmwem) -> None:
    done = fmwem(*PEOPLE, *SMALL)
    assert done.code == 0 and "made-up people in 'patient'" in done.err
    assert "answer" not in done.err and "report" not in done.err
    out = pq.read_table("visits.synthetic.parquet").to_pandas()
    assert list(out.columns) == ["patient", "sex", "ward"]
    assert (out.groupby("patient")["sex"].nunique() == 1).all()
    manifest = Manifest.model_validate_json((visits / "visits.synthetic.manifest.json").read_text())
    people = manifest.people
    assert people is not None and people.constant == ("sex",) and people.most_rows <= 4
    assert manifest.output is not None and manifest.output.rows == len(out) == manifest.estimated_rows
    assert manifest.recompute() == manifest.guarantee.spent_epsilon <= 20
    assert min(c.sensitivity for c in manifest.ledger if c.stage == "measure") == 840**2
    assert "weigh one" in manifest.guarantee.assumptions["contributions"].statement
    more = fmwem("sample", "visits.synthetic.fmwem", "-n", 30, "-o", "more.csv")
    assert more.code == 0 and len(pd.read_csv("more.csv")) == 30


def test_only_the_columns_that_are_named_come_out(visits: Path, fmwem: Fmwem) -> None:
    pd.read_csv("visits.csv").assign(extra="x").to_csv("visits.csv", index=False)
    assert fmwem(*PEOPLE, *SMALL, "--columns", "ward,sex").code == 0
    assert pq.read_schema("visits.synthetic.parquet").names == ["patient", "sex", "ward"]


def test_a_run_that_is_booked_pays_once_and_fits_its_books(visits: Path, fmwem: Fmwem) -> None:
    fmwem("ledger", "init", "books")
    of = ("--privacy-id", "patient", "--contributions", 4)
    assert fmwem("ledger", "add", "books", "--dataset", "v", "--epsilon", 50, *of).code == 0
    job = (*PEOPLE, *SMALL, "--ledger", "books", "--dataset", "v", "--run-id", "one", "--json")
    assert fmwem(*job).facts["reused"] is False
    first = (visits / "visits.synthetic.parquet").read_bytes()
    assert fmwem(*job).facts["reused"] is True
    (visits / "visits.synthetic.parquet").unlink()
    assert fmwem(*job).facts["resumed"] > 0
    assert (visits / "visits.synthetic.parquet").read_bytes() == first
    checked = check_books(visits / "books", [visits / "visits.synthetic.manifest.json"])
    assert checked["problems"] == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--contributions", 65), "from 2 to 64"),
        (("--report",), "--report shows a release whose rows are counted"),
        (("--certificate", 0.1), "counts rows, not people"),
        (("--engine", "mwem"), "counts rows, not people"),
        (("--person-columns", "sexx"), "no such column"),
        (("--person-columns", "patient"), "names the person"),
        (("--order-by", "dya"), "no such column"),
        (("--order-by", "patient"), "the same in all rows"),
        (("--delta", 0), "--delta is 0"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_spent(
    visits: Path, fmwem: Fmwem, flags: tuple[object, ...], said: str
) -> None:
    done = fmwem(*PEOPLE, *flags)
    assert done.code == 2 and said in done.err
    assert [path.name for path in visits.iterdir()] == ["visits.csv"]


def test_pages_and_forecasts_that_count_rows_say_so(visits: Path, fmwem: Fmwem) -> None:
    check = fmwem("check", *PEOPLE[1:])
    assert check.code == 2 and "leave out --people" in check.err
    assert fmwem(*PEOPLE, *SMALL).code == 0
    assert "counted people" in fmwem("report", "visits.synthetic.manifest.json").err
    assert "counted people" in fmwem("answer", "visits.synthetic.fmwem", "count").err


def test_evaluate_leaves_made_up_ids_out_and_says_how_many_rows_people_have(
    visits: Path, fmwem: Fmwem
) -> None:
    """The distance is that of plain counting; without the manifest nobody knows what the column is."""
    assert fmwem(*PEOPLE, *SMALL).code == 0
    told = fmwem("evaluate", "visits.csv", "visits.synthetic.parquet", "--marginals", 2, "--json").facts
    sizes = [
        frame.groupby("patient").size().value_counts(normalize=True)
        for frame in (pd.read_csv("visits.csv"), pd.read_parquet("visits.synthetic.parquet"))
    ]
    apart = sizes[0].sub(sizes[1], fill_value=0).abs().sum() / 2
    (note,) = told["notes"]
    assert f"distributions {apart:.4f} apart" in note
    assert [column["name"] for column in told["columns"]] == ["sex", "ward"]
    (visits / "visits.synthetic.manifest.json").unlink()
    alone = fmwem("evaluate", "visits.csv", "visits.synthetic.parquet", "--marginals", 1, "--json").facts
    assert "patient" in [column["name"] for column in alone["columns"]]
