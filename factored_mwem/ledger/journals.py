"""The journals of a ledger, and what they prove where an old copy of it was put back.

A run's mark is in the books before it draws. So a journal that holds a draw under a mark which the books do
not know was written with a newer copy of the ledger. One that holds no draw proves nothing: a crash between
`Journal.begin` and `Ledger.reserve` leaves that, and nothing was paid for.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from factored_mwem.errors import InputError, RolledBack

if TYPE_CHECKING:
    from factored_mwem.ledger.journal import Journal
    from factored_mwem.ledger.ledger import Ledger


class Unreadable(InputError):
    """Journals that cannot be looked at; `why`: what the system says, for those who only read."""

    def __init__(self, why: str) -> None:
        self.why = why
        what = f"cannot read the journals in {self.why}"
        super().__init__(f"{what}; nothing is spent before they can be looked at")


def journal_of(ledger: Ledger, dataset: str, run_id: str) -> Journal:
    """A run's journal, which this process then holds: its name tells nobody without the key which run."""
    name = hmac.digest(ledger.key, f"{dataset}\0{run_id}".encode(), "sha256").hex()[:32]
    return ledger.journals.open(name, _key_of(ledger, name))


def _key_of(ledger: Ledger, name: str) -> bytes:
    """The key that the journal of this name is written with: a journal under another's name is nobody's."""
    return hmac.digest(ledger.key, name.encode(), "sha256")


def unknown(ledger: Ledger) -> list[str]:
    """Names of the journals that hold draws which the books do not know. Unreadable where they cannot be
    looked at.
    """
    # Journals first, books second: what another process enters meanwhile is in the books before it is in its
    # journal. The other way round, its journal would be taken for one of a newer copy.
    headers = ledger.journals.headers(lambda name: _key_of(ledger, name))
    known = ledger.marks() if headers else set()
    return [name for name, header in headers.items() if str(header.get("entry")) not in known]


def refuse_older(ledger: Ledger) -> None:
    """RolledBack where the ledger is older than its journals, or another copy than was last written.

    Nothing is written.
    """
    if ledger.copied():
        raise RolledBack(ledger.name, copied=True)
    if unknown(ledger):
        raise RolledBack(ledger.name)
