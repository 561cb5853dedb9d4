"""Job: one run of a command from its settings, files included. The command line only parses and prints."""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factored_mwem.cli.inputs import (
    TableName,
    addresses,
    domain_beside,
    domain_path,
    patterns,
    read_paths,
    source_of,
    title,
)
from factored_mwem.cli.settings import ReleaseSettings
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists
from factored_mwem.ledger.run import Run
from factored_mwem.pipeline.progress import Progress
from factored_mwem.pipeline.publication import Publication, reusable
from factored_mwem.pipeline.publish import Writing, load_manifest, publish
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.statement import Statement
from factored_mwem.pipeline.release import check_request, spending_of
from factored_mwem.pipeline.writing import workers_of
from factored_mwem.request.request import Request
from factored_mwem.tables.outputs.formats import output_of
from factored_mwem.tables.outputs.release_files import (
    RecordFiles,
    ReleaseFiles,
    manifest_of,
    model_of,
    report_of,
)
from factored_mwem.tables.outputs.targets import Destination, Folder, Target, target_of, write_text
from factored_mwem.workload.workload import Workload

if TYPE_CHECKING:  # modules that a release does not need are imported where they are used
    from factored_mwem.pipeline.learn_domain import LearntDomain


@dataclass(frozen=True, slots=True)
class Done:
    """A finished release: `facts` is the line for scripts.

    `reused`: it had been finished before, and its files are as they were. `stale`: files of the release that
    this one took the place of, which lie where its own would.
    """

    manifest: Manifest
    files: ReleaseFiles
    domain_from: str
    facts: dict[str, Any]
    reused: bool
    stale: Sequence[Target] = ()


def run(
    table: TableName,
    settings: ReleaseSettings,
    report: Callable[[Progress], None],
    warn: Callable[[str], None] = lambda _: None,
) -> Done:
    """Release `table` and write its files. Whatever can be refused is refused before a row is read. `warn` is
    called beforehand if it will take long, or if nobody said what to keep.
    """
    files, writing = _files(table, settings), _writing(settings)
    path = domain_path(table, settings.domain)
    check_files(files.all, table, settings, path, settings.workload)
    request = request_of(
        table, settings, rows=settings.rows, sample_seed=settings.sample_seed, spill=settings.spill
    )
    if (warning := _check(request)) is not None:
        warn(warning)
    place = Publication(files, IfExists(settings.overwrite), settings.booking)
    with spending_of(request).booked(settings.booking) as running:
        reused = _reused(running, files, settings)
        if reused is not None:
            manifest, files = load_manifest(reused.manifest), reused
        else:
            if keeps := settings.keeps(max(request.workload.orders, default=0)):
                warn(keeps)
            manifest = publish(request, running, place, writing, report)
        facts = _facts(manifest, files, path) | facts_of(manifest, settings, reused=reused is not None)
        if running.resumed:
            facts["resumed"] = running.resumed
    declared = f"declared in {path}" if path else "none declared"
    return Done(manifest, files, declared, facts, reused is not None, stale_beside(files))


def request_of(table: TableName, settings: ReleaseSettings, **more: Any) -> Request:
    """The request that the settings make of a table, which reads only its header or schema. With --push-down
    the rows stay in their database and are counted there. Where nothing was asked for, one column is kept
    as it is, for it has no pairs.
    """
    source: Any = table
    if settings.push_down:
        from factored_mwem.tables.backends.sql import push_down

        source = push_down(table)
    request = Request.of(
        source,
        settings.workload_of(settings.marginals),
        settings.policy,
        domain=domain_path(table, settings.domain),
        columns=settings.columns,
        **public_of(settings),
        **more,
    )
    if settings.keeps() and len(_names(request)) == 1:
        return replace(request, workload=Workload.marginals(1))
    return request


def public_of(settings: ReleaseSettings) -> dict[str, Any]:
    """Which columns are public, and the table that says so."""
    table = None if settings.public is None else source_of([settings.public])
    return {"public_columns": settings.public_columns, "public": table}


def _check(request: Request) -> str | None:
    """What to say of a release that takes long. Raises InputError for a wrong column, workload or budget:
    that is named before an output that exists.
    """
    for name in request.columns or ():
        request.visible.check_column(name)
    request.workload.check(_names(request))
    return check_request(request)


def _names(request: Request) -> list[str]:
    """The columns of the release, by public facts."""
    by = request.promise.privacy_id
    names = request.columns or request.visible.schema.names
    return [name for name in names if name != by]


def facts_of(record: Statement, settings: ReleaseSettings, *, reused: bool) -> dict[str, Any]:
    """The fields of the line for scripts after every command that spends: the promise, and those of the
    ledger, if there is one.
    """
    g = record.guarantee
    facts: dict[str, Any] = {"epsilon": g.epsilon, "delta": g.delta, "spent_epsilon": g.spent_epsilon}
    facts["unit"] = g.unit
    if record.replaced is not None:
        facts["replaced"] = record.replaced.model_dump()
    if settings.ledger:
        facts |= {"dataset": settings.dataset, "run_id": settings.run_id, "reused": reused}
    return facts


