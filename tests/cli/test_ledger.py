"""The ledger on the command line: a steward sets a cap, a scheduler runs a job twice, an auditor adds up."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.commands import JOB, Fmwem, killed_at, refused, shown, states
from support.processes import PYTHON, printed

from factored_mwem.accounting.accountant import price
from factored_mwem.errors import Busy
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.pipeline.record.manifest import Manifest


def test_a_job_that_runs_twice_pays_once(books: Path, fmwem: Fmwem) -> None:
    first = fmwem(*JOB, "--run-id", "monday", "--json", "--model", "m.fmwem")
    assert (first.code, first.facts["reused"]) == (0, False)
    files = {path.name: path.read_bytes() for path in books.parent.iterdir() if path.is_file()}
    again = fmwem(*JOB, "--run-id", "monday", "--json", "--model", "m.fmwem")
    assert (again.code, again.facts["reused"]) == (0, True)
    assert {key: again.facts[key] for key in first.facts if key != "reused"} == {
        key: first.facts[key] for key in first.facts if key != "reused"
    }
    assert {path.name: path.read_bytes() for path in books.parent.iterdir() if path.is_file()} == files
    (entry,) = shown(fmwem)["releases"]
    assert (entry["state"], entry["run_id"]) == ("finished", "monday")
    assert "finished before" in fmwem(*JOB, "--run-id", "monday", "--model", "m.fmwem").err


def test_lost_files_are_made_again_for_nothing_and_changed_ones_are_kept(books: Path, fmwem: Fmwem) -> None:
    assert fmwem(*JOB, "--run-id", "monday").code == 0
    data = books.parent / "t.synthetic.parquet"
    content = data.read_bytes()
    data.unlink()
    again = fmwem(*JOB, "--run-id", "monday", "--json")
    assert (again.code, again.facts["reused"]) == (0, False) and again.facts["resumed"] > 0
    assert data.read_bytes() == content
    data.write_bytes(b"mine")
    refused = fmwem(*JOB, "--run-id", "monday")
    assert (refused.code, data.read_bytes()) == (2, b"mine") and "exists" in refused.err
    assert fmwem(*JOB, "--run-id", "monday", "-o", "elsewhere.parquet").code == 0
    data.write_bytes(content)
    assert pq.read_table(books.parent / "elsewhere.parquet").equals(pq.read_table(data))
    for arguments in ((), ("-o", "elsewhere.parquet")):
        assert fmwem(*JOB, "--run-id", "monday", "--json", *arguments).facts["reused"] is True
    assert len(states(fmwem)) == 1


def test_a_manifest_that_was_changed_is_no_reuse(books: Path, fmwem: Fmwem) -> None:
    assert fmwem(*JOB, "--run-id", "monday").code == 0
    manifest = books.parent / "t.synthetic.manifest.json"
    manifest.write_text(manifest.read_text().replace("add-remove", "replace"))
    assert fmwem(*JOB, "--run-id", "monday").code == 2
    assert fmwem(*JOB, "--run-id", "monday", "--overwrite", "--json").facts["reused"] is False
    assert '"replace"' not in manifest.read_text()


def test_what_a_killed_run_left_is_swept(books: Path, fmwem: Fmwem) -> None:
    """Temporary files of a run that was killed while it wrote go when it goes on; those of others stay."""
    gone = printed(*PYTHON, "import os; print(os.getpid())").strip()
    folder, mine, theirs = books.parent, f"{gone}-x1y2.tmp", f"{os.getpid()}-x1y2.tmp"
    left = [folder / f".t.synthetic.{kind}.{mine}" for kind in ("parquet", "manifest.json")]
    others = [folder / f".u.parquet.{mine}", folder / f".t.synthetic.parquet.{theirs}"]
    killed_at("after fit")
    assert fmwem(*JOB, "--run-id", "r").code == 137
    for path in (*left, *others):
        path.write_bytes(b"half")
    assert fmwem(*JOB, "--run-id", "r").code == 0
    assert not any(path.exists() for path in left) and all(path.exists() for path in others)


def test_a_run_that_goes_on_overwrites_nobody(books: Path, fmwem: Fmwem) -> None:
    """Another job wrote to the same path meanwhile: its release stays, and the run is refused."""
    killed_at("after fit")
    assert fmwem(*JOB, "--epsilon", 0.3, "--run-id", "a").code == 137
    assert fmwem(*JOB, "--epsilon", 0.3, "--run-id", "b").code == 0
    files = {path.name: path.read_bytes() for path in books.parent.glob("t.synthetic.*")}
    refused = fmwem(*JOB, "--epsilon", 0.3, "--run-id", "a", "--json")
    assert refused.code == 2 and "not what this run would write" in refused.facts["error"]
    assert (
        refused.facts["budget_spent"]
        and not refused.facts["retryable"]
        and "same run id" in refused.facts["advice"]
    )
    assert {path.name: path.read_bytes() for path in books.parent.glob("t.synthetic.*")} == files
    assert fmwem(*JOB, "--epsilon", 0.3, "--run-id", "a", "-o", "a.parquet").code == 0
    (books.parent / "t.synthetic.parquet").unlink()
    assert fmwem(*JOB, "--epsilon", 0.3, "--run-id", "a").code == 2  # the manifest of the other is there


def test_a_failure_keeps_the_files_that_were_there(books: Path, fmwem: Fmwem) -> None:
    written = ["-o", "m.parquet", "--model", "m.fmwem", "--epsilon", 0.3]
    assert fmwem(*JOB, *written).code == 0
    before = {path.name: path.read_bytes() for path in books.parent.glob("m.*")}
    killed_at("before rename")
    assert fmwem(*JOB, *written, "--overwrite").code == 137
    assert {path.name: path.read_bytes() for path in books.parent.glob("m.*")} == before and len(before) == 3


def test_one_ledger_by_two_names_is_one_ledger(books: Path, fmwem: Fmwem) -> None:
    (books.parent / "link").symlink_to("books")
    killed_at("before draw")
    assert fmwem(*JOB, "--run-id", "a").code == 137
    arguments = [a if a != "books" else "link" for a in JOB]
    assert fmwem(*arguments, "--run-id", "a").code == 0


def test_an_empty_variable_is_no_choice(books: Path, fmwem: Fmwem) -> None:
    """The classic RUN_ID=$UNSET of a scheduler: each retry would be paid for again, or go past the books."""
    for name in ("FMWEM_RUN_ID", "FMWEM_LEDGER", "FMWEM_DATASET"):
        refused = fmwem(*JOB, **{name: ""})
        assert refused.code == 2 and f"{name} is empty" in refused.err
    assert states(fmwem) == []


def test_a_ledger_that_cannot_be_written_costs_nothing(
    books: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: Any, **__: Any) -> None:
        raise Busy("the ledger books is in use; try again")

    monkeypatch.setattr(LedgerFile, "reserve", busy)
    for arguments in ((), ("--run-id", "a")):
        refused = fmwem(*JOB, *arguments, "--json")
        assert (refused.code, refused.facts["budget_spent"], refused.facts["retryable"]) == (4, False, True)


def test_overspending_says_what_is_left(books: Path, fmwem: Fmwem) -> None:
    assert fmwem(*JOB, "--epsilon", 0.6).code == 0
    before = sorted(os.listdir(books.parent))
    refused = fmwem(*JOB, "--epsilon", 0.9, "-o", "second.parquet", "--json")
    assert refused.code == refused.facts["exit_code"] == 3
    assert not refused.facts["budget_spent"] and not refused.facts["retryable"]
    assert sorted(os.listdir(books.parent)) == before
    left = shown(fmwem)["left"]
    assert (
        f"--epsilon {left:g} at --delta 1e-09 is the most that would fit" in refused.facts["error"]
        and 0.6 < left < 0.9
    )
    assert fmwem(*JOB, "--epsilon", left, "-o", "second.parquet").code == 0
    assert "cap epsilon 1 at delta 1e-09" in fmwem("ledger show books").out
    assert fmwem("ledger show", FMWEM_LEDGER="books").out == fmwem("ledger show books").out


def test_too_large_an_epsilon_is_said_where_a_domain_is_learnt_too(books: Path, fmwem: Fmwem) -> None:
    """Not that of delta too little is kept for categories, which no smaller delta would mend."""
    (books.parent / "t.domain.json").unlink()
    refused = fmwem(*JOB, "--epsilon", 2)
    assert refused.code == 3 and "--epsilon 1 at --delta 1e-09 is the most that would fit" in refused.err


def test_the_books_and_the_manifest_agree(books: Path, fmwem: Fmwem) -> None:
    assert fmwem(*JOB).code == 0
    manifest = Manifest.model_validate_json((books.parent / "t.synthetic.manifest.json").read_bytes())
    exported = json.loads(fmwem("ledger export books").out)
    (entry,) = exported["datasets"][0]["releases"]
    assert Fraction(entry["counts"]["amount"]) == sum(
        price(c.mechanism, scale=c.scale, sensitivity=c.sensitivity) for c in manifest.ledger
    )
    assert "adult" not in manifest.model_dump_json()  # the name is the owner's


def test_settings_may_come_from_the_environment_or_a_file(books: Path, fmwem: Fmwem) -> None:
    done = fmwem(
        "release t.csv --marginals 1 --json", FMWEM_LEDGER="books", FMWEM_DATASET="adult", FMWEM_RUN_ID="env"
    )
    assert (done.code, done.facts["run_id"]) == (0, "env")
    (books.parent / "c.toml").write_text(
        'ledger = "books"\ndataset = "adult"\nrun_id = "env"\nmarginals = 1\n'
    )
    assert fmwem("release t.csv --config c.toml --json").facts["reused"] is True


RELEASE = "release t.csv --marginals 1"
RELEASE_HERE = f"{RELEASE} --ledger books --dataset adult"
ADD = "ledger add books --dataset b"
REFUSED = {
    f"{RELEASE} --ledger books": "go together",
    f"{RELEASE} --run-id x": "go together",
    f"{RELEASE} --ledger nowhere --dataset adult": "no ledger nowhere",
    f"{RELEASE} --ledger books --dataset census": "no dataset 'census'",
    f"{RELEASE} --ledger t.csv --dataset adult": "not a ledger",
    f"{RELEASE_HERE} --neighbours replace": "--neighbours add-remove",
    f"{RELEASE_HERE} --model books": "is an input",
    f"{RELEASE_HERE} --run-id ''": "--run-id must be",
    f"{RELEASE_HERE} --run-id {'x' * 201}": "--run-id must be",
    f"{RELEASE_HERE} --run-id 'a\nb'": "--run-id must be",
    "ledger init books": "never overwritten",
    "ledger add books --dataset adult --epsilon 2": "already",
    "ledger add books --dataset '' --epsilon 2": "printable",
    ADD: "either --epsilon",
    f"{ADD} --epsilon 1 --rho 1": "either --epsilon",
    f"{ADD} --epsilon nan": "a cap must be a finite number",
    f"{ADD} --epsilon 0": "positive number",
    f"{ADD} --epsilon 1 --neighbours both": "add-remove or replace",
    f"{ADD} --epsilon 1 --contributions 0": "at least one row",
    "ledger show none": "no ledger",
    "ledger export t.csv": "not a ledger",
}


@pytest.mark.parametrize("line", REFUSED, ids=range(len(REFUSED)))
def test_mistakes_are_one_line_and_change_nothing(books: Path, fmwem: Fmwem, line: str) -> None:
    refused(fmwem, line, REFUSED[line])
