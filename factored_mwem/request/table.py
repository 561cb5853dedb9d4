"""Private table: the rows that a promise protects, checked by public facts; only names and types are read."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, shown
from factored_mwem.request.promise import Terms
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.backends.source import OpenedSource, Source
from factored_mwem.tables.inputs.text_form import Reading


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PrivateTable:
    """Where private rows are, which columns are used, their declared domain, and whom the promise
    protects.
    """

    private: OpenedSource = field(repr=False)
    promise: Terms
    declared: Domain | None
    columns: list[str] | None
    spill: Path | None = None
    """Folder for codes that memory does not hold."""

    @classmethod
    def open(
        cls,
        table: Any,
        promise: Terms,
        *,
        domain: Domain | dict[str, Any] | str | Path | None = None,
        columns: Sequence[str] | None = None,
        spill: Any = None,
        **more: Any,
    ) -> Self:
        """Raises InputError for arguments of a wrong type, now rather than after the budget is spent. `more`:
        the fields of a subclass.
        """
        if isinstance(columns, str) or (columns is not None and not list(columns)):
            raise InputError(f"columns={shown(columns)}: must be a list of one column name or more")
        declared, folder = declared_domain(domain), _folder(spill)
        listed = None if columns is None else list(columns)
        dialect = promise.dialect.beside(declared.dialect if declared is not None else None)
        names = listed if listed is not None or declared is None else list(declared.names)
        by = promise.privacy_id
        if names is not None and by is not None and by not in names:
            names = [*names, by]
        private = open_source(table, Reading(promise.records, dialect, names), declared, by, folder)
        for name in listed or ():
            private.check_column(name)
        return cls(private=private, promise=promise, declared=declared, columns=listed, spill=folder, **more)

    def __repr__(self) -> str:
        columns = reprlib.repr(self.columns)
        return f"{type(self).__name__}({self.private!r}, {self.promise!r}, {self.declared!r}, {columns})"

    def fingerprint(self, key: bytes) -> bytes:
        """A keyed digest of the private table."""
        return self.private.fingerprint(key)

    @property
    def visible(self) -> Source:
        """The table without the column that names the person; only its names and types are read."""
        return self._visible()

    def _visible(self) -> Source:
        by = self.promise.privacy_id
        return self.private if by is None else self.private.without(by)

    def bounded(self) -> Source:
        """The rows, at most `contributions` of each person where a column names them. Reads rows."""
        by = self.promise.privacy_id
        return (
            self.private if by is None else self.private.bounded(by, self.promise.contributions, self.nobody)
        )

    @property
    def nobody(self) -> Sequence[str]:
        """Texts that the domain declares missing in the column that names the person."""
        by = self.promise.privacy_id
        if self.declared is None or by is None or by not in self.declared:
            return ()
        return self.declared[by].missing_values or ()


def declared_domain(domain: Domain | dict[str, Any] | str | Path | None) -> Domain | None:
    """The declared domain, from any form in which it may be passed."""
    if isinstance(domain, str | Path):
        domain = Domain.load(domain)
    elif isinstance(domain, dict):
        domain = Domain.from_dict(domain)
    if domain is None:
        return None
    if not isinstance(domain, Domain):
        raise InputError(
            f"domain={shown(domain)}: must be a Domain, a dictionary or the path of a domain file"
        )
    domain.check_reviewed()
    return domain


def _folder(spill: Any) -> Path | None:
    """The folder for codes. Raises InputError if it is not a folder that can be written."""
    if spill is None:
        return None
    fit = isinstance(spill, str | Path) and Path(spill).is_dir() and os.access(spill, os.W_OK | os.X_OK)
    if not fit:
        named = str(spill) if isinstance(spill, Path) else shown(spill)
        raise InputError(f"--spill {named}: must be a folder that can be written")
    return Path(spill)
