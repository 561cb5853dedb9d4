"""People on Spark: a table on a cluster of which each person weighs one. Who has how many rows, which of them
are used and what they weigh, the cluster finds; nothing but counts, sums and values comes here.

Which rows of a person are used, where not all are: the first in the order of a hash of the person's id, the
row's own cells and, of rows that are the same, a number from 1 on; so it looks at that person's rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.tables.backends import spark_tasks as tasks
from factored_mwem.tables.backends.source import PeopleSource, Spill
from factored_mwem.tables.backends.spark_frame import ORDER, ROWS, OnSpark
from factored_mwem.tables.backends.spark_rows import SparkRows, collected, keep
from factored_mwem.tables.codes.agreement import Groupings
from factored_mwem.tables.codes.broken import Hypothesis
from factored_mwem.tables.codes.profile import ColumnProfile, profile
from factored_mwem.tables.codes.rest import Known, empty_rests
from factored_mwem.tables.inputs.source import open_table

PERSON, WEIGHT = "person", "weight"
"""Columns beside ROWS and those of the table, which are called c0, c1, ..."""


class SparkPeople(OnSpark, PeopleSource):
    """See OpenedSource.people. Spark keeps the rows that are used as long as there is this."""

    __slots__ = ("_whole",)

    def __init__(self, used: Any, shown: OnSpark, weights: Sequence[int]) -> None:
        """`used`: of `rows_used`; `shown`: their names and types; `weights`: of a row of a person with 1, 2,
        ... rows.
        """
        super().__init__(keep(self, used.withColumn(WEIGHT, _listed(weights))), shown.schema, shown.at)
        self._whole = weights[0]

    def people_by_rows(self, most: int) -> np.ndarray:
        """See PeopleSource. Of a person with n rows that are used, there are n."""
        from pyspark.sql import functions as F

        counts = np.zeros(most, dtype=np.int64)
        each = collected(self.frame.groupBy(ROWS).agg(F.count(F.lit(1)).alias("all")))
        for row in each.to_pylist():
            counts[row[ROWS] - 1] = row["all"] // row[ROWS]
        return counts

    def constancy(self, columns: Sequence[str]) -> np.ndarray:
        """See PeopleSource."""
        from pyspark.sql import functions as F

        same = []
        for name in columns:
            cell = F.col(self.at[name])
            alike = (F.count(cell) == F.count(F.lit(1))) & (F.min(cell) == F.max(cell))
            same.append((F.count(cell) == 0) | alike)
        several = self.frame.where(F.col(ROWS) > 1).groupBy(PERSON)
        people = several.agg(F.lit(True).alias("all"), *(s.alias(f"s{i}") for i, s in enumerate(same)))
        names = [*(f"s{i}" for i in range(len(same))), "all"]
        sums = [F.sum(F.when(F.col(name), 1).otherwise(0)).alias(name) for name in names]
        (row,) = collected(people.agg(*sums)).to_pylist()
        return np.array([row[name] or 0 for name in names], dtype=np.int64)

    def pairs_alike(
        self, domain: Domain, groupings: Groupings, spill: Spill, family: str | None = None
    ) -> np.ndarray:
        """See PeopleSource. Spark puts the rows of a person beside each other."""
        own = domain.project(list(groupings))
        rows = self.frame.select(*(self.at[name] for name in own.names), PERSON)
        rows = rows.repartition(PERSON).sortWithinPartitions(PERSON)
        task = tasks.CountAgreement(own, dict(groupings), self._whole)
        sums = np.zeros(1 + sum(map(len, groupings.values())), dtype=np.int64)
        for _, part in tasks.all_parts(collected(rows.mapInArrow(task, tasks.SUMS)).to_batches()):
            sums += np.frombuffer(part, np.int64)
        return sums

    def profile(self, columns: Sequence[str]) -> dict[str, ColumnProfile]:
        """As of any table, in grains."""
        profiles = profile(open_table(self.schema.empty_table()), columns)
        return self._counted(self._rows(columns), profiles, tasks.CountGrains())

    def weighed(self, known: Mapping[str, Known]) -> dict[str, ColumnProfile]:
        """As of any table, in parts of a grain."""
        profiles, columns = empty_rests(self.schema, known), list(known)
        return self._counted(self._rows(columns), profiles, tasks.WeighGrains(tuple(known.values())))

    def broken_rows(self, known: Mapping[str, Known], hypotheses: Sequence[Hypothesis]) -> np.ndarray:
        """As of any table, in grains."""
        names, how = tuple(known), tuple(known.values())
        task = tasks.CountBroken(names, how, tuple(hypotheses), weighted=True)
        return self._broken(self._rows(names), task)

    def encoded(self, domain: Domain, spill: Spill) -> SparkRows:
        """The rows' codes and weights, which Spark keeps, too."""
        codes = self._rows(domain.names).mapInArrow(tasks.Encode(domain, weighted=True), tasks.CODES)
        encoded = SparkRows(codes, domain, weighted=True)
        self._compare(encoded.marks)
        return encoded

    def _rows(self, columns: Sequence[str]) -> Any:
        """The rows of these columns, their weights, then the hashes."""
        return self.frame.select(*(self.at[name] for name in columns), WEIGHT, *self._marked(columns))


def rows_used(source: OnSpark, privacy_id: str, most: int, nobody: Sequence[str] | None) -> Any:
    """The rows that are used, with their person and how many rows of that are; `nobody`: of text, what names
    none.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    who = F.col(source.at[privacy_id])
    if nobody is not None:
        who = F.when(F.is_valid_utf8(who) & ~who.isin(*nobody), who)
    keys = [F.col(at) for name, at in source.at.items() if name != privacy_id]
    person = Window.partitionBy(PERSON)
    rows = source.frame.withColumn(PERSON, who).where(F.col(PERSON).isNotNull())
    rows = rows.withColumn(ROWS, F.least(F.count(F.lit(1)).over(person), F.lit(most)).cast("int"))
    same = Window.partitionBy(PERSON, *keys).orderBy(PERSON)
    rows = rows.withColumn("copy", F.row_number().over(same))
    luck = F.xxhash64(F.lit(ORDER), F.col(PERSON), *keys, F.col("copy"))
    rows = rows.withColumn("rank", F.row_number().over(person.orderBy(luck, *keys, "copy")))
    return rows.where(F.col("rank") <= most).drop("copy", "rank")


def _listed(values: Sequence[int]) -> Any:
    """The value at the place that ROWS says, from 1 on."""
    from pyspark.sql import functions as F

    return F.element_at(F.array(*map(F.lit, values)), F.col(ROWS)).cast("bigint")
