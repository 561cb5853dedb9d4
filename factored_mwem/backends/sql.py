"""SQL: rows that stay in their database. It encodes them, once, into a temporary table, and counts there by
the number of a marginal's cell; nothing but counts comes out.

The temporary table is a snapshot, made by one statement: whatever is written to the database meanwhile, every
pass sees the same rows.
"""

from __future__ import annotations

import contextlib
import uuid
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from factored_mwem.backends.datavectors import Axis, Datavectors
from factored_mwem.backends.source import Source, Spill
from factored_mwem.backends.sql_codes import DIALECTS, code_in_sql, refusal
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import Busy, FmwemError, InputError, ResourceError
from factored_mwem.tables.profile import ColumnProfile
from factored_mwem.tables.source import Private

MAX_FINE_CELLS = 2**20
"""Cells up to which a marginal is asked for as fine as its columns are, and all coarser ones over them are
added up from that.
"""
WAY_OUT = "leave out --push-down, and the rows are streamed here"


class Engine(Protocol):
    """A connection to a database."""

    quote: str

    def check(self, select: str, text: Sequence[str]) -> str | None:
        """Why the columns of a query cannot be compared as they are, `text` byte by byte; None where they
        can. Reads no row.
        """

    def run(self, statement: str) -> None:
        """Run a statement that gives nothing back."""

    def counted(self, query: str) -> tuple[np.ndarray, np.ndarray]:
        """(int64[cell], int64[its rows]) of a query with two columns."""


class PushedDown(Source):
    """A table of a database, as an Ibis expression, whose rows do not leave it."""

    __slots__ = ("_engine", "_table")

    def __init__(self, table: Any, engine: Engine) -> None:
        self._table, self._engine = table, engine

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema().to_pyarrow()

    @property
    def text(self) -> bool:
        return False

    def check_domain(self, domain: Domain | None) -> None:
        if domain is None:
            raise InputError(f"--push-down needs a declared domain (--domain FILE); or {WAY_OUT}")
        for attribute in domain:
            why = refusal(attribute, self._table[attribute.name].type())
            if why is not None:
                raise InputError(f"column {attribute.name!r} {why}; {WAY_OUT}")

    def without(self, privacy_id: str) -> NoReturn:
        raise InputError(f"--privacy-id cannot be had with --push-down; {WAY_OUT}")

    def bounded(self, privacy_id: str, most: int, missing: Sequence[str] = ()) -> NoReturn:
        self.without(privacy_id)

    def profile(self, columns: Sequence[str]) -> dict[str, ColumnProfile]:
        self.check_domain(None)
        raise AssertionError

    def fingerprint(self, key: bytes) -> NoReturn:
        what = "--run-id tells tables apart by their rows, which --push-down does not see"
        raise InputError(f"{what}; leave out --run-id, or {WAY_OUT}")

    def encoded(self, domain: Domain, spill: Spill) -> Datavectors:
        import ibis

        self.check_domain(domain)
        dialect = self._table.get_backend().name
        codes = {
            f"c{i}": code_in_sql(attribute, self._table[attribute.name], dialect).cast("int32")
            for i, attribute in enumerate(domain)
        }
        texts = [attribute.name for attribute in domain if attribute.type == "string"]
        columns = str(ibis.to_sql(self._table.select(*domain.names), dialect=dialect))
        why = _own_words("look at the table", lambda: self._engine.check(columns, texts))
        if why is not None:
            raise InputError(f"{why}; {WAY_OUT}")
        return SqlCounts(self._engine, str(ibis.to_sql(self._table.select(**codes), dialect=dialect)), domain)


class SqlCounts(Private):
    """Codes in a temporary table of a database, whose columns are c0, c1, ..."""

    __slots__ = ("__weakref__", "_engine", "_name", "_sizes")
    dear = True

    def __init__(self, engine: Engine, select: str, domain: Domain) -> None:
        """`select` gives the codes of the domain's attributes."""
        self._engine, self._sizes = engine, domain.shape
        self._name = f"{engine.quote}fmwem_{uuid.uuid4().hex}{engine.quote}"
        statement = f"CREATE TEMPORARY TABLE {self._name} AS {select}"
        _own_words("encode the table", lambda: engine.run(statement))
        weakref.finalize(self, _drop, engine, self._name)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self._sizes

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """See Datavectors. Marginals over the same columns are added up from one query, where it is small."""
        if np.diff(offsets).max(initial=0) >= 2**32:
            raise ResourceError(
                "a candidate marginal has more than 2^32 cells; lower --max-cells or the bins of the domain"
            )
        counts = np.zeros(int(offsets[-1]), dtype=np.int64)
        together: dict[tuple[int, ...], list[int]] = {}
        for number, row in enumerate(members.tolist()):
            together.setdefault(tuple(sorted({axes[i].column for i in row if i >= 0})), []).append(number)
        for columns, numbers in together.items():
            sizes = [self._sizes[column] for column in columns]
            fine = float(np.prod(np.array(sizes, dtype=np.float64))) <= MAX_FINE_CELLS
            if fine:
                cells, rows = self._counted([Axis(c, None, self._sizes[c]) for c in columns])
                codes = dict(zip(columns, np.unravel_index(cells, sizes), strict=True))
            for number in numbers:
                along = [axes[i] for i in members[number].tolist() if i >= 0]
                if fine:
                    cells = _cells([codes[axis.column] for axis in along], along)
                else:
                    cells, rows = self._counted(along)
                np.add.at(counts[offsets[number] : offsets[number + 1]], cells, rows)
        return counts

    def _counted(self, axes: Sequence[Axis]) -> tuple[np.ndarray, np.ndarray]:
        """(int64[cell], int64[its rows]) of the marginal over `axes`; cells without rows may be missing."""
        cell, step = [], 1
        for axis in reversed(axes):
            cell.append(f"CAST({self._code(axis)} AS BIGINT) * {step}")
            step *= axis.size
        query = f"SELECT {' + '.join(cell)} AS cell, COUNT(*) AS n FROM {self._name} GROUP BY 1"
        return _own_words("count", lambda: self._engine.counted(query))

    def _code(self, axis: Axis) -> str:
        name = f"{self._engine.quote}c{axis.column}{self._engine.quote}"
        if axis.lookup is None:
            return name
        usual = int(np.bincount(axis.lookup).argmax())
        cases = [f"WHEN {i} THEN {to}" for i, to in enumerate(axis.lookup.tolist()) if to != usual]
        return f"CASE {name} {' '.join(cases)} ELSE {usual} END" if cases else str(usual)


