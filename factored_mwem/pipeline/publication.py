"""Publication: the files of a run, put in place one after the other, the record last.

After a failure no file is left, because a file without its record would be taken for a release. Files of an
earlier attempt of the same run must equal those of this one, and stay. When files of another release are
replaced, its record is removed before the first of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from factored_mwem.errors import FmwemError, InputError
from factored_mwem.files.crashpoints import reach
from factored_mwem.files.files import IfExists
from factored_mwem.ledger.run import Booking, Run
from factored_mwem.pipeline.record.manifest import read_record
from factored_mwem.pipeline.record.statement import Output, Replaced, Statement
from factored_mwem.tables.outputs.release_files import Files
from factored_mwem.tables.outputs.targets import Destination, Target, write_text

Kind = TypeVar("Kind", bound=Statement)
Kept = TypeVar("Kept", bound=Files)
MAX_RECORD = 2**24
"""Largest earlier record that is read, in bytes."""


class Publication(Generic[Kept]):
    """Puts files in place: `exists` says what happens to existing ones."""

    def __init__(self, files: Kept, exists: IfExists, booking: Booking = Booking()) -> None:
        """Raises InputError if a file may not be written; for a run with an id only the run can decide
        that.
        """
        self.files, self.exists = files, exists
        self._put: list[Destination] = []
        self._earlier: Replaced | None = None
        if booking.run_id is None:
            files.check(exists)

    def reused(self, run: Run) -> Statement | None:
        """The record of a run that was finished before, if its files are as it left them."""
        return read_record(self.files.manifest.read()) if reusable(run, self.files) else None

    @contextlib.contextmanager
    def of(self, run: Run) -> Iterator[None]:
        """The block makes the release and writes its files; after it the run is finished."""
        if run.is_resumed and self.exists is IfExists.REFUSE:  # an earlier attempt wrote the same files
            self.exists = IfExists.VERIFY
        self.files.check(self.exists)
        there = self.exists is IfExists.REPLACE and self.files.manifest.there()
        # pinned, for an attempt that died may have removed it
        earlier = run.pin({"earlier": _earlier(self.files.manifest).model_dump() if there else None})[
            "earlier"
        ]
        self._earlier = None if earlier is None else Replaced.model_validate(earlier)
        if run.is_resumed:
            for output in self.files.all:
                output.sweep()
        with self.undone():
            yield
        run.finish(self.files.digests)

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        """The block puts files in place; if it fails, they are removed again."""
        try:
            yield
        except BaseException:
            for output in self._put:
                with contextlib.suppress(FmwemError):  # what failed first is what to say
                    output.remove()
            raise

    def replacing(self) -> None:
        """Just before the first new file appears, remove the record of an earlier release."""
        if self.exists is IfExists.REPLACE:
            self.files.manifest.remove()

    def stated(self, statement: Kind) -> Kind:
        """The record, with the facts about an earlier one that it replaces."""
        if self._earlier is None:
            return statement
        return statement.model_copy(update={"replaced": self._earlier.together(statement.guarantee)})

    @contextlib.contextmanager
    def putting(self, output: Destination) -> Iterator[None]:
        """The block writes a file, whole or not at all; removed if something later fails, unless it stays."""
        stays = self.exists is IfExists.VERIFY and output.there()
        yield
        if not stays:
            self._put.append(output)

    def keep(self) -> None:
        """From now on no file is removed, whatever fails."""
        self._put.clear()

    def put(self, output: Destination, write: Callable[[IfExists], object], statement: Kind) -> Kind:
        """Let `write` write the one file of a run, and then its record."""
        self.replacing()
        with self.putting(output):
            write(self.exists)
        return self.record(statement, Output(file=output.name, sha256=output.sha256()))

    def record(self, statement: Kind, output: Output | None = None) -> Kind:
        """Write the record, the last of the files."""
        if output is not None:
            statement = statement.model_copy(update={"output": output})
        statement = self.stated(statement)
        self.replacing()
        reach("before manifest")
        write_text(self.files.manifest, statement.model_dump_json(indent=1) + "\n", self.exists)
        return statement


def reusable(run: Run, files: Files) -> bool:
    """Whether the run was finished before, and these files are what it wrote."""
    return run.was_finished and all(file.there() for file in files.all) and files.digests() in run.written


def _earlier(record: Target) -> Replaced:
    """The facts about a record that will be replaced."""
    content = record.read()
    try:
        return Replaced.before(read_record(content) if len(content) <= MAX_RECORD else None)
    except InputError:
        return Replaced.before(None)
