"""Report: a release on one HTML page that anybody may see; no private table is read for it."""

from __future__ import annotations

from pathlib import Path

from factored_mwem.documents.material import beside, material_at, material_of, other_record
from factored_mwem.documents.other import record_page
from factored_mwem.documents.public_page import public_page
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists
from factored_mwem.pipeline.record.manifest import Manifest
from factored_mwem.pipeline.result import Release
from factored_mwem.tables.outputs.release_files import report_of
from factored_mwem.tables.outputs.targets import LocalFile, target_of, write_text

PRIVATE_MARK = "NOT-PRIVATE"
"""In the name of every page that was made with the private table, and of no other."""


def report(
    made: Release | str | Path,
    path: str | Path | None = None,
    *,
    model: str | Path | None = None,
    overwrite: bool = False,
) -> str:
    """Write a page about a release: what was promised, what it cost, how good it is.

    `made`: a release, or its manifest's file, or the record of a graph, a sketch, a statistic or a session,
    whose page says what was promised, spent and taken for granted. Beside a release's file the rows and the
    model are looked for, the latter also at `model`. `path`: of the page, a URI too, by default
    NAME.report.html beside the manifest. Public facts only: the same files give the same bytes.

    Returns: the path or URI of the page.

    >>> import pyarrow as pa
    >>> from factored_mwem import release, report
    >>> made = release(pa.table({"age": [0, 1] * 50}), 1, domain={"age": 2}, rows=100)
    >>> _ = made.write("ages.parquet")
    >>> report("ages.manifest.json")
    'ages.report.html'
    >>> report(made, "ages.html")
    'ages.html'
    """
    if isinstance(made, Release) and (path is None or model is not None):
        raise InputError("a report of a release in memory needs the path of its page, and no model")
    if isinstance(made, str | Path) and not Path(made).name:
        raise InputError(f"no manifest {made}")  # a folder: there is no name to put a page beside
    inputs = [LocalFile(Path(each)) for each in (made, model) if isinstance(each, str | Path)]
    target = target_of(path) if path is not None else report_of(inputs[0])
    if PRIVATE_MARK in target.name:
        raise InputError(f"{target} says {PRIVATE_MARK}, but this page is public; name it otherwise")
    if target.key in [each.key for each in inputs]:
        raise InputError(f"{target} is an input; choose another path")
    exists = IfExists(overwrite)
    target.check(exists)
    if isinstance(made, Release):
        text = public_page(material_of(made))
    else:
        stated = Path(made)
        if target.key in [LocalFile(each).key for each in beside(stated)]:
            raise InputError(f"{target} is a file of the release; choose another path")
        record = other_record(stated)
        if record is not None and model is not None:
            raise InputError("a model belongs to a release; leave out --model")
        if record is not None:
            text = record_page(record, stated.name)
        else:
            text = public_page(material_at(stated, None if model is None else Path(model)))
    write_text(target, text, exists)
    return str(target)


def page_of(made: Release, manifest: Manifest) -> str:
    """The page of a release whose rows have just been written with this manifest."""
    return public_page(material_of(made, manifest))
