"""Drawing: rows of a public model into files, of one table or of a package."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factored_mwem.cli.settings import ReleaseSettings
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.writing import drawn_ahead, workers_of, write_alone
from factored_mwem.tables.outputs.formats import output_of, write_batches
from factored_mwem.tables.outputs.release_files import manifest_of
from factored_mwem.tables.outputs.targets import Destination, Folder, folder_of, target_of

if TYPE_CHECKING:
    import pyarrow as pa

    from factored_mwem.pipeline.conditional import Conditioned


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleChoices:
    """What is drawn: `rows` rows or people, those that meet `where`, with the values of the column `balance`
    equally often; or, of a file `given`, as many rows as it has.
    """

    rows: int | None
    people: bool = False
    where: str | None = None
    balance: str | None = None
    given: str | None = None

    def check(self, output: Destination) -> None:
        """Raises InputError for what does not go together."""
        if self.given is not None and (self.rows is not None or self.people or self.where or self.balance):
            raise InputError(
                "--given completes the rows of a file, all of them: it takes none of -n, --unit "
                "people, --where and --balance"
            )
        if self.given is None and self.rows is None:
            raise InputError("say how many rows with -n, or name a file of known ones with --given")
        what = {
            "--unit people": self.people,
            "--where": self.where,
            "--balance": self.balance,
            "--given": self.given,
        }
        one_file = [flag for flag, value in what.items() if value]
        if one_file and isinstance(output, Folder):
            raise InputError(f"{one_file[0]} writes one file, not a folder of parts; name a file")


def draw(model: Path, choices: SampleChoices, output: str, settings: ReleaseSettings) -> dict[str, Any]:
    """Write fresh rows of a model file; the line for scripts. A folder of parts gets a manifest, which says
    that it is complete.
    """
    where, exists, workers = output_of(output), IfExists(settings.overwrite), workers_of(settings.workers)
    choices.check(where)
    where.check(exists)
    release = Release.load(model)
    seed = secrets.randbits(64) if settings.sample_seed is None else settings.sample_seed
    if isinstance(where, Folder):
        assert choices.rows is not None  # as was checked
        drawn = release.drawn(choices.rows, seed)
        # a certificate is about the rows that were released, not about these
        stated = release.manifest.model_copy(
            update={"sample_seed": settings.sample_seed, "certificate": None}
        )
        written = write_alone(drawn, stated, where, exists, workers)
        assert written.output is not None  # as of every manifest that was written
        facts = {"sha256": written.output.sha256, "manifest": str(manifest_of(where))}
        return {"output": str(where), "rows": choices.rows, **facts, "spent_epsilon": 0}
    schema, batches, more = _batches_of(release, choices, seed, workers, where.suffix)
    count = CountedBatches(batches)
    digest = write_batches(target_of(where), schema, count, exists=exists)
    return {"output": str(where), "rows": count.rows, "sha256": digest, **more(), "spent_epsilon": 0}


def _batches_of(
    release: Release, choices: SampleChoices, seed: int, workers: int, ending: str
) -> tuple[pa.Schema, Iterator[pa.RecordBatch], Callable[[], dict[str, Any]]]:
    """(the columns, the rows in batches, what is to be said of them once they are drawn)."""
    if choices.given is not None:
        from factored_mwem.pipeline.completed import CompletedRows

        completed = CompletedRows(release.drawable, choices.given, seed)
        return completed.schema, iter(completed), lambda: {"contradicted": completed.contradicted}
    rows, facts = choices.rows or 0, dict[str, Any]()
    source: Release | Conditioned = release
    if choices.where is not None or choices.balance is not None:
        source = release.conditioned(choices.where, choices.balance)
        if choices.where is not None:
            facts["probability"] = source.probability
    if choices.people:
        schema, batches = replace(release, model=source.drawable.model).people(rows, seed)
        return schema, batches, lambda: {"people": rows, **facts}
    drawn = source.drawn(rows, seed)
    rows_of = drawn.listed() if ending == ".parquet" else drawn
    return drawn.schema, drawn_ahead(rows_of, workers), lambda: facts


class CountedBatches:
    """Batches that are counted as they pass."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches, self.rows = batches, 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.rows += batch.num_rows
            yield batch


def draw_tables(
    model: Path, choices: SampleChoices, output: str, settings: ReleaseSettings
) -> dict[str, Any]:
    """Write fresh tables of a package's model into a folder; the line for scripts."""
    from factored_mwem.pipeline.linked_publish import PackageFiles, draw_package
    from factored_mwem.pipeline.saving.package_file import load_package

    if choices != SampleChoices(rows=choices.rows):
        raise InputError("a package of tables is drawn as a whole: -n says how many rows the root has")
    if choices.rows is None:
        raise InputError("say how many rows of the root with -n")
    release, folder = load_package(model), folder_of(output)
    if folder is None:
        raise InputError(f"-o {output}: a package is a folder; end its name in a slash")
    names = [each.name for each in release.package.private]
    files = PackageFiles.of(folder, names, ".parquet", model=False)
    seed = secrets.randbits(64) if settings.sample_seed is None else settings.sample_seed
    drawn = draw_package(release, choices.rows, seed, files, IfExists(settings.overwrite))
    rows = {part.file: part.rows for part in drawn.parts}
    tables = {name: rows[target.name] for name, target in files.tables.items()}
    return {"output": str(folder), "tables": tables, "sha256": drawn.sha256, "spent_epsilon": 0}
