"""SQL: rows that stay in their database, plain ones or those of people, each of whom weighs one. It encodes
them, once, and finds who has how many rows, which of them are used and what they weigh; nothing but counts
comes out (`sql_engine`).

Which rows of a person are used, where not all are: the first in the order of an MD5 of the person's id, the
row's codes and, of rows with the same codes, a number from 0 on. So it looks at that person's rows alone, in
whatever order they are stored, and is the same in every database. Rows with the same codes are the same to
every count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from factored_mwem.domain.attribute import ROWS_OF_PERSON
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.tables.backends.datavectors import Datavectors
from factored_mwem.tables.backends.source import OpenedSource, PeopleSource, Spill, refuse_order
from factored_mwem.tables.backends.sql_engine import WAY_OUT, SqlCounts, engine_of, own_words
from factored_mwem.tables.codes.agreement import Groupings
from factored_mwem.tables.codes.broken import Hypothesis
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.codes.rest import Known
from factored_mwem.tables.inputs.arrow_input import is_of
from factored_mwem.tables.inputs.contributions import NOBODY
from factored_mwem.tables.inputs.databases import ibis_table
from factored_mwem.tables.inputs.uris import is_database

if TYPE_CHECKING:
    from factored_mwem.tables.inputs.people import RowOrder

PERSON = "fmwem person"
"""A column that no released one is called: who a row is of, as it is compared."""


def push_down(table: Any) -> OpenedSource:
    """A table whose rows stay in their database, for `release` and whatever else takes a table.

    `table`: one of Ibis, or a URI such as `postgresql://ana@db/shop#sales.people`. The database encodes and
    counts; only counts leave it.

    Raises:
        InputError: the table is not in a database that can do this.

    >>> from factored_mwem import InputError, push_down
    >>> try:
    ...     push_down("people.csv")
    ... except InputError as error:
    ...     print(error)
    rows can be left where they are only in a database: give --push-down (push_down) an Ibis table ...
    """
    if is_of(table, "ibis", "Table"):
        return PushedDown(table)
    if not is_database(table):
        raise InputError(
            "rows can be left where they are only in a database: give --push-down (push_down) an Ibis table "
            "or the URI of one such as duckdb:///shop.db#people"
        )
    return PushedDown(ibis_table(table))


class PushedDown(OpenedSource):
    """A table of a database, as an Ibis expression, whose rows do not leave it."""

    __slots__ = ("_engine", "dialect", "schema", "table")
    text = False

    def __init__(self, table: Any) -> None:
        self.table, self._engine = table, engine_of(table)
        self.dialect: str = table.get_backend().name
        self.schema = table.schema().to_pyarrow()

    def check_domain(self, domain: Domain | None) -> None:
        if domain is None:
            raise InputError(f"--push-down needs a declared domain (--domain FILE); or {WAY_OUT}")
        from factored_mwem.tables.backends.sql_codes import refusal

        for attribute in domain:
            why = refusal(attribute, self.table[attribute.name].type())
            if why is not None:
                raise InputError(f"column {attribute.name!r} {why}; {WAY_OUT}")

    def without(self, privacy_id: str) -> NoReturn:
        raise InputError(f"with --push-down, --privacy-id needs --people; give that, or {WAY_OUT}")

    def bounded(self, privacy_id: str, most: int, missing: Sequence[str] = ()) -> NoReturn:
        self.without(privacy_id)

    def with_rows_of_people(self, privacy_id: str) -> PushedDown:
        import ibis

        from factored_mwem.tables.inputs.people import with_rows_of_person
        from factored_mwem.tables.inputs.source import open_table

        with_rows_of_person(open_table(self.schema.empty_table()), privacy_id)
        kind = self.table[privacy_id].type()
        if not (kind.is_string() or kind.is_integer()):
            what = f"--privacy-id {privacy_id!r} is a column of {str(kind).lstrip('!')}"
            raise InputError(f"{what}; a database tells people apart by text or whole numbers; {WAY_OUT}")
        return PushedDown(self.table.drop(privacy_id).mutate(**{ROWS_OF_PERSON: ibis.literal(1, "int32")}))

    def people(
        self,
        privacy_id: str,
        most: int,
        weight: Callable[[int], int],
        missing: Sequence[str] = (),
        order: RowOrder | None = None,
    ) -> PushedPeople:
        refuse_order(order)
        return PushedPeople(self, privacy_id, most, weight, missing)

    def profile(self, columns: Sequence[str]) -> dict[str, ColumnProfile]:
        self.check_domain(None)
        raise AssertionError

    def weighed(self, known: Mapping[str, Known]) -> dict[str, ColumnProfile]:
        return self.profile(list(known))

    def broken_rows(self, known: Mapping[str, Known], hypotheses: Sequence[Hypothesis]) -> NoReturn:
        self.check_domain(None)
        raise AssertionError

    def fingerprint(self, key: bytes) -> NoReturn:
        what = "--run-id tells tables apart by their rows, which --push-down does not see"
        raise InputError(f"{what}; leave out --run-id, or {WAY_OUT}")

    def encoded(self, domain: Domain, spill: Spill) -> Datavectors:
        self.check_domain(domain)
        codes = {f"c{i}": code for i, code in enumerate(self._codes(domain))}
        texts = [attribute.name for attribute in domain if attribute.type == "string"]
        self._check(self.table.select(*domain.names), texts)
        return self._counts(codes, domain)

    def _codes(self, domain: Domain) -> list[Any]:
        """The code of each attribute, as an expression."""
        from factored_mwem.tables.backends.sql_codes import code_in_sql

        return [code_in_sql(a, self.table[a.name], self.dialect).cast("int32") for a in domain]

    def _check(self, columns: Any, texts: Sequence[str]) -> None:
        """Raises InputError where columns cannot be compared as they are, `texts` byte by byte."""
        select = self._in_sql(columns)
        why = own_words("look at the table", lambda: self._engine.check(select, texts))
        if why is not None:
            raise InputError(f"{why}; {WAY_OUT}")

    def _counts(self, codes: dict[str, Any], domain: Domain) -> SqlCounts:
        """`codes`: of each attribute, as an expression."""
        return SqlCounts(self._engine, self._in_sql(self.table.select(**codes)), domain)

    def _in_sql(self, table: Any) -> str:
        import ibis

        return str(ibis.to_sql(table, dialect=self.dialect))


class PushedPeople(PushedDown, PeopleSource):
    """At most `most` rows of each person, beside how many that are; a row of a person with n of them weighs
    `weight(n)`. Rows that name nobody (null, empty or one of `missing`) are left out. Every verb looks at the
    rows as they are then; once they are encoded, they stay as they are.
    """

    __slots__ = ("_most", "_weight")

    def __init__(
        self,
        source: PushedDown,
        privacy_id: str,
        most: int,
        weight: Callable[[int], int],
        missing: Sequence[str] = (),
    ) -> None:
        import ibis

        from factored_mwem.tables.backends.sql_codes import hex_of

        shown, own = source.with_rows_of_people(privacy_id), source.table
        person = own[privacy_id]
        texts = [privacy_id] if person.type().is_string() else []
        self._most, self._weight = most, weight
        if texts:  # by its bytes: no collation makes two people one
            person = hex_of(person, source.dialect).lower()
            nobody = [text.encode().hex() for text in (*NOBODY, *missing)]
            named = person.notnull() & person.notin(nobody)
        else:
            named = person.notnull()
        rows = own.mutate(**{PERSON: person}).filter(named)
        rows = rows.mutate(
            **{ROWS_OF_PERSON: ibis.least(rows.count().over(group_by=PERSON), most).cast("int32")}
        )
        source._check(own.select(privacy_id), texts)
        super().__init__(rows.select(*shown.schema.names, PERSON))
        self.schema = shown.schema

    def people_by_rows(self, most: int) -> np.ndarray:
        """int64[most]: how many people have 1, 2, ... rows that are used. Private."""
        each = self.table.group_by(PERSON).aggregate(n=self.table[ROWS_OF_PERSON].max())
        query = f"SELECT CAST(n AS BIGINT) AS cell, COUNT(*) AS n FROM ({self._in_sql(each)}) AS q GROUP BY 1"
        rows, people = own_words("count people", lambda: self._engine.counted(query))
        counts = np.zeros(most, dtype=np.int64)
        counts[rows - 1] = people
        return counts

    def constancy(self, columns: Sequence[str]) -> np.ndarray:
        """int64[columns + 1]: of the people of two rows or more those of whom all have the same cell in a
        column; last, all those. All rows of a person count, not those alone that are used. Private.
        """
        import ibis

        rows, every = self.table, self.table.count()
        same = {}
        for i, name in enumerate(columns):
            cell = self._comparable(name)
            same[f"s{i}"] = (cell.count() == 0) | ((cell.count() == every) & (cell.min() == cell.max()))
        same[f"s{len(columns)}"] = ibis.literal(True)
        each = rows.group_by(PERSON).having(every > 1).aggregate(**same)
        several = f"SELECT * FROM ({self._in_sql(each)}) AS q"
        quoted = [f"{self._engine.quote}s{i}{self._engine.quote}" for i in range(len(same))]
        sums = ", ".join(f"SUM(CASE WHEN {s} THEN 1 ELSE 0 END) AS {s}" for s in quoted)
        cells = [
            f"SELECT {i} AS cell, CAST(COALESCE({s}, 0) AS BIGINT) AS n FROM q" for i, s in enumerate(quoted)
        ]
        query = f"WITH q AS (SELECT {sums} FROM ({several}) AS p) {' UNION ALL '.join(cells)}"
        places, people = own_words("compare a person's rows", lambda: self._engine.counted(query))
        counts = np.zeros(len(same), dtype=np.int64)
        counts[places] = people
        return counts

    def pairs_alike(
        self, domain: Domain, groupings: Groupings, spill: Spill, family: str | None = None
    ) -> np.ndarray:
        """See PeopleSource. Each number is a query of its own over the rows that are used."""
        import ibis

        coded = self._used({f"c{i}": code for i, code in enumerate(self._codes(domain))})
        several = coded.filter(coded.rows > 1)
        numbers = [several.group_by("person").aggregate(part=ibis.literal(self._weight(1), "int64"))]
        for name, levels in groupings.items():
            for grouping in levels:
                group = grouping.in_sql(several[f"c{domain.index(name)}"])
                held = several.group_by(["person", "rows", group.name("g")]).aggregate(t=several.count())
                alike = held.group_by(["person", "rows"]).aggregate(s=(held.t * (held.t - 1)).sum())
                pairs = (alike.rows * (alike.rows - 1)).cast("int64")
                numbers.append(alike.select(part=alike.s.cast("int64") * self._weight(1) // pairs))
        sums = np.zeros(len(numbers), dtype=np.int64)
        for place, parts in enumerate(numbers):
            select = self._in_sql(parts)
            query = f"SELECT 0 AS cell, CAST(COALESCE(SUM(part), 0) AS BIGINT) AS n FROM ({select}) AS q"
            sums[place] = own_words("compare a person's rows", partial(self._engine.counted, query))[1][0]
        return sums

    def _comparable(self, name: str) -> Any:
        """A column whose cells are the same where their values are: text by its bytes."""
        from factored_mwem.tables.backends.sql_codes import hex_of

        column = self.table[name]
        if column.type().is_string():
            return hex_of(column, self.dialect)
        return column.cast("int32") if column.type().is_boolean() else column

    def _counts(self, codes: dict[str, Any], domain: Domain) -> SqlCounts:
        """Of the rows that are used, in grains."""
        coded = self._used(codes)
        weights = [(n, self._weight(n)) for n in range(1, self._most + 1)]
        weight = coded.rows.cases(*weights, else_=0).cast("int64")
        return SqlCounts(self._engine, self._in_sql(coded.select(*codes, w=weight)), domain, weighted=True)

    def _used(self, codes: dict[str, Any]) -> Any:
        """The codes of the rows that are used, their person, and how many rows of that are."""
        import ibis

        from factored_mwem.tables.backends.sql_codes import md5_of

        who = self.table[PERSON]
        coded = self.table.select(**codes, person=who, rows=self.table[ROWS_OF_PERSON])
        coded = coded.mutate(copy=ibis.row_number().over(group_by=["person", *codes]))
        drawn = [coded.person.cast("string"), *(coded[name].cast("string") for name in (*codes, "copy"))]
        coded = coded.mutate(luck=md5_of(ibis.literal(" ").join(drawn), self.dialect))
        coded = coded.mutate(rank=ibis.row_number().over(group_by="person", order_by="luck"))
        return coded.filter(coded.rank < self._most)