def _cells(codes: Sequence[np.ndarray], axes: Sequence[Axis]) -> np.ndarray:
    """int64: the number of each row's cell in the marginal over `axes`, row-major; `codes` are as encoded."""
    cell = np.zeros(len(codes[0]), dtype=np.int64)
    for code, axis in zip(codes, axes, strict=True):
        cell = cell * axis.size + (code if axis.lookup is None else axis.lookup[code])
    return cell


def _drop(engine: Engine, name: str) -> None:
    with contextlib.suppress(Exception):  # it is gone when the connection ends, in any case
        engine.run(f"DROP TABLE {name}")


def _own_words(what: str, ask: Any) -> Any:
    """What `ask` gives. Busy in our own words where the database fails: its own may quote a row."""
    try:
        return ask()
    except (FmwemError, MemoryError):
        raise
    except Exception:  # noqa: BLE001 - a driver may raise anything
        pass
    raise Busy(
        f"the database failed to {what}; see its log, and that the connection holds and may make "
        "temporary tables"
    )


class DuckDB:
    """A connection of duckdb."""

    quote = '"'

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def check(self, select: str, text: Sequence[str]) -> str | None:
        return None

    def run(self, statement: str) -> None:
        self._connection.execute(statement)

    def counted(self, query: str) -> tuple[np.ndarray, np.ndarray]:
        found = self._connection.execute(query).fetchnumpy()
        return found["cell"].astype(np.int64), found["n"].astype(np.int64)


TEXT, VARCHAR = 25, 1043
"""PostgreSQL's numbers of the types whose values are the bytes that they are written with."""


class Postgres:
    """A connection of psycopg."""

    quote = '"'

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def check(self, select: str, text: Sequence[str]) -> str | None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            (encoding,) = cursor.execute("SHOW server_encoding").fetchone()
            if encoding != "UTF8":
                return f"the database is encoded in {encoding}, not in UTF8"
            cursor.execute(f"SELECT * FROM ({select}) AS q LIMIT 0")
            kinds = {column.name: column.type_code for column in cursor.description}
        other = next((name for name in text if kinds[name] not in (TEXT, VARCHAR)), None)
        why = "is neither text nor varchar: what is equal to what is the type's own affair"
        return None if other is None else f"column {other!r} {why}"

    def run(self, statement: str) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute(statement)

    def counted(self, query: str) -> tuple[np.ndarray, np.ndarray]:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            found = np.array(cursor.execute(query).fetchall(), dtype=np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]


class ThroughIbis:
    """Any other backend of Ibis. Its SQL is compared with what is expected; none was at hand to run it on."""

    def __init__(self, backend: Any) -> None:
        self._backend, self.quote = backend, "`" if backend.name == "bigquery" else '"'

    def check(self, select: str, text: Sequence[str]) -> str | None:
        return None

    def run(self, statement: str) -> None:
        self._backend.raw_sql(statement)

    def counted(self, query: str) -> tuple[np.ndarray, np.ndarray]:
        found = self._backend.sql(query, schema={"cell": "int64", "n": "int64"}).to_pyarrow()
        return found["cell"].to_numpy().astype(np.int64), found["n"].to_numpy().astype(np.int64)


def engine_of(table: Any) -> Engine:
    """The connection behind an Ibis table. InputError where rows cannot stay there."""
    backend = table.get_backend()
    if backend.name not in DIALECTS:
        raise InputError(f"--push-down knows {', '.join(DIALECTS)}, not {backend.name}; {WAY_OUT}")
    if backend.name == "duckdb":
        return DuckDB(backend.con)
    return Postgres(backend.con) if backend.name == "postgres" else ThroughIbis(backend)
