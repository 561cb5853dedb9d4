"""Release: the model, the measurements behind it and the manifest; its rows, its files."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.errors import InputError
from factored_mwem.files.crashpoints import reach
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.drawable import Drawable
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.sampling import Batches
from factored_mwem.pipeline.saving import model_file
from factored_mwem.pipeline.saving.model_fields import Contents
from factored_mwem.pipeline.saving.replicating import COUNT, CountReport, Keeper, tables
from factored_mwem.pipeline.writing import workers_of, write_alone
from factored_mwem.privacy.session import NoiseScale
from factored_mwem.tables.outputs.formats import output_of
from factored_mwem.tables.outputs.targets import target_of

if TYPE_CHECKING:
    from factored_mwem.answers.answer import Answer
    from factored_mwem.answers.evidence import Evidence
    from factored_mwem.answers.query import Query
    from factored_mwem.pipeline.conditional import Conditioned
    from factored_mwem.pipeline.marginal import Marginal


def _reached(drawn: Batches) -> Iterator[pa.RecordBatch]:
    """The batches, each of which may be where a test ends the process."""
    return map(_seen, drawn)


def _seen(batch: pa.RecordBatch) -> pa.RecordBatch:
    reach("sampling")
    return batch


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release(Contents):
    """A model, the noisy measurements behind it and the manifest: all public, and no private count in it.

    >>> import pyarrow as pa
    >>> from factored_mwem import release
    >>> people = pa.table({"age": [31, 45, 31, 62], "sex": ["F", "M", "M", "F"]})
    >>> domain = {"fields": [{"name": "sex", "categories": ["F", "M"], "constraints": {"required": True}}]}
    >>> made = release(people, 1, domain=domain, columns=["sex"], rows=100, epsilon=1.0)
    >>> made.to_arrow().num_rows, made.manifest.guarantee.epsilon
    (100, 1.0)
    >>> made.sample(3).column_names
    ['sex']
    >>> made.marginal("sex").labels
    (('F', 'M'),)
    """

    keeper: Keeper = field(default_factory=Keeper)

    def __repr__(self) -> str:
        from factored_mwem.pipeline.summary import facts_of

        return "Release\n" + "\n".join(f"  {name:9} {fact}" for name, fact in facts_of(self).items())

    def _repr_html_(self) -> str:
        """The facts, and five rows drawn from the model in a moment, not refined as the release's own are."""
        from factored_mwem.pipeline.summary import facts_of, in_html

        rows = self.drawable.drawn(5, self.seed, [])
        return in_html(facts_of(self), pa.Table.from_batches(rows, schema=rows.schema))

    @property
    def unit(self) -> Unit:
        """What the noise protects."""
        promised, people = self.manifest.guarantee, self.manifest.people
        by_id = self.manifest.policy.get("privacy_id") is not None
        grains = people.grains if people is not None else 0
        return Unit(Neighbours(promised.neighbours), promised.contributions, by_id=by_id, grains=grains)

    @property
    def drawable(self) -> Drawable:
        """What its rows are drawn from."""
        facts = (self.schema, self.unit, self.manifest.people, self.measurements)
        return Drawable(self.model, self.domain, *facts)

    @property
    def evidence(self) -> Evidence:
        """The evidence that answers rest on."""
        from factored_mwem.answers.evidence import Evidence
        from factored_mwem.pipeline.people import people_counted

        learns = any(charge.stage == "discover" for charge in self.manifest.ledger)
        learnt = [a for a, attribute in enumerate(self.domain.modelled) if learns and attribute.learnt]
        first = {m.positions: i for i, m in reversed(list(enumerate(self.measurements)))}
        settled = frozenset(first[(a,)] for a in learnt if (a,) in first)
        promised, engine = self.manifest.guarantee, str(self.manifest.policy["engine"])
        known = (self.domain, self.model, self.measurements, self.residuals)
        counts = [c.scale for c in self.manifest.ledger if c.stage == "measure" and not c.target]
        apart = counts and 0 < counts[0] < math.inf and all(m.positions for m in self.measurements)
        counted = NoiseScale(counts[0], promised.composition) if apart else None
        facts = self.manifest.people
        people = people_counted(facts, self.domain, self.unit) if facts is not None else None
        moved = {
            facts.name: math.nan if facts.moved_at_most is None else facts.moved_at_most * self.model.total
            for facts in self.manifest.attributes
            if facts.domain == "learnt"
        }
        spreads = {facts.name: facts.spread_hidden for facts in self.manifest.attributes}
        hidden = {name: spread for name, spread in spreads.items() if spread is not None}
        whole = self.unit.total_is_public
        return Evidence(*known, whole, engine, settled, counted, people, moved, hidden, self._public)

    @property
    def _public(self) -> tuple[int, ...]:
        """The attributes whose joint counts are public, ascending."""
        names = self.manifest.public.columns if self.manifest.public is not None else ()
        return tuple(a for a, name in enumerate(self.domain.modelled.names) if name in names)

    def answer(
        self,
        query: Query | str,
        *,
        population: bool = False,
        replicates: int = COUNT,
        report: CountReport = lambda done, of: None,
    ) -> Answer:
        """The answer of the release to a query, with error bars: free, from public facts alone.

        `query`: of `factored_mwem.answers.query`, or its text: see `fmwem guide answers`. `population`: with
        the error of the rows as a sample. Raises InputError if it names what is not there. What only the
        model answers takes `replicates` of it, a minute's work at the first such query, kept beside the model
        file; `report(done, of)` is called after each. Where no likelihood was fitted,
        nobody knows the errors of what only the model answers.
        """
        from factored_mwem.answers.answering import Answering

        evidence = self.evidence
        errors = partial(self.keeper.replicates, evidence, self.seed, replicates, report)
        known = errors if evidence.engine == "tree" else None  # else no likelihood was fitted
        answer = Answering(evidence, known).answer(query, population=population)
        left_out = self.manifest.asked_policy.left_out
        return replace(answer, notes=(left_out, *answer.notes)) if left_out else answer

    def replicates(self, count: int, *, seed: int | None = None) -> Iterator[pa.Table]:
        """`count` synthetic tables, each as long as the release's own, made one after the other: each from
        a model that differs from the release's as that may differ from the truth. `combine` makes of a
        figure computed on each an estimate with its error; the same tables for the same `seed`.

        Raises InputError for a `count` below 2, of people, and, at the first table, for engine mwem, whose
        model is not a likelihood fit.
        """
        if self.manifest.people is not None:
            raise InputError("a release of people has no replicate tables: they are drawn row by row")
        if count < 2:
            raise InputError(f"{count} replicates: must be a whole number, 2 or more")
        seed = secrets.randbits(64) if seed is None else seed
        return tables(self.evidence, self.schema, self.rows, count, seed)

    def marginal(self, *names: str) -> Marginal:
        """The model's counts of rows over these columns: less noisy than synthetic rows', and free. Raises
        InputError if there is no such column, or the counts are too many.
        """
        from factored_mwem.pipeline.marginal import marginal_of

        return marginal_of(self.drawable.of_rows, self.domain, names)

    def batches(self, rows: int | None = None, *, seed: int | None = None) -> Iterator[pa.RecordBatch]:
        """Synthetic rows in batches: the release's own, or `rows` others. Free: the model is public."""
        return _reached(self.drawn(rows, seed))

    def drawn(self, rows: int | None = None, seed: int | None = None) -> Batches:
        """The release's own rows, or others, as yet to be drawn."""
        rows, seed = self.rows if rows is None else rows, self.seed if seed is None else seed
        return self.drawable.released(rows, seed, self.manifest.queries, self.manifest.policy)

    def people(self, number: int, seed: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """(the columns, the rows in batches) of `number` fresh people, each with all of their rows. Raises
        InputError if the release is not of people.
        """
        if self.manifest.people is None:
            raise InputError("the release is of rows, not of people (release --people): ask for rows")
        from factored_mwem.pipeline.people import PeopleBatches

        drawn = self.drawn(0, seed)
        assert isinstance(drawn, PeopleBatches)  # as of every release of people
        drawn = self.drawn(math.ceil(number * drawn.mean_rows), seed)
        assert isinstance(drawn, PeopleBatches)
        return drawn.schema, map(_seen, drawn.whole(number))

    def sample(
        self,
        rows: int,
        *,
        seed: int | None = None,
        unit: Literal["rows", "people"] = "rows",
        where: str | None = None,
        balance: str | None = None,
    ) -> pa.Table:
        """`rows` fresh rows, of whole people where the release is of people; or, with unit "people", all rows
        of so many. The same ones for the same `seed`. With `where`, such as "age >= 65 and sex = Female", all
        of them meet the condition; with `balance`, the values of that column are equally frequent.

        Raises InputError if `rows` is negative, for a condition that names what is not there, and where the
        model gives it probability 0.
        """
        if rows < 0:
            raise InputError(f"{unit}={rows}: must be a whole number, 0 or more")
        seed = secrets.randbits(64) if seed is None else seed
        source: Release | Conditioned = self
        if where is not None or balance is not None:
            source = self.conditioned(where, balance)
        if unit == "people":
            schema, batches = replace(self, model=source.drawable.model).people(rows, seed)
            return pa.Table.from_batches(batches, schema=schema)
        drawn = source.drawn(rows, seed)
        return pa.Table.from_batches(_reached(drawn), schema=drawn.schema)

    def conditioned(self, where: str | None, balance: str | None) -> Conditioned:
        """What rows that meet a condition are drawn from, see `sample`."""
        from factored_mwem.pipeline.conditional import Conditioned

        return Conditioned.of(self.drawable, self.manifest.queries, self.manifest.policy, where, balance)

    def complete(self, known: Any, *, seed: int | None = None) -> pa.Table:
        """The rows of a table that has some of the columns, each with its empty cells and the other columns
        drawn given what is known of it: by the trees of the model, without its corrections. `known`: a path,
        pyarrow or any data frame.

        Raises InputError for columns and values that the model does not have.
        """
        from factored_mwem.pipeline.completed import CompletedRows

        completed = CompletedRows(self.drawable, known, secrets.randbits(64) if seed is None else seed)
        return pa.Table.from_batches(completed, schema=completed.schema)

    def to_arrow(self) -> pa.Table:
        """The synthetic table: the same rows at every call."""
        drawn = self.drawn()
        return pa.Table.from_batches(_reached(drawn), schema=drawn.schema)

    def to_pandas(self) -> Any:
        """The synthetic table as a pandas data frame."""
        return self.to_arrow().to_pandas()

    def write(
        self, path: str | Path, *, overwrite: bool | IfExists = False, workers: int | None = None
    ) -> Manifest:
        """Write the table (.parquet, .csv, .feather, .arrow) and, last, its manifest, which is returned.

        A `path` that ends in a slash, or is a folder, becomes a folder of Parquet parts, `NAME.manifest.json`
        beside it; one such as `s3://bucket/key` goes to that store. `workers`: how many draw and write at a
        time, as many as there are processors by default (up to 8); the rows are the same for any number.
        Raises InputError if a file exists, without `overwrite`, or cannot be written.
        """
        return write_alone(
            self.drawn(), self.manifest, output_of(path), IfExists(overwrite), workers_of(workers)
        )

    def save(
        self,
        path: str | Path,
        *,
        overwrite: bool | IfExists = False,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Write the model file, from which `Release.load` and `fmwem sample` draw more rows at no cost.

        `path` may be a URI, as of `write`. `before()` is called just before the file appears. Raises
        InputError if the file exists or cannot be written.
        """
        model_file.save(self, target_of(path), IfExists(overwrite), before)

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a model file. Raises InputError if it is not one, or of an unknown version."""
        return replace(model_file.load(Path(path), cls), keeper=Keeper(Path(path)))
