"""Text sheet: the records of a text file as bytes, to be put together anew. NOT PRIVATE."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.random import Generator

from factored_mwem.tables.delimited import cells_of, leaves_open
from factored_mwem.tables.source import Private
from factored_mwem.tables.suffixes import suffix_of
from factored_mwem.tables.text_form import Form
from factored_mwem.verifier.hostile import breaks_lines, choose, lines, quoted_cells, raw_cells
from factored_mwem.verifier.stranger import Stranger, new_texts


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lines(Private):
    """A text file: its header line and its records as bytes, without their line ends."""

    header: bytes
    records: list[bytes]
    owners: list[Any]
    form: Form
    privacy_id: str | None
    target: Path

    @classmethod
    def read(cls, path: Path, form: Form, privacy_id: str | None, folder: Path) -> Lines:
        data, end = path.read_bytes(), form.line_end
        data = gzip.decompress(data) if form.packed else data
        header, records = data[: form.begins].removesuffix(end), data[form.begins :].split(end)
        if not records[-1]:
            records.pop()
        if form.records == "multiline":
            records = _joined(records, form)
        if len(form.names) > 1:  # an empty line is no record
            records = [record for record in records if record and (form.both or record != b"\r")]
        sheet = cls(header, records, [], form, privacy_id, folder / f"neighbour{suffix_of(path)}")
        return replace(sheet, owners=[sheet._owner(record) for record in records])

    @property
    def delimiter(self) -> bytes:
        return self.form.delimiter.encode()

    def _owner(self, record: bytes) -> Any:
        """The id as the reader finds it: none in a line that cannot be cut, nor in a cell that is no text."""
        cells = None if self.privacy_id is None else cells_of(record, self.form)
        if cells is None:
            return None
        try:
            return cells[self.form.names.index(str(self.privacy_id))].decode() or None
        except UnicodeDecodeError:
            return None

    def grow(self, wanted: Sequence[Stranger], rng: Generator) -> tuple[Lines, list[str], list[bool]]:
        made = [self._row(stranger, rng) for stranger in wanted]
        records = [*self.records, *(row.record for row in made)]
        grown = replace(self, records=records, owners=[*self.owners, *(row.owner for row in made)])
        return grown, [row.words for row in made], [row.breaks for row in made]

    def _row(self, stranger: Stranger, rng: Generator) -> _Row:
        multiline, names, owner = self.form.records == "multiline", self.form.names, stranger.owner
        like = cells_of(self.records[stranger.like], self.form)
        if like is None and not stranger.hostile:
            return _Row(self.records[stranger.like], "a copy of a line that is no row", True, None)
        like = like or [b""] * len(names)
        cells = [self._cell(cell) for cell in like]
        held = None if self.privacy_id is None else names.index(self.privacy_id)
        if held is not None:
            cells[held] = self._cell(str(stranger.person or "").encode())
        if not stranger.hostile:
            return _Row(self.delimiter.join(cells), "a copy of a row", False, owner)
        free = [at for at in range(len(names)) if at != held]
        if not multiline and held is None and rng.random() < 0.1:
            words, record = choose([lines(self.delimiter.join(cells), self.delimiter, len(names))], rng)
            return _Row(record, words, True, owner)
        column = free[rng.integers(len(free))]
        existing = like[column].replace(b'"', b"")
        families = quoted_cells(existing) if multiline else raw_cells(existing, self.delimiter)
        words, cell = choose(families, rng)
        cells[column] = cell
        breaks = not cell.startswith(b'"') if multiline else breaks_lines(cell) or "bare separator" in words
        said = f"a row with {words} in column {names[column]!r}"
        return _Row(self.delimiter.join(cells), said, breaks, owner)

    def _cell(self, raw: bytes) -> bytes:
        """In quotes where it needs them."""
        special = (self.delimiter, b'"', b"\r", b"\n")
        return b'"' + raw.replace(b'"', b'""') + b'"' if any(c in raw for c in special) else raw

    def new_persons(self, most: int) -> list[Any]:
        return new_texts(self.owners, most)

    def source(self, order: Sequence[int]) -> Path:
        data = self.form.line_end.join([self.header, *(self.records[number] for number in order), b""])
        self.target.write_bytes(gzip.compress(data, 1) if self.form.packed else data)
        return self.target


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Row(Private):
    """A line that was made."""

    record: bytes
    words: str
    """What it is."""
    breaks: bool
    """Whether a reader may refuse a whole table over it."""
    owner: Any


def _joined(lines_read: Sequence[bytes], form: Form) -> list[bytes]:
    """Lines put together to records: a record goes on while a quote is open."""
    records, record, is_open = list[bytes](), list[bytes](), False
    for line in lines_read:
        record.append(line)
        is_open = leaves_open(line, form, is_open=is_open)
        if not is_open:
            records.append(form.line_end.join(record))
            record = []
    return [*records, form.line_end.join(record)] if record else records