def stale_beside(files: ReleaseFiles) -> list[Target]:
    """Models and reports of an earlier release in the default places, which this release does not write."""
    own = {target_of(file).key for file in files.all if not isinstance(file, Folder)}
    places = (model_of(files.data), report_of(files.manifest))
    return [place for place in places if place.key not in own and place.there()]


def _facts(manifest: Manifest, files: ReleaseFiles, domain: Path | None) -> dict[str, Any]:
    """The line for scripts."""
    assert manifest.output is not None  # as of every manifest that was written
    return {
        "output": str(files.data),
        "manifest": str(files.manifest),
        "model": str(files.model) if files.model is not None else None,
        **({"report": str(files.report)} if files.report is not None else {}),
        "rows": manifest.output.rows,
        "neighbours": manifest.guarantee.neighbours,
        "parts": [len(c) for c in manifest.components],
        "rounds": manifest.rounds,
        "domain": str(domain) if domain else "learnt",
    }


def _writing(settings: ReleaseSettings) -> Writing:
    """How the files of a release are written. The page's code is loaded now, before anything is spent."""
    workers = workers_of(settings.workers)
    if not settings.report:
        return Writing(workers)
    from factored_mwem.documents.report import page_of

    return Writing(workers, page_of)


def _files(table: TableName, settings: ReleaseSettings) -> ReleaseFiles:
    """Where all files of a release go. The model is kept unless that is refused: whoever needs it later, and
    has none, pays again.
    """
    where = output_of(settings.output or f"{title(table)}.synthetic.parquet")
    model = target_of(settings.model) if settings.model else None if settings.no_model else model_of(where)
    manifest = manifest_of(where)
    files = ReleaseFiles(where, manifest, model, report_of(manifest) if settings.report else None)
    if isinstance(where, Folder) and files.model and where.file(files.model.name).key == files.model.key:
        raise InputError("the model would lie among the parts of the rows; choose another path for it")
    return files


def _reused(running: Run, files: ReleaseFiles, settings: ReleaseSettings) -> ReleaseFiles | None:
    """The files of a run that was finished before, if they are as it left them. Where nobody says anything of
    a model, those of a run that kept none will do.
    """
    for kept in (files, *([replace(files, model=None)] if settings.model is None else ())):
        if reusable(running, kept):
            return kept
    return None


def check_files(
    outputs: Sequence[Destination], table: TableName, settings: ReleaseSettings, *read: Path | str | None
) -> None:
    """Raise InputError if an output is the table, the ledger or another file that is `read`."""
    ledger = None if settings.ledger is None else settings.ledger.path
    public = [] if settings.public is None else read_paths(source_of([settings.public]))
    check_paths(outputs, [*read_paths(table), *addresses(table), *public, *read, ledger], patterns(table))


def check_paths(
    outputs: Sequence[Destination], inputs: Sequence[Path | str | None], globs: Sequence[str] = ()
) -> None:
    """Raise InputError if an output is an input, or would be an input of the next release."""
    keys = [target_of(output).key for output in outputs if not isinstance(output, Folder)]
    if len(set(keys)) < len(keys):
        raise InputError("two of the files to write have the same path; every output needs one of its own")
    taken = {target_of(i).key if isinstance(i, str) else os.path.realpath(i) for i in inputs if i}
    for output in outputs:
        key = output.place.key if isinstance(output, Folder) else target_of(output).key
        inside = isinstance(output, Folder) and any(path.startswith(f"{key}/") for path in taken)
        if key in taken or inside:
            raise InputError(f"{output} {'holds' if inside else 'is'} an input; choose another path")
        if any(key.startswith(f"{path}/") for path in taken if not os.path.isfile(path)):
            raise InputError(f"{output} lies in the folder that is the table; choose another path")
        fits = next((each for each in globs if fnmatch.fnmatch(key, each)), None)
        if fits is not None:
            raise InputError(
                f"{output} fits the table's pattern, so it would be read next time; choose another"
            )


def learn(table: TableName, settings: ReleaseSettings) -> tuple[LearntDomain, dict[str, Any]]:
    """Learn a domain and write its file; returns the domain and the line for scripts."""
    from factored_mwem.pipeline.learn_domain import LearningRequest, make_domain

    beside = domain_beside(table) or f"{title(table)}.domain.json"
    output = target_of(settings.output or str(beside))
    files = RecordFiles(manifest_of(output), output)
    check_files(files.all, table, settings)
    request = LearningRequest.of(table, settings.policy, settings.columns)
    place = Publication(files, IfExists(settings.overwrite), settings.booking)
    with request.spending.booked(settings.booking) as running:
        reused = reusable(running, files)
        with place.of(running):
            learnt = make_domain(request, running)
            text = json.dumps(learnt.to_dict(), indent=1, ensure_ascii=False) + "\n"
            place.put(output, lambda exists: write_text(output, text, exists), learnt.statement)
    facts = {"domain": str(output), "columns": len(learnt.domain), "dropped": list(learnt.dropped)}
    return learnt, facts | facts_of(learnt.statement, settings, reused=reused)
