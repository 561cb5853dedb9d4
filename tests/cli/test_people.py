"""`fmwem release --people`: what is written and said, what the books say, and what is refused for nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.commands import Fmwem
from support.pages import check_page

from factored_mwem.documents.page import percent
from factored_mwem.documents.published import Published, record_from
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.manifest_check import check_books
from factored_mwem.tables.outputs.targets import LocalFile

PEOPLE = ("release", "visits.csv", "--marginals", 2, "--privacy-id", "patient", "--people")
SMALL = ("--contributions", 4, "--epsilon", 20)
UNITS = ("people", "rows")


def write_visits(people: int = 800) -> None:
    rng = np.random.default_rng(1)
    rows = rng.geometric(0.5, people)
    who = np.repeat(np.arange(people), rows)
    sex = rng.choice(["F", "M"], people)
    table = {"patient": who, "sex": sex[who], "ward": rng.choice(["north", "south"], len(who))}
    pd.DataFrame(table).to_csv("visits.csv", index=False)


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_visits()
    return tmp_path


def test_rows_come_out_as_people_and_the_manifest_says_what_was_found(visits: Path, fmwem: Fmwem) -> None:
    """Of 800 people noise hides once in 7,000 runs that sex is the same in all rows; here it lies six of its
    deviations from doing so.
    """
    write_visits(3000)
    done = fmwem(*PEOPLE, *SMALL)
    assert done.code == 0 and "made-up people in 'patient'" in done.err
    assert "the same in all rows of a person: sex (--person-columns says it)" in done.err
    assert "fmwem answer" not in done.err and "fmwem report visits.synthetic.manifest.json" in done.err
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
    some = fmwem("sample", "visits.synthetic.fmwem", "-n", 20, "--unit", "people", "-o", "some.csv", "--json")
    rows = pd.read_csv("some.csv")
    assert some.facts["people"] == rows["patient"].nunique() == 20 and some.facts["rows"] == len(rows)
    refused = fmwem("sample", "visits.synthetic.fmwem", "-n", 20, "--unit", "people", "-o", "parts/")
    assert refused.code == 2 and "one file" in refused.err and not (visits / "parts").exists()


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


HOSTILE = [
    "1",
    "1.0",
    " 1",
    "ann",
    "ANN",
    "ann\0",
    "\0",
    "",
    None,
    "-1",
    "synthetic-1",
    "z" * 100_000,
    '"',
    ",",
]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_whatever_ids_hold_a_release_comes_out_and_none_of_them(
    visits: Path, fmwem: Fmwem, suffix: str
) -> None:
    """Each is a person of its own, but for null and the empty text, which are nobody."""
    frame = pd.read_csv("visits.csv").astype({"patient": str})
    ids = [who for who in HOSTILE if suffix == "parquet" or who is None or "\0" not in who]
    more = pd.DataFrame({"patient": ids, "sex": "F", "ward": "north"})
    whole = pd.concat([frame, more, more], ignore_index=True)
    write = whole.to_parquet if suffix == "parquet" else whole.to_csv
    write(f"hostile.{suffix}", index=False)
    (visits / "visits.csv").unlink()
    done = fmwem("release", f"hostile.{suffix}", *PEOPLE[2:], *SMALL)
    assert done.code == 0
    out = pq.read_table("hostile.synthetic.parquet").to_pandas()
    assert out["patient"].str.fullmatch("synthetic-[0-9a-f]{16}-[0-9]+").all()
    written = (visits / "hostile.synthetic.manifest.json").read_text() + done.err + done.out
    assert not any(who in written for who in ("ANN", "zzzz", "\\u0000"))


def test_a_record_that_a_10_MB_id_makes_too_long_is_refused_for_nothing(visits: Path, fmwem: Fmwem) -> None:
    with open("visits.csv", "a") as file:
        file.write(f"{'z' * 10_000_000},F,north\n")
    done = fmwem(*PEOPLE, *SMALL)
    assert done.code == 2 and "longer than 8 MB" in done.err and "zzzz" not in done.err
    assert [path.name for path in visits.iterdir()] == ["visits.csv"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--contributions", 1009), "from 2 to 1008"),
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


def test_forecasts_say_what_one_person_is_and_what_finding_out_costs(visits: Path, fmwem: Fmwem) -> None:
    """Of a table of a header alone as of one with rows: nothing is read."""
    told = fmwem("check", *PEOPLE[1:], "--assume-people", 4000)
    assert told.code == 0 and "whom column 'patient' names" in told.out
    assert "at most 64 of a person" in told.out and "about 4,000 people (--assume-people)" in told.out
    facts = fmwem("check", *PEOPLE[1:], "--person-columns", "sex", "--json").facts["people"]
    assert (facts["constant"], facts["constancy_share"], facts["sizes_share"]) == (["sex"], 0, 0.01)
    planned = fmwem("plan", *PEOPLE[1:], "--contributions", 2)
    assert planned.code == 0 and "at most 2 of a person\n" in planned.out and "not rows" in planned.out
    assert "a value whose rows weigh as much as about" in " ".join(told.out.split())
    assert "if its rows weigh as much as about so many people" in " ".join(planned.out.split())
    ordered = fmwem("plan", *PEOPLE[1:], "--order-by", "ward")
    assert ordered.code == 0 and "unit " in ordered.out and "together" not in ordered.out
    for command in ("check", "plan"):
        refused = fmwem(command, *PEOPLE[1:], "--assume-rows", 5)
        assert refused.code == 2 and "assume_people" in refused.err
    (visits / "visits.csv").write_text("patient,sex,ward\n")
    assert fmwem("check", *PEOPLE[1:], "--assume-people", 4000).out == told.out


@pytest.mark.usefixtures("quiet")
def test_the_page_says_what_one_person_is_and_how_many_rows_each_has(visits: Path, fmwem: Fmwem) -> None:
    """Rows a person has are of people, other bars of rows; from the files as while they are made."""
    assert fmwem(*PEOPLE, *SMALL, "--report").code == 0
    page = check_page((visits / "visits.synthetic.report.html").read_text())
    manifest = Manifest.model_validate_json((visits / "visits.synthetic.manifest.json").read_text())
    assert manifest.people is not None
    words = " ".join(page.words.split())
    assert f"about {manifest.people.estimated:,} people" in words and "which is made up" in words
    assert f"at most {manifest.people.most_rows} are used" in words and "840 are one person" in words
    beyond = manifest.people.beyond
    assert beyond is None or f"; {percent(beyond)} of them have more" in words
    heads = [(visits / "visits.synthetic.report.html").read_text().count(f"{of} %</th>") for of in UNITS]
    assert heads == [1, 2]  # sex and ward
    assert "no error bars" in words and "fmwem answer" not in words and "95 %" not in words
    out = pq.read_table("visits.synthetic.parquet").to_pandas()
    sizes = out.groupby("patient").size().value_counts(normalize=True)
    for value, share in {**sizes, **out["ward"].value_counts(normalize=True)}.items():
        assert [str(value), f"{100 * share:.2f}"] in [list(row[:2]) for row in page.rows]
    assert fmwem("report", "visits.synthetic.manifest.json", "-o", "again.html").code == 0
    assert (visits / "again.html").read_text() == (visits / "visits.synthetic.report.html").read_text()


def test_cards_list_the_columns_that_the_rows_have(visits: Path, fmwem: Fmwem) -> None:
    assert fmwem(*PEOPLE, *SMALL).code == 0
    published = record_from(LocalFile(visits / "visits.synthetic.manifest.json"))
    assert isinstance(published, Published)
    assert [c.name for c in published.columns] == pq.read_schema("visits.synthetic.parquet").names
    assert published.columns[0].type == "string" and published.columns[0].required


@pytest.mark.usefixtures("quiet")
def test_documents_of_rows_in_order_list_the_columns_that_the_rows_have(visits: Path, fmwem: Fmwem) -> None:
    """Attributes that tell of a person's other rows are in the model, and in no page or card."""
    table = pd.read_csv("visits.csv")
    table.assign(day=np.arange(len(table)) % 30).to_csv("visits.csv", index=False)
    done = fmwem(*PEOPLE, *SMALL, "--order-by", "day", "--report")
    assert done.code == 0 and "of 4 columns" in done.err
    page = check_page((visits / "visits.synthetic.report.html").read_text())
    assert "3; all values" in " ".join(page.words.split())
    manifest = visits / "visits.synthetic.manifest.json"
    assert fmwem("report", manifest, "-o", "again.html").code == 0
    assert (visits / "again.html").read_text() == (visits / "visits.synthetic.report.html").read_text()
    assert fmwem("report", manifest, "--for", "lawyer").code == 0
    assert fmwem("evidence", manifest, "-o", "evidence/").code == 0
    published = record_from(LocalFile(manifest))
    assert isinstance(published, Published)
    assert [c.name for c in published.columns] == pq.read_schema("visits.synthetic.parquet").names


