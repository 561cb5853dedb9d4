"""Local: a private table whose rows this process reads, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.tables.backends.codes import encode_table
from factored_mwem.tables.backends.datavectors import Datavectors
from factored_mwem.tables.backends.source import OpenedSource, Spill
from factored_mwem.tables.inputs.table import Table

if TYPE_CHECKING:
    from factored_mwem.tables.backends.people import People
    from factored_mwem.tables.codes.broken import Hypothesis
    from factored_mwem.tables.codes.profile import ColumnProfile
    from factored_mwem.tables.codes.rest import Known
    from factored_mwem.tables.inputs.people import RowOrder


class Local(OpenedSource):
    """A table whose rows this process reads, batch by batch."""

    __slots__ = ("folder_columns", "form", "schema", "table", "text", "zone")

    def __init__(self, table: Table) -> None:
        self.table, self.schema, self.text = table, table.schema, table.text
        self.form, self.folder_columns, self.zone = table.form, table.folder_columns, table.zone

    def without(self, privacy_id: str) -> Local:
        from factored_mwem.tables.inputs.contributions import without

        return Local(without(self.table, privacy_id))

    def bounded(self, privacy_id: str, most: int, missing: Sequence[str] = ()) -> Local:
        from factored_mwem.tables.inputs.contributions import bound_contributions

        return Local(bound_contributions(self.table, privacy_id, most, missing))

    def with_rows_of_people(self, privacy_id: str) -> Local:
        from factored_mwem.tables.inputs.people import with_rows_of_person

        return Local(with_rows_of_person(self.table, privacy_id))

    def people(
        self,
        privacy_id: str,
        most: int,
        weight: Callable[[int], int],
        missing: Sequence[str] = (),
        order: RowOrder | None = None,
    ) -> People:
        from factored_mwem.tables.backends.people import People
        from factored_mwem.tables.inputs.people import rows_of_people

        return People(*rows_of_people(self.table, privacy_id, most, missing, order), weight)

    def profile(self, columns: Sequence[str]) -> dict[str, ColumnProfile]:
        from factored_mwem.tables.codes.profile import profile

        return profile(self.table, columns)

    def weighed(self, known: Mapping[str, Known]) -> dict[str, ColumnProfile]:
        from factored_mwem.tables.codes.rest import weighed

        return weighed(self.table, known)

    def broken_rows(self, known: Mapping[str, Known], hypotheses: Sequence[Hypothesis]) -> np.ndarray:
        from factored_mwem.tables.codes.broken import count_broken

        return count_broken(self.table, known, hypotheses)

    def encoded(self, domain: Domain, spill: Spill) -> Datavectors:
        return encode_table(domain, self.table.once(), spill.most, spill.folder)

    def fingerprint(self, key: bytes) -> bytes:
        from factored_mwem.tables.inputs.fingerprint import fingerprint

        return fingerprint(self.table, key)

    def read_here(self, why: str) -> Table:
        return self.table
