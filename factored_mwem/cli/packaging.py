"""`fmwem release` of a package: several private tables in, as many synthetic ones out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from factored_mwem.cli.inputs import TableName, domain_beside, read_paths
from factored_mwem.cli.jobs import check_paths, facts_of
from factored_mwem.cli.settings import OWN, PAIRS, ReleaseSettings
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.publication import Publication
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.tables.outputs.targets import folder_of

if TYPE_CHECKING:
    from factored_mwem.pipeline.linked_publish import PackageFiles
    from factored_mwem.pipeline.linked_request import LinkedRequest
    from factored_mwem.pipeline.progress import Progress
    from factored_mwem.request.package import Package

TAKEN = frozenset(("policy", "marginals", "rows", "output", "no_model", "overwrite", "sample_seed", "ledger",
                   "dataset", "run_id"))  # fmt: skip
"""Settings that a package takes beside those of its policy; all others are of a single table."""


@dataclass(frozen=True, slots=True)
class PackageDone:
    """A finished release: `facts` is the line for scripts; `reused`: it had been finished before."""

    record: Statement
    files: PackageFiles
    facts: Mapping[str, Any]
    reused: bool


def run_package(
    package: Package,
    source: TableName,
    settings: ReleaseSettings,
    report: Callable[[Progress], None],
    warn: Callable[[str], None] = lambda _: None,
) -> PackageDone:
    """Release the tables of a package and write its files. What can be refused is refused before a row is
    read.
    """
    from factored_mwem.pipeline.linked import check_linked
    from factored_mwem.pipeline.linked_publish import PackageFiles, publish_package
    from factored_mwem.pipeline.linked_request import LinkedRequest

    order = marginals_alone(settings)
    place = folder_of(settings.output or f"{package_title(source)}.synthetic/")
    if place is None:
        raise InputError(f"-o {settings.output}: a package is a folder; end its name in a slash")
    names = [each.name for each in (*package.private, *package.public)]
    files = PackageFiles.of(place, names, ".parquet", model=not settings.no_model)
    read = [path for each in (*package.private, *package.public) for path in read_paths(each.source)]
    check_paths(files.all, [*([source] if isinstance(source, Path) else []), *read])
    request = LinkedRequest.of(
        package,
        order,
        settings.policy,
        domains=domains_beside(package),
        rows=settings.rows,
        sample_seed=settings.sample_seed,
    )
    check_linked(request)
    waiting = Publication(files, IfExists(settings.overwrite), settings.booking)
    with request.spending.booked(settings.booking) as run:
        earlier = waiting.reused(run)
        if (keeps := settings.keeps()) and earlier is None:
            warn(keeps)
        record = earlier or publish_package(request, run, waiting, report)
        facts = _facts(record, files) | facts_of(record, settings, reused=earlier is not None)
    return PackageDone(record, files, facts, earlier is not None)


def package_request(source: TableName, settings: ReleaseSettings) -> LinkedRequest | None:
    """The request of the package that a command names, checked by public facts; None for a single table."""
    from factored_mwem.cli.inputs import LinkFlags, package_at
    from factored_mwem.pipeline.linked_request import LinkedRequest

    package = package_at(source, LinkFlags())
    if package is None:
        return None
    domains = domains_beside(package)
    return LinkedRequest.of(package, marginals_alone(settings), settings.policy, domains=domains)


def package_title(source: TableName) -> str:
    """What the package is called, after its file."""
    return PurePath(str(source)).name.split(".")[0] or "package"


def marginals_alone(settings: ReleaseSettings) -> int:
    """The order of the marginals that are asked for. Raises InputError for what a package does not take."""
    check_alone(settings)
    return PAIRS if settings.marginals is None else settings.marginals


def check_alone(settings: ReleaseSettings) -> None:
    """Raises InputError for what a package does not take."""
    for name in sorted(OWN - TAKEN):
        if getattr(settings, name) != type(settings).model_fields[name].default:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} is for a single table; leave it out with a package of tables")


def domains_beside(package: Package) -> dict[str, Path]:
    """NAME.domain.json beside each table's file, where it is there."""
    beside = {each.name: _domain_beside(each.source) for each in package.private}
    return {name: path for name, path in beside.items() if path is not None}


def _domain_beside(source: Any) -> Path | None:
    """NAME.domain.json beside a table's file, if it is there."""
    path = domain_beside(source)
    return path if path is not None and path.exists() else None


def _facts(record: Statement, files: PackageFiles) -> dict[str, Any]:
    """The line for scripts."""
    assert record.output is not None  # as of every record that was written
    rows = {part.file: part.rows for part in record.output.parts}
    return {
        "output": str(files.folder),
        "tables": {name: rows[target.name] for name, target in files.tables.items()},
        "manifest": str(files.manifest),
        "model": str(files.model) if files.model is not None else None,
    }
