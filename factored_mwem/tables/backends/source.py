"""Source: a private table wherever it lives: names and types are public, few verbs read its rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.tables.backends.datavectors import Datavectors
from factored_mwem.tables.inputs.table import Table, Visible

if TYPE_CHECKING:
    import numpy as np

    from factored_mwem.tables.codes.agreement import Groupings
    from factored_mwem.tables.codes.broken import Hypothesis
    from factored_mwem.tables.codes.profile import ColumnProfile
    from factored_mwem.tables.codes.rest import Known
    from factored_mwem.tables.inputs.people import RowOrder


class Spill(NamedTuple):
    """Where codes go that are too many for the memory they may take."""

    most: float
    """Bytes of codes that may be in memory."""
    folder: Path | None = None
    """Where files for more are made; the system's folder for temporary files where none is named."""


IN_MEMORY = Spill(math.inf)


class Source(Visible):
    """A private table. Only what is said to read rows does; the rest follows from names and types."""

    __slots__ = ()
    cluster: str | None = None
    """What reads the rows on other machines than this one, if something does."""

    def check_domain(self, domain: Domain | None) -> None:
        """Raises InputError if rows cannot be encoded by this domain, or, without one, a domain cannot be
        learnt of them: by names and types alone.
        """

    def read_here(self, why: str) -> Table:
        """The table of which this process reads the rows; `why` is what an InputError says where it does not.
        Reads none.
        """
        raise InputError(why)

    @abstractmethod
    def profile(self, columns: Sequence[str]) -> dict[str, ColumnProfile]:
        """What each column holds, in one pass over the rows: private."""

    @abstractmethod
    def weighed(self, known: Mapping[str, Known]) -> dict[str, ColumnProfile]:
        """The profile of each of these columns without the values that are known, in one pass; what counts is
        the share of its weight that each row gives a value (`codes/rest.py`): private.
        """

    @abstractmethod
    def broken_rows(self, known: Mapping[str, Known], hypotheses: Sequence[Hypothesis]) -> np.ndarray:
        """int64[hypothesis]: the rows that break each, of columns read as is `known`; one pass: private."""

    @abstractmethod
    def encoded(self, domain: Domain, spill: Spill) -> Datavectors:
        """The rows of the domain's columns as codes. May read rows, or do so later, in every pass."""


class OpenedSource(Source):
    """A private table as it was opened, with whatever column names people."""

    __slots__ = ()

    @abstractmethod
    def without(self, privacy_id: str) -> Source:
        """The table as if it had no such column; raises InputError if it does not name people exactly."""

    @abstractmethod
    def bounded(self, privacy_id: str, most: int, missing: Sequence[str] = ()) -> Source:
        """The table without column `privacy_id` and with at most `most` rows of each person, chosen by a rule
        that looks at that person's rows alone; without the rows that name nobody (null, empty or one of
        `missing`). May read rows.
        """

    @abstractmethod
    def with_rows_of_people(self, privacy_id: str) -> Source:
        """The table's names and types without column `privacy_id` and with ROWS_OF_PERSON. Raises InputError
        where people cannot be counted.
        """

    @abstractmethod
    def people(
        self,
        privacy_id: str,
        most: int,
        weight: Callable[[int], int],
        missing: Sequence[str] = (),
        order: RowOrder | None = None,
    ) -> PeopleSource:
        """With at most `most` rows of each person, of whom a row of a person with n weighs `weight(n)`;
        without the rows that name nobody (null, empty or one of `missing`). May read ids. Raises InputError
        where people cannot be counted, or their rows not put in order.
        """

    def gathered(self, reference: str | None, most: int) -> Table:
        """The table, for this process to read wherever its rows are. Reads none; InputError where it cannot.

        Where a cluster hands rows over, their order follows from their cells alone. If a column `reference`
        is named, at most `most` rows with the same cell there come, chosen by a rule that looks at these
        alone, and none without one.
        """
        return self.read_here("tables that belong together are read by this program: name files or frames")

    @abstractmethod
    def fingerprint(self, key: bytes) -> bytes:
        """A keyed code of all rows, for the private ledger alone. Reads rows."""


def refuse_order(order: RowOrder | None) -> None:
    """Raises InputError where rows that are not read here should be in order."""
    if order is not None:
        raise InputError("--order-by needs rows that this program reads, not those of a database or cluster")


class PeopleSource(Source):
    """A private table without its ids, at most so many rows of each person, beside how many of them are used
    (ROWS_OF_PERSON); profiles and counts are in grains (`accounting/unit.py`).
    """

    __slots__ = ()

    @abstractmethod
    def people_by_rows(self, most: int) -> np.ndarray:
        """int64[most]: how many people have 1, 2, ... rows that are used. Private; may read rows."""

    @abstractmethod
    def constancy(self, columns: Sequence[str]) -> np.ndarray:
        """int64[columns + 1]: of the people of two rows or more those of whom all have the same cell in a
        column; last, all those. Private; reads rows. Cells are the same where their values are, by the
        column's type; a null is a value, too.
        """

    @abstractmethod
    def pairs_alike(
        self, domain: Domain, groupings: Groupings, spill: Spill, family: str | None = None
    ) -> np.ndarray:
        """int64[1 + groupings], in grains, of the rows that are used, as codes of the domain: how many people
        have several, and how often two of a person's rows agree, see `agreement_of`. If a column `family` is
        named, of rows read here alone, its cells part the rows of each person. Private; reads rows.
        """
