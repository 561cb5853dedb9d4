"""Source: a private table wherever it lives, as a release meets it: names and types are public, rows are read
by a few verbs only. `open_source` is the door for every kind of table.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from factored_mwem.backends.codes import encode_table
from factored_mwem.backends.datavectors import Datavectors
from factored_mwem.domain.dialect import PLAIN, Dialect
from factored_mwem.domain.domain import Domain
from factored_mwem.tables.contributions import bound_contributions, without
from factored_mwem.tables.fingerprint import fingerprint
from factored_mwem.tables.profile import ColumnProfile, profile
from factored_mwem.tables.source import Private, Table, check_column, open_table
from factored_mwem.tables.spelling import respelt
from factored_mwem.tables.text_form import Form, Records


class Spill(NamedTuple):
    """Where codes go that are too many for the memory they may take."""

    most: float
    """Bytes of codes that may be in memory."""
    folder: Path | None = None
    """Where files for more are made; the system's folder for temporary files where none is named."""


IN_MEMORY = Spill(math.inf)


class Source(Private):
    """A private table. Only what is said to read rows does; the rest follows from names and types."""

    __slots__ = ()

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Names and Arrow types of its columns: public."""

    @property
    @abstractmethod
    def text(self) -> bool:
        """Whether every column is raw text whose type only the domain can tell (CSV)."""

    @property
    def form(self) -> Form | None:
        """How such a text is written, where it is one."""
        return None

    @property
    def cluster(self) -> str | None:
        """What reads the rows on other machines than this one, if something does."""
        return None

    @property
    def said(self) -> tuple[str, ...]:
        """Columns of a typed table that are text whose type only the domain can tell."""
        return ()

    @property
    def zone(self) -> str | None:
        """Of timestamps in a text table, which come back in it."""
        return None

    def check_column(self, name: str, what: str = "") -> None:
        """InputError where there is no such column, with those that there are."""
        check_column(self.schema, name, what)

    def check_domain(self, domain: Domain | None) -> None:
        """InputError where rows cannot be encoded by this domain, or, without one, a domain cannot be learnt
        of them: by names and types alone.
        """

    @abstractmethod
    def without(self, privacy_id: str) -> Source:
        """The table as if it had no such column; InputError where it does not name people exactly."""

    @abstractmethod
    def bounded(self, privacy_id: str, most: int, missing: Sequence[str] = ()) -> Source:
        """The table without column `privacy_id` and with at most `most` rows of each person, chosen by a rule
        that looks at that person's rows alone; without the rows that name nobody (null, empty or one of
        `missing`). May read rows.
        """

    @abstractmethod
    def profile(self, columns: Sequence[str]) -> dict[str, ColumnProfile]:
        """What each column holds, in one pass over the rows: private."""

    @abstractmethod
    def encoded(self, domain: Domain, spill: Spill) -> Datavectors:
        """The rows of the domain's columns as codes. May read rows, or do so later, in every pass."""

    @abstractmethod
    def fingerprint(self, key: bytes) -> bytes:
        """A keyed code of all rows, for the private ledger alone. Reads rows."""


class Local(Source):
    """A table whose rows this process reads, batch by batch."""

    __slots__ = ("table",)

    def __init__(self, table: Table) -> None:
        self.table = table

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def text(self) -> bool:
        return self.table.text

    @property
    def form(self) -> Form | None:
        return self.table.form

    @property
    def said(self) -> tuple[str, ...]:
        return self.table.said

    @property
    def zone(self) -> str | None:
        return self.table.zone

    def without(self, privacy_id: str) -> Local:
        return Local(without(self.table, privacy_id))

    def bounded(self, privacy_id: str, most: int, missing: Sequence[str] = ()) -> Local:
        return Local(bound_contributions(self.table, privacy_id, most, missing))

    def profile(self, columns: Sequence[str]) -> dict[str, ColumnProfile]:
        return profile(self.table, columns)

    def encoded(self, domain: Domain, spill: Spill) -> Datavectors:
        return encode_table(domain, self.table.once(), spill.most, spill.folder)

    def fingerprint(self, key: bytes) -> bytes:
        return fingerprint(self.table, key)


def open_source(
    source: Any,
    records: Records = "checked",
    dialect: Dialect = PLAIN,
    names: Sequence[str] | None = None,
    domain: Domain | None = None,
    privacy_id: str | None = None,
    folder: Path | None = None,
) -> Source:
    """A path, a URI, a data frame or anything else that holds a table; `records` as in Policy. InputError
    where it is none. Reads no row, as far as its kind allows.

    `dialect`: how a text file is written, whose columns are read by their types in `domain`, but for
    `privacy_id`; `names`: the columns of JSON lines; `folder`: where a stream leaves what it must.
    """
    if isinstance(source, Source):
        return source
    from factored_mwem.backends import spark  # which builds on this module

    if spark.is_frame(source):
        return spark.open_frame(source, records)
    return Local(respelt(open_table(source, records, dialect, names, folder), dialect, domain, privacy_id))
