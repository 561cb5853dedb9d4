"""--public-columns and --public on the command line: in check, plan, release, the ledger and the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Fmwem

FIELDS = [{"name": "ward", "categories": ["a", "b"], "constraints": {"required": True}}]
SEX = {"name": "sex", "categories": ["F", "M"]}
HOW = ("t.csv", "--marginals", 2, "--public-columns", "sex", "--public", "census.csv")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'ab'[n % 3 == 0]},{'FM'[n % 2]}\n" for n in range(400))
    (tmp_path / "t.csv").write_text(f"ward,sex\n{rows}")
    (tmp_path / "t.domain.json").write_text(json.dumps({"fields": FIELDS}))
    (tmp_path / "census.csv").write_text("sex\n" + "F\n" * 600 + "M\n" * 400)
    return tmp_path


def test_all_commands_say_what_is_public(folder: Path, fmwem: Fmwem) -> None:
    for command in ("check", "plan"):
        said = fmwem(command, *HOW)
        assert said.code == 0 and "public" in said.out
    assert "census.csv" in fmwem("check", *HOW).out
    (folder / "t.domain.json").write_text(json.dumps({"fields": [*FIELDS, SEX]}))
    assert fmwem("check", *HOW).code == 0
    fmwem("ledger", "init", "l")
    fmwem("ledger", "add", "l", "--dataset", "d", "--epsilon", 5.0)
    done = fmwem("release", *HOW, "--ledger", "l", "--dataset", "d", "--epsilon", 3.0, "--rows", 1000)
    assert done.code == 0 and "'census.csv'" in done.err
    manifest = json.loads((folder / "t.synthetic.manifest.json").read_text())
    assert manifest["public"]["columns"] == ["sex"] and manifest["public"]["rows"] == 1000
    assert fmwem("ledger", "verify", "l", "t.synthetic.manifest.json").code == 0
    assert fmwem("report", "t.synthetic.manifest.json", "-o", "page.html").code == 0
    assert manifest["public"]["sha256"] in (folder / "page.html").read_text()


def test_it_is_refused_where_nothing_would_use_it(folder: Path, fmwem: Fmwem) -> None:
    for command, why in (
        (("release", "t.csv", "--marginals", 2, "--public", "census.csv"), "go together"),
        (("release", *HOW[:-1], "nowhere.csv"), "nowhere.csv"),
        (("release", *HOW, "-o", "census.csv"), "is an input"),
        (("release", *HOW, "--with", "census.csv", "--key", "sex"), "is for a single table"),
    ):
        refused = fmwem(*command)
        assert refused.code == 2 and why in refused.err and refused.err.count("\n") == 1, refused.err
