"""Publish: a release and its files, put in place one after the other, the manifest last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from factored_mwem.errors import FmwemError, InputError, ResourceError
from factored_mwem.files import IfExists
from factored_mwem.ledger.run import Run
from factored_mwem.mechanisms.result import Report
from factored_mwem.pipeline.manifest import Manifest
from factored_mwem.pipeline.model_file import save
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.writing import write_release
from factored_mwem.request import Request
from factored_mwem.tables.release_files import ReleaseFiles
from factored_mwem.tables.targets import Target, write_text


@dataclass(frozen=True, slots=True)
class Writing:
    """How files are written: by so many `workers`; `page` makes the text of the report, if there is to be
    one, from the release and the manifest that its rows have.
    """

    exists: IfExists
    workers: int
    page: Callable[[Release, Manifest], str] | None = None


def publish(request: Request, run: Run, files: ReleaseFiles, how: Writing, report: Report) -> Manifest:
    """Release and write, the manifest last. Where files are replaced, the old manifest is removed first."""
    exists = how.exists
    if run.goes_on and exists is IfExists.REFUSE:  # an earlier attempt wrote what this one will
        exists = IfExists.VERIFY
    same = exists is IfExists.VERIFY
    files.check(exists)
    if same and files.manifest.there() and not files.data.there() and not _is_ours(run, files):
        raise InputError(f"{files.manifest} exists and is not this run's; use --overwrite or another -o")
    for output in files.all if run.goes_on else ():
        output.sweep()
    made = make(request, run, report)
    beside = [output for output in (files.model, files.report) if output is not None]
    kept = [output for output in beside if same and output.there()]

    def write_page(manifest: Manifest) -> None:
        if files.report is not None and how.page is not None:
            write_text(files.report, how.page(made, manifest), exists)

    if files.model is not None:
        gone = files.manifest.remove if exists is IfExists.REPLACE else (lambda: None)
        save(made, files.model, exists, gone)
    try:
        rows = made.drawn()
        manifest = write_release(rows, made.manifest, files.data, exists, how.workers, before=write_page)
    except BaseException:
        for output in beside:
            if output not in kept:
                with contextlib.suppress(FmwemError):  # what failed first is what to say
                    output.remove()  # a model without its release would be taken for one
        raise
    if not _in_place(manifest, files):
        raise ResourceError(
            f"another process wrote {files.data} at the same time; give every job its own -o, and run "
            "this one again"
        )
    run.finish(files)
    return manifest


def _in_place(manifest: Manifest, files: ReleaseFiles) -> bool:
    """Whether data and manifest are the ones just written, and not those of another process that writes there
    too.
    """
    assert manifest.output is not None  # as of every manifest that was written
    with contextlib.suppress(OSError, ValueError):
        return load_manifest(files.manifest) == manifest and files.data.sha256() == manifest.output.sha256
    return False


def _is_ours(run: Run, files: ReleaseFiles) -> bool:
    """Whether the manifest is one that this run wrote, and for this very file."""
    if not run.wrote(files.manifest):
        return False
    output = load_manifest(files.manifest).output
    return output is not None and output.file == files.data.name


def load_manifest(target: Target) -> Manifest:
    """The manifest in a file; ValueError where it is none."""
    return Manifest.model_validate_json(target.read())
