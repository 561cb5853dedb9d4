"""Where a ledger is: a path or a URI, of which no password ever shows."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

import pytest
from support.commands import Fmwem

from factored_mwem import release
from factored_mwem.errors import InputError
from factored_mwem.ledger.address import Address
from factored_mwem.ledger.opening import create_ledger, open_ledger
from factored_mwem.ledger.run import Booking

SECRET = "CANARY"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://etl:CANARY@db:5432/books", "postgresql://etl@db:5432/books"),
        ("postgres://etl:CANARY@db/books", "postgresql://etl@db/books"),
        ("POSTGRESQL://etl:CANARY@db/books", "postgresql://etl@db/books"),
        ("postgresql://db/books?user=etl&password=CANARY", "postgresql://db/books?user=etl"),
        ("postgresql://etl@/books?host=/run/pg&sslpassword=CANARY", "postgresql://etl@/books?host=/run/pg"),
        ("postgresql://:CANARY@one:1,two:2/books", "postgresql://one:1,two:2/books"),
        ("postgresql:///books", "postgresql:///books"),
        ("postgresql://etl:%43ANARY@[::1]:5432/books", "postgresql://etl@[::1]:5432/books"),
    ],
)
def test_a_uri_shows_without_its_password(given: str, shown: str) -> None:
    address = Address(given)
    assert (repr(address), str(address), address.name, address.path) == (shown, shown, shown, None)
    assert address.uri == given and Address(address) == address
    assert "ANARY" not in repr(Booking(given, "t", "r")) + f"{[address]}"
    for act in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="password"):
            act(address)


@pytest.mark.parametrize(
    "given",
    [
        *(f"postgresql://etl:CAN{mark}ARY@db/books" for mark in "/@#? "),
        "postgresql:/etl:CANARY@db/books",
        "postgresql://etl:CANARY/books",
        "mysql://etl:CANARY@db/books",
        "s3://CANARY/books",
    ],
)
def test_what_cannot_be_read_is_not_quoted(given: str) -> None:
    """A password that was not encoded would show as a host or a path."""
    for act in (Address, open_ledger, create_ledger):
        with pytest.raises(InputError, match="postgresql://USER@HOST/DATABASE") as refused:
            act(given)
        assert "CAN" not in str(refused.value) and "ARY" not in str(refused.value)


def test_a_uri_that_was_made_a_path_is_said() -> None:
    """Two slashes are folded to one."""
    with pytest.raises(InputError, match="as a text, not as a Path"):
        Address(Path("postgresql://etl:CANARY@db/books"))


@pytest.mark.parametrize("given", ["books", "./a:b/books", "C:/books", "postgresql", "a b.db"])
def test_all_else_is_a_file(given: str) -> None:
    assert Address(given).path == Path(given) and str(Address(given)) == given


def test_a_missing_driver_is_one_line(monkeypatch: pytest.MonkeyPatch, here: Path, fmwem: Fmwem) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    uri = "postgresql://etl:CANARY@db/books"
    with pytest.raises(InputError, match=r"pip install 'factored-mwem\[postgres\]'"):
        release("t.csv", 1, ledger=uri, dataset="t")
    (here / "c.toml").write_text(f"ledger = {uri!r}")
    for given in (["--ledger", uri], ["--config", "c.toml"]):
        refused = fmwem("release", "t.csv", "--marginals", 1, "--dataset", "t", *given)
        assert refused.code == 2 and refused.err.count("\n") == 1
        assert "pip install" in refused.err and SECRET not in refused.err + refused.out
    for word in ("init", "show", "export", "verify", "accept"):
        refused = fmwem("ledger", word, uri)
        assert refused.code == 2 and "pip install" in refused.err and SECRET not in refused.err
    assert not list(here.glob("postgresql*"))


def test_a_folder_of_journals_and_an_acceptance_are_for_databases(here: Path, fmwem: Fmwem) -> None:
    assert "for a ledger in a database" in fmwem("ledger", "init", "books", "--journals", ".").err
    assert fmwem("ledger", "init", "books").code == 0
    refused = fmwem("ledger", "accept", "books")
    assert refused.code == 2 and "is a file" in refused.err
