"""Release files: where the rows, the manifest, the model and the report of a release go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from factored_mwem.files.files import IfExists
from factored_mwem.tables.outputs.targets import Destination, Folder, Target, target_of

ROLES = ("data", "manifest", "model", "report", "weights", "answers")
"""What a file may be, in the order of the ledger's records."""


def manifest_of(output: Destination) -> Target:
    """`adult.synthetic.parquet` -> `adult.synthetic.manifest.json`; of a folder `people/`,
    `people.manifest.json`.

    Beside the folder: no name inside is passed over by all that read folders. Spark, Hive, Arrow and pandas
    do not see what begins with `_` or `.`; Polars 2 refuses a folder that holds it, even Spark's `_SUCCESS`.
    Every part holds the manifest as its metadata, so a folder that went elsewhere still says what it is.
    """
    return _beside(output, ".manifest.json")


def model_of(output: Destination) -> Target:
    """Where the model goes that nobody named a place for: `adult.synthetic.parquet` ->
    `adult.synthetic.fmwem`, beside the manifest.
    """
    return _beside(output, ".fmwem")


def _beside(output: Destination, ending: str) -> Target:
    if isinstance(output, Folder):
        return output.place.beside(output.name.removesuffix("/") + ending)
    target = target_of(output)
    return target.beside(PurePosixPath(target.name).stem + ending)


def report_of(manifest: Target, what: str = "report") -> Target:
    """`adult.synthetic.manifest.json` -> `adult.synthetic.report.html`, beside it."""
    return manifest.beside(f"{manifest.name.removesuffix('.manifest.json')}.{what}.html")


class Files:
    """Files that are written together, the manifest the last of them."""

    __slots__ = ()
    manifest: Target

    @property
    def by_role(self) -> dict[str, Destination]:
        """Those there are to be, by the names that the ledger keeps their digests under."""
        files = {role: getattr(self, role, None) for role in ROLES}
        return {role: file for role, file in files.items() if file is not None}

    @property
    def all(self) -> list[Destination]:
        return list(self.by_role.values())

    def check(self, exists: IfExists) -> None:
        """InputError, before anything is spent, where one of them cannot be written."""
        for output in self.all:
            output.check(exists)

    def digests(self) -> dict[str, str]:
        """sha256 by role."""
        return {role: output.sha256() for role, output in self.by_role.items()}


@dataclass(frozen=True, slots=True)
class ReleaseFiles(Files):
    """The files of a release: its rows may be a folder of parts."""

    data: Destination
    manifest: Target
    model: Target | None = None
    report: Target | None = None


@dataclass(frozen=True, slots=True)
class RecordFiles(Files):
    """The files of what is no table of rows: its record, and what else there is, such as an edge list."""

    manifest: Target
    data: Target | None = None
    weights: Target | None = None
    answers: Target | None = None
