"""Private page: NOT PRIVATE. A release beside the real table, for the owner's eyes."""

from __future__ import annotations

from typing import Any

from factored_mwem.documents.against import coded_pair, singles, worst_pairs
from factored_mwem.documents.page import filled
from factored_mwem.documents.quality import k_marginal_score, sdmetrics_quality
from factored_mwem.documents.wording import figure, fixed, percent, plain
from factored_mwem.domain.dialect import Dialect
from factored_mwem.domain.domain import Domain
from factored_mwem.pipeline.evaluate import Errors, evaluate
from factored_mwem.pipeline.value_errors import ColumnErrors
from factored_mwem.tables.text_form import Records

WIDE = 25
"""Columns beyond which errors are of up to two columns only: there are too many sets of three."""


def private_page(
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
