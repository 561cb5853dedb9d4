"""Replicating: the replicates of a release, made once and kept, and tables drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.model.drawing import Drawing
from factored_mwem.pipeline.sampling import MAX_BATCH_ROWS
from factored_mwem.tables.codes.derive import decode_table

if TYPE_CHECKING:
    from factored_mwem.answers.evidence import Evidence
    from factored_mwem.answers.replicates import Replicates

COUNT = 12
"""Replicates by default: the spread that they show is then known to 20 % (standard error), and is one part
of an interval's width.
"""
CountReport = Callable[[int, int], None]
"""A callback that gets how many replicates are made, and of how many."""


@dataclass(eq=False)
class Keeper:
    """A release's replicates, once asked for; `model`: the file that they are kept beside, if any."""

    model: Path | None = None
    held: dict[int, Replicates] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[Keeper], tuple[Path | None]]:
        return Keeper, (self.model,)  # workers elsewhere need none of them

    def replicates(
        self, evidence: Evidence, seed: int, count: int = COUNT, report: CountReport = lambda done, of: None
    ) -> Replicates:
        """At least `count` replicates: held, read from beside the model, or made, which takes a minute.

        Raises InputError for a model that has none, or a count out of range.
        """
        from factored_mwem.answers.replicates import Bootstrap, Replicates
        from factored_mwem.pipeline.saving.replicate_file import MAX_REPLICATES, keep, kept

        if not 2 <= count <= MAX_REPLICATES:
            raise InputError(f"{count} replicates: must be a whole number from 2 to {MAX_REPLICATES:,}")
        for held, replicates in self.held.items():
            if held >= count:
                return replicates
        drawn = kept(self.model, evidence, seed, count) if self.model is not None else None
        if drawn is None:
            drawn = Bootstrap(evidence, seed, count).all(lambda done: report(done, count))
            if self.model is not None:
                keep(self.model, drawn)
        self.held[len(drawn.totals)] = Replicates(evidence, drawn)
        return self.held[len(drawn.totals)]


def tables(evidence: Evidence, schema: pa.Schema, rows: int, count: int, seed: int) -> Iterator[pa.Table]:
    """`count` synthetic tables of `rows` rows each, every one from a replicate model of its own.

    Their rows are drawn independently, neither dealt out evenly nor refined as a release's own are: the rules
    that combine the tables take each table's own variance for one of independent rows.
    """
    from factored_mwem.answers.replicates import Bootstrap, Replicates, drawn_of

    bootstrap, domain = Bootstrap(evidence, seed, count), evidence.domain
    for number in range(count):
        replicates = Replicates(evidence, drawn_of(seed, [bootstrap.one(number)]))
        drawing = Drawing(replicates.forest(0, corrected=False))
        yield _table(domain, schema, drawing, rows, (seed, number))


def _table(domain: Domain, schema: pa.Schema, drawing: Drawing, rows: int, key: tuple[int, int]) -> pa.Table:
    from factored_mwem.answers.bootstrap_table import generator

    batches = []
    for at in range(0, max(rows, 1), MAX_BATCH_ROWS):
        rng = generator(*key, 0, at)
        codes = drawing.independent(min(MAX_BATCH_ROWS, rows - at), rng)
        batches.append(pa.RecordBatch.from_arrays(decode_table(domain, codes, schema, rng), schema=schema))
    return pa.Table.from_batches(batches, schema=schema)
