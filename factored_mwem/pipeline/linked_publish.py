"""Publish linked tables: the files of a package in a folder, put in place one by one, the record last."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from factored_mwem.files.crashpoints import reach
from factored_mwem.files.files import IfExists
from factored_mwem.ledger.run import Run
from factored_mwem.mechanisms.rounds import Report
from factored_mwem.pipeline.linked import make_linked
from factored_mwem.pipeline.linked_request import LinkedRequest
from factored_mwem.pipeline.linked_rows import LinkedRelease
from factored_mwem.pipeline.publication import Publication
from factored_mwem.pipeline.record.statement import Output, PartFile, Statement
from factored_mwem.pipeline.saving.package_file import save_package
from factored_mwem.request.data_package import described
from factored_mwem.request.package import Package
from factored_mwem.tables.outputs.formats import write_batches
from factored_mwem.tables.outputs.release_files import Files
from factored_mwem.tables.outputs.stores import StoredPlace
from factored_mwem.tables.outputs.targets import Destination, LocalPlace, Target, digest_of, write_text

MAX_BATCH_ROWS = 2**16


@dataclass(frozen=True, slots=True)
class PackageFiles(Files):
    """The files of a package in its folder: of each table, the model, the descriptor, and the record."""

    folder: LocalPlace | StoredPlace
    tables: Mapping[str, Target]
    descriptor: Target
    manifest: Target
    model: Target | None = None

    @classmethod
    def of(
        cls, folder: LocalPlace | StoredPlace, names: list[str], ending: str, *, model: bool
    ) -> PackageFiles:
        """`ending`: of the tables' files, a format's."""
        tables = {name: folder.within(f"{name}{ending}") for name in names}
        kept = folder.within("model.fmwem") if model else None
        return cls(folder, tables, folder.within("datapackage.json"), folder.within("manifest.json"), kept)

    @property
    def by_role(self) -> dict[str, Destination]:
        files: dict[str, Destination] = {f"table {name}": target for name, target in self.tables.items()}
        files |= {"descriptor": self.descriptor, "manifest": self.manifest}
        return files | ({"model": self.model} if self.model is not None else {})

    def check(self, exists: IfExists) -> None:
        self.folder.check()
        if self.folder.names():
            Files.check(self, exists)


def publish_package(
    request: LinkedRequest, run: Run, place: Publication[PackageFiles], report: Report
) -> Statement:
    """Release and write. After a failure no file is left, and nor is the folder if it was not there."""
    with _removed_again(place.files.folder) as made, place.of(run):
        release = make_linked(request, run, report)
        made.append(place.files.folder.make())
        if place.files.model is not None:
            with place.putting(place.files.model):
                save_package(release, place.files.model, place.exists, place.replacing)
        output = _write(release.package, release.tables(), place)
        return place.record(release.statement, output)


def draw_package(
    release: LinkedRelease, rows: int, seed: int, files: PackageFiles, exists: IfExists
) -> Output:
    """Write fresh tables, the root with so many rows: free, for the models are public. There is no record."""
    place = Publication(files, exists)
    with _removed_again(files.folder) as made, place.undone():
        made.append(files.folder.make())
        return _write(release.package, release.tables(rows, seed), place)


@contextlib.contextmanager
def _removed_again(folder: LocalPlace | StoredPlace) -> Iterator[list[bool]]:
    """The block may make a folder, and says so in the list: then it is removed after a failure, when its
    files are.
    """
    made: list[bool] = []
    try:
        yield made
    except BaseException:
        if any(made):
            folder.remove()
        raise


def _write(package: Package, tables: Mapping[str, pa.Table], place: Publication[PackageFiles]) -> Output:
    """Write the tables and the descriptor."""
    files, exists, parts = place.files, place.exists, []
    for name, table in tables.items():
        reach("sampling")
        target = files.tables[name]
        with place.putting(target):
            batches = table.combine_chunks().to_batches(MAX_BATCH_ROWS)
            digest = write_batches(target, table.schema, batches, exists=exists, before=place.replacing)
        parts.append(PartFile(file=target.name, rows=table.num_rows, sha256=digest))
    schemas = {name: table.schema for name, table in tables.items()}
    names = {name: target.name for name, target in files.tables.items()}
    text = json.dumps(described(package, schemas, names), indent=1, ensure_ascii=False) + "\n"
    with place.putting(files.descriptor):
        write_text(files.descriptor, text, exists)
    digest, rows = digest_of((part.file, part.sha256) for part in parts), sum(part.rows for part in parts)
    return Output(file=f"{files.folder.name}/", rows=rows, sha256=digest, parts=tuple(parts))
