"""Publish linked tables: the files of a package in a folder, put in place one after the other, the record last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from factored_mwem.files.crashpoints import reach
from factored_mwem.files.files import IfExists
from factored_mwem.ledger.run import Run
from factored_mwem.mechanisms.rounds import Report
from factored_mwem.pipeline.linked import LinkedRequest, make_linked
from factored_mwem.pipeline.linked_rows import LinkedRelease
from factored_mwem.pipeline.publication import Publication
from factored_mwem.pipeline.record.statement import Output, PartFile, Statement
from factored_mwem.pipeline.saving.package_file import save_package
from factored_mwem.request.data_package import described
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
    def of(cls, folder: LocalPlace | StoredPlace, names: list[str], ending: str, *, model: bool) -> PackageFiles:
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
            super().check(exists)


def publish_package(
    request: LinkedRequest, run: Run, place: Publication[PackageFiles], report: Report
) -> Statement:
    """Release and write. After a failure no file is left, and nor is the folder if it was not there."""
    files = place.files
    with place.of(run):
        release = make_linked(request, run, report)
        made = files.folder.make()
        try:
            return _write(release, place)
        except BaseException:
            if made:
                files.folder.remove()
            raise


def _write(release: LinkedRelease, place: Publication[PackageFiles]) -> Statement:
    files, exists = place.files, place.exists
    if files.model is not None:
        with place.putting(files.model):
            save_package(release, files.model, exists, place.replacing)
    parts, schemas = [], {}
    for name, table in release.tables().items():
        reach("sampling")
        target, schemas[name] = files.tables[name], table.schema
        with place.putting(target):
            digest = _write_table(target, table, exists, place)
        parts.append(PartFile(file=target.name, rows=table.num_rows, sha256=digest))
    names = {name: target.name for name, target in files.tables.items()}
    text = json.dumps(described(release.package, schemas, names), indent=1, ensure_ascii=False) + "\n"
    with place.putting(files.descriptor):
        write_text(files.descriptor, text, exists)
    digest = digest_of((part.file, part.sha256) for part in parts)
    rows = sum(part.rows for part in parts)
    output = Output(file=f"{files.folder.name}/", rows=rows, sha256=digest, parts=tuple(parts))
    return place.record(release.statement, output)


def _write_table(
    target: Target, table: pa.Table, exists: IfExists, place: Publication[PackageFiles]
) -> str:
    batches = table.combine_chunks().to_batches(MAX_BATCH_ROWS)
    return write_batches(target, table.schema, batches, exists=exists, before=place.replacing)
