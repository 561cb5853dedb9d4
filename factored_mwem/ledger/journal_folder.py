"""The folder of journals beside a ledger, and what they prove where an old copy of it was put back.

A run's mark is in the books before it draws. So a journal that holds a draw under a mark which the books do
not know was written with a newer copy of the ledger. One that holds no draw proves nothing: a crash between
`Journal.begin` and `LedgerFile.reserve` leaves that, and nothing was paid for.
"""

from __future__ import annotations

import hmac
import os
from pathlib import Path

from factored_mwem.errors import InputError, Lost, RolledBack
from factored_mwem.ledger.file import LedgerFile
from factored_mwem.ledger.form import JOURNAL
from factored_mwem.ledger.journal import Journal

SUFFIX = ".journal"


def place_of(file: LedgerFile, dataset: str, run_id: str) -> Path:
    """Where a run's journal lies: its name tells nobody without the key which run that is."""
    name = hmac.digest(file.key, f"{dataset}\0{run_id}".encode(), "sha256").hex()[:32]
    return file.journals / f"{name}{SUFFIX}"


def key_of(file: LedgerFile, path: Path) -> bytes:
    """The key that the journal of this name is written with: a journal under another's name is nobody's."""
    return hmac.digest(file.key, path.name.removesuffix(SUFFIX).encode(), "sha256")


class Unreadable(InputError):
    """Journals that cannot be looked at; `why`: what the system says, for those who only read."""

    def __init__(self, file: LedgerFile, error: OSError) -> None:
        self.why = f"{file.journals}: {error.strerror}"
        what = f"cannot read the journals in {self.why}"
        super().__init__(f"{what}; nothing is spent before they can be looked at")


def unknown(file: LedgerFile) -> list[Path]:
    """The journals that hold draws which the books do not know. Unreadable where they cannot be looked at."""
    # Journals first, books second: what another process enters meanwhile is in the books before it is in its
    # journal. The other way round, its journal would be taken for one of a newer copy.
    marks = {path: mark for path in _files(file) if (mark := _mark(file, path)) is not None}
    known = file.marks() if marks else set()
    return [path for path, mark in marks.items() if mark not in known]


def refuse_older(file: LedgerFile) -> None:
    """RolledBack where the ledger is older than its journals. Nothing is written, in any file."""
    if unknown(file):
        raise RolledBack(file.path)


def _files(file: LedgerFile) -> list[Path]:
    try:
        paths = [file.journals / name for name in os.listdir(file.journals) if JOURNAL.fullmatch(name)]
        return sorted(path for path in paths if path.is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unreadable(file, error) from None


def _mark(file: LedgerFile, path: Path) -> str | None:
    """The mark of the release that a journal holds a draw of, if it does."""
    try:
        header = Journal.glimpse(path, key_of(file, path))
    except Lost:
        return None  # our code over what is no record: not a journal of this program's
    except OSError as error:
        raise Unreadable(file, error) from None
    return None if header is None else str(header.get("entry"))
