"""Address: where a ledger is: the path of a file, or the URI of a database, which is shown without its
password.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn
from urllib.parse import parse_qsl

from factored_mwem.errors import InputError

FORM = "postgresql://USER@HOST/DATABASE"
_HOST = r"(?:\[[0-9a-f:.]+\]|[^:@/?#,\[\]\s]*)(?::[0-9]*)?"
_DATABASE = re.compile(
    r"postgres(?:ql)?://"
    r"(?:(?P<user>[^:@/?#\s]*)(?::(?P<password>[^:@/?#\s]*))?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)(?:/(?P<name>[^@/?#\s]*))?(?:\?(?P<more>[^@?#\s]*))?",
    re.IGNORECASE,
)
SHOWN = ("host", "port", "dbname", "user")
"""Parameters of a URI that may be shown; any other might be a password."""


class Address:
    """The place of a ledger. Raises InputError, without repeating the text, if it cannot be one.

    >>> Address("postgresql://etl:secret@db.example/books?sslmode=verify-full&password=secret")
    postgresql://etl@db.example/books
    >>> Address("books.db").path
    PosixPath('books.db')
    """

    __slots__ = ("_whole", "name", "path")
    _whole: str

    def __init__(self, place: str | Path | Address) -> None:
        text = place._whole if isinstance(place, Address) else str(place)
        self._whole = text
        self.path: Path | None = None
        if not re.match(r"[a-z][a-z0-9+.-]+:/", text, re.IGNORECASE):
            self.path, self.name = Path(text), text
            return
        if not re.match("postgres(ql)?:/", text, re.IGNORECASE):
            raise InputError(f"--ledger: a ledger is a file, or a database: {FORM}")
        if isinstance(place, Path):
            raise InputError(f"--ledger: a URI is given as a text, not as a Path: {FORM}")
        self.name = _without_password(text)

    @property
    def uri(self) -> str:
        """The URI of a database, with its password if it has one; for the driver alone."""
        return self._whole

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and other._whole == self._whole

    def __hash__(self) -> int:
        return hash(self._whole)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an address may hold a password; hand over the text")


def _without_password(uri: str) -> str:
    parts = _DATABASE.fullmatch(uri)
    if parts is None:
        how = "special characters of a password are written as %40 and the like"
        raise InputError(f"--ledger: the URI is not of the form {FORM}; {how}, or the password in PGPASSWORD")
    more = [f"{key}={value}" for key, value in parse_qsl(parts["more"] or "") if key in SHOWN]
    user = f"{parts['user']}@" if parts["user"] else ""
    return f"postgresql://{user}{parts['hosts']}/{parts['name'] or ''}{'?' + '&'.join(more) if more else ''}"
