"""Publish: a release and its files, put in place one after the other, the manifest last."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from factored_mwem.errors import InputError, ResourceError
from factored_mwem.files import IfExists, ReleaseFiles, check_target, remove, sha256, sweep
from factored_mwem.ledger.run import Run
from factored_mwem.mechanisms.result import Report
from factored_mwem.pipeline.manifest import Manifest
from factored_mwem.pipeline.release import make
from factored_mwem.request import Request


def publish(request: Request, run: Run, files: ReleaseFiles, exists: IfExists, report: Report) -> Manifest:
    """Release and write, the manifest last. Where files are replaced, the old manifest is removed first."""
    if run.goes_on and exists is IfExists.REFUSE:  # an earlier attempt wrote what this one will
        exists = IfExists.VERIFY
    same = exists is IfExists.VERIFY
    check_targets(files.paths, exists)
    if same and files.manifest.exists() and not files.data.exists() and not _is_ours(run, files):
        raise InputError(f"{files.manifest} exists and is not this run's; use --overwrite or another -o")
    for path in files.paths if run.goes_on else ():
        sweep(path)
    made = make(request, run, report)
    kept = same and files.model is not None and files.model.exists()
    if files.model is not None:
        gone = (lambda: remove(files.manifest)) if exists is IfExists.REPLACE else (lambda: None)
        made.save(files.model, overwrite=exists, before=gone)
    try:
        manifest = made.write(files.data, overwrite=exists)
    except BaseException:
        if files.model is not None and not kept:
            remove(files.model)  # a model without its release would be taken for one
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
        return load_manifest(files.manifest) == manifest and sha256(files.data) == manifest.output.sha256
    return False


def _is_ours(run: Run, files: ReleaseFiles) -> bool:
    """Whether the manifest is one that this run wrote, and for this very file."""
    if not run.wrote(files.manifest):
        return False
    output = load_manifest(files.manifest).output
    return output is not None and output.file == files.data.name


def load_manifest(path: Path) -> Manifest:
    """The manifest in a file; ValueError where it is none."""
    return Manifest.model_validate_json(path.read_bytes())


def check_targets(targets: Iterable[Path], exists: IfExists) -> None:
    """InputError where one of them cannot be written."""
    for target in targets:
        check_target(target, exists)
