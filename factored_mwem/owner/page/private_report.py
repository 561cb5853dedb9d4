"""Private report: NOT PRIVATE. A page with a release's errors against the real table, its file named so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from factored_mwem.documents.material import ENDING, manifest_at, rows_beside
from factored_mwem.documents.page import figure, filled, fixed, percent, plain
from factored_mwem.documents.report import PRIVATE_MARK
from factored_mwem.domain.dialect import OUR_OWN, PLAIN, Dialect
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.files.files import IfExists
from factored_mwem.owner.evaluation.evaluate import Errors, evaluate
from factored_mwem.owner.evaluation.value_errors import ColumnErrors
from factored_mwem.owner.page.against import coded_pair, same_rows, singles, worst_pairs
from factored_mwem.owner.page.quality import k_marginal_score, sdmetrics_quality
from factored_mwem.tables.inputs.formats import TEXT_SUFFIXES
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.inputs.text_form import Records
from factored_mwem.tables.outputs.release_files import report_of
from factored_mwem.tables.outputs.targets import LocalFile, target_of, write_text

WIDE = 25
"""Columns beyond which errors are of up to two columns only: there are too many sets of three."""


def private_report(
    manifest: str | Path,
    table: Any,
    path: str | Path | None = None,
    *,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    records: Records = "checked",
    dialect: Dialect = PLAIN,
) -> str:
    """NOT PRIVATE. Write a page with the errors of a release's rows against the real `table`.

    `manifest`: the release's, its rows beside it. `path`: by default NAME.NOT-PRIVATE.html in the current
    folder, which may not be where public files lie; any other name must say NOT-PRIVATE, too. `columns`:
    those to compare. `records`, `dialect`: how a text table is written, as in `evaluate`; what is not said
    there is as the release was told.

    Returns: the path of the page. Raises InputError if its name does not say NOT-PRIVATE, is a public file's,
    or the rows are not beside the manifest.

    >>> import pyarrow as pa
    >>> from factored_mwem import private_report, release
    >>> people = pa.table({"age": [0, 1] * 50})
    >>> _ = release(people, 1, domain={"age": 2}, rows=100).write("again.parquet")
    >>> private_report("again.manifest.json", people)
    'again.NOT-PRIVATE.html'
    """
    stated = Path(manifest)
    target = target_of(
        path if path is not None else f"{stated.name.removesuffix(ENDING)}.{PRIVATE_MARK}.html"
    )
    if PRIVATE_MARK not in target.name:
        raise InputError(
            f"{target}: a page made with the private table must say {PRIVATE_MARK} in its name; name it so"
        )
    if target.key == report_of(LocalFile(stated)).key or target.key == LocalFile(stated).key:
        raise InputError(f"{target} is where a public file of the release goes; choose another path")
    exists = IfExists(overwrite)
    target.check(exists)
    published, domain = manifest_at(stated)
    told = published.asked_policy.dialect.beside(domain.dialect).model_dump(exclude_none=True)
    dialect = Dialect(**told | dialect.model_dump(exclude_none=True))
    rows = rows_beside(stated, published)
    if rows is None:
        raise InputError(f"the rows that {stated} names are not beside it; put them there")
    synthetic = open_table(rows, "multiline" if rows.suffix in TEXT_SUFFIXES else "checked", OUR_OWN)
    domain = domain if columns is None else domain.project(columns)
    text = _page(rows.name, domain, table, synthetic, records=records, dialect=dialect)
    write_text(target, text, exists)
    return str(target)


def _page(
    title: str, domain: Domain, real: Any, synthetic: Any, *, records: Records, dialect: Dialect
) -> str:
    """NOT PRIVATE. The HTML of the page; `real` and `synthetic` are tables."""
    pair, notes = coded_pair(domain, real, synthetic, records, dialect)
    order = min(3 if len(pair.domain) <= WIDE else 2, len(pair.domain))
    errors = evaluate(real, synthetic, order, columns=pair.domain.names, records=records, dialect=dialect)
    return filled(
        "private.html",
        title=plain(title, 80),
        rows=[f"{len(codes[0]):,}" for codes in (pair.ours, pair.theirs)],
        by_order=[
            (f"{k} column{'s' * (k > 1)}", fixed(mean, 4), fixed(worst, 4))
            for k, (mean, worst) in errors.by_order.items()
        ],
        score=f"{k_marginal_score(errors.by_order[order][0]):.0f}",
        order=order,
        same=[percent(share) for share in same_rows(pair)],
        columns=len(errors.columns),
        quality=sdmetrics_quality(domain, real, synthetic),
        fixed=fixed,
        values=[_values(column) for column in errors.columns],
        worst=[(" x ".join(plain(name, 40) for name in clique), fixed(e, 4)) for clique, e in errors.worst],
        correlations=_correlations(errors),
        singles=list(singles(pair)),
        worst_pairs=list(worst_pairs(pair)) if len(pair.domain) > 1 else [],
        notes=[plain(note, 300) for note in dict.fromkeys((*errors.notes, *notes))],
    )


def _values(column: ColumnErrors) -> tuple[str, ...]:
    """A column's line in the table of values; numbers of both tables stand as real / synthetic."""
    spread = column.spread
    means = " / ".join(_short(v) for v in spread.mean) if spread is not None else "-"
    ks = fixed(spread.kolmogorov_smirnov, 3) if spread is not None else "-"
    far = fixed(spread.wasserstein, 3) if spread is not None else "-"
    missing = " / ".join(percent(share) for share in column.missing)
    return plain(column.name), column.kind, fixed(column.distance, 3), ks, far, means, missing


def _short(value: Any) -> str:
    return plain(value, 26) if isinstance(value, str) else figure(value, 4)


def _correlations(errors: Errors) -> list[tuple[str, ...]]:
    return [
        (f"{plain(c.columns[0], 40)} x {plain(c.columns[1], 40)}", fixed(c.real, 3), fixed(c.synthetic, 3))
        for c in errors.correlations[:10]
    ]
