"""Report: a release on one HTML page that anybody may see; no private table is read for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from factored_mwem.documents.lawyer import lawyer_page
from factored_mwem.documents.material import Material, beside, material_at, material_of, other_record
from factored_mwem.documents.other import record_page
from factored_mwem.documents.public_page import public_page
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.record.statement import KINDS
from factored_mwem.pipeline.result import Release
from factored_mwem.tables.outputs.release_files import report_of
from factored_mwem.tables.outputs.targets import LocalFile, Target, target_of, write_text

PAGES: dict[str | None, Callable[[Material], str]] = {None: public_page, "lawyer": lawyer_page}
"""The public pages of a release, by who reads them."""
PRIVATE_MARK = "NOT-PRIVATE"
"""The mark in the name of every page that was made with the private table, and of no other page."""


def report(
    release: Release | str | Path,
    path: str | Path | None = None,
    *,
    model: str | Path | None = None,
    reader: str | None = None,
    overwrite: bool = False,
) -> str:
    """Write a page about a release: what was promised, what it cost, how good it is.

    For `reader` "lawyer", and of a release only, in plain words for those who know no statistics.

    `release`: one in memory, or its manifest's file, or the record of a graph, a sketch, a statistic or a
    session, whose page says what was promised, spent and taken for granted. Beside a release's file the rows
    and the model are looked for, the latter also at `model`; its replicates are kept, as those of answers
    are. `path`: of the page, a URI too, by default NAME.report.html (NAME.lawyer.html) beside the manifest.
    Public facts only: the same files give the same bytes.

    Returns: the path or URI of the page. Raises InputError if there is no such manifest, or the page would
    replace a file of the release.

    >>> import pyarrow as pa
    >>> from factored_mwem import release, report
    >>> ages = release(pa.table({"age": [0, 1] * 50}), 1, domain={"age": 2}, rows=100)
    >>> _ = ages.write("ages.parquet")
    >>> report("ages.manifest.json")
    'ages.report.html'
    >>> report(ages, "ages.html")
    'ages.html'
    """
    if reader not in PAGES:
        raise InputError(f"--for {reader}: lawyer is the only reader; without it, everybody is")
    if isinstance(release, Release):
        if path is None or model is not None:
            raise InputError("for a release in memory, give the path of its page, and no model")
        target = _public_place(target_of(path), [], overwrite)
        write_text(target, PAGES[reader](material_of(release)), IfExists(overwrite))
        return str(target)
    manifest, model_file = Path(release), None if model is None else Path(model)
    if not manifest.name:
        raise InputError(f"no manifest {manifest}")  # a folder: there is no name to put a page beside
    target = target_of(path) if path is not None else report_of(LocalFile(manifest), reader or "report")
    target = _public_place(target, [each for each in (manifest, model_file) if each is not None], overwrite)
    if target.key in [LocalFile(each).key for each in beside(manifest)]:
        raise InputError(f"{target} is a file of the release; choose another path")
    record = other_record(manifest)
    if record is None:
        text = PAGES[reader](material_at(manifest, model_file))
    elif model is not None:
        raise InputError("a model belongs to a release; leave out --model")
    elif reader is not None:
        what = KINDS[record.kind].released
        raise InputError(f"{what}: no page for a {reader}; without --for the page is for everybody")
    else:
        text = record_page(record, manifest.name)
    write_text(target, text, IfExists(overwrite))
    return str(target)


def _public_place(target: Target, inputs: Sequence[Path], overwrite: bool) -> Target:
    """The place of a public page. Raises InputError if its name says NOT-PRIVATE, or a file is there."""
    if PRIVATE_MARK in target.name:
        raise InputError(f"{target} says {PRIVATE_MARK}, but this page is public; name it otherwise")
    if target.key in [LocalFile(each).key for each in inputs]:
        raise InputError(f"{target} is an input; choose another path")
    target.check(IfExists(overwrite))
    return target


def page_of(release: Release, manifest: Manifest) -> str:
    """The page of a release whose rows have just been written with this manifest."""
    return public_page(material_of(release, manifest))