def test_evaluate_leaves_made_up_ids_out_and_says_how_many_rows_people_have(
    visits: Path, fmwem: Fmwem
) -> None:
    """The distance is that of plain counting; without the manifest nobody knows what the column is."""
    assert fmwem(*PEOPLE, *SMALL, "--person-columns", "sex").code == 0
    told = fmwem("evaluate", "visits.csv", "visits.synthetic.parquet", "--marginals", 2, "--json").facts
    sizes = [
        frame.groupby("patient").size().value_counts(normalize=True)
        for frame in (pd.read_csv("visits.csv"), pd.read_parquet("visits.synthetic.parquet"))
    ]
    apart = sizes[0].sub(sizes[1], fill_value=0).abs().sum() / 2
    (note,) = told["notes"]
    assert "so its values are not compared" in note
    people = told["people"]
    assert people["rows_distance"] == pytest.approx(apart, abs=1e-6) and people["column"] == "patient"
    assert people["order_by"] is None and people["columns"][0]["transitions"] is None
    assert people["columns"][0]["same"] == [1, 1]
    text = fmwem("evaluate", "visits.csv", "visits.synthetic.parquet", "--marginals", 1).out
    assert f"distance {apart:.3f} (0 to 1)" in text and "100.0/100.0" in text and len(text.splitlines()) < 60
    assert [column["name"] for column in told["columns"]] == ["sex", "ward"]
    (visits / "visits.synthetic.manifest.json").unlink()
    alone = fmwem("evaluate", "visits.csv", "visits.synthetic.parquet", "--marginals", 1, "--json").facts
    assert "patient" in [column["name"] for column in alone["columns"]] and alone["people"] is None
    named = (
        "evaluate",
        "visits.csv",
        "visits.synthetic.parquet",
        "--marginals",
        1,
        "--privacy-id",
        "patient",
    )
    again = fmwem(*named, "--order-by", "ward", "--json").facts["people"]
    assert again["rows_distance"] == people["rows_distance"] and again["order_by"] == "ward"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--order-by", "ward"), "name the column of people with --privacy-id"),
        (("--privacy-id", "nobody"), "--privacy-id"),
        (("--privacy-id", "patient", "--order-by", "when"), "--order-by"),
    ],
)
def test_people_that_cannot_be_compared_are_a_line(
    visits: Path, fmwem: Fmwem, flags: tuple[object, ...], said: str
) -> None:
    pd.read_csv("visits.csv").to_parquet("copy.parquet")
    done = fmwem("evaluate", "visits.csv", "copy.parquet", "--marginals", 1, *flags)
    assert done.code == 2 and said in done.err and len(done.err.splitlines()) == 1
