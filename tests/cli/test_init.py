"""`fmwem init`: a settings file that works as it is, in which every comment that is a setting is one."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.commands import CANARY, Fmwem, refused

from factored_mwem.cli.settings import FLAGS, RECORDS, layered, read_config
from factored_mwem.cli.starting import ListedColumn, in_toml, settings_text
from factored_mwem.request.data_package import read_package
from factored_mwem.tables.inputs.source import Table

SETTING = re.compile(r"^#([a-z_]+) = (.*)$", re.MULTILINE)


def test_the_file_works_as_it_is(here: Path, fmwem: Fmwem) -> None:
    begun = fmwem("init t.csv")
    assert begun.facts == {"config": "fmwem.toml", "columns": 6, "draft": None}
    text = (here / "fmwem.toml").read_text(encoding="utf-8")
    assert text.startswith("# Settings of: fmwem release t.csv --config fmwem.toml\n")
    assert "values are declared in t.domain.json" in text
    assert tomllib.loads(text) == {"marginals": 2, "columns": ["zip", "age", "pay", "born", "seen", "smoker"]}
    assert fmwem("check t.csv --config fmwem.toml").code == 0
    done = fmwem("release t.csv --config fmwem.toml")
    assert (done.code, done.facts["domain"]) == (0, "t.domain.json")
    manifest = json.loads((here / "t.synthetic.manifest.json").read_text())
    assert manifest["workload"]["marginals"] == [2]


PEOPLE = {"people": "true", "privacy_id": '"zip"'}
NEEDED = {"names": {"header": '"none"'}, "person_columns": PEOPLE, "order_by": PEOPLE}
"""Settings that others go with."""


def test_every_setting_stands_in_it_with_its_type(here: Path, fmwem: Fmwem) -> None:
    """Each comment taken away on its own leaves a file that is accepted, and sets that one thing."""
    fmwem("init t.csv")
    text = Path("fmwem.toml").read_text(encoding="utf-8")
    found = dict(SETTING.findall(text))
    active = set(tomllib.loads(text))
    assert set(found) | active == {*FLAGS, "records"} - {*RECORDS, "config"}
    assert not set(found) & active
    for name, value in found.items():
        plain = text
        for begun, needed in NEEDED.get(name, {}).items():
            plain = re.sub(f"(?m)^#{begun} = .*$", f"{begun} = {needed}", plain)
        Path("one.toml").write_text(
            plain.replace(f"#{name} = {value}", f"{name} = {value}"), encoding="utf-8"
        )
        settings = layered({}, {}, read_config(Path("one.toml")))
        assert name in settings.model_fields_set | settings.policy.model_fields_set
    Path("plain.toml").write_text("marginals = 2\n")
    plain = layered({}, {}, read_config(Path("plain.toml"))).model_dump()
    for name in ("epsilon", "delta", "neighbours", "contributions", "engine", "overwrite", "drop_unique"):
        Path("one.toml").write_text(f"marginals = 2\n{name} = {found[name]}\n", encoding="utf-8")
        assert layered({}, {}, read_config(Path("one.toml"))).model_dump() == plain  # it shows the default


def test_options_that_are_given_stand_in_it(here: Path, fmwem: Fmwem) -> None:
    given = "--label smoker@3 --epsilon 0.5 --privacy-id zip --contributions 4 --lines"
    begun = fmwem(f"init t.csv {given} --columns age,zip,smoker -o c.toml", FMWEM_MAX_MEMORY="2GB")
    assert begun.code == 0, begun.err
    found = tomllib.loads(Path("c.toml").read_text(encoding="utf-8"))
    assert found == {
        "label": ["smoker@3"],
        "epsilon": 0.5,
        "privacy_id": "zip",
        "contributions": 4,
        "records": "lines",
        "columns": ["age", "smoker"],
        "max_memory": 2 * 10**9,
    }
    settings = layered({}, {}, read_config(Path("c.toml")))
    assert settings.policy.privacy_id == "zip" and settings.policy.epsilon == 0.5


def test_nothing_is_replaced_without_being_told(here: Path, fmwem: Fmwem) -> None:
    Path("fmwem.toml").write_text("mine")
    refused(fmwem, "init t.csv", "fmwem.toml exists")
    refused(fmwem, "init t.csv --draft -o other.toml", "t.domain.json exists")
    domain = Path("t.domain.json").rename("elsewhere.json")
    refused(fmwem, "init t.csv --draft")  # before the data are looked at
    domain.rename("t.domain.json")
    assert fmwem("init t.csv --overwrite").code == 0 and Path("fmwem.toml").read_text() != "mine"
    refused(fmwem, "init missing.csv -o x.toml", "missing")
    refused(fmwem, "init - -o x.toml")


def test_no_row_is_read(here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch) -> None:
    def batches(*_: Any) -> Any:
        raise AssertionError("a row was read")

    monkeypatch.setattr(Table, "batches", batches)
    Path("secret.csv").write_text(f"age,word\n41,{CANARY}\n" * 3)
    pq.write_table(pa.table({"age": [41], "word": [CANARY]}), "secret.parquet")
    for table in ("secret.csv", "secret.parquet", "t.csv"):
        done = fmwem("init", table, "--overwrite")
        assert done.code == 0, done.err
        text = Path("fmwem.toml").read_text(encoding="utf-8")
        assert "CANARY" not in text + done.out + done.err and "41" not in text
    assert fmwem("init secret.csv --draft --overwrite").code != 0  # the planted error is reached


def test_a_draft_is_made_on_request_and_no_release_takes_it(here: Path, fmwem: Fmwem) -> None:
    Path("t.domain.json").unlink()
    done = fmwem("init t.csv --draft")
    assert done.facts["draft"] == "t.domain.json" and "NOT PRIVATE" in done.err
    assert json.loads(Path("t.domain.json").read_text(encoding="utf-8"))["draft"] is True
    refused(fmwem, "release t.csv --config fmwem.toml", "draft")
    domain = json.loads(Path("t.domain.json").read_text(encoding="utf-8"))
    del domain["draft"]
    Path("t.domain.json").write_text(json.dumps(domain), encoding="utf-8")
    assert fmwem("release t.csv --config fmwem.toml").code == 0
    Path("t.domain.json").unlink()
    Path("fmwem.toml").unlink()
    fmwem("init t.csv")
    assert not Path("t.domain.json").exists()  # not asked for


def test_a_column_that_a_declared_domain_lacks_is_left_out(here: Path, fmwem: Fmwem) -> None:
    domain = json.loads(Path("t.domain.json").read_text(encoding="utf-8"))
    domain["fields"] = domain["fields"][:3]
    Path("t.domain.json").write_text(json.dumps(domain), encoding="utf-8")
    fmwem("init t.csv")
    text = Path("fmwem.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["columns"] == ["zip", "age", "pay"]
    assert '#"born",  # t.domain.json does not say which values it has' in text
    assert fmwem("release t.csv --config fmwem.toml").code == 0


def test_names_of_all_characters_come_back(here: Path, fmwem: Fmwem) -> None:
    names = [
        'q"uote',
        "back\\slash",
        "new\nline",
        "tab\t",
        "\x7f",
        "\x1b[31m",
        "snow\u2603",
        "#",
        "'",
        "\u202e",
    ]
    columns = [ListedColumn(name, "string") for name in names]
    text = settings_text("a\nb", "fmwem release 'a\nb'", columns, {"dataset": "x\ny"}, "none\nof them")
    found = tomllib.loads(text)
    assert found["columns"] == names and found["dataset"] == "x\ny" and len(found) == 2
    assert not any(c in text for c in "\x7f\x1b")
    for value in (True, 3, 0.25, 1e-9, ["a", "b"], Path("x y")):
        expected = str(value) if isinstance(value, Path) else value
        assert tomllib.loads(f"x = {in_toml(value)}")["x"] == expected


def test_a_name_that_tells_who_somebody_is_is_marked() -> None:
    marked = ["id", "patient_id", "PatientId", "e-mail", "Last Name", "ssn", "street_address", "email"]
    plain = ["age", "income", "idle", "hours-per-week", "native-country", "keyboard", "candid"]
    for name in marked:
        assert "leave it out" in ListedColumn(name, "").line(), name
    for name in plain:
        assert ListedColumn(name, "").line() == f'  "{name}",'


def test_what_it_reads_stays(here: Path, fmwem: Fmwem) -> None:
    for file in ("t.csv", "t.domain.json"):
        refused(fmwem, f"init t.csv -o {file} --overwrite", f"{file} is an input")
    (here / "t.domain.json").unlink()
    assert fmwem("init t.csv -o t.domain.json --draft --overwrite").code == 2
    (here / "rows").mkdir()
    (here / "t.csv").rename("rows/part.csv")
    assert fmwem("init rows/ -o rows/fmwem.toml").code == 0


def tables_of_a_shop(folder: Path) -> None:
    (folder / "users.csv").write_text(f"user_id,word\n41,{CANARY}\n")
    (folder / "sessions.csv").write_text(f"session_id,user_id,word\n7,41,{CANARY}\n")
    pq.write_table(pa.table({"id": [41], "price": [4.5], "user_id": [41]}), folder / "baskets.parquet")


def test_files_of_different_columns_are_described_as_a_package(
    here: Path, fmwem: Fmwem, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables_of_a_shop(here)
    monkeypatch.setattr(Table, "batches", lambda *_: pytest.fail("a row was read"))
    done = fmwem("init users.csv sessions.csv baskets.parquet")
    assert done.facts == {"descriptor": "datapackage.json", "tables": 3, "declare": None}
    package = read_package(here / "datapackage.json")
    assert [each.name for each in package.private] == ["users", "sessions", "baskets"]
    assert [each.key for each in package.private] == ["user_id", "session_id", "id"]
    assert "no value was read" in done.err
    assert "sessions: primary key session_id, user_id names a row of users" in done.err
    text = (here / "datapackage.json").read_text()
    assert not any(value in text + done.out + done.err for value in (CANARY, "41", "4.5"))
    refused(fmwem, "init users.csv sessions.csv", "datapackage.json exists; use --overwrite")
    again = fmwem("init users.csv -o datapackage.json --overwrite")
    assert again.facts["tables"] == 1 and not (here / "fmwem.toml").exists()


def test_files_of_the_same_columns_stay_one_table(here: Path, fmwem: Fmwem) -> None:
    for name in ("a.csv", "b.csv"):
        (here / name).write_text("age,sex\n")
    assert fmwem("init a.csv b.csv").facts["config"] == "fmwem.toml"
    assert fmwem("init a.csv b.csv -o p.json").facts["tables"] == 2


def test_a_package_says_what_is_still_to_be_declared(here: Path, fmwem: Fmwem) -> None:
    tables_of_a_shop(here)
    done = fmwem("init users.csv t.csv")
    assert done.code == 0 and done.facts["declare"].startswith("'users', 't' hang on no private table")
    assert f"to declare: {done.facts['declare']}" in done.err


def test_a_package_that_cannot_be_described_is_refused_in_a_line(here: Path, fmwem: Fmwem) -> None:
    tables_of_a_shop(here)
    (here / "other").mkdir()
    (here / "other" / "users.csv").write_text("a,b\n")
    (here / "rows.jsonl").write_text('{"a": 1}\n')
    refused(fmwem, "init users.csv other/users.csv", "two files would be the table 'users'")
    refused(fmwem, "init users.csv -o other/p.json", "table 'users': its path '../users.csv' leads out")
    refused(fmwem, "init users.csv other -o p.json", "other is no file on this machine")
    refused(fmwem, "init s3://shop/users.csv -o p.json", "s3://shop/users.csv is no file on this machine")
    refused(fmwem, "init users.csv rows.jsonl -o p.json", "say with --columns")
    refused(fmwem, "init users.csv --marginals 3 -o p.json", "leave out all options but -o")
    refused(fmwem, "init users.csv missing.csv -o p.json", "missing.csv is no file")
    assert not list(here.glob("**/p.json"))
