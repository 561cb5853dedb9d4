"""Bugs that are planted into the product, each of which the crash matrix must see."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from factored_mwem import crashpoints as faults
from factored_mwem import files
from factored_mwem.accounting.accountant import Accountant
from factored_mwem.files import IfExists
from factored_mwem.ledger import journal, run
from factored_mwem.ledger.ledger import Ledger


def no_journal() -> None:
    """A resumed run measures afresh."""
    journal.Journal.replay = lambda self: self.forget()  # type: ignore[method-assign, assignment]
    journal.Journal.waiting = property(lambda self: False)  # type: ignore[assignment, method-assign]


def uncommitted() -> None:
    """A draw is used before its record is committed."""
    from factored_mwem.ledger import journal_table

    def keep(self: journal_table.JournalRows, start: bytes, rest: bytes) -> None:
        if self._db.db.info.transaction_status == 0:
            self._db.execute("BEGIN")
        values = (self._name, self._written, start + rest)
        self._db.execute("INSERT INTO journals VALUES (?, ?, ?)", values)
        faults.reach("half journalled")
        if self._written == 0:
            self._db.execute("COMMIT")

    journal_table.JournalRows._keep = keep  # type: ignore[method-assign]


def refund() -> None:
    """A run that fails is struck from the books."""
    change = Ledger.change

    def forgiving(self: Ledger, number: int, state: str, **facts: object) -> None:
        if state == "failed":
            with self._writing() as db:
                db.execute("DELETE FROM releases WHERE id = ?", (number,))
        else:
            change(self, number, state, **facts)  # type: ignore[arg-type]

    Ledger.change = forgiving  # type: ignore[method-assign, assignment]


def late_books() -> None:
    """The reservation comes when all noise is drawn."""
    reserve, drawn = run.Run.reserve, run.Run.drawn
    run.Run.reserve = lambda self: setattr(self, "charged", True)  # type: ignore[method-assign, assignment]

    def late(self: run.Run, ledger: Accountant) -> None:
        reserve(self)
        drawn(self, ledger)

    run.Run.drawn = late  # type: ignore[method-assign]


def in_place() -> None:
    """Files are written under their final names."""

    @contextlib.contextmanager
    def straight(
        path: Path, exists: IfExists = IfExists.REFUSE, before: Callable[[], None] = lambda: None
    ) -> Iterator[Path]:
        before()
        with open(path, "wb") as file:
            file.write(b"PAR1")
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
"""Bugs of which each must be seen: what it does, by name."""
