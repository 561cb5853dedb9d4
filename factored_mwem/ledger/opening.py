"""Opening: the ledger in a file, or in a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from factored_mwem.errors import InputError
from factored_mwem.ledger.address import Address

if TYPE_CHECKING:
    from factored_mwem.ledger.ledger import Ledger


def open_ledger(place: str | Path | Address) -> Ledger:
    """The ledger in a file, or in a database that a postgresql:// URI names.

    Raises:
        InputError: there is no ledger.
        Busy: it cannot be reached now.

    >>> from factored_mwem import create_ledger, open_ledger
    >>> _ = create_ledger("shared.db")
    >>> open_ledger("shared.db").datasets()
    []
    """
    address = Address(place)
    if address.path is None:
        from factored_mwem.ledger.database import LedgerDatabase

        return LedgerDatabase(address)
    from factored_mwem.ledger.file import LedgerFile

    return LedgerFile(address.path)


def create_ledger(place: str | Path | Address, journals: Path | None = None) -> Ledger:
    """A new, empty ledger. `journals`: a folder for those of a database.

    Raises InputError if there is a ledger already, the place cannot hold one, or `journals` is passed for a
    file, whose journals lie beside it.

    >>> from factored_mwem import Cap, Neighbours, create_ledger
    >>> create_ledger("made.db").add("people", Cap.of(3.0, 1e-6), Neighbours.ADD_REMOVE, 1)
    """
    address = Address(place)
    if address.path is None:
        from factored_mwem.ledger.database import LedgerDatabase

        return LedgerDatabase.create(address, journals)
    if journals is not None:
        raise InputError("--journals is for a ledger in a database: a file has its own folder beside it")
    from factored_mwem.ledger.file import LedgerFile

    return LedgerFile.create(address.path)
