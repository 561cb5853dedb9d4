"""Sheet: a private table as rows that can be put together anew, with strangers' rows beside its own.

NOT PRIVATE: for `fmwem verify` alone. A table is then an order of row numbers, and a neighbour another order.
Text files are put together from their bytes, all else from Arrow's rows; what comes out is of the kind that
came in, for the way through its reader is part of what is verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from numpy.random import Generator

from factored_mwem.backends.source import Local
from factored_mwem.errors import InputError
from factored_mwem.request import Request
from factored_mwem.tables.arrow_input import without_dictionaries
from factored_mwem.tables.encodings import UTF_8
from factored_mwem.tables.input_file import InputFile
from factored_mwem.tables.source import is_text_file
from factored_mwem.tables.suffixes import DELIMITED_SUFFIXES, suffix_of
from factored_mwem.tables.text_form import read_form
from factored_mwem.tables.uris import is_uri
from factored_mwem.verifier.stranger import Stranger
from factored_mwem.verifier.text_sheet import Lines
from factored_mwem.verifier.typed_sheet import Rows


class Sheet(Protocol):
    """The rows of a table by number."""

    @property
    def owners(self) -> list[Any]:
        """Of each row its privacy id; None where it has none, or the table has no such column."""

    def grow(self, wanted: Sequence[Stranger], rng: Generator) -> tuple[Sheet, list[str], list[bool]]:
        """A sheet with these rows after its own; what each is; whether it may get all of them refused."""

    def new_persons(self, most: int) -> list[Any]:
        """Up to `most` different privacy ids that nobody in the table has. InputError where there is none."""

    def source(self, order: Sequence[int]) -> Any:
        """The table of these rows, to be opened like any other."""


def sheet_of(source: Any, request: Request, folder: Path) -> Sheet:
    """The rows of a table. `folder` is private, for tables that must be files."""
    by_id = request.policy.privacy_id
    if is_text_file(source):
        _check_plain(source, request)
        form = request.private.form
        if form is None:  # a planted reader may not say
            form = read_form(InputFile(Path(source)), request.policy.records)
        return Lines.read(Path(source), form, by_id, folder)
    schema = request.private.schema
    if not isinstance(request.private, Local):
        raise InputError("verify changes rows of a table on this machine; give it a file or a data frame")
    read = request.private.table.batches(schema.names)
    batches = (without_dictionaries(batch, schema) for batch in read)
    table = pa.Table.from_batches(list(batches), schema)
    suffix = Path(source).suffix.lower() if isinstance(source, str | Path) else ""
    types = source.dtypes if type(source).__module__.split(".")[0] == "pandas" else None
    return Rows.of(table, by_id, folder, suffix, types)


def _check_plain(source: Any, request: Request) -> None:
    """InputError for text that is not put together anew: packed but by gzip, not UTF-8, several files."""
    form = request.private.form
    if not isinstance(source, list | tuple) and not is_uri(source) and Path(source).is_file():
        plain = form is None or (form.packed in ("", "gzip") and form.encoding in UTF_8 and form.names[0])
        if plain and suffix_of(Path(source)) in DELIMITED_SUFFIXES:
            return
    what = "one CSV or TSV file of this machine, in UTF-8, plain or .gz, all its columns named"
    raise InputError(f"verify takes text from {what}; write the table so, or as Parquet")
