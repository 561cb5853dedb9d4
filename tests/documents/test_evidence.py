"""`fmwem evidence`: whole or not at all, public files that depend on nothing private, digests that hold."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from support.commands import CANARY, Fmwem
from support.pages import check_page

from factored_mwem import InputError, evidence
from factored_mwem.documents import evidence as module

ATTACK = {"private": False, "holds": False, "promised": {"epsilon": 1.0, "delta": 1e-9}, "scores": []}
VERIFY = {"private": False, "holds": True, "pairs": 3, "note": CANARY}


@pytest.fixture
def released(here: Path, fmwem: Fmwem) -> Path:
    assert fmwem("release t.csv --marginals 1 --columns age,smoker --certificate 0.1").code == 0
    (here / "attack.jsonl").write_text('{"scores of": "one"}\n' + json.dumps({"result": ATTACK}) + "\n")
    (here / "verify.json").write_text(json.dumps(VERIFY))
    return here / "t.synthetic.manifest.json"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_what_is_in_it_and_that_digests_hold(here: Path, released: Path, fmwem: Fmwem) -> None:
    fmwem("card", released, "--owner", "owner.toml")  # drafts the questions
    refused = fmwem("evidence", released, "-o", "bundle", "--owner", "owner.toml")
    assert refused.code == 2 and "not answered" in refused.err and not (here / "bundle").exists()
    (here / "t.csv").unlink()
    done = fmwem("evidence", released, "-o", "bundle/")
    assert done.code == 0, done.err
    endings = ("certificate.json", "lawyer.html", "manifest.json", "report.html")
    named = {"SHA256SUMS", "index.html", *(f"t.synthetic.{end}" for end in endings)}
    assert set(done.facts["files"]) == named == set(contents(here / "bundle")) and done.facts["public"]
    assert (here / "bundle" / "t.synthetic.manifest.json").read_bytes() == released.read_bytes()
    lines = (here / "bundle" / "SHA256SUMS").read_text().splitlines()
    digests = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert {*digests} == named - {"SHA256SUMS"}
    for name, digest in digests.items():
        assert hashlib.sha256((here / "bundle" / name).read_bytes()).hexdigest() == digest
    index = check_page((here / "bundle" / "index.html").read_text())
    assert "Evidence for" in index.words and "epsilon 1" in index.words
    report = (here / "bundle" / "t.synthetic.report.html").read_text()
    assert fmwem("report", released).code == 0
    assert (here / "t.synthetic.report.html").read_text() == report


def test_public_files_depend_on_nothing_private(here: Path, released: Path, fmwem: Fmwem) -> None:
    evidence(released, here / "without")
    done = fmwem(f"evidence {released.name} -o with --private attack.jsonl --private verify.json")
    assert done.code == 0 and not done.facts["public"]
    assert contents(here / "with") == contents(here / "without")
    assert not any(CANARY.encode() in content for content in contents(here / "with").values())
    apart = contents(here / "with" / "NOT-PRIVATE")
    assert set(apart) == {"README.txt", "SHA256SUMS", "attack.json", "verify.json"}
    said = apart["README.txt"].decode()
    assert said.startswith("NOT PRIVATE") and "fmwem attack: IT DID NOT HOLD" in said and "it held" in said
    assert json.loads(apart["attack.json"]) == ATTACK
    assert (here / "with" / "NOT-PRIVATE").stat().st_mode & 0o077 == 0


def test_what_is_refused_leaves_nothing(here: Path, released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "other.json").write_text(json.dumps({"result": ATTACK | {"promised": {"epsilon": 2.0}}}))
    (here / "public.json").write_text(json.dumps(VERIFY | {"private": True}))
    (here / "half.jsonl").write_text('{"attack": "begun"}\n{"wor')
    before = {path.name for path in here.iterdir()}
    for private, why in (
        (["other.json"], "is of epsilon 2, and the release of 1"),
        (["public.json"], "no finished result"),
        (["half.jsonl"], "no finished result"),
        (["t.csv"], "no finished result"),
        (["verify.json", "verify.json"], "a second result"),
        (["missing.json"], "cannot read"),
    ):
        with pytest.raises(InputError, match=why):
            evidence(released, here / "bundle", private=private)
    with pytest.raises(InputError, match="exists"):
        evidence(released, here)
    broken = json.loads(released.read_text())
    broken["guarantee"]["spent_epsilon"] = 0.5
    (here / "t.synthetic.manifest.json").write_text(json.dumps(broken))
    with pytest.raises(InputError):
        evidence(released, here / "bundle")
    monkeypatch.setattr(module, "_public", lambda *_: ({"a/b/c": "no folder"}, None))
    monkeypatch.setattr(module, "_index", lambda *_: "")
    with pytest.raises(InputError):
        evidence(released, here / "bundle")
    kept = {"t.synthetic.fmwem.replicates"}  # of the model, beside it: whoever asks next need not refit
    assert {path.name for path in here.iterdir()} - kept == before - kept


def test_a_record_of_another_kind(here: Path, fmwem: Fmwem) -> None:
    done = fmwem("statistic t.csv --column age --what mean --lower 0 --upper 99 -o m.json")
    assert done.code == 0, done.err
    assert set(evidence(here / "m.json", here / "bundle")) == {
        "SHA256SUMS",
        "index.html",
        "m.manifest.json",
        "m.report.html",
    }
