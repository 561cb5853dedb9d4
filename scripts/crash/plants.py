"""Bugs that are planted into the product, each of which the crash matrix must see."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from factored_mwem.files import crashpoints as faults
from factored_mwem.files import files
from factored_mwem.ledger import journal
from factored_mwem.ledger.journal_table import JournalRows
from factored_mwem.ledger.ledger import Ledger
from factored_mwem.ledger.run import Run


def no_journal() -> None:
    """A resumed run measures afresh."""
    journal.Journal.replay = lambda self: self.forget()
    journal.Journal.waiting = property(lambda self: False)


def uncommitted() -> None:
    """A draw is used before its record is committed."""

    def keep(self: Any, start: bytes, rest: bytes) -> None:
        if self._db.db.info.transaction_status == 0:
            self._db.execute("BEGIN")
        values = (self._name, self._written, start + rest)
        self._db.execute("INSERT INTO journals VALUES (?, ?, ?)", values)
        faults.reach("half journalled")
        if self._written == 0:
            self._db.execute("COMMIT")

    JournalRows._keep = keep


def refund() -> None:
    """A run that fails is struck from the books."""
    change = Ledger.change

    def forgiving(self: Ledger, number: int, state: str, **facts: Any) -> None:
        if state != "failed":
            return change(self, number, state, **facts)
        with self._writing() as db:
            db.execute("DELETE FROM releases WHERE id = ?", (number,))

    Ledger.change = forgiving


def late_books() -> None:
    """The reservation comes when all noise is drawn."""
    reserve, drawn = Run.reserve, Run.drawn
    Run.reserve = lambda self: setattr(self, "charged", True)
    Run.drawn = lambda self, ledger: (reserve(self), drawn(self, ledger))


def in_place() -> None:
    """Files are written under their final names."""

    @contextlib.contextmanager
    def straight(path: Path, exists: Any = None, before: Callable[[], None] = lambda: None) -> Iterator[Path]:
        before()
        path.write_bytes(b"PAR1")
        faults.reach("before rename")
        yield path
        faults.reach("after rename")

    files.replacing = straight


PLANTS = {
    "uncommitted": uncommitted,
    "no-journal": no_journal,
    "refund": refund,
    "late-books": late_books,
    "in-place": in_place,
}
"""What each does, by name."""
