"""People: NOT PRIVATE. The people of the real table and the made-up ones of a synthetic table: how many rows
each has, and how the rows of one person depend on each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from factored_mwem.errors import InputError
from factored_mwem.owner.evaluation.people_columns import PeopleColumn, column_of_people
from factored_mwem.owner.evaluation.people_rows import PeopleRows, order_of, read_people
from factored_mwem.owner.evaluation.readings import Values, comparable
from factored_mwem.owner.evaluation.value_errors import DAY, Pair
from factored_mwem.pipeline.record.manifest import Manifest, PeopleFacts, read_record
from factored_mwem.tables.inputs.source import Table
from factored_mwem.tables.outputs.release_files import manifest_of
from factored_mwem.tables.outputs.targets import target_of

DIGITS = 6
"""Significant digits of figures for scripts; further digits are random."""


class Gaps(NamedTuple):
    """NOT PRIVATE. From a row of a person to the next, by the column that orders them: in days of moments."""

    moments: bool
    mean: Pair[float]
    kolmogorov_smirnov: float
    """The greatest distance between the two cumulative shares, 0 to 1."""


@dataclass(frozen=True, slots=True)
class PeopleErrors:
    """NOT PRIVATE. People in both tables; each weighs one, however many rows they have."""

    column: str
    """The column that names them."""
    people: Pair[int]
    rows: Pair[float]
    """Mean number of rows of a person."""
    rows_distance: float
    """Total variation between how many rows people have, 0 to 1."""
    order_by: str | None
    """The column that says which row of a person is the first; None where rows are as they stand."""
    gaps: Gaps | None
    columns: tuple[PeopleColumn, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """Plain values for scripts, ready for JSON."""
        return _rounded(asdict(self) | {"gaps": self.gaps._asdict() if self.gaps is not None else None})


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def people_of_release(synthetic: Any) -> PeopleFacts | None:
    """The people who are made up, as the manifest beside a release's file says."""
    if isinstance(synthetic, str | Path):
        with contextlib.suppress(InputError, OSError, ValueError):
            record = read_record(manifest_of(target_of(synthetic)).read())
            if isinstance(record, Manifest):
                return record.people
    return None


class WhosePeople(TypedDict, total=False):
    """The columns of both tables that name people, and that put the rows of one in order."""

    privacy_id: str | None
    order_by: str | None


class Persons:
    """NOT PRIVATE. The rows of people in both tables, in order; `compare` takes one column after the
    other.
    """

    def __init__(self, tables: Pair[Table], column: str, order_by: str | None) -> None:
        self.column, self.order_by, self.columns = column, order_by, list[PeopleColumn]()
        keys = order_of(tables, order_by) if order_by is not None else None
        first, second = (
            read_people(table, column, None if keys is None else keys.ranks[t])
            for t, table in enumerate(tables)
        )
        self.rows: Pair[PeopleRows] = (first, second)
        self.gaps = _gaps(self.rows, keys.numbers, moments=keys.moments) if keys is not None else None

    @classmethod
    def of(
        cls, tables: Pair[Table], made_up: PeopleFacts | None, **whose: Unpack[WhosePeople]
    ) -> Persons | None:
        """The people in the column that is named, else the made-up people of the release; None if there are
        none.

        Raises InputError if there is no such column, or none that tells an order.
        """
        column, order_by = whose.get("privacy_id"), whose.get("order_by")
        if column is None and made_up is not None:
            column = made_up.column
            if any(column not in table.schema.names for table in tables):
                return None
            order_by = order_by if order_by is not None else made_up.order_by
        if column is None:
            if order_by is not None:
                raise InputError(
                    "--order-by sorts the rows of a person: name the column of people with --privacy-id"
                )
            return None
        for table in tables:
            for name, flag in ((column, "--privacy-id"), (order_by, "--order-by")):
                if name is not None:
                    table.check_column(name, f" for {flag}")
                    if not comparable(table.schema.field(name).type):
                        raise InputError(f"{flag} {name!r}: its values cannot be compared; name another")
        return cls(tables, column, order_by)

    def compare(self, name: str, values: Pair[Values], codes: Pair[np.ndarray], unit: Any) -> None:
        """Add what is known of a column: its values, and their bins."""
        ordered = self.order_by is not None and name != self.order_by
        if name != self.column and all(len(rows) for rows in self.rows):
            self.columns.append(column_of_people(name, self.rows, values, codes, unit, ordered=ordered))

    @property
    def errors(self) -> PeopleErrors:
        """The errors of all columns that were compared. Raises InputError if a table holds no id."""
        for which, rows in zip(("real", "synthetic"), self.rows, strict=True):
            if not len(rows):
                raise InputError(f"column {self.column!r} of the {which} table holds no id")
        sizes = [rows.sizes for rows in self.rows]
        most = max(int(each.max()) for each in sizes)
        shares = [np.bincount(each, minlength=most + 1) / len(each) for each in sizes]
        return PeopleErrors(
            self.column,
            (len(sizes[0]), len(sizes[1])),
            (float(sizes[0].mean()), float(sizes[1].mean())),
            float(np.abs(shares[0] - shares[1]).sum() / 2),
            self.order_by,
            self.gaps,
            tuple(self.columns),
        )


def _gaps(rows: Pair[PeopleRows], numbers: Sequence[np.ndarray] | None, *, moments: bool) -> Gaps | None:
    """From row to row; None where the order is not one of numbers, or nobody has two rows with one."""
    if numbers is None:
        return None
    gaps = list(_differences(rows, numbers, DAY if moments else 1.0))
    if not all(len(each) for each in gaps):
        return None
    both = np.sort(np.concatenate(gaps))
    reached = [np.searchsorted(np.sort(each), both, side="right") / len(each) for each in gaps]
    apart = float(np.abs(reached[0] - reached[1]).max())
    return Gaps(moments, (float(gaps[0].mean()), float(gaps[1].mean())), apart)


def _differences(rows: Pair[PeopleRows], numbers: Sequence[np.ndarray], one: float) -> Iterator[np.ndarray]:
    for own, values in zip(rows, numbers, strict=True):
        ordered = values[own.order]
        apart = (ordered[own.following] - ordered[own.following - 1]) / one
        yield apart[~np.isnan(apart)]
