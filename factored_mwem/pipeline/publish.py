"""Publish: a release and its files, put in place one after the other, the manifest last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from factored_mwem.errors import InputError, ResourceError
from factored_mwem.files.files import IfExists
from factored_mwem.ledger.run import Run
from factored_mwem.mechanisms.rounds import Report
from factored_mwem.pipeline.publication import Publication
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.pipeline.saving.model_file import save
from factored_mwem.pipeline.writing import write_release
from factored_mwem.request.request import Request
from factored_mwem.tables.outputs.release_files import ReleaseFiles
from factored_mwem.tables.outputs.targets import Target, write_text


@dataclass(frozen=True, slots=True)
class Writing:
    """How files are written: by so many `workers`; `page` makes a report, of the rows' manifest."""

    workers: int
    page: Callable[[Release, Manifest], str] | None = None


def publish(
    request: Request, run: Run, place: Publication[ReleaseFiles], how: Writing, report: Report
) -> Manifest:
    """Release and write, the manifest last. Where files are replaced, the old manifest is removed first."""
    with place.of(run):
        files, exists = place.files, place.exists
        orphaned = files.manifest.there() and not files.data.there()
        if exists is IfExists.VERIFY and orphaned and not _is_ours(run, files):
            raise InputError(f"{files.manifest} exists and is not this run's; use --overwrite or another -o")
        release = make(request, run, report)
        release = replace(release, manifest=place.stated(release.manifest))

        def write_page(manifest: Manifest) -> None:
            if files.report is not None and how.page is not None:
                with place.putting(files.report):
                    write_text(files.report, how.page(release, manifest), exists)

        if files.model is not None:
            with place.putting(files.model):
                save(release, files.model, exists, place.replacing)
        manifest = write_release(release.drawn(), release.manifest, place, how.workers, before=write_page)
        if not _in_place(manifest, files):
            place.keep()  # by now they may be those of the other process
            raise ResourceError(
                f"another process wrote {files.data} at the same time; give every job its own -o, and run "
                "this one again"
            )
    return manifest


def _in_place(manifest: Manifest, files: ReleaseFiles) -> bool:
    """Whether data and manifest are those just written, not those of another process in the same place."""
    assert manifest.output is not None  # as of every manifest that was written
    with contextlib.suppress(OSError, ValueError):
        return load_manifest(files.manifest) == manifest and files.data.sha256() == manifest.output.sha256
    return False


def _is_ours(run: Run, files: ReleaseFiles) -> bool:
    """Whether the manifest is one that this run wrote, and for this very file."""
    digest = files.manifest.sha256()
    if not any(digest in digests.values() for digests in run.written):
        return False
    output = load_manifest(files.manifest).output
    return output is not None and output.file == files.data.name


def load_manifest(target: Target) -> Manifest:
    """The manifest in a file; raises ValueError if it is none."""
    return Manifest.model_validate_json(target.read())
