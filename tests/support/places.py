"""Places of ledgers, a file or a database, and what a hostile or clumsy hand does there to what they hold."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from support.postgres import Server
from support.runs import sql

from factored_mwem.ledger.journal import CODE_BYTES, HEAD, MAGIC

TABLES = ("secret", "datasets", "releases", "events")


class Place:
    """Where a ledger is; `str()` of it is what a user gives."""

    def __init__(self, address: Path | str, server: Server | None = None, folder: Path | None = None) -> None:
        self.address, self.server, self._folder = address, server, folder

    def __str__(self) -> str:
        return str(self.address)

    def sql(self, *statements: str) -> None:
        if isinstance(self.address, Path):
            sql(self.address, *statements)
        else:
            assert self.server is not None
            self.server.sql(*statements, uri=self.address)

    def rows(self, statement: str) -> list[Any]:
        if isinstance(self.address, Path):
            import sqlite3

            with sqlite3.connect(self.address) as db:
                return db.execute(statement).fetchall()
        assert self.server is not None
        return self.server.sql(statement, uri=self.address)

    def held(self) -> Any:
        """All that the ledger and its journals hold."""
        books = [self.rows(f"SELECT * FROM {table}") for table in TABLES]
        if self.folder is None:
            return books, self.rows("SELECT * FROM journals ORDER BY run, number")
        if isinstance(self.address, Path):
            books.append([self.address.read_bytes()])
        return books, {path.name: path.read_bytes() for path in self.folder.glob("*")}

    @property
    def folder(self) -> Path | None:
        """Of the journals, where they are files."""
        return Path(f"{self.address}.journals") if isinstance(self.address, Path) else self._folder

    def journals(self) -> list[str]:
        if self.folder is None:
            return sorted(run for (run,) in self.rows("SELECT DISTINCT run FROM journals"))
        return sorted(path.name for path in self.folder.iterdir()) if self.folder.exists() else []

    def lose_journals(self) -> None:
        if self.folder is None:
            self.sql("DELETE FROM journals")
        else:
            shutil.rmtree(self.folder)
            if self._folder is not None:
                self._folder.mkdir()

    def lose_last_record(self) -> None:
        """Of every journal."""
        if self.folder is None:
            last = "(SELECT max(number) FROM journals k WHERE k.run = j.run)"
            self.sql(f"DELETE FROM journals j WHERE number = {last}")
            return
        for path in self.folder.iterdir():
            data = path.read_bytes()
            path.write_bytes(data[: frames(data)[-1]])

    def damage_record(self, number: int) -> None:
        """One bit in the record of that number of the only journal."""
        (name,) = self.journals()
        if self.folder is None:
            bit = "set_bit(record, 8 * 40, 1 - get_bit(record, 8 * 40))"
            self.sql(f"UPDATE journals SET record = {bit} WHERE number = {number}")
            return
        data = bytearray((self.folder / name).read_bytes())
        data[frames(data)[number] + 40] ^= 1
        (self.folder / name).write_bytes(data)

    def cut_record(self, number: int) -> None:
        """The record of that number of the only journal is gone, those after it are there."""
        (name,) = self.journals()
        if self.folder is None:
            self.sql(f"DELETE FROM journals WHERE number = {number}")
            return
        data = (self.folder / name).read_bytes()
        starts = [*frames(data), len(data)]
        (self.folder / name).write_bytes(data[: starts[number]] + data[starts[number + 1] :])

    def copy_journal(self, one: str, two: str) -> None:
        """The journal of one run under another's name."""
        if self.folder is None:
            self.sql(
                f"DELETE FROM journals WHERE run = '{two}'",
                f"INSERT INTO journals SELECT '{two}', number, record FROM journals WHERE run = '{one}'",
            )
        else:
            shutil.copy(self.folder / one, self.folder / two)


def frames(data: bytes | bytearray) -> list[int]:
    """Where the records of a journal begin."""
    found, at = [], 0
    while data[at : at + len(MAGIC)] == MAGIC:
        found.append(at)
        at += HEAD.size + HEAD.unpack_from(data, at)[2] + CODE_BYTES
    return found
