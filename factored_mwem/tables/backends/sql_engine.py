"""SQL engine: a connection to a database, and codes in a temporary table of it, which counts them by the
number of a marginal's cell; nothing but counts comes out.

The temporary table is a snapshot, made by one statement: whatever is written to the database meanwhile, every
pass sees the same rows.
"""

from __future__ import annotations

import contextlib
import math
import uuid
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import Busy, InputError
from factored_mwem.tables.backends.counting import check_cells
from factored_mwem.tables.backends.datavectors import Axis, coarser
from factored_mwem.tables.inputs.arrow_input import unquoted
from factored_mwem.tables.inputs.table import Private

T = TypeVar("T")
MAX_FINE_CELLS = 2**20
"""Up to which a marginal is asked for as fine as its columns are; coarser ones are added up from it."""
DIALECTS = ("duckdb", "postgres", "bigquery", "snowflake")
"""What Ibis calls those whose spelling of bytes `sql_codes` knows."""
WAY_OUT = "leave out --push-down, and the rows are streamed here"


class Engine:
    """A connection to a database, through Ibis. For BigQuery and Snowflake the SQL is compared with what is
    expected; none was at hand to run it on.
    """

    def __init__(self, backend: Any) -> None:
        self.backend, self.quote = backend, "`" if backend.name == "bigquery" else '"'

    def check(self, select: str, text: Sequence[str]) -> str | None:
        """Why columns cannot be compared as they are, `text` byte by byte; None if they can. Reads no row."""
        return None

    def run(self, statement: str) -> None:
        """Run a statement that gives nothing back."""
        self.backend.raw_sql(statement)

    def counted(self, query: str) -> tuple[np.ndarray, np.ndarray]:
        """(int64[cell], int64[its rows]) of a query with two columns."""
        pairs = self.backend.sql(query, schema={"cell": "int64", "n": "int64"}).to_pyarrow()
        return pairs["cell"].to_numpy().astype(np.int64), pairs["n"].to_numpy().astype(np.int64)


class SqlCounts(Private):
    """Codes in a temporary table of a database, whose columns are c0, c1, ..., and w, what a row weighs,
    where not every row weighs one.
    """

    __slots__ = ("__weakref__", "_engine", "_name", "_sum", "sizes", "weighted")
    dear = True

    def __init__(self, engine: Engine, select: str, domain: Domain, *, weighted: bool = False) -> None:
        """`select` gives the codes of the domain's attributes, and weights where rows are `weighted`."""
        self._engine, self.sizes = engine, domain.shape
        self.weighted = weighted
        self._sum = f"CAST(SUM({engine.quote}w{engine.quote}) AS BIGINT)" if weighted else "COUNT(*)"
        self._name = f"{engine.quote}fmwem_{uuid.uuid4().hex}{engine.quote}"
        statement = f"CREATE TEMPORARY TABLE {self._name} AS {select}"
        own_words("encode the table", lambda: engine.run(statement))
        weakref.finalize(self, _drop, engine, self._name)

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """See Datavectors. Marginals over the same columns are added up from one query, where it is small."""
        check_cells(offsets)
        counts = np.zeros(int(offsets[-1]), dtype=np.int64)
        together: dict[tuple[int, ...], list[int]] = {}
        for number, row in enumerate(members.tolist()):
            together.setdefault(tuple(sorted({axes[i].column for i in row if i >= 0})), []).append(number)
        for columns, numbers in together.items():
            sizes = [self.sizes[column] for column in columns]
            fine = None
            if math.prod(sizes) <= MAX_FINE_CELLS:
                fine = np.zeros(sizes, dtype=np.int64)
                self._count([Axis(c, None, self.sizes[c]) for c in columns], fine.reshape(-1))
            for number in numbers:
                along = [axes[i] for i in members[number].tolist() if i >= 0]
                put = counts[offsets[number] : offsets[number + 1]]
                if fine is None:
                    self._count(along, put)
                else:
                    put[:] = coarser(fine, columns, along)
        return counts

    def _count(self, axes: Sequence[Axis], put: np.ndarray) -> None:
        """The marginal over `axes`, row-major, into `put`: int64[cell] of zeros."""
        cell, step = [], 1
        for axis in reversed(axes):
            cell.append(f"CAST({self._code(axis)} AS BIGINT) * {step}")
            step *= axis.size
        query = f"SELECT {' + '.join(cell)} AS cell, {self._sum} AS n FROM {self._name} GROUP BY 1"
        cells, rows = own_words("count", lambda: self._engine.counted(query))
        put[cells] = rows

    def _code(self, axis: Axis) -> str:
        name = f"{self._engine.quote}c{axis.column}{self._engine.quote}"
        if axis.lookup is None:
            return name
        usual = int(np.bincount(axis.lookup).argmax())
        cases = [f"WHEN {i} THEN {to}" for i, to in enumerate(axis.lookup.tolist()) if to != usual]
        return f"CASE {name} {' '.join(cases)} ELSE {usual} END" if cases else str(usual)


def _drop(engine: Engine, name: str) -> None:
    with contextlib.suppress(Exception):  # it is gone when the connection ends, in any case
        engine.run(f"DROP TABLE {name}")


def own_words(what: str, ask: Callable[[], T]) -> T:
    """What `ask` gives. Busy in our own words where the database fails: its own may quote a row."""
    how = "see its log, and that the connection holds and may make temporary tables"
    return unquoted(ask, lambda _: Busy(f"the database failed to {what}; {how}"))


TEXT, VARCHAR = 25, 1043
"""PostgreSQL's numbers of the types whose values are the bytes that they are written with."""


class Postgres(Engine):
    """A connection of psycopg."""

    def check(self, select: str, text: Sequence[str]) -> str | None:
        with self.backend.con.transaction(), self.backend.con.cursor() as cursor:
            (encoding,) = cursor.execute("SHOW server_encoding").fetchone()
            if encoding != "UTF8":
                return f"the database is encoded in {encoding}, not in UTF8"
            cursor.execute(f"SELECT * FROM ({select}) AS q LIMIT 0")
            kinds = {column.name: column.type_code for column in cursor.description}
        other = next((name for name in text if kinds[name] not in (TEXT, VARCHAR)), None)
        why = "is neither text nor varchar: what is equal to what is the type's own affair"
        return None if other is None else f"column {other!r} {why}"

    def run(self, statement: str) -> None:
        with self.backend.con.transaction(), self.backend.con.cursor() as cursor:
            cursor.execute(statement)

    def counted(self, query: str) -> tuple[np.ndarray, np.ndarray]:
        with self.backend.con.transaction(), self.backend.con.cursor() as cursor:
            pairs = np.array(cursor.execute(query).fetchall(), dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


def engine_of(table: Any) -> Engine:
    """The connection behind an Ibis table. Raises InputError if rows cannot stay there."""
    backend = table.get_backend()
    if backend.name not in DIALECTS:
        raise InputError(f"--push-down knows {', '.join(DIALECTS)}, not {backend.name}; {WAY_OUT}")
    return Postgres(backend) if backend.name == "postgres" else Engine(backend)
