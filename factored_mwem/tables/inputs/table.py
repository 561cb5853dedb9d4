"""Table: names, Arrow types and a stream of record batches that can be read twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pyarrow as pa

from factored_mwem.errors import InputError, did_you_mean
from factored_mwem.tables.inputs.input_file import Origin
from factored_mwem.tables.inputs.text_form import TextForm

Pass = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Starts a fresh pass over the rows of some columns."""


class Private:
    """Base of what holds private rows or numbers: they show in no log, pickle or copy."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds private numbers and cannot be pickled or copied")

    def __getstate__(self) -> NoReturn:
        self.__reduce_ex__(2)


class Visible(Private):
    """A private table, of which everybody may know what is listed here."""

    __slots__ = ()
    schema: pa.Schema
    """Names and Arrow types of the columns."""
    text: bool
    """Whether every column is raw text whose type only the domain can tell (CSV)."""
    form: TextForm | None = None
    """How such a text is written."""
    folder_columns: tuple[str, ...] = ()
    """Columns of a typed table that are text whose type only the domain can tell: names of folders say it."""
    zone: str | None = None
    """Of timestamps in a text table, which come back in it."""

    def check_column(self, name: str, what: str = "") -> None:
        """Raises InputError if there is no such column, with those that there are."""
        if name not in self.schema.names:
            known = ", ".join(self.schema.names[:12])
            close = did_you_mean(name, self.schema.names)
            raise InputError(f"no column {name!r}{what} in the table{close}; it has {known}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table(Visible):
    """What is visible of a table, and `read`, which starts a fresh pass over some columns' rows.

    A column of text may come as a dictionary, from batch to batch another one.
    """

    schema: pa.Schema
    text: bool
    read: Pass
    form: TextForm | None = None
    origin: Origin | None = None
    """The file, or the files, behind it."""
    folder_columns: tuple[str, ...] = ()
    zone: str | None = None
    __getstate__ = Private.__getstate__

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of `columns`, in order. Raises InputError if the file is broken, Changed if it was
        changed.

        It is looked at before and after every pass: so before the first charge, which follows a pass, and
        before the noise that follows another.
        """
        self._check()
        yield from self.read(columns)
        self._check()

    def once(self) -> Table:
        """The same table for a pass that no other follows: a stream need not be recorded for it."""
        return replace(self, read=getattr(self.read, "once", self.read))

    def _check(self) -> None:
        if self.origin is not None:
            self.origin.check()
